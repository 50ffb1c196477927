//! Logons: looking up accounts, and recording what follows from a logon.

use proto::auth::pac::LogonInfo;

use super::{Account, AccountPolicy, Unavailable};
use crate::answer::Answer;
use crate::tickets::ClientName;

/// The accounts that may log on.
pub trait Authenticator: Send + Sync {
    /// Returns the account called `name`, compared case-insensitively, or `None` if there is none. An error means that
    /// the back end was not available; it must never be treated as "no such user".
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>>;

    /// Returns the account called `name`, bypassing the back end's cache, for a proof that does not match the answer of
    /// [`Authenticator::find`]. Returns `None` if that answer was not older, or if the account no longer exists.
    fn find_anew(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>>;

    /// Returns the account for a client with a valid Kerberos ticket, on a server that is not a domain member; `logon`
    /// is the user information signed by a domain controller. Returns `None` if no account matches. Never root, because
    /// a name in a realm is not sufficient for that.
    fn of_client(&self, client: &ClientName, logon: Option<&LogonInfo>)
    -> Answer<Result<Option<Account>, Unavailable>>;

    /// Records the outcome of a password logon to the account `name`, for back ends that count them. Must not block.
    fn logged_on(&self, name: &str, outcome: LogonOutcome);

    /// Records that the account is locked after wrong passwords, until an administrator enables it. Must not block.
    fn lock(&self, name: &str);

    /// Changes the account's password hash from `old` to `new`, if `old` is still the current one.
    fn change_password(&self, name: &str, old: NtHash, new: NtHash) -> Answer<Result<(), NotChanged>>;

    /// Returns the account policies in force. Called at each logon.
    fn policy(&self) -> AccountPolicy;
}

/// An NT password hash. It is a password equivalent, so it does not implement `Debug` and is wiped when dropped.
#[derive(Clone, zeroize::Zeroize, zeroize::ZeroizeOnDrop)]
pub struct NtHash(pub [u8; 16]);

/// The outcome of a logon to an existing account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogonOutcome {
    /// The password was right, and the account may log on.
    Success,
    /// The password was wrong.
    WrongPassword,
}

/// Why a password was not changed.
#[derive(Debug)]
pub enum NotChanged {
    /// The account no longer exists, or its password is no longer the old one.
    Wrong,
    /// The new password is in the password history that `password history` keeps.
    InHistory,
    /// The back end failed; the text names it and the reason, for the log.
    Unavailable(String),
}
