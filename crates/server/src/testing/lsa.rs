//! The database of the local security authority for tests.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use proto::dtyp::Sid;

use crate::accounts::NotDone;
use crate::accounts::lsa::{AccountRights, LsaDatabase, RightsChange, Secret, SecretChange};
use crate::answer::Answer;

/// A database in memory.
#[derive(Default)]
pub struct MemoryLsa {
    rights: Mutex<BTreeMap<Sid, AccountRights>>,
    secrets: Mutex<BTreeMap<String, Secret>>,
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

impl LsaDatabase for MemoryLsa {
    fn rights(&self, sid: &Sid) -> Option<AccountRights> {
        self.rights.lock().get(sid).cloned()
    }

    fn all_rights(&self) -> Vec<(Sid, AccountRights)> {
        self.rights.lock().iter().map(|(sid, rights)| (*sid, rights.clone())).collect()
    }

    fn change_rights(&self, sid: &Sid, change: RightsChange) -> Answer<Result<(), NotDone>> {
        let mut all = self.rights.lock();
        let changed = change.apply(all.get(sid).cloned());
        Answer::now(changed.map(|after| put(&mut all, *sid, after)))
    }

    fn secret(&self, name: &str) -> Answer<Result<Secret, NotDone>> {
        Answer::now(self.secrets.lock().get(name).cloned().ok_or(NotDone::NotFound))
    }

    fn change_secret(&self, name: &str, change: SecretChange) -> Answer<Result<(), NotDone>> {
        let mut all = self.secrets.lock();
        let changed = change.apply(all.get(name).cloned());
        Answer::now(changed.map(|after| put(&mut all, name.to_owned(), after)))
    }
}
