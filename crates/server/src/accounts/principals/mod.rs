//! Users and groups by name and by SID, for the lsarpc pipe and for a share's user lists.
//!
//! Accounts, and groups with SIDs of their own, are in [`crate::accounts`]. This module has the principals
//! that every server has: the well-known SIDs ([MS-DTYP] 2.4.2.4) and the UNIX ids, S-1-22-1-uid and S-1-22-2-gid.

mod known;
mod of_server;

use proto::dtyp::Sid;
pub use proto::rpc::lsarpc::SidNameUse;

pub use self::of_server::of_server;
use crate::accounts::{DomainSid, IdMap, Unavailable};

/// The realm name of S-1-22-1.
pub const UNIX_USERS: &str = "Unix User";
/// The realm name of S-1-22-2.
pub const UNIX_GROUPS: &str = "Unix Group";
/// The RID of a machine's group of all users ([MS-DTYP] 2.4.2.4, DOMAIN_USERS).
pub const ALL_USERS_RID: u32 = 513;
/// The name of that group on a server that is not a domain controller, as on Windows.
pub const ALL_USERS: &str = "None";

/// A UNIX user or group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum UnixId {
    /// A user.
    User(u32),
    /// A group.
    Group(u32),
    /// A user and a group of the same number, as some id mappings of domains define them.
    Both(u32),
}

impl UnixId {
    /// Returns the id if it is that of a user.
    pub fn uid(self) -> Option<u32> {
        match self {
            UnixId::User(id) | UnixId::Both(id) => Some(id),
            UnixId::Group(_) => None,
        }
    }

    /// Returns the id if it is that of a group.
    pub fn gid(self) -> Option<u32> {
        match self {
            UnixId::Group(id) | UnixId::Both(id) => Some(id),
            UnixId::User(_) => None,
        }
    }

    /// Returns the id in a SID of the form S-1-22-1-uid or S-1-22-2-gid.
    pub fn in_sid(sid: &Sid) -> Option<UnixId> {
        sid.as_unix_user().map(UnixId::User).or_else(|| sid.as_unix_group().map(UnixId::Group))
    }

    /// Returns the SID that contains the id itself.
    pub fn plain_sid(self) -> Sid {
        match self {
            UnixId::User(id) | UnixId::Both(id) => Sid::unix_user(id),
            UnixId::Group(id) => Sid::unix_group(id),
        }
    }
}

/// A user, group or domain with its name and SID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Principal {
    /// The SID.
    pub sid: Sid,
    /// The type of the SID.
    pub kind: SidNameUse,
    /// The realm of the name.
    pub realm: Realm,
    /// The name within the realm; empty for a domain itself.
    pub name: String,
}

/// Returns whether a domain may assign `sid` to its users: SIDs of accounts and groups of domains, S-1-5-21-..., and
/// S-1-18-n, how the user was authenticated. A domain, or one that it trusts, must not make a user root, an
/// administrator or a file's owner on this server ([MS-PAC] 4.1.2.2).
pub fn may_come_from_domain(sid: &Sid) -> bool {
    match sid.authority() {
        5 => sid.sub_authorities().first() == Some(&21),
        authority => authority == 18,
    }
}

/// The realm of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Realm {
    /// The server itself; its accounts are in [`IdMap::domain`].
    Server,
    /// Any other realm, by name: `BUILTIN`, `NT Authority`, `Unix Group`, a domain.
    Named(String),
    /// No realm: `Everyone` and a few more.
    Nowhere,
}

impl Realm {
    /// Returns the realm's name on a server called `server`.
    pub fn name<'a>(&'a self, server: &'a str) -> &'a str {
        match self {
            Realm::Server => server,
            Realm::Named(name) => name,
            Realm::Nowhere => "",
        }
    }
}

/// A name with an optional realm: `DOMAIN\name` or `name` alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FullName<'a> {
    /// The part before the backslash.
    pub realm: Option<&'a str>,
    /// The name.
    pub name: &'a str,
}

