//! Time limits of calls.
//!
//! One thread of the process waits for the earliest limit. It is started when a limit is first set, and ends when there
//! has been none for a while. The async runtime's timers are not used, because a call may also be awaited without one.
//!
//! Nearly all calls end long before their limit. Ending one neither searches for its entry nor wakes the thread.
//! Entries of calls that have ended are removed when there are as many of them as of others.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// How long the thread waits without any limit before it ends.
const IDLE: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(10) };
/// A time that no call takes, so that an [`Instant`] can represent its end.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Number of entries below which those of calls that have ended are not removed.
const FEW: usize = 64;

/// A call that may reach its time limit.
pub trait Call: Send + Sync + 'static {
    /// The limit has passed. Returns the time until this is to be called again, if the call has another limit. The call
    /// may end at the same time, so both must be prepared for the other. This must not wait, because the limits of all
    /// calls would wait with it.
    fn expire(&self) -> Option<Duration>;
}

/// The time limits of a process, or those of a test.
#[derive(Default)]
pub struct Deadlines {
    state: Mutex<State>,
    /// The thread must wake earlier than it planned.
    earlier: Condvar,
    /// Number of deadlines that ended since entries were last removed.
    ended: AtomicUsize,
}

/// The deadlines of all volumes.
static OF_PROCESS: Deadlines = Deadlines::new();

#[derive(Default)]
struct State {
    /// The deadlines, the earliest first, including those that have ended.
    entries: BinaryHeap<Reverse<Entry>>,
    /// When the thread will wake; `None` if there is no thread.
    wakes: Option<Instant>,
}

struct Entry {
    at: Instant,
    /// Cannot be upgraded once the deadline has ended.
    call: Weak<dyn Call>,
}

impl Deadlines {
    /// Creates a clock of its own, without a thread.
    pub const fn new() -> Deadlines {
        let state = State { entries: BinaryHeap::new(), wakes: None };
        Deadlines { state: Mutex::new(state), earlier: Condvar::new(), ended: AtomicUsize::new(0) }
    }

    /// Returns the clock of the process.
    pub fn of_process() -> &'static Deadlines {
        &OF_PROCESS
    }

    /// Has `call` expire after `limit`, unless the deadline is dropped before. There must be no other reference to the
    /// call then.
    pub fn watch(&'static self, limit: Duration, call: Arc<dyn Call>) -> Deadline {
        let at = Instant::now() + limit.min(FOREVER);
        let entry = Entry { at, call: Arc::downgrade(&call) };
        let mut state = self.state.lock();
        self.add(&mut state, entry);
        match state.wakes {
            None => self.start(&mut state),
            Some(wakes) if at < wakes => {
                self.earlier.notify_one();
            }
            Some(_) => {}
        }
        Deadline { call: Some(call), deadlines: self }
    }

    fn add(&self, state: &mut State, entry: Entry) {
        let entries = state.entries.len();
        if entries >= FEW && self.ended.load(Relaxed) > entries / 2 {
            self.ended.store(0, Relaxed);
            state.entries.retain(|Reverse(entry)| entry.call.strong_count() > 0);
        }
        state.entries.push(Reverse(entry));
    }

    fn start(&'static self, state: &mut State) {
        match std::thread::Builder::new().name("deadlines".to_owned()).spawn(|| self.serve()) {
            // It takes the lock before it waits.
            Ok(_) => state.wakes = Some(Instant::now()),
            Err(error) => tracing::warn!(%error, "cannot start the thread for time limits of storage calls: the \
                                                  system's thread limit is reached; raise it"),
        }
    }

    /// The main loop of the thread.
    fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            let due = state.take_due(now);
            if !due.is_empty() {
                let next: Vec<_> = MutexGuard::unlocked(&mut state, || due.into_iter().filter_map(expire).collect());
                next.into_iter().for_each(|entry| self.add(&mut state, entry));
                continue;
            }
            let next = state.entries.peek().map(|Reverse(entry)| entry.at);
            let wakes = next.unwrap_or(now + IDLE);
            state.wakes = Some(wakes);
            let is_idle = self.earlier.wait_until(&mut state, wakes).timed_out() && next.is_none();
            if is_idle && state.entries.is_empty() {
                state.wakes = None;
                return;
            }
        }
    }
}

impl State {
    /// Removes the calls whose limit has passed at `now`, and ended ones before the earliest other.
    fn take_due(&mut self, now: Instant) -> Vec<Arc<dyn Call>> {
        let mut due = Vec::new();
        while let Some(Reverse(Entry { at, call })) = self.entries.peek()
            && (*at <= now || call.strong_count() == 0)
        {
            due.extend(call.upgrade());
            self.entries.pop();
        }
        due
    }
}

/// Tells the call, and returns its next limit. A panic is a bug of its `expire`, and must not stop the limits of other
/// calls.
fn expire(call: Arc<dyn Call>) -> Option<Entry> {
    let next = catch_unwind(AssertUnwindSafe(|| call.expire())).unwrap_or_else(|_| {
        tracing::error!("a time limit panicked");
        None
    });
    next.map(|limit| Entry { at: Instant::now() + limit.min(FOREVER), call: Arc::downgrade(&call) })
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.at == other.at
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        self.at.cmp(&other.at)
    }
}

