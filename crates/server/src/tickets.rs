//! Kerberos as the server sees it: a trait that the daemon fills with the host's library and a keytab.
//!
//! Without one, or while it has no keys, Kerberos is neither offered nor taken.

use std::time::Duration;

use proto::auth::pac::LogonInfo;
use zeroize::Zeroizing;

use crate::answer::Answer;

/// Who takes tickets.
pub trait Tickets: Send + Sync {
    /// Whether there are keys that tickets could be for. Asked at each NEGOTIATE and logon: it must not wait for anything.
    fn ready(&self) -> bool;

    /// Takes the first token of the mechanism (RFC 4121 4.1, an AP-REQ), which is also the client's last.
    fn accept(&self, token: Vec<u8>) -> Answer<Result<Ticket, Refusal>>;
}

/// A ticket that is good, and who has come with it.
pub struct Ticket {
    /// Who it was given to.
    pub client: ClientName,
    /// What the realm's domain controller says of that user, signed with the server's key; `None` where the realm is no
    /// domain.
    pub logon: Option<LogonInfo>,
    /// The answer that proves to the client who the server is (AP-REP); empty where the client does not ask for it.
    pub reply: Vec<u8>,
    /// The key that both have agreed on, whole: 16 bytes with AES-128, 32 with AES-256.
    pub key: Zeroizing<Vec<u8>>,
    /// How long the ticket is still good; `None` for ever.
    pub lifetime: Option<Duration>,
    /// Signatures with that key.
    pub signatures: Box<dyn Signatures>,
}

/// The name of a user in a realm (`cname` and `crealm`, RFC 4120 5.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientName {
    /// The components of the name: mostly one.
    pub components: Vec<String>,
    /// The realm, in the case that it is written in.
    pub realm: String,
    /// Whether it is the realm that the server belongs to. Users of others come by trust between realms.
    pub own_realm: bool,
}

impl std::fmt::Display for ClientName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.components.join("/"), self.realm)
    }
}

/// A ticket that is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What is wrong with it.
    pub cause: Cause,
    /// In words, with the remedy: for the log.
    pub why: String,
    /// What to tell the client (KRB-ERROR); empty where there is nothing.
    pub reply: Vec<u8>,
}

/// What can be wrong with a ticket, as far as the client is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The clocks of client and server differ by more than the realm allows.
    Clock,
    /// It is no longer good, or not yet.
    Time,
    /// It cannot be asked now: the library or the keytab has gone.
    Unavailable,
    /// It is for a key that the server does not have, it was used before, its encryption is too weak, or it is no ticket.
    Other,
}

/// Signatures by what an authentication gave, for the list of mechanisms (RFC 4178 5).
pub trait Signatures: Send {
    /// The server's signature of `message`; `None` where the mechanism agreed on none.
    fn sign(&mut self, message: &[u8]) -> Option<Vec<u8>>;

    /// Whether `signature` is the client's of `message`.
    fn verify(&mut self, message: &[u8], signature: &[u8]) -> bool;
}
