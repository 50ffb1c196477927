//! A short-term cache of the directory's answers.
//!
//! A found account is cached for [`FOUND`], and a missing name for [`MISSING`]. An old password works at most that long
//! after a change by another program, and a new account is visible at most that late to a client that has just tried
//! it. While no server answers, an account is valid for [`STALE`].

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use proto::dtyp::Sid;
use server::policy::fold;

use crate::backend::Entry;

/// How long a found account is cached.
pub(super) const FOUND: Duration = Duration::from_secs(5);
/// How long a missing name is cached.
pub(super) const MISSING: Duration = Duration::from_secs(2);
/// How long an account is valid while no server answers.
pub(super) const STALE: Duration = Duration::from_secs(300);
/// How long the owner of a SID or uid is cached, or that it has none.
pub(super) const OWNER: Duration = Duration::from_secs(60);
/// Maximum number of cached answers of a kind: about 40 MiB of accounts. At the limit expired answers are removed, then
/// all.
const KEPT: usize = 65_536;

/// Cached answers by query.
pub(super) struct Kept<K, V>(Mutex<HashMap<K, Answer<V>>>);

struct Answer<V> {
    since: Instant,
    value: V,
    /// It has been returned to a caller other than the one that queried it.
    used: bool,
}

impl<K: Hash + Eq, V: Clone> Kept<K, V> {
    pub(super) fn new() -> Self {
        Kept(Mutex::new(HashMap::new()))
    }

    /// Returns a cached answer that is younger than the age that `fits` returns for it.
    pub(super) fn get(&self, key: &K, fits: impl FnOnce(&V) -> Duration) -> Option<V> {
        let mut kept = self.0.lock();
        let answer = kept.get_mut(key)?;
        if answer.since.elapsed() >= fits(&answer.value) {
            return None;
        }
        answer.used = true;
        Some(answer.value.clone())
    }

    /// Caches an answer; answers older than `longest` are expired.
    pub(super) fn put(&self, key: K, value: V, longest: Duration) {
        let mut kept = self.0.lock();
        if kept.len() >= KEPT {
            kept.retain(|_, answer| answer.since.elapsed() < longest);
        }
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, Answer { since: Instant::now(), value, used: false });
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    fn used(&self, key: &K) -> bool {
        self.0.lock().get(key).is_some_and(|answer| answer.used)
    }

    fn remove(&self, key: &K) {
        self.0.lock().remove(key);
    }
}

/// Accounts by folded name, and the owners of SIDs and uids.
pub(super) struct Cache {
    /// The number of invalidations. A query that began before the last one may have returned old data.
    generation: Mutex<u64>,
    names: Kept<String, Option<Entry>>,
    sids: Kept<Sid, Option<String>>,
    uids: Kept<u32, Option<String>>,
}

impl Cache {
    pub(super) fn new() -> Cache {
        Cache { generation: Mutex::new(0), names: Kept::new(), sids: Kept::new(), uids: Kept::new() }
    }

    /// Returns the account called `name`, if it was queried recently.
    pub(super) fn fresh(&self, name: &str) -> Option<Option<Entry>> {
        self.names.get(&fold(name), |entry| if entry.is_some() { FOUND } else { MISSING })
    }

    /// Returns the account called `name`, while no server answers. Negative answers are not used then.
    pub(super) fn stale(&self, name: &str) -> Option<Entry> {
        self.names.get(&fold(name), |entry| if entry.is_some() { STALE } else { Duration::ZERO })?
    }

    /// Returns whether the cached answer for `name` was used again since it was fetched, so that it may be outdated.
    pub(super) fn was_kept(&self, name: &str) -> bool {
        self.names.used(&fold(name))
    }

    /// Returns whether the directory recently had an account called `name`.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.names.0.lock().get(&fold(name)).is_some_and(|answer| answer.value.is_some())
    }

    /// Returns the value for [`Cache::put`], before a query.
    pub(super) fn generation(&self) -> u64 {
        *self.generation.lock()
    }

    /// Caches the answer to a query that began at `seen`, unless an account was changed since.
    pub(super) fn put(&self, name: &str, entry: Option<Entry>, seen: u64) {
        let generation = self.generation.lock();
        if *generation != seen {
            return;
        }
        if let Some(entry) = &entry {
            self.sids.put(entry.sid, Some(entry.record.name.clone()), STALE);
            if let Some(user) = &entry.user {
                self.uids.put(user.identity.uid, Some(entry.record.name.clone()), STALE);
            }
        }
        self.names.put(fold(name), entry, STALE);
    }

    /// Invalidates the cached data of `name`.
    pub(super) fn forget(&self, name: &str) {
        *self.generation.lock() += 1;
        self.names.remove(&fold(name));
    }

    /// Returns the owner of the SID, if it was queried recently.
    pub(super) fn fresh_sid(&self, sid: &Sid) -> Option<Option<String>> {
        self.sids.get(sid, |_| OWNER)
    }

    /// Returns the owner of the uid, if it was queried recently.
    pub(super) fn fresh_uid(&self, uid: u32) -> Option<Option<String>> {
        self.uids.get(&uid, |_| OWNER)
    }

    /// Returns the last known owner of the SID, while no server answers.
    pub(super) fn stale_sid(&self, sid: &Sid) -> Option<Option<Entry>> {
        self.owner(self.sids.get(sid, |_| STALE)?)
    }

    /// Returns the last known owner of the uid, while no server answers.
    pub(super) fn stale_uid(&self, uid: u32) -> Option<Option<Entry>> {
        self.owner(self.uids.get(&uid, |_| STALE)?)
    }

    fn owner(&self, name: Option<String>) -> Option<Option<Entry>> {
        match name {
            Some(name) => self.stale(&name).map(Some),
            None => Some(None),
        }
    }

    /// Caches the owner of the SID, from a query that began at `seen`.
    pub(super) fn put_owner(&self, sid: Sid, name: Option<String>, seen: u64) {
        let generation = self.generation.lock();
        if *generation == seen {
            self.sids.put(sid, name, STALE);
        }
    }

    /// Caches that the uid has no owner, from a query that began at `seen`.
    pub(super) fn put_uid_without_account(&self, uid: u32, seen: u64) {
        let generation = self.generation.lock();
        if *generation == seen {
            self.uids.put(uid, None, STALE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_expires_and_its_use_is_recorded() {
        let kept: Kept<&str, u8> = Kept::new();
        let get = |age: u64| kept.get(&"a", |_| Duration::from_secs(age));
        assert_eq!(get(9), None);
        kept.put("a", 1, FOUND);
        assert!(!kept.used(&"a"));
        assert_eq!(get(0), None);
        assert!(!kept.used(&"a"));
        assert_eq!(get(9), Some(1));
        assert!(kept.used(&"a"));
        kept.put("a", 2, FOUND);
        assert!(!kept.used(&"a"));
        kept.remove(&"a");
        assert_eq!(get(9), None);
    }

    #[test]
    fn a_query_from_before_a_change_is_not_cached() {
        let cache = Cache::new();
        let (before, other) = (cache.generation(), "bob");
        cache.put("ann", None, before);
        assert!(cache.fresh("Ann").is_some());
        cache.forget("ANN");
        cache.put("ann", None, before);
        assert!(cache.fresh("ann").is_none());
        cache.put(other, None, cache.generation());
        assert!(cache.fresh(other).is_some());
    }

    #[test]
    fn the_number_of_answers_is_bounded() {
        let kept: Kept<usize, ()> = Kept::new();
        for key in 0..=KEPT {
            kept.put(key, (), Duration::ZERO);
        }
        assert!(kept.0.lock().len() <= KEPT);
    }
}
