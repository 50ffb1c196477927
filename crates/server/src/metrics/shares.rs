//! The numbers of each share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::per_processor::PerProcessor;
use crate::policy::limits::MAX_COUNTED_SHARES;

/// The name under which shares beyond the limit are counted together. A share cannot be called so.
const OTHERS: &str = "*";

/// The numbers of the shares that were connected to, by name in lower case. They outlive a reload of the configuration.
#[derive(Default)]
pub struct Shares(Mutex<HashMap<String, Arc<ShareCounters>>>);

/// The counters of a share.
pub(crate) struct ShareCounters(PerProcessor<Counters>);

#[derive(Default)]
struct Counters {
    requests: AtomicU64,
    failed: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
    nanoseconds: AtomicU64,
}

/// The numbers of a share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShareNumbers {
    /// Requests on its tree connects.
    pub requests: u64,
    /// Those with an error status.
    pub failed: u64,
    /// Bytes that READ requests have returned.
    pub read: u64,
    /// Bytes that WRITE requests have written.
    pub written: u64,
    /// The sum of the times of its requests, from the moment at which the server begins with one to the response,
    /// without those of CHANGE_NOTIFY.
    pub took: Duration,
}

impl Shares {
    /// Returns the counters of a share, which are those of all further shares if too many are counted.
    pub(crate) fn counters(&self, name: &str) -> Arc<ShareCounters> {
        let name = &name.to_lowercase();
        let mut shares = self.0.lock();
        if let Some(found) = shares.get(name) {
            return Arc::clone(found);
        }
        let name = if shares.len() < MAX_COUNTED_SHARES { name.as_str() } else { OTHERS };
        Arc::clone(shares.entry(name.to_owned()).or_default())
    }

    pub(super) fn numbers(&self) -> Vec<(String, ShareNumbers)> {
        let shares = self.0.lock();
        let mut numbers: Vec<_> = shares.iter().map(|(name, counters)| (name.clone(), counters.numbers())).collect();
        drop(shares);
        numbers.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        numbers
    }
}

impl Default for ShareCounters {
    fn default() -> ShareCounters {
        ShareCounters(PerProcessor::new(|_| Counters::default()))
    }
}

impl ShareCounters {
    /// Adds a request that took this long.
    pub(crate) fn request(&self, took: Duration, failed: bool) {
        let own = self.0.own();
        own.requests.fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        own.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        if failed {
            own.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds bytes that a READ has returned.
    pub(crate) fn read(&self, bytes: usize) {
        self.0.own().read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Adds bytes that a WRITE has written.
    pub(crate) fn written(&self, bytes: usize) {
        self.0.own().written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn numbers(&self) -> ShareNumbers {
        let sum = |of: fn(&Counters) -> &AtomicU64| self.0.iter().map(|own| of(own).load(Ordering::Relaxed)).sum();
        ShareNumbers {
            requests: sum(|own| &own.requests),
            failed: sum(|own| &own.failed),
            read: sum(|own| &own.read),
            written: sum(|own| &own.written),
            took: Duration::from_nanos(sum(|own| &own.nanoseconds)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_beyond_the_limit_are_counted_together() {
        let shares = Shares::default();
        for number in 0..MAX_COUNTED_SHARES + 10 {
            let counters = shares.counters(&number.to_string());
            counters.request(Duration::from_millis(2), number % 2 == 0);
            counters.read(10);
            counters.written(1);
        }
        shares.counters("0").request(Duration::from_millis(5), false);
        let numbers: HashMap<_, _> = shares.numbers().into_iter().collect();
        assert_eq!(numbers.len(), MAX_COUNTED_SHARES + 1);
        assert_eq!(
            numbers["0"],
            ShareNumbers { requests: 2, failed: 1, read: 10, written: 1, took: Duration::from_millis(7) }
        );
        assert_eq!(
            numbers[OTHERS],
            ShareNumbers { requests: 10, failed: 5, read: 100, written: 10, took: Duration::from_millis(20) }
        );
    }
}
