//! The groups in the database: their table, and the copy in memory for look-ups.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use proto::dtyp::Sid;
use redb::{ReadTransaction, ReadableTable, TableDefinition};
use server::policy::fold;

use super::{FIRST_RID, META, Store};
use crate::groups::{Group, GroupKey};

/// SID as text -> [`Group`].
pub(super) const GROUPS: TableDefinition<&str, &[u8]> = TableDefinition::new("groups");

/// Maximum number of groups of one database.
pub(super) const MOST: usize = 65_536;

/// The groups, indexed by each kind of key.
#[derive(Default)]
pub(super) struct Groups {
    by_sid: BTreeMap<Sid, Arc<Group>>,
    by_gid: HashMap<u32, Sid>,
    by_name: HashMap<String, Sid>,
}

impl Groups {
    /// Reads the groups; a database that is older than this table has none.
    pub(super) fn load(transaction: &ReadTransaction) -> Result<Groups> {
        let mut groups = Groups::default();
        let table = match transaction.open_table(GROUPS) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(groups),
            Err(error) => return Err(error.into()),
        };
        for entry in table.iter()? {
            let (key, value) = entry?;
            let group = Group::decode(value.value()).with_context(|| format!("group {:?}", key.value()))?;
            groups.insert(Arc::new(group));
        }
        Ok(groups)
    }

    pub(super) fn get(&self, key: &GroupKey) -> Option<&Arc<Group>> {
        self.by_sid.get(match key {
            GroupKey::Sid(sid) => sid,
            GroupKey::Gid(gid) => self.by_gid.get(gid)?,
            GroupKey::Name(name) => self.by_name.get(&fold(name))?,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.by_sid.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.by_sid.values()
    }

    pub(super) fn insert(&mut self, group: Arc<Group>) {
        self.by_gid.insert(group.gid, group.sid);
        self.by_name.insert(fold(&group.name), group.sid);
        self.by_sid.insert(group.sid, group);
    }

    fn remove(&mut self, group: &Group) {
        self.by_gid.remove(&group.gid);
        self.by_name.remove(&fold(&group.name));
        self.by_sid.remove(&group.sid);
    }
}

impl Store {
    /// Returns the group for `key`.
    pub fn group(&self, key: &GroupKey) -> Option<Arc<Group>> {
        self.groups.read().get(key).cloned()
    }

    /// Returns up to `count` groups with SIDs greater than `after`, in the order of their SIDs.
    pub fn groups(&self, after: Option<Sid>, count: usize) -> Vec<Arc<Group>> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.groups
            .read()
            .by_sid
            .range((from, std::ops::Bound::Unbounded))
            .take(count)
            .map(|(_, g)| g.clone())
            .collect()
    }

    /// Adds a group; one without a SID gets the next free one of the domain. SID, name and UNIX group must each be
    /// unique: a group that shares any of them with an existing one is refused.
    pub fn add_group(&self, group: impl FnOnce(Sid) -> Group) -> Result<Arc<Group>> {
        let mut next_rid = self.next_rid.lock();
        let group = Arc::new(group(self.domain().with_rid(self.next_free(self.domain(), *next_rid)?)));
        group.check(self.domain())?;
        ensure!(self.groups.read().by_sid.len() < MOST, "the database already has {MOST} groups, the maximum");
        let keys = [GroupKey::Sid(group.sid), GroupKey::Gid(group.gid), GroupKey::Name(group.name.clone())];
        if let Some(there) = keys.iter().find_map(|key| self.group(key)) {
            bail!("group {:?} ({}, gid {}) exists already", there.name, there.sid, there.gid);
        }
        if let Some(account) = self.by_sid(&group.sid) {
            bail!("{} is the SID of the account {}", group.sid, account.name);
        }
        self.refuse_former(&group.sid)?;
        // No account must ever get the RID of a group.
        let own = group.sid.rid().filter(|&rid| group.sid == self.domain().with_rid(rid));
        if let Some(rid) = own.filter(|rid| *rid >= FIRST_RID && self.free_rid(*rid) != *rid) {
            bail!("RID {rid} is even, and even RIDs belong to users in the smbpasswd file: use an odd one");
        }
        let following = own.filter(|rid| rid >= &*next_rid).map_or(Some(*next_rid), |rid| rid.checked_add(1));
        let following = following.context("all RIDs are in use")?;
        let write = || -> Result<()> {
            let transaction = self.database.begin_write()?;
            {
                let mut table = transaction.open_table(GROUPS)?;
                table.insert(group.sid.to_string().as_str(), group.encode().as_slice())?;
                transaction.open_table(META)?.insert("next rid", following.to_le_bytes().as_slice())?;
            }
            Ok(transaction.commit()?)
        };
        write().context("cannot write the account database")?;
        *next_rid = following;
        self.groups.write().insert(group.clone());
        Ok(group)
    }

    /// Fails if `sid` is one that an account had on another server, because as a group's SID it would make that account
    /// a member.
    pub fn refuse_former(&self, sid: &Sid) -> Result<()> {
        match self.former_owner(sid) {
            Some(account) => bail!("{sid} is a former SID of the account {account}"),
            None => Ok(()),
        }
    }

    /// Changes the name or comment of a group; returns `false` if it does not exist. SID, UNIX group and kind are kept.
    pub fn edit_group(&self, key: &GroupKey, edit: impl FnOnce(&mut Group)) -> Result<bool> {
        let _one_at_a_time = self.next_rid.lock();
        let Some(before) = self.group(key) else { return Ok(false) };
        let mut after = Group::clone(&before);
        edit(&mut after);
        after.check(self.domain())?;
        if let Some(there) = self.group(&GroupKey::Name(after.name.clone())).filter(|there| there.sid != before.sid) {
            bail!("group {:?} ({}, gid {}) exists already", there.name, there.sid, there.gid);
        }
        let write = || -> Result<()> {
            let transaction = self.database.begin_write()?;
            transaction.open_table(GROUPS)?.insert(after.sid.to_string().as_str(), after.encode().as_slice())?;
            Ok(transaction.commit()?)
        };
        write().context("cannot write the account database")?;
        let mut groups = self.groups.write();
        groups.remove(&before);
        groups.insert(Arc::new(after));
        Ok(true)
    }

    /// Removes a group; returns `false` if it does not exist.
    pub fn remove_group(&self, key: &GroupKey) -> Result<bool> {
        let _one_at_a_time = self.next_rid.lock();
        let Some(group) = self.group(key) else { return Ok(false) };
        let write = || -> Result<()> {
            let transaction = self.database.begin_write()?;
            transaction.open_table(GROUPS)?.remove(group.sid.to_string().as_str())?;
            Ok(transaction.commit()?)
        };
        write().context("cannot write the account database")?;
        self.groups.write().remove(&group);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::GroupKind;
    use crate::state_dir::StateDir;

    fn staff(sid: Sid) -> Group {
        Group { name: "Staff".into(), sid, gid: 50, kind: GroupKind::Domain, comment: String::new() }
    }

    #[test]
    fn groups_survive_reopening_and_reserve_their_rids() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::create(dir.path()).unwrap();
        let store = Store::open(&state).unwrap();
        let domain = store.domain();
        let added = store.add_group(staff).unwrap();
        assert_eq!(added.sid, domain.with_rid(1000));
        let far = Group { name: "Far".into(), gid: 51, ..staff(domain.with_rid(5000)) };
        store.add_group(|_| far.clone()).unwrap();
        drop(store);
        let store = Store::open(&state).unwrap();
        for key in [GroupKey::Sid(added.sid), GroupKey::Gid(50), GroupKey::Name("STAFF".into())] {
            assert_eq!(store.group(&key).unwrap(), added, "{key:?}");
        }
        assert_eq!(store.change(true, |change| change.new_rid()).unwrap(), 5001);
        assert_eq!(store.groups(None, 10).len(), 2);
        assert_eq!(*store.groups(Some(added.sid), 10)[0], far);
        assert!(store.remove_group(&GroupKey::Gid(50)).unwrap());
        assert!(!store.remove_group(&GroupKey::Name("staff".into())).unwrap());
        drop(store);
        assert_eq!(Store::open(&state).unwrap().groups(None, 10).len(), 1);
    }

    #[test]
    fn a_group_cannot_use_a_rid_reserved_for_smbpasswd_users() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&StateDir::create(dir.path()).unwrap()).unwrap();
        store.keep_to_odd_rids();
        let domain = store.domain();
        let add = |rid, gid| {
            let group = Group { name: format!("g{gid}"), gid, ..staff(domain.with_rid(rid)) };
            store.add_group(|_| group)
        };
        assert!(add(3000, 1).unwrap_err().to_string().contains("odd"));
        assert!(add(3001, 1).is_ok() && add(512, 2).is_ok());
    }

    #[test]
    fn a_sid_name_or_gid_in_use_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&StateDir::create(dir.path()).unwrap()).unwrap();
        let domain = store.domain();
        store.add_group(staff).unwrap();
        let cases = [
            Group { gid: 7, ..staff(domain.with_rid(2000)) },
            Group { name: "other".into(), ..staff(domain.with_rid(2000)) },
            Group { name: "other".into(), gid: 7, ..staff(domain.with_rid(1000)) },
        ];
        for group in cases {
            let refused = store.add_group(|_| group.clone()).unwrap_err();
            assert!(refused.to_string().contains("exists already"), "{refused:#}");
        }
        assert!(store.add_group(|_| Group { name: String::new(), gid: 7, ..staff(domain.with_rid(9)) }).is_err());
    }
}
