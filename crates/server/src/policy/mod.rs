//! What the administrator decided, validated and immutable: built once from the configuration, swapped whole on reload.
//!
//! Fields carry the names of the smb.conf parameters that they come from.

mod acl_store;
pub mod hosts;
pub mod limits;
mod people;
pub mod template;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use acl_store::{AclStore, Entries, FEWEST as FEWEST_ENTRIES};
pub use hosts::HostAccess;
pub use limits::Limits;
pub use people::{Homes, UserPattern, UsernameMap, is_home};
pub use template::Template;

use crate::domain::Membership;
use crate::snapshots::{Snapshots, UtcOffset};
use crate::vfs::Identity;

/// The whole configuration of a running server.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `netbios name`: how the server calls itself, upper case.
    pub netbios_name: String,
    /// `workgroup`: the domain part that accounts of this server are shown with, upper case.
    pub workgroup: String,
    /// `security = ads`: the domain that the server is a member of; `None` where it is by itself.
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
    /// `smb2 max credits`: how many credits one connection may hold.
    pub smb2_max_credits: u16,
    /// `server smb3 encryption algorithms`, the preferred one first.
    pub server_smb3_encryption_algorithms: Vec<EncryptionAlgorithm>,
    /// `server smb3 signing algorithms`, the preferred one first.
    pub server_smb3_signing_algorithms: Vec<SigningAlgorithm>,
    /// `server multi channel support`: a session may be used over several connections.
    pub server_multi_channel_support: bool,
    /// `hosts allow` and `hosts deny` of the global section: who may connect at all.
    pub hosts: HostAccess,
    /// `smb2 leases`: offered.
    pub smb2_leases: bool,
    /// Not `smb2 disable lock sequence checking`: a LOCK that is sent again is not executed twice.
    pub lock_sequence_checking: bool,
    /// `lock spin time`: the first pause between two tries for a lock that a local program has.
    pub lock_spin_time: Duration,
    /// `smb3 directory leases`: offered, too.
    pub smb3_directory_leases: bool,
    /// Not `ntlm auth = disabled`: NTLM is offered and taken.
    pub ntlm: bool,
    /// `frevo:spn check`: whether the server's name in an NTLM logon must be right.
    pub spn_check: SpnCheck,
    /// `frevo:spn names`: names of the server besides its own and its addresses.
    pub spn_names: Vec<String>,
    /// `min domain uid`: the lowest uid of a user whom a domain or a realm proves.
    pub min_domain_uid: u32,
    /// `map to guest`.
    pub map_to_guest: MapToGuest,
    /// `guest account`, resolved; `None` where the host has no such user: then nobody is a guest.
    pub guest: Option<Guest>,
    /// `restrict anonymous`: 0 lets anonymous callers open the samr and lsarpc services, 1 only list shares, 2 connect to
    /// nothing.
    pub restrict_anonymous: u8,
    /// `change notify`: clients are told of changes in directories.
    pub change_notify: bool,
    /// `kernel change notify`: and of those that local programs make.
    pub kernel_change_notify: bool,
    /// Local time, for the names of directories.
    pub utc_offset: UtcOffset,
    /// `[homes]`: the users' homes as shares.
    pub homes: Option<Arc<dyn Homes>>,
    /// `username map`.
    pub username_map: Option<Arc<dyn UsernameMap>>,
    /// The shares by folded name ([`Policy::share`] looks one up), IPC$ not among them.
    pub shares: BTreeMap<String, Arc<Share>>,
    /// How much a client may make the server hold.
    pub limits: Limits,
}

impl Policy {
    /// The share called `name`, compared without regard to case.
    pub fn share(&self, name: &str) -> Option<&Arc<Share>> {
        self.shares.get(&fold(name))
    }
}

/// The key of a share's name: names are compared without regard to case.
pub fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// The identity behind anonymous and failed logons where the configuration lets them in.
#[derive(Clone, Debug)]
pub struct Guest {
    /// `guest account`.
    pub name: String,
    /// The UNIX user.
    pub identity: Arc<Identity>,
}

