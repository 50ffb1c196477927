//! The accounts that may log on, as the server sees them: a trait that the daemon's back ends fill.

mod plain;
mod policy;

use std::fmt;
use std::sync::Arc;

use proto::auth::pac::LogonInfo;
use proto::dtyp::Sid;

pub use self::policy::AccountPolicy;
use crate::answer::Answer;
use crate::principals::{Principal, UnixId};
use crate::tickets::ClientName;
use crate::vfs::{Identity, Time};

/// What the server asks of a back end. No method has a body of its own: who wraps another's accounts must not be able to
/// forget one. Those in tests take what they have no answer to from [`plain_accounts`](crate::plain_accounts).
pub trait Accounts: Send + Sync {
    /// The account of `name`, compared without regard to case; `None` where there is none.
    /// An error means that the back end could not be asked: it must never be taken for "no such user".
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>>;

    /// The account of whoever came with a good Kerberos ticket to a server that is no member of a domain; `logon` is what
    /// a domain controller says of that user. `None` where it is nobody here. Never root: a name in a realm is no reason
    /// to be that.
    fn of_client(&self, client: &ClientName, logon: Option<&LogonInfo>)
    -> Answer<Result<Option<Account>, Unavailable>>;

    /// The account of `name` as the back end has it at this moment, for a proof that does not fit what [`Accounts::find`]
    /// answered; `None` where that was no older, or there is no such account any more.
    fn find_anew(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>>;

    /// A logon with the password of the account `name` ended so. Must not block; for back ends that count.
    fn logged_on(&self, name: &str, outcome: LogonOutcome);

    /// The UNIX user of the account that has or had the SID `sid`; `None` where there is none. For many SIDs in a row: it
    /// must not take long where the SID is none of an account.
    fn uid_of(&self, sid: &Sid) -> Answer<Result<Option<u32>, Unavailable>>;

    /// The user or group of Linux that has or had the SID `sid`. For many SIDs in a row, as [`Accounts::uid_of`].
    fn id_of(&self, sid: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>>;

    /// The SID that a user or group of Linux is shown as: an account's, a mapped group's, else the one with the id in it.
    fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>>;

    /// The SIDs of accounts and mapped groups that a user of Linux and his groups have, besides those with the ids in them.
    fn sids_of(&self, identity: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>>;

    /// Whose SID `sid` is, where it is an account's, a mapped group's or a user's or group's of Linux.
    fn principal(&self, sid: &Sid) -> Answer<Result<Option<Principal>, Unavailable>>;

    /// The SIDs for which [`Accounts::principal`] will be asked next: a back end that finds many with one question does so
    /// now. Answered or not, the questions for each are what counts.
    fn expect_sids(&self, sids: &[Sid]) -> Answer<()>;

    /// Who is called `name`: an account or group of this server's where `realm` is `None`, else one of the realm so
    /// called (`Unix User`, `Unix Group`, a domain).
    fn named(&self, realm: Option<&str>, name: &str) -> Answer<Result<Option<Principal>, Unavailable>>;

    /// Whether the user of Linux called `user` is in the netgroup `group`.
    fn is_in_netgroup(&self, user: &str, group: &str) -> Answer<Result<bool, Unavailable>>;

    /// Up to `most` accounts whose folded names come after `after`, in the order of those; no more than that where there
    /// are none. For lists: it may take its time.
    fn users(&self, after: Option<&str>, most: usize) -> Answer<Result<Vec<ListedAccount>, Unavailable>>;

    /// How many accounts have SIDs of [`Accounts::domain`]; the answer may be of a short while ago.
    fn count_users(&self) -> Answer<Result<u32, Unavailable>>;

    /// Up to `most` groups with SIDs of their own that come after `after`, in the order of those.
    fn groups(&self, after: Option<&Sid>, most: usize) -> Answer<Result<Vec<ListedGroup>, Unavailable>>;

    /// The group that has this SID of its own.
    fn group(&self, sid: &Sid) -> Answer<Result<Option<ListedGroup>, Unavailable>>;

    /// The SIDs of up to `most` accounts that are in the group of this SID; nobody where there is no such group.
    fn members(&self, group: &Sid, most: usize) -> Answer<Result<Vec<Sid>, Unavailable>>;

    /// The SID of this machine as a domain: that of the accounts which it gives SIDs itself.
    fn domain(&self) -> DomainSid;

    /// Whether `sid` is of the domain that this machine is, or was while it had another SID: what no other domain says of
    /// anybody. See [`crate::principals::of_server`].
    fn is_of_machine(&self, sid: &Sid) -> bool;

    /// The account policies in force. Asked at each logon.
    fn policy(&self) -> AccountPolicy;

    /// The account was locked after wrong passwords and stays so until an administrator enables it. Must not block.
    fn lock(&self, name: &str);

    /// Gives the account another password, of which `old` and `new` are the hashes, where `old` is still the present one.
    fn change_password(&self, name: &str, old: NtHash, new: NtHash) -> Answer<Result<(), NotChanged>>;
}

/// The SID of a machine or domain, S-1-5-21-x-y-z ([MS-DTYP] 2.4.2.4): the three numbers that tell it from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainSid(pub [u32; 3]);

impl DomainSid {
    /// The SID of the domain itself.
    pub const fn sid(self) -> Sid {
        let [x, y, z] = self.0;
        Sid::of(5, [21, x, y, z])
    }

    /// The SID of an account in it.
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

/// One account, with all that a session needs to know of its owner.
#[derive(Clone)]
pub struct Account {
    /// The name as it is stored, for display and for `valid users`.
    pub name: String,
    /// MD4 of the UTF-16LE password, the key of NTLMv2 ([MS-NLMP] 3.3.1); `None` where the account has no password
    /// and so cannot log on by NTLM.
    pub nt_hash: Option<NtHash>,
    /// Whether logons are refused with STATUS_ACCOUNT_DISABLED.
    pub disabled: bool,
    /// Whether logons are refused with STATUS_ACCOUNT_LOCKED_OUT.
    pub locked: bool,
    /// Whether logons are refused with STATUS_PASSWORD_MUST_CHANGE until somebody has set a new password.
    pub must_change: bool,
    /// Whether the password is good for ever, whatever [`AccountPolicy::max_password_age`] says.
    pub never_expires: bool,
    /// Logons from then on are refused with STATUS_ACCOUNT_EXPIRED; `None` is never.
    pub expires: Option<Time>,
    /// The account's SID, never given to another account. It need not be of [`Accounts::domain`]: a directory may be of
    /// several servers.
    pub sid: Sid,
    /// The NetBIOS name of the domain that the account belongs to; `None` where it is this server's own.
    pub domain: Option<Arc<str>>,
    /// SIDs that the account had elsewhere: stored ACLs that name them count for it. Of a domain's account, those of its
    /// groups.
    pub former_sids: Arc<[Sid]>,
    /// The owner's name in full, for display; often empty.
    pub full_name: String,
    /// When the password was set; `None` where nobody knows.
    pub password_last_set: Option<Time>,
    /// The user that the kernel knows.
    pub identity: Arc<Identity>,
    /// The names of the UNIX groups of `identity`, for `@group` in `valid users` and the like.
    pub groups: Arc<[String]>,
}

impl Account {
    /// Whether the password has expired by `policy`.
    pub fn has_expired_password(&self, policy: &AccountPolicy, now: Time) -> bool {
        !self.never_expires && policy.has_expired(self.password_last_set, now)
    }
}

/// What lists tell of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedAccount {
    /// The name as it is stored.
    pub name: String,
    /// The account's SID.
    pub sid: Sid,
    /// The owner's name in full; often empty.
    pub full_name: String,
    /// [`Account::disabled`].
    pub disabled: bool,
    /// [`Account::locked`].
    pub locked: bool,
    /// [`Account::never_expires`].
    pub never_expires: bool,
}

/// What lists tell of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedGroup {
    /// Name, SID and kind.
    pub principal: Principal,
    /// What the administrator wrote of it; may be empty.
    pub comment: String,
}

/// An NT password hash. It is a password equivalent: it has no `Debug` text and is wiped when dropped.
#[derive(Clone, zeroize::Zeroize, zeroize::ZeroizeOnDrop)]
pub struct NtHash(pub [u8; 16]);

/// How a logon to an account ended that is there.
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
    /// The account is gone, or has another password by now.
    Wrong,
    /// The account had the new password before, and `password history` remembers it.
    InHistory,
    /// The back end could not do it; the text says which and why, for the log.
    Unavailable(String),
}

/// The back end could not be asked; the text says which and why, for the log.
#[derive(Clone, Debug)]
pub struct Unavailable(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_sid_is_shown_the_way_windows_shows_it() {
        assert_eq!(DomainSid([1, 4_294_967_295, 30]).to_string(), "S-1-5-21-1-4294967295-30");
    }
}
