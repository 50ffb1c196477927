//! What was so a few times in a row, and will mostly be so again.

use std::sync::atomic::{AtomicU8, Ordering};

/// How often in a row something was so.
#[derive(Default)]
pub(crate) struct Streak(AtomicU8);

impl Streak {
    /// So many in a row let expect another one.
    const MANY: u8 = 2;

    /// Whether the next is expected to be so, too.
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= Streak::MANY
    }

    /// It was so once more.
    pub(crate) fn add(&self) {
        let many = self.0.load(Ordering::Relaxed).saturating_add(1).min(Streak::MANY);
        self.0.store(many, Ordering::Relaxed);
    }

    /// It was not.
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
    fn two_in_a_row_let_expect_another() {
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
