//! The number of bands in the bundles of Time Machine, so that they are not counted for each query of the free space.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::environment::Environment;
use crate::policy::limits::BUNDLES_LIMIT;
use crate::vfs::{Metadata, Time};

/// The number of bands above which a count is used for some time although the directory has changed.
const MANY: u64 = 4096;
/// That time.
const KEPT: Duration = Duration::from_secs(10);

/// The counts by directory.
pub(crate) struct BandCounts {
    environment: Arc<dyn Environment>,
    counts: Mutex<HashMap<(u64, u64), Count>>,
}

struct Count {
    count: u64,
    /// The last change of the directory, if a later one has another time.
    changed: Option<Time>,
    counted: Duration,
}

impl BandCounts {
    pub(crate) fn new(environment: Arc<dyn Environment>) -> BandCounts {
        BandCounts { environment, counts: Mutex::default() }
    }

    /// Returns the number of bands in the directory, if it is known.
    pub(crate) fn known(&self, directory: &Metadata) -> Option<u64> {
        let counts = self.counts.lock();
        let known = counts.get(&(directory.id.device, directory.id.inode))?;
        let is_recent = known.count >= MANY && self.environment.uptime() < known.counted + KEPT;
        (known.changed == Some(directory.stamped) || is_recent).then_some(known.count)
    }

    /// Records the number of bands. `settled` says whether a later change of the directory gets another time.
    pub(crate) fn note(&self, directory: &Metadata, settled: bool, count: u64) {
        let changed = settled.then_some(directory.stamped);
        let mut counts = self.counts.lock();
        if counts.len() >= BUNDLES_LIMIT {
            counts.clear();
        }
        let counted = self.environment.uptime();
        counts.insert((directory.id.device, directory.id.inode), Count { count, changed, counted });
    }
}