/// One share.
#[derive(Clone, Debug)]
pub struct Share {
    /// The section's name, as written.
    pub name: String,
    /// `path`, absolute. Where it has variables that a session fills, the text as written; see `path_template`.
    pub path: std::path::PathBuf,
    /// `path` where each session has its own; `None` where `path` is the path.
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
    /// `guest only`: everybody is the guest here. Only where `guest_ok` is set.
    pub guest_only: bool,
    /// `hosts allow` and `hosts deny` of the share, beyond those of the server.
    pub hosts: HostAccess,
    /// `valid users`; empty lets everybody in.
    pub valid_users: Vec<UserPattern>,
    /// `invalid users`.
    pub invalid_users: Vec<UserPattern>,
    /// `read list`: may only read, whatever `read only` says.
    pub read_list: Vec<UserPattern>,
    /// `write list`: may write, whatever `read only` says.
    pub write_list: Vec<UserPattern>,
    /// `admin users`: act as root.
    pub admin_users: Vec<UserPattern>,
    /// `force user`, resolved.
    pub force_user: Option<Arc<Identity>>,
    /// `force group`, resolved to its gid.
    pub force_group: Option<u32>,
    /// `force group = +group`: only for users who are in that group.
    pub force_group_members_only: bool,
    /// `create mask`.
    pub create_mask: u32,
    /// `force create mode`.
    pub force_create_mode: u32,
    /// `directory mask`.
    pub directory_mask: u32,
    /// `force directory mode`.
    pub force_directory_mode: u32,
    /// `case sensitive`: `auto` and `no` are both Windows's way here.
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
    /// `honor change notify privilege`: who watches a tree is told of names in directories that he may list, and no others.
    pub honor_change_notify_privilege: bool,
    /// `hide special files`.
    pub hide_special_files: bool,
    /// `store dos attributes`.
    pub store_dos_attributes: bool,
    /// `map archive`: owner's x bit, where no attributes are stored.
    pub map_archive: bool,
    /// `map system`: group's x bit.
    pub map_system: bool,
    /// `map hidden`: others' x bit.
    pub map_hidden: bool,
    /// `map read only` = yes: a file without the owner's w bit shows READONLY.
    pub map_read_only: bool,
    /// `delete readonly`: files with READONLY may be deleted.
    pub delete_readonly: bool,
    /// `dos filemode`: who may write a file may also change its mode.
    pub dos_filemode: bool,
    /// `vfs objects = acl_xattr`: security descriptors are stored; `None` where permissions are Linux's alone.
    pub acls: Option<StoredAcls>,
    /// `frevo:acl store`: which descriptors are stored that a conversion made. Only where `acls` is there.
    pub acl_store: AclStore,
    /// `inherit owner`: to whom belongs what is made in a directory.
    pub inherit_owner: InheritOwner,
    /// `inherit permissions`: new directories have the mode of theirs, new files its `r` and `w` bits, instead of what the
    /// masks say.
    pub inherit_permissions: bool,
    /// `acl flag inherited canonicalization`: the flag that a list was inherited is kept only where its setter asked for
    /// inheritance, as Windows does.
    pub acl_flag_inherited_canonicalization: bool,
    /// `acl allow execute always`: reading suffices to run a file. Only where descriptors are stored; elsewhere it does.
    pub acl_allow_execute_always: bool,
    /// `nt acl support`: clients see and set security descriptors. Off, they see none, and what they set is left.
    pub nt_acl_support: bool,
    /// `acl group control`: members of a file's group may change its list. Only where no descriptors are stored.
    pub acl_group_control: bool,
    /// `acl map full control`: `rwx` is shown as all rights.
    pub acl_map_full_control: bool,
    /// `force unknown acl user`: an owner or group that nobody knows is the user's own instead of being refused. Where
    /// descriptors are stored, that of Linux is always so.
    pub force_unknown_acl_user: bool,
    /// `ea support`.
    pub ea_support: bool,
    /// `vfs objects = streams_xattr`: where alternate data streams lie; `None` where files have none.
    pub streams: Option<crate::streams::Layout>,
    /// `locking`: off, every lock is granted and none is looked at.
    pub locking: bool,
    /// `strict locking`: reads and writes look at the locks of others.
    pub strict_locking: bool,
    /// `posix locking`: clients and local programs meet each other's locks.
    pub posix_locking: bool,
    /// `blocking locks`: a client may wait for a lock.
    pub blocking_locks: bool,
    /// `oplocks`: clients may cache files.
    pub oplocks: bool,
    /// `level2 oplocks`: several clients may cache one file for reading.
    pub level2_oplocks: bool,
    /// `fake oplocks`: every oplock is granted and none is broken.
    pub fake_oplocks: bool,
    /// `kernel oplocks`: local programs that open a file end its oplock; there is no level II, and no lease.
    pub kernel_oplocks: bool,
    /// `veto oplock files`: names of files that are never cached.
    pub veto_oplock_files: Vec<String>,
    /// `durable handles`: opens may outlive their connection.
    pub durable_handles: bool,
    /// `continuously available`: opens may outlive the server's run.
    pub continuously_available: bool,
    /// `strict sync`: FLUSH reaches the disk. Off means that an acknowledged flush may be lost in a crash.
    pub strict_sync: bool,
    /// `sync always`: each write is on disk before its answer.
    pub sync_always: bool,
    /// `smbd:writetimeupdatedelay`: how long a write does not show in the write time that clients are told.
    pub write_time_delay: Duration,
    /// `mangled names`: long names have an 8.3 name.
    pub mangled_names: bool,
    /// `strict allocate`: allocation sizes asked for are really reserved.
    pub strict_allocate: bool,
    /// `server smb encrypt` of the share.
    pub server_smb_encrypt: Encryption,
    /// `max connections`: 0 is no limit.
    pub max_connections: u32,
    /// `csc policy`: what clients may keep for use without the server.
    pub csc_policy: CscPolicy,
    /// `volume`: the label that clients see; the share's name where it is empty.
    pub volume: String,
    /// `fstype`: the name of the file system that clients see.
    pub fstype: String,
    /// `vfs objects = shadow_copy2`: where previous versions are.
    pub snapshots: Option<Arc<Snapshots>>,
}

