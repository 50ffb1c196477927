//! The validated, immutable configuration. It is built once from smb.conf and replaced as a whole on reload.
//!
//! Fields are named after their smb.conf parameters.

mod acl_store;
pub mod hosts;
pub mod limits;
mod people;
pub mod snapshots;
pub mod stream_layout;
pub mod template;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proto::auth::ntlm::TargetNames;

pub use acl_store::{AclStore, Entries, FEWEST as FEWEST_ENTRIES};
pub use hosts::HostAccess;
pub use limits::Limits;
pub use people::{Homes, UserPattern, UsernameMap, is_home};
pub use template::Template;

use crate::domain::Membership;
use crate::vfs::Identity;
use snapshots::{Snapshots, UtcOffset};
use stream_layout::Layout;

/// The whole configuration of a running server.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `netbios name`: the server's name, in upper case.
    pub netbios_name: String,
    /// `workgroup`: the domain name shown for accounts of this server, in upper case.
    pub workgroup: String,
    /// `security = ads`: the domain that the server is a member of; `None` for a standalone server.
    pub membership: Option<Membership>,
    /// `server string`: the comment shown when browsing.
    pub server_string: String,
    /// `server min protocol`.
    pub server_min_protocol: Protocol,
    /// `server max protocol`.
    pub server_max_protocol: Protocol,
    /// `server signing`.
    pub server_signing: Signing,
    /// `server smb encrypt` of the global section, the default of every share.
    pub server_smb_encrypt: Encryption,
    /// `smb2 max read`, bytes.
    pub smb2_max_read: u32,
    /// `smb2 max write`, bytes.
    pub smb2_max_write: u32,
    /// `smb2 max trans`, bytes.
    pub smb2_max_trans: u32,
    /// `smb2 max credits`: maximum number of credits of one connection.
    pub smb2_max_credits: u16,
    /// `server smb3 encryption algorithms`, in order of preference.
    pub server_smb3_encryption_algorithms: Vec<EncryptionAlgorithm>,
    /// `server smb3 signing algorithms`, in order of preference.
    pub server_smb3_signing_algorithms: Vec<SigningAlgorithm>,
    /// `server multi channel support`: a session may be used over several connections.
    pub server_multi_channel_support: bool,
    /// `hosts allow` and `hosts deny` of the global section: the addresses that may connect at all.
    pub hosts: HostAccess,
    /// `smb2 leases`: leases are offered.
    pub smb2_leases: bool,
    /// Not `smb2 disable lock sequence checking`: a repeated LOCK request is not executed twice.
    pub lock_sequence_checking: bool,
    /// `lock spin time`: the first pause between two attempts to get a lock that a local program holds.
    pub lock_spin_time: Duration,
    /// `smb3 directory leases`: leases on directories are offered.
    pub smb3_directory_leases: bool,
    /// Not `ntlm auth = disabled`: NTLM is offered and accepted.
    pub ntlm: bool,
    /// `frevo:spn check`: whether the server name in an NTLM logon is checked.
    pub spn_check: SpnCheck,
    /// `frevo:spn names`: names of the server in addition to its own name and its addresses.
    pub spn_names: Vec<String>,
    /// `min domain uid`: the lowest uid of a user authenticated by a domain or a realm.
    pub min_domain_uid: u32,
    /// `map to guest`.
    pub map_to_guest: MapToGuest,
    /// `guest account`, resolved; `None` if the host has no such user. Guest logons are not possible then.
    pub guest: Option<Guest>,
    /// `restrict anonymous`: with 0 anonymous users may open the samr and lsarpc services, with 1 they may only list
    /// shares, with 2 they cannot connect.
    pub restrict_anonymous: u8,
    /// `change notify`: clients are notified of changes in directories.
    pub change_notify: bool,
    /// `kernel change notify`: clients are also notified of changes by local programs.
    pub kernel_change_notify: bool,
    /// The offset of local time from UTC, for `%t` in the path of a share.
    pub utc_offset: UtcOffset,
    /// `[homes]`: the users' home directories as shares.
    pub homes: Option<Arc<dyn Homes>>,
    /// `username map`.
    pub username_map: Option<Arc<dyn UsernameMap>>,
    /// The shares by folded name ([`Policy::share`] looks one up), without IPC$.
    pub shares: BTreeMap<String, Arc<Share>>,
    /// The limits on the resources that clients can use.
    pub limits: Limits,
}

