//! The host's GSS-API library, MIT's, with mechanism Kerberos 5: [`Keys`] take tickets, an [`Initiator`] shows one, and a
//! [`Context`] is what either ends in (RFC 2743; RFC 2744's C bindings; MIT's gssapi_ext.h for keytabs by name, attributes
//! of names and the session key).
//!
//! All of its unsafe code is calls of that library. It is loaded when Kerberos is first needed and never linked, so that
//! programs start on hosts without it. Every call may block: keytabs, ticket and replay caches are files, and a KDC may be
//! asked. Leaves out: delegation, channel bindings, wrapping, an initiator's credentials other than the host's default ones.

mod acceptor;
mod context;
mod initiator;
mod library;

pub use acceptor::{Accepted, Keys, LogonBuffer};
pub use context::Context;
pub use initiator::Initiator;
pub use library::Library;

/// `GSS_S_UNAVAILABLE`: there is no such attribute.
const UNAVAILABLE: u32 = 16 << 16;
/// `GSS_S_NO_CRED`: the user has no ticket.
const NO_CRED: u32 = 7 << 16;

/// What the library says went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// RFC 2744's code, of which the upper half tells errors; 0 where nothing was asked of the library.
    pub major: u32,
    /// The mechanism's code; 0 where it has none.
    pub minor: u32,
    /// In the library's words.
    pub text: String,
    /// What it wants the peer to be told; often empty.
    pub token: Vec<u8>,
}

impl Failure {
    /// `KRB5KRB_AP_ERR_TKT_EXPIRED`, as MIT numbers it: the ticket is no longer good.
    pub const TICKET_EXPIRED: u32 = 0x96c7_3a20;
    /// `KRB5KRB_AP_ERR_TKT_NYV`: it is not good yet.
    pub const TICKET_NOT_YET_VALID: u32 = 0x96c7_3a21;
    /// `KRB5KRB_AP_ERR_REPEAT`: the token was sent before.
    pub const REPLAY: u32 = 0x96c7_3a22;
    /// `KRB5KRB_AP_ERR_SKEW`: the clocks of both sides differ too much.
    pub const CLOCK_SKEW: u32 = 0x96c7_3a25;

    /// What this crate found wrong by itself.
    fn own(text: impl Into<String>) -> Failure {
        Failure { major: 0, minor: 0, text: text.into(), token: Vec::new() }
    }

    /// Whether a new ticket of the user is the remedy.
    pub fn wants_ticket(&self) -> bool {
        self.major == NO_CRED || self.minor == Failure::TICKET_EXPIRED
    }
}
