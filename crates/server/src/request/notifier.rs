//! Notifications of oplock and lease breaks ([MS-SMB2] 3.3.4.6, 3.3.4.7).

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use proto::smb2::FileId;
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::oplock_break::{LeaseBreakFlags, LeaseBreakNotification, OplockBreak, OplockBreakNotification};

use super::outgoing::Outgoing;
use crate::files::oplock::{Break, Client, Holder};
use crate::state::Server;
use crate::state::connection::Connection;
use crate::state::session::Session;

/// Notifies a client that its oplock, or the lease of its open, is broken.
pub(crate) struct Notifier {
    this: Weak<Notifier>,
    server: Arc<Weak<Server>>,
    session: Weak<Session>,
    /// The share requires encryption.
    seals: bool,
    file_id: FileId,
    state: Mutex<State>,
}

enum State {
    /// The response that creates the open is not sent yet, so the client could not identify it. Breaks are queued here.
    Unannounced(Vec<Break>),
    Announced,
}

impl Notifier {
    /// Creates the notifier for an open whose response is being composed for `connection`.
    pub(crate) fn new(connection: &Arc<Connection>, session: &Arc<Session>, seals: bool, file_id: FileId) -> Arc<Self> {
        Arc::new_cyclic(|this| Notifier {
            this: this.clone(),
            server: connection.weak_server.clone(),
            session: Arc::downgrade(session),
            seals,
            file_id,
            state: Mutex::new(State::Unannounced(Vec::new())),
        })
    }

    /// Sends the queued breaks, after the response that grants the oplock or lease.
    pub(crate) fn announce(&self) {
        let mut state = self.state.lock();
        let State::Unannounced(breaks) = std::mem::replace(&mut *state, State::Announced) else { return };
        let unsent = breaks.into_iter().filter(|what| !self.send(*what)).count();
        // The file must not be locked in the table after the state, because breaks occur in the other order.
        drop(state);
        if unsent > 0 {
            self.missed();
        }
    }

    /// Called if a notification cannot be sent that counted as sent already, and the break may be in progress still.
    fn missed(&self) {
        if let Some(server) = self.server.upgrade() {
            server.opens.durable.check(&server, self.file_id.persistent);
        }
    }

    /// Returns the connections for the notification, in the order in which to try them. For an oplock these are those
    /// of the session. For a lease they are all connections of the client on which this user is logged on (3.3.4.7),
    /// because a ClientGuid is not a secret. An encrypted message can use only the session's connections, because it is
    /// encrypted with the session's keys.
    fn routes(&self, session: &Session, what: Break, seals: bool) -> Vec<Arc<Connection>> {
        let mut routes = match what {
            Break::Lease(lease) if !seals => {
                self.server.upgrade().map_or_else(Vec::new, |server| server.connections.of_client(lease.id.client))
            }
            Break::Lease(_) | Break::Oplock(_) => Vec::new(),
        };
        routes.retain(|connection| connection.is_authenticated_as(session));
        let own = session.live_channels().into_iter();
        routes.extend(own.filter(|own| !routes.iter().any(|other| Arc::ptr_eq(own, other))).collect::<Vec<_>>());
        routes
    }

    /// Sends the notification: never signed (3.3.4.6, 3.3.4.7), encrypted if other messages are (3.3.4.1.4). If a
    /// connection ends before delivery, it is sent over the next one.
    fn send(&self, what: Break) -> bool {
        let Some(session) = self.session.upgrade() else { return false };
        let seals = self.seals || session.encrypt_data.load(std::sync::atomic::Ordering::Relaxed);
        // Without any connection the open is about to be closed, which also ends the oplock.
        let routes = self.routes(&session, what, seals);
        routes.iter().any(|connection| self.send_over(connection, &session, what, seals))
    }

    fn send_over(&self, connection: &Arc<Connection>, session: &Arc<Session>, what: Break, seals: bool) -> bool {
        let mut header = Header::request(Command::OPLOCK_BREAK, Header::UNSOLICITED);
        header.flags = Flags::SERVER_TO_REDIR;
        header.session_id = session.id;
        header.credits = 0;
        header.credit_charge = 0;
        let notification = match what {
            Break::Oplock(oplock_level) => {
                OplockBreakNotification::Oplock(OplockBreak { oplock_level, file_id: self.file_id })
            }
            Break::Lease(lease) => {
                header.session_id = 0;
                OplockBreakNotification::Lease(LeaseBreakNotification {
                    new_epoch: lease.epoch,
                    flags: if lease.acknowledge { LeaseBreakFlags::ACK_REQUIRED } else { LeaseBreakFlags::NONE },
                    lease_key: lease.id.key,
                    current_lease_state: lease.from,
                    new_lease_state: lease.to,
                })
            }
        };
        connection.server.metrics.broke();
        let this = self.this.clone();
        let again = Box::new(move || {
            if let Some(notifier) = this.upgrade().filter(|notifier| !notifier.send(what)) {
                notifier.missed();
            }
        });
        let seal_for = seals.then(|| session.clone());
        Outgoing::unsolicited(connection, &header, seal_for, again, |body| notification.encode(body))
    }
}

impl Holder for Notifier {
    fn broken(&self, what: Break) -> bool {
        match &mut *self.state.lock() {
            State::Unannounced(breaks) => {
                breaks.push(what);
                true
            }
            State::Announced => self.send(what),
        }
    }

    fn is_of(&self, client: &Client<'_>) -> bool {
        let Some(own) = self.session.upgrade() else { return false };
        let same_user = || own.user().zip(client.user).is_some_and(|(own, other)| other.may_end_sessions_of(&own));
        own.id == client.session_id || same_user()
    }

    fn unreachable(&self) -> bool {
        self.server.upgrade().is_some_and(|server| server.opens.durable.unreachable(self.file_id.persistent))
    }

    fn is_connected(&self) -> bool {
        self.session.upgrade().is_some_and(|session| !session.live_channels().is_empty())
    }
}
