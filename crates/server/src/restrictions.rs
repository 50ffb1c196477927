//! Restrictions of the host on logons, besides those of the account: a trait that the daemon implements (with PAM).

use std::any::Any;
use std::net::IpAddr;

use crate::answer::Answer;
use crate::domain::Refused;

/// The restrictions of the host.
pub trait Restrictions: Send + Sync {
    /// Asks whether an authenticated user may log on now, and opens a session of the host if one is asked for. The
    /// answer takes a limited time.
    fn check(&self, logon: HostLogon) -> Answer<Result<HostSession, Refused>>;
}

/// A logon of an authenticated user, neither guest nor anonymous.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostLogon {
    /// The name of the account, which need not be that of the UNIX user.
    pub name: String,
    /// The UNIX user.
    pub uid: u32,
    /// The address of the client.
    pub client: IpAddr,
    /// The id of the session that begins; `None` if the user logs on again, or over another channel.
    pub session: Option<u64>,
}

/// A session of the host, which ends when the value is dropped. It is empty if none was asked for.
pub type HostSession = Option<Box<dyn Any + Send + Sync>>;
