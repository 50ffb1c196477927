//! Requests and a histogram of their times.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the ranges of the histogram. Longer times are in one more range.
pub const BOUNDS: [Duration; 14] = [
    Duration::from_micros(10),
    Duration::from_micros(25),
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

/// Requests, with their times from the moment at which the server begins with them to the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Requests {
    /// The number in each range of times, of which [`BOUNDS`] has the upper bounds.
    pub ranges: [u64; BOUNDS.len() + 1],
    /// The number of those with an error status.
    pub failed: u64,
    /// The sum of their times.
    pub took: Duration,
}

impl Requests {
    /// Returns the number of requests.
    pub fn count(&self) -> u64 {
        self.ranges.iter().sum()
    }
}

/// The counters of one processor.
pub(super) struct Counters {
    ranges: [AtomicU64; BOUNDS.len() + 1],
    failed: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Default for Counters {
    fn default() -> Counters {
        let zero = || AtomicU64::new(0);
        Counters { ranges: array::from_fn(|_| zero()), failed: zero(), nanoseconds: zero() }
    }
}

impl Counters {
    pub(super) fn add(&self, took: Duration, failed: bool) {
        let range = BOUNDS.iter().position(|bound| took <= *bound).unwrap_or(BOUNDS.len());
        self.ranges[range].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        if failed {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn add_to(&self, sum: &mut Requests) {
        for (sum, range) in sum.ranges.iter_mut().zip(&self.ranges) {
            *sum += range.load(Ordering::Relaxed);
        }
        sum.failed += self.failed.load(Ordering::Relaxed);
        sum.took += Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_range_that_includes_it() {
        let counters = Counters::default();
        for micros in [0, 10, 11, 1_000, 5_000_000, 5_000_001] {
            counters.add(Duration::from_micros(micros), micros == 11);
        }
        let mut sum = Requests::default();
        counters.add_to(&mut sum);
        assert_eq!(sum.ranges, [2, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((sum.count(), sum.failed, sum.took), (6, 1, Duration::from_micros(10_001_022)));
        assert!(BOUNDS.is_sorted());
    }
}
