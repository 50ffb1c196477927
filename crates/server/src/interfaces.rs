//! The network interfaces over which clients reach the server, as the daemon knows them ([MS-SMB2] 3.3.5.15.11).

use std::net::IpAddr;

/// One address of one interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its number, the same for all its addresses; never 0.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// Bits per second.
    pub speed: u64,
    /// It spreads what it receives over several queues: clients open several connections to it.
    pub rss: bool,
}

/// Says what there is at the moment: addresses come and go.
pub trait Interfaces: Send + Sync {
    /// All addresses at which the server can be reached. Asked for by clients, so it must not take long.
    fn list(&self) -> Vec<Interface>;
}
