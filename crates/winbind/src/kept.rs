//! A cache of answers. Positive answers are kept longer than negative ones.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lifetime of a positive answer: Samba's `winbind cache time`.
const FOUND_TIME: Duration = Duration::from_secs(300);
/// Lifetime of a negative answer. It is short so that a new user is found soon.
const MISSING_TIME: Duration = Duration::from_secs(10);
/// Maximum number of entries. When it is reached, expired entries are removed, then all entries.
const MOST: usize = 65_536;

/// The answers to questions of type `K`.
pub(super) struct Kept<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Kept(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Kept<K, V> {
    /// Returns the answer if there is one that has not expired.
    pub(super) fn get(&self, key: &K, now: Instant) -> Option<V> {
        self.0.lock().get(key).filter(|(until, _)| now < *until).map(|(_, value)| value.clone())
    }

    /// Stores an answer at the time `now`; `found` determines its lifetime.
    pub(super) fn put(&self, key: K, value: V, found: bool, now: Instant) {
        let mut kept = self.0.lock();
        if kept.len() >= MOST {
            kept.retain(|_, (until, _)| now < *until);
        }
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(key, (now + if found { FOUND_TIME } else { MISSING_TIME }, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_answers_expire() {
        let kept = Kept::default();
        let now = Instant::now();
        kept.put("there", 1, true, now);
        kept.put("missing", 0, false, now);
        for (key, seconds, expected) in
            [("there", 299, Some(1)), ("there", 300, None), ("missing", 9, Some(0)), ("missing", 10, None)]
        {
            assert_eq!(kept.get(&key, now + Duration::from_secs(seconds)), expected, "{key} {seconds}");
        }
    }

    #[test]
    fn the_number_of_answers_is_bounded() {
        let kept = Kept::default();
        let now = Instant::now();
        for key in 0..MOST as u32 + 10 {
            kept.put(key, (), true, now);
        }
        assert!(kept.0.lock().len() <= MOST);
        assert_eq!(kept.get(&(MOST as u32 + 9), now), Some(()));
    }
}
