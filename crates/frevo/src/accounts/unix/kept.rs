//! Answers of NSS that are kept for a while.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long something that was found is taken for unchanged.
pub(super) const FOUND_TIME: Duration = Duration::from_secs(60);

/// How long something that was not found is taken for missing.
pub(super) const MISSING_TIME: Duration = Duration::from_secs(10);

/// How much longer something that was found counts while nobody answers.
const LATE_TIME: Duration = Duration::from_secs(300);

/// Answers that are kept; past it, those out of date go, then all.
const KEPT: usize = 65_536;

/// Answers by question.
pub(super) struct Kept<Q, A>(Mutex<HashMap<Q, (Instant, A)>>);

impl<Q, A> Default for Kept<Q, A> {
    fn default() -> Self {
        Kept(Mutex::new(HashMap::new()))
    }
}

impl<Q: Eq + Hash, A: Clone> Kept<Q, A> {
    /// The answer to `question`, where it still counts.
    pub(super) fn get(&self, question: &Q, now: Instant) -> Option<A> {
        let kept = self.0.lock();
        kept.get(question).filter(|(until, _)| now < *until).map(|(_, answer)| answer.clone())
    }

    /// The answer to `question`, where it counts as long as nobody gives another.
    pub(super) fn late(&self, question: &Q, now: Instant) -> Option<A> {
        let kept = self.0.lock();
        kept.get(question).filter(|(until, _)| now < *until + LATE_TIME).map(|(_, answer)| answer.clone())
    }

    /// How many answers are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Keeps an answer, for longer where something was `found`.
    pub(super) fn put(&self, question: Q, answer: A, found: bool, now: Instant) {
        let mut kept = self.0.lock();
        if kept.len() >= KEPT {
            kept.retain(|_, (until, _)| now < *until);
        }
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(question, (now + if found { FOUND_TIME } else { MISSING_TIME }, answer));
    }
}
