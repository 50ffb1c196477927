//! Bytes that pipes hold, all together: calls whose last fragment has not come, and answers that nobody has read. Whoever
//! may log on, if only as nobody, may have as many pipes as other opens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a pipe may hold however much the others do: a call of everyday length.
const SHORT: usize = 4096;

/// What the pipes of a server hold.
#[derive(Default)]
pub(crate) struct Held(Arc<AtomicUsize>);

impl Held {
    /// The part of a pipe that holds nothing yet.
    pub(super) fn of_one(&self) -> OfOne {
        OfOne { all: self.0.clone(), bytes: 0 }
    }
}

/// What one of them holds.
#[derive(Default)]
pub(super) struct OfOne {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl OfOne {
    /// Whether it may hold `more`, where all together should not hold more than `limit`.
    pub(super) fn may_take(&self, more: usize, limit: usize) -> bool {
        self.bytes + more <= SHORT || self.all.load(Ordering::Relaxed) + more <= limit
    }

    /// It holds `bytes` from now on.
    pub(super) fn set(&mut self, bytes: usize) {
        self.all.fetch_add(bytes, Ordering::Relaxed);
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for OfOne {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_share_what_there_is_and_each_has_a_little() {
        let held = Held::default();
        let (mut one, mut other) = (held.of_one(), held.of_one());
        one.set(90_000);
        assert!(one.may_take(10_000, 100_000) && !one.may_take(10_001, 100_000));
        assert!(other.may_take(10_000, 100_000) && !other.may_take(10_001, 100_000));
        one.set(110_000);
        assert!(other.may_take(SHORT, 100_000) && !other.may_take(SHORT + 1, 100_000) && !one.may_take(1, 100_000));
        other.set(SHORT);
        assert!(!other.may_take(1, 100_000));
        one.set(1000);
        assert!(other.may_take(90_000, 100_000));
        drop(one);
        drop(other);
        assert_eq!(held.0.load(Ordering::Relaxed), 0);
    }
}
