//! A cache for answers of NSS.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a positive answer is cached.
pub(super) const FOUND_TIME: Duration = Duration::from_secs(60);

/// How long a negative answer is cached.
pub(super) const MISSING_TIME: Duration = Duration::from_secs(10);

/// How much longer a positive answer is valid while NSS does not answer.
const LATE_TIME: Duration = Duration::from_secs(300);

/// Maximum number of cached answers. At the limit expired answers are removed, then all.
const KEPT: usize = 65_536;

/// Cached answers by query.
pub(super) struct Kept<Q, A>(Mutex<HashMap<Q, (Instant, A)>>);

impl<Q, A> Default for Kept<Q, A> {
    fn default() -> Self {
        Kept(Mutex::new(HashMap::new()))
    }
}

impl<Q: Eq + Hash, A: Clone> Kept<Q, A> {
    /// Returns the answer to `question`, if it is still valid.
    pub(super) fn get(&self, question: &Q, now: Instant) -> Option<A> {
        let kept = self.0.lock();
        kept.get(question).filter(|(until, _)| now < *until).map(|(_, answer)| answer.clone())
    }

    /// Returns the answer to `question`, if it is valid while NSS does not answer.
    pub(super) fn late(&self, question: &Q, now: Instant) -> Option<A> {
        let kept = self.0.lock();
        kept.get(question).filter(|(until, _)| now < *until + LATE_TIME).map(|(_, answer)| answer.clone())
    }

    /// Returns the number of cached answers.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Caches an answer, for longer if it is positive (`found`).
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
