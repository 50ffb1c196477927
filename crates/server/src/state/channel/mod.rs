//! The channels of a session: the connections that it is used over, and the state of each of them ([MS-SMB2] 3.3.1.8
//! `Session.ChannelList`, 3.3.1.14).
//!
//! A connection owns its channels, which own the session; the session has weak references to its connections. Opens
//! belong to the session, so all channels can use them.

use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use proto::crypto::preauth::PreauthHash;
use proto::crypto::sign::SigningKey;
use proto::smb2::negotiate::{CipherId, Dialect, SigningAlgorithm};

use crate::authentication::Authentication;
use crate::state::connection::Connection;
use crate::state::session::Session;

/// A session on one connection ([MS-SMB2] 3.3.1.14), or a session that is being bound to it (`PreauthSession`,
/// 3.3.1.15).
pub struct Channel {
    /// The session.
    pub session: Arc<Session>,
    /// `Channel.SigningKey`.
    signing: RwLock<Option<Arc<SigningKey>>>,
    /// The authentication in progress on this connection.
    pub(crate) authentication: Mutex<Option<Authentication>>,
    /// On 3.1.1, during the connection's first authentication of the session: `Session.PreauthIntegrityHashValue`, or
    /// `PreauthSession.PreauthIntegrityHashValue` of a further channel.
    pub(crate) preauth: Mutex<Option<PreauthHash>>,
}

impl Channel {
    /// Creates a channel of `session`; `preauth` is the connection's hash on 3.1.1.
    pub fn new(session: Arc<Session>, preauth: Option<PreauthHash>) -> Self {
        Channel { session, signing: RwLock::new(None), authentication: Mutex::new(None), preauth: Mutex::new(preauth) }
    }

    /// Returns the signing key of this channel; `None` before authentication and for anonymous and guest sessions.
    pub fn signing(&self) -> Option<Arc<SigningKey>> {
        self.signing.read().clone()
    }

    /// Sets the signing key; called once.
    pub fn set_signing(&self, key: Option<Arc<SigningKey>>) {
        *self.signing.write() = key;
    }
}

/// The negotiated parameters of the connection that a session was established on (`Session.Connection`). Further
/// channels must have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// `Connection.Dialect`.
    pub dialect: Dialect,
    /// `Connection.CipherId`, which the session's encryption keys depend on.
    pub cipher: Option<CipherId>,
    /// `Connection.SigningAlgorithmId`.
    pub signing: SigningAlgorithm,
}

/// The connections of one session, the oldest first.
#[derive(Default)]
pub(crate) struct Channels {
    connections: Vec<Weak<Connection>>,
    /// The last connection or the session has ended, so no further one is accepted.
    closed: bool,
}

/// The reason why a session accepts no further channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoChannel {
    /// It has ended.
    Closed,
    /// It has reached the limit.
    TooMany,
}

impl Channels {
    /// Adds a connection that is not in the list.
    pub(crate) fn add(&mut self, connection: &Arc<Connection>, limit: usize) -> Result<(), NoChannel> {
        if self.closed {
            return Err(NoChannel::Closed);
        }
        if self.connections.len() >= limit {
            return Err(NoChannel::TooMany);
        }
        self.connections.push(Arc::downgrade(connection));
        Ok(())
    }

    /// Removes a connection. Returns `true` if it was the last one, for one caller only. The caller must then end the
    /// session.
    pub(crate) fn remove(&mut self, connection: &Arc<Connection>) -> bool {
        let before = self.connections.len();
        self.connections.retain(|other| other.as_ptr() != Arc::as_ptr(connection));
        let last = self.connections.is_empty() && before > 0;
        self.closed |= last;
        last
    }

    /// Removes all connections; no further one is accepted.
    pub(crate) fn close(&mut self) -> Vec<Arc<Connection>> {
        self.closed = true;
        std::mem::take(&mut self.connections).iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the number of connections.
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns the connections that have not ended.
    pub(crate) fn live(&self) -> Vec<Arc<Connection>> {
        self.connections.iter().filter_map(Weak::upgrade).filter(|connection| connection.ended().is_none()).collect()
    }
}

#[cfg(test)]
mod tests;
