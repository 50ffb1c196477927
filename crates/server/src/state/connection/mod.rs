//! A client connection: its state ([MS-SMB2] 3.3.1.7) and the frames that wait to be sent. `frame` processes the frames
//! that it receives. Sockets, receive buffers and timers are in the daemon.

mod delivery;
mod failed_logon;
mod logons;
mod outbox;
mod pending;
#[cfg(feature = "torture")]
pub(crate) mod torture;
mod usage;
mod window;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use proto::crypto::preauth::PreauthHash;
use proto::dtyp::Guid;
use proto::smb2::negotiate::{Capabilities, CipherId, Dialect, SecurityMode, SigningAlgorithm};
use proto::status::Status;

pub(crate) use delivery::Again;
pub(crate) use failed_logon::{Failed, NoRoom};
pub(crate) use logons::Bindings;
pub use outbox::Frame;
use outbox::Outbox;
pub(crate) use pending::{Cancelled, Pending};
pub use usage::Transit;
use usage::Usage;
pub(crate) use window::Window;

use crate::error::{Disconnect, Error};
use crate::logon_throttle::Failures;
use crate::number_hash::NumberMap;
use crate::state::Server;
use crate::state::channel::NoChannel;
use crate::state::session::{Channel, Phase, Session, Terms};
use crate::vfs::{Cancellation, Time};

/// The addresses of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The client's address.
    pub remote: SocketAddr,
    /// The server's address.
    pub local: SocketAddr,
}

/// One client connection.
pub struct Connection {
    /// The server that accepted it.
    pub server: Arc<Server>,
    /// A reference to the server for what outlives the connection. Cloning it writes to a counter of this connection,
    /// not to one that all processors use.
    pub(crate) weak_server: Arc<Weak<Server>>,
    /// Unique in the server, for logs.
    pub id: u64,
    /// Both addresses.
    pub peer: Peer,
    /// When it was accepted.
    pub created: Time,
    pub(crate) state: Mutex<State>,
    pub(crate) outbox: Outbox,
    pub(crate) deliveries: delivery::Deliveries,
    pub(crate) failures: Failures,
    usage: Mutex<Usage>,
    /// Cancelled when the transport is closed, unless the client can obtain results over other channels.
    pub(crate) lost: Arc<Cancellation>,
    /// A user other than an anonymous one has logged on.
    logged_on: AtomicBool,
    /// The number of ECHO requests before that.
    echoes: AtomicU32,
    #[cfg(feature = "torture")]
    pub(crate) torture: torture::Hooks,
    negotiated: OnceLock<Negotiated>,
    ended: OnceLock<Disconnect>,
}

/// The state that changes with each request.
pub(crate) struct State {
    pub(crate) window: Window,
    /// An SMB1 multi-protocol negotiate was answered with 0x02FF; one SMB2 NEGOTIATE must still follow.
    pub(crate) wildcard: bool,
    pub(crate) channels: NumberMap<u64, Arc<Channel>>,
    /// `Connection.PreauthSessionTable`: sessions of other connections that are being bound to this one.
    pub(crate) bindings: Bindings,
    pub(crate) pending: pending::Table,
}

/// The result of NEGOTIATE, which never changes.
#[derive(Clone, Debug)]
pub(crate) struct Negotiated {
    pub(crate) dialect: Dialect,
    pub(crate) client_guid: Guid,
    pub(crate) client_capabilities: Capabilities,
    pub(crate) client_security_mode: SecurityMode,
    pub(crate) client_dialects: Vec<Dialect>,
    pub(crate) server_capabilities: Capabilities,
    pub(crate) server_security_mode: SecurityMode,
    /// `Connection.CipherId`; `None` if encryption is not available.
    pub(crate) cipher: Option<CipherId>,
    pub(crate) signing: SigningAlgorithm,
    /// `Connection.SupportsMultiCredit`.
    pub(crate) multi_credit: bool,
    pub(crate) max_transact: u32,
    pub(crate) max_read: u32,
    pub(crate) max_write: u32,
    /// The POSIX extensions were negotiated.
    pub(crate) posix: bool,
    /// `Connection.PreauthIntegrityHashValue`, on 3.1.1.
    pub(crate) preauth: Option<PreauthHash>,
}

impl Negotiated {
    /// Returns the terms that must be the same for further channels of a session established here.
    pub(crate) fn terms(&self) -> Terms {
        Terms { dialect: self.dialect, cipher: self.cipher, signing: self.signing }
    }
}

