//! What the directory said a short time ago.
//!
//! An account that was found is taken for unchanged for [`FOUND`], a name that was not found for [`MISSING`]: so long an
//! old password works after it was changed elsewhere, so late a new account is seen by who had just tried it. Where no
//! server answers, an account counts for [`STALE`].

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use proto::dtyp::Sid;
use server::policy::fold;

use crate::accounts::backend::Entry;

/// How long an account that was found is taken for unchanged.
pub(super) const FOUND: Duration = Duration::from_secs(5);
/// How long a name that was not found is taken for nobody's.
pub(super) const MISSING: Duration = Duration::from_secs(2);
/// How long an account counts while no server answers.
pub(super) const STALE: Duration = Duration::from_secs(300);
/// How long it is known whose a SID or uid is, or that it is nobody's.
pub(super) const WHOSE: Duration = Duration::from_secs(60);
/// Answers of a kind that are kept: about 40 MiB of accounts. Past it, those out of date go, then all.
const KEPT: usize = 65_536;

/// Answers by what was asked.
pub(super) struct Kept<K, V>(Mutex<HashMap<K, Answer<V>>>);

struct Answer<V> {
    since: Instant,
    value: V,
    /// It was given to somebody after the one who had asked for it.
    used: bool,
}

impl<K: Hash + Eq, V: Clone> Kept<K, V> {
    pub(super) fn new() -> Self {
        Kept(Mutex::new(HashMap::new()))
    }

    /// What was answered at most `age` ago, where `fits` says so.
    pub(super) fn get(&self, key: &K, fits: impl FnOnce(&V) -> Duration) -> Option<V> {
        let mut kept = self.0.lock();
        let answer = kept.get_mut(key)?;
        if answer.since.elapsed() >= fits(&answer.value) {
            return None;
        }
        answer.used = true;
        Some(answer.value.clone())
    }

    /// Keeps an answer; those older than `longest` are of no use any more.
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

/// Accounts by their folded names, and whose SIDs and uids are whose.
pub(super) struct Cache {
    /// How often something was forgotten because it was changed: who asked before that may have the answer from before.
    generation: Mutex<u64>,
    names: Kept<String, Option<Entry>>,
    sids: Kept<Sid, Option<String>>,
    uids: Kept<u32, Option<String>>,
}

impl Cache {
    pub(super) fn new() -> Cache {
        Cache { generation: Mutex::new(0), names: Kept::new(), sids: Kept::new(), uids: Kept::new() }
    }

    /// The account called `name`, where that was asked a moment ago.
    pub(super) fn fresh(&self, name: &str) -> Option<Option<Entry>> {
        self.names.get(&fold(name), |entry| if entry.is_some() { FOUND } else { MISSING })
    }

    /// The account called `name`, where no server can be asked. That there is none is not known then.
    pub(super) fn stale(&self, name: &str) -> Option<Entry> {
        self.names.get(&fold(name), |entry| if entry.is_some() { STALE } else { Duration::ZERO })?
    }

    /// Whether what is known of `name` was used again after the directory had said it: then it may have changed.
    pub(super) fn was_kept(&self, name: &str) -> bool {
        self.names.used(&fold(name))
    }

    /// Whether the directory has had an account called `name` of late.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.names.0.lock().get(&fold(name)).is_some_and(|answer| answer.value.is_some())
    }

    /// For [`Cache::put`], before the directory is asked.
    pub(super) fn generation(&self) -> u64 {
        *self.generation.lock()
    }

    /// Keeps what the directory said to who asked at `seen`, unless an account was changed since.
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

    /// What is known of `name` is not true any more.
    pub(super) fn forget(&self, name: &str) {
        *self.generation.lock() += 1;
        self.names.remove(&fold(name));
    }

    /// Whose the SID is, where that was asked a moment ago.
    pub(super) fn fresh_sid(&self, sid: &Sid) -> Option<Option<String>> {
        self.sids.get(sid, |_| WHOSE)
    }

    /// Whose the uid is, where that was asked a moment ago.
    pub(super) fn fresh_uid(&self, uid: u32) -> Option<Option<String>> {
        self.uids.get(&uid, |_| WHOSE)
    }

    /// Whose the SID was, where no server can be asked.
    pub(super) fn stale_sid(&self, sid: &Sid) -> Option<Option<Entry>> {
        self.owner(self.sids.get(sid, |_| STALE)?)
    }

    /// Whose the uid was, where no server can be asked.
    pub(super) fn stale_uid(&self, uid: u32) -> Option<Option<Entry>> {
        self.owner(self.uids.get(&uid, |_| STALE)?)
    }

    fn owner(&self, name: Option<String>) -> Option<Option<Entry>> {
        match name {
            Some(name) => self.stale(&name).map(Some),
            None => Some(None),
        }
    }

    /// Whose the SID is, as who asked at `seen` was told.
    pub(super) fn put_owner(&self, sid: Sid, name: Option<String>, seen: u64) {
        let generation = self.generation.lock();
        if *generation == seen {
            self.sids.put(sid, name, STALE);
        }
    }

    /// That the uid is nobody's, as who asked at `seen` was told.
    pub(super) fn put_nobodys_uid(&self, uid: u32, seen: u64) {
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
    fn an_answer_is_fresh_until_it_is_old_and_known_to_be_used() {
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
    fn who_asked_before_a_change_does_not_undo_it() {
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
