//! Link-Local Multicast Name Resolution ([RFC 4795]), by which Windows finds the addresses of a name without a server
//! for names. Requests by TCP are not served.
//!
//! [RFC 4795]: https://www.rfc-editor.org/rfc/rfc4795

mod responder;
mod service;
#[cfg(test)]
mod tests;

pub use responder::{Event, Host, Outgoing, Responder};
pub use service::serve;
