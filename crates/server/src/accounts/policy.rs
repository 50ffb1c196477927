//! Account policies: what passwords must be like, how long they are good, and when an account is locked ([MS-SAMR]
//! 3.1.1.5, the attributes of the domain object). Names, units and defaults are those of Samba's `pdbedit -P`.
//!
//! Leaves out `disconnect time`, because there are no logon hours, and `refuse machine password change`, because there
//! are no machine accounts.

use std::time::Duration;

use crate::vfs::Time;

/// The policies that hold for all accounts of this server's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccountPolicy {
    /// Characters that a new password has at least, where its owner sets it.
    pub min_password_length: u32,
    /// How many of the latest passwords a new one must differ from; 0 none.
    pub password_history: u32,
    /// Whoever changes a password must be logged on: one that has expired only an administrator changes then.
    pub log_on_to_change: bool,
    /// How long a password is good; `None` for ever.
    pub max_password_age: Option<Duration>,
    /// How long its owner keeps a password before he may set another.
    pub min_password_age: Duration,
    /// After so many wrong passwords the account is locked; 0 never.
    pub lockout_attempts: u32,
    /// For how long; `None` until an administrator enables it.
    pub lockout_duration: Option<Duration>,
    /// Wrong passwords are forgotten when there was none for so long.
    pub lockout_reset: Duration,
}

impl Default for AccountPolicy {
    fn default() -> Self {
        AccountPolicy {
            min_password_length: 5,
            password_history: 0,
            log_on_to_change: false,
            max_password_age: None,
            min_password_age: Duration::ZERO,
            lockout_attempts: 0,
            lockout_duration: Some(Duration::from_secs(30 * 60)),
            lockout_reset: Duration::from_secs(30 * 60),
        }
    }
}

impl AccountPolicy {
    /// Whether a password that was set then has expired, unless its account is exempt. One of which nobody knows when has not.
    pub fn has_expired(&self, set: Option<Time>, now: Time) -> bool {
        match (self.max_password_age, set) {
            (Some(age), Some(set)) => now.secs.saturating_sub(set.secs) >= seconds(age),
            _ => false,
        }
    }

    /// Whether a password that was set then is too young to be changed by its owner.
    pub fn is_too_young(&self, set: Option<Time>, now: Time) -> bool {
        set.is_some_and(|set| now.secs.saturating_sub(set.secs) < seconds(self.min_password_age))
    }
}

fn seconds(age: Duration) -> i64 {
    i64::try_from(age.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_age() {
        let at = |secs| Time { secs, nanos: 0 };
        let day = Duration::from_secs(86_400);
        let policy = AccountPolicy { max_password_age: Some(day * 2), min_password_age: day, ..Default::default() };
        for (age, young, expired) in
            [(-5, true, false), (0, true, false), (86_399, true, false), (86_400, false, false), (172_800, false, true)]
        {
            assert_eq!(policy.is_too_young(Some(at(0)), at(age)), young, "{age}");
            assert_eq!(policy.has_expired(Some(at(0)), at(age)), expired, "{age}");
        }
        assert!(!policy.has_expired(None, at(i64::MAX)) && !policy.is_too_young(None, at(0)));
        assert!(!AccountPolicy::default().has_expired(Some(at(0)), at(i64::MAX)));
    }
}
