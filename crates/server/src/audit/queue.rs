//! The events that wait for one destination.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Event;
use crate::policy::limits::{AUDIT_BATCH, AUDIT_QUEUE_BYTES};

/// The part of the queue up to which requests are admitted (`frevo:audit overflow = refuse`). The rest is for what
/// cannot be refused, such as closing a file.
const ADMITTED_BYTES: usize = AUDIT_QUEUE_BYTES / 2;

/// A bounded queue. Writers of events never wait. Events that do not fit are lost, and counted.
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    /// Signals the first event of an empty queue, and a request to reopen the destination.
    arrives: Condvar,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Event>,
    /// The bytes of the events, with those that the writer has taken and not written yet.
    bytes: usize,
    /// The bytes of the events that the writer has taken.
    taken: usize,
    /// Their number.
    taken_events: usize,
    /// The bytes that admitted requests may still need.
    reserved: usize,
    /// Since the last batch.
    lost: u64,
    reopens: bool,
    numbers: Totals,
}

#[derive(Default)]
struct Totals {
    written: u64,
    lost: u64,
    refused: u64,
    stalled: bool,
}

/// What has happened to the events of a destination since the server started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueueNumbers {
    /// Events that were written.
    pub written: u64,
    /// Events that were lost.
    pub lost: u64,
    /// Requests that were refused because there was no room for their events.
    pub refused: u64,
    /// The events that wait, with those that are being written.
    pub waiting: usize,
    /// Their bytes.
    pub bytes: usize,
    /// The last attempt to write has failed.
    pub stalled: bool,
}

/// What the writer of a destination has to do.
#[derive(Default)]
pub struct Batch {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// The number of events that did not fit into the queue since the last batch.
    pub lost: u64,
    /// The destination must be opened again before the events are written.
    pub reopens: bool,
}

impl Queue {
    /// Adds an event, unless the queue is full.
    pub fn push(&self, event: Event) {
        self.add(event, false);
    }

    /// Adds an event of a request that has a [`Reservation`].
    pub(super) fn push_reserved(&self, event: Event) {
        self.add(event, true);
    }

    fn add(&self, event: Event, is_reserved: bool) {
        let size = event.size();
        let mut waiting = self.waiting.lock();
        // What is reserved is at least as much as the admitted requests still add.
        let others = if is_reserved { 0 } else { waiting.reserved };
        if waiting.bytes + others + size > AUDIT_QUEUE_BYTES {
            waiting.lost += 1;
            waiting.numbers.lost += 1;
            return;
        }
        waiting.bytes += size;
        waiting.events.push_back(event);
        let was_empty = waiting.events.len() == 1;
        drop(waiting);
        // The writer takes all events before it waits again.
        if was_empty {
            self.arrives.notify_one();
        }
    }

    /// Reserves room for the events of a request; `None` if there is not enough, so that the request must be refused.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let mut waiting = self.waiting.lock();
        if waiting.bytes + waiting.reserved + bytes > ADMITTED_BYTES {
            waiting.numbers.refused += 1;
            return None;
        }
        waiting.reserved += bytes;
        Some(Reservation { queue: Arc::clone(self), bytes })
    }

    /// Asks the writer to open its destination again.
    pub fn reopen(&self) {
        self.waiting.lock().reopens = true;
        self.arrives.notify_one();
    }

    /// Returns the next events. Waits for `time` if there are none. They occupy the queue until they are
    /// [written](Queue::written).
    pub fn next(&self, time: Duration) -> Batch {
        let mut waiting = self.waiting.lock();
        let nothing = |waiting: &mut Waiting| waiting.events.is_empty() && waiting.lost == 0 && !waiting.reopens;
        self.arrives.wait_while_for(&mut waiting, nothing, time);
        let count = waiting.events.len().min(AUDIT_BATCH);
        let events: Vec<Event> = waiting.events.drain(..count).collect();
        waiting.taken_events += count;
        waiting.taken += events.iter().map(Event::size).sum::<usize>();
        if waiting.events.is_empty() {
            // A burst must not occupy its memory forever.
            waiting.events.shrink_to(AUDIT_BATCH);
        }
        let (lost, reopens) = (std::mem::take(&mut waiting.lost), std::mem::take(&mut waiting.reopens));
        Batch { events, lost, reopens }
    }

    /// Waits before another attempt to write a batch. Returns whether the destination must be opened again first.
    pub fn pause(&self, time: Duration) -> bool {
        let mut waiting = self.waiting.lock();
        self.arrives.wait_while_for(&mut waiting, |waiting| !waiting.reopens, time);
        std::mem::take(&mut waiting.reopens)
    }

    /// Notes whether the destination accepts events.
    pub fn stalls(&self, stalled: bool) {
        self.waiting.lock().numbers.stalled = stalled;
    }

    /// Notes that the events of the last batch are written, except for `lost`, which the destination never accepts.
    pub fn written(&self, events: usize, lost: usize) {
        let mut waiting = self.waiting.lock();
        waiting.bytes -= std::mem::take(&mut waiting.taken);
        waiting.taken_events = 0;
        waiting.numbers.written += events.saturating_sub(lost) as u64;
        waiting.numbers.lost += lost as u64;
    }

    /// Returns whether there is nothing to write.
    pub fn is_idle(&self) -> bool {
        self.waiting.lock().bytes == 0
    }

    /// Returns the numbers of the destination.
    pub fn numbers(&self) -> QueueNumbers {
        let waiting = self.waiting.lock();
        let Totals { written, lost, refused, stalled } = waiting.numbers;
        let (events, bytes) = (waiting.events.len() + waiting.taken_events, waiting.bytes);
        QueueNumbers { written, lost, refused, waiting: events, bytes, stalled }
    }
}

