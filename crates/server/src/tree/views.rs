//! Snapshots as separate file systems, so that links in one are resolved below its copy of the share. A view is shared
//! by all opens in it and dropped with the last one, so that it does not prevent removal of the snapshot.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Disk;
use crate::vfs::{FileId, Kind, Lookup, LookupOptions, RelPath, SymlinkPolicy, Vfs};

/// A file system with its unique number.
pub(crate) type Volume = (u64, Arc<dyn Vfs>);

/// The snapshots with opens, by volume and directory.
#[derive(Default)]
pub(crate) struct Views(Mutex<HashMap<Directory, View>>);

/// The number of a volume, and a directory in it.
type Directory = (u64, FileId);
/// The number of a view, and the view while files in it are open.
type View = (u64, Weak<dyn Vfs>);

impl Views {
    /// Returns a view of the directory `path` of `vfs`, which is `volume`, looked up as the user of `disk` without
    /// following links. A new view gets the number that `number` returns.
    pub(crate) async fn open(
        &self,
        number: impl FnOnce() -> u64,
        disk: &Disk,
        (volume, vfs): &Volume,
        path: &RelPath,
    ) -> Option<Volume> {
        let id = directory(disk, vfs, path).await?;
        let key = (*volume, id);
        if let Some(known) = self.find(key) {
            // btrfs gives the numbers of a removed snapshot to a new one, while files in the removed one are open.
            if directory(disk, &known.1, &RelPath::root()).await == Some(id) {
                return Some(known);
            }
            self.forget(key, known.0);
        }
        let view = vfs.beneath(&disk.op, path).await.ok()?;
        // The name may lead to another directory by now.
        if directory(disk, &view, &RelPath::root()).await? != id {
            return None;
        }
        if let Some(known) = self.find(key) {
            return Some(known);
        }
        let mut views = self.0.lock();
        views.retain(|_, (_, view)| view.strong_count() > 0);
        let number = number();
        views.insert(key, (number, Arc::downgrade(&view)));
        Some((number, view))
    }

    /// Removes the view `number`, whose directory no longer exists.
    fn forget(&self, key: Directory, number: u64) {
        let mut views = self.0.lock();
        if views.get(&key).is_some_and(|(known, _)| *known == number) {
            views.remove(&key);
        }
    }

    fn find(&self, key: (u64, FileId)) -> Option<Volume> {
        let views = self.0.lock();
        let (number, view) = views.get(&key)?;
        Some((*number, view.upgrade()?))
    }
}

/// Returns the id of the directory `path`.
async fn directory(disk: &Disk, vfs: &Arc<dyn Vfs>, path: &RelPath) -> Option<FileId> {
    match vfs.lookup(&disk.op, path, LookupOptions::exact(SymlinkPolicy::NONE)).await {
        Ok(Lookup::Found { metadata, .. }) if metadata.kind == Kind::Directory => Some(metadata.id),
        _ => None,
    }
}
