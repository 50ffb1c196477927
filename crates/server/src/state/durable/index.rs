//! Index of persistent opens by file and by CreateGuid.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use proto::dtyp::Guid;

use crate::state::open::Open;
use crate::vfs::{FileId, RelPath};

/// All persistent opens, including those with a session.
#[derive(Default)]
pub(super) struct Index {
    opens: HashMap<u64, Entry>,
    by_file: HashMap<FileId, Vec<u64>>,
    by_guid: HashMap<Guid, u64>,
}

struct Entry {
    open: Weak<Open>,
    file: FileId,
    create_guid: Guid,
}

impl Index {
    /// Adds a persistent open, or replaces it after a reconnect.
    pub(super) fn add(&mut self, open: &Arc<Open>) {
        let Some(file) = open.file() else { return };
        let create_guid = file.durability.terms().and_then(|terms| terms.create_guid).unwrap_or_default();
        let id = open.persistent_id;
        let entry = Entry { open: Arc::downgrade(open), file: file.file, create_guid };
        if self.opens.insert(id, entry).is_none() {
            self.by_file.entry(file.file).or_default().push(id);
            self.by_guid.insert(create_guid, id);
        }
    }

    /// Returns whether a file below the directory `path` of the volume is open.
    pub(super) fn is_beneath(&self, volume: u64, path: &RelPath) -> bool {
        self.opens.values().filter_map(|entry| entry.open.upgrade()).any(|open| {
            let name = open.file().map(|file| &file.name);
            name.is_some_and(|name| name.volume == volume && name.path.lock().is_beneath(path))
        })
    }

    /// Removes a closed open.
    pub(super) fn remove(&mut self, id: u64) {
        let Some(entry) = self.opens.remove(&id) else { return };
        if let Some(ids) = self.by_file.get_mut(&entry.file) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_file.remove(&entry.file);
            }
        }
        if self.by_guid.get(&entry.create_guid) == Some(&id) {
            self.by_guid.remove(&entry.create_guid);
        }
    }

    /// Returns the number of opens.
    pub(super) fn len(&self) -> usize {
        self.opens.len()
    }

    /// Returns the opens of a file.
    pub(super) fn of(&self, file: FileId) -> Vec<Arc<Open>> {
        let ids = self.by_file.get(&file).into_iter().flatten();
        ids.filter_map(|id| self.opens.get(id)?.open.upgrade()).collect()
    }

    /// Returns the open that a CREATE with this CreateGuid made.
    pub(super) fn made_by(&self, create_guid: Guid) -> Option<u64> {
        self.by_guid.get(&create_guid).copied()
    }
}
