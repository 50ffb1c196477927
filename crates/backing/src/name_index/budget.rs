//! The memory budget of the indexes of all shares.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

use super::Names;

/// The limit until the server sets one.
const DEFAULT: usize = 64 << 20;

/// The budget of this process.
static PROCESS: LazyLock<Arc<Budget>> = LazyLock::new(|| Arc::new(Budget::new(DEFAULT)));

/// The limit and the current use, in bytes, of the indexes of several shares.
pub(crate) struct Budget {
    bound: AtomicUsize,
    held: AtomicUsize,
    /// Number of searches so far.
    clock: AtomicU64,
    shares: Mutex<Vec<Weak<Names>>>,
}

impl Budget {
    pub(crate) fn new(bound: usize) -> Budget {
        let (held, clock) = (AtomicUsize::new(0), AtomicU64::new(0));
        Budget { bound: AtomicUsize::new(bound), held, clock, shares: Mutex::default() }
    }

    /// Returns the budget of all shares of the process.
    pub(crate) fn of_process() -> Arc<Budget> {
        PROCESS.clone()
    }

    pub(crate) fn set_bound(&self, bound: usize) {
        self.bound.store(bound, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns the limit of a single directory. A larger one is read each time.
    pub(super) fn of_one(&self) -> usize {
        self.bound.load(Ordering::Relaxed) / 2
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.held.load(Ordering::Relaxed) > self.bound.load(Ordering::Relaxed)
    }

    /// Returns the number of a new search.
    pub(super) fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn add(&self, share: &Arc<Names>) {
        let mut shares = self.shares.lock();
        shares.retain(|share| share.strong_count() > 0);
        shares.push(Arc::downgrade(share));
    }

    /// Discards the least recently searched indexes while the limit is exceeded.
    pub(super) fn keep(&self) {
        while self.is_exceeded() {
            let shares: Vec<_> = self.shares.lock().iter().filter_map(Weak::upgrade).collect();
            let oldest = shares.iter().filter_map(|share| Some((share.oldest()?, share))).min_by_key(|(used, _)| *used);
            if !oldest.is_some_and(|(_, share)| share.forget_one()) {
                break;
            }
        }
    }
}

/// Bytes charged to the budget for as long as this exists.
pub(super) struct Held {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Held {
    pub(super) fn nothing(budget: &Arc<Budget>) -> Held {
        Held { budget: budget.clone(), bytes: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.budget.held.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn subtract(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.budget.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
