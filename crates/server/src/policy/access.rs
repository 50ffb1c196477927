//! The users and hosts that may connect to a share, and their rights in it.

use std::fmt;
use std::sync::Arc;

use proto::dtyp::SecurityDescriptor;

use super::{Encryption, HostAccess, UserPattern, UserShareAcl};
use crate::vfs::Identity;

/// The users and hosts that may connect to a share, and their rights in it.
#[derive(Clone, Debug)]
pub struct AccessPolicy {
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
    /// The ACL of a share that a user defined; `None` for other shares.
    pub user_share_acl: Option<UserShareAcl>,
    /// `force user`, resolved.
    pub force_user: Option<Arc<Identity>>,
    /// `force group`, resolved to its gid.
    pub force_group: Option<u32>,
    /// `force group = +group`: applies only to users who are members of the group.
    pub force_group_members_only: bool,
    /// `server smb encrypt` of the share.
    pub server_smb_encrypt: Encryption,
    /// `max connections`: 0 is no limit.
    pub max_connections: u32,
}

/// The ACLs of shares, which are not part of the configuration. As in Samba, they apply in addition to it.
pub trait ShareAcls: Send + Sync {
    /// Returns the security descriptor of a share; `None` if it has none and every user may connect. Names are compared
    /// without regard to case. Does not block.
    fn acl_of(&self, share: &str) -> Option<Arc<SecurityDescriptor>>;
}

impl fmt::Debug for dyn ShareAcls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShareAcls")
    }
}

impl Default for AccessPolicy {
    fn default() -> Self {
        AccessPolicy {
            read_only: true,
            guest_ok: false,
            guest_only: false,
            hosts: HostAccess::default(),
            valid_users: Vec::new(),
            invalid_users: Vec::new(),
            read_list: Vec::new(),
            write_list: Vec::new(),
            admin_users: Vec::new(),
            user_share_acl: None,
            force_user: None,
            force_group: None,
            force_group_members_only: false,
            server_smb_encrypt: Encryption::Enabled,
            max_connections: 0,
        }
    }
}
