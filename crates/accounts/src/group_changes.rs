//! Changes and lists of groups for the administrator. A new group is added to the back end of new
//! accounts if that has groups (an LDAP directory), else to the server's own database. Lists and changes include both.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use proto::dtyp::Sid;
use server::accounts::{IdMap, Unavailable};

use super::Directory;
use super::groups::{Group, GroupKey, GroupStore, NewSid, Wanted};
use super::records::{GroupView, ImportResult, LIST_PAGE, NewGroup, Outcome};
use super::unix::names::{Question, Reply};

impl Directory {
    /// Adds a group. Blocks.
    pub fn add_group(&self, new: NewGroup) -> Result<GroupView> {
        let gid = self.gid_of(&new.unix_group)?;
        let added = self.add_group_of(new, gid)?;
        Ok(self.group_view(&added))
    }

    /// Changes the name or comment of a group; `None` keeps it. Blocks.
    pub fn edit_group(&self, name: &str, new_name: Option<String>, comment: Option<String>) -> Result<GroupView> {
        let edited = self.edited_group(name, new_name, comment)?;
        Ok(self.group_view(&edited))
    }

    /// Returns up to [`LIST_PAGE`] groups after the SID `after`, in the order of their SIDs. Blocks.
    pub fn group_views(&self, after: Option<Sid>) -> Result<Vec<GroupView>> {
        Ok(self.groups_after(after)?.iter().map(|group| self.group_view(group)).collect())
    }

    /// Returns the back ends that have groups.
    fn group_stores(&self) -> impl Iterator<Item = &dyn GroupStore> {
        self.backends.iter().filter_map(|backend| backend.groups())
    }

    fn groups_after(&self, after: Option<Sid>) -> Result<Vec<Group>> {
        let mut groups: Vec<Group> =
            self.own.groups(after, LIST_PAGE).iter().map(|group| Group::clone(group)).collect();
        for store in self.group_stores() {
            groups.extend(store.all()?.into_iter().filter(|group| after.is_none_or(|after| group.sid > after)));
        }
        groups.sort_by_key(|group| group.sid);
        // If two groups have the same SID, the server's own applies.
        groups.dedup_by_key(|group| group.sid);
        groups.truncate(LIST_PAGE);
        Ok(groups)
    }

    /// Returns the groups of the back ends, by SID. Blocks.
    pub(super) fn group_sids(&self) -> Result<HashMap<Sid, String>> {
        let stores = self.group_stores().map(GroupStore::all).collect::<Result<Vec<_>>>()?;
        Ok(stores.into_iter().flatten().map(|group| (group.sid, group.name)).collect())
    }

    /// Returns the group called `name`, from any store.
    pub(super) fn group_named(&self, name: &str) -> Result<Option<Group>> {
        if let Some(group) = self.own.group(&GroupKey::Name(name.to_owned())) {
            return Ok(Some(Group::clone(&group)));
        }
        for store in self.group_stores() {
            if let Some(group) = store.named(name)? {
                return Ok(Some(group));
            }
        }
        Ok(None)
    }

    /// Returns the gid of a UNIX group given by name or number. Blocks.
    pub(super) fn gid_of(&self, group: &str) -> Result<u32> {
        let reply = self.users.names().ask_blocking(&Question::Gid(group.to_owned()));
        match reply.map_err(|Unavailable(why)| anyhow::anyhow!(why))? {
            Some(Reply::Named(_, gid)) => Ok(gid),
            _ => group.parse().ok().with_context(|| format!("the UNIX group {group:?} does not exist on this host")),
        }
    }

    fn wanted(new: NewGroup, gid: u32) -> Result<Wanted> {
        let sid = match &new.sid {
            None => NewSid::Next,
            Some(text) => match text.parse::<u32>() {
                Ok(rid) => NewSid::Rid(rid),
                Err(_) => NewSid::Whole(text.parse().ok().with_context(|| format!("{text:?} is not a SID or RID"))?),
            },
        };
        Ok(Wanted { name: new.name, sid, gid, kind: new.kind, comment: new.comment })
    }

    /// Returns `wanted` as a group of the server's own database.
    fn own_group(&self, wanted: Wanted, next: Sid) -> Group {
        let Wanted { name, gid, kind, comment, .. } = wanted;
        let sid = match wanted.sid {
            NewSid::Next => next,
            NewSid::Rid(rid) => self.domain().with_rid(rid),
            NewSid::Whole(sid) => sid,
        };
        Group { name, sid, gid, kind, comment }
    }

