//! Whether changes are made on the calling thread or on a worker.
//!
//! Creating, renaming, setting attributes and writing into the page cache take the kernel microseconds; handing them to
//! another thread takes longer than that. But a file system whose journal is full or whose disk cannot follow makes its
//! callers wait, and one client's flood of writes must not hold up the others. So changes are made in place until one
//! turns out slow; from then on they go to workers until they have been quick for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use server::answer::Answer;
use server::vfs::Result;

use crate::filesystem::FileSystem;
use crate::worker::Lane;

/// What the calling thread may be kept for. Well above what a busy processor takes from a thread at a time: that is no
/// fault of the file system, and another thread would have to wait for the processor, too.
const SLOW: Duration = Duration::from_millis(20);
/// How long changes go to workers after a slow one.
const PENALTY: Duration = Duration::from_secs(1);

/// The pace of one file system.
pub(crate) struct Pace {
    began: Instant,
    /// Until when changes go to workers, in milliseconds since `began`.
    slow_until: AtomicU64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { began: Instant::now(), slow_until: AtomicU64::new(0) }
    }
}

impl Pace {
    /// Whether changes are quick now.
    pub(crate) fn is_quick(&self) -> bool {
        self.slow_until.load(Ordering::Relaxed) <= self.began.elapsed().as_millis() as u64
    }

    /// Notes how long a change took.
    fn note(&self, took: Duration) {
        if took > SLOW {
            let until = (self.began.elapsed() + PENALTY).as_millis() as u64;
            self.slow_until.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// Does `work`, noting how long it takes.
    pub(crate) fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        self.note(start.elapsed());
        done
    }
}

/// What is open on a file system.
pub(crate) trait Placed: Clone + Send + 'static {
    fn system(&self) -> &Arc<FileSystem>;
}

/// Makes a change of what is open for the user `uid`, which is quick as a rule.
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

/// Asks for the user `uid` what the kernel knows of a file that it has at hand.
pub(crate) fn ask<P: Placed, T: Send + 'static>(
    open: &P,
    uid: u32,
    work: impl FnOnce(&P) -> Result<T> + Send + 'static,
) -> Answer<Result<T>> {
    if open.system().is_local() {
        return Answer::now(work(open));
    }
    let again = open.clone();
    open.system().later(uid, Lane::Data, move || work(&again))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_change_sends_the_next_ones_away() {
        let pace = Pace::default();
        pace.note(Duration::from_micros(50));
        assert!(pace.is_quick());
        pace.note(Duration::from_secs(1));
        assert!(!pace.is_quick());
        pace.slow_until.store(0, Ordering::Relaxed);
        assert!(pace.is_quick());
    }
}