impl Policy {
    /// Returns the names of the server in its challenge. The domain name is the server itself, or the domain that it
    /// is a member of.
    pub(crate) fn target_names(&self) -> TargetNames {
        let computer = self.netbios_name.to_lowercase();
        let names = |netbios_domain: &str, dns_computer: String, dns_domain: String| TargetNames {
            netbios_computer: self.netbios_name.clone(),
            netbios_domain: netbios_domain.to_owned(),
            dns_computer,
            dns_domain,
            domain_joined: self.membership.is_some(),
        };
        match &self.membership {
            None => names(&self.netbios_name, computer, String::new()),
            Some(membership) if membership.realm.is_empty() => names(&membership.workgroup, computer, String::new()),
            Some(membership) => {
                let domain = membership.dns_domain();
                names(&membership.workgroup, format!("{computer}.{domain}"), domain)
            }
        }
    }

    /// Returns the share called `name`, ignoring case.
    pub fn share(&self, name: &str) -> Option<&Arc<Share>> {
        self.shares.get(&fold(name))
    }
}

/// Returns the key of a share's name. Names are compared ignoring case.
pub fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// The identity for anonymous and failed logons that the configuration permits.
#[derive(Clone, Debug)]
pub struct Guest {
    /// `guest account`.
    pub name: String,
    /// The Linux user.
    pub identity: Arc<Identity>,
}

