//! Requests that were answered with an interim response and can be cancelled ([MS-SMB2] 3.3.1.7
//! `Connection.AsyncCommandList`, 3.3.5.16).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A waiting request, as the one who may cancel it sees it.
#[derive(Default)]
pub(crate) struct Pending {
    cancelled: AtomicBool,
    wake: Notify,
}

/// The client, or the end of its open, session or connection, cancelled the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cancelled;

impl Pending {
    /// Ends the wait.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Waits for `event` or the cancellation, whichever comes first.
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
    by_id: HashMap<u64, (u64, Arc<Pending>)>,
}

impl Table {
    /// Adds a waiting request and answers its AsyncId; `None` when `limit` wait already.
    pub(crate) fn add(&mut self, message_id: u64, limit: usize) -> Option<(u64, Arc<Pending>)> {
        if self.by_id.len() >= limit {
            return None;
        }
        self.last_id += 1;
        let pending = Arc::new(Pending::default());
        self.by_id.insert(self.last_id, (message_id, pending.clone()));
        Some((self.last_id, pending))
    }

    /// The request is answered.
    pub(crate) fn remove(&mut self, async_id: u64) {
        self.by_id.remove(&async_id);
    }

    /// Finds the target of a CANCEL: by AsyncId, or by MessageId when the client does not know that yet.
    pub(crate) fn find(&self, async_id: Option<u64>, message_id: u64) -> Option<Arc<Pending>> {
        match async_id {
            Some(id) => self.by_id.get(&id).map(|(_, pending)| pending.clone()),
            None => self.by_id.values().find(|(id, _)| *id == message_id).map(|(_, pending)| pending.clone()),
        }
    }

    /// Takes all out.
    pub(crate) fn take(&mut self) -> Vec<Arc<Pending>> {
        self.by_id.drain().map(|(_, (_, pending))| pending).collect()
    }
}
