//! The connections of all clients, and their limits.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use proto::dtyp::Guid;

use crate::accounting::{Accounting, Payer, Resource};
use crate::address_bucket::AddressBucket;
use crate::error::Disconnect;
use crate::policy::Limits;
use crate::state::connection::Connection;
use crate::unauthenticated::Unauthenticated;

/// All connections, indexed by id, address and client.
#[derive(Default)]
pub struct Connections(Mutex<Table>);

#[derive(Default)]
struct Table {
    by_id: HashMap<u64, Weak<Connection>>,
    by_address: HashMap<AddressBucket, usize>,
    unauthenticated: Unauthenticated<Connection>,
    /// Connections that have completed NEGOTIATE, by `ClientGuid`, oldest first.
    by_client: HashMap<Guid, Vec<Weak<Connection>>>,
}

/// The limit on the number of connections is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany {
    /// The limit.
    pub limit: usize,
    /// The address that the limit applies to; `None` for the limit on all connections.
    pub from: Option<AddressBucket>,
}

impl Connections {
    /// Adds a connection that was just accepted.
    pub(crate) fn add(&self, connection: &Arc<Connection>) {
        let mut connections = self.0.lock();
        connections.by_id.insert(connection.id, Arc::downgrade(connection));
        let from = connection.peer.remote.ip().into();
        *connections.by_address.entry(from).or_default() += 1;
        connections.unauthenticated.add(from, connection.id, Arc::downgrade(connection));
    }

    /// Records that the connection has completed NEGOTIATE for `client`.
    pub(crate) fn add_client(&self, connection: &Arc<Connection>, client: Guid) {
        let mut connections = self.0.lock();
        // A connection that was closed meanwhile is not added.
        if connections.by_id.contains_key(&connection.id) {
            connections.by_client.entry(client).or_default().push(Arc::downgrade(connection));
        }
    }

    /// Removes a connection that was closed.
    pub(crate) fn remove(&self, connection: &Connection) {
        let mut connections = self.0.lock();
        if let Some(negotiated) = connection.negotiated()
            && let Some(same) = connections.by_client.get_mut(&negotiated.client_guid)
        {
            same.retain(|other| !std::ptr::eq(other.as_ptr(), connection));
            if same.is_empty() {
                connections.by_client.remove(&negotiated.client_guid);
            }
        }
        let address = connection.peer.remote.ip().into();
        connections.unauthenticated.remove(address, connection.id);
        if connections.by_id.remove(&connection.id).is_some()
            && let Some(count) = connections.by_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                connections.by_address.remove(&address);
            }
        }
    }

    /// All connections.
    pub fn all(&self) -> Vec<Arc<Connection>> {
        self.0.lock().by_id.values().filter_map(Weak::upgrade).collect()
    }

    /// Returns the live connections of one client, oldest first. A lease belongs to the client, whichever session
    /// requested it ([MS-SMB2] 3.3.4.7).
    pub(crate) fn of_client(&self, client_guid: Guid) -> Vec<Arc<Connection>> {
        let known = self.0.lock().by_client.get(&client_guid).cloned().unwrap_or_default();
        known.iter().filter_map(Weak::upgrade).filter(|connection| connection.ended().is_none()).collect()
    }

    /// Checks whether one more connection from `address` may be accepted. The oldest connection without a logon may
    /// have to be closed to make space for it (see `unauthenticated`). The error states the reason, for the log.
    pub(crate) fn admit(&self, address: IpAddr, limits: &Limits, accounting: &Accounting) -> Result<(), TooMany> {
        let from = AddressBucket::from(address);
        let mut connections = self.0.lock();
        if connections.by_address.get(&from).is_some_and(|&there| there >= limits.connections_per_address) {
            return Err(TooMany { limit: limits.connections_per_address, from: Some(from) });
        }
        let goes =
            connections.unauthenticated.make_room(from, limits.unauthenticated, limits.unauthenticated_per_address);
        let full = connections.by_id.len() >= limits.connections;
        let crowded = !accounting.unauthenticated(from).has_room(Resource::Connections.bytes(1));
        let goes = goes.or_else(|| if full || crowded { connections.unauthenticated.take() } else { None });
        drop(connections);
        match goes.and_then(|goes| goes.upgrade()) {
            Some(goes) => {
                goes.end(Disconnect("the limit of connections is reached, and no user has logged on over this one"))
            }
            None if full => return Err(TooMany { limit: limits.connections, from: None }),
            None => {}
        }
        Ok(())
    }

    /// Closes the oldest unauthenticated connection of the address that has the most of them, if unauthenticated
    /// connections exceed their memory bound.
    pub(crate) fn relieve(&self, payer: &Payer) {
        if !payer.is_overdrawn() {
            return;
        }
        let goes = self.0.lock().unauthenticated.take();
        if let Some(goes) = goes.and_then(|goes| goes.upgrade()) {
            goes.end(Disconnect("connections without a user hold too much memory"));
        }
    }

    /// Records that a user has logged on over this connection.
    pub(crate) fn set_authenticated(&self, connection: &Connection) {
        self.0.lock().unauthenticated.remove(connection.peer.remote.ip().into(), connection.id);
    }
}
