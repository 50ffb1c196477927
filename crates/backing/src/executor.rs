//! Whether calls are made on the calling thread or on a worker.
//!
//! Creating, renaming, setting attributes and writing into the page cache take the kernel microseconds, which is less
//! than handing them to another thread. But a file system with a full journal or an overloaded disk makes its callers
//! wait, and one client's flood of writes must not delay the others. Changes are therefore made on the calling thread
//! until one is slow. From then on they are made by workers until they have been quick for a while: briefly if that
//! happens rarely, longer if it happens again soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::answer::Answer;
use server::vfs::{Errno, Op, Result};

use crate::completion::Completion;
use crate::workers::{Caller, Job, Lane, Numbers, Settings, ThreadIdentity, Workers};

/// How long the calling thread may be occupied. It is well above the time slice for which a busy processor suspends a
/// thread: that is not caused by the file system, and another thread would have to wait for the processor, too.
const SLOW: Duration = Duration::from_millis(20);
/// How long changes are made by workers after a slow one.
const FIRST_PENALTY: Duration = Duration::from_millis(100);
/// How long at most. Each further slow change doubles the time.
const LONGEST_PENALTY: Duration = Duration::from_secs(1);
/// How long changes have to be quick until a slow one is the first again. A journal that is committed every 5 s may
/// make one change slow each time, which no penalty prevents.
const FORGOTTEN: Duration = Duration::from_secs(4);

/// How long the changes of a volume take.
struct Latency {
    began: Instant,
    /// Until when changes are made by workers, in milliseconds since `began`.
    slow_until: AtomicU64,
    slow: Mutex<Slow>,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency { began: Instant::now(), slow_until: AtomicU64::new(0), slow: Mutex::default() }
    }
}

impl Latency {
    /// Returns whether changes are quick at the moment.
    fn is_low(&self) -> bool {
        self.slow_until.load(Ordering::Relaxed) <= self.began.elapsed().as_millis() as u64
    }

    /// Records how long a change took.
    fn note(&self, took: Duration) {
        if took > SLOW {
            let until = self.slow.lock().add(self.began.elapsed(), took).as_millis() as u64;
            self.slow_until.fetch_max(until, Ordering::Relaxed);
        }
    }
}

/// The last slow change.
#[derive(Default)]
struct Slow {
    /// When it ended.
    ended: Duration,
    /// How long changes are made by workers after it. Zero: there was none.
    penalty: Duration,
}

impl Slow {
    /// Adds a change that took `took` and ended at `now`. Returns until when changes are made by workers.
    fn add(&mut self, now: Duration, took: Duration) -> Duration {
        // Changes that wait for the file system at the same time are one event.
        if let Some(quick) = now.saturating_sub(took).checked_sub(self.ended) {
            self.penalty = match self.penalty {
                penalty if penalty.is_zero() || quick >= FORGOTTEN => FIRST_PENALTY,
                penalty => LONGEST_PENALTY.min(penalty * 2),
            };
        }
        self.ended = self.ended.max(now);
        self.ended + self.penalty
    }
}

/// Makes the calls of one volume. `I` asserts the identities of users on its workers.
pub struct Executor<I> {
    is_immediate: bool,
    latency: Latency,
    workers: Workers<I>,
}

impl<I: ThreadIdentity> Executor<I> {
    /// Creates an executor. `is_immediate`: the volume answers from its caches at once, as a local file system does.
    /// Otherwise every call is made by a worker.
    pub fn new(is_immediate: bool, identity: I, settings: Settings) -> Executor<I> {
        Executor { is_immediate, latency: Latency::default(), workers: Workers::new(identity, settings) }
    }

    /// Returns whether the volume answers from its caches at once.
    pub fn is_immediate(&self) -> bool {
        self.is_immediate
    }

    /// Returns whether a change may be made on the calling thread.
    pub fn is_quick(&self) -> bool {
        self.is_immediate && self.latency.is_low()
    }

    /// Makes a change and records how long it takes.
    pub fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.latency.note(start.elapsed());
        done
    }

    /// Like [`Workers::later`].
    pub fn later<T: Send + 'static>(
        &self,
        caller: impl Into<Caller>,
        lane: Lane,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        self.workers.later(caller, lane, work)
    }

    /// Like [`Workers::later_as`].
    pub fn later_as<T: Send + 'static>(
        &self,
        op: &Op,
        lane: Lane,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        self.workers.later_as(op, lane, work)
    }

    /// Like [`Workers::begin`].
    ///
    /// # Errors
    /// Those of [`Workers::begin`].
    pub fn begin<T: Send + 'static>(&self, caller: impl Into<Caller>) -> Result<(Completion<T>, Answer<Result<T>>)> {
        self.workers.begin(caller)
    }

    /// Like [`Workers::submit`].
    pub fn submit(&self, uid: u32, lane: Lane, work: Job) {
        self.workers.submit(uid, lane, work);
    }

    /// Like [`Workers::numbers`].
    pub fn numbers(&self) -> Numbers {
        self.workers.numbers()
    }
}

