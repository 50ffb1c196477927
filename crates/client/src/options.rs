//! How to talk to a server: who, with what, and how long to wait.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use proto::smb2::negotiate::Dialect;

/// Who logs on.
#[derive(Clone)]
pub enum Credentials {
    /// NTLMv2.
    Password {
        /// The user's name.
        user: String,
        /// The domain that the user is of; may be empty.
        domain: String,
        /// The password.
        password: String,
    },
    /// Kerberos, with the host's ticket cache.
    Kerberos,
    /// Nobody; most servers refuse it.
    Anonymous,
}

impl Credentials {
    /// A user without a domain.
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

/// How to talk to the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who logs on.
    pub credentials: Credentials,
    /// What to offer.
    pub dialects: Vec<Dialect>,
    /// Sign everything, also where the server does not ask for it.
    pub sign: bool,
    /// Seal everything once logged on, also where the server does not ask for it; needs 3.0 or later.
    pub seal: bool,
    /// How long a connection and each response may take. An interim response begins the time anew.
    pub timeout: Duration,
    /// Which client this is: one that comes back for its persistent handles must be the same, and only with this are they
    /// offered. Else each connection is a client of its own.
    pub client_guid: Option<[u8; 16]>,
    /// How many credits to keep: what can be under way at once, in units of 64 KiB.
    pub credits: u16,
    /// The address to connect from; without one the system chooses.
    pub source: Option<IpAddr>,
}

impl Default for Options {
    /// Anonymous, every dialect, signed and sealed as the server asks, a minute, 512 credits.
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
            credits: 512,
            source: None,
        }
    }
}
