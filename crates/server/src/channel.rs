//! The channels of a session: the connections that it is used over, and what one of them knows of it ([MS-SMB2] 3.3.1.8
//! `Session.ChannelList`, 3.3.1.14).
//!
//! A connection owns its channels and they own the session; the session knows its connections weakly. What is open
//! belongs to the session alone, so no channel sees more than another.

use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use proto::crypto::preauth::PreauthHash;
use proto::crypto::sign::SigningKey;
use proto::smb2::negotiate::{CipherId, Dialect, SigningAlgorithm};

use crate::command::session_setup::Authentication;
use crate::conn::Connection;
use crate::session::Session;

/// A session as one connection sees it ([MS-SMB2] 3.3.1.14), or as one that wants to (`PreauthSession`, 3.3.1.15).
pub struct Channel {
    /// The session.
    pub session: Arc<Session>,
    /// `Channel.SigningKey`.
    signing: RwLock<Option<Arc<SigningKey>>>,
    /// The authentication under way on this connection.
    pub(crate) authentication: Mutex<Option<Authentication>>,
    /// On 3.1.1, while the connection's first authentication of the session is under way:
    /// `Session.PreauthIntegrityHashValue`, or `PreauthSession.PreauthIntegrityHashValue` of a further channel.
    pub(crate) preauth: Mutex<Option<PreauthHash>>,
}

impl Channel {
    /// A channel of `session`; `preauth` is the connection's hash on 3.1.1.
    pub fn new(session: Arc<Session>, preauth: Option<PreauthHash>) -> Self {
        Channel { session, signing: RwLock::new(None), authentication: Mutex::new(None), preauth: Mutex::new(preauth) }
    }

    /// The key that signs on this channel; `None` before authentication and for anonymous and guest sessions.
    pub fn signing(&self) -> Option<Arc<SigningKey>> {
        self.signing.read().clone()
    }

    /// Sets the signing key, once.
    pub fn set_signing(&self, key: Option<Arc<SigningKey>>) {
        *self.signing.write() = key;
    }
}

/// What the connection that a session was established on had negotiated (`Session.Connection`): a further channel must
/// have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// `Connection.Dialect`.
    pub dialect: Dialect,
    /// `Connection.CipherId`: the session's sealing keys are made for it.
    pub cipher: Option<CipherId>,
    /// `Connection.SigningAlgorithmId`.
    pub signing: SigningAlgorithm,
}

/// The connections of one session, the oldest first.
#[derive(Default)]
pub(crate) struct Channels {
    connections: Vec<Weak<Connection>>,
    /// The last one has gone, or the session has ended: no further one comes.
    closed: bool,
}

/// Why a session takes no further channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoChannel {
    /// It has ended.
    Closed,
    /// It has as many as it may.
    TooMany,
}

impl Channels {
    /// Adds a connection that is not among them yet.
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

    /// Takes a connection out. `true` where it was the last, which ends the session: the caller sees to that, and only
    /// one caller is told so.
    pub(crate) fn remove(&mut self, connection: &Arc<Connection>) -> bool {
        let before = self.connections.len();
        self.connections.retain(|other| other.as_ptr() != Arc::as_ptr(connection));
        let last = self.connections.is_empty() && before > 0;
        self.closed |= last;
        last
    }

    /// Takes all out; no further one comes.
    pub(crate) fn close(&mut self) -> Vec<Arc<Connection>> {
        self.closed = true;
        std::mem::take(&mut self.connections).iter().filter_map(Weak::upgrade).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Those that have not ended.
    pub(crate) fn live(&self) -> Vec<Arc<Connection>> {
        self.connections.iter().filter_map(Weak::upgrade).filter(|connection| connection.ended().is_none()).collect()
    }
}

#[cfg(test)]
mod peer;
#[cfg(test)]
mod tests;
