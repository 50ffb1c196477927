//! The user accounts that may log on: a trait that the daemon's back ends implement.

mod plain;
mod policy;
pub mod principals;

use std::fmt;
use std::sync::Arc;

use proto::auth::pac::LogonInfo;
use proto::dtyp::Sid;

pub use self::policy::AccountPolicy;
use self::principals::{Principal, UnixId};
use crate::answer::Answer;
use crate::tickets::ClientName;
use crate::vfs::{Identity, Time};

/// The account database that the server uses. No method has a default body, so that an implementation that wraps
/// another one cannot forget a method. Implementations in tests take default answers from
/// [`plain_accounts`](crate::plain_accounts).
pub trait Accounts: Send + Sync {
    /// Returns the account called `name`, compared case-insensitively, or `None` if there is none. An error means that
    /// the back end was not available; it must never be treated as "no such user".
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>>;

    /// Returns the account for a client with a valid Kerberos ticket, on a server that is not a domain member; `logon`
    /// is the user information signed by a domain controller. Returns `None` if no account matches. Never root, because
    /// a name in a realm is not sufficient for that.
    fn of_client(&self, client: &ClientName, logon: Option<&LogonInfo>)
    -> Answer<Result<Option<Account>, Unavailable>>;

    /// Returns the account called `name`, bypassing the back end's cache, for a proof that does not match the answer of
    /// [`Accounts::find`]. Returns `None` if that answer was not older, or if the account no longer exists.
    fn find_anew(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>>;

    /// Records the outcome of a password logon to the account `name`, for back ends that count them. Must not block.
    fn logged_on(&self, name: &str, outcome: LogonOutcome);

    /// Returns the uid of the account that has or had the SID `sid`, or `None` if there is none. Called for many SIDs
    /// in a row, so it must be fast for a SID that does not belong to an account.
    fn uid_of(&self, sid: &Sid) -> Answer<Result<Option<u32>, Unavailable>>;

    /// Returns the UNIX user or group that has or had the SID `sid`. Called for many SIDs in a row, as
    /// [`Accounts::uid_of`].
    fn id_of(&self, sid: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>>;

    /// Returns the SID under which a UNIX user or group is shown: an account's, a mapped group's, or the one that
    /// contains the id.
    fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>>;

    /// Returns the SIDs of accounts and mapped groups for a UNIX user and its groups, besides those that contain the
    /// ids.
    fn sids_of(&self, identity: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>>;

    /// Returns the principal of `sid`, if it belongs to an account, a mapped group, or a UNIX user or group.
    fn principal(&self, sid: &Sid) -> Answer<Result<Option<Principal>, Unavailable>>;

    /// Announces the SIDs that [`Accounts::principal`] will be called for next, so that a back end can look up many at
    /// once. The results of the later calls are authoritative.
    fn expect_sids(&self, sids: &[Sid]) -> Answer<()>;

    /// Returns the principal called `name`: an account or group of this server if `realm` is `None`, otherwise one of
    /// that realm (`Unix User`, `Unix Group`, a domain).
    fn named(&self, realm: Option<&str>, name: &str) -> Answer<Result<Option<Principal>, Unavailable>>;

    /// Returns whether the UNIX user called `user` is in the netgroup `group`.
    fn is_in_netgroup(&self, user: &str, group: &str) -> Answer<Result<bool, Unavailable>>;

    /// Returns up to `most` accounts whose folded names sort after `after`, in that order. Fewer than `most` means that
    /// there are no more. For enumeration; may be slow.
    fn users(&self, after: Option<&str>, most: usize) -> Answer<Result<Vec<ListedAccount>, Unavailable>>;

    /// Returns the number of accounts with SIDs of [`Accounts::domain`]; may be slightly out of date.
    fn count_users(&self) -> Answer<Result<u32, Unavailable>>;

    /// Returns up to `most` groups with SIDs of their own that sort after `after`, in that order.
    fn groups(&self, after: Option<&Sid>, most: usize) -> Answer<Result<Vec<ListedGroup>, Unavailable>>;

    /// Returns the group that has `sid` as its own SID.
    fn group(&self, sid: &Sid) -> Answer<Result<Option<ListedGroup>, Unavailable>>;

    /// Returns the SIDs of up to `most` members of `group`; empty if there is no such group.
    fn members(&self, group: &Sid, most: usize) -> Answer<Result<Vec<Sid>, Unavailable>>;

    /// Returns the machine SID: the domain SID of the accounts to which this machine assigns SIDs.
    fn domain(&self) -> DomainSid;

    /// Returns whether `sid` is in this machine's domain, under its present or a former machine SID. No other domain
    /// may assign such SIDs. See [`crate::accounts::principals::of_server`].
    fn is_of_machine(&self, sid: &Sid) -> bool;

    /// Returns the account policies in force. Called at each logon.
    fn policy(&self) -> AccountPolicy;

    /// Records that the account is locked after wrong passwords, until an administrator enables it. Must not block.
    fn lock(&self, name: &str);

    /// Changes the account's password hash from `old` to `new`, if `old` is still the current one.
    fn change_password(&self, name: &str, old: NtHash, new: NtHash) -> Answer<Result<(), NotChanged>>;
}

/// The SID of a machine or domain, S-1-5-21-x-y-z ([MS-DTYP] 2.4.2.4), as its three distinguishing numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainSid(pub [u32; 3]);

impl DomainSid {
    /// Returns the SID of the domain itself.
    pub const fn sid(self) -> Sid {
        let [x, y, z] = self.0;
        Sid::of(5, [21, x, y, z])
    }

    /// Returns the SID of an account in the domain.
    pub const fn with_rid(self, rid: u32) -> Sid {
        let [x, y, z] = self.0;
        Sid::of(5, [21, x, y, z, rid])
    }
}

impl fmt::Display for DomainSid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "S-1-5-21-{x}-{y}-{z}")
    }
}

