//! Changes of groups in the directory, for `frevo group`.
//!
//! As with `net groupmap`, the `posixGroup` with the gid also becomes a `sambaGroupMapping`. If there is none, a
//! separate entry maps the SID to the host's group. When a group is removed, its `posixGroup` and members remain.

use anyhow::{Context, Result, bail, ensure};
use proto::dtyp::Sid;
use server::policy::fold;
use zeroize::Zeroizing;

use super::change::done;
use super::mapping::{self, read};
use super::people::People;
use crate::groups::{Group, GroupKind, NewSid, Wanted};
use ldap::Reply;
use ldap::message::{Change, ChangeKind, Filter, Request, ResultCode, SearchResultEntry};

/// The class of groups with SIDs.
const MAPPING: &str = "sambaGroupMapping";
/// The class of Linux groups.
const POSIX: &str = "posixGroup";
/// The class of an entry that consists only of a SID.
const SID_ENTRY: &str = "sambaSidEntry";
/// The attributes that are fetched to change a group.
const ATTRIBUTES: &[&str] =
    &["objectClass", "cn", "gidNumber", "sambaSID", "sambaGroupType", "sambaSIDList", "displayName", "description"];
/// The same with the group's members, which may be many.
const WITH_MEMBERS: &[&str] =
    &["objectClass", "cn", "gidNumber", "sambaSID", "sambaGroupType", "displayName", "description", "memberUid"];

impl People {
    /// Returns all groups with SIDs, in the order of their SIDs.
    pub(super) async fn mapped_groups(&self) -> Result<Vec<Group>> {
        let filter = Filter::Equal("objectClass", MAPPING.into());
        let found = self.every(&self.settings.group_suffix, filter, mapping::ATTRIBUTES).await?;
        let mut groups: Vec<Group> = found.iter().filter_map(read).collect();
        groups.sort_by_key(|group| group.sid);
        Ok(groups)
    }

