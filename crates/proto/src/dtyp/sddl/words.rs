//! The vocabulary of SDDL ([MS-DTYP] 2.5.1.1).

use crate::dtyp::{AccessMask, AceFlags, AceType, Control, Sid};

/// Aliases of SIDs that are the same on every machine ([MS-DTYP] 2.5.1.1 and 2.4.2.4).
pub(super) const WELL_KNOWN: [(&str, Sid); 47] = [
    ("WD", Sid::EVERYONE),
    ("CO", Sid::CREATOR_OWNER),
    ("CG", Sid::CREATOR_GROUP),
    ("OW", Sid::OWNER_RIGHTS),
    ("NU", Sid::NETWORK),
    ("IU", Sid::of(5, [4])),
    ("SU", Sid::of(5, [6])),
    ("AN", Sid::ANONYMOUS),
    ("ED", Sid::of(5, [9])),
    ("PS", Sid::PRINCIPAL_SELF),
    ("AU", Sid::AUTHENTICATED_USERS),
    ("RC", Sid::of(5, [12])),
    ("SY", Sid::SYSTEM),
    ("LS", Sid::of(5, [19])),
    ("NS", Sid::of(5, [20])),
    ("WR", Sid::of(5, [33])),
    ("UD", Sid::of(5, [84, 0, 0, 0, 0, 0])),
    ("BA", Sid::BUILTIN_ADMINISTRATORS),
    ("BU", Sid::BUILTIN_USERS),
    ("BG", Sid::BUILTIN_GUESTS),
    ("PU", Sid::of(5, [32, 547])),
    ("AO", Sid::of(5, [32, 548])),
    ("SO", Sid::of(5, [32, 549])),
    ("PO", Sid::of(5, [32, 550])),
    ("BO", Sid::of(5, [32, 551])),
    ("RE", Sid::of(5, [32, 552])),
    ("RU", Sid::of(5, [32, 554])),
    ("RD", Sid::of(5, [32, 555])),
    ("NO", Sid::of(5, [32, 556])),
    ("MU", Sid::of(5, [32, 558])),
    ("LU", Sid::of(5, [32, 559])),
    ("IS", Sid::of(5, [32, 568])),
    ("CY", Sid::of(5, [32, 569])),
    ("ER", Sid::of(5, [32, 573])),
    ("CD", Sid::of(5, [32, 574])),
    ("RA", Sid::of(5, [32, 575])),
    ("ES", Sid::of(5, [32, 576])),
    ("MS", Sid::of(5, [32, 577])),
    ("HA", Sid::of(5, [32, 578])),
    ("AA", Sid::of(5, [32, 579])),
    ("RM", Sid::of(5, [32, 580])),
    ("AC", Sid::of(15, [2, 1])),
    ("LW", Sid::of(16, [4_096])),
    ("ME", Sid::of(16, [8_192])),
    ("MP", Sid::of(16, [8_448])),
    ("HI", Sid::of(16, [12_288])),
    ("SI", Sid::of(16, [16_384])),
];

/// Aliases of the machine's own user accounts, by RID.
pub(super) const OF_MACHINE: [(&str, u32); 2] = [("LA", 500), ("LG", 501)];

/// Aliases relative to the domain, by RID. Aliases of the forest's root domain are resolved in the domain as well.
pub(super) const OF_DOMAIN: [(&str, u32); 12] = [
    ("RO", 498),
    ("DA", 512),
    ("DU", 513),
    ("DG", 514),
    ("DC", 515),
    ("DD", 516),
    ("CA", 517),
    ("SA", 518),
    ("EA", 519),
    ("PA", 520),
    ("CN", 522),
    ("RS", 553),
];

/// The ACE types that consist of a mask and a SID.
pub(super) const PLAIN: [(&str, AceType); 6] = [
    ("A", AceType::ACCESS_ALLOWED),
    ("D", AceType::ACCESS_DENIED),
    ("AU", AceType::SYSTEM_AUDIT),
    ("AL", AceType::SYSTEM_ALARM),
    ("ML", AceType::SYSTEM_MANDATORY_LABEL),
    ("SP", AceType::SYSTEM_SCOPED_POLICY_ID),
];

