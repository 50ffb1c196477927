//! Options of a connection: credentials, protocol features and timeouts.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use proto::smb2::negotiate::Dialect;

/// The credentials of a logon.
#[derive(Clone)]
pub enum Credentials {
    /// NTLMv2.
    Password {
        /// The user's name.
        user: String,
        /// The user's domain; may be empty.
        domain: String,
        /// The password.
        password: String,
    },
    /// Kerberos, with the host's ticket cache.
    Kerberos,
    /// An anonymous logon, which most servers refuse.
    Anonymous,
}

impl Credentials {
    /// Credentials of a user without a domain.
    pub fn password(user: &str, password: &str) -> Credentials {
        Credentials::Password { user: user.into(), domain: String::new(), password: password.into() }
    }
}

/// Never shows the password.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::Password { user, domain, .. } => write!(f, r"Password({domain}\{user})"),
            Credentials::Kerberos => f.write_str("Kerberos"),
            Credentials::Anonymous => f.write_str("Anonymous"),
        }
    }
}

/// Options of a connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// The credentials.
    pub credentials: Credentials,
    /// The dialects to offer.
    pub dialects: Vec<Dialect>,
    /// Sign all messages, even if the server does not require it.
    pub sign: bool,
    /// Seal all messages after the logon, even if the server does not require it. Needs dialect 3.0 or later.
    pub seal: bool,
    /// The time limit for connecting and for each response. An interim response restarts it.
    pub timeout: Duration,
    /// The ClientGuid. A client must use the same one to reconnect to its persistent handles, and persistent handles
    /// and leasing are offered only if it is set. Without it, each connection uses a random one.
    pub client_guid: Option<[u8; 16]>,
    /// Negotiate multichannel, so that further connections can be bound to the session. Needs dialect 3.0 or later.
    pub multichannel: bool,
    /// The number of credits to keep, which limits the requests in flight, in units of 64 KiB.
    pub credits: u16,
    /// The local address to connect from; if it is not set, the system chooses one.
    pub source: Option<IpAddr>,
}

impl Default for Options {
    /// Anonymous, all dialects, signing and sealing as the server requires, one connection in a session, a timeout of
    /// one minute, 512 credits.
    fn default() -> Self {
        Options {
            credentials: Credentials::Anonymous,
            dialects: vec![
                Dialect::SMB_2_0_2,
                Dialect::SMB_2_1,
                Dialect::SMB_3_0,
                Dialect::SMB_3_0_2,
                Dialect::SMB_3_1_1,
            ],
            sign: false,
            seal: false,
            timeout: Duration::from_secs(60),
            client_guid: None,
            multichannel: false,
            credits: 512,
            source: None,
        }
    }
}
