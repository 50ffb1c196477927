//! Account policies by name, as in Samba's `pdbedit -P`, with whole numbers as stored values.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use server::accounts::AccountPolicy;

/// The largest `password history`, as in Windows. A password change checks every entry.
const LONGEST_HISTORY: i64 = 24;
/// The longest password in characters.
const LONGEST_PASSWORD: i64 = 256;
/// Samba's -1 as an unsigned number.
const UNSIGNED_NEVER: i64 = u32::MAX as i64;

/// One policy.
struct Entry {
    name: &'static str,
    about: &'static str,
    /// Whether -1 is a valid value, which means "never".
    never: bool,
    largest: i64,
    get: fn(&AccountPolicy) -> i64,
    set: fn(&mut AccountPolicy, i64),
}

const TABLE: [Entry; 8] = [
    Entry {
        name: "min password length",
        about: "minimum number of characters of a password set by its owner",
        never: false,
        largest: LONGEST_PASSWORD,
        get: |policy| policy.min_password_length.into(),
        set: |policy, value| policy.min_password_length = whole(value),
    },
    Entry {
        name: "password history",
        about: "number of previous passwords that a new one must differ from; 0 for none",
        never: false,
        largest: LONGEST_HISTORY,
        get: |policy| policy.password_history.into(),
        set: |policy, value| policy.password_history = whole(value),
    },
    Entry {
        name: "user must logon to change password",
        about: "2: users must log on to change their password; 0: an expired password can be changed, too",
        never: false,
        largest: 2,
        get: |policy| if policy.log_on_to_change { 2 } else { 0 },
        set: |policy, value| policy.log_on_to_change = value != 0,
    },
    Entry {
        name: "maximum password age",
        about: "seconds until a password expires; 0 and -1 for never",
        never: true,
        largest: UNSIGNED_NEVER - 1,
        get: |policy| count(policy.max_password_age, 1),
        set: |policy, value| policy.max_password_age = time(value, 1).filter(|age| !age.is_zero()),
    },
    Entry {
        name: "minimum password age",
        about: "seconds before an owner may change the password again",
        never: false,
        largest: UNSIGNED_NEVER - 1,
        get: |policy| count(Some(policy.min_password_age), 1),
        set: |policy, value| policy.min_password_age = time(value, 1).unwrap_or_default(),
    },
    Entry {
        name: "bad lockout attempt",
        about: "wrong passwords after which an account is locked; 0 for never",
        never: false,
        largest: 65_535,
        get: |policy| policy.lockout_attempts.into(),
        set: |policy, value| policy.lockout_attempts = whole(value),
    },
    Entry {
        name: "lockout duration",
        about: "minutes for which an account stays locked; -1 means until `frevo user enable`",
        never: true,
        largest: UNSIGNED_NEVER - 1,
        get: |policy| count(policy.lockout_duration, 60),
        set: |policy, value| policy.lockout_duration = time(value, 60),
    },
    Entry {
        name: "reset count minutes",
        about: "minutes without a wrong password after which the count of wrong passwords is reset",
        never: false,
        largest: UNSIGNED_NEVER - 1,
        get: |policy| count(Some(policy.lockout_reset), 60),
        set: |policy, value| policy.lockout_reset = time(value, 60).unwrap_or_default(),
    },
];

fn whole(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn count(time: Option<Duration>, unit: u64) -> i64 {
    time.map_or(-1, |time| i64::try_from(time.as_secs() / unit).unwrap_or(i64::MAX))
}

fn time(value: i64, unit: u64) -> Option<Duration> {
    u64::try_from(value).ok().map(|value| Duration::from_secs(value.saturating_mul(unit)))
}

/// Returns all policies: name, value, and description.
pub fn all(policy: &AccountPolicy) -> impl Iterator<Item = (&'static str, i64, &'static str)> {
    TABLE.iter().map(|entry| (entry.name, (entry.get)(policy), entry.about))
}

/// Returns the canonical name; the error lists the valid names.
pub fn known(name: &str) -> Result<&'static str> {
    match name {
        "disconnect time" => bail!("\"disconnect time\" has no effect: Frevo's accounts have no logon hours"),
        "refuse machine password change" => bail!("{name:?} has no effect: Frevo has no machine accounts"),
        _ => {}
    }
    match TABLE.iter().find(|entry| entry.name.eq_ignore_ascii_case(name)) {
        Some(entry) => Ok(entry.name),
        None => {
            let names: Vec<_> = TABLE.iter().map(|entry| format!("{:?}", entry.name)).collect();
            bail!("there is no account policy {name:?}; use one of {}", names.join(", "))
        }
    }
}

/// Sets one policy.
pub fn set(policy: &mut AccountPolicy, name: &str, value: i64) -> Result<()> {
    let name = known(name)?;
    let entry = TABLE.iter().find(|entry| entry.name == name).expect("known() returns only names of the table");
    let value = if entry.never && value == UNSIGNED_NEVER { -1 } else { value };
    let smallest = if entry.never { -1 } else { 0 };
    ensure!(
        (smallest..=entry.largest).contains(&value),
        "{name} = {value}: expected {smallest} to {} ({})",
        entry.largest,
        entry.about
    );
    (entry.set)(policy, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the policy's value after it was set; `None` if setting it is refused.
    #[track_caller]
    fn check(name: &str, value: i64, expected: Option<i64>) {
        let mut policy = AccountPolicy::default();
        let done = set(&mut policy, name, value);
        let found = all(&policy).find(|(known, ..)| known.eq_ignore_ascii_case(name)).map(|(_, value, _)| value);
        assert_eq!(done.ok().and(found), expected, "{name} {value}");
    }

    #[test]
    fn defaults_equal_those_of_samba() {
        let found: Vec<i64> = all(&AccountPolicy::default()).map(|(_, value, _)| value).collect();
        assert_eq!(found, [5, 0, 0, -1, 0, 0, 30, 30]);
    }

    #[test]
    fn values_are_stored_or_refused() {
        for (name, ..) in all(&AccountPolicy::default()) {
            let odd = name.starts_with("user must");
            check(name, if odd { 2 } else { 7 }, Some(if odd { 2 } else { 7 }));
        }
        check("Bad Lockout Attempt", 3, Some(3));
        check("maximum password age", -1, Some(-1));
        check("maximum password age", 4_294_967_295, Some(-1));
        check("maximum password age", 0, Some(-1));
        check("lockout duration", -1, Some(-1));
        check("minimum password age", -1, None);
        check("password history", 25, None);
        check("min password length", 257, None);
        check("reset count minutes", i64::MAX, None);
        check("lockout duration", i64::MIN, None);
    }

    #[test]
    fn other_names_are_refused_with_the_reason() {
        for (name, word) in
            [("disconnect time", "hours"), ("refuse machine password change", "machine"), ("x", "lockout duration")]
        {
            let error = set(&mut AccountPolicy::default(), name, 0).expect_err(name).to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
