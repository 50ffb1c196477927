//! The number of bands in the bundles of Time Machine, and their total size by share, so that they are not counted for
//! each query of the free space.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::environment::Environment;
use crate::policy::limits::BUNDLES_LIMIT;
use crate::vfs::{FileId, Metadata, Result, Time};

/// The number of bands above which a count is used for some time although the directory has changed.
const MANY: u64 = 4096;
/// That time, for which a total is used, too.
const KEPT: Duration = Duration::from_secs(10);

/// The counts by directory.
pub(crate) struct BandCounts {
    environment: Arc<dyn Environment>,
    counts: Mutex<HashMap<(u64, u64), Count>>,
    totals: Mutex<HashMap<(u64, u64), Arc<TotalSize>>>,
}

/// The size of the backups in a share.
#[derive(Default)]
struct TotalSize {
    /// The size, and when it was determined.
    known: Mutex<Option<(u64, Duration)>>,
    /// Held by the request that determines the size.
    turn: tokio::sync::Mutex<()>,
}

impl TotalSize {
    /// Returns the size if it is recent.
    fn recent(&self, now: Duration) -> Option<u64> {
        self.known.lock().filter(|(_, determined)| now < *determined + KEPT).map(|(size, _)| size)
    }
}

struct Count {
    count: u64,
    /// The last change of the directory, if a later one has another time.
    changed: Option<Time>,
    counted: Duration,
}

impl BandCounts {
    pub(crate) fn new(environment: Arc<dyn Environment>) -> BandCounts {
        BandCounts { environment, counts: Mutex::default(), totals: Mutex::default() }
    }

    /// Returns the size of the backups in the share with the root `root`: a recent one, or otherwise the one that
    /// `determine` returns. Other requests meanwhile get the former one. It is kept for some time if `determine` fails.
    pub(crate) async fn total(&self, root: FileId, determine: impl Future<Output = Result<u64>>) -> u64 {
        let total = {
            let mut totals = self.totals.lock();
            let key = (root.device, root.inode);
            if !totals.contains_key(&key) {
                make_room(&mut totals);
            }
            Arc::clone(totals.entry(key).or_default())
        };
        if let Some(size) = total.recent(self.environment.uptime()) {
            return size;
        }
        let former = total.known.lock().map(|(size, _)| size);
        let _turn = match (total.turn.try_lock(), former) {
            (Ok(turn), _) => turn,
            (Err(_), Some(former)) => return former,
            (Err(_), None) => total.turn.lock().await,
        };
        if let Some(size) = total.recent(self.environment.uptime()) {
            return size;
        }
        let size = determine.await.unwrap_or_else(|errno| {
            tracing::debug!(?errno, "cannot count the bands of the backups in a share for Time Machine");
            former.unwrap_or(0)
        });
        *total.known.lock() = Some((size, self.environment.uptime()));
        size
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
        let key = (directory.id.device, directory.id.inode);
        if !counts.contains_key(&key) {
            make_room(&mut counts);
        }
        let counted = self.environment.uptime();
        counts.insert(key, Count { count, changed, counted });
    }
}

/// Removes one entry of a full map.
fn make_room<T>(map: &mut HashMap<(u64, u64), T>) {
    if map.len() >= BUNDLES_LIMIT
        && let Some(any) = map.keys().next().copied()
    {
        map.remove(&any);
    }
}