/// A user account, with all that a session needs.
#[derive(Clone)]
pub struct Account {
    /// The name as stored, for display and for `valid users`.
    pub name: String,
    /// MD4 of the UTF-16LE password, the key of NTLMv2 ([MS-NLMP] 3.3.1); `None` if the account has no password and
    /// therefore cannot log on by NTLM.
    pub nt_hash: Option<NtHash>,
    /// Whether logons are refused with STATUS_ACCOUNT_DISABLED.
    pub disabled: bool,
    /// Whether logons are refused with STATUS_ACCOUNT_LOCKED_OUT.
    pub locked: bool,
    /// Whether logons are refused with STATUS_PASSWORD_MUST_CHANGE until a new password is set.
    pub must_change: bool,
    /// Whether the password never expires, regardless of [`AccountPolicy::max_password_age`].
    pub never_expires: bool,
    /// From this time, logons are refused with STATUS_ACCOUNT_EXPIRED; `None` for never.
    pub expires: Option<Time>,
    /// The account's SID, never reused for another account. It need not be of [`Accounts::domain`], because several
    /// servers may share a directory.
    pub sid: Sid,
    /// The NetBIOS name of the account's domain; `None` for an account of this server.
    pub domain: Option<Arc<str>>,
    /// Former SIDs of the account; stored ACLs that contain them apply to it. For a domain account, the SIDs of its
    /// groups.
    pub former_sids: Arc<[Sid]>,
    /// The owner's full name, for display; often empty.
    pub full_name: String,
    /// When the password was set; `None` if unknown.
    pub password_last_set: Option<Time>,
    /// The UNIX user.
    pub identity: Arc<Identity>,
    /// The names of the UNIX groups of `identity`, for `@group` in `valid users` and the like.
    pub groups: Arc<[String]>,
}

impl Account {
    /// Returns whether the password has expired under `policy`.
    pub fn has_expired_password(&self, policy: &AccountPolicy, now: Time) -> bool {
        !self.never_expires && policy.has_expired(self.password_last_set, now)
    }
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
    /// [`Account::disabled`].
    pub disabled: bool,
    /// [`Account::locked`].
    pub locked: bool,
    /// [`Account::never_expires`].
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

/// The back end is not available; the text names it and the reason, for the log.
#[derive(Clone, Debug)]
pub struct Unavailable(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_sid_is_shown_as_windows_shows_it() {
        assert_eq!(DomainSid([1, 4_294_967_295, 30]).to_string(), "S-1-5-21-1-4294967295-30");
    }
}