/// Room for the events of a request that is being executed.
pub struct Reservation {
    queue: Arc<Queue>,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.queue.waiting.lock().reserved -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Moved, Origin, Record};
    use crate::policy::audit::{Audit, Operation};
    use crate::vfs::Time;

    fn event(length: usize) -> Event {
        let origin = Origin::new(&Audit::default(), ["", "", ""].map(str::to_owned), 0, |_| 0, |_| None);
        let (arguments, operation) = (vec!["x".repeat(length)], Operation::CLOSE);
        let (origin, time) = (Arc::new(origin), Time::default());
        Event::Operation(Record { origin, time, operation, failure: None, arguments, moved: Moved::Nothing })
    }

    fn length(event: &Event) -> usize {
        let Event::Operation(record) = event else { panic!("a logon") };
        record.arguments[0].len()
    }

    #[test]
    fn events_are_taken_in_their_order_and_at_most_a_batch_at_once() {
        let queue = Queue::default();
        (0..AUDIT_BATCH + 2).for_each(|length| queue.push(event(length)));
        let lengths = || -> Vec<usize> { queue.next(Duration::ZERO).events.iter().map(length).collect() };
        assert_eq!(lengths(), (0..AUDIT_BATCH).collect::<Vec<_>>());
        queue.written(AUDIT_BATCH, 1);
        assert_eq!(lengths(), [AUDIT_BATCH, AUDIT_BATCH + 1]);
        assert_eq!((queue.is_idle(), queue.numbers().waiting), (false, 2), "they are not written yet");
        queue.written(2, 0);
        assert!(queue.is_idle() && lengths().is_empty());
        let numbers = queue.numbers();
        assert_eq!((numbers.written, numbers.lost, numbers.bytes), (AUDIT_BATCH as u64 + 1, 1, 0));
    }

    #[test]
    fn events_beyond_the_bound_are_counted_and_those_not_written_still_occupy_it() {
        let queue = Queue::default();
        let most = AUDIT_QUEUE_BYTES / event(AUDIT_BATCH).size();
        (0..most + 3).for_each(|_| queue.push(event(AUDIT_BATCH)));
        let batch = queue.next(Duration::ZERO);
        assert_eq!(batch.lost, 3);
        queue.push(event(AUDIT_BATCH));
        assert_eq!(queue.numbers().lost, 4);
        // What is written makes space again.
        queue.written(batch.events.len(), 0);
        queue.push(event(AUDIT_BATCH));
        assert_eq!((queue.numbers().lost, queue.next(Duration::ZERO).lost), (4, 1));
    }

    #[test]
    fn requests_are_admitted_while_their_events_surely_fit() {
        let queue = Arc::<Queue>::default();
        let size = event(AUDIT_BATCH).size();
        let mut admitted = Vec::new();
        while let Some(reservation) = queue.reserve(size) {
            admitted.push(reservation);
        }
        assert_eq!((admitted.len(), queue.numbers().refused), (ADMITTED_BYTES / size, 1));
        // Events of others do not take the room of admitted requests.
        (0..2 * admitted.len() + 10).for_each(|_| queue.push(event(AUDIT_BATCH)));
        let lost = queue.numbers().lost;
        assert!(lost > 0);
        for reservation in admitted {
            queue.push_reserved(event(AUDIT_BATCH));
            drop(reservation);
        }
        assert_eq!(queue.numbers().lost, lost);
        assert!(queue.reserve(1).is_none());
        let taken = queue.next(Duration::ZERO).events.len();
        queue.written(taken, 0);
        assert_eq!(queue.waiting.lock().reserved, 0);
    }

    #[test]
    fn a_request_to_reopen_is_seen_once() {
        let queue = Queue::default();
        queue.reopen();
        assert!(queue.next(Duration::ZERO).reopens);
        assert!(!queue.next(Duration::ZERO).reopens);
        queue.reopen();
        assert!(queue.pause(Duration::ZERO) && !queue.pause(Duration::ZERO));
    }
}