impl Default for Policy {
    /// What an empty configuration means, without a guest and without shares.
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
    /// Which links are followed.
    pub fn links(&self) -> crate::vfs::Links {
        crate::vfs::Links { follow: self.follow_symlinks, wide: self.wide_links, itself: false }
    }

    /// Whether descriptors are stored that count together with POSIX ACLs, and those are converted where there is none.
    pub fn converts(&self) -> bool {
        self.acls.as_ref().is_some_and(|acls| !acls.ignore_system_acls)
    }

    /// The share that a section with nothing but a `path` makes: read only, for every account.
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
            streams: Some(crate::streams::Layout::default()),
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
    /// `acl_xattr:security_acl_name`: the extended attribute that holds them.
    pub attribute: String,
    /// `acl_xattr:ignore system acls`: they count whatever Linux's lists say, and those are left alone.
    pub ignore_system_acls: bool,
    /// `acl_xattr:default acl style`: what a file without one has, with `ignore system acls`.
    pub default_style: AclStyle,
    /// Only those of files that this user owns count: set where the server is not root and any user can write the attribute.
    pub of_owner: Option<u32>,
}

/// `inherit owner`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InheritOwner {
    /// It belongs to its maker.
    No,
    /// It belongs to the directory's owner.
    WindowsAndUnix,
    /// It belongs to the directory's owner, whose quota it counts for; its stored ACL names its maker as the owner.
    UnixOnly,
}

/// `acl_xattr:default acl style`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AclStyle {
    /// What the permission bits say.
    Posix,
    /// Everything for the owner and the system.
    Windows,
    /// Everything for everybody.
    Everyone,
}

/// A dialect, as `server min protocol` and `server max protocol` name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "the names are the protocol's own")]
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
    /// Signed when the client asks for it ([MS-SMB2] knows no way to refuse).
    Enabled,
    /// Every request of an authenticated user is signed or sealed.
    Required,
}

/// `server smb encrypt`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encryption {
    /// Not offered.
    Off,
    /// Offered: a client that wants it gets it.
    Enabled,
    /// Asked for where the client can do it.
    Desired,
    /// Access without it is refused.
    Required,
}

/// `map to guest`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapToGuest {
    /// A failed logon is a failed logon.
    Never,
    /// An unknown user becomes the guest; a wrong password is refused.
    BadUser,
    /// A wrong password becomes the guest, too.
    BadPassword,
    /// A user whom the domain has proven and whom the kernel does not know becomes the guest.
    BadUid,
}

/// `csc policy`: the caching that a share's clients are told to do ([MS-SMB2] 2.2.10, ShareFlags).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CscPolicy {
    /// The user chooses files to keep.
    Manual,
    /// Opened files are kept.
    Documents,
    /// Opened programs are kept and run from there.
    Programs,
    /// Nothing is kept.
    Disable,
}

/// `server smb3 encryption algorithms` ([MS-SMB2] 2.2.3.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are the protocol's own")]
pub enum EncryptionAlgorithm {
    Aes128Gcm,
    Aes128Ccm,
    Aes256Gcm,
    Aes256Ccm,
}

impl EncryptionAlgorithm {
    /// All of them, in the order of preference that Samba has.
    pub const ALL: [EncryptionAlgorithm; 4] = [
        EncryptionAlgorithm::Aes128Gcm,
        EncryptionAlgorithm::Aes128Ccm,
        EncryptionAlgorithm::Aes256Gcm,
        EncryptionAlgorithm::Aes256Ccm,
    ];
}

/// `frevo:spn check`, as `SmbServerNameHardeningLevel` of Windows: a proof that was made for another server is a relayed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpnCheck {
    /// Level 0: it is not looked at.
    Off,
    /// Level 1: a name that is sent must be right.
    IfSent,
    /// Level 2: a right one must be sent.
    Required,
}

/// `server smb3 signing algorithms` ([MS-SMB2] 2.2.3.1.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are the protocol's own")]
pub enum SigningAlgorithm {
    Aes128Gmac,
    Aes128Cmac,
    HmacSha256,
}

impl SigningAlgorithm {
    /// All of them, in the order of preference that Samba has.
    pub const ALL: [SigningAlgorithm; 3] =
        [SigningAlgorithm::Aes128Gmac, SigningAlgorithm::Aes128Cmac, SigningAlgorithm::HmacSha256];
}
