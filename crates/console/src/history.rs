//! The samples of the last hour.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{INTERVAL, Sample};

/// The samples of an hour.
const MOST: usize = 3600 / INTERVAL.as_secs() as usize;

/// The latest samples, the oldest first.
#[derive(Default)]
pub(crate) struct History(Mutex<VecDeque<Sample>>);

impl History {
    pub(crate) fn add(&self, sample: Sample) {
        let mut samples = self.0.lock();
        if samples.len() >= MOST {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Returns the samples after the time `after`, as `[time, value, ...]` each.
    pub(crate) fn json(&self, series: &[&str], after: i64) -> Value {
        let samples = self.0.lock();
        let rows: Vec<Value> = samples
            .iter()
            .filter(|sample| sample.time > after)
            .map(|sample| {
                std::iter::once(json!(sample.time)).chain(sample.values.iter().map(|value| json!(value))).collect()
            })
            .collect();
        json!({ "series": series, "interval": INTERVAL.as_secs(), "samples": rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_kept() {
        let history = History::default();
        for time in 0..1000 {
            history.add(Sample { time, values: vec![1.5] });
        }
        let all = history.json(&["x"], -1);
        assert_eq!((MOST, all["samples"].as_array().map(Vec::len)), (360, Some(360)));
        assert_eq!(all["samples"][0], json!([640, 1.5]));
        assert_eq!(history.json(&["x"], 998)["samples"], json!([[999, 1.5]]));
    }
}