/// The end of a connection whose client has closed it, or that is lost.
const CLOSED: Disconnect = Disconnect("transport closed");

impl Connection {
    /// Creates the state of a connection that was just accepted.
    pub fn new(server: &Arc<Server>, peer: Peer) -> Arc<Connection> {
        let connection = Arc::new(Connection {
            server: server.clone(),
            weak_server: Arc::new(Arc::downgrade(server)),
            id: server.next_id(),
            peer,
            created: server.environment.now(),
            state: Mutex::new(State {
                window: Window::new(UNAUTHENTICATED_CREDITS),
                wildcard: false,
                channels: NumberMap::default(),
                bindings: Bindings::default(),
                pending: pending::Table::default(),
            }),
            outbox: Outbox::default(),
            deliveries: delivery::Deliveries::default(),
            failures: Failures::default(),
            usage: Mutex::new(Usage::new(&server.accounting.unauthenticated(peer.remote.ip().into()))),
            lost: Arc::default(),
            logged_on: AtomicBool::new(false),
            echoes: AtomicU32::new(0),
            #[cfg(feature = "torture")]
            torture: torture::Hooks::default(),
            negotiated: OnceLock::new(),
            ended: OnceLock::new(),
        });
        server.connections.add(&connection);
        server.metrics.connected();
        connection
    }