    /// Returns the entry of the group with the Windows name `name`.
    async fn mapped(
        &self,
        name: &str,
        attributes: &'static [&'static str],
    ) -> Result<Option<(SearchResultEntry, Group)>> {
        let named =
            Filter::Or(vec![Filter::Equal("displayName", name.to_owned()), Filter::Equal("cn", name.to_owned())]);
        let filter = Filter::And(vec![Filter::Equal("objectClass", MAPPING.into()), named]);
        let found = self.search(&self.settings.group_suffix, filter, attributes, 0).await?;
        let is_it = |entry: SearchResultEntry| {
            let group = read(&entry).filter(|group| fold(&group.name) == fold(name))?;
            Some((entry, group))
        };
        let mut groups: Vec<(SearchResultEntry, Group)> = found.into_iter().filter_map(is_it).collect();
        ensure!(groups.len() < 2, "the directory has more than one group {name:?}: {} is one of them", groups[0].0.dn);
        Ok(groups.pop())
    }

    /// Returns the group with the Windows name `name`.
    pub(super) async fn mapped_group(&self, name: &str) -> Result<Option<Group>> {
        Ok(self.mapped(name, ATTRIBUTES).await?.map(|(_, group)| group))
    }

    /// Adds a group.
    pub(super) async fn add_group(&self, wanted: Wanted) -> Result<Group> {
        let there = self.of_linux(wanted.gid).await?;
        if let Some(there) = self.mapped_group(&wanted.name).await? {
            bail!("group {:?} ({}, gid {}) exists already", there.name, there.sid, there.gid);
        }
        let sid = self.sid_for(&wanted).await?;
        let Wanted { name, gid, kind, comment, .. } = wanted;
        let group = Group { name, sid, gid, kind, comment };
        group.check(self.own.get())?;
        ensure!(gid != 0, "gid 0 is root's group and is not allowed for a group of a directory");
        self.refuse_used(&group.sid).await?;
        let changes = attributes(&group, there.as_ref());
        let (dn, reply) = match there {
            Some(entry) => {
                let request = Request::Modify { dn: &entry.dn, changes: &changes };
                let reply = self.change_group(&request).await?;
                (entry.dn, reply)
            }
            None => {
                let dn = format!("sambaSID={},{}", group.sid, self.settings.group_suffix);
                let reply = self.change_group(&Request::Add { dn: &dn, attributes: &entry(&group, changes) }).await?;
                (dn, reply)
            }
        };
        made(reply, &dn)?;
        let found = self.mapped_group(&group.name).await?;
        found.with_context(|| format!("{dn} was added but is not found: check `ldap group suffix`"))
    }

    /// Removes the SID of a group; `false` if there is no group of that name.
    pub(super) async fn remove_group(&self, name: &str) -> Result<bool> {
        let Some((entry, group)) = self.mapped(name, ATTRIBUTES).await? else { return Ok(false) };
        let of_linux = entry.all("objectClass").any(|class| class.eq_ignore_ascii_case(POSIX));
        let reply = match others_class(&entry) {
            _ if of_linux => {
                let changes = mapping_removals(&entry);
                self.change_group(&Request::Modify { dn: &entry.dn, changes: &changes }).await?
            }
            None => self.change_group(&Request::Delete { dn: &entry.dn }).await?,
            Some(class) => bail!(
                "{} also has the class {class} and would be deleted: remove the class {MAPPING} and its attributes \
                 with ldapmodify",
                entry.dn
            ),
        };
        match reply.outcome.code {
            ResultCode::NO_SUCH_OBJECT => Ok(false),
            ResultCode::NO_SUCH_ATTRIBUTE => {
                bail!("group {name:?} ({}) was changed concurrently: try again", group.sid)
            }
            _ => made(reply, &entry.dn).map(|()| true),
        }
    }

    /// Changes the name or comment of a group; `None` if there is no group of that name.
    pub(super) async fn edit_group(
        &self,
        name: &str,
        new_name: Option<String>,
        comment: Option<String>,
    ) -> Result<Option<Group>> {
        let Some((entry, before)) = self.mapped(name, ATTRIBUTES).await? else { return Ok(None) };
        let mut group = before.clone();
        group.name = new_name.unwrap_or(group.name);
        group.comment = comment.unwrap_or(group.comment);
        group.check(self.own.get())?;
        if fold(&group.name) != fold(name)
            && let Some(there) = self.mapped_group(&group.name).await?
        {
            bail!("group {:?} ({}, gid {}) exists already", there.name, there.sid, there.gid);
        }
        let mut changes = Vec::new();
        if group.name != before.name {
            changes.push(Change::new(ChangeKind::Replace, "displayName", group.name.clone()));
        }
        if group.comment != before.comment {
            changes.extend(described(&entry, &group.comment));
        }
        if !changes.is_empty() {
            let reply = self.change_group(&Request::Modify { dn: &entry.dn, changes: &changes }).await?;
            made(reply, &entry.dn)?;
        }
        Ok(Some(group))
    }

    /// Adds members to the `posixGroup` of a group, removes others, and returns the resulting members. `None` if there
    /// is no group of that name.
    pub(super) async fn group_members(
        &self,
        name: &str,
        add: &[String],
        remove: &[String],
    ) -> Result<Option<Vec<String>>> {
        let Some((entry, group)) = self.mapped(name, WITH_MEMBERS).await? else { return Ok(None) };
        let is_posix = entry.all("objectClass").any(|class| class.eq_ignore_ascii_case(POSIX));
        ensure!(
            is_posix,
            "the directory has no posixGroup with gidNumber {}: change the members of the host's group of {name:?}",
            group.gid
        );
        let has = |user: &&String| entry.all("memberUid").any(|member| member == user.as_str());
        if let Some(stranger) = remove.iter().find(|user| !has(user)) {
            bail!("{stranger:?} is not a listed member of {name:?}; users are not listed in their primary group");
        }
        for user in add {
            ensure!(self.has_user(user).await?, "the directory has no user {user:?} (posixAccount with that uid)");
        }
        let change = |kind| move |user: &String| Change::new(kind, "memberUid", user.clone());
        let mut changes: Vec<Change> = add.iter().filter(|user| !has(user)).map(change(ChangeKind::Add)).collect();
        changes.extend(remove.iter().map(change(ChangeKind::Delete)));
        if !changes.is_empty() {
            let reply = self.change_group(&Request::Modify { dn: &entry.dn, changes: &changes }).await;
            add.iter().chain(remove).for_each(|user| self.cache.forget(user));
            made(reply?, &entry.dn)?;
        }
        let mut members: Vec<String> = match self.mapped(name, WITH_MEMBERS).await? {
            Some((entry, _)) => entry.all("memberUid").map(str::to_owned).collect(),
            None => Vec::new(),
        };
        members.sort_unstable();
        Ok(Some(members))
    }

    /// Returns the `posixGroup` with this gid if it has no SID yet; an error if it has one.
    async fn of_linux(&self, gid: u32) -> Result<Option<SearchResultEntry>> {
        let filter = Filter::Equal("gidNumber", gid.to_string());
        let of_groups =
            Filter::Or(vec![Filter::Equal("objectClass", POSIX.into()), Filter::Equal("objectClass", MAPPING.into())]);
        let filter = Filter::And(vec![filter, of_groups]);
        let mut found = self.search(&self.settings.group_suffix, filter, ATTRIBUTES, 0).await?;
        if let Some(there) = found.iter().find_map(read) {
            bail!("group {:?} ({}, gid {}) exists already", there.name, there.sid, there.gid);
        }
        ensure!(found.len() < 2, "the directory has more than one group with gidNumber {gid}: {} is one", found[0].dn);
        Ok(found.pop())
    }

    async fn sid_for(&self, wanted: &Wanted) -> Result<Sid> {
        match (&wanted.sid, wanted.kind) {
            (NewSid::Whole(sid), _) => Ok(*sid),
            (NewSid::Rid(rid), GroupKind::Builtin) => Ok(Sid::of(5, [32, *rid])),
            (NewSid::Rid(rid), _) => {
                let domain = self.domain_sid().await?;
                format!("{domain}-{rid}").parse().context("the domain's sambaSID is not a SID")
            }
            (NewSid::Next, GroupKind::Builtin) => bail!("a builtin group needs a SID: add --sid S-1-5-32-..."),
            (NewSid::Next, _) => self.new_sid().await,
        }
    }

    async fn refuse_used(&self, sid: &Sid) -> Result<()> {
        let filter = Filter::Equal("sambaSID", sid.to_string());
        match self.search(&self.settings.suffix, filter, &["1.1"], 1).await?.first() {
            Some(other) => bail!("{sid} is the SID of {}", other.dn),
            None => Ok(()),
        }
    }

    /// Sends a change and invalidates the caches of groups in any case.
    async fn change_group(&self, request: &Request<'_>) -> Result<Reply> {
        let reply = self.change(request).await;
        self.mappings.forget();
        self.groups.forget();
        reply
    }
}