/// One share.
#[derive(Clone, Debug)]
pub struct Share {
    /// The section's name, as written.
    pub name: String,
    /// `path`, absolute. If it has variables that depend on the session, the text as written; see `path_template`.
    pub path: std::path::PathBuf,
    /// `path` if it depends on the session; `None` if `path` is the path.
    pub path_template: Option<Template>,
    /// `comment`.
    pub comment: String,
    /// `browseable`: shown in listings.
    pub browseable: bool,
    /// `available`: may be connected to.
    pub available: bool,
    /// `read only`.
    pub read_only: bool,
    /// `guest ok`.
    pub guest_ok: bool,
    /// `guest only`: all users act as the guest. Requires `guest_ok`.
    pub guest_only: bool,
    /// `hosts allow` and `hosts deny` of the share, in addition to those of the server.
    pub hosts: HostAccess,
    /// `valid users`; if empty, all users may connect.
    pub valid_users: Vec<UserPattern>,
    /// `invalid users`.
    pub invalid_users: Vec<UserPattern>,
    /// `read list`: users who may only read, regardless of `read only`.
    pub read_list: Vec<UserPattern>,
    /// `write list`: users who may write, regardless of `read only`.
    pub write_list: Vec<UserPattern>,
    /// `admin users`: users who act as root.
    pub admin_users: Vec<UserPattern>,
    /// `force user`, resolved.
    pub force_user: Option<Arc<Identity>>,
    /// `force group`, resolved to its gid.
    pub force_group: Option<u32>,
    /// `force group = +group`: applies only to users who are members of the group.
    pub force_group_members_only: bool,
    /// `create mask`.
    pub create_mask: u32,
    /// `force create mode`.
    pub force_create_mode: u32,
    /// `directory mask`.
    pub directory_mask: u32,
    /// `force directory mode`.
    pub force_directory_mode: u32,
    /// `case sensitive`: `auto` and `no` both mean case-insensitive, as in Windows.
    pub case_sensitive: bool,
    /// `follow symlinks`.
    pub follow_symlinks: bool,
    /// `wide links`.
    pub wide_links: bool,
    /// `hide dot files`.
    pub hide_dot_files: bool,
    /// `hide files`.
    pub hide_files: Vec<String>,
    /// `veto files`.
    pub veto_files: Vec<String>,
    /// `delete veto files`.
    pub delete_veto_files: bool,
    /// `hide unreadable`.
    pub hide_unreadable: bool,
    /// `honor change notify privilege`: recursive watches report only names in directories that their user may list.
    pub honor_change_notify_privilege: bool,
    /// `hide special files`.
    pub hide_special_files: bool,
    /// `store dos attributes`.
    pub store_dos_attributes: bool,
    /// `map archive`: the owner's x bit, for files without stored attributes.
    pub map_archive: bool,
    /// `map system`: the group's x bit.
    pub map_system: bool,
    /// `map hidden`: the x bit of others.
    pub map_hidden: bool,
    /// `map read only` = yes: a file without the owner's w bit has READONLY.
    pub map_read_only: bool,
    /// `delete readonly`: files with READONLY may be deleted.
    pub delete_readonly: bool,
    /// `dos filemode`: users who may write a file may also change its mode.
    pub dos_filemode: bool,
    /// `vfs objects = acl_xattr`: security descriptors are stored; `None` if only Linux permissions apply.
    pub acls: Option<StoredAcls>,
    /// `frevo:acl store`: the synthesized descriptors that are stored. Only used with `acls`.
    pub acl_store: AclStore,
    /// `inherit owner`: the owner of new files.
    pub inherit_owner: InheritOwner,
    /// `inherit permissions`: new directories have the mode of their parent, and new files its `r` and `w` bits,
    /// instead of the masks.
    pub inherit_permissions: bool,
    /// `acl flag inherited canonicalization`: the AUTO_INHERITED flags are kept only if the client requested
    /// inheritance, as in Windows.
    pub acl_flag_inherited_canonicalization: bool,
    /// `acl allow execute always`: the right to read implies the right to execute. Only for stored descriptors; without
    /// them it always does.
    pub acl_allow_execute_always: bool,
    /// `nt acl support`: clients can query and set security descriptors. If off, they see none, and changes are
    /// ignored.
    pub nt_acl_support: bool,
    /// `acl group control`: members of a file's group may change its ACL. Only where no descriptors are stored.
    pub acl_group_control: bool,
    /// `acl map full control`: `rwx` is shown as full control.
    pub acl_map_full_control: bool,
    /// `force unknown acl user`: an unknown owner or group is replaced by the user's own instead of being refused.
    /// Where descriptors are stored, this always applies to the file's owner and group in Linux.
    pub force_unknown_acl_user: bool,
    /// `ea support`.
    pub ea_support: bool,
    /// `vfs objects = streams_xattr`: the attributes that store alternate data streams; `None` if files have none.
    pub streams: Option<Layout>,
    /// `locking`: if off, every lock is granted and none is checked.
    pub locking: bool,
    /// `strict locking`: reads and writes check the locks of other opens.
    pub strict_locking: bool,
    /// `posix locking`: locks of clients and local programs conflict with each other.
    pub posix_locking: bool,
    /// `blocking locks`: a client may wait for a lock.
    pub blocking_locks: bool,
    /// `oplocks`: clients may cache files.
    pub oplocks: bool,
    /// `level2 oplocks`: several clients may cache one file for reading.
    pub level2_oplocks: bool,
    /// `fake oplocks`: every oplock is granted and none is broken.
    pub fake_oplocks: bool,
    /// `kernel oplocks`: a local program that opens a file breaks its oplock. Level II oplocks and leases are not
    /// granted.
    pub kernel_oplocks: bool,
    /// `veto oplock files`: names of files on which no oplocks or leases are granted.
    pub veto_oplock_files: Vec<String>,
    /// `durable handles`: opens may survive the loss of their connection.
    pub durable_handles: bool,
    /// `continuously available`: opens may survive a restart of the server.
    pub continuously_available: bool,
    /// `strict sync`: FLUSH writes to disk. If off, an acknowledged flush may be lost in a crash.
    pub strict_sync: bool,
    /// `sync always`: each write is on disk before its response.
    pub sync_always: bool,
    /// `smbd:writetimeupdatedelay`: how long a write does not change the write time reported to clients.
    pub write_time_delay: Duration,
    /// `mangled names`: long names have an 8.3 name.
    pub mangled_names: bool,
    /// `strict allocate`: requested allocation sizes are reserved on disk.
    pub strict_allocate: bool,
    /// `server smb encrypt` of the share.
    pub server_smb_encrypt: Encryption,
    /// `max connections`: 0 is no limit.
    pub max_connections: u32,
    /// `csc policy`: the files that clients may cache for offline use.
    pub csc_policy: CscPolicy,
    /// `volume`: the volume label; the share's name if empty.
    pub volume: String,
    /// `fstype`: the reported name of the file system.
    pub fstype: String,
    /// `vfs objects = shadow_copy2`: the location of previous versions.
    pub snapshots: Option<Arc<Snapshots>>,
}

