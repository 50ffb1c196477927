//! Multicast DNS ([RFC 6762]) and service discovery by it ([RFC 6763]), by which macOS and Linux find servers.
//!
//! [RFC 6762]: https://www.rfc-editor.org/rfc/rfc6762
//! [RFC 6763]: https://www.rfc-editor.org/rfc/rfc6763

pub(crate) mod names;
pub(crate) mod responder;
mod service;
#[cfg(test)]
mod tests;

pub use names::{Host, Service};
pub use responder::{Destination, Outgoing, PORT, Responder};
pub use service::serve;
