//! The NetBIOS name service ([RFC 1001], [RFC 1002]) of a node that uses broadcasts (B node), by which old clients find
//! the address of a name.
//!
//! [RFC 1001]: https://www.rfc-editor.org/rfc/rfc1001
//! [RFC 1002]: https://www.rfc-editor.org/rfc/rfc1002

mod name;
mod packet;
mod ports;
mod responder;
mod service;
#[cfg(test)]
mod tests;

pub use name::{Host, Refused};
pub use ports::{BindRequest, Binder};
pub use responder::{Arrival, Event, Outgoing, Responder, Subnet};
pub use service::serve;

/// The port of the name service.
pub const PORT: u16 = 137;