impl Default for Policy {
    /// Returns an empty configuration, without a guest and without shares.
    fn default() -> Self {
        Policy {
            netbios_name: "FREVO".to_owned(),
            workgroup: "WORKGROUP".to_owned(),
            membership: None,
            server_string: format!("Frevo {}", env!("CARGO_PKG_VERSION")),
            server_min_protocol: Protocol::Smb2_02,
            server_max_protocol: Protocol::Smb3_11,
            server_signing: Signing::Enabled,
            server_smb_encrypt: Encryption::Enabled,
            smb2_max_read: 8 * 1024 * 1024,
            smb2_max_write: 8 * 1024 * 1024,
            smb2_max_trans: 8 * 1024 * 1024,
            smb2_max_credits: 8192,
            server_smb3_encryption_algorithms: EncryptionAlgorithm::ALL.to_vec(),
            server_smb3_signing_algorithms: SigningAlgorithm::ALL.to_vec(),
            server_multi_channel_support: true,
            hosts: HostAccess::default(),
            smb2_leases: true,
            lock_sequence_checking: true,
            lock_spin_time: Duration::from_millis(200),
            smb3_directory_leases: true,
            ntlm: true,
            spn_check: SpnCheck::Off,
            spn_names: Vec::new(),
            min_domain_uid: 1000,
            map_to_guest: MapToGuest::Never,
            guest: None,
            restrict_anonymous: 1,
            change_notify: true,
            kernel_change_notify: true,
            utc_offset: |_| 0,
            homes: None,
            username_map: None,
            shares: BTreeMap::new(),
            limits: Limits::default(),
        }
    }
}

impl Share {
    /// Returns which symbolic links are followed.
    pub fn links(&self) -> crate::vfs::SymlinkPolicy {
        crate::vfs::SymlinkPolicy { follow: self.follow_symlinks, wide: self.wide_links, itself: false }
    }

    /// Whether the share stores descriptors together with POSIX ACLs and synthesizes those that are not stored.
    pub fn converts(&self) -> bool {
        self.acls.as_ref().is_some_and(|acls| !acls.ignore_system_acls)
    }

    /// Returns the share of a section that contains only a `path`: read only, for all accounts.
    pub fn new(name: &str, path: impl Into<std::path::PathBuf>) -> Self {
        Share {
            name: name.to_owned(),
            path: path.into(),
            path_template: None,
            comment: String::new(),
            browseable: true,
            available: true,
            read_only: true,
            guest_ok: false,
            guest_only: false,
            hosts: HostAccess::default(),
            valid_users: Vec::new(),
            invalid_users: Vec::new(),
            read_list: Vec::new(),
            write_list: Vec::new(),
            admin_users: Vec::new(),
            force_user: None,
            force_group: None,
            force_group_members_only: false,
            create_mask: 0o744,
            force_create_mode: 0,
            directory_mask: 0o755,
            force_directory_mode: 0,
            case_sensitive: false,
            follow_symlinks: true,
            wide_links: false,
            hide_dot_files: true,
            hide_files: Vec::new(),
            veto_files: Vec::new(),
            delete_veto_files: false,
            hide_unreadable: false,
            honor_change_notify_privilege: true,
            hide_special_files: false,
            store_dos_attributes: true,
            map_archive: true,
            map_system: false,
            map_hidden: false,
            map_read_only: false,
            delete_readonly: false,
            dos_filemode: false,
            acls: None,
            acl_store: AclStore::Auto(None),
            inherit_owner: InheritOwner::No,
            inherit_permissions: false,
            acl_flag_inherited_canonicalization: true,
            acl_allow_execute_always: false,
            nt_acl_support: true,
            acl_group_control: false,
            acl_map_full_control: true,
            force_unknown_acl_user: false,
            ea_support: true,
            streams: Some(Layout::default()),
            locking: true,
            strict_locking: true,
            posix_locking: true,
            blocking_locks: true,
            oplocks: true,
            level2_oplocks: true,
            fake_oplocks: false,
            kernel_oplocks: false,
            veto_oplock_files: Vec::new(),
            durable_handles: true,
            continuously_available: false,
            strict_sync: true,
            mangled_names: false,
            write_time_delay: Duration::ZERO,
            sync_always: false,
            strict_allocate: false,
            server_smb_encrypt: Encryption::Enabled,
            max_connections: 0,
            csc_policy: CscPolicy::Manual,
            volume: String::new(),
            fstype: "NTFS".to_owned(),
            snapshots: None,
        }
    }
}

