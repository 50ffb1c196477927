//! Account policies and former passwords, in separate tables of the embedded database. They apply to the accounts of
//! all back ends.
//!
//! Former passwords are stored as salted digests of their hashes, because the hash itself is as good as the password on
//! every server where it is valid.

use anyhow::{Context, Result};
use aws_lc_rs::{digest, hmac};
use redb::{ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError};
use server::accounts::{AccountPolicy, NtHash};
use server::policy::fold;

use super::Store;
use crate::policies;

/// Name -> value, for the policies that were set.
pub(super) const POLICIES: TableDefinition<&str, i64> = TableDefinition::new("account policies");

/// Folded name of an account -> [`FORMER`] bytes for each of its passwords, the latest first.
const HISTORY: TableDefinition<&str, &[u8]> = TableDefinition::new("password history");

const SALT: usize = 16;
/// A salt, and the digest made with it.
const FORMER: usize = SALT + digest::SHA256_OUTPUT_LEN;

/// Reads the policies visible to `transaction`.
pub(super) fn load(transaction: &ReadTransaction) -> Result<AccountPolicy> {
    let mut policy = AccountPolicy::default();
    match transaction.open_table(POLICIES) {
        Ok(table) => {
            for entry in table.iter()? {
                let (name, value) = entry?;
                policies::set(&mut policy, name.value(), value.value()).context("the account policies are damaged")?;
            }
        }
        // No policy was ever set.
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(policy)
}

impl Store {
    /// Returns the account policies in force.
    pub fn policy(&self) -> AccountPolicy {
        *self.policy.read()
    }

    /// Sets an account policy durably.
    pub fn set_policy(&self, name: &str, value: i64) -> Result<()> {
        self.set_policies(&[(name, value)])
    }

    /// Sets account policies durably: all, or none if one of them is not valid.
    pub fn set_policies(&self, changes: &[(&str, i64)]) -> Result<()> {
        let _alone = self.next_rid.lock();
        let mut policy = self.policy();
        let transaction = self.database.begin_write()?;
        {
            let mut table = transaction.open_table(POLICIES)?;
            for &(name, value) in changes {
                let name = policies::known(name)?;
                policies::set(&mut policy, name, value)?;
                table.insert(name, value)?;
            }
        }
        transaction.commit().context("cannot write the account database")?;
        *self.policy.write() = policy;
        Ok(())
    }

    /// Returns whether `hash` is one of the account's last passwords that `password history` keeps.
    pub fn had_password(&self, name: &str, hash: &NtHash) -> Result<bool> {
        let count = self.policy().password_history as usize;
        if count == 0 {
            return Ok(false);
        }
        let transaction = self.database.begin_read()?;
        let table = match transaction.open_table(HISTORY) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let Some(former) = table.get(fold(name).as_str())? else { return Ok(false) };
        let is_it = |former: &[u8]| hmac::verify(&key(&former[..SALT]), &hash.0, &former[SALT..]).is_ok();
        Ok(former.value().chunks_exact(FORMER).take(count).any(is_it))
    }

    /// Records that the account has the password `hash` from now on.
    pub fn remember_password(&self, name: &str, hash: &NtHash) -> Result<()> {
        let count = self.policy().password_history as usize;
        if count == 0 {
            return Ok(());
        }
        let mut salt = [0; SALT];
        aws_lc_rs::rand::fill(&mut salt).map_err(|_| anyhow::anyhow!("the random number generator failed"))?;
        let mut former = [&salt[..], hmac::sign(&key(&salt), &hash.0).as_ref()].concat();
        let name = fold(name);
        let transaction = self.database.begin_write()?;
        {
            let mut table = transaction.open_table(HISTORY)?;
            if let Some(before) = table.get(name.as_str())? {
                former.extend_from_slice(before.value());
            }
            former.truncate(count * FORMER);
            table.insert(name.as_str(), former.as_slice())?;
        }
        transaction.commit().context("cannot write the account database")?;
        Ok(())
    }

    /// Removes the history of a deleted account, because a later account of that name is a different user.
    pub fn forget_passwords(&self, name: &str) -> Result<()> {
        let read = self.database.begin_read()?;
        let known = match read.open_table(HISTORY) {
            Ok(table) => table.get(fold(name).as_str())?.is_some(),
            Err(TableError::TableDoesNotExist(_)) => false,
            Err(error) => return Err(error.into()),
        };
        if known {
            let transaction = self.database.begin_write()?;
            transaction.open_table(HISTORY)?.remove(fold(name).as_str())?;
            transaction.commit().context("cannot write the account database")?;
        }
        Ok(())
    }
}

fn key(salt: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, salt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::nt_hash;
    use crate::state_dir::StateDir;

    #[test]
    fn policies_survive_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::create(dir.path()).unwrap();
        let store = Store::open(&state).unwrap();
        assert_eq!(store.policy(), AccountPolicy::default());
        store.set_policy("Bad Lockout Attempt", 7).unwrap();
        assert!(store.set_policy("bad lockout attempt", -7).is_err());
        drop(store);
        let store = Store::open(&state).unwrap();
        assert_eq!(store.policy(), AccountPolicy { lockout_attempts: 7, ..AccountPolicy::default() });
    }

    #[test]
    fn the_latest_passwords_are_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&StateDir::create(dir.path()).unwrap()).unwrap();
        let hash = |number: u32| nt_hash(&format!("password {number}")).unwrap();
        store.remember_password("ann", &hash(0)).unwrap();
        assert!(!store.had_password("ann", &hash(0)).unwrap(), "without a policy there is no history");
        store.set_policy("password history", 3).unwrap();
        for number in 1..=5 {
            store.remember_password("Ann", &hash(number)).unwrap();
        }
        let had: Vec<u32> = (0..8).filter(|number| store.had_password("aNN", &hash(*number)).unwrap()).collect();
        assert_eq!(had, [3, 4, 5]);
        assert!(!store.had_password("bob", &hash(5)).unwrap());
        store.set_policy("password history", 1).unwrap();
        assert!(!store.had_password("ann", &hash(4)).unwrap() && store.had_password("ann", &hash(5)).unwrap());
        store.forget_passwords("ann").unwrap();
        store.forget_passwords("ann").unwrap();
        assert!(!store.had_password("ann", &hash(5)).unwrap());
    }
}
