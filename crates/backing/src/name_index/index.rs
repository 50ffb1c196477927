//! The names of one directory.

use super::budget::Charge;
use super::table::NameTable;
use super::{Name, Stamp};

/// A change of the names.
pub(super) enum Change {
    Added(Name),
    Removed(Name),
}

/// The names of a directory, charged to the budget.
pub(super) struct Index {
    names: NameTable,
    charge: Charge,
    /// The directory's times when it was read; `None` if they cannot reveal a later change.
    stamp: Option<Stamp>,
}

impl Index {
    pub(super) fn new(charge: Charge, stamp: Option<Stamp>) -> Index {
        Index { names: NameTable::default(), charge, stamp }
    }

    /// Returns the memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Returns whether the directory is unchanged since it was read, judging by its times.
    pub(super) fn is_current(&self, now: Stamp) -> bool {
        self.stamp == Some(now)
    }

    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Added(name) => self.add(&name),
            Change::Removed(name) => {
                self.names.remove(&name);
                self.charge.set(self.names.allocated());
            }
        }
    }

    pub(super) fn add(&mut self, name: &[u8]) {
        self.names.insert(name);
        self.charge.set(self.names.allocated());
    }

    /// Ends the reading of the directory: memory for further names is returned.
    pub(super) fn finish(&mut self) {
        self.names.shrink_to_fit();
        self.charge.set(self.names.allocated());
    }

    /// Returns `name` itself if it exists, else the first name in byte order that equals it except for case.
    pub(super) fn find(&self, name: &[u8]) -> Option<Name> {
        self.names.find(name).map(Name::from)
    }
}
