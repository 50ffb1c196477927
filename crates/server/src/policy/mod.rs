//! The validated, immutable configuration. It is built once from smb.conf and replaced as a whole on reload.
//!
//! Fields are named after their smb.conf parameters, and `Default` has the defaults of smb.conf. The fields of a
//! [`Share`] are grouped by area.

mod access;
mod acl_store;
mod acls;
mod attributes;
pub mod audit;
mod caching;
pub mod dfs;
mod handles;
pub mod hosts;
pub mod limits;
mod locks;
mod mac;
mod modes;
mod names;
mod people;
pub mod printing;
pub mod recycle;
mod session_policies;
mod share;
mod share_changes;
pub mod snapshots;
pub mod storage;
pub mod stream_layout;
mod sync;
pub mod template;
mod user_shares;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use proto::auth::ntlm::TargetNames;

pub use access::{AccessPolicy, ShareAcls};
pub use acl_store::{AclStore, Entries, FEWEST as FEWEST_ENTRIES};
pub use acls::{AclPolicy, AclStyle, InheritOwner, StoredAcls};
pub use attributes::AttributePolicy;
pub use caching::{CachePolicy, CscPolicy};
pub use dfs::DfsPolicy;
pub use handles::HandlePolicy;
pub use hosts::{HostAccess, HostNames};
pub use limits::Limits;
pub use locks::LockPolicy;
pub use mac::{MacPolicy, MacServer, MacStreams, MetadataPlace, ResourcePlace};
pub use modes::ModePolicy;
pub use names::NamePolicy;
pub use people::{Homes, UserPattern, UsernameMap, is_home};
pub use printing::{PrintPolicy, Printers};
pub use session_policies::{Complete, SESSION_VARIABLES, SessionPolicies, SessionValues};
pub use share::Share;
pub use share_changes::{ShareChange, ShareChanges, ShareRefusal};
pub use storage::{Coherence, GlusterVolume, Storage, VolfileServer};
pub use sync::SyncPolicy;
pub use template::Template;
pub use user_shares::{UserShareAcl, UserShares};

use crate::domain::Membership;
use crate::vfs::Identity;
use snapshots::UtcOffset;

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
    /// Resolves host names and netgroups in `hosts allow` and `hosts deny`; `None` if they cannot be resolved.
    pub host_names: Option<Arc<dyn HostNames>>,
    /// `vfs objects = fruit`: the extensions for macOS.
    pub mac: MacServer,
    /// `host msdfs`: shares may refer clients to other servers.
    pub host_msdfs: bool,
    /// `smb2 leases`: leases are offered.
    pub smb2_leases: bool,
    /// Not `smb2 disable lock sequence checking`: a repeated LOCK request is not executed twice.
    pub lock_sequence_checking: bool,
    /// `lock spin time`: the first pause between two attempts to get a lock that a local program holds.
    pub lock_spin_time: Duration,
    /// `smb3 directory leases`: leases on directories are offered.
    pub smb3_directory_leases: bool,
    /// `smb3 unix extensions`: the POSIX extensions of SMB 3.1.1 are offered.
    pub smb3_unix_extensions: bool,
    /// Any share has `wide links = yes`. It may have the same directory as another one.
    pub wide_links: bool,
    /// Not `ntlm auth = disabled`: NTLM is offered and accepted.
    pub ntlm: bool,
    /// `ntlm auth = ntlmv1-permitted`: NTLMv1 responses are accepted for accounts of this server.
    pub ntlm_v1: bool,
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
    /// `admin users` of the global section: the users who administrate the server through pipes.
    pub admin_users: Vec<UserPattern>,
    /// `max disk size`: the largest size of a disk that clients see, in MiB; 0 if it is not limited.
    pub max_disk_size: u64,
    /// `change notify`: clients are notified of changes in directories.
    pub change_notify: bool,
    /// `kernel change notify`: clients are also notified of changes by local programs.
    pub kernel_change_notify: bool,
    /// The offset of local time from UTC, for `%t` in the path of a share.
    pub utc_offset: UtcOffset,
    /// The classes `auth_audit` and `auth_json_audit` of `log level`: the record of logons.
    pub logon_audit: audit::LogonAudit,
    /// The destination of the record of changes by administrators: that of `frevo:audit file` and the like in
    /// `[global]`, or the log.
    pub administration_audit: audit::Destination,
    /// `[homes]`: the users' home directories as shares.
    pub homes: Option<Arc<dyn Homes>>,
    /// `[printers]`: the queues of the print system as shares.
    pub printers: Option<Arc<dyn Printers>>,
    /// `load printers`: the shares of `[printers]` are in lists of shares.
    pub load_printers: bool,
    /// `disable spoolss`: whether the pipe of the print system does not exist.
    pub disable_spoolss: bool,
    /// `usershare path` and related parameters: shares that users define; `None` if there are none.
    pub user_shares: Option<Arc<dyn UserShares>>,
    /// Policies that depend on the session, by `include` of a file whose name has variables; `None` if there are none.
    pub sessions: Option<Arc<dyn SessionPolicies>>,
    /// `username map`.
    pub username_map: Option<Arc<dyn UsernameMap>>,
    /// The ACLs of the shares; `None` if they have none.
    pub share_acls: Option<Arc<dyn ShareAcls>>,
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

    /// Returns whether the client at `address` may connect, by the lists of the server or of a share.
    pub async fn permits(&self, hosts: &HostAccess, address: IpAddr) -> bool {
        hosts.permits_with(address, self.host_names.as_deref()).await
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
            host_names: None,
            mac: MacServer::default(),
            host_msdfs: true,
            smb2_leases: true,
            lock_sequence_checking: true,
            lock_spin_time: Duration::from_millis(200),
            smb3_directory_leases: true,
            smb3_unix_extensions: false,
            wide_links: false,
            ntlm: true,
            ntlm_v1: false,
            spn_check: SpnCheck::Off,
            spn_names: Vec::new(),
            min_domain_uid: 1000,
            map_to_guest: MapToGuest::Never,
            guest: None,
            restrict_anonymous: 1,
            admin_users: Vec::new(),
            max_disk_size: 0,
            change_notify: true,
            kernel_change_notify: true,
            utc_offset: |_| 0,
            logon_audit: audit::LogonAudit::default(),
            administration_audit: audit::Destination::Log,
            homes: None,
            printers: None,
            load_printers: true,
            disable_spoolss: false,
            user_shares: None,
            sessions: None,
            username_map: None,
            share_acls: None,
            shares: BTreeMap::new(),
            limits: Limits::default(),
        }
    }
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
