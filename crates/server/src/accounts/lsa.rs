//! The database of the local security authority ([MS-LSAD] 3.1.1): the rights of accounts, and secrets.

use std::collections::BTreeSet;
use std::fmt;

use proto::dtyp::{FileTime, Sid};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::NotDone;
use crate::answer::Answer;

/// Where the rights of accounts and the secrets are stored. A change is durable before its answer is ready.
pub trait LsaDatabase: Send + Sync {
    /// Returns what is stored about the account `sid`. Must not block.
    fn rights(&self, sid: &Sid) -> Option<AccountRights>;

    /// Returns all accounts about which something is stored, in the order of their SIDs. Must not block.
    fn all_rights(&self) -> Vec<(Sid, AccountRights)>;

    /// Makes one change of the account `sid`, by [`RightsChange::apply`].
    fn change_rights(&self, sid: &Sid, change: RightsChange) -> Answer<Result<(), NotDone>>;

    /// Returns the secret called `name`, compared case-sensitively.
    fn secret(&self, name: &str) -> Answer<Result<Secret, NotDone>>;

    /// Makes one change of the secret called `name`, by [`SecretChange::apply`].
    fn change_secret(&self, name: &str, change: SecretChange) -> Answer<Result<(), NotDone>>;
}

/// The largest number of accounts that are stored.
pub const ACCOUNT_CAPACITY: usize = 1024;
/// The largest number of secrets that are stored.
pub const SECRET_CAPACITY: usize = 512;

/// An account object ([MS-LSAD] 3.1.1.3).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccountRights {
    /// The account was deleted, and is stored because it would otherwise have the rights that it has by default.
    pub deleted: bool,
    /// The names of its privileges.
    pub privileges: BTreeSet<String>,
}

/// A change of an account object. `by_default` is what an account has about which nothing is stored; `None` if there is
/// no such account object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RightsChange {
    /// What changes.
    pub kind: RightsChangeKind,
    /// The account without a change.
    pub by_default: Option<AccountRights>,
}

/// What changes of an account object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RightsChangeKind {
    /// The account object is created.
    Create,
    /// The account gets privileges; its object is created if necessary.
    Add(BTreeSet<String>),
    /// The account loses privileges. Its object is deleted if it has none left and `delete_empty` is set.
    Remove {
        /// The privileges; `None` for all.
        privileges: Option<BTreeSet<String>>,
        /// Whether an account object without privileges is deleted.
        delete_empty: bool,
    },
    /// The account object is deleted.
    Delete,
}

impl RightsChange {
    /// Returns what is stored after the change, if `stored` was stored before it. Fails if the account object exists
    /// and must not, or the other way round.
    pub fn apply(self, stored: Option<AccountRights>) -> Result<Option<AccountRights>, NotDone> {
        let by_default = self.by_default;
        let present = stored.or_else(|| by_default.clone()).filter(|account| !account.deleted);
        let after = match self.kind {
            RightsChangeKind::Create if present.is_some() => return Err(NotDone::Exists),
            RightsChangeKind::Create => Some(AccountRights::default()),
            RightsChangeKind::Add(privileges) => {
                let mut account = present.unwrap_or_default();
                account.privileges.extend(privileges);
                Some(account)
            }
            RightsChangeKind::Remove { privileges, delete_empty } => {
                let mut account = present.ok_or(NotDone::NotFound)?;
                match privileges {
                    Some(privileges) => account.privileges.retain(|privilege| !privileges.contains(privilege)),
                    None => account.privileges.clear(),
                }
                Some(account).filter(|account| !delete_empty || !account.privileges.is_empty())
            }
            RightsChangeKind::Delete => {
                present.ok_or(NotDone::NotFound)?;
                None
            }
        };
        let deleted = by_default.as_ref().map(|_| AccountRights { deleted: true, ..AccountRights::default() });
        Ok(after.or(deleted).filter(|account| by_default.as_ref() != Some(account)))
    }
}

/// A secret object ([MS-LSAD] 3.1.1.4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Secret {
    /// The current value.
    pub current: Option<SecretValue>,
    /// When the current value was set.
    pub current_time: FileTime,
    /// The old value.
    pub old: Option<SecretValue>,
    /// When the old value was set.
    pub old_time: FileTime,
}

/// A value of a secret. Wiped when dropped; its `Debug` text shows no byte of it.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct SecretValue(pub Vec<u8>);

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretValue({} bytes)", self.0.len())
    }
}

/// A change of a secret at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretChange {
    /// What changes.
    pub kind: SecretChangeKind,
    /// The time.
    pub now: FileTime,
}

