//! ACLs and ownership.

use super::{BOOL, BYTES, Kind, Parameter, TEXT, global, share};

pub(super) static TABLE: &[Parameter] = &[
    share("nt acl support", BOOL, "yes", "Show permissions as Windows ACLs, and let clients set them."),
    share(
        "acl allow execute always",
        BOOL,
        "no",
        "Read access is sufficient to execute a file, if descriptors are stored; otherwise it always is.",
    ),
    global(
        "frevo:acl cache",
        BYTES,
        "32M",
        "Bytes of memory for cached security descriptors; 0: read them at each access.",
    ),
    share(
        "acl_xattr:security_acl_name",
        TEXT,
        "security.NTACL",
        "The extended attribute that stores security descriptors.",
    ),
    share(
        "acl_xattr:ignore system acls",
        BOOL,
        "no",
        "Use only security descriptors; POSIX ACLs are ignored and not changed.",
    ),
    share(
        "acl_xattr:default acl style",
        Kind::Choice(&[&["posix"], &["windows"], &["everyone"]]),
        "posix",
        "The ACL of a file without a stored descriptor if POSIX ACLs are ignored.",
    ),
    share(
        "frevo:acl store",
        TEXT,
        "auto",
        "Which descriptors converted from POSIX ACLs are stored: always, never, those with >= N or N-M entries, or \
         auto: the policy measured by `frevo acl calibrate`. Not in Samba.",
    ),
    share("acl check permissions", BOOL, "yes", "Check the right to delete when a file is opened for deletion.")
        .accepted("the right to delete is always checked at the open, as Windows programs expect"),
    share("acl flag inherited canonicalization", BOOL, "yes", "Store the inherited flag in the same way as Windows."),
    share("acl group control", BOOL, "no", "Let members of the owning group change permissions."),
    share("acl map full control", BOOL, "yes", "Show rwx as Full Control."),
    share("map acl inherit", BOOL, "no", "Store inheritance flags in user.SAMBA_PAI.")
        .accepted("vfs objects = acl_xattr stores them in the ACL itself; POSIX ACLs have none"),
    share("inherit acls", BOOL, "no", "New files inherit the default ACL of their directory.")
        .accepted("the kernel inherits default ACLs, and vfs objects = acl_xattr inherits Windows ACLs"),
    share(
        "inherit owner",
        Kind::Choice(&[&["no", "false", "off", "0"], &["windows and unix", "yes", "true", "on", "1"], &["unix only"]]),
        "no",
        "New files belong to the owner of their directory; with unix only the Windows owner is the creator.",
    ),
    share(
        "inherit permissions",
        BOOL,
        "no",
        "New files inherit the mode of their directory instead of using the masks.",
    ),
    share(
        "force unknown acl user",
        BOOL,
        "no",
        "Replace an unknown owner in a new ACL by the user, and drop other unknown users.",
    ),
    share("acl claims evaluation", TEXT, "AD DC only", "Evaluate claims in ACLs.")
        .accepted("claims need a domain controller; conditional ACEs grant nothing"),
    global("enable privileges", BOOL, "yes", "Honour privileges given to users.")
        .accepted("only root has privileges on files, and admin users act as root"),
];
