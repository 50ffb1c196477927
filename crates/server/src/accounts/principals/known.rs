//! The well-known SIDs ([MS-DTYP] 2.4.2.4), spelled as in [MS-LSAT] 3.1.1.1.1, except for `SYSTEM`, which Windows and
//! Samba write in capitals.

use proto::dtyp::Sid;

use super::{FullName, Principal, Realm, SidNameUse, UNIX_GROUPS, UNIX_USERS};

const AUTHORITY: &str = "NT Authority";
const BUILTIN: &str = "BUILTIN";

/// SID, realm (empty for none), name, kind. The name of a domain itself is its realm's.
const KNOWN: &[(Sid, &str, &str, SidNameUse)] = &[
    (Sid::NULL, "", "Null Sid", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::EVERYONE, "", "Everyone", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(2, [0]), "", "Local", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(2, [1]), "", "Console Logon", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::CREATOR_OWNER, "", "Creator Owner", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::CREATOR_GROUP, "", "Creator Group", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(3, [2]), "", "Creator Owner Server", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(3, [3]), "", "Creator Group Server", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::OWNER_RIGHTS, "", "Owner Rights", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, []), AUTHORITY, "", SidNameUse::DOMAIN),
    (Sid::of(5, [1]), AUTHORITY, "Dialup", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::NETWORK, AUTHORITY, "Network", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, [3]), AUTHORITY, "Batch", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, [4]), AUTHORITY, "Interactive", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, [6]), AUTHORITY, "Service", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::ANONYMOUS, AUTHORITY, "Anonymous Logon", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, [8]), AUTHORITY, "Proxy", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, [9]), AUTHORITY, "Enterprise Domain Controllers", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::PRINCIPAL_SELF, AUTHORITY, "Self", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::AUTHENTICATED_USERS, AUTHORITY, "Authenticated Users", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, [12]), AUTHORITY, "Restricted", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, [13]), AUTHORITY, "Terminal Server User", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, [14]), AUTHORITY, "Remote Interactive Logon", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, [15]), AUTHORITY, "This Organization", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, [17]), AUTHORITY, "IUSR", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::SYSTEM, AUTHORITY, "SYSTEM", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, [19]), AUTHORITY, "Local Service", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, [20]), AUTHORITY, "Network Service", SidNameUse::WELL_KNOWN_GROUP),
    (Sid::of(5, [32]), BUILTIN, "", SidNameUse::DOMAIN),
    (Sid::BUILTIN_ADMINISTRATORS, BUILTIN, "Administrators", SidNameUse::ALIAS),
    (Sid::BUILTIN_USERS, BUILTIN, "Users", SidNameUse::ALIAS),
    (Sid::BUILTIN_GUESTS, BUILTIN, "Guests", SidNameUse::ALIAS),
    (Sid::of(5, [32, 547]), BUILTIN, "Power Users", SidNameUse::ALIAS),
    (Sid::of(5, [32, 548]), BUILTIN, "Account Operators", SidNameUse::ALIAS),
    (Sid::of(5, [32, 549]), BUILTIN, "Server Operators", SidNameUse::ALIAS),
    (Sid::of(5, [32, 550]), BUILTIN, "Print Operators", SidNameUse::ALIAS),
    (Sid::of(5, [32, 551]), BUILTIN, "Backup Operators", SidNameUse::ALIAS),
    (Sid::of(5, [32, 552]), BUILTIN, "Replicator", SidNameUse::ALIAS),
    (Sid::of(5, [32, 554]), BUILTIN, "Pre-Windows 2000 Compatible Access", SidNameUse::ALIAS),
    (Sid::of(22, [1]), UNIX_USERS, "", SidNameUse::DOMAIN),
    (Sid::of(22, [2]), UNIX_GROUPS, "", SidNameUse::DOMAIN),
];

pub(super) fn by_sid(sid: &Sid) -> Option<Principal> {
    KNOWN.iter().find(|(known, ..)| known == sid).map(principal)
}

pub(super) fn by_name(full: &FullName<'_>) -> Option<Principal> {
    let is_it = |(_, realm, name, kind): &&(Sid, &str, &str, SidNameUse)| match *kind {
        SidNameUse::DOMAIN => full.realm.is_none() && full.name.eq_ignore_ascii_case(realm),
        _ => full.may_be_of(realm) && full.name.eq_ignore_ascii_case(name),
    };
    KNOWN.iter().find(is_it).map(principal)
}

/// Returns the built-in groups.
pub(super) fn builtin_aliases() -> impl Iterator<Item = Principal> {
    KNOWN.iter().filter(|(_, realm, _, kind)| *realm == BUILTIN && *kind == SidNameUse::ALIAS).map(principal)
}

fn principal((sid, realm, name, kind): &(Sid, &str, &str, SidNameUse)) -> Principal {
    let realm = if realm.is_empty() { Realm::Nowhere } else { Realm::Named((*realm).to_owned()) };
    Principal { sid: *sid, kind: *kind, realm, name: (*name).to_owned() }
}
