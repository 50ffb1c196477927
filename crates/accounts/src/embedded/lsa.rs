//! The database of the local security authority, in separate tables: the rights of accounts, of which a copy is in
//! memory, and secrets. Secrets are stored as they are, like the hashes of passwords: only the owner of the state
//! directory can read the file.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use parking_lot::RwLock;
use proto::dtyp::{FileTime, Sid};
use redb::{ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, TableError};
use server::accounts::NotDone;
use server::accounts::lsa::{
    ACCOUNT_CAPACITY, AccountRights, RightsChange, SECRET_CAPACITY, Secret, SecretChange, SecretValue,
};
use zeroize::Zeroizing;

use super::Store;

/// SID as text -> the names of the privileges, separated by line feeds, or [`DELETED`].
const RIGHTS: TableDefinition<&str, &str> = TableDefinition::new("account rights");

/// Name -> [`encode`].
const SECRETS: TableDefinition<&str, &[u8]> = TableDefinition::new("secrets");

/// The value of an account that was deleted, but has rights by default.
const DELETED: &str = "-";

/// The rights of accounts by SID.
pub(super) type Rights = RwLock<BTreeMap<Sid, AccountRights>>;

/// Reads the rights; a database that is older than this table has none.
pub(super) fn load(transaction: &ReadTransaction) -> Result<Rights> {
    let mut rights = BTreeMap::new();
    let table = match transaction.open_table(RIGHTS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Rights::default()),
        Err(error) => return Err(error.into()),
    };
    for entry in table.iter()? {
        let (sid, text) = entry?;
        let known = sid.value().parse().with_context(|| format!("damaged SID {:?}", sid.value()))?;
        rights.insert(known, parse(text.value()));
    }
    Ok(RwLock::new(rights))
}

fn parse(text: &str) -> AccountRights {
    match text {
        DELETED => AccountRights { deleted: true, ..AccountRights::default() },
        text => AccountRights { deleted: false, privileges: text.lines().map(str::to_owned).collect() },
    }
}

fn text(rights: &AccountRights) -> String {
    if rights.deleted {
        return DELETED.to_owned();
    }
    rights.privileges.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
}

