//! Predicts that a condition which held several times in a row will hold again.

use std::sync::atomic::{AtomicU8, Ordering};

/// Counts how many times in a row a condition held.
#[derive(Default)]
pub(crate) struct Streak(AtomicU8);

impl Streak {
    /// Length of a streak from which another occurrence is expected.
    const MANY: u8 = 2;

    /// Returns whether the condition is expected to hold again.
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= Streak::MANY
    }

    /// Records that the condition held.
    pub(crate) fn add(&self) {
        let many = self.0.load(Ordering::Relaxed).saturating_add(1).min(Streak::MANY);
        self.0.store(many, Ordering::Relaxed);
    }

    /// Records that the condition did not hold.
    pub(crate) fn end(&self) {
        if self.0.load(Ordering::Relaxed) != 0 {
            self.0.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_in_a_row_predict_another() {
        let streak = Streak::default();
        streak.add();
        assert!(!streak.is_on());
        streak.add();
        assert!(streak.is_on());
        streak.add();
        streak.end();
        assert!(!streak.is_on());
    }
}