/// Returns the attributes that make `there`, or a new entry, the group.
fn attributes(group: &Group, there: Option<&SearchResultEntry>) -> Vec<Change> {
    let add = |attribute, value: String| Change::new(ChangeKind::Add, attribute, value);
    let kind = match group.kind {
        GroupKind::Domain => "2",
        GroupKind::Local => "4",
        GroupKind::Builtin => "5",
    };
    let mut attributes = vec![
        add("objectClass", MAPPING.into()),
        add("sambaSID", group.sid.to_string()),
        add("sambaGroupType", kind.into()),
        // A Linux group may have a displayName from other software.
        Change::new(ChangeKind::Replace, "displayName", group.name.clone()),
    ];
    match there {
        _ if group.comment.is_empty() => {}
        Some(entry) => attributes.extend(described(entry, &group.comment)),
        None => attributes.push(add("description", group.comment.clone())),
    }
    attributes
}

/// Returns the changes that replace the displayed comment. Further descriptions of the entry are preserved.
fn described(entry: &SearchResultEntry, comment: &str) -> Vec<Change> {
    let before = entry.first("description");
    if before.unwrap_or_default() == comment {
        return Vec::new();
    }
    let gone = before.map(|before| Change::new(ChangeKind::Delete, "description", before));
    let is_there = entry.all("description").any(|text| text == comment);
    let new = (!comment.is_empty() && !is_there).then(|| Change::new(ChangeKind::Add, "description", comment));
    gone.into_iter().chain(new).collect()
}

