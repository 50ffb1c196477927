//! WS-Discovery, by which the network view of Windows Explorer finds servers.
//!
//! Windows uses WS-Discovery of April 2005, as restricted by the Devices Profile for Web Services (DPWS) of February
//! 2006. SOAP over UDP finds the server. A WS-Transfer Get over HTTP asks for its name and its workgroup or domain.

mod host;
mod http;
mod known;
mod message;
mod responder;
mod service;
#[cfg(test)]
mod tests;
mod xml;

pub use host::{Group, Host, HostError};
pub use responder::{Datagram, Reply, Responder, Transmission};
pub use service::serve;

use std::net::{Ipv4Addr, Ipv6Addr};

/// WS-Discovery, section 2.4 "Protocol Assignments".
const UDP_PORT: u16 = 3702;
const MULTICAST_V4: Ipv4Addr = Ipv4Addr::new(239, 255, 255, 250);
const MULTICAST_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xc);
/// The port of the metadata, which IANA has assigned to WSDAPI.
pub const HTTP_PORT: u16 = 5357;
