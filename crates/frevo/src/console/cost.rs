//! What the shares cost the server in the last hour.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

/// The time that is kept, and that which is added up.
const HOUR: Duration = Duration::from_secs(3600);
const PART: Duration = Duration::from_secs(60);

/// The cost of a share.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Cost {
    pub(super) requests: f64,
    pub(super) failed: f64,
    pub(super) read: f64,
    pub(super) written: f64,
    /// The sum of the times of the requests, in seconds.
    pub(super) seconds: f64,
}

impl Cost {
    /// Returns what was added since `before`.
    pub(super) fn since(&self, before: &Cost) -> Cost {
        let grown = |of: fn(&Cost) -> f64| (of(self) - of(before)).max(0.0);
        Cost {
            requests: grown(|cost| cost.requests),
            failed: grown(|cost| cost.failed),
            read: grown(|cost| cost.read),
            written: grown(|cost| cost.written),
            seconds: grown(|cost| cost.seconds),
        }
    }

    fn add(&mut self, other: &Cost) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.read += other.read;
        self.written += other.written;
        self.seconds += other.seconds;
    }
}

/// The costs of the last hour, each minute for itself. Shares without requests take no space.
#[derive(Default)]
pub(super) struct Costs(Mutex<VecDeque<(Instant, BTreeMap<String, Cost>)>>);

impl Costs {
    /// Adds what the shares have cost until `now`, since the last call.
    pub(super) fn add(&self, now: Instant, costs: BTreeMap<String, Cost>) {
        let mut parts = self.0.lock();
        while parts.front().is_some_and(|(begun, _)| now.duration_since(*begun) >= HOUR) {
            parts.pop_front();
        }
        if parts.back().is_none_or(|(begun, _)| now.duration_since(*begun) >= PART) {
            parts.push_back((now, BTreeMap::new()));
        }
        let Some((_, part)) = parts.back_mut() else { return };
        for (name, cost) in costs {
            part.entry(name).or_default().add(&cost);
        }
    }

    /// Returns the costs of each share, the most expensive one first, and the seconds since they are counted.
    pub(super) fn json(&self, now: Instant) -> Value {
        let parts = self.0.lock();
        let mut sums = BTreeMap::<&String, Cost>::new();
        for (name, cost) in parts.iter().flat_map(|(_, part)| part) {
            sums.entry(name).or_default().add(cost);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by(|(_, one), (_, other)| other.seconds.total_cmp(&one.seconds));
        let since = parts.front().map_or(0, |(begun, _)| now.duration_since(*begun).as_secs());
        let shares: Vec<_> = sums
            .iter()
            .map(|(name, cost)| {
                let Cost { requests, failed, read, written, seconds } = cost;
                json!({
                    "name": name, "requests": requests, "failed": failed, "read": read, "written": written,
                    "seconds": seconds,
                })
            })
            .collect();
        json!({ "since": since, "shares": shares })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_added_up() {
        let (costs, start) = (Costs::default(), Instant::now());
        let one = |name: &str, seconds| {
            BTreeMap::from([(name.to_owned(), Cost { requests: 1.0, read: 10.0, seconds, ..Cost::default() })])
        };
        costs.add(start, one("old", 9.0));
        for second in (10..3600).step_by(10) {
            costs.add(start + Duration::from_secs(second), one("docs", 0.5));
        }
        let last = start + Duration::from_secs(3599);
        costs.add(last, one("<b>", 1000.0));
        let json = costs.json(last);
        assert_eq!(json["shares"].as_array().map(Vec::len), Some(3));
        assert_eq!((&json["shares"][0]["name"], &json["shares"][1]["requests"]), (&json!("<b>"), &json!(359.0)));
        assert_eq!((&json["shares"][1]["seconds"], &json["since"]), (&json!(179.5), &json!(3599)));
        let later = start + HOUR;
        costs.add(later, BTreeMap::new());
        assert!(!costs.json(later)["shares"].to_string().contains("old"), "an hour has passed");
        assert!(costs.0.lock().len() <= 61);
    }
}