/// How security descriptors are stored: the parameters `acl_xattr:...`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredAcls {
    /// `acl_xattr:security_acl_name`: the extended attribute that stores them.
    pub attribute: String,
    /// `acl_xattr:ignore system acls`: they are valid regardless of POSIX ACLs, which are not changed.
    pub ignore_system_acls: bool,
    /// `acl_xattr:default acl style`: the descriptor of a file without a stored one, with `ignore system acls`.
    pub default_style: AclStyle,
    /// Only descriptors of files owned by this user are valid. Set if the server is not root and any user can write the
    /// attribute.
    pub of_owner: Option<u32>,
}

/// `inherit owner`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InheritOwner {
    /// The owner is the user who creates the file.
    No,
    /// The owner is that of the directory.
    WindowsAndUnix,
    /// The owner in Linux, charged by quotas, is that of the directory; the owner in the stored ACL is the user who
    /// creates the file.
    UnixOnly,
}

/// `acl_xattr:default acl style`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AclStyle {
    /// According to the permission bits.
    Posix,
    /// Full control for the owner and the system.
    Windows,
    /// Full control for everyone.
    Everyone,
}

/// A dialect, as named in `server min protocol` and `server max protocol`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the names are those of the protocol")]
pub enum Protocol {
    Smb2_02,
    Smb2_10,
    Smb3_00,
    Smb3_02,
    Smb3_11,
}

/// `server signing`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signing {
    /// Signed if the client requires it ([MS-SMB2] does not permit refusing it).
    Enabled,
    /// Every request of an authenticated user is signed or encrypted.
    Required,
}

/// `server smb encrypt`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encryption {
    /// Not offered.
    Off,
    /// Offered; used if the client requests it.
    Enabled,
    /// Requested if the client supports it.
    Desired,
    /// Access without it is refused.
    Required,
}

/// `map to guest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapToGuest {
    /// Failed logons are refused.
    Never,
    /// Unknown users become the guest; wrong passwords are refused.
    BadUser,
    /// Wrong passwords become the guest, too.
    BadPassword,
    /// Users authenticated by the domain who have no Linux user become the guest.
    BadUid,
}

/// `csc policy`: the offline caching that clients of a share should use ([MS-SMB2] 2.2.10, ShareFlags).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CscPolicy {
    /// The user selects files to cache.
    Manual,
    /// Opened files are cached.
    Documents,
    /// Opened programs are cached and run from the cache.
    Programs,
    /// Nothing is cached.
    Disable,
}

/// `server smb3 encryption algorithms` ([MS-SMB2] 2.2.3.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are those of the protocol")]
pub enum EncryptionAlgorithm {
    Aes128Gcm,
    Aes128Ccm,
    Aes256Gcm,
    Aes256Ccm,
}

impl EncryptionAlgorithm {
    /// All of them, in Samba's order of preference.
    pub const ALL: [EncryptionAlgorithm; 4] = [
        EncryptionAlgorithm::Aes128Gcm,
        EncryptionAlgorithm::Aes128Ccm,
        EncryptionAlgorithm::Aes256Gcm,
        EncryptionAlgorithm::Aes256Ccm,
    ];
}

/// `frevo:spn check`, like `SmbServerNameHardeningLevel` of Windows: an authentication for another server's name is a
/// relay attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpnCheck {
    /// Level 0: the name is not checked.
    Off,
    /// Level 1: a name, if sent, must be correct.
    IfSent,
    /// Level 2: a correct name must be sent.
    Required,
}

/// `server smb3 signing algorithms` ([MS-SMB2] 2.2.3.1.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are those of the protocol")]
pub enum SigningAlgorithm {
    Aes128Gmac,
    Aes128Cmac,
    HmacSha256,
}

impl SigningAlgorithm {
    /// All of them, in Samba's order of preference.
    pub const ALL: [SigningAlgorithm; 3] =
        [SigningAlgorithm::Aes128Gmac, SigningAlgorithm::Aes128Cmac, SigningAlgorithm::HmacSha256];
}
