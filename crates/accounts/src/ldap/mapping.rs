//! Groups with SIDs: `sambaGroupMapping`, as written by `net groupmap`.
//!
//! The search for an account's groups also returns their mappings, so a logon needs no further queries for them.

use std::sync::Arc;

use anyhow::Result;
use proto::dtyp::Sid;
use server::accounts::Unavailable;
use server::policy::fold;

use super::cache::{Kept, STALE};
use super::people::{People, unavailable};
use crate::groups::{Group, GroupKey, GroupKind};
use ldap::message::{Filter, SearchResultEntry};

/// The attributes that are fetched for a group.
pub(super) const ATTRIBUTES: &[&str] = &["cn", "gidNumber", "sambaSID", "sambaGroupType", "displayName", "description"];

/// How long a mapping is cached, or that there is none.
const KEPT: std::time::Duration = std::time::Duration::from_secs(60);

/// Cached groups by key.
pub(super) struct Mappings(Kept<GroupKey, Option<Arc<Group>>>);

impl Mappings {
    pub(super) fn new() -> Mappings {
        Mappings(Kept::new())
    }

    /// Returns a cached answer.
    pub(super) fn fresh(&self, key: &GroupKey) -> Option<Option<Arc<Group>>> {
        self.0.get(&folded(key), |_| KEPT)
    }

    /// Invalidates all cached groups.
    pub(super) fn forget(&self) {
        self.0.clear();
    }

    /// Caches the group of a `posixGroup`, mapped or not.
    pub(super) fn note(&self, gid: u32, found: &SearchResultEntry) {
        self.0.put(GroupKey::Gid(gid), read(found).map(Arc::new), STALE);
    }

    /// Caches the group with `sid`, or that there is none.
    pub(super) fn note_sid(&self, sid: Sid, found: Option<&SearchResultEntry>) {
        self.0.put(GroupKey::Sid(sid), found.and_then(read).map(Arc::new), STALE);
    }
}

impl People {
    /// Returns the group for `key`; while no server answers, the last known one.
    pub(super) async fn group(&self, key: GroupKey) -> Result<Option<Arc<Group>>, Unavailable> {
        match self.search_group(&key).await {
            Ok(group) => {
                self.mappings.0.put(folded(&key), group.clone(), STALE);
                Ok(group)
            }
            Err(error) => match self.mappings.0.get(&folded(&key), |_| STALE) {
                Some(kept) => Ok(kept),
                None => Err(unavailable(error)),
            },
        }
    }

    async fn search_group(&self, key: &GroupKey) -> Result<Option<Arc<Group>>> {
        let named = match key {
            GroupKey::Sid(sid) => Filter::Equal("sambaSID", sid.to_string()),
            GroupKey::Gid(gid) => Filter::Equal("gidNumber", gid.to_string()),
            GroupKey::Name(name) => {
                Filter::Or(vec![Filter::Equal("displayName", name.clone()), Filter::Equal("cn", name.clone())])
            }
        };
        let filter = Filter::And(vec![Filter::Equal("objectClass", "sambaGroupMapping".into()), named]);
        let found = self.search(&self.settings.group_suffix, filter, ATTRIBUTES, 2).await?;
        let [one] = &found[..] else { return Ok(None) };
        Ok(read(one).filter(|group| fits(group, key)).map(Arc::new))
    }
}

/// Returns whether the group matches `key`. A name may match a group's Linux name, which is not its Windows name.
fn fits(group: &Group, key: &GroupKey) -> bool {
    match key {
        GroupKey::Name(name) => fold(&group.name) == fold(name),
        GroupKey::Sid(_) | GroupKey::Gid(_) => true,
    }
}

fn folded(key: &GroupKey) -> GroupKey {
    match key {
        GroupKey::Name(name) => GroupKey::Name(fold(name)),
        other => other.clone(),
    }
}

/// Returns the group in an entry; `None` without a mapping. Group 0 is root's and is refused.
pub(super) fn read(found: &SearchResultEntry) -> Option<Group> {
    let gid = found.first("gidNumber")?.parse().ok().filter(|gid| ![0, u32::MAX].contains(gid))?;
    let kind = match found.first("sambaGroupType")? {
        "2" => GroupKind::Domain,
        "5" => GroupKind::Builtin,
        _ => GroupKind::Local,
    };
    let name = found.first("displayName").or_else(|| found.first("cn"))?.to_owned();
    let comment = found.first("description").unwrap_or_default().to_owned();
    Some(Group { name, sid: found.first("sambaSID")?.parse().ok()?, gid, kind, comment })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_requires_a_sid_a_type_and_a_gid() {
        let all = [
            ("cn", "crew"),
            ("gidNumber", "7"),
            ("sambaSID", "S-1-5-21-1-2-3-1007"),
            ("sambaGroupType", "2"),
            ("displayName", "The Crew"),
        ];
        let group = read(&SearchResultEntry::of("cn=crew", &all)).unwrap();
        assert_eq!((group.name.as_str(), group.gid, group.kind), ("The Crew", 7, GroupKind::Domain));
        assert!(fits(&group, &GroupKey::Name("the crew".into())) && !fits(&group, &GroupKey::Name("crew".into())));
        for missing in ["gidNumber", "sambaSID", "sambaGroupType"] {
            let rest: Vec<_> = all.iter().copied().filter(|(name, _)| *name != missing).collect();
            assert!(read(&SearchResultEntry::of("x", &rest)).is_none(), "{missing}");
        }
        let root: Vec<_> =
            all.iter().map(|(name, value)| (*name, if *name == "gidNumber" { "0" } else { value })).collect();
        assert!(read(&SearchResultEntry::of("x", &root)).is_none());
    }
}
