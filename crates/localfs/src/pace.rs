//! Whether changes are made on the calling thread or on a worker.
//!
//! Creating, renaming, setting attributes and writing into the page cache take the kernel microseconds, which is less
//! than handing them to another thread. But a file system with a full journal or an overloaded disk makes its callers
//! wait, and one client's flood of writes must not delay the others. Changes are therefore made on the calling thread
//! until one is slow. From then on they are made by workers until they have been quick for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use backing::workers::Lane;
use server::answer::Answer;
use server::vfs::{Errno, Op, Result};

use crate::filesystem::FileSystem;

/// How long the calling thread may be occupied. It is well above the time slice for which a busy processor suspends a
/// thread: that is not caused by the file system, and another thread would have to wait for the processor, too.
const SLOW: Duration = Duration::from_millis(20);
/// How long changes are made by workers after a slow one.
const PENALTY: Duration = Duration::from_secs(1);

/// The pace of one file system.
pub(crate) struct Pace {
    began: Instant,
    /// Until when changes are made by workers, in milliseconds since `began`.
    slow_until: AtomicU64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { began: Instant::now(), slow_until: AtomicU64::new(0) }
    }
}

impl Pace {
    /// Returns whether changes are quick at the moment.
    pub(crate) fn is_quick(&self) -> bool {
        self.slow_until.load(Ordering::Relaxed) <= self.began.elapsed().as_millis() as u64
    }

    /// Records how long a change took.
    fn note(&self, took: Duration) {
        if took > SLOW {
            let until = (self.began.elapsed() + PENALTY).as_millis() as u64;
            self.slow_until.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// Does `work` and records how long it takes.
    pub(crate) fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.note(start.elapsed());
        done
    }
}

/// Something open on a file system.
pub(crate) trait Placed: Clone + Send + 'static {
    fn system(&self) -> &Arc<FileSystem>;
}

/// Makes a change, which is usually quick, for the user `uid`.
pub(crate) fn change<P: Placed, T: Send + 'static>(
    open: &P,
    uid: u32,
    work: impl FnOnce(&P) -> Result<T> + Send + 'static,
) -> Answer<Result<T>> {
    if open.system().is_quick() {
        return Answer::now(open.system().timed(|| work(open)));
    }
    let again = open.clone();
    open.system().later(uid, Lane::Data, move || again.system().timed(|| work(&again)))
}

/// Queries the kernel's cached data about an open file. A query that waits for a worker ends if its request is
/// cancelled.
pub(crate) fn ask<P: Placed, T: Send + 'static>(
    open: &P,
    op: &Op,
    work: impl FnOnce(&P) -> Result<T> + Send + 'static,
) -> Answer<Result<T>> {
    if open.system().is_local() {
        return Answer::now(work(open));
    }
    let again = open.clone();
    open.system().later(op.uid, Lane::Data, unless_cancelled(op, move || work(&again)))
}

/// Returns `work`, which changes nothing, so that it does not start after the request of `op` was cancelled.
pub(crate) fn unless_cancelled<T, W: FnOnce() -> Result<T>>(
    op: &Op,
    work: W,
) -> impl FnOnce() -> Result<T> + use<T, W> {
    let cancellation = op.cancellation();
    move || match cancellation {
        Some(cancellation) if cancellation.is_cancelled() => Err(Errno::CANCELED),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_change_moves_the_next_ones_to_other_threads() {
        let pace = Pace::default();
        pace.note(Duration::from_micros(50));
        assert!(pace.is_quick());
        pace.note(Duration::from_secs(1));
        assert!(!pace.is_quick());
        pace.slow_until.store(0, Ordering::Relaxed);
        assert!(pace.is_quick());
    }
}
