//! The domain that the server is a member of: a trait that the daemon implements (with winbind).
//!
//! Domain users are authenticated by domain controllers: the NTLM response is passed through to them ([MS-NLMP]
//! 3.2.5.1.2, [MS-APDS] 3.1.5), or a Kerberos ticket's PAC contains the user's SIDs. [`Membership::whose`] decides
//! which names refer to the domain.

use proto::auth::ntlm::PassThrough;
use proto::auth::pac::LogonInfo;
use proto::status::Status;
use zeroize::Zeroizing;

use crate::accounts::{Account, Unavailable};
use crate::answer::Answer;
use crate::error::Error;
use crate::tickets::ClientName;

/// The domain services that the server uses. All calls may be slow and complete within a time limit.
pub trait Domain: Send + Sync {
    /// Asks the domain to verify an NTLM response.
    fn log_on(&self, logon: NetworkLogon) -> Answer<Result<Proven, Refused>>;

    /// Returns the account of a client with a valid ticket that contains its identity and groups ([MS-PAC] 2.5).
    fn account(&self, client: &ClientName, logon: LogonInfo) -> Answer<Result<Account, Refused>>;

    /// Returns the account called `name`, `DOMAIN\user`, with all its groups, without authentication; `None` if there
    /// is none.
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>>;
}

/// A logon to be verified by a domain controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkLogon {
    /// The user's name as sent by the client; the response depends on it.
    pub user: String,
    /// The domain as sent by the client, or this server's domain if it sent none.
    pub domain: String,
    /// The name of the client machine as sent by the client.
    pub workstation: String,
    /// Challenge and response.
    pub response: PassThrough,
}

/// A logon that the domain accepts.
pub struct Proven {
    /// The user's account.
    pub account: Account,
    /// `SessionBaseKey` of [MS-NLMP] 3.3.2.
    pub session_base_key: Zeroizing<[u8; 16]>,
}

/// Why a logon was not accepted, by the domain or by this server.
#[derive(Debug)]
pub enum Refused {
    /// No such user.
    Unknown,
    /// The response does not match the user's password.
    Wrong,
    /// The password is right, but the logon is refused with this status: disabled, locked or expired.
    Because(Status),
    /// No domain controller was reachable or answered in time; the text is for the log.
    Unavailable(String),
    /// The user is authenticated but has no uid, or one that is not allowed; the text is for the log.
    Unmapped(String),
}

impl Refused {
    /// Returns the error for the client.
    pub fn error(self, user: &str) -> Error {
        match self {
            Refused::Unknown | Refused::Wrong => Error::because(Status::LOGON_FAILURE, format!("user {user:?}")),
            Refused::Because(status) => Error::because(status, format!("user {user:?}")),
            Refused::Unavailable(why) => {
                tracing::error!(user, why, "the account back end is unavailable");
                Error::because(Status::NO_LOGON_SERVERS, "the account back end is unavailable")
            }
            Refused::Unmapped(why) => {
                tracing::warn!(user, why, "logon refused");
                Error::because(Status::LOGON_FAILURE, format!("user {user:?} has no account on this host"))
            }
        }
    }
}

/// The domain membership (`security = ads`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    /// `workgroup`: the domain's NetBIOS name, upper case.
    pub workgroup: String,
    /// `realm`: the Kerberos realm in upper case, which is also the DNS name; empty for a domain without one.
    pub realm: String,
}

/// Where the account that a client names is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whose {
    /// This server.
    Ours,
    /// The domain, or a domain that it trusts.
    Domain,
    /// This server, if it has an account of that name; otherwise the domain.
    Either,
}

impl Membership {
    /// Returns the DNS name of the domain; empty if it has none.
    pub fn dns_domain(&self) -> String {
        self.realm.to_lowercase()
    }

    /// Returns where to look for the account named by `domain` and `user` of an NTLM logon to the server called
    /// `server`.
    ///
    /// A name of the domain refers to the domain, and the server's own name to the server. Clients without
    /// configuration send no domain or their machine's name; then an account of the server has priority, as on Windows.
    pub fn whose(&self, server: &str, domain: &str, user: &str) -> Whose {
        if domain.eq_ignore_ascii_case(server) || domain == "." {
            return Whose::Ours;
        }
        let is_domain = |name: &str| name.eq_ignore_ascii_case(&self.workgroup) || self.is_realm(name);
        // `user@REALM` is sent without a domain.
        let suffix = user.rsplit_once('@').map(|(_, suffix)| suffix);
        if is_domain(domain) || (domain.is_empty() && suffix.is_some_and(is_domain)) {
            return Whose::Domain;
        }
        Whose::Either
    }

    fn is_realm(&self, name: &str) -> bool {
        !self.realm.is_empty() && name.eq_ignore_ascii_case(&self.realm)
    }

    /// Returns the domain name to send to the controller: that of the client, because the response depends on it, or
    /// this server's domain if the client sent none. Controllers omit an added name from the verification as well.
    pub fn logon_domain(&self, domain: &str) -> String {
        if domain.is_empty() { self.workgroup.clone() } else { domain.to_owned() }
    }
}

/// Splits the name of a domain account, `DOMAIN\user`; `None` if `name` has no domain.
pub fn split(name: &str) -> Option<(&str, &str)> {
    name.split_once('\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership() -> Membership {
        Membership { workgroup: "DOM".into(), realm: "DOM.TEST".into() }
    }

    #[test]
    fn names_identify_local_and_domain_accounts() {
        let check = |domain: &str, user: &str, expected: Whose| {
            assert_eq!(membership().whose("SRV", domain, user), expected, "{domain}\\{user}");
        };
        check("SRV", "ann", Whose::Ours);
        check("srv", "ann@DOM.TEST", Whose::Ours);
        check(".", "ann", Whose::Ours);
        check("DOM", "ann", Whose::Domain);
        check("dom.test", "ann", Whose::Domain);
        check("", "ann@dom.test", Whose::Domain);
        check("", "ann@other.test", Whose::Either);
        check("", "ann", Whose::Either);
        check("DESK", "ann", Whose::Either);
        let without_realm = Membership { realm: String::new(), ..membership() };
        assert_eq!(without_realm.whose("SRV", "", "ann"), Whose::Either);
    }

    #[test]
    fn the_controller_receives_the_response_of_the_client() {
        let check = |domain: &str, expected: &str| assert_eq!(membership().logon_domain(domain), expected);
        check("DESK", "DESK");
        check("dom", "dom");
        check("", "DOM");
    }
}
