//! Changes of accounts, groups and policies, which administrators make through the samr pipe.
//!
//! The service has checked that the caller is an administrator.

use proto::dtyp::Sid;

use super::{NtHash, principals::SidNameUse};
use crate::answer::Answer;
use crate::vfs::Time;

/// The accounts and groups as an administrator changes them. A name is compared case-insensitively.
pub trait Administration: Send + Sync {
    /// Adds a disabled account without a password, and returns its SID.
    fn add_user(&self, name: &str) -> Answer<Result<Sid, NotDone>>;

    /// Changes an account in one step.
    fn change_user(&self, name: &str, change: UserChange) -> Answer<Result<(), NotDone>>;

    /// Deletes an account with all that the server stores about it.
    fn delete_user(&self, name: &str) -> Answer<Result<(), NotDone>>;

    /// Adds a group of the server's domain, which is of the type `kind`: GROUP or ALIAS. Returns its SID.
    fn add_group(&self, name: &str, kind: SidNameUse) -> Answer<Result<Sid, NotDone>>;

    /// Changes a group.
    fn change_group(&self, name: &str, change: GroupChange) -> Answer<Result<(), NotDone>>;

    /// Deletes a group; the UNIX group is kept.
    fn delete_group(&self, name: &str) -> Answer<Result<(), NotDone>>;

    /// Sets account policies, by the names of `pdbedit -P`.
    fn set_policies(&self, policies: Vec<(&'static str, i64)>) -> Answer<Result<(), NotDone>>;
}

/// What changes of an account. `None` keeps a field.
#[derive(Clone, Default)]
pub struct UserChange {
    /// The owner's full name.
    pub full_name: Option<String>,
    /// The password, by its hash. Another one clears `locked` and `must_change`.
    pub nt_hash: Option<NtHash>,
    /// [`Account::disabled`](super::Account::disabled).
    pub disabled: Option<bool>,
    /// [`Account::locked`](super::Account::locked).
    pub locked: Option<bool>,
    /// [`Account::must_change`](super::Account::must_change).
    pub must_change: Option<bool>,
    /// [`Account::never_expires`](super::Account::never_expires).
    pub never_expires: Option<bool>,
    /// [`Account::expires`](super::Account::expires).
    pub expires: Option<Option<Time>>,
}

/// What changes of a group. `None` keeps a field.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupChange {
    /// Its name.
    pub name: Option<String>,
    /// The administrator's comment.
    pub comment: Option<String>,
    /// The names of accounts that become members.
    pub add: Vec<String>,
    /// The names of members that are removed.
    pub remove: Vec<String>,
}

/// Why a change was not made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotDone {
    /// There is an account or group of that name.
    Exists,
    /// There is no such account or group.
    NotFound,
    /// The name is not allowed.
    Name(String),
    /// The UNIX user or group that the name needs does not exist.
    NoUnixObject(String),
    /// The back end cannot store the change; the text says what to do, for the log.
    NotStored(String),
    /// The back end failed; the text names it and the reason, for the log.
    Unavailable(String),
}
