//! Counts of rare events by a value that the server chooses.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Counts by value. The values must come from a small set, never from a client.
pub(super) struct Tally<T>(Mutex<BTreeMap<T, u64>>);

impl<T> Default for Tally<T> {
    fn default() -> Tally<T> {
        Tally(Mutex::new(BTreeMap::new()))
    }
}

impl<T: Ord + Copy> Tally<T> {
    pub(super) fn add(&self, value: T) {
        *self.0.lock().entry(value).or_default() += 1;
    }

    pub(super) fn counts(&self) -> Vec<(T, u64)> {
        self.0.lock().iter().map(|(&value, &count)| (value, count)).collect()
    }
}
