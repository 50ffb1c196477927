//! The UNIX groups of an account in the directory: `posixGroup` (RFC 2307) by name or distinguished name of the member,
//! and the primary group.
//!
//! One search, cached for [`KEPT`]: a change of membership affects new logons after that time, as with NSS.
//!
//! Most directories list members by name only (RFC 2307), and have no index for distinguished names, so a server would
//! scan every group for them. Therefore the server checks once an hour whether any group has such members, and omits
//! them from searches otherwise.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::Mutex;
use server::vfs::Identity;
use tokio::sync::Mutex as Turn;

use super::cache::{Kept, STALE};
use super::entry::Person;
use super::mapping;
use super::people::People;
use crate::unix::User;
use ldap::NoAnswer;
use ldap::message::{Filter, SearchResultEntry};

/// How long groups are cached.
const KEPT: Duration = Duration::from_secs(60);
/// A search that takes this long is reported.
const SLOW: Duration = Duration::from_secs(1);
/// Maximum number of groups of one account. The kernel's limit is NGROUPS_MAX, and a search returns at most 10,000.
const MOST: i32 = 10_000;

/// How long it is cached whether groups have members by distinguished name.
const HABIT: Duration = Duration::from_secs(3600);

/// Users with their groups.
pub(super) struct Groups {
    /// The number of changes of groups. A query that began before the last one may have returned old data.
    generation: Mutex<u64>,
    /// By name and ids.
    users: Kept<(String, u32, u32), Arc<User>>,
    /// Whether any group has members by distinguished name, and when that was checked.
    named: Mutex<Option<(Instant, bool)>>,
    /// Held by the task that checks it.
    turn: Turn<()>,
}

impl Groups {
    pub(super) fn new() -> Groups {
        Groups { generation: Mutex::new(0), users: Kept::new(), named: Mutex::new(None), turn: Turn::new(()) }
    }

    /// Returns the user of `person` with these ids and all groups.
    pub(super) async fn user(&self, people: &People, person: &Person, (uid, gid): (u32, u32)) -> Result<Arc<User>> {
        let key = (person.record.name.clone(), uid, gid);
        if let Some(user) = self.users.get(&key, |_| KEPT) {
            return Ok(user);
        }
        let seen = *self.generation.lock();
        match self.search(people, person, gid).await {
            Ok(found) => {
                for group in &found {
                    if let Some(gid) = number(group) {
                        people.mappings.note(gid, group);
                    }
                }
                let user = Arc::new(user(&person.record.name, uid, gid, &found));
                let generation = self.generation.lock();
                if *generation == seen {
                    self.users.put(key, user.clone(), STALE);
                }
                Ok(user)
            }
            Err(error) if error.is::<NoAnswer>() => self.users.get(&key, |_| STALE).ok_or(error),
            Err(error) => Err(error),
        }
    }

    /// Invalidates all cached groups.
    pub(super) fn forget(&self) {
        *self.generation.lock() += 1;
        self.users.clear();
    }

    async fn search(&self, people: &People, person: &Person, gid: u32) -> Result<Vec<SearchResultEntry>> {
        let mut member =
            vec![Filter::Equal("memberUid", person.record.name.clone()), Filter::Equal("gidNumber", gid.to_string())];
        if self.have_named_members(people).await? {
            member.push(Filter::Equal("member", person.dn.to_string()));
        }
        let filter = Filter::And(vec![of_linux(), Filter::Or(member)]);
        let began = Instant::now();
        let found = people.search(&people.settings.group_suffix, filter, mapping::ATTRIBUTES, MOST).await;
        if began.elapsed() > SLOW {
            tracing::warn!(
                took = ?began.elapsed(),
                "the LDAP directory is slow to find groups: check that memberUid, gidNumber and member are indexed"
            );
        }
        found
    }

    async fn have_named_members(&self, people: &People) -> Result<bool> {
        let known = || *self.named.lock();
        let _turn = match known() {
            Some((since, named)) if since.elapsed() < HABIT => return Ok(named),
            Some((_, named)) => match self.turn.try_lock() {
                Ok(turn) => turn,
                Err(_) => return Ok(named),
            },
            None => self.turn.lock().await,
        };
        // Another task may have checked it while this one waited.
        if let Some((since, named)) = known()
            && since.elapsed() < HABIT
        {
            return Ok(named);
        }
        let filter = Filter::And(vec![of_linux(), Filter::Present("member")]);
        let found = people.search(&people.settings.group_suffix, filter, &["1.1"], 1).await?;
        *self.named.lock() = Some((Instant::now(), !found.is_empty()));
        Ok(!found.is_empty())
    }
}

fn of_linux() -> Filter {
    Filter::Equal("objectClass", "posixGroup".into())
}

fn number(group: &SearchResultEntry) -> Option<u32> {
    // The largest number is not a group: the kernel refuses it.
    group.first("gidNumber").and_then(|text| text.parse().ok()).filter(|number| *number != u32::MAX)
}

/// Builds the user. Group 0 is root's and is dropped, because a directory must not grant it.
fn user(name: &str, uid: u32, gid: u32, found: &[SearchResultEntry]) -> User {
    let named = |entry: &SearchResultEntry| Some((number(entry)?, entry.first("cn")?.to_owned()));
    let mut groups: Vec<(u32, String)> = found.iter().filter_map(named).filter(|(group, _)| *group != 0).collect();
    groups.sort_unstable();
    groups.dedup_by_key(|(group, _)| *group);
    let primary = match groups.iter().position(|(group, _)| *group == gid) {
        Some(at) => groups.remove(at).1,
        None => gid.to_string(),
    };
    let (numbers, names): (Vec<u32>, Vec<String>) = groups.into_iter().unzip();
    let identity = Arc::new(Identity { uid, gid, groups: numbers.into() });
    User { name: name.to_owned(), identity, groups: std::iter::once(primary).chain(names).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primary_group_is_first_and_gid_0_is_omitted() {
        let group =
            |name: &str, gid: &str| SearchResultEntry::of(&format!("cn={name}"), &[("cn", name), ("gidNumber", gid)]);
        let found = [
            group("b", "20"),
            group("root", "0"),
            group("own", "7"),
            group("a", "10"),
            group("again", "10"),
            group("x", "?"),
            group("none", "4294967295"),
        ];
        let user = super::user("ann", 7, 7, &found);
        assert_eq!((user.identity.uid, user.identity.gid, &*user.identity.groups), (7, 7, &[10, 20][..]));
        assert_eq!(*user.groups, ["own", "a", "b"]);
        let alone = super::user("ann", 7, 9, &[]);
        assert_eq!(*alone.groups, ["9"]);
    }
}
