//! Alternate data streams ([MS-FSCC] 2.1.5.3, [MS-FSA] 2.1.1.7): content that a file or directory has beside its own.
//!
//! `layout` says in which extended attributes they lie, `store` keeps what no attribute can hold, `stream` is one open
//! stream as all its handles share it, `node` makes it a [`Node`], so that commands need not know of streams.
//! [`Streams`] knows which streams of which files are open.
//!
//! Every open stream has a [`FileId`] of its own, in which share modes, locks and oplocks are kept: that of its file, with
//! a number in `stream` that is given anew when a stream is opened that nobody had open. A number, and no hash of the
//! name, because it stays what it is when the stream is renamed and never meets another one.

pub(crate) mod layout;
mod mark;
mod node;
pub(crate) mod store;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

pub use self::layout::Layout;
use self::layout::Stored;
pub(crate) use self::node::{StreamNode, of};
use self::store::Store;
pub(crate) use self::stream::{Stream, Target};
use crate::name::fold_key;
use crate::tree::Disk;
use crate::vfs::{FileId, Identity, Metadata, Node, RelPath, Result, Vfs};
use crate::world::World;

/// Which file a stream is of: device and inode.
type Owner = (u64, u64);

fn owner(file: FileId) -> Owner {
    (file.device, file.inode)
}

/// The open streams of all files, and the stores of all volumes.
pub(crate) struct Streams {
    world: Arc<dyn World>,
    open: Arc<Open>,
    stores: Mutex<HashMap<u64, Arc<Store>>>,
}

/// By file, the streams that somebody has open.
#[derive(Default)]
struct Open {
    files: Mutex<HashMap<Owner, Vec<Weak<Stream>>>>,
    last: AtomicU64,
}

impl Open {
    /// A stream was closed by the last who had it.
    fn forget(&self, file: FileId) {
        let mut files = self.files.lock();
        if let Some(streams) = files.get_mut(&owner(file)) {
            streams.retain(|stream| stream.strong_count() > 0);
            if streams.is_empty() {
                files.remove(&owner(file));
            }
        }
    }
}

impl Streams {
    pub(crate) fn new(world: Arc<dyn World>) -> Streams {
        Streams { world, open: Arc::default(), stores: Mutex::default() }
    }

    /// The stream `name` of `file`, which need not exist: the same for all who have it open at the same time.
    pub(crate) fn stream(&self, disk: &Disk, layout: &Layout, file: FileId, name: &str) -> Arc<Stream> {
        let key = fold_key(name.as_bytes());
        // Dropped after the lock, which the last drop of a stream takes.
        let known: Vec<Arc<Stream>>;
        let mut files = self.open.files.lock();
        let streams = files.entry(owner(file)).or_default();
        known = streams.iter().filter_map(Weak::upgrade).collect();
        if let Some(stream) = known.iter().find(|stream| stream.is_called(layout, &key)) {
            return Arc::clone(stream);
        }
        let id = FileId { stream: self.open.last.fetch_add(1, Ordering::Relaxed) + 1, ..file };
        let stream = Arc::new(Stream::new(id, name, layout, self.store(disk), Arc::clone(&self.open)));
        streams.push(Arc::downgrade(&stream));
        stream
    }

    /// The streams of `file` that somebody has open, or is about to.
    pub(crate) fn open(&self, file: FileId) -> Vec<Arc<Stream>> {
        let files = self.open.files.lock();
        files.get(&owner(file)).map(|streams| streams.iter().filter_map(Weak::upgrade).collect()).unwrap_or_default()
    }

    /// The store of the share's volume. A previous version has its own.
    pub(crate) fn store(&self, disk: &Disk) -> Arc<Store> {
        match &disk.snapshot {
            Some(root) => Arc::new(Store::new(Arc::clone(&disk.vfs), root.clone(), Arc::clone(&self.world))),
            None => self.store_of(disk.volume, &disk.vfs),
        }
    }

    fn store_of(&self, volume: u64, vfs: &Arc<dyn Vfs>) -> Arc<Store> {
        let make = || Arc::new(Store::new(Arc::clone(vfs), RelPath::root(), Arc::clone(&self.world)));
        Arc::clone(self.stores.lock().entry(volume).or_insert_with(make))
    }

    /// Some files are reached through both volumes, and their streams may lie in the store of either.
    pub(crate) fn overlap(&self, first: (u64, &Arc<dyn Vfs>), second: (u64, &Arc<dyn Vfs>)) {
        let (first, second) = (self.store_of(first.0, first.1), self.store_of(second.0, second.1));
        first.is_beside(&second);
        second.is_beside(&first);
    }

    /// Removes all alternate streams of a file whose content is thrown away ([MS-FSA] 2.1.5.1.2, SUPERSEDE and OVERWRITE).
    pub(crate) async fn remove_all(&self, disk: &Disk, node: &Arc<dyn Node>, file: FileId) -> Result<()> {
        let Some(layout) = &disk.share.streams else { return Ok(()) };
        for stored in list(node, &disk.identity, layout).await? {
            let stream = self.stream(disk, layout, file, &stored.name);
            stream.remove(node, &disk.identity).await?;
        }
        Ok(())
    }

    /// A name of the file was removed: its streams in the store go with the last name.
    pub(crate) async fn unlinked(&self, disk: &Disk, node: &Arc<dyn Node>) {
        let Some(layout) = &disk.share.streams else { return };
        let store = self.store(disk);
        if !store.is_used().await {
            return;
        }
        let Ok(metadata) = node.metadata().await else { return };
        if metadata.links > 0 {
            return;
        }
        for stored in list(node, store.own(), layout).await.unwrap_or_default() {
            if let Some(attribute) = stored.overflow
                && let Ok(Some(value)) = node.get_xattr(store.own(), &attribute).await
            {
                store.remove(&value, &metadata).await;
            }
        }
    }
}

/// The streams that the file has.
pub(crate) async fn list(node: &Arc<dyn Node>, who: &Arc<Identity>, layout: &Layout) -> Result<Vec<Stored>> {
    Ok(layout.streams(node.list_xattrs(who).await?))
}

/// The file that a handle's stream is of; `None` where it leads to the file itself.
pub(crate) fn file_of(node: &Arc<dyn Node>) -> Option<&Arc<dyn Node>> {
    node::of(node).map(|stream| &stream.file)
}

/// What is shown of a stream whose file has `metadata`: times, attributes and owner are the file's.
fn metadata(file: Metadata, id: FileId, size: u64, allocated: u64) -> Metadata {
    Metadata { id, kind: crate::vfs::Kind::File, size, allocated, ..file }
}
