//! Migration from another server, and the export of what is here for the way back.

use std::sync::Arc;

use anyhow::{Result, ensure};
use proto::dtyp::{SecurityDescriptor, Sid};
use server::policy::ShareAcls;

use super::backend::Entry;
use super::embedded::{GroupWanted, Plan};
use super::groups::Group;
use super::records::{IMPORT_BATCH, Imported, Migrated, Migration, MigrationOutcome, NewGroup, ShareAcl};
use super::{Directory, key, machine_sid, unavailable};
use crate::record::Record;

impl Directory {
    /// Migrates what another server has, in one step. Blocks.
    pub fn migrate(&self, migration: Migration, dry_run: bool) -> Result<MigrationOutcome> {
        let Migration { machine_sid, accounts, groups, policies, share_acls } = migration;
        ensure!(
            accounts.is_empty() || std::ptr::addr_eq(self.first_backend()?, &*self.own),
            "accounts can be migrated only into the embedded database (`passdb backend = tdbsam`)"
        );
        let machine_sid = machine_sid::read(&machine_sid)?;
        let groups = groups.into_iter().map(|group| self.group_wanted(group)).collect();
        let check = |record: &Record| -> Result<Option<String>> {
            let found = self.users.glance_blocking(&key(record)).map_err(unavailable)?;
            Ok(found.err().map(|why| format!("cannot log on: {why}")))
        };
        let plan = Plan { machine_sid, accounts, groups, policies, share_acls };
        self.own.migrate(plan, dry_run, &check, || self.elsewhere(machine_sid))
    }

    fn group_wanted(&self, new: NewGroup) -> GroupWanted {
        let text = new.sid.unwrap_or_default();
        let sid = text.parse::<Sid>().map_err(|_| format!("{text:?} is not a SID"))?;
        let gid = self.gid_of(&new.unix_group).map_err(|why| format!("{why:#}"))?;
        Ok(Group { name: new.name, sid, gid, kind: new.kind, comment: new.comment })
    }

    /// Returns accounts after the name `after` with everything that another server needs, in the order of their names.
    /// The result is empty at the end. Blocks.
    pub fn export(&self, after: Option<&str>) -> Result<Vec<Migrated>> {
        Ok(self.page(after, IMPORT_BATCH)?.iter().map(exported).collect())
    }

    /// Returns the ACLs of shares after setting or removing one. Blocks.
    pub fn share_acls(&self, set: Option<(String, Option<String>)>) -> Result<Vec<ShareAcl>> {
        if let Some((share, text)) = set {
            let existed = self.own.set_share_acl(&share, text.as_deref())?;
            ensure!(existed || text.is_some(), "the share {share:?} has no ACL");
        }
        Ok(self.own.share_acls())
    }
}

impl ShareAcls for Directory {
    fn acl_of(&self, share: &str) -> Option<Arc<SecurityDescriptor>> {
        self.own.share_acl(share)
    }
}

fn exported(entry: &Entry) -> Migrated {
    let record = &entry.record;
    Migrated {
        account: Imported {
            name: record.name.clone(),
            nt_hash: record.nt_hash.clone(),
            disabled: record.disabled,
            locked: record.locked,
            must_change: record.must_change,
            never_expires: record.never_expires,
            password_last_set: record.password_last_set,
        },
        sid: entry.sid.to_string(),
        full_name: record.full_name.clone(),
        expires: entry.ends,
    }
}

#[cfg(test)]
mod tests;
