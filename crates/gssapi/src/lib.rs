//! The host's GSS-API library (MIT's) with the Kerberos 5 mechanism.
//!
//! [`Keys`] accept tickets, an [`Initiator`] presents one, and both produce a [`Context`] (RFC 2743; RFC 2744's C
//! bindings; MIT's gssapi_ext.h for keytabs by name, name attributes and the session key).
//!
//! All unsafe code is calls of that library. It is loaded when Kerberos is first needed and never linked, so that
//! programs start on hosts without it. Every call may block, because keytabs, ticket caches and replay caches are
//! files, and a KDC may be contacted. Not implemented: delegation, channel bindings, wrapping, and initiator
//! credentials other than the host's default.
//!
//! This is a crate of its own because both `frevo` and `client` need the library, and `client` never uses the server's
//! code.

mod acceptor;
mod context;
mod initiator;
mod library;

pub use acceptor::{Accepted, Keys, LogonBuffer};
pub use context::Context;
pub use initiator::Initiator;
pub use library::Library;

/// `GSS_S_UNAVAILABLE`: the attribute does not exist.
const UNAVAILABLE: u32 = 16 << 16;
/// `GSS_S_NO_CRED`: the user has no ticket.
const NO_CRED: u32 = 7 << 16;

/// An error of the library or of this crate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// RFC 2744's status code, whose upper half holds the error; 0 if the error is this crate's own.
    pub major: u32,
    /// The mechanism's status code; 0 if there is none.
    pub minor: u32,
    /// The error text of the library.
    pub text: String,
    /// The error token for the peer; often empty.
    pub token: Vec<u8>,
}

impl Failure {
    /// `KRB5KRB_AP_ERR_TKT_EXPIRED`, as MIT numbers it: the ticket has expired.
    pub const TICKET_EXPIRED: u32 = 0x96c7_3a20;
    /// `KRB5KRB_AP_ERR_TKT_NYV`: the ticket is not valid yet.
    pub const TICKET_NOT_YET_VALID: u32 = 0x96c7_3a21;
    /// `KRB5KRB_AP_ERR_REPEAT`: the token was sent before (a replay).
    pub const REPLAY: u32 = 0x96c7_3a22;
    /// `KRB5KRB_AP_ERR_SKEW`: the clock skew between the two sides is too large.
    pub const CLOCK_SKEW: u32 = 0x96c7_3a25;

    /// Builds an error that this crate detected itself.
    fn own(text: impl Into<String>) -> Failure {
        Failure { major: 0, minor: 0, text: text.into(), token: Vec::new() }
    }

    /// Returns whether the user needs a new ticket.
    pub fn wants_ticket(&self) -> bool {
        self.major == NO_CRED || self.minor == Failure::TICKET_EXPIRED
    }
}
