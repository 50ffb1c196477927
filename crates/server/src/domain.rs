//! The domain that the server is a member of, as the server sees it: a trait that the daemon fills (winbind).
//!
//! Accounts of a domain are proven by its controllers: by the NTLM response that is passed through to them ([MS-NLMP]
//! 3.2.5.1.2, [MS-APDS] 3.1.5), or by a Kerberos ticket, whose PAC then says which SIDs the user has. Which of its names
//! mean the domain is decided here ([`Membership::whose`]).

use proto::auth::ntlm::PassThrough;
use proto::auth::pac::LogonInfo;
use proto::status::Status;
use zeroize::Zeroizing;

use crate::accounts::{Account, Unavailable};
use crate::answer::Answer;
use crate::error::Error;
use crate::tickets::ClientName;

/// What the server asks of its domain. Everything may take its time, and is answered within a limit.
pub trait Domain: Send + Sync {
    /// Asks the domain whether an NTLM response is the account's.
    fn log_on(&self, logon: NetworkLogon) -> Answer<Result<Proven, Refused>>;

    /// The account of a client whose good ticket says who he is and which groups he has ([MS-PAC] 2.5).
    fn account(&self, client: &ClientName, logon: LogonInfo) -> Answer<Result<Account, Refused>>;

    /// The account called `name`, `DOMAIN\user`, with all its groups, nobody having proven anything; `None` where there is
    /// none.
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>>;
}

/// A logon for a domain controller to decide on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkLogon {
    /// The user's name, as the client sent it: the response is made with it.
    pub user: String,
    /// The domain, as the client sent it; ours where it sent none.
    pub domain: String,
    /// What the client's machine calls itself.
    pub workstation: String,
    /// Challenge and response.
    pub response: PassThrough,
}

/// A logon that the domain accepts.
pub struct Proven {
    /// Whose it is.
    pub account: Account,
    /// `SessionBaseKey` of [MS-NLMP] 3.3.2.
    pub session_base_key: Zeroizing<[u8; 16]>,
}

/// Why a logon was not accepted, be it by the domain or by this server itself.
#[derive(Debug)]
pub enum Refused {
    /// No such user.
    Unknown,
    /// The response is not that of the user's password.
    Wrong,
    /// The password is right, and there is no logon all the same, with this status: disabled, locked, expired.
    Because(Status),
    /// Nobody could be asked, or nobody answered in time; the text is for the log.
    Unavailable(String),
    /// The user is proven, and nobody that the kernel knows: no uid, or one that must not be; the text is for the log.
    Unmapped(String),
}

impl Refused {
    /// What the client is told.
    pub fn error(self, user: &str) -> Error {
        match self {
            Refused::Unknown | Refused::Wrong => Error::because(Status::LOGON_FAILURE, format!("user {user:?}")),
            Refused::Because(status) => Error::because(status, format!("user {user:?}")),
            Refused::Unavailable(why) => {
                tracing::error!(user, why, "accounts cannot be asked");
                Error::because(Status::NO_LOGON_SERVERS, "accounts cannot be asked")
            }
            Refused::Unmapped(why) => {
                tracing::warn!(user, why, "logon refused");
                Error::because(Status::LOGON_FAILURE, format!("user {user:?} is nobody on this host"))
            }
        }
    }
}

/// `security = ads`: what the server is to its domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    /// `workgroup`: the domain's NetBIOS name, upper case.
    pub workgroup: String,
    /// `realm`: its Kerberos realm, upper case, which is its DNS name; empty in a domain without.
    pub realm: String,
}

/// Who has the account that a client names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whose {
    /// This server.
    Ours,
    /// The domain, or one that it trusts.
    Domain,
    /// This server, where it has an account of that name, else the domain.
    Either,
}

impl Membership {
    /// The DNS name of the domain; empty where it has none.
    pub fn dns_domain(&self) -> String {
        self.realm.to_lowercase()
    }

    /// Whose account `domain` and `user`, the names of an NTLM logon, mean on the server called `server`.
    ///
    /// A name of the domain means the domain, the server's own means the server. Clients that were told nothing send no
    /// domain, or their machine's name; then an account of the server's own comes first, as on Windows.
    pub fn whose(&self, server: &str, domain: &str, user: &str) -> Whose {
        if domain.eq_ignore_ascii_case(server) || domain == "." {
            return Whose::Ours;
        }
        let is_domain = |name: &str| name.eq_ignore_ascii_case(&self.workgroup) || self.is_realm(name);
        // `user@REALM` comes without a domain.
        let suffix = user.rsplit_once('@').map(|(_, suffix)| suffix);
        if is_domain(domain) || (domain.is_empty() && suffix.is_some_and(is_domain)) {
            return Whose::Domain;
        }
        Whose::Either
    }

    fn is_realm(&self, name: &str) -> bool {
        !self.realm.is_empty() && name.eq_ignore_ascii_case(&self.realm)
    }

    /// The domain that the controller is told: what the client sent, which the response is made with, and the own one
    /// where that was nothing, which controllers leave out of the response as well.
    pub fn logon_domain(&self, domain: &str) -> String {
        if domain.is_empty() { self.workgroup.clone() } else { domain.to_owned() }
    }
}

/// The names of a domain's account, `DOMAIN\user`, apart; `None` where `name` has no domain in front.
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
    fn names_say_whose_account_is_meant() {
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
    fn the_controller_is_told_what_the_client_sent() {
        let check = |domain: &str, expected: &str| assert_eq!(membership().logon_domain(domain), expected);
        check("DESK", "DESK");
        check("dom", "dom");
        check("", "DOM");
    }
}