/// The two times, then each value with its length before it. The length is `u32::MAX` without a value.
fn encode(secret: &Secret) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(Vec::new());
    bytes.extend_from_slice(&secret.current_time.0.to_le_bytes());
    bytes.extend_from_slice(&secret.old_time.0.to_le_bytes());
    for value in [&secret.current, &secret.old] {
        let length = value.as_ref().map_or(u32::MAX, |value| value.0.len() as u32);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(value.as_ref().map_or(&[], |value| &value.0));
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<Secret> {
    let (current_time, rest) = bytes.split_first_chunk()?;
    let (old_time, mut rest) = rest.split_first_chunk()?;
    let mut value = || {
        let (length, after) = rest.split_first_chunk()?;
        let length = Some(u32::from_le_bytes(*length)).filter(|length| *length != u32::MAX);
        let (value, after) = after.split_at_checked(usize::try_from(length.unwrap_or(0)).ok()?)?;
        rest = after;
        Some(length.map(|_| SecretValue(value.to_vec())))
    };
    let time = |bytes: &[u8; 8]| FileTime(u64::from_le_bytes(*bytes));
    Some(Secret { current: value()?, current_time: time(current_time), old: value()?, old_time: time(old_time) })
}

fn failed(error: impl Into<anyhow::Error>) -> NotDone {
    NotDone::Unavailable(format!("the account database: {:#}", error.into()))
}

impl Store {
    /// Returns what is stored about the rights of an account.
    pub fn rights(&self, sid: &Sid) -> Option<AccountRights> {
        self.rights.read().get(sid).cloned()
    }

    /// Returns all accounts about whose rights something is stored.
    pub fn all_rights(&self) -> Vec<(Sid, AccountRights)> {
        self.rights.read().iter().map(|(sid, rights)| (*sid, rights.clone())).collect()
    }

    /// Changes the rights of an account durably.
    pub fn change_rights(&self, sid: &Sid, change: RightsChange) -> Result<(), NotDone> {
        let _alone = self.next_rid.lock();
        let before = self.rights(sid);
        let after = change.apply(before.clone())?;
        if before.is_none() && after.is_some() && self.rights.read().len() >= ACCOUNT_CAPACITY {
            return Err(NotDone::NotStored(format!("{ACCOUNT_CAPACITY} accounts have rights, which is the maximum")));
        }
        let write = || -> Result<()> {
            let transaction = self.database.begin_write()?;
            {
                let mut table = transaction.open_table(RIGHTS)?;
                match &after {
                    Some(after) => _ = table.insert(sid.to_string().as_str(), text(after).as_str())?,
                    None => _ = table.remove(sid.to_string().as_str())?,
                }
            }
            Ok(transaction.commit()?)
        };
        write().map_err(failed)?;
        let mut rights = self.rights.write();
        match after {
            Some(after) => rights.insert(*sid, after),
            None => rights.remove(sid),
        };
        Ok(())
    }

    /// Returns a secret.
    pub fn secret(&self, name: &str) -> Result<Secret, NotDone> {
        let read = || -> Result<Option<Secret>> {
            let table = match self.database.begin_read()?.open_table(SECRETS) {
                Ok(table) => table,
                Err(TableError::TableDoesNotExist(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let found = table.get(name)?;
            found.map(|found| decode(found.value()).context("damaged: a secret is invalid")).transpose()
        };
        read().map_err(failed)?.ok_or(NotDone::NotFound)
    }

    /// Changes a secret durably.
    pub fn change_secret(&self, name: &str, change: SecretChange) -> Result<(), NotDone> {
        let _alone = self.next_rid.lock();
        let before = match self.secret(name) {
            Err(NotDone::NotFound) => None,
            found => Some(found?),
        };
        let is_new = before.is_none();
        let after = change.apply(before)?;
        let write = || -> Result<bool> {
            let transaction = self.database.begin_write()?;
            {
                let mut table = transaction.open_table(SECRETS)?;
                if is_new && after.is_some() && table.len()? >= SECRET_CAPACITY as u64 {
                    return Ok(false);
                }
                match &after {
                    Some(after) => _ = table.insert(name, encode(after).as_slice())?,
                    None => _ = table.remove(name)?,
                }
            }
            transaction.commit()?;
            Ok(true)
        };
        match write().map_err(failed)? {
            true => Ok(()),
            false => Err(NotDone::NotStored(format!("there are {SECRET_CAPACITY} secrets, which is the maximum"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use server::accounts::lsa::{RightsChangeKind, SecretChangeKind};

    use super::*;
    use crate::state_dir::StateDir;

    fn secret_change(kind: SecretChangeKind) -> SecretChange {
        SecretChange { kind, now: FileTime(7) }
    }

    #[test]
    fn secrets_and_rights_survive_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::create(dir.path()).unwrap();
        let store = Store::open(&state).unwrap();
        let value = SecretValue(b"value".to_vec());
        store.change_secret("one", secret_change(SecretChangeKind::Create)).unwrap();
        assert_eq!(store.change_secret("one", secret_change(SecretChangeKind::Create)), Err(NotDone::Exists));
        let set = SecretChangeKind::Set { current: Some(value.clone()), old: Some(SecretValue(Vec::new())) };
        store.change_secret("one", secret_change(set)).unwrap();
        store.change_secret("two", secret_change(SecretChangeKind::Store(value.clone()))).unwrap();
        assert_eq!(store.secret("ONE"), Err(NotDone::NotFound), "names are case-sensitive");
        let add = |name: &str| RightsChange { kind: RightsChangeKind::Add([name.to_owned()].into()), by_default: None };
        let delete = RightsChange { kind: RightsChangeKind::Delete, by_default: Some(AccountRights::default()) };
        store.change_rights(&Sid::BUILTIN_USERS, add("a")).unwrap();
        store.change_rights(&Sid::BUILTIN_USERS, add("b")).unwrap();
        store.change_rights(&Sid::BUILTIN_GUESTS, delete).unwrap();
        let (rights, one) = (store.all_rights(), store.secret("one").unwrap());
        drop(store);
        let store = Store::open(&state).unwrap();
        assert_eq!((store.all_rights(), store.secret("one").unwrap()), (rights.clone(), one.clone()));
        assert_eq!((one.current, one.old, one.current_time), (Some(value), Some(SecretValue(Vec::new())), FileTime(7)));
        assert_eq!(rights.len(), 2);
        assert!(store.rights(&Sid::BUILTIN_GUESTS).is_some_and(|account| account.deleted));
        store.change_secret("one", secret_change(SecretChangeKind::Delete)).unwrap();
        assert_eq!(store.secret("one"), Err(NotDone::NotFound));
        assert!(store.secret("two").is_ok());
    }

    #[test]
    fn the_number_of_secrets_is_bounded() {
        let store = Store::in_memory().map_err(crate::embedded::OpenError::into_error).unwrap();
        for number in 0..SECRET_CAPACITY {
            store.change_secret(&number.to_string(), secret_change(SecretChangeKind::Create)).unwrap();
        }
        let one_more = store.change_secret("more", secret_change(SecretChangeKind::Create));
        assert!(matches!(one_more, Err(NotDone::NotStored(_))), "{one_more:?}");
        store.change_secret("0", secret_change(SecretChangeKind::Delete)).unwrap();
        store.change_secret("more", secret_change(SecretChangeKind::Create)).unwrap();
    }

    #[test]
    fn damaged_secrets_are_not_decoded() {
        let secret = Secret {
            current: Some(SecretValue(b"value".to_vec())),
            current_time: FileTime(1),
            old: None,
            old_time: FileTime(2),
        };
        let bytes = encode(&secret);
        assert_eq!(decode(&bytes), Some(secret));
        assert!((0..bytes.len()).all(|length| decode(&bytes[..length]).is_none()));
    }
}
