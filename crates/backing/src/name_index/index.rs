//! The names of one directory.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use server::name::fold_key;

use super::budget::Charge;
use super::{Name, Stamp};

/// Memory for a name in an index in addition to the name's bytes: its slots in hash tables, which are half empty at
/// worst, and the allocator's overhead.
const NAME: usize = 128;

/// A change of the names.
pub(super) enum Change {
    Added(Name),
    Removed(Name),
}

/// The names of a directory by the hash of their folded form. Names with equal hashes share an entry.
pub(super) struct Index {
    names: HashMap<u64, Vec<Name>>,
    charge: Charge,
    /// The directory's times when it was read; `None` if they cannot reveal a later change.
    stamp: Option<Stamp>,
}

impl Index {
    pub(super) fn new(charge: Charge, stamp: Option<Stamp>) -> Index {
        Index { names: HashMap::new(), charge, stamp }
    }

    /// Returns the memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Returns whether the directory is unchanged since it was read, judging by its times.
    pub(super) fn is_current(&self, now: Stamp) -> bool {
        self.stamp == Some(now)
    }

    pub(super) fn apply(&mut self, hasher: &RandomState, change: Change) {
        match change {
            Change::Added(name) => self.add(hasher, name),
            Change::Removed(name) => self.remove(hasher, &name),
        }
    }

    pub(super) fn add(&mut self, hasher: &RandomState, name: Name) {
        let names = self.names.entry(hasher.hash_one(fold_key(&name))).or_default();
        if let Err(at) = names.binary_search(&name) {
            self.charge.add(NAME + name.len());
            names.insert(at, name);
        }
    }

    fn remove(&mut self, hasher: &RandomState, name: &[u8]) {
        let hash = hasher.hash_one(fold_key(name));
        let Some(names) = self.names.get_mut(&hash) else { return };
        if let Ok(at) = names.binary_search_by(|other| (**other).cmp(name)) {
            self.charge.subtract(NAME + names.remove(at).len());
        }
        if names.is_empty() {
            self.names.remove(&hash);
        }
    }

    /// Returns `name` itself if it exists, else the first name in byte order that equals it except for case.
    pub(super) fn find(&self, hasher: &RandomState, name: &[u8]) -> Option<Name> {
        let key = fold_key(name);
        let names = self.names.get(&hasher.hash_one(&key))?;
        let exact = names.iter().find(|other| &***other == name);
        exact.or_else(|| names.iter().find(|other| fold_key(other) == key)).cloned()
    }
}
