//! The entries of a directory: by name, by folded name, and in the order of their creation for listings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::name::fold_key;

/// The names of one directory.
#[derive(Default)]
pub(super) struct Directory {
    names: BTreeMap<Arc<[u8]>, Slot>,
    /// For case-insensitive look-ups: the names of each key.
    folded: BTreeMap<Vec<u8>, BTreeSet<Arc<[u8]>>>,
    /// Names by position. Positions only grow, so a listing never misses or repeats an entry.
    listed: BTreeMap<u64, Arc<[u8]>>,
    last_position: u64,
}

struct Slot {
    inode: u64,
    position: u64,
}

impl Directory {
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The inode that `name` names exactly.
    pub(super) fn get(&self, name: &[u8]) -> Option<u64> {
        self.names.get(name).map(|slot| slot.inode)
    }

    /// The name on disk and the inode: the exact name first, then the first in byte order that differs in
    /// case only, as on other back ends.
    pub(super) fn find(&self, name: &[u8], insensitive: bool) -> Option<(&[u8], u64)> {
        if let Some((name, slot)) = self.names.get_key_value(name) {
            return Some((name, slot.inode));
        }
        if !insensitive {
            return None;
        }
        let other = self.folded.get(&fold_key(name))?.first()?;
        Some((other, self.get(other)?))
    }

    /// Returns one of the names of the inode.
    pub(super) fn name_of(&self, inode: u64) -> Option<&[u8]> {
        self.names.iter().find(|(_, slot)| slot.inode == inode).map(|(name, _)| &**name)
    }

    /// Adds a name that does not exist yet.
    pub(super) fn insert(&mut self, name: &[u8], inode: u64) {
        let name: Arc<[u8]> = name.into();
        self.last_position += 1;
        let position = self.last_position;
        self.folded.entry(fold_key(&name)).or_default().insert(Arc::clone(&name));
        self.listed.insert(position, Arc::clone(&name));
        self.names.insert(name, Slot { inode, position });
    }

    /// Removes a name and returns its inode.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<u64> {
        let slot = self.names.remove(name)?;
        self.listed.remove(&slot.position);
        let key = fold_key(name);
        if let Some(names) = self.folded.get_mut(&key) {
            names.remove(name);
            if names.is_empty() {
                self.folded.remove(&key);
            }
        }
        Some(slot.inode)
    }

    /// Returns the entries after position `cursor`: position, name and inode.
    pub(super) fn after(&self, cursor: u64) -> impl Iterator<Item = (u64, &Arc<[u8]>, u64)> {
        let from = cursor.saturating_add(1);
        self.listed.range(from..).filter_map(|(&position, name)| Some((position, name, self.get(name)?)))
    }
}
