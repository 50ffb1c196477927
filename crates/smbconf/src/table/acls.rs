//! ACLs and ownership.

use server::policy::{AclStore, AclStyle, InheritOwner, StoredAcls};

use super::{BOOL, BYTES, Kind, Parameter, TEXT, global, share};
use crate::acl_store;
use crate::problem::{Code, note};
use crate::reader::{Reader, ValueReader};
use crate::share::modules;

const SECURITY_ACL_NAME: Parameter = share(
    "acl_xattr:security_acl_name",
    TEXT,
    "security.NTACL",
    "The extended attribute that stores security descriptors.",
)
.reads(|value, share| share.acls.stored = stored(&value.section));

const IGNORE_SYSTEM_ACLS: Parameter = share(
    "acl_xattr:ignore system acls",
    BOOL,
    "no",
    "Use only security descriptors; POSIX ACLs are ignored and not changed.",
)
.read_by_others();

const DEFAULT_ACL_STYLE: Parameter = share(
    "acl_xattr:default acl style",
    Kind::Choice(&[&["posix"], &["windows"], &["everyone"]]),
    "posix",
    "The ACL of a file without a stored descriptor if POSIX ACLs are ignored.",
)
.read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    share("nt acl support", BOOL, "yes", "Show permissions as Windows ACLs, and let clients set them.")
        .reads(|value, share| share.acls.nt_acl_support = value.boolean()),
    share(
        "acl allow execute always",
        BOOL,
        "no",
        "Read access is sufficient to execute a file, if descriptors are stored; otherwise it always is.",
    )
    .reads(|value, share| share.acls.acl_allow_execute_always = value.boolean()),
    global(
        "frevo:acl cache",
        BYTES,
        "32M",
        "Bytes of memory for cached security descriptors; 0: read them at each access.",
    )
    .reads(|value, global| {
        global.daemon.acl_cache = value.bytes();
        global.policy.limits.descriptor_bytes = usize::try_from(value.bytes()).unwrap_or(usize::MAX);
    }),
    SECURITY_ACL_NAME,
    IGNORE_SYSTEM_ACLS,
    DEFAULT_ACL_STYLE,
    share(
        "frevo:acl store",
        TEXT,
        "auto",
        "Which descriptors converted from POSIX ACLs are stored: always, never, those with >= N or N-M entries, or \
         auto: the policy measured by `frevo acl calibrate`. Not in Samba.",
    )
    .reads(|value, share| share.acls.acl_store = store(value)),
    share("acl check permissions", BOOL, "yes", "Check the right to delete when a file is opened for deletion.")
        .accepted("the right to delete is always checked at the open, as Windows programs expect"),
    share("acl flag inherited canonicalization", BOOL, "yes", "Store the inherited flag in the same way as Windows.")
        .reads(|value, share| share.acls.acl_flag_inherited_canonicalization = value.boolean()),
    share("acl group control", BOOL, "no", "Let members of the owning group change permissions.")
        .reads(|value, share| share.acls.acl_group_control = value.boolean()),
    share("acl map full control", BOOL, "yes", "Show rwx as Full Control.")
        .reads(|value, share| share.acls.acl_map_full_control = value.boolean()),
    share("map acl inherit", BOOL, "no", "Store inheritance flags in user.SAMBA_PAI.")
        .accepted("vfs objects = acl_xattr stores them in the ACL itself; POSIX ACLs have none"),
    share("inherit acls", BOOL, "no", "New files inherit the default ACL of their directory.")
        .accepted("the kernel inherits default ACLs, and vfs objects = acl_xattr inherits Windows ACLs"),
    share(
        "inherit owner",
        Kind::Choice(&[&["no", "false", "off", "0"], &["windows and unix", "yes", "true", "on", "1"], &["unix only"]]),
        "no",
        "New files belong to the owner of their directory; with unix only the Windows owner is the creator.",
    )
    .reads(|value, share| share.acls.inherit_owner = inherit_owner(value)),
    share(
        "inherit permissions",
        BOOL,
        "no",
        "New files inherit the mode of their directory instead of using the masks.",
    )
    .reads(|value, share| share.modes.inherit_permissions = value.boolean()),
    share(
        "force unknown acl user",
        BOOL,
        "no",
        "Replace an unknown owner in a new ACL by the user, and drop other unknown users.",
    )
    .reads(|value, share| share.acls.force_unknown_acl_user = value.boolean()),
    share("acl claims evaluation", TEXT, "AD DC only", "Evaluate claims in ACLs.")
        .accepted("claims need a domain controller; conditional ACEs grant nothing"),
    global("enable privileges", BOOL, "yes", "Honour privileges given to users.")
        .accepted("only root has privileges on files, and admin users act as root"),
];

/// `vfs objects = acl_xattr`: how the share stores security descriptors.
pub(crate) fn stored(section: &Reader<'_>) -> Option<StoredAcls> {
    let name = section.value(&SECURITY_ACL_NAME);
    let attribute = name.text();
    if !["security.", "user.", "trusted."].iter().any(|namespace| attribute.starts_with(namespace)) {
        name.bad_value(&attribute, "the name of an extended attribute, such as security.NTACL");
    }
    let acls = StoredAcls {
        of_owner: None,
        attribute,
        ignore_system_acls: section.value(&IGNORE_SYSTEM_ACLS).boolean(),
        default_style: match section.value(&DEFAULT_ACL_STYLE).choice().as_str() {
            "windows" => AclStyle::Windows,
            "everyone" => AclStyle::Everyone,
            _ => AclStyle::Posix,
        },
    };
    modules::are_asked_for(section, "acl_xattr").then_some(acls)
}

/// Returns `bits` if the mode of a new file must contain them. The kernel must not deny what the descriptor grants.
pub(super) fn forced_bits(section: &Reader<'_>, bits: u32) -> u32 {
    if stored(section).is_some_and(|acls| acls.ignore_system_acls) { bits } else { 0 }
}

/// `frevo:acl store`.
fn store(value: ValueReader<'_>) -> AclStore {
    let text = value.text();
    let Some(store) = acl_store::parse(&text) else {
        value.bad_value(&text, acl_store::ALLOWED);
        return AclStore::Auto(None);
    };
    let why = match stored(&value.section) {
        None => "the share stores no descriptors without vfs objects = acl_xattr",
        Some(acls) if acls.ignore_system_acls => "no POSIX ACL is converted with acl_xattr:ignore system acls = yes",
        Some(_) => return store,
    };
    if value.is_set_in_share() {
        let problem = note(Code::Accepted, format!("`{}` has no effect: {why}", value.name()));
        value.report(problem.remedy("the line may be removed"));
    }
    store
}

fn inherit_owner(value: ValueReader<'_>) -> InheritOwner {
    match value.choice().as_str() {
        "windows and unix" => InheritOwner::WindowsAndUnix,
        "unix only" => InheritOwner::UnixOnly,
        _ => InheritOwner::No,
    }
}
