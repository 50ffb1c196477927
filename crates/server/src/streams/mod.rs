//! Alternate data streams ([MS-FSCC] 2.1.5.3, [MS-FSA] 2.1.1.7): content of a file or directory in addition to its
//! unnamed stream.
//!
//! `layout` defines the extended attributes that store them, and `store` holds what does not fit in attributes.
//! `stream` is an open stream, shared by all its handles. `node` implements [`Node`] for it, so that commands need no
//! special cases. `mac` has the special streams of macOS, `beside` those in files of their own, `double_rights` their
//! permissions, `doubles` finds such files in a directory, and `convert` converts them. `remembered` knows which files
//! have nothing of that. `by_volume` keeps the stores. [`Streams`] lists the open streams of all files.
//!
//! Every open stream has its own [`FileId`], under which share modes, locks and oplocks are kept. It is that of the
//! file with a number in `stream`, which is assigned when the stream is first opened. It is a number and not a hash of
//! the name, because it must survive a rename of the stream and never collide.

pub(crate) mod beside;
mod by_volume;
pub(crate) mod convert;
mod double_moves;
mod double_rights;
pub(crate) mod doubles;
pub(crate) mod layout;
pub(crate) mod listed;
pub(crate) mod mac;
mod mark;
mod node;
mod remembered;
pub(crate) mod store;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use self::beside::{Beside, Located};
use self::by_volume::ByVolume;
use self::layout::Stored;
use self::mac::Role;
pub(crate) use self::node::{StreamNode, of};
use self::remembered::Remembered;
use self::store::Store;
use self::stream::Shared;
pub(crate) use self::stream::{Stream, Target};
use crate::environment::Environment;
use crate::name::fold_key;
use crate::policy::Share;
use crate::policy::limits::{DIRECTORIES_WITHOUT_DOUBLES_LIMIT, LISTED_WITHOUT_FINDER_INFO_LIMIT, UNCONVERTED_LIMIT};
use crate::policy::stream_layout::Layout;
use crate::tree::Disk;
use crate::vfs::{FileId, Kind, Metadata, Node, Op, RelPath, Removed, Result, Time, Vfs};

/// The file of a stream: device and inode.
type Owner = (u64, u64);

fn owner(file: FileId) -> Owner {
    (file.device, file.inode)
}

/// The open streams of all files, and the stores of all volumes.
pub(crate) struct Streams {
    environment: Arc<dyn Environment>,
    open: Arc<Open>,
    stores: Mutex<ByVolume<Arc<Store>>>,
    /// Files that listings have found without Finder info and resource fork.
    without: Remembered<Time>,
    /// Directories that listings have found without AppleDouble files.
    without_doubles: Remembered<Time>,
    /// AppleDouble files that cannot be converted, or need not be.
    unconverted: Remembered<convert::State>,
}

/// The open streams by file.
#[derive(Default)]
struct Open {
    files: Mutex<HashMap<Owner, Vec<Weak<Shared>>>>,
    last: AtomicU64,
}

impl Open {
    /// Removes a stream whose last reference was dropped.
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
    pub(crate) fn new(environment: Arc<dyn Environment>) -> Streams {
        Streams {
            environment,
            open: Arc::default(),
            stores: Mutex::default(),
            without: Remembered::new(LISTED_WITHOUT_FINDER_INFO_LIMIT),
            without_doubles: Remembered::new(DIRECTORIES_WITHOUT_DOUBLES_LIMIT),
            unconverted: Remembered::new(UNCONVERTED_LIMIT),
        }
    }

    /// Returns the stream `name` of `file`, which need not exist. All handles that are open at the same time share its
    /// state, also through shares with other extensions. `at` is the path of a regular file: resource forks of others
    /// are not in files beside.
    pub(crate) fn stream(
        &self,
        disk: &Disk,
        layout: &Layout,
        (file, at): (FileId, Option<Arc<dyn Located>>),
        name: &str,
    ) -> Arc<Stream> {
        let at = at.filter(|_| layout.has_files_beside() && Role::of(layout, name) == Role::Fork);
        let beside = at.and_then(|at| Beside::new(disk, at));
        let key = fold_key(name.as_bytes());
        // Dropped after the lock is released, because dropping the last reference to a stream takes it.
        let known: Vec<Arc<Shared>>;
        let shared = {
            let mut files = self.open.files.lock();
            let streams = files.entry(owner(file)).or_default();
            known = streams.iter().filter_map(Weak::upgrade).collect();
            match known.iter().find(|stream| stream.is_called(layout, &key)) {
                Some(stream) => Arc::clone(stream),
                None => {
                    let id = FileId { stream: self.open.last.fetch_add(1, Ordering::Relaxed) + 1, ..file };
                    let shared = Arc::new(Shared::new(id, name, layout, self.store(disk), Arc::clone(&self.open)));
                    streams.push(Arc::downgrade(&shared));
                    shared
                }
            }
        };
        Arc::new(Stream::of(shared, name, layout, beside))
    }

