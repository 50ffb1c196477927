//! Snapshots as file systems of their own, so that links in one resolve beneath its copy of the share. One is shared by
//! all who have something open in it, and goes with the last of them: it keeps nobody from removing the snapshot.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::server::Server;
use crate::tree::Disk;
use crate::vfs::{Case, FileId, Kind, Links, Lookup, RelPath, Vfs};

/// A file system, and the number that tells it apart from others.
pub(super) type Volume = (u64, Arc<dyn Vfs>);

/// The snapshots that something is open in, by volume and directory.
#[derive(Default)]
pub(crate) struct Views(Mutex<HashMap<Directory, View>>);

/// The number of a volume, and a directory in it.
type Directory = (u64, FileId);
/// The number of a view, and the view while something in it is open.
type View = (u64, Weak<dyn Vfs>);

impl Views {
    /// The directory `path` of `vfs`, which is `volume`, as the user of `disk` reaches it without links.
    pub(super) async fn open(
        &self,
        server: &Server,
        disk: &Disk,
        (volume, vfs): &Volume,
        path: &RelPath,
    ) -> Option<Volume> {
        let id = directory(disk, vfs, path).await?;
        let key = (*volume, id);
        if let Some(known) = self.find(key) {
            return Some(known);
        }
        let view = vfs.beneath(&disk.identity, path).await.ok()?;
        // The name may lead to another directory by now.
        if directory(disk, &view, &RelPath::root()).await? != id {
            return None;
        }
        if let Some(known) = self.find(key) {
            return Some(known);
        }
        let mut views = self.0.lock();
        views.retain(|_, (_, view)| view.strong_count() > 0);
        let number = server.next_id();
        views.insert(key, (number, Arc::downgrade(&view)));
        Some((number, view))
    }

    fn find(&self, key: (u64, FileId)) -> Option<Volume> {
        let views = self.0.lock();
        let (number, view) = views.get(&key)?;
        Some((*number, view.upgrade()?))
    }
}

/// Which directory `path` is.
async fn directory(disk: &Disk, vfs: &Arc<dyn Vfs>, path: &RelPath) -> Option<FileId> {
    match vfs.lookup(&disk.identity, path, Case::Sensitive, Links::NONE).await {
        Ok(Lookup::Found { metadata, .. }) if metadata.kind == Kind::Directory => Some(metadata.id),
        _ => None,
    }
}
