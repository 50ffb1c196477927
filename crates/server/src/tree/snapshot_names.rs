//! The names of snapshots by their times, where a name has more than its time. It saves reading the directory of the
//! snapshots for each open.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::policy::limits::SNAPSHOT_NAMES_MAX;
use crate::vfs::FileId;

/// A volume, the directory of its snapshots, and a time in seconds since 1970-01-01 UTC.
pub(crate) type Moment = (u64, FileId, i64);

/// Names found by earlier opens. A name is only a hint: the snapshot may have been deleted since.
#[derive(Default)]
pub(crate) struct SnapshotNames(Mutex<HashMap<Moment, Box<[u8]>>>);

impl SnapshotNames {
    /// Returns the name under which the snapshot was opened before.
    pub(crate) fn find(&self, moment: Moment) -> Option<Box<[u8]>> {
        self.0.lock().get(&moment).cloned()
    }

    /// Adds the name of a snapshot.
    pub(crate) fn add(&self, moment: Moment, name: &[u8]) {
        let mut names = self.0.lock();
        if names.len() >= SNAPSHOT_NAMES_MAX {
            names.clear();
        }
        names.insert(moment, name.into());
    }
}
