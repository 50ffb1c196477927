//! How often a cache has what is asked for.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the questions to a cache.
#[derive(Default)]
pub struct Hits {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// The number of questions that a cache has answered, and that it has not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HitNumbers {
    /// Answered questions.
    pub hits: u64,
    /// Questions for what was not cached.
    pub misses: u64,
}

impl Hits {
    /// Counts a question by its answer, which is returned.
    pub fn count<T>(&self, found: Option<T>) -> Option<T> {
        let number = if found.is_some() { &self.hits } else { &self.misses };
        number.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Returns the numbers so far.
    pub fn numbers(&self) -> HitNumbers {
        HitNumbers { hits: self.hits.load(Ordering::Relaxed), misses: self.misses.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted() {
        let hits = Hits::default();
        assert_eq!((hits.count(Some(1)), hits.count::<u8>(None), hits.count(Some(2))), (Some(1), None, Some(2)));
        assert_eq!(hits.numbers(), HitNumbers { hits: 2, misses: 1 });
    }
}
