//! The memory budget of the name indexes of all volumes.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

/// The limit until the server sets one.
const DEFAULT: usize = 64 << 20;

/// The budget of this process.
static PROCESS: LazyLock<Arc<Budget>> = LazyLock::new(|| Arc::new(Budget::new(DEFAULT)));

/// The indexes of one volume, of which single ones can be discarded.
pub(super) trait Indexes: Send + Sync {
    /// Returns when the least recently searched directory was searched.
    fn oldest(&self) -> Option<u64>;

    /// Discards the index of the least recently searched directory; `false` if there is none.
    fn discard_one(&self) -> bool;
}

/// The limit and the current use, in bytes, of the indexes of several volumes.
pub struct Budget {
    limit: AtomicUsize,
    charged: AtomicUsize,
    /// Number of searches so far.
    clock: AtomicU64,
    volumes: Mutex<Vec<Weak<dyn Indexes>>>,
}

impl Budget {
    /// Creates a budget of `limit` bytes.
    pub fn new(limit: usize) -> Budget {
        let (charged, clock) = (AtomicUsize::new(0), AtomicU64::new(0));
        Budget { limit: AtomicUsize::new(limit), charged, clock, volumes: Mutex::default() }
    }

    /// Returns the budget of all volumes of the process.
    pub fn of_process() -> Arc<Budget> {
        PROCESS.clone()
    }

    /// Changes the limit. It applies to the next search.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the bytes in use.
    pub fn charged(&self) -> usize {
        self.charged.load(Ordering::Relaxed)
    }

    /// Returns the limit of a single directory. A larger one is read each time.
    pub(super) fn of_directory(&self) -> usize {
        self.limit.load(Ordering::Relaxed) / 2
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.charged.load(Ordering::Relaxed) > self.limit.load(Ordering::Relaxed)
    }

    /// Returns the number of a new search.
    pub(super) fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds the indexes of a volume.
    pub(super) fn add(&self, indexes: Weak<dyn Indexes>) {
        let mut volumes = self.volumes.lock();
        volumes.retain(|indexes| indexes.strong_count() > 0);
        volumes.push(indexes);
    }

    /// Discards the least recently searched indexes while the limit is exceeded.
    pub(super) fn enforce(&self) {
        while self.is_exceeded() {
            let volumes: Vec<_> = self.volumes.lock().iter().filter_map(Weak::upgrade).collect();
            let oldest = volumes.iter().filter_map(|volume| Some((volume.oldest()?, volume)));
            if !oldest.min_by_key(|(used, _)| *used).is_some_and(|(_, volume)| volume.discard_one()) {
                break;
            }
        }
    }
}

/// Bytes charged to the budget for as long as this exists.
pub(super) struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Charge {
    pub(super) fn nothing(budget: &Arc<Budget>) -> Charge {
        Charge { budget: budget.clone(), bytes: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.budget.charged.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Replaces the bytes charged.
    pub(super) fn set(&mut self, bytes: usize) {
        if bytes >= self.bytes {
            self.add(bytes - self.bytes);
        } else {
            self.subtract(self.bytes - bytes);
        }
    }

    pub(super) fn subtract(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.budget.charged.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.charged.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