impl<'a> FullName<'a> {
    /// Splits `text`.
    pub fn of(text: &'a str) -> FullName<'a> {
        match text.split_once('\\') {
            Some((realm, name)) => FullName { realm: Some(realm).filter(|realm| !realm.is_empty()), name },
            None => FullName { realm: None, name: text },
        }
    }

    fn may_be_of(&self, realm: &str) -> bool {
        self.realm.is_none_or(|named| named.eq_ignore_ascii_case(realm))
    }
}

/// Returns the principal of a SID that every server has, without an account lookup.
pub(crate) fn well_known_sid(domain: DomainSid, sid: &Sid) -> Option<Principal> {
    known::by_sid(sid).or_else(|| own(domain).into_iter().find(|principal| principal.sid == *sid))
}

/// Returns the principal called `name` that every server has, on a server called `server`, without an account lookup.
pub(crate) fn well_known_name(domain: DomainSid, server: &str, name: &str) -> Option<Principal> {
    let full = FullName::of(name);
    known::by_name(&full).or_else(|| own_by_name(domain, server, &full))
}

fn own_by_name(domain: DomainSid, server: &str, full: &FullName<'_>) -> Option<Principal> {
    let own_realm = full.may_be_of(server);
    let is_it = |principal: &Principal| match principal.kind {
        SidNameUse::DOMAIN => full.realm.is_none() && full.name.eq_ignore_ascii_case(server),
        _ => own_realm && full.name.eq_ignore_ascii_case(&principal.name),
    };
    own(domain).into_iter().find(is_it)
}

/// Returns the principal of a SID; `None` if it is unknown on this server.
pub async fn by_sid(ids: &dyn IdMap, sid: &Sid) -> Result<Option<Principal>, Unavailable> {
    if let Some(known) = known::by_sid(sid) {
        return Ok(Some(known));
    }
    if let Some(principal) = ids.principal(sid).await? {
        return Ok(Some(principal));
    }
    Ok(own(ids.domain()).into_iter().find(|principal| principal.sid == *sid))
}

/// Returns the principal called `name` on a server called `server`.
pub async fn by_name(ids: &dyn IdMap, server: &str, name: &str) -> Result<Option<Principal>, Unavailable> {
    if let Some(known) = well_known_name(ids.domain(), server, name) {
        return Ok(Some(known));
    }
    let full = FullName::of(name);
    let realm = full.realm.filter(|realm| !realm.eq_ignore_ascii_case(server));
    ids.named(realm, full.name).await
}

/// Returns the built-in groups, S-1-5-32-544 and so on.
pub(crate) fn builtin_aliases() -> impl Iterator<Item = Principal> {
    known::builtin_aliases()
}

/// Returns the principals that every server has in its own domain.
fn own(domain: DomainSid) -> [Principal; 2] {
    let principal = |sid, kind, name: &str| Principal { sid, kind, realm: Realm::Server, name: name.to_owned() };
    [
        principal(domain.sid(), SidNameUse::DOMAIN, ""),
        principal(domain.with_rid(ALL_USERS_RID), SidNameUse::GROUP, ALL_USERS),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::block_on;
    use crate::testing::TestAccounts;

    fn check(name: &str, sid: &str, kind: SidNameUse) {
        let found = block_on(by_name(&TestAccounts, "SRV", name)).expect("answers").expect(name);
        assert_eq!((found.sid.to_string().as_str(), found.kind), (sid, kind), "{name}");
        let back = block_on(by_sid(&TestAccounts, &found.sid)).expect("answers").expect(name);
        assert_eq!(back, found, "{name}");
    }

    #[test]
    fn names_lead_to_sids_and_back() {
        check("Everyone", "S-1-1-0", SidNameUse::WELL_KNOWN_GROUP);
        check("system", "S-1-5-18", SidNameUse::WELL_KNOWN_GROUP);
        check("nt authority\\Network", "S-1-5-2", SidNameUse::WELL_KNOWN_GROUP);
        check("BUILTIN\\Users", "S-1-5-32-545", SidNameUse::ALIAS);
        check("Administrators", "S-1-5-32-544", SidNameUse::ALIAS);
        check("BUILTIN", "S-1-5-32", SidNameUse::DOMAIN);
        check("srv", "S-1-5-21-1-2-3", SidNameUse::DOMAIN);
        check("SRV\\None", "S-1-5-21-1-2-3-513", SidNameUse::GROUP);
        check("alice", "S-1-5-21-1-2-3-1000", SidNameUse::USER);
        check("SRV\\BOB", "S-1-5-21-1-2-3-1001", SidNameUse::USER);
    }

    #[test]
    fn unknown_names_have_no_sid() {
        for name in ["", "nobody at all", "BUILTIN\\alice", "OTHER\\alice", "SRV\\Everyone", "SRV\\SRV", "a\\b\\c"] {
            assert_eq!(block_on(by_name(&TestAccounts, "SRV", name)).expect("answers"), None, "{name}");
        }
        for sid in ["S-1-5-21-1-2-3-77", "S-1-5-21-9-9-9-1000", "S-1-5-32-1", "S-1-9"] {
            let sid = sid.parse().expect("a SID");
            assert_eq!(block_on(by_sid(&TestAccounts, &sid)).expect("answers"), None, "{sid}");
        }
    }
}
