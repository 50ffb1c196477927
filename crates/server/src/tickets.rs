//! Kerberos as seen by the server: a trait that the daemon implements with the host's library and a keytab.
//!
//! Without an implementation, or while it has no keys, Kerberos is neither offered nor accepted.

use std::time::Duration;

use proto::auth::pac::LogonInfo;
use zeroize::Zeroizing;

use crate::answer::Answer;

/// Validates Kerberos tickets.
pub trait Tickets: Send + Sync {
    /// Returns whether there are keys for tickets. Called at each NEGOTIATE and logon, so it must not block.
    fn ready(&self) -> bool;

    /// Accepts the mechanism's first token (RFC 4121 4.1, an AP-REQ), which is also the client's last one.
    fn accept(&self, token: Vec<u8>) -> Answer<Result<Ticket, Refusal>>;
}

/// A valid ticket and its user.
pub struct Ticket {
    /// The user that the ticket was issued to.
    pub client: ClientName,
    /// The user information from the domain controller, signed with the server's key; `None` if the realm is not a
    /// domain.
    pub logon: Option<LogonInfo>,
    /// The response that authenticates the server to the client (AP-REP); empty if the client does not request it.
    pub reply: Vec<u8>,
    /// The negotiated key in full length: 16 bytes with AES-128, 32 with AES-256.
    pub key: Zeroizing<Vec<u8>>,
    /// The remaining lifetime of the ticket; `None` if it is unlimited.
    pub lifetime: Option<Duration>,
    /// Signs and verifies messages with that key.
    pub signatures: Box<dyn Signatures>,
}

/// The name of a user in a realm (`cname` and `crealm`, RFC 4120 5.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientName {
    /// The components of the name, usually one.
    pub components: Vec<String>,
    /// The realm, case preserved.
    pub realm: String,
    /// Whether it is the server's own realm. Users of other realms are admitted through trust between realms.
    pub own_realm: bool,
}

impl std::fmt::Display for ClientName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.components.join("/"), self.realm)
    }
}

/// A rejected ticket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The category of the error.
    pub cause: Cause,
    /// The reason and the remedy, for the log.
    pub why: String,
    /// The response for the client (KRB-ERROR); empty if there is none.
    pub reply: Vec<u8>,
}

/// Why a ticket was rejected, as far as the client is informed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The clocks of client and server differ by more than the realm allows.
    Clock,
    /// The ticket has expired or is not valid yet.
    Time,
    /// Tickets cannot be validated now: the library or the keytab is missing.
    Unavailable,
    /// The server does not have the ticket's key, the ticket was replayed, its encryption is too weak, or it is
    /// malformed.
    Other,
}

/// Signatures with the key of an authentication, for the mechanism list (RFC 4178 5).
pub trait Signatures: Send {
    /// Returns the server's signature of `message`; `None` if no integrity protection was negotiated.
    fn sign(&mut self, message: &[u8]) -> Option<Vec<u8>>;

    /// Returns whether `signature` is the client's signature of `message`.
    fn verify(&mut self, message: &[u8], signature: &[u8]) -> bool;
}
