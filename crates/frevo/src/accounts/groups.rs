//! Groups with SIDs of their own: which UNIX group each is. They are what `net groupmap` keeps for Samba.
//!
//! A member of the UNIX group has the group's SID in his token, so a stored ACL that names it counts for him.

use anyhow::{Context, Result, bail, ensure};
use proto::dtyp::Sid;
use serde::{Deserialize, Serialize};
use server::accounts::DomainSid;
use server::principals::{Principal, Realm, SidNameUse};

use super::record::check_name;

/// The first byte of a stored group; any change of [`Group`]'s fields is a new version.
const VERSION: u8 = 1;

/// The longest comment in bytes.
const LONGEST_COMMENT: usize = 1024;

/// A group as it is stored; its SID is the key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// What Windows calls it.
    pub name: String,
    /// Its SID.
    #[serde(with = "sid_text")]
    pub sid: Sid,
    /// The UNIX group.
    pub gid: u32,
    /// What it is.
    pub kind: GroupKind,
    /// What the administrator wrote of it; may be empty.
    pub comment: String,
}

/// What a group is, in the words of `net groupmap`.
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

/// How a group is asked for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum GroupKey {
    /// By its SID.
    Sid(Sid),
    /// By its UNIX group.
    Gid(u32),
    /// By the name that Windows has for it, without regard to case.
    Name(String),
}

/// A group that is to be.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What Windows is to call it.
    pub name: String,
    /// Its SID.
    pub sid: NewSid,
    /// The UNIX group.
    pub gid: u32,
    /// What it is.
    pub kind: GroupKind,
    /// What is to be known of it.
    pub comment: String,
}

/// The SID of a group that is to be.
#[derive(Clone, Debug)]
pub enum NewSid {
    /// The next of the domain that the back end gives SIDs of.
    Next,
    /// One of that domain.
    Rid(u32),
    /// This one.
    Whole(Sid),
}

/// Groups with SIDs of a back end that has any, for `frevo group`. All of it blocks, and errors are for the person who asked.
pub trait GroupStore {
    /// All groups, in the order of their SIDs.
    fn all(&self) -> Result<Vec<Group>>;

    /// The group that Windows calls `name`.
    fn named(&self, name: &str) -> Result<Option<Group>>;

    /// Adds a group; refuses one whose name, SID or UNIX group another has.
    fn add(&self, wanted: Wanted) -> Result<Group>;

    /// Gives the group called `name` another name or comment; `None` where there is none.
    fn edit(&self, name: &str, new_name: Option<String>, comment: Option<String>) -> Result<Option<Group>>;

    /// Adds users to the UNIX group that the group called `name` is and takes others from it; who is in it then. `None`
    /// where there is none.
    fn members(&self, name: &str, add: Vec<String>, remove: Vec<String>) -> Result<Option<Vec<String>>>;

    /// Takes the SID from the group called `name`; `false` where there is none.
    fn remove(&self, name: &str) -> Result<bool>;
}

impl Group {
    /// The bytes that are stored.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        serde_json::to_writer(&mut bytes, self).expect("writing plain fields to memory cannot fail");
        bytes
    }

    /// The group in `bytes`.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        match bytes.split_first() {
            Some((&VERSION, json)) => serde_json::from_slice(json).context("damaged group"),
            Some((&version, _)) => {
                bail!("group of version {version}, this program knows {VERSION}: was it written by a newer one?")
            }
            None => bail!("empty group"),
        }
    }

    /// Why this cannot be a group of a server whose accounts are in `domain`.
    pub fn check(&self, domain: DomainSid) -> Result<()> {
        check_name(&self.name)?;
        ensure!(self.comment.len() <= LONGEST_COMMENT, "a comment has at most {LONGEST_COMMENT} bytes");
        ensure!(!self.comment.chars().any(char::is_control), "the comment has control characters");
        let parts = self.sid.sub_authorities();
        let builtin = self.sid.authority() == 5 && parts.len() == 2 && parts[0] == 32;
        let account = self.sid.authority() == 5 && parts.len() == 5 && parts[0] == 21;
        match self.kind {
            GroupKind::Builtin => ensure!(builtin, "{} is no SID of a builtin group (S-1-5-32-...)", self.sid),
            _ => ensure!(account, "{} is no group's SID ({domain}-... or S-1-5-21-...)", self.sid),
        }
        ensure!(self.gid != u32::MAX, "{} is no gid", self.gid);
        Ok(())
    }

    /// The group as clients see it. One with a SID of the server that it was taken over from is this server's now.
    pub fn principal(&self) -> Principal {
        let realm = match self.kind {
            GroupKind::Builtin => Realm::Named("BUILTIN".into()),
            GroupKind::Domain | GroupKind::Local => Realm::Server,
        };
        let kind = if self.kind == GroupKind::Domain { SidNameUse::GROUP } else { SidNameUse::ALIAS };
        Principal { sid: self.sid, kind, realm, name: self.name.clone() }
    }
}

/// SIDs as text.
mod sid_text {
    use proto::dtyp::Sid;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(sid: &Sid, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(sid)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sid, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| serde::de::Error::custom("no SID"))
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
    fn sids_belong_to_their_kind() {
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
