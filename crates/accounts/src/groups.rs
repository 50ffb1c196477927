//! Groups with their own SIDs, each mapped to a UNIX group, like the mappings of Samba's `net groupmap`.
//!
//! A member of the UNIX group has the group's SID in the token, so stored ACLs that name the SID apply to the member.

use anyhow::{Context, Result, bail, ensure};
use proto::dtyp::Sid;
use serde::{Deserialize, Serialize};
use server::accounts::DomainSid;
use server::accounts::principals::{Principal, Realm, SidNameUse};

use super::record::check_name;

/// The first byte of a stored group; every change of [`Group`]'s fields needs a new version.
const VERSION: u8 = 1;

/// The longest comment in bytes.
const LONGEST_COMMENT: usize = 1024;

/// A stored group; its SID is the key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The name in Windows.
    pub name: String,
    /// The SID.
    #[serde(with = "sid_text")]
    pub sid: Sid,
    /// The UNIX group.
    pub gid: u32,
    /// The kind of group.
    pub kind: GroupKind,
    /// The administrator's comment; may be empty.
    pub comment: String,
}

/// The kind of a group, in the terms of `net groupmap`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum GroupKind {
    /// A group of the domain of this server's accounts
    Domain,
    /// A local group of this server
    Local,
    /// A local group that every server has: S-1-5-32-...
    Builtin,
}

/// The key of a group look-up.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum GroupKey {
    /// By its SID.
    Sid(Sid),
    /// By its UNIX group.
    Gid(u32),
    /// By its name in Windows, without regard to case.
    Name(String),
}

/// The description of a new group.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The name in Windows.
    pub name: String,
    /// The SID.
    pub sid: NewSid,
    /// The UNIX group.
    pub gid: u32,
    /// The kind of group.
    pub kind: GroupKind,
    /// The comment.
    pub comment: String,
}

/// The SID of a new group.
#[derive(Clone, Debug)]
pub enum NewSid {
    /// The next free one in the back end's domain.
    Next,
    /// The one with this RID in that domain.
    Rid(u32),
    /// A complete SID.
    Whole(Sid),
}

/// The groups with SIDs of a back end, for `frevo group`. All methods block, and errors are shown to the user.
pub trait GroupStore {
    /// Returns all groups, in the order of their SIDs.
    fn all(&self) -> Result<Vec<Group>>;

    /// Returns the group with the Windows name `name`.
    fn named(&self, name: &str) -> Result<Option<Group>>;

    /// Adds a group; refuses one whose name, SID or UNIX group is already in use.
    fn add(&self, wanted: Wanted) -> Result<Group>;

    /// Changes the name or comment of the group called `name`; `None` if it does not exist.
    fn edit(&self, name: &str, new_name: Option<String>, comment: Option<String>) -> Result<Option<Group>>;

    /// Adds users to the UNIX group of the group called `name`, removes others, and returns the resulting members.
    /// `None` if the group does not exist.
    fn members(&self, name: &str, add: Vec<String>, remove: Vec<String>) -> Result<Option<Vec<String>>>;

    /// Removes the SID of the group called `name`; `false` if it does not exist.
    fn remove(&self, name: &str) -> Result<bool>;
}

impl Group {
    /// Returns the stored form.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        serde_json::to_writer(&mut bytes, self).expect("writing plain fields to memory cannot fail");
        bytes
    }

    /// Parses the stored form.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        match bytes.split_first() {
            Some((&VERSION, json)) => serde_json::from_slice(json).context("the group is damaged"),
            Some((&version, _)) => {
                bail!("the group has version {version}, this program supports {VERSION}: use a newer version of Frevo")
            }
            None => bail!("the group is empty"),
        }
    }

    /// Checks a group of a server whose accounts are in `domain`; the error says why it is not allowed.
    pub fn check(&self, domain: DomainSid) -> Result<()> {
        check_name(&self.name)?;
        ensure!(self.comment.len() <= LONGEST_COMMENT, "a comment has at most {LONGEST_COMMENT} bytes");
        ensure!(!self.comment.chars().any(char::is_control), "the comment contains control characters");
        let parts = self.sid.sub_authorities();
        let builtin = self.sid.authority() == 5 && parts.len() == 2 && parts[0] == 32;
        let account = self.sid.authority() == 5 && parts.len() == 5 && parts[0] == 21;
        match self.kind {
            GroupKind::Builtin => ensure!(builtin, "{} is not the SID of a builtin group (S-1-5-32-...)", self.sid),
            _ => ensure!(account, "{} is not the SID of a group ({domain}-... or S-1-5-21-...)", self.sid),
        }
        ensure!(self.gid != u32::MAX, "{} is not a valid gid", self.gid);
        Ok(())
    }

    /// Returns the group as clients see it. A group with a SID of a migrated server belongs to this server now.
    pub fn principal(&self) -> Principal {
        let realm = match self.kind {
            GroupKind::Builtin => Realm::Named("BUILTIN".into()),
            GroupKind::Domain | GroupKind::Local => Realm::Server,
        };
        let kind = if self.kind == GroupKind::Domain { SidNameUse::GROUP } else { SidNameUse::ALIAS };
        Principal { sid: self.sid, kind, realm, name: self.name.clone() }
    }
}

/// Serializes SIDs as text.
mod sid_text {
    use proto::dtyp::Sid;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(sid: &Sid, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(sid)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sid, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| serde::de::Error::custom("not a SID"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: DomainSid = DomainSid([1, 2, 3]);

    #[test]
    fn a_group_is_stored_and_read() {
        let group = Group {
            name: "Staff".into(),
            sid: DOMAIN.with_rid(1100),
            gid: 50,
            kind: GroupKind::Domain,
            comment: "all of us".into(),
        };
        assert_eq!(Group::decode(&group.encode()).unwrap(), group);
        assert!(Group::decode(&[]).is_err());
        assert!(Group::decode(&[9]).unwrap_err().to_string().contains("newer"));
    }

    #[test]
    fn the_sid_must_match_the_group_kind() {
        let check = |kind, sid: &str, expected: bool| {
            let sid = sid.parse().unwrap();
            let group = Group { name: "Staff".into(), sid, gid: 50, kind, comment: String::new() };
            assert_eq!(group.check(DOMAIN).is_ok(), expected, "{kind:?} {sid}");
        };
        check(GroupKind::Domain, "S-1-5-21-1-2-3-513", true);
        check(GroupKind::Local, "S-1-5-21-9-9-9-1100", true);
        check(GroupKind::Builtin, "S-1-5-32-544", true);
        check(GroupKind::Builtin, "S-1-5-21-1-2-3-513", false);
        for sid in ["S-1-5-32-544", "S-1-1-0", "S-1-22-2-50", "S-1-5-21-1-2-3"] {
            check(GroupKind::Domain, sid, false);
        }
    }
}