/// Returns a class of an entry that shows that it is also used for something else.
fn others_class(entry: &SearchResultEntry) -> Option<&str> {
    let own = |class: &&str| [MAPPING, SID_ENTRY, "top"].iter().any(|own| class.eq_ignore_ascii_case(own));
    entry.all("objectClass").find(|class| !own(class))
}

/// Returns a complete entry, for a group that exists only on the host.
fn entry(group: &Group, changes: Vec<Change>) -> Vec<(&'static str, Vec<Zeroizing<String>>)> {
    let own = |text: &str| Zeroizing::new(text.to_owned());
    let mut entry = vec![("gidNumber", vec![own(&group.gid.to_string())])];
    for change in changes {
        match change.attribute {
            "objectClass" => entry.push(("objectClass", vec![own(SID_ENTRY), own(MAPPING)])),
            attribute => entry.push((attribute, change.values)),
        }
    }
    entry
}

/// Returns the changes that remove a mapping. The description also belongs to the Linux group and remains.
fn mapping_removals(entry: &SearchResultEntry) -> Vec<Change> {
    let mut changes = vec![Change::new(ChangeKind::Delete, "objectClass", MAPPING)];
    for attribute in ["sambaSID", "sambaGroupType", "displayName"] {
        changes.extend(entry.first(attribute).map(|value| Change::new(ChangeKind::Delete, attribute, value)));
    }
    changes.extend(entry.first("sambaSIDList").map(|_| Change::clear("sambaSIDList")));
    changes
}

fn made(reply: Reply, dn: &str) -> Result<()> {
    match reply.outcome.code {
        ResultCode::NO_SUCH_OBJECT => bail!("the parent of {dn} does not exist: check `ldap group suffix`"),
        ResultCode::ENTRY_ALREADY_EXISTS => bail!("the directory already has an entry {dn}"),
        _ => done(reply, dn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_with_other_object_classes_are_recognized() {
        let class = |classes: &[&str]| {
            let classes: Vec<_> = classes.iter().map(|class| ("objectClass", *class)).collect();
            others_class(&SearchResultEntry::of("x", &classes)).map(str::to_owned)
        };
        assert_eq!(class(&["top", "sambaSidEntry", "SambaGroupMapping"]), None);
        assert_eq!(class(&["top", "groupOfNames", "sambaGroupMapping"]).as_deref(), Some("groupOfNames"));
    }

    #[test]
    fn a_new_comment_replaces_only_the_displayed_one() {
        let check = |there: &[&str], comment: &str, expected: &[(ChangeKind, &str)]| {
            let there: Vec<_> = there.iter().map(|text| ("description", *text)).collect();
            let changes = described(&SearchResultEntry::of("x", &there), comment);
            let changes: Vec<_> =
                changes.iter().map(|change| (change.kind as i32, change.values[0].as_str())).collect();
            let expected: Vec<_> = expected.iter().map(|(kind, text)| (*kind as i32, *text)).collect();
            assert_eq!(changes, expected, "{there:?} {comment:?}");
        };
        check(&[], "", &[]);
        check(&[], "a", &[(ChangeKind::Add, "a")]);
        check(&["a"], "a", &[]);
        check(&["a", "b"], "c", &[(ChangeKind::Delete, "a"), (ChangeKind::Add, "c")]);
        check(&["a", "b"], "b", &[(ChangeKind::Delete, "a")]);
        check(&["a", "b"], "", &[(ChangeKind::Delete, "a")]);
    }
}