/// Something open on a volume.
pub trait OnVolume: Send + Sync + 'static {
    /// Asserts the identities of users.
    type Identity: ThreadIdentity;

    /// Returns the executor of the volume.
    fn executor(&self) -> &Executor<Self::Identity>;
}

/// Makes a change, which is usually quick.
pub fn change<V: OnVolume, T: Send + 'static>(
    open: &Arc<V>,
    caller: impl Into<Caller>,
    work: impl FnOnce(&Arc<V>) -> Result<T> + Send + 'static,
) -> Answer<Result<T>> {
    let executor = open.executor();
    if executor.is_quick() {
        return Answer::now(executor.timed(|| work(open)));
    }
    let again = Arc::clone(open);
    executor.later(caller, Lane::Data, move || again.executor().timed(|| work(&again)))
}

/// Queries cached data about an open file. A query that waits for a worker ends if its request is cancelled.
pub fn query<V: OnVolume, T: Send + 'static>(
    open: &Arc<V>,
    op: &Op,
    work: impl FnOnce(&Arc<V>) -> Result<T> + Send + 'static,
) -> Answer<Result<T>> {
    if open.executor().is_immediate() {
        return Answer::now(work(open));
    }
    let again = Arc::clone(open);
    open.executor().later(op, Lane::Data, unless_cancelled(op, move || work(&again)))
}

/// Returns `work`, which changes nothing, so that it does not start after the request of `op` was cancelled.
pub fn unless_cancelled<T, W: FnOnce() -> Result<T>>(op: &Op, work: W) -> impl FnOnce() -> Result<T> + use<T, W> {
    let cancellation = op.cancellation();
    move || match cancellation {
        Some(cancellation) if cancellation.is_cancelled() => Err(Errno::CANCELED),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::thread::ThreadId;

    use server::answer::block_on;
    use server::vfs::SERVER;

    use super::*;
    use crate::workers::NoThreadIdentity;

    struct Open(Executor<NoThreadIdentity>);

    impl OnVolume for Open {
        type Identity = NoThreadIdentity;

        fn executor(&self) -> &Executor<NoThreadIdentity> {
            &self.0
        }
    }

    fn open(is_immediate: bool) -> Arc<Open> {
        Arc::new(Open(Executor::new(is_immediate, NoThreadIdentity, Settings::default())))
    }

    /// Returns whether a query and a change are made on this thread.
    fn are_made_here(open: &Arc<Open>) -> [bool; 2] {
        let thread = |_: &Arc<Open>| Ok(std::thread::current().id());
        let answers: [Result<ThreadId>; 2] =
            [block_on(query(open, &SERVER, thread)), block_on(change(open, 1u32, thread))];
        answers.map(|thread| thread == Ok(std::thread::current().id()))
    }

    #[test]
    fn a_slow_change_moves_the_next_ones_to_other_threads() {
        let open = open(true);
        open.0.latency.note(Duration::from_micros(50));
        assert_eq!(are_made_here(&open), [true, true]);
        open.0.latency.note(Duration::from_secs(1));
        assert!(!open.0.is_quick());
        open.0.latency.slow_until.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(are_made_here(&open), [true, false]);
        open.0.latency.slow_until.store(0, Ordering::Relaxed);
        assert_eq!(are_made_here(&open), [true, true]);
    }

    /// A slow change that began at `began` and ended at `ended` has workers make the changes until `until`, in
    /// milliseconds.
    fn check(slow: &mut Slow, [began, ended, until]: [u64; 3]) {
        let added = slow.add(Duration::from_millis(ended), Duration::from_millis(ended - began));
        assert_eq!(added, Duration::from_millis(until), "{began} to {ended}");
    }

    #[test]
    fn workers_make_the_changes_longer_if_more_of_them_are_slow() {
        let mut slow = Slow::default();
        for event in [
            [0, 50, 150],
            [60, 90, 290],
            [200, 260, 660],
            [700, 730, 1_530],
            [1_600, 1_700, 2_700],
            [2_000, 2_100, 3_100],
            [6_000, 6_050, 7_050],
            [10_050, 10_100, 10_200],
            [14_000, 14_040, 14_240],
        ] {
            check(&mut slow, event);
        }
    }

    #[test]
    fn changes_that_are_slow_at_the_same_time_are_one_event() {
        let mut slow = Slow::default();
        for event in [[5_000, 5_090, 5_190], [5_010, 5_091, 5_191], [5_012, 5_080, 5_191], [5_092, 5_192, 5_392]] {
            check(&mut slow, event);
        }
    }

    #[test]
    fn calls_of_a_volume_that_may_block_are_made_by_workers() {
        assert_eq!(are_made_here(&open(false)), [false, false]);
    }
}