    fn add_group_of(&self, new: NewGroup, gid: u32) -> Result<Group> {
        if let Some((_, account)) = self.entry(&new.name)? {
            bail!("{} is an account: in Windows users and groups must have different names", account.record.name);
        }
        let wanted = Self::wanted(new, gid)?;
        let Some(store) = self.first_backend()?.groups() else {
            let added = self.own.add_group(|next| self.own_group(wanted, next))?;
            return Ok(Group::clone(&added));
        };
        // The server's own groups have priority and would hide the new one.
        let mut keys = vec![GroupKey::Name(wanted.name.clone()), GroupKey::Gid(gid)];
        keys.extend(if let NewSid::Whole(sid) = wanted.sid { Some(GroupKey::Sid(sid)) } else { None });
        if let Some(there) = keys.iter().find_map(|key| self.own.group(key)) {
            bail!(
                "group {:?} ({}, gid {}) exists already in this server's own database",
                there.name,
                there.sid,
                there.gid
            );
        }
        if let NewSid::Whole(sid) = wanted.sid {
            self.own.refuse_former(&sid)?;
        }
        store.add(wanted)
    }

    fn edited_group(&self, name: &str, new_name: Option<String>, comment: Option<String>) -> Result<Group> {
        self.refuse_own(name)?;
        if let Some(new_name) = &new_name {
            ensure!(
                self.entry(new_name)?.is_none(),
                "{new_name} is an account: users and groups must have different names"
            );
        }
        for store in self.group_stores() {
            if let Some(group) = store.edit(name, new_name.clone(), comment.clone())? {
                return Ok(group);
            }
        }
        Err(no_group(name))
    }

    /// Adds and removes members of a group. Returns its members in the order of their names. Blocks.
    pub fn group_members(&self, name: &str, add: &[String], remove: &[String]) -> Result<Vec<String>> {
        self.refuse_own(name)?;
        for store in self.group_stores() {
            if let Some(members) = store.members(name, add.to_vec(), remove.to_vec())? {
                return Ok(members);
            }
        }
        Err(no_group(name))
    }

    /// Fails if the group called `name` is in the server's own database.
    fn refuse_own(&self, name: &str) -> Result<()> {
        let Some(group) = self.own.group(&GroupKey::Name(name.to_owned())) else { return Ok(()) };
        let unix = self.group_view(&group).unix_group.unwrap_or_else(|| group.gid.to_string());
        bail!(
            "{} is in this server's own database: its members are those of the host's group {unix} (change them with \
             `gpasswd`); to change its name or comment, delete it and add it again with --sid {}",
            group.name,
            group.sid
        )
    }

    /// Removes a group; the UNIX group is kept. Blocks.
    pub fn delete_group(&self, name: &str) -> Result<()> {
        if self.own.remove_group(&GroupKey::Name(name.to_owned()))? {
            return Ok(());
        }
        for store in self.group_stores() {
            if store.remove(name)? {
                return Ok(());
            }
        }
        Err(no_group(name))
    }

    /// Imports a group of another server. Blocks.
    pub fn import_group(&self, new: NewGroup, dry_run: bool) -> Outcome {
        let done = || -> Result<ImportResult> {
            let gid = self.gid_of(&new.unix_group)?;
            let there = self.group_named(&new.name)?;
            if there.is_some_and(|there| there.gid == gid && new.sid == Some(there.sid.to_string())) {
                return Ok(ImportResult::Unchanged);
            }
            match dry_run {
                true => self.own_group(Self::wanted(new, gid)?, self.domain().with_rid(0)).check(self.domain())?,
                false => _ = self.add_group_of(new, gid)?,
            }
            Ok(ImportResult::Added)
        };
        match done() {
            Ok(result) => Outcome { result, note: None },
            Err(why) => Outcome { result: ImportResult::Skipped, note: Some(format!("{why:#}")) },
        }
    }

    fn group_view(&self, group: &Group) -> GroupView {
        let unix_group = match self.users.names().ask_blocking(&Question::Group(group.gid)) {
            Ok(Some(Reply::Named(name, _))) => Some(name),
            _ => None,
        };
        GroupView {
            name: group.name.clone(),
            sid: group.sid.to_string(),
            kind: group.kind,
            gid: group.gid,
            unix_group,
            comment: group.comment.clone(),
        }
    }
}

fn no_group(name: &str) -> anyhow::Error {
    anyhow::anyhow!("there is no group {name:?}; `frevo group list` shows all groups")
}