    /// Returns the streams of `file` that are open, or about to be opened.
    pub(crate) fn open(&self, file: FileId) -> Vec<Arc<Shared>> {
        let files = self.open.files.lock();
        files.get(&owner(file)).map(|streams| streams.iter().filter_map(Weak::upgrade).collect()).unwrap_or_default()
    }

    /// Returns the store of the share's volume. A snapshot has its own.
    pub(crate) fn store(&self, disk: &Disk) -> Arc<Store> {
        match &disk.snapshot {
            Some(root) => Arc::new(Store::new(&disk.vfs, root.clone(), Arc::clone(&self.environment))),
            None => self.store_of((disk.volume, &disk.vfs)),
        }
    }

    fn store_of(&self, volume: (u64, &Arc<dyn Vfs>)) -> Arc<Store> {
        let make = || Arc::new(Store::new(volume.1, RelPath::root(), Arc::clone(&self.environment)));
        Arc::clone(self.stores.lock().entry(volume, make))
    }

    /// Registers that some files are reachable through both volumes, so that their streams may be in the store of
    /// either.
    pub(crate) fn overlap(&self, first: (u64, &Arc<dyn Vfs>), second: (u64, &Arc<dyn Vfs>)) {
        let (one, other) = (self.store_of(first), self.store_of(second));
        one.is_beside(second, &other);
        other.is_beside(first, &one);
    }

    /// Removes all alternate streams of a file whose content is replaced ([MS-FSA] 2.1.5.1.2, SUPERSEDE and OVERWRITE).
    /// A resource fork in the file beside stays, as in Samba.
    pub(crate) async fn remove_all(&self, disk: &Disk, node: &Arc<dyn Node>, file: FileId) -> Result<()> {
        let Some(layout) = &disk.share.streams else { return Ok(()) };
        for stored in list(node, &disk.op, layout).await? {
            let stream = self.stream(disk, layout, (file, None), &stored.name);
            stream.remove(node, &disk.op).await?;
        }
        Ok(())
    }

    /// Returns whether streams of the share's files may be in a store.
    pub(crate) async fn are_stored_apart(&self, disk: &Disk) -> bool {
        disk.share.streams.is_some() && self.store(disk).is_used().await
    }

    /// Called after a name of the file was removed. If it was the last one, its streams are removed from the store.
    pub(crate) async fn unlinked(&self, disk: &Disk, node: &Arc<dyn Node>, removed: Removed) {
        if let Some(layout) = &disk.share.streams {
            self.name_removed(&self.store(disk), layout, node, removed).await;
        }
    }

    /// As [`Streams::unlinked`], for a file that the server itself deletes.
    pub(crate) async fn unlinked_in(
        &self,
        share: &Share,
        volume: (u64, &Arc<dyn Vfs>),
        node: &Arc<dyn Node>,
        removed: Removed,
    ) {
        if let Some(layout) = &share.streams {
            self.name_removed(&self.store_of(volume), layout, node, removed).await;
        }
    }

    async fn name_removed(&self, store: &Store, layout: &Layout, node: &Arc<dyn Node>, removed: Removed) {
        if removed.links.is_some_and(|links| links > 0) || !store.is_used().await {
            return;
        }
        let Ok(metadata) = node.metadata(store.own()).await else { return };
        if metadata.links > 0 {
            return;
        }
        for stored in list(node, store.own(), layout).await.unwrap_or_default() {
            for attribute in [stored.overflow, stored.inline].into_iter().flatten() {
                if let Ok(Some(value)) = node.get_xattr(store.own(), &attribute).await {
                    store.remove(&value, &metadata).await;
                }
            }
        }
    }
}

/// Returns the streams of a file that clients may see. There may be no resource fork.
pub(crate) async fn list_all(node: &Arc<dyn Node>, op: &Op, layout: &Layout, kind: Kind) -> Result<Vec<Stored>> {
    let streams = list(node, op, layout).await?;
    Ok(if kind == Kind::File { layout.with_fork(streams) } else { streams })
}

/// Returns the streams of the file that its attributes store.
pub(crate) async fn list(node: &Arc<dyn Node>, op: &Op, layout: &Layout) -> Result<Vec<Stored>> {
    Ok(layout.streams(node.list_xattrs(op).await?))
}

/// Returns the file of a handle's stream; `None` if the handle leads to the file itself.
pub(crate) fn file_of(node: &Arc<dyn Node>) -> Option<&Arc<dyn Node>> {
    node::of(node).map(|stream| &stream.file)
}

/// Returns the metadata of a stream whose file has the metadata `file`: times, attributes and owner are the file's.
fn metadata(file: Metadata, id: FileId, size: u64, allocated: u64) -> Metadata {
    Metadata { id, kind: Kind::File, size, allocated, ..file }
}
