//! Limits how often logons are tried: from one source, for one name, and in all. Attempts over the network, the
//! loopback interface and UNIX sockets are counted apart, so that those of one kind do not deny logons of another. Each
//! has a bucket of attempts that fills slowly. An attempt is counted before it is verified, because many may arrive
//! before the first result is known.
//!
//! The tables are bounded. If one is full of recent entries, a source or a name that is not in it shares one bucket
//! with the others of this kind.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use parking_lot::Mutex;

use crate::source::Source;

/// The attempts that a source and a name have at once, and the time after which they have another one.
const OF_ONE: Rate = Rate { most: 5.0, refill: Duration::from_secs(10) };
/// The same for all together.
const OF_ALL: Rate = Rate { most: 20.0, refill: Duration::from_secs(1) };
/// Maximum number of buckets.
const BUCKETS: usize = 2_048;
/// The characters of a name that are compared.
const NAME: usize = 64;

struct Rate {
    most: f64,
    refill: Duration,
}

#[derive(Clone, Copy)]
struct Bucket {
    used: f64,
    at: Duration,
}

impl Bucket {
    fn used_at(&self, now: Duration, rate: &Rate) -> f64 {
        let refilled = now.saturating_sub(self.at).as_secs_f64() / rate.refill.as_secs_f64();
        (self.used - refilled).max(0.0)
    }
}

/// The attempts of late.
#[derive(Default)]
pub(crate) struct Throttle {
    hasher: RandomState,
    buckets: Mutex<HashMap<u64, Bucket>>,
}

/// The buckets for all sources of a kind, and for sources and names that are not in a full table, are those of these
/// keys plus the kind.
const ALL: u64 = 0;
const OTHER_SOURCES: u64 = 8;
const OTHER_NAMES: u64 = 16;
const KEYS: u64 = 24;

impl Throttle {
    /// Returns whether a password may be tried now, and counts the attempt if so.
    pub(crate) fn may_try(&self, name: &str, source: Source, now: Duration) -> bool {
        let keys = self.keys(name, source);
        let mut buckets = self.buckets.lock();
        if buckets.len() >= BUCKETS {
            buckets.retain(|_, bucket| bucket.used_at(now, &OF_ONE) > 0.0);
        }
        let full = buckets.len() >= BUCKETS;
        let keys = keys.map(|(key, rate, shared)| match full && !buckets.contains_key(&key) {
            true => (shared, rate),
            false => (key, rate),
        });
        let used = |key: &u64, rate: &Rate| buckets.get(key).map_or(0.0, |bucket: &Bucket| bucket.used_at(now, rate));
        if keys.iter().any(|(key, rate)| used(key, rate) + 1.0 > rate.most) {
            return false;
        }
        for (key, rate) in keys {
            let bucket = buckets.entry(key).or_insert(Bucket { used: 0.0, at: now });
            *bucket = Bucket { used: bucket.used_at(now, rate) + 1.0, at: now };
        }
        true
    }

    /// Forgets the attempts of an administrator who has logged on.
    pub(crate) fn succeeded(&self, name: &str, source: Source) {
        let mut buckets = self.buckets.lock();
        for (key, ..) in self.keys(name, source) {
            if key >= KEYS {
                buckets.remove(&key);
            }
        }
    }

    /// Returns the key of each bucket, its rate, and the key that is used instead if the table is full.
    fn keys(&self, name: &str, source: Source) -> [(u64, &'static Rate, u64); 3] {
        let name: String = name.chars().take(NAME).flat_map(char::to_lowercase).collect();
        let kind = source.kind() as u64;
        let of_source = self.hasher.hash_one(("source", source)).max(KEYS);
        let of_name = self.hasher.hash_one(("name", kind, &name)).max(KEYS);
        [
            (ALL + kind, &OF_ALL, ALL + kind),
            (of_source, &OF_ONE, OTHER_SOURCES + kind),
            (of_name, &OF_ONE, OTHER_NAMES + kind),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn network(number: usize) -> Source {
        let [.., a, b, c] = number.to_be_bytes();
        Source::of(Some(IpAddr::from([10, a, b, c])))
    }

    fn tried(throttle: &Throttle, count: usize, secs: u64, of: impl Fn(usize) -> (String, Source)) -> usize {
        let try_one = |number| {
            let (name, source) = of(number);
            throttle.may_try(&name, source, Duration::from_secs(secs))
        };
        (0..count).filter(|number| try_one(*number)).count()
    }

    #[test]
    fn a_source_and_a_name_have_few_attempts() {
        let one_source = |number: usize| (number.to_string(), Source::Loopback);
        let one_name = |number: usize| ("Root".to_owned(), network(number));
        let throttle = Throttle::default();
        assert_eq!(tried(&throttle, 10_000, 100, one_source), 5);
        assert_eq!(tried(&throttle, 10_000, 100, one_name), 5);
        let elsewhere = network(1 << 20);
        assert!(!throttle.may_try("rOOT", elsewhere, Duration::from_secs(100)));
        assert_eq!(tried(&throttle, 10_000, 120, one_source), 2);
        throttle.succeeded("root", elsewhere);
        assert!(throttle.may_try("rOOT", elsewhere, Duration::from_secs(120)));
    }

    #[test]
    fn guesses_elsewhere_do_not_deny_a_logon() {
        let throttle = Throttle::default();
        let guess = |number: usize| (["root", "ann"][number % 2].to_owned(), network(number));
        assert_eq!(tried(&throttle, 10_000, 100, guess), 10);
        assert_eq!(tried(&throttle, 10_000, 100, |number| (number.to_string(), network(number))), 10);
        assert_eq!(tried(&throttle, 10_000, 100, |_| ("root".to_owned(), Source::Loopback)), 5);
        assert_eq!(tried(&throttle, 10_000, 100, |_| ("root".to_owned(), Source::Unix)), 5);
    }

    #[test]
    fn all_together_are_bounded_and_so_is_memory() {
        let throttle = Throttle::default();
        let different = |number: usize| (format!("user {number}"), network(number));
        assert_eq!(tried(&throttle, 10_000, 100, different), 20);
        let total: usize =
            (101..10_000).map(|secs| tried(&throttle, 3, secs, |n| different(n + 3 * secs as usize))).sum();
        assert_eq!(total, 9_899, "one for each second");
        assert!(throttle.buckets.lock().len() <= BUCKETS + 3);
    }
}
