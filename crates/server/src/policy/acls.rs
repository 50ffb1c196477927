//! Security descriptors and the owners of files.

use super::AclStore;

/// Security descriptors and the owners of files.
#[derive(Clone, Debug)]
pub struct AclPolicy {
    /// `vfs objects = acl_xattr`: security descriptors are stored; `None` if only Linux permissions apply.
    pub stored: Option<StoredAcls>,
    /// `frevo:acl store`: the synthesized descriptors that are stored. Only used with `stored`.
    pub acl_store: AclStore,
    /// `nt acl support`: clients can query and set security descriptors. If off, they see none, and changes are
    /// ignored.
    pub nt_acl_support: bool,
    /// `inherit owner`: the owner of new files.
    pub inherit_owner: InheritOwner,
    /// `dos filemode`: users who may write a file may also change its mode.
    pub dos_filemode: bool,
    /// `acl flag inherited canonicalization`: the AUTO_INHERITED flags are kept only if the client requested
    /// inheritance, as in Windows.
    pub acl_flag_inherited_canonicalization: bool,
    /// `acl allow execute always`: the right to read implies the right to execute. Only for stored descriptors; without
    /// them it always does.
    pub acl_allow_execute_always: bool,
    /// `acl group control`: members of a file's group may change its ACL. Only where no descriptors are stored.
    pub acl_group_control: bool,
    /// `acl map full control`: `rwx` is shown as full control.
    pub acl_map_full_control: bool,
    /// `force unknown acl user`: an unknown owner or group is replaced by the user's own instead of being refused.
    /// Where descriptors are stored, this always applies to the file's owner and group in Linux.
    pub force_unknown_acl_user: bool,
}

impl Default for AclPolicy {
    fn default() -> Self {
        AclPolicy {
            stored: None,
            acl_store: AclStore::Auto(None),
            nt_acl_support: true,
            inherit_owner: InheritOwner::No,
            dos_filemode: false,
            acl_flag_inherited_canonicalization: true,
            acl_allow_execute_always: false,
            acl_group_control: false,
            acl_map_full_control: true,
            force_unknown_acl_user: false,
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
