//! Notifications that TCP has not yet acknowledged ([MS-SMB2] 3.3.4.6, 3.3.4.7). If a connection ends before their
//! delivery, they are sent over another one.
//!
//! The daemon supplies the number of acknowledged bytes. Responses are not kept, because a client that loses one sends
//! the request again.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::outbox::Outbox;
use super::{Connection, Frame};
use crate::state::session::Phase;

/// Sends a message again over another connection.
pub(crate) type Again = Box<dyn FnOnce() + Send>;

/// The undelivered notifications of a connection.
#[derive(Default)]
pub(crate) struct Deliveries {
    state: Mutex<State>,
    queued: Notify,
}

#[derive(Default)]
struct State {
    /// The offset of each message's end in the connection's stream, and the callback that sends it again.
    awaited: VecDeque<(u64, Again)>,
    /// How many bytes of the stream are acknowledged.
    acknowledged: u64,
    /// The connection is closed; nothing further is delivered.
    closed: bool,
}

impl Deliveries {
    /// Queues a message; returns `false` without effect if the connection is closed.
    pub(crate) fn send(&self, outbox: &Outbox, frame: Frame, again: Again) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        let end = outbox.push(frame);
        state.awaited.push_back((end, again));
        self.queued.notify_one();
        true
    }

    /// Marks the connection as closed. Returns the callbacks for the undelivered messages.
    pub(super) fn close(&self) -> Vec<Again> {
        let mut state = self.state.lock();
        state.closed = true;
        std::mem::take(&mut state.awaited).into_iter().map(|(_, again)| again).collect()
    }

    fn acknowledge(&self, bytes: u64) -> Option<u64> {
        let mut state = self.state.lock();
        state.acknowledged = state.acknowledged.max(bytes);
        while state.awaited.front().is_some_and(|(end, _)| *end <= state.acknowledged) {
            state.awaited.pop_front();
        }
        (!state.awaited.is_empty()).then_some(state.acknowledged)
    }
}

impl Connection {
    /// Waits until a notification is sent whose delivery must be confirmed. From then on [`Connection::acknowledge`]
    /// must be called periodically until it returns `None`.
    pub async fn awaits_acknowledgment(&self) {
        while self.deliveries.state.lock().awaited.is_empty() {
            self.deliveries.queued.notified().await;
        }
    }

    /// Records that TCP has acknowledged `bytes` bytes of the frames from [`Connection::next_frame`]. Returns the
    /// highest such number if notifications are still unacknowledged.
    pub fn acknowledge(&self, bytes: u64) -> Option<u64> {
        #[cfg(feature = "torture")]
        let bytes = if self.torture.acknowledges() { bytes } else { 0 };
        self.deliveries.acknowledge(bytes)
    }

    /// Returns whether the connection can be closed without loss, because each session has another channel.
    pub fn is_dispensable(&self) -> bool {
        #[cfg(feature = "torture")]
        if !self.torture.acknowledges() {
            return true;
        }
        let valid = |channel: &std::sync::Arc<crate::state::session::Channel>| channel.session.phase() == Phase::Valid;
        self.channels().iter().filter(|channel| valid(channel)).all(|channel| channel.session.live_channels().len() > 1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn unacknowledged_frames_are_sent_again_once() {
        let (deliveries, outbox) = (Deliveries::default(), Outbox::default());
        let again = Arc::new(Mutex::new(Vec::new()));
        let send = |name: &'static str| {
            let again = again.clone();
            deliveries.send(&outbox, Frame::new(vec![0; 10], 0), Box::new(move || again.lock().push(name)))
        };
        assert_eq!(deliveries.acknowledge(0), None, "nothing is awaited");
        outbox.push(Frame::new(vec![0; 100], 0));
        assert!(send("first") && send("second") && send("third"));
        for (bytes, expected) in [(0, Some(0)), (109, Some(109)), (110, Some(110)), (50, Some(110))] {
            assert_eq!(deliveries.acknowledge(bytes), expected, "{bytes}");
        }
        deliveries.close().into_iter().for_each(|again| again());
        assert_eq!(*again.lock(), ["second", "third"]);
        assert!(!send("late"));
        assert!(deliveries.close().is_empty());
        let frames = std::iter::from_fn(|| outbox.pop()).map(|frame| frame.as_bytes().len());
        assert_eq!(frames.sum::<usize>(), 130, "frames sent after the end are not queued");
    }
}
