//! The user accounts, as six traits that the daemon's back ends implement: logons, id mapping, lists, changes,
//! netgroups, and the database of the local security authority.
//!
//! No method has a default body, so that an implementation that wraps another one cannot forget a method. In all of
//! them [`Unavailable`] means that a back end did not answer; it never means that something does not exist.

mod administration;
mod authenticator;
mod id_map;
pub mod lsa;
mod netgroups;
mod policy;
pub mod principals;
mod roster;

use std::fmt;
use std::sync::Arc;

use proto::dtyp::Sid;

pub use self::administration::{Administration, GroupChange, NotDone, UserChange};
pub use self::authenticator::{Authenticator, LogonOutcome, NotChanged, NtHash};
pub use self::id_map::IdMap;
pub use self::lsa::LsaDatabase;
pub use self::netgroups::Netgroups;
pub use self::policy::AccountPolicy;
pub use self::roster::{ListedAccount, ListedGroup, Roster};
use crate::vfs::{Identity, Time};

/// The user accounts of a server, one part for each trait. A caller takes the part that it needs.
#[derive(Clone)]
pub struct Accounts {
    /// Logons.
    pub authenticator: Arc<dyn Authenticator>,
    /// SIDs, UNIX ids and names.
    pub ids: Arc<dyn IdMap>,
    /// The lists of accounts and groups.
    pub roster: Arc<dyn Roster>,
    /// Changes of accounts and groups.
    pub administration: Arc<dyn Administration>,
    /// Netgroups.
    pub netgroups: Arc<dyn Netgroups>,
    /// Rights of accounts, and secrets.
    pub lsa: Arc<dyn LsaDatabase>,
}

impl<A: Authenticator + IdMap + Roster + Administration + Netgroups + LsaDatabase + 'static> From<Arc<A>> for Accounts {
    fn from(all: Arc<A>) -> Accounts {
        Accounts {
            authenticator: all.clone(),
            ids: all.clone(),
            roster: all.clone(),
            administration: all.clone(),
            netgroups: all.clone(),
            lsa: all,
        }
    }
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
    /// The account's SID, never reused for another account. It need not be of [`IdMap::domain`], because several
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
