//! Predicts that a condition that held several times in a row will hold again: a saturating counter.

use std::sync::atomic::{AtomicU8, Ordering};

/// Counts how many times in a row a condition held.
#[derive(Default)]
pub struct Predictor(AtomicU8);

impl Predictor {
    /// Number of occurrences in a row after which another is expected.
    const MANY: u8 = 2;

    /// Returns whether the condition is expected to hold again.
    pub fn expects(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= Predictor::MANY
    }

    /// Records that the condition held.
    pub fn hit(&self) {
        let many = self.0.load(Ordering::Relaxed).saturating_add(1).min(Predictor::MANY);
        self.0.store(many, Ordering::Relaxed);
    }

    /// Records that the condition did not hold.
    pub fn miss(&self) {
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
        let predictor = Predictor::default();
        predictor.hit();
        assert!(!predictor.expects());
        predictor.hit();
        assert!(predictor.expects());
        predictor.hit();
        predictor.miss();
        assert!(!predictor.expects());
    }
}