/// The ACE types that may name an object type.
pub(super) const OBJECT: [(&str, AceType); 4] = [
    ("OA", AceType::ACCESS_ALLOWED_OBJECT),
    ("OD", AceType::ACCESS_DENIED_OBJECT),
    ("OU", AceType::SYSTEM_AUDIT_OBJECT),
    ("OL", AceType::SYSTEM_ALARM_OBJECT),
];

/// The ACE types that end in an expression or a claim.
pub(super) const CONDITIONAL: [&str; 5] = ["XA", "XD", "ZA", "XU", "RA"];

pub(super) const ACE_FLAGS: [(&str, AceFlags); 8] = [
    ("OI", AceFlags::OBJECT_INHERIT),
    ("CI", AceFlags::CONTAINER_INHERIT),
    ("NP", AceFlags::NO_PROPAGATE_INHERIT),
    ("IO", AceFlags::INHERIT_ONLY),
    ("ID", AceFlags::INHERITED),
    // Specific to Windows: a filter may not remove the entry.
    ("CR", AceFlags(0x20)),
    ("SA", AceFlags::SUCCESSFUL_ACCESS),
    ("FA", AceFlags::FAILED_ACCESS),
];

/// Rights that are written by name if they are the whole mask.
pub(super) const WHOLE: [(&str, AccessMask); 4] = [
    ("FA", AccessMask::FILE_ALL_ACCESS),
    ("FR", AccessMask::FILE_GENERIC_READ),
    ("FW", AccessMask::FILE_GENERIC_WRITE),
    ("FX", AccessMask::FILE_GENERIC_EXECUTE),
];

/// Rights that are written one after the other if the mask has no other rights.
pub(super) const SINGLE: [(&str, AccessMask); 8] = [
    ("GA", AccessMask::GENERIC_ALL),
    ("GR", AccessMask::GENERIC_READ),
    ("GW", AccessMask::GENERIC_WRITE),
    ("GX", AccessMask::GENERIC_EXECUTE),
    ("RC", AccessMask::READ_CONTROL),
    ("SD", AccessMask::DELETE),
    ("WD", AccessMask::WRITE_DAC),
    ("WO", AccessMask::WRITE_OWNER),
];

/// Rights that are read but never written: of directory services, registry keys and integrity labels.
pub(super) const READ_ONLY: [(&str, AccessMask); 16] = [
    ("CC", AccessMask(0x001)),
    ("DC", AccessMask(0x002)),
    ("LC", AccessMask(0x004)),
    ("SW", AccessMask(0x008)),
    ("RP", AccessMask(0x010)),
    ("WP", AccessMask(0x020)),
    ("DT", AccessMask(0x040)),
    ("LO", AccessMask(0x080)),
    ("CR", AccessMask(0x100)),
    ("KA", AccessMask(0x000f_003f)),
    ("KR", AccessMask(0x0002_0019)),
    ("KX", AccessMask(0x0002_0019)),
    ("KW", AccessMask(0x0002_0006)),
    ("NW", AccessMask(0x1)),
    ("NR", AccessMask(0x2)),
    ("NX", AccessMask(0x4)),
];

/// The notation of a NULL ACL.
pub(super) const NULL_LIST: &str = "NO_ACCESS_CONTROL";

/// The control bits of a DACL or SACL.
pub(super) struct ListBits {
    /// The presence bit.
    pub(super) present: Control,
    /// The control bits of the SDDL flags.
    pub(super) flags: [(&'static str, Control); 3],
}

pub(super) const OF_DACL: ListBits = ListBits {
    present: Control::DACL_PRESENT,
    flags: [
        ("P", Control::DACL_PROTECTED),
        ("AR", Control::DACL_COMPUTED_INHERITANCE_REQUIRED),
        ("AI", Control::DACL_AUTO_INHERITED),
    ],
};

pub(super) const OF_SACL: ListBits = ListBits {
    present: Control::SACL_PRESENT,
    flags: [
        ("P", Control::SACL_PROTECTED),
        ("AR", Control::SACL_COMPUTED_INHERITANCE_REQUIRED),
        ("AI", Control::SACL_AUTO_INHERITED),
    ],
};
