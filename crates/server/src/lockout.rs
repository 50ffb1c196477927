//! Locks user accounts after too many wrong passwords, if the account policies require it ([MS-SAMR] 3.1.5.14.6).
//!
//! Names without a user account are counted and locked in the same way. The right password of a locked user account
//! gets the same response as a wrong one. A lockout therefore does not reveal which user accounts exist, nor whether a
//! guess was right. Counts are in memory and lost on restart, except for user accounts that stay locked until an
//! administrator enables them: the back end stores those.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::accounts::AccountPolicy;
use crate::policy::fold;

/// The number of names without a user account that are stored; above it the least recent one is removed.
const STRANGERS: usize = 16_384;
/// The number of characters of a name that are compared.
const NAME: usize = 64;

/// Wrong passwords, by folded names.
#[derive(Default)]
pub(crate) struct Lockouts(Mutex<Tables>);

#[derive(Default)]
struct Tables {
    /// For user accounts: at most one entry for each.
    accounts: HashMap<String, Failures>,
    strangers: HashMap<String, Failures>,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    /// When the last failure occurred or the account was locked, in `Environment::uptime`.
    last: Duration,
    locked: bool,
}

impl Failures {
    fn is_over(&self, policy: &AccountPolicy, now: Duration) -> bool {
        let lasts = if self.locked { policy.lockout_duration } else { Some(policy.lockout_reset) };
        lasts.is_some_and(|lasts| now >= self.last.saturating_add(lasts))
    }
}

fn key(name: &str) -> String {
    fold(&name.chars().take(NAME).collect::<String>())
}

impl Lockouts {
    /// Returns whether `name` is locked.
    pub(crate) fn is_locked(&self, name: &str, policy: &AccountPolicy, now: Duration) -> bool {
        if policy.lockout_attempts == 0 {
            return false;
        }
        let (key, tables) = (key(name), self.0.lock());
        let failures = tables.accounts.get(&key).or_else(|| tables.strangers.get(&key));
        failures.is_some_and(|failures| failures.locked && !failures.is_over(policy, now))
    }

    /// Records a wrong password for `name`. `exists`: there is a user account of that name. Returns `true` if this one
    /// locks it.
    pub(crate) fn failed(&self, name: &str, exists: bool, policy: &AccountPolicy, now: Duration) -> bool {
        if policy.lockout_attempts == 0 {
            return false;
        }
        let (key, mut tables) = (key(name), self.0.lock());
        let table = if exists { &mut tables.accounts } else { &mut tables.strangers };
        if !exists && table.len() >= STRANGERS && !table.contains_key(&key) {
            make_room(table, policy, now);
        }
        let failures = table.entry(key).or_insert(Failures { count: 0, last: now, locked: false });
        if failures.is_over(policy, now) {
            *failures = Failures { count: 0, last: now, locked: false };
        }
        if failures.locked {
            return false;
        }
        failures.count += 1;
        failures.last = now;
        failures.locked = failures.count >= policy.lockout_attempts;
        failures.locked
    }

    /// Forgets wrong passwords, after a right one or by an administrator.
    pub(crate) fn clear_lockout(&self, name: &str) {
        let mut tables = self.0.lock();
        if !tables.accounts.is_empty() || !tables.strangers.is_empty() {
            let key = key(name);
            tables.accounts.remove(&key);
            tables.strangers.remove(&key);
        }
    }
}

fn make_room(table: &mut HashMap<String, Failures>, policy: &AccountPolicy, now: Duration) {
    table.retain(|_, failures| !failures.is_over(policy, now));
    if table.len() >= STRANGERS
        && let Some(oldest) = table.iter().min_by_key(|(_, failures)| failures.last).map(|(name, _)| name.clone())
    {
        table.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60;

    fn policy(duration: Option<u64>) -> AccountPolicy {
        AccountPolicy {
            lockout_attempts: 3,
            lockout_duration: duration.map(Duration::from_secs),
            lockout_reset: Duration::from_secs(5 * MINUTE),
            ..AccountPolicy::default()
        }
    }

    /// Records wrong passwords at these seconds and checks whether the name is locked at `then`.
    #[track_caller]
    fn check(policy: &AccountPolicy, exists: bool, wrong: &[u64], then: u64, expected: bool) {
        let lockouts = Lockouts::default();
        let at = |secs| Duration::from_secs(1000 + secs);
        let mut locked = 0;
        for &secs in wrong {
            locked += usize::from(lockouts.failed("Alice", exists, policy, at(secs)));
        }
        assert_eq!(lockouts.is_locked("alice", policy, at(then)), expected, "{wrong:?} {then}");
        assert!(locked <= 1 && !lockouts.is_locked("bob", policy, at(then)));
        lockouts.clear_lockout("ALICE");
        assert!(!lockouts.is_locked("alice", policy, at(then)));
    }

    #[test]
    fn the_third_wrong_password_locks() {
        for exists in [true, false] {
            let half_an_hour = policy(Some(30 * MINUTE));
            check(&half_an_hour, exists, &[0, 1], 2, false);
            check(&half_an_hour, exists, &[0, 1, 2], 2, true);
            check(&half_an_hour, exists, &[0, 1, 2, 3, 1000], 30 * MINUTE + 1, true);
            check(&half_an_hour, exists, &[0, 1, 2, 3, 1000], 30 * MINUTE + 2, false);
            check(&half_an_hour, exists, &[0, 1, 2 + 5 * MINUTE], 3 + 5 * MINUTE, false);
            check(&half_an_hour, exists, &[0, 4 * MINUTE, 8 * MINUTE], 9 * MINUTE, true);
            check(&policy(None), exists, &[0, 1, 2], 1 << 40, true);
            let never = AccountPolicy { lockout_attempts: 0, ..half_an_hour };
            check(&never, exists, &[0, 1, 2, 3, 4], 5, false);
        }
    }

    #[test]
    fn unknown_names_are_bounded_and_evict_no_account() {
        let (lockouts, policy) = (Lockouts::default(), policy(None));
        for _ in 0..3 {
            lockouts.failed("alice", true, &policy, Duration::ZERO);
        }
        for number in 0..STRANGERS as u64 + 100 {
            lockouts.failed(&number.to_string(), false, &policy, Duration::from_millis(number));
        }
        assert_eq!(lockouts.0.lock().strangers.len(), STRANGERS);
        assert!(lockouts.is_locked("alice", &policy, Duration::from_secs(100)));
    }
}
