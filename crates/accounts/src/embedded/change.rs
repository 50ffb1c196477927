//! Changes of the account database, each in one transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result};
use proto::dtyp::Sid;
use server::accounts::DomainSid;
use server::policy::fold;

use super::migration::More;
use super::{ACCOUNTS, FORMER_SIDS, META, Store, domain};
use crate::backend::{self, Check};
use crate::record::Record;
use crate::records::{ImportResult, Imported, Outcome};

/// Pending changes.
pub struct Change<'a> {
    pub(super) store: &'a Store,
    pub(super) changed: BTreeMap<String, Option<Arc<Record>>>,
    pub(super) sids: BTreeMap<Sid, String>,
    pub(super) forgotten: BTreeSet<String>,
    pub(super) next_rid: u32,
    pub(super) domain: Option<DomainSid>,
    pub(super) former_domains: Option<Vec<DomainSid>>,
    /// What only a migration changes.
    pub(super) more: More,
}

impl<'a> Change<'a> {
    /// Returns a change without content.
    pub(super) fn of(store: &'a Store, next_rid: u32) -> Self {
        Change {
            store,
            changed: BTreeMap::new(),
            sids: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            next_rid,
            domain: None,
            former_domains: None,
            more: More::default(),
        }
    }

    /// Returns whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty()
            && self.sids.is_empty()
            && self.forgotten.is_empty()
            && self.domain.is_none()
            && self.former_domains.is_none()
            && self.more.is_empty()
    }

    /// Returns the SID of this machine, including the pending change.
    pub(super) fn domain(&self) -> DomainSid {
        self.domain.unwrap_or_else(|| self.store.domain())
    }

    /// Writes the changes in one transaction.
    pub(super) fn commit(&self) -> Result<()> {
        let transaction = self.store.database.begin_write()?;
        {
            let mut accounts = transaction.open_table(ACCOUNTS)?;
            for (key, record) in &self.changed {
                match record {
                    Some(record) => accounts.insert(key.as_str(), record.encode().as_slice())?,
                    None => accounts.remove(key.as_str())?,
                };
            }
            let mut sids = transaction.open_table(FORMER_SIDS)?;
            let removed = self.changed.iter().filter(|(_, record)| record.is_none()).map(|(key, _)| key);
            for key in removed.chain(&self.forgotten) {
                for sid in &*self.store.sids.read().former.of(key) {
                    sids.remove(sid.to_string().as_str())?;
                }
            }
            for (sid, key) in &self.sids {
                sids.insert(sid.to_string().as_str(), key.as_str())?;
            }
            let mut meta = transaction.open_table(META)?;
            meta.insert("next rid", self.next_rid.to_le_bytes().as_slice())?;
            if let Some(DomainSid(numbers)) = self.domain {
                let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                meta.insert("sid", bytes.as_slice())?;
            }
            if let Some(former) = &self.former_domains {
                domain::write_former(&mut meta, former)?;
            }
        }
        self.more.write(&transaction)?;
        transaction.commit()?;
        Ok(())
    }

    /// Returns the account called `name`, including the pending changes.
    pub fn get(&self, name: &str) -> Option<Arc<Record>> {
        let key = fold(name);
        match self.changed.get(&key) {
            Some(record) => record.clone(),
            None => self.store.accounts.read().get(&key).cloned(),
        }
    }

    /// Stores `record` under its name and replaces an existing record.
    pub fn put(&mut self, record: Record) {
        self.changed.insert(fold(&record.name), Some(Arc::new(record)));
    }

    /// Removes the account called `name`.
    pub fn remove(&mut self, name: &str) {
        self.changed.insert(fold(name), None);
    }

    /// Records that the account called `name` had this SID on another server.
    pub fn put_sid(&mut self, sid: Sid, name: &str) {
        self.sids.insert(sid, fold(name));
    }

    /// Returns a RID that no account has or had, and no group has.
    pub fn new_rid(&mut self) -> Result<u32> {
        let domain = self.domain();
        loop {
            let rid = self.store.next_free(domain, self.next_rid)?;
            self.next_rid = rid.checked_add(1).context("all RIDs are in use")?;
            if !self.sids.contains_key(&domain.with_rid(rid)) {
                return Ok(rid);
            }
        }
    }
}

pub(super) fn import_one(change: &mut Change<'_>, account: Imported, check: Check<'_>) -> Result<Outcome> {
    if let Some(skipped) = backend::misnamed(&account) {
        return Ok(skipped);
    }
    let before = change.get(&account.name);
    let (record, outcome) = backend::weigh(account, before.as_deref(), check)?;
    match outcome.result {
        ImportResult::Added => {
            let rid = change.new_rid()?;
            change.put(Record { rid, ..record });
        }
        ImportResult::Updated => change.put(record),
        ImportResult::Unchanged | ImportResult::Skipped => {}
    }
    Ok(outcome)
}
