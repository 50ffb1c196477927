//! The records that wait for one destination.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Record;
use crate::policy::limits::{AUDIT_BATCH, AUDIT_QUEUE_BYTES};

/// A bounded queue. Writers of records never wait. Records that do not fit are lost, and counted.
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    /// Signals the first record of an empty queue, and a request to reopen the destination.
    arrives: Condvar,
}

#[derive(Default)]
struct Waiting {
    records: VecDeque<Record>,
    bytes: usize,
    lost: u64,
    reopens: bool,
    /// The writer has records that are not written yet.
    writing: bool,
}

/// What the writer of a destination has to do.
#[derive(Default)]
pub struct Batch {
    /// The records, oldest first.
    pub records: Vec<Record>,
    /// The number of records that did not fit into the queue since the last batch.
    pub lost: u64,
    /// The destination must be opened again before the records are written.
    pub reopens: bool,
}

impl Queue {
    /// Adds a record, unless the queue is full.
    pub fn push(&self, record: Record) {
        let size = record.size();
        let mut waiting = self.waiting.lock();
        if waiting.bytes + size > AUDIT_QUEUE_BYTES {
            waiting.lost += 1;
            return;
        }
        waiting.bytes += size;
        waiting.records.push_back(record);
        let was_empty = waiting.records.len() == 1;
        drop(waiting);
        // The writer takes all records before it waits again.
        if was_empty {
            self.arrives.notify_one();
        }
    }

    /// Asks the writer to open its destination again.
    pub fn reopen(&self) {
        self.waiting.lock().reopens = true;
        self.arrives.notify_one();
    }

    /// Returns the next records. Waits for `time` if there are none.
    pub fn next(&self, time: Duration) -> Batch {
        let mut waiting = self.waiting.lock();
        let nothing = |waiting: &mut Waiting| waiting.records.is_empty() && waiting.lost == 0 && !waiting.reopens;
        self.arrives.wait_while_for(&mut waiting, nothing, time);
        let count = waiting.records.len().min(AUDIT_BATCH);
        let records: Vec<Record> = waiting.records.drain(..count).collect();
        waiting.bytes -= records.iter().map(Record::size).sum::<usize>();
        if waiting.records.is_empty() {
            // A burst must not occupy its memory forever.
            waiting.records.shrink_to(AUDIT_BATCH);
        }
        waiting.writing = !records.is_empty();
        let (lost, reopens) = (std::mem::take(&mut waiting.lost), std::mem::take(&mut waiting.reopens));
        Batch { records, lost, reopens }
    }

    /// Notes that the records of the last batch are written, or lost.
    pub fn written(&self) {
        self.waiting.lock().writing = false;
    }

    /// Returns whether there is nothing to write.
    pub fn is_idle(&self) -> bool {
        let waiting = self.waiting.lock();
        waiting.records.is_empty() && !waiting.writing
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::audit::Origin;
    use crate::policy::audit::{Audit, Operation};
    use crate::vfs::Time;

    fn record(length: usize) -> Record {
        let origin = Origin::new(&Audit::default(), ["", "", ""].map(str::to_owned), |_| 0, |_| None);
        let arguments = vec!["x".repeat(length)];
        let operation = Operation::CLOSE;
        Record { origin: Arc::new(origin), time: Time::default(), operation, failure: None, arguments }
    }

    #[test]
    fn records_are_taken_in_their_order_and_at_most_a_batch_at_once() {
        let queue = Queue::default();
        (0..AUDIT_BATCH + 2).for_each(|length| queue.push(record(length)));
        let lengths = || -> Vec<usize> {
            queue.next(Duration::ZERO).records.iter().map(|record| record.arguments[0].len()).collect()
        };
        assert_eq!(lengths(), (0..AUDIT_BATCH).collect::<Vec<_>>());
        assert_eq!(lengths(), [AUDIT_BATCH, AUDIT_BATCH + 1]);
        assert!(!queue.is_idle());
        queue.written();
        assert!(queue.is_idle() && lengths().is_empty());
    }

    #[test]
    fn records_beyond_the_bound_are_counted() {
        let queue = Queue::default();
        let most = AUDIT_QUEUE_BYTES / record(AUDIT_BATCH).size();
        (0..most + 3).for_each(|_| queue.push(record(AUDIT_BATCH)));
        let batch = queue.next(Duration::ZERO);
        assert_eq!(batch.lost, 3);
        // What was taken makes space again.
        queue.push(record(AUDIT_BATCH));
        let mut taken = batch.records.len();
        loop {
            let batch = queue.next(Duration::ZERO);
            assert_eq!(batch.lost, 0);
            taken += batch.records.len();
            if batch.records.is_empty() {
                break;
            }
        }
        assert_eq!(taken, most + 1);
    }

    #[test]
    fn a_request_to_reopen_is_seen_once() {
        let queue = Queue::default();
        queue.reopen();
        assert!(queue.next(Duration::ZERO).reopens);
        assert!(!queue.next(Duration::ZERO).reopens);
    }
}
