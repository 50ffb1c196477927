//! The lists of accounts and groups, for the samr pipe.

use proto::dtyp::Sid;

use super::Unavailable;
use super::principals::Principal;
use crate::answer::Answer;

/// The enumerable accounts and groups.
pub trait Roster: Send + Sync {
    /// Returns up to `most` accounts whose folded names sort after `after`, in that order. Fewer than `most` means that
    /// there are no more. For enumeration; may be slow.
    fn users(&self, after: Option<&str>, most: usize) -> Answer<Result<Vec<ListedAccount>, Unavailable>>;

    /// Returns the number of accounts with SIDs of [`IdMap::domain`](super::IdMap::domain); may be slightly out of
    /// date.
    fn count_users(&self) -> Answer<Result<u32, Unavailable>>;

    /// Returns up to `most` groups with SIDs of their own that sort after `after`, in that order.
    fn groups(&self, after: Option<&Sid>, most: usize) -> Answer<Result<Vec<ListedGroup>, Unavailable>>;

    /// Returns the group that has `sid` as its own SID.
    fn group(&self, sid: &Sid) -> Answer<Result<Option<ListedGroup>, Unavailable>>;

    /// Returns the SIDs of up to `most` members of `group`; empty if there is no such group.
    fn members(&self, group: &Sid, most: usize) -> Answer<Result<Vec<Sid>, Unavailable>>;
}

/// An account as enumerated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedAccount {
    /// The name as stored.
    pub name: String,
    /// The account's SID.
    pub sid: Sid,
    /// The owner's full name; often empty.
    pub full_name: String,
    /// [`Account::disabled`](super::Account::disabled).
    pub disabled: bool,
    /// [`Account::locked`](super::Account::locked).
    pub locked: bool,
    /// [`Account::never_expires`](super::Account::never_expires).
    pub never_expires: bool,
}

/// A group as enumerated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedGroup {
    /// Name, SID and kind.
    pub principal: Principal,
    /// The administrator's comment; may be empty.
    pub comment: String,
}
