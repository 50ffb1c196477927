//! The ACLs of shares: the table of their security descriptors, and the copy in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use proto::dtyp::SecurityDescriptor;
use proto::dtyp::sddl::{self, Domains};
use redb::{ReadTransaction, ReadableTable, TableDefinition, TableError};
use server::policy::fold;

use super::Store;
use crate::records::ShareAcl;

/// Folded name of a share -> its name as written, a line feed, and its descriptor in SDDL.
pub(super) const SHARE_ACLS: TableDefinition<&str, &str> = TableDefinition::new("share acls");

/// Descriptors by the folded names of the shares.
pub(super) type ShareAcls = BTreeMap<String, Arc<StoredAcl>>;

/// A share's descriptor.
#[derive(Debug)]
pub(super) struct StoredAcl {
    /// The share's name and the text.
    pub(super) written: ShareAcl,
    /// The text, parsed.
    pub(super) descriptor: Arc<SecurityDescriptor>,
}

impl StoredAcl {
    /// Parses the descriptor of a share. Aliases for SIDs of a domain are not accepted, because a machine's SID can
    /// change.
    pub(super) fn parse(share: &str, text: &str) -> Result<StoredAcl> {
        let descriptor = sddl::decode(text, &Domains::default())
            .with_context(|| format!("the ACL of the share {share:?} is not valid"))?;
        let written = ShareAcl { share: share.to_owned(), sddl: text.to_owned() };
        Ok(StoredAcl { written, descriptor: Arc::new(descriptor) })
    }

    /// Same as [`StoredAcl::parse`] for a new descriptor. Like Samba's sharesec, it refuses IPC$.
    pub(super) fn new(share: &str, text: &str) -> Result<StoredAcl> {
        ensure!(
            fold(share) != "ipc$",
            "IPC$ cannot have an ACL, because it has no files; use `restrict anonymous` for anonymous clients, and \
             `hosts allow` in [global] for hosts"
        );
        StoredAcl::parse(share, text)
    }

    /// Returns the value in the table.
    pub(super) fn value(&self) -> String {
        format!("{}\n{}", self.written.share, self.written.sddl)
    }
}

/// Reads the descriptors; a database that is older than this table has none.
pub(super) fn load(transaction: &ReadTransaction) -> Result<ShareAcls> {
    let table = match transaction.open_table(SHARE_ACLS) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => return Ok(ShareAcls::new()),
        Err(error) => return Err(error.into()),
    };
    let mut acls = ShareAcls::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        let (share, text) = value.value().split_once('\n').context("damaged: the ACL of a share has no name")?;
        acls.insert(key.value().to_owned(), Arc::new(StoredAcl::parse(share, text)?));
    }
    Ok(acls)
}

impl Store {
    /// Returns the ACLs of shares, in the order of the shares' names.
    pub fn share_acls(&self) -> Vec<ShareAcl> {
        self.share_acls.read().values().map(|acl| acl.written.clone()).collect()
    }

    /// Returns the descriptor of a share; `None` if it has none, so that every user may connect.
    pub fn share_acl(&self, share: &str) -> Option<Arc<SecurityDescriptor>> {
        self.share_acls.read().get(&fold(share)).map(|acl| acl.descriptor.clone())
    }

    /// Sets the ACL of a share in SDDL, or removes it. Returns whether there was one.
    pub fn set_share_acl(&self, share: &str, text: Option<&str>) -> Result<bool> {
        let _alone = self.next_rid.lock();
        let acl = text.map(|text| StoredAcl::new(share, text)).transpose()?;
        let key = fold(share);
        let transaction = self.database.begin_write()?;
        {
            let mut table = transaction.open_table(SHARE_ACLS)?;
            match &acl {
                Some(acl) => _ = table.insert(key.as_str(), acl.value().as_str())?,
                None => _ = table.remove(key.as_str())?,
            }
        }
        transaction.commit().context("cannot write the account database")?;
        let mut acls = self.share_acls.write();
        let before = match acl {
            Some(acl) => acls.insert(key, Arc::new(acl)),
            None => acls.remove(&key),
        };
        Ok(before.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state_dir::StateDir;

    #[test]
    fn share_acls_survive_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::create(dir.path()).unwrap();
        let store = Store::open(&state).unwrap();
        assert!(!store.set_share_acl("Data", Some("D:(A;;FA;;;WD)")).unwrap());
        assert!(store.set_share_acl("other", Some("D:(A;;FA;;;LA)")).is_err(), "LA depends on the machine's SID");
        assert!(store.set_share_acl("other", Some("nonsense")).is_err());
        let refused = store.set_share_acl("ipc$", Some("D:(A;;FA;;;WD)")).unwrap_err().to_string();
        assert!(refused.contains("restrict anonymous"), "{refused}");
        drop(store);
        let store = Store::open(&state).unwrap();
        assert_eq!(store.share_acls(), [ShareAcl { share: "Data".into(), sddl: "D:(A;;FA;;;WD)".into() }]);
        assert!(store.share_acl("DATA").is_some_and(|found| found.dacl.is_some()));
        assert!(store.set_share_acl("data", None).unwrap() && store.share_acl("data").is_none());
        drop(store);
        assert!(Store::open(&state).unwrap().share_acls().is_empty());
    }
}
