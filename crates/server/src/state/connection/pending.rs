//! Requests that were answered with an interim response and can be cancelled ([MS-SMB2] 3.3.1.7
//! `Connection.AsyncCommandList`, 3.3.5.16).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use crate::number_hash::NumberMap;
use crate::state::session::Session;

/// A waiting request that can be cancelled.
#[derive(Default)]
pub(crate) struct Pending {
    cancelled: AtomicBool,
    wake: Notify,
    /// The session whose other channels let the request continue when its connection is lost.
    survives_in: OnceLock<Arc<Session>>,
}

/// The request was cancelled by the client, or because its open, session or connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cancelled;

impl Pending {
    /// Marks a request whose result the client will request over another channel of `session` if this one is lost.
    pub(crate) fn survive_in(&self, session: &Arc<Session>) {
        // A second call has no effect; it has the same session.
        let _ = self.survives_in.set(session.clone());
    }

    /// Handles the loss of the connection: the request continues if its session has other channels, and is cancelled
    /// otherwise. At most `limit` requests of a session continue.
    pub(crate) fn lose_connection(self: &Arc<Self>, limit: usize) {
        if !self.survives_in.get().is_some_and(|session| session.admit_survivor(self, limit)) {
            self.cancel();
        }
    }

    /// Ends the wait.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Returns whether the request was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Waits for `event` or the cancellation, whichever is first.
    pub(crate) async fn wait<T>(&self, event: impl Future<Output = T>) -> Result<T, Cancelled> {
        let mut event = std::pin::pin!(event);
        let mut cancelled = std::pin::pin!(async {
            while !self.cancelled.load(Ordering::Acquire) {
                self.wake.notified().await;
            }
        });
        std::future::poll_fn(|context| {
            if let std::task::Poll::Ready(value) = event.as_mut().poll(context) {
                return std::task::Poll::Ready(Ok(value));
            }
            cancelled.as_mut().poll(context).map(|()| Err(Cancelled))
        })
        .await
    }
}

/// The waiting requests of a connection.
#[derive(Default)]
pub(crate) struct Table {
    last_id: u64,
    by_id: NumberMap<u64, Waiting>,
}

struct Waiting {
    message_id: u64,
    session_id: u64,
    pending: Arc<Pending>,
}

impl Table {
    /// Adds a waiting request and returns its AsyncId; `None` if `limit` requests wait already.
    pub(crate) fn add(&mut self, message_id: u64, session_id: u64, limit: usize) -> Option<(u64, Arc<Pending>)> {
        if self.by_id.len() >= limit {
            return None;
        }
        self.last_id += 1;
        let pending = Arc::new(Pending::default());
        self.by_id.insert(self.last_id, Waiting { message_id, session_id, pending: pending.clone() });
        Some((self.last_id, pending))
    }

    /// Removes a request that was answered.
    pub(crate) fn remove(&mut self, async_id: u64) {
        self.by_id.remove(&async_id);
    }

    /// Finds the target of a CANCEL, by AsyncId, or by MessageId if the client has not received the AsyncId yet.
    pub(crate) fn find(&self, async_id: Option<u64>, message_id: u64) -> Option<Arc<Pending>> {
        match async_id {
            Some(id) => self.by_id.get(&id).map(|waiting| waiting.pending.clone()),
            None => {
                let waiting = self.by_id.values().find(|waiting| waiting.message_id == message_id);
                waiting.map(|waiting| waiting.pending.clone())
            }
        }
    }

    /// Returns the waiting requests of a session.
    pub(crate) fn of_session(&self, session_id: u64) -> Vec<Arc<Pending>> {
        let of_it = self.by_id.values().filter(|waiting| waiting.session_id == session_id);
        of_it.map(|waiting| waiting.pending.clone()).collect()
    }

    /// Returns all waiting requests.
    pub(crate) fn all(&self) -> Vec<Arc<Pending>> {
        self.by_id.values().map(|waiting| waiting.pending.clone()).collect()
    }

    /// Returns whether no request waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}
