//! Answers that a call gives or its time limit, whichever comes first.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use server::answer::Answer;
use server::vfs::{Errno, Result};
use tokio::sync::oneshot;

use crate::deadlines::{Call, Deadline, Deadlines};

/// Counts of the calls of one volume.
#[derive(Default)]
pub(crate) struct Tally {
    /// Asynchronous calls whose limit has passed and that have not ended.
    hanging: AtomicUsize,
    /// The number of these for each user that has any.
    hanging_of: Mutex<HashMap<u32, usize>>,
    /// Calls whose limit passed before they ended.
    timed_out: AtomicU64,
}

impl Tally {
    pub(crate) fn count_timeout(&self) {
        self.timed_out.fetch_add(1, Relaxed);
    }

    /// Returns the number of asynchronous calls that hang.
    pub(crate) fn hanging(&self) -> usize {
        self.hanging.load(Relaxed)
    }

    /// Returns the number of asynchronous calls of a user that hang.
    pub(crate) fn hanging_of(&self, user: u32) -> usize {
        if self.hanging() == 0 { 0 } else { self.hanging_of.lock().get(&user).copied().unwrap_or_default() }
    }

    fn hangs(&self, user: u32) {
        *self.hanging_of.lock().entry(user).or_default() += 1;
        self.hanging.fetch_add(1, Relaxed);
    }

    fn hangs_no_more(&self, user: u32) {
        self.hanging.fetch_sub(1, Relaxed);
        let mut of = self.hanging_of.lock();
        match of.get_mut(&user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(of.remove(&user)),
        }
    }

    pub(crate) fn timed_out(&self) -> u64 {
        self.timed_out.load(Relaxed)
    }
}

/// Takes the answer of a call, once. A later one is dropped by the thread that gives it.
pub(crate) struct Slot<T>(Mutex<Option<oneshot::Sender<Result<T>>>>);

impl<T> Default for Slot<T> {
    /// Creates the slot of a call that nobody waits for.
    fn default() -> Slot<T> {
        Slot(Mutex::new(None))
    }
}

impl<T: Send + 'static> Slot<T> {
    /// Creates a slot and the answer that it takes. The answer is `Errno::IO` if the slot is dropped without any.
    pub(crate) fn new() -> (Arc<Slot<T>>, Answer<Result<T>>) {
        let (answer, receiver) = oneshot::channel();
        let answered = Answer::later(async move { receiver.await.unwrap_or(Err(Errno::IO)) });
        (Arc::new(Slot(Mutex::new(Some(answer)))), answered)
    }

    /// Gives the answer, unless there was one.
    pub(crate) fn give(&self, answer: Result<T>) {
        let taken = self.0.lock().take();
        if let Some(waiting) = taken {
            // If sending fails, the caller no longer waits.
            drop(waiting.send(answer));
        }
    }
}

/// A call that another thread completes, for example in a callback of the storage's library.
///
/// The call that is dropped instead of completed has the answer `Errno::IO`. A result that comes after the limit is
/// dropped by the thread that reports it.
#[must_use = "the call fails if this is dropped"]
pub struct Completion<T> {
    // Dropped before the deadline, which requires that there is no other reference.
    call: Arc<Asynchronous<T>>,
    _deadline: Option<Deadline>,
}

struct Asynchronous<T> {
    slot: Arc<Slot<T>>,
    tally: Arc<Tally>,
    user: u32,
    hangs: AtomicBool,
}

impl<T: Send + 'static> Completion<T> {
    /// Begins a call of `user` that may take `limit`.
    pub(crate) fn begin(user: u32, limit: Option<Duration>, tally: &Arc<Tally>) -> (Completion<T>, Answer<Result<T>>) {
        let (slot, answer) = Slot::new();
        let call = Arc::new(Asynchronous { slot, tally: Arc::clone(tally), user, hangs: AtomicBool::new(false) });
        let deadline = limit.map(|limit| Deadlines::of_process().watch(limit, call.clone()));
        (Completion { call, _deadline: deadline }, answer)
    }

    /// Ends the call.
    pub fn complete(self, result: Result<T>) {
        self.call.slot.give(result);
    }
}

impl<T: Send + 'static> Call for Asynchronous<T> {
    fn expire(&self) -> Option<Duration> {
        let taken = self.slot.0.lock().take();
        if let Some(waiting) = taken {
            self.tally.count_timeout();
            self.hangs.store(true, Relaxed);
            self.tally.hangs(self.user);
            drop(waiting.send(Err(Errno::TIMEDOUT)));
        }
        None
    }
}

impl<T> Drop for Asynchronous<T> {
    fn drop(&mut self) {
        if *self.hangs.get_mut() {
            self.tally.hangs_no_more(self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{ThreadId, current};

    use server::answer::block_on;

    use super::*;

    /// Sends the thread that drops it.
    struct Dropped(Sender<ThreadId>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send(current().id());
        }
    }

    #[test]
    fn a_call_is_completed_once() {
        let tally = Arc::default();
        for limit in [None, Some(Duration::from_secs(3_600))] {
            let (completion, answer) = Completion::begin(1, limit, &tally);
            completion.complete(Ok(7));
            assert_eq!(block_on(answer), Ok(7));
            let (completion, answer) = Completion::<()>::begin(1, limit, &tally);
            drop(completion);
            assert_eq!(block_on(answer), Err(Errno::IO));
        }
        assert_eq!((tally.hanging(), tally.timed_out()), (0, 0));
    }

    #[test]
    fn a_late_result_is_dropped_where_it_is_reported() {
        let (tally, (sender, dropped)) = (Arc::default(), channel());
        let (completion, answer) = Completion::begin(1, Some(Duration::from_millis(1)), &tally);
        assert_eq!(block_on(answer).err(), Some(Errno::TIMEDOUT));
        assert_eq!((tally.hanging(), tally.timed_out()), (1, 1));
        completion.complete(Ok(Dropped(sender)));
        assert_eq!(dropped.try_recv(), Ok(current().id()));
        // The thread of the limits may still have the call.
        while tally.hanging() > 0 {
            std::thread::yield_now();
        }
        assert_eq!(tally.timed_out(), 1);
    }
}
