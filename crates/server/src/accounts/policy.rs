//! Account policies: password requirements, password lifetime and lockout ([MS-SAMR] 3.1.1.5, the attributes of the
//! domain object). Names, units and defaults are those of Samba's `pdbedit -P`.
//!
//! Not implemented: `disconnect time`, because there are no logon hours, and `refuse machine password change`, because
//! there are no machine accounts.

use std::time::Duration;

use crate::vfs::Time;

/// The policies for all accounts of this server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccountPolicy {
    /// The minimum length in characters of a password that its owner sets.
    pub min_password_length: u32,
    /// How many of the latest passwords a new one must differ from; 0 for none.
    pub password_history: u32,
    /// Whether a user must be logged on to change the password. If so, only an administrator can change an expired one.
    pub log_on_to_change: bool,
    /// The maximum age of a password; `None` for unlimited.
    pub max_password_age: Option<Duration>,
    /// The minimum age of a password before its owner may change it.
    pub min_password_age: Duration,
    /// The number of wrong passwords after which the account is locked; 0 for never.
    pub lockout_attempts: u32,
    /// How long it stays locked; `None` for until an administrator enables it.
    pub lockout_duration: Option<Duration>,
    /// Wrong passwords are forgotten after this long without another one.
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
    /// Returns whether a password set at `set` has expired, unless its account is exempt. A password of unknown age has
    /// not.
    pub fn has_expired(&self, set: Option<Time>, now: Time) -> bool {
        match (self.max_password_age, set) {
            (Some(age), Some(set)) => now.secs.saturating_sub(set.secs) >= seconds(age),
            _ => false,
        }
    }

    /// Returns whether a password set at `set` is too young to be changed by its owner.
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
    fn password_age_limits() {
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