    /// Returns the result of NEGOTIATE; `None` before it.
    pub(crate) fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.get()
    }

    /// Stores the result of NEGOTIATE; returns `false` if there is one already.
    pub(crate) fn settle(self: &Arc<Self>, negotiated: Negotiated) -> bool {
        let client = negotiated.client_guid;
        let settled = self.negotiated.set(negotiated).is_ok();
        if settled {
            self.server.connections.add_client(self, client);
        }
        settled
    }

    /// Returns the negotiated dialect, or 2.0.2 before NEGOTIATE, when nothing depends on it.
    pub(crate) fn dialect(&self) -> Dialect {
        self.negotiated().map_or(Dialect::SMB_2_0_2, |negotiated| negotiated.dialect)
    }

    /// Whether the POSIX extensions were negotiated.
    pub(crate) fn is_posix(&self) -> bool {
        self.negotiated().is_some_and(|negotiated| negotiated.posix)
    }

    /// Returns the channel of a session on this connection.
    pub(crate) fn channel(&self, session_id: u64) -> Option<Arc<Channel>> {
        self.state.lock().channels.get(&session_id).cloned()
    }

    /// Adds a channel, so that its session can be used over this connection.
    pub(crate) fn add_channel(self: &Arc<Self>, channel: &Arc<Channel>) -> Result<(), Error> {
        let limits = &self.server.policy().limits;
        let mut state = self.state.lock();
        // `close` takes the channels only after the connection has ended, so none is left behind.
        if self.ended().is_some() {
            return Err(Error::because(Status::CONNECTION_DISCONNECTED, "the connection has ended"));
        }
        if state.channels.contains_key(&channel.session.id) {
            return Err(Error::because(
                Status::REQUEST_NOT_ACCEPTED,
                "the connection is already a channel of the session",
            ));
        }
        if state.channels.len() >= limits.sessions_per_connection {
            state.channels.retain(|_, channel| channel.session.phase() != Phase::Closed);
        }
        if state.channels.len() >= limits.sessions_per_connection {
            return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "too many sessions on one connection"));
        }
        channel.session.add_channel(self, limits.channels_per_session).map_err(|why| match why {
            NoChannel::Closed => Error::new(Status::USER_SESSION_DELETED),
            NoChannel::TooMany => Error::because(Status::INSUFFICIENT_RESOURCES, "too many channels of one session"),
        })?;
        state.channels.insert(channel.session.id, channel.clone());
        Ok(())
    }

    /// Removes the channel of a session that has ended. If the client can verify signatures the closed channel is kept,
    /// so that the end of the session can be reported in a signed response, which an attacker cannot forge.
    pub(crate) fn forget(&self, session: &Arc<Session>) {
        let is_its = |channel: &Arc<Channel>| Arc::ptr_eq(&channel.session, session);
        let mut state = self.state.lock();
        let can_check = session.keys().is_some_and(|keys| keys.secret && keys.signing.is_some());
        if state.channels.get(&session.id).is_some_and(|channel| is_its(channel) && !can_check) {
            state.channels.remove(&session.id);
        }
    }

    /// Cancels the waiting requests of a session that has ended.
    pub(crate) fn cancel_all_of(&self, session: &Session) {
        let waiting = self.state.lock().pending.of_session(session.id);
        waiting.iter().for_each(|waiting| waiting.cancel());
    }

    /// Returns the channels of this connection.
    pub(crate) fn channels(&self) -> Vec<Arc<Channel>> {
        self.state.lock().channels.values().cloned().collect()
    }

    /// Ends the connection: no further input is accepted and queued frames are not sent.
    pub fn end(&self, reason: Disconnect) {
        if self.ended.set(reason).is_ok() {
            tracing::debug!(connection = self.id, peer = %self.peer.remote, %reason, "connection ends");
            if reason != CLOSED {
                self.server.metrics.ended(reason.0);
            }
            self.outbox.wake();
            self.failures.leave();
        }
    }

    /// Returns the reason for the end of the connection, if it has ended.
    pub fn ended(&self) -> Option<Disconnect> {
        self.ended.get().copied()
    }

    /// Returns whether a user other than an anonymous one has logged on. Until then the connection's resources and
    /// lifetime are limited.
    pub fn is_logged_on(&self) -> bool {
        self.logged_on.load(Ordering::Acquire)
    }

    /// Returns whether the connection has a session, including an anonymous one.
    pub fn has_session(&self) -> bool {
        self.state.lock().channels.values().any(|channel| channel.session.phase() == Phase::Valid)
    }

    /// Counts an ECHO request; returns `false` if the connection has sent too many before a logon.
    pub(crate) fn admit_echo(&self) -> bool {
        let limit = self.server.policy().limits.echoes_before_logon;
        self.is_logged_on() || self.echoes.fetch_add(1, Ordering::Relaxed) < limit
    }

    /// Returns whether the user of `session` is logged on over this connection, in any session.
    pub(crate) fn is_authenticated_as(&self, session: &Session) -> bool {
        let Some(owner) = session.user() else { return false };
        let is_owner = |channel: &Arc<Channel>| {
            channel.session.phase() == Phase::Valid
                && channel.session.user().is_some_and(|user| user.is_same_account(&owner))
        };
        self.channels().iter().any(is_owner)
    }

    /// Returns whether any session of this connection has an open.
    pub fn has_opens(&self) -> bool {
        self.channels().iter().any(|channel| channel.session.open_count() > 0)
    }

    /// Returns the number of bytes that wait to be sent.
    pub fn backlog(&self) -> usize {
        self.outbox.bytes()
    }

    /// Returns the next frame to send, including the four bytes of the transport header.
    pub fn next_frame(&self) -> Option<Frame> {
        self.outbox.pop()
    }

    /// Waits until there is a frame to send, or the connection has ended.
    pub async fn writable(&self) {
        self.outbox.ready(|| self.ended().is_some()).await;
    }

    /// Returns whether requests continue although the transport is closed, because their client can obtain the result
    /// over another channel.
    pub fn has_survivors(&self) -> bool {
        !self.state.lock().pending.is_empty()
    }

    /// Called when the transport is closed. Removes the channels and returns those whose sessions have no other one.
    /// The caller must end these sessions. Requests that no other channel needs are cancelled.
    pub(crate) fn lose_transport(self: &Arc<Self>) -> Vec<Arc<Channel>> {
        self.end(CLOSED);
        let (channels, pending) = {
            let mut state = self.state.lock();
            state.bindings = Bindings::default();
            (std::mem::take(&mut state.channels), state.pending.all())
        };
        let channel_count = channels.len();
        let ended: Vec<_> = channels.into_values().filter(|channel| channel.session.remove_channel(self)).collect();
        let limit = self.server.policy().limits.pending_per_connection;
        for waiting in pending {
            waiting.lose_connection(limit);
        }
        if ended.len() == channel_count {
            self.lost.cancel();
        }
        ended
    }

    /// Sends undelivered notifications over the other channels of their sessions, and removes the connection from the
    /// server.
    pub(crate) fn remove(&self) {
        self.deliveries.close().into_iter().for_each(|again| again());
        self.server.connections.remove(self);
    }
}

/// Credits per connection before a user has logged on.
const UNAUTHENTICATED_CREDITS: u16 = 128;
