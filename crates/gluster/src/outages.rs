//! The times in which bricks are not connected, as far as calls show them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long no call may have failed until an outage has ended. Calls to other bricks succeed meanwhile.
const CALM: u64 = 10_000;

/// The outages of a volume. Times are milliseconds since 1970, and 0 stands for no time.
#[derive(Default)]
pub(crate) struct Outages {
    since: AtomicU64,
    latest: AtomicU64,
    ended: AtomicU64,
}

impl Outages {
    /// Takes note of a call that ended, and whether it failed because a brick is not connected.
    pub(crate) fn note(&self, failed: bool) {
        if failed || self.since.load(Ordering::Relaxed) != 0 {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.note_at(now.as_millis() as u64, failed);
        }
    }

    fn note_at(&self, now: u64, failed: bool) {
        if failed {
            self.latest.store(now, Ordering::Relaxed);
            let _ = self.since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        } else if now.saturating_sub(self.latest.load(Ordering::Relaxed)) >= CALM
            && self.since.swap(0, Ordering::Relaxed) != 0
        {
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns when the present outage began.
    pub(crate) fn since(&self) -> Option<SystemTime> {
        let since = self.since.load(Ordering::Relaxed);
        (since != 0).then(|| UNIX_EPOCH + Duration::from_millis(since))
    }

    /// Returns the number of outages that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_ends_after_a_time_without_failures() {
        let outages = Outages::default();
        outages.note_at(1, false);
        assert_eq!((outages.since(), outages.ended()), (None, 0));
        let began = Some(UNIX_EPOCH + Duration::from_millis(5));
        for (now, failed) in [(5, true), (6, false), (5_000, true), (14_999, false)] {
            outages.note_at(now, failed);
            assert_eq!((outages.since(), outages.ended()), (began, 0), "{now}");
        }
        outages.note_at(15_000, false);
        assert_eq!((outages.since(), outages.ended()), (None, 1));
        outages.note_at(90_000, false);
        assert_eq!(outages.ended(), 1);
    }
}