/// The time limit of a call, which ends when this is dropped.
#[must_use = "the call has no limit once this is dropped"]
pub struct Deadline {
    /// `None` while it is dropped.
    call: Option<Arc<dyn Call>>,
    deadlines: &'static Deadlines,
}

impl Drop for Deadline {
    fn drop(&mut self) {
        // In this order, because an entry that is counted must be one that can be removed.
        self.call = None;
        self.deadlines.ended.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const LONG: Duration = Duration::from_secs(3_600);

    /// A call that reports its number when it expires.
    struct Reported(u32, Mutex<Sender<u32>>);

    impl Call for Reported {
        fn expire(&self) -> Option<Duration> {
            let _ = self.1.lock().send(self.0);
            None
        }
    }

    fn call(number: u32, sender: &Sender<u32>) -> Arc<Reported> {
        Arc::new(Reported(number, Mutex::new(sender.clone())))
    }

    fn deadlines() -> &'static Deadlines {
        Box::leak(Box::default())
    }

    #[test]
    fn calls_expire_in_the_order_of_their_limits() {
        let (deadlines, (sender, expired)) = (deadlines(), channel());
        // A thread that waits for the distant limit must be woken for the others.
        let _distant = deadlines.watch(LONG, call(0, &sender));
        let _endless = deadlines.watch(Duration::MAX, call(1, &sender));
        let mut state = State::default();
        let now = Instant::now();
        let calls = [5u32, 2, 9].map(|number| {
            let call: Arc<dyn Call> = call(number, &sender);
            let at = now + Duration::from_secs(number.into());
            state.entries.push(Reverse(Entry { at, call: Arc::downgrade(&call) }));
            call
        });
        assert!(state.take_due(now + Duration::from_secs(1)).is_empty());
        state.take_due(now + Duration::from_secs(5)).into_iter().for_each(|call| drop(expire(call)));
        assert_eq!(expired.try_iter().collect::<Vec<_>>(), [2, 5]);
        drop(calls);
        assert!(state.take_due(now).is_empty());
        assert!(state.entries.is_empty(), "an ended call is removed before its limit");
        let _soon = [10, 20].map(|number| deadlines.watch(Duration::from_millis(1), call(number, &sender)));
        let mut both = [(); 2].map(|()| expired.recv_timeout(MINUTE).expect("the call expires"));
        both.sort_unstable();
        assert_eq!(both, [10, 20]);
        assert!(expired.try_recv().is_err(), "the distant limits have not passed");
    }

    #[test]
    fn ended_deadlines_do_not_accumulate() {
        let (deadlines, (sender, expired)) = (deadlines(), channel());
        let kept: Vec<_> = (0..100).map(|number| deadlines.watch(LONG, call(number, &sender))).collect();
        for number in 0..100_000 {
            drop(deadlines.watch(LONG, call(number, &sender)));
            assert!(deadlines.state.lock().entries.len() <= 2 * (kept.len() + 1) + FEW, "{number}");
        }
        let live = |state: &State| state.entries.iter().filter(|entry| entry.0.call.strong_count() > 0).count();
        assert_eq!(live(&deadlines.state.lock()), kept.len());
        assert!(expired.try_recv().is_err());
        drop(kept);
        let _soon = deadlines.watch(Duration::ZERO, call(7, &sender));
        assert_eq!(expired.recv_timeout(MINUTE), Ok(7));
    }

    #[test]
    fn a_limit_that_panics_does_not_stop_the_others() {
        struct Panics;
        impl Call for Panics {
            fn expire(&self) -> Option<Duration> {
                panic!("intended panic");
            }
        }
        let (deadlines, (sender, expired)) = (deadlines(), channel());
        let _panics = deadlines.watch(Duration::ZERO, Arc::new(Panics));
        let _other = deadlines.watch(Duration::from_millis(1), call(1, &sender));
        assert_eq!(expired.recv_timeout(MINUTE), Ok(1));
    }

    #[test]
    fn a_call_with_another_limit_expires_again_unless_it_ends() {
        struct Twice(AtomicUsize, Mutex<Sender<usize>>);
        impl Call for Twice {
            fn expire(&self) -> Option<Duration> {
                let before = self.0.fetch_add(1, Relaxed);
                let _ = self.1.lock().send(before);
                (before < 2).then_some([Duration::from_millis(1), LONG][before])
            }
        }
        let (deadlines, (sender, expired)) = (deadlines(), channel());
        let twice = deadlines.watch(Duration::ZERO, Arc::new(Twice(AtomicUsize::new(0), Mutex::new(sender))));
        assert_eq!([(); 2].map(|()| expired.recv_timeout(MINUTE)), [Ok(0), Ok(1)]);
        drop(twice);
        assert!(expired.recv_timeout(MINUTE).is_err(), "the call is dropped, although a limit is left");
    }

    #[test]
    fn the_thread_ends_when_idle_and_is_started_again() {
        let (deadlines, (sender, expired)) = (deadlines(), channel());
        for number in 0..2 {
            let deadline = deadlines.watch(Duration::ZERO, call(number, &sender));
            assert_eq!(expired.recv_timeout(MINUTE), Ok(number));
            drop(deadline);
            let ended = (0..6000).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                deadlines.state.lock().wakes.is_none()
            });
            assert!(ended, "the thread does not end");
        }
    }
}
