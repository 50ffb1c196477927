//! The network interfaces over which clients can reach the server, supplied by the daemon ([MS-SMB2] 3.3.5.15.11).

use std::net::IpAddr;

/// One address of one interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interface {
    /// The interface index, the same for all its addresses; never 0.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// Link speed in bits per second.
    pub speed: u64,
    /// Receive-side scaling: clients open several connections to this interface.
    pub rss: bool,
}

/// Lists the current addresses, which change over time.
pub trait Interfaces: Send + Sync {
    /// Returns all addresses at which the server can be reached. Called for client requests, so it must be fast.
    fn list(&self) -> Vec<Interface>;
}