/// What changes of a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SecretChangeKind {
    /// It is created, without values.
    Create,
    /// It gets values ([MS-LSAD] 3.1.4.6.3).
    Set {
        /// The current value.
        current: Option<SecretValue>,
        /// The old value. If it is absent, it is the current value before the change.
        old: Option<SecretValue>,
    },
    /// It gets a current value, and is created if necessary ([MS-LSAD] 3.1.4.6.5).
    Store(SecretValue),
    /// It is deleted.
    Delete,
}

impl SecretChange {
    /// Returns the secret after the change. Fails if it exists and must not, or the other way round.
    pub fn apply(self, present: Option<Secret>) -> Result<Option<Secret>, NotDone> {
        let now = self.now;
        let new = || Secret { current: None, current_time: now, old: None, old_time: now };
        let set = |present: Secret, current, old: Option<SecretValue>| {
            // The time of an old value that was the current one is the time when that was set.
            let old_time = if old.is_none() { present.current_time } else { now };
            Some(Secret { current, current_time: now, old: old.or(present.current), old_time })
        };
        Ok(match (self.kind, present) {
            (SecretChangeKind::Create, Some(_)) => return Err(NotDone::Exists),
            (SecretChangeKind::Create, None) => Some(new()),
            (SecretChangeKind::Set { current, old }, Some(present)) => set(present, current, old),
            (SecretChangeKind::Store(value), present) => set(present.unwrap_or_else(new), Some(value), None),
            (SecretChangeKind::Delete, Some(_)) => None,
            (SecretChangeKind::Set { .. } | SecretChangeKind::Delete, None) => return Err(NotDone::NotFound),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(names: &[&str]) -> AccountRights {
        AccountRights { deleted: false, privileges: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn rights_by_default_can_be_removed_and_restored() {
        let by_default = Some(rights(&["a", "b"]));
        let change = |kind, stored| RightsChange { kind, by_default: by_default.clone() }.apply(stored);
        let set = |names: &[&str]| rights(names).privileges;
        let without = change(RightsChangeKind::Remove { privileges: Some(set(&["a"])), delete_empty: true }, None);
        assert_eq!(without, Ok(Some(rights(&["b"]))));
        assert_eq!(change(RightsChangeKind::Add(set(&["a"])), without.expect("stored")), Ok(None), "as by default");
        assert_eq!(change(RightsChangeKind::Create, None), Err(NotDone::Exists));
        let deleted = change(RightsChangeKind::Delete, None).expect("stored");
        assert!(deleted.as_ref().is_some_and(|account| account.deleted));
        assert_eq!(change(RightsChangeKind::Delete, deleted.clone()), Err(NotDone::NotFound));
        let all = RightsChangeKind::Remove { privileges: None, delete_empty: true };
        assert_eq!(change(all.clone(), None), Ok(deleted.clone()));
        assert_eq!(change(RightsChangeKind::Create, deleted), Ok(Some(rights(&[]))));
        let other = |kind, stored| RightsChange { kind, by_default: None }.apply(stored);
        assert_eq!(other(RightsChangeKind::Add(set(&["c"])), None), Ok(Some(rights(&["c"]))));
        assert_eq!(other(all.clone(), Some(rights(&["c"]))), Ok(None));
        assert_eq!(other(all, None), Err(NotDone::NotFound));
        let kept = RightsChangeKind::Remove { privileges: None, delete_empty: false };
        assert_eq!(other(kept, Some(rights(&["c"]))), Ok(Some(rights(&[]))));
    }

    #[test]
    fn an_old_value_is_kept_unless_the_client_sets_it() {
        let change = |kind, now, present| SecretChange { kind, now: FileTime(now) }.apply(present).map(Option::unwrap);
        let value = |byte: u8| Some(SecretValue(vec![byte]));
        let set = |current, old| SecretChangeKind::Set { current, old };
        let new = change(SecretChangeKind::Create, 1, None).expect("created");
        assert_eq!((&new.current, new.current_time, new.old_time), (&None, FileTime(1), FileTime(1)));
        assert_eq!(change(SecretChangeKind::Create, 2, Some(new.clone())), Err(NotDone::Exists));
        let first = change(set(value(1), None), 2, Some(new)).expect("set");
        assert_eq!((&first.current, &first.old), (&value(1), &None));
        let second = change(set(value(2), None), 3, Some(first)).expect("set");
        assert_eq!((&second.current, &second.old), (&value(2), &value(1)));
        assert_eq!((second.current_time, second.old_time), (FileTime(3), FileTime(2)));
        let third = change(set(None, value(7)), 4, Some(second)).expect("set");
        assert_eq!((&third.current, &third.old, third.old_time), (&None, &value(7), FileTime(4)));
        assert_eq!(change(set(None, None), 5, None), Err(NotDone::NotFound));
        let stored = change(SecretChangeKind::Store(SecretValue(vec![8])), 6, None).expect("stored");
        assert_eq!(stored.current, value(8));
    }
}
