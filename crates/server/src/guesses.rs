//! Guessing passwords takes time: each failed logon of an account is answered two seconds after the one before it at the
//! earliest, as Windows Server 2025 does. Nothing but the answer waits.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

/// Between the answers to two failed logons of one account.
const INTERVAL: Duration = Duration::from_secs(2);
/// How much of a name is looked at, and how many names are kept before those of the past are forgotten.
const NAME: usize = 64;
const KEPT: usize = 1024;

/// When the last failed logon of each account is answered, in `World::uptime`. Names that no account has count too, so
/// that nobody learns from the delay which exist.
#[derive(Default)]
pub(crate) struct Guesses(Mutex<HashMap<String, Duration>>);

impl Guesses {
    /// A logon as `name` failed at `now`: answers when to say so.
    pub(crate) fn failed(&self, name: &str, now: Duration) -> Duration {
        let mut last = self.0.lock();
        if last.len() >= KEPT {
            last.retain(|_, answered| *answered > now);
        }
        let name: String = name.chars().take(NAME).flat_map(char::to_lowercase).collect();
        let answered = last.entry(name).or_insert(now);
        *answered = (*answered).max(now) + INTERVAL;
        *answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_one_account_are_answered_one_after_the_other() {
        let guesses = Guesses::default();
        let at = Duration::from_secs;
        assert_eq!(guesses.failed("alice", at(10)), at(12));
        assert_eq!(guesses.failed("Alice", at(10)), at(14), "the same account");
        assert_eq!(guesses.failed("bob", at(10)), at(12));
        assert_eq!(guesses.failed("alice", at(100)), at(102));
    }

    #[test]
    fn what_is_past_is_forgotten() {
        let guesses = Guesses::default();
        for number in 0..10 * KEPT as u64 {
            guesses.failed(&number.to_string(), Duration::from_secs(number));
        }
        assert!(guesses.0.lock().len() <= KEPT);
    }
}
