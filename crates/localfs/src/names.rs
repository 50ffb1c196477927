//! Case-insensitive name look-ups: an index of each searched directory, so that a missing name costs no reading of the
//! directory.
//!
//! An index is built by reading the directory once and kept current by inotify, which queues a change before the system
//! call that made it returns. Draining the queue before a search therefore makes the index as current as the search. If
//! a directory cannot be watched, or its file system can also change remotely, its change times are compared instead.
//! Memory is bounded, and the least recently searched directory is discarded first.

pub(crate) mod budget;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backing::clock::Clock;
use parking_lot::Mutex;
use rustix::fs::{OFlags, Statx, inotify};
use rustix::io::Errno as Raw;
use server::name::fold_key;
use server::vfs::{Errno, FileId, Result, Time};

use self::budget::{Budget, Held};
use crate::held;
use crate::metadata::time;
use crate::root::{Root, Wait, is_local, stat};
use crate::{dir, identity};

/// Maximum number of indexed directories of a share.
const DIRECTORIES: usize = 512;
/// Memory for a name in an index, and for a pending change, in addition to the name's bytes: its slots in hash tables,
/// which are half empty at worst, and the allocator's overhead.
const NAME: usize = 128;
const CHANGE: usize = 64;
/// Maximum number of pending changes of one directory. With more it is cheaper to read it again.
const PENDING: usize = 16_384;

/// Bytes of queued events that are read at a time, and the maximum size of one event.
const QUEUE: usize = 16 * 1024;
const LONGEST_EVENT: usize = 16 + 256 + 16;

/// A name as stored on disk.
pub(crate) type Name = Box<[u8]>;

/// The indexes of one share.
pub(crate) struct Names {
    watched: Mutex<DirectoryVersion>,
    hasher: RandomState,
    budget: Arc<Budget>,
    stamps: Clock,
    /// Number of times that a directory was read.
    reads: AtomicU64,
}

struct DirectoryVersion {
    /// `None` if the kernel provides none, and on file systems that can also change remotely.
    inotify: Option<OwnedFd>,
    directories: HashMap<FileId, Arc<Directory>>,
    by_watch: HashMap<i32, FileId>,
    /// Discarded directories. Freeing the names of a large one takes a while, which not every caller can afford.
    forgotten: Vec<Arc<Directory>>,
}

/// One directory.
struct Directory {
    watch: Option<i32>,
    used: AtomicU64,
    /// Replaced by a new number with each change of the directory's own permissions and attributes.
    state: AtomicU64,
    pending: Mutex<Pending>,
    index: Mutex<Option<Index>>,
}

/// Changes that were drained from the queue and not yet applied.
struct Pending {
    changes: Vec<Change>,
    held: Held,
}

impl Pending {
    fn take(&mut self) -> Vec<Change> {
        self.held.subtract(self.held.bytes());
        std::mem::take(&mut self.changes)
    }
}

enum Change {
    Added(Box<[u8]>),
    Removed(Box<[u8]>),
}

/// The names of a directory by the hash of their folded form. Names with equal hashes share an entry.
struct Index {
    names: HashMap<u64, Vec<Box<[u8]>>>,
    held: Held,
    /// The directory's change times when it was read; `None` if they cannot reveal a later change.
    stamp: Option<Stamp>,
}

type Stamp = (Time, Time);

impl Names {
    /// Creates the indexes of directories whose times come from `stamps`.
    pub(crate) fn new(local: bool, stamps: Clock, budget: Arc<Budget>) -> Arc<Names> {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let inotify = if local { inotify::init(flags).ok() } else { None };
        let names = Arc::new(Names {
            watched: Mutex::new(DirectoryVersion {
                inotify,
                directories: HashMap::new(),
                by_watch: HashMap::new(),
                forgotten: Vec::new(),
            }),
            hasher: RandomState::new(),
            budget: budget.clone(),
            stamps,
            reads: AtomicU64::new(0),
        });
        budget.add(&names);
        names
    }

    /// Returns the name in `directory` that equals `name` except for case: `name` itself if it exists, else the first
    /// match in byte order. Also returns the directory's [`server::vfs::DirectoryVersion::state`] if inotify reports
    /// its changes. `directory` is the file `file`. The directory is read with the process's own identity, which the
    /// thread may have afterwards. The caller must already have refused users who may not search it.
    pub(crate) fn find(
        &self,
        root: &Root,
        directory: BorrowedFd<'_>,
        file: FileId,
        name: &[u8],
        wait: Wait,
    ) -> Result<(Option<Name>, Option<u64>)> {
        let entry = self.entry(file, directory, wait)?;
        let found = self.find_in(&entry, root, directory, name, wait);
        if wait == Wait::Allowed {
            self.discard();
            self.budget.keep();
        }
        found
    }

    fn find_in(
        &self,
        entry: &Directory,
        root: &Root,
        directory: BorrowedFd<'_>,
        name: &[u8],
        wait: Wait,
    ) -> Result<(Option<Name>, Option<u64>)> {
        let mut guard = match wait {
            Wait::Never => entry.index.try_lock().ok_or(Errno::AGAIN)?,
            Wait::Allowed => entry.index.lock(),
        };
        let index = match &mut *guard {
            Some(index) if entry.watch.is_some() || index.is_of(&stat(directory)?) => index,
            _ if wait == Wait::Never => return Err(Errno::AGAIN),
            slot => match self.build(root, directory, entry.watch.is_some())? {
                Some(index) => slot.insert(index),
                None => return Ok((self.scan(root, directory, name)?, None)),
            },
        };
        for change in entry.pending.lock().take() {
            index.apply(&self.hasher, change);
        }
        let state = entry.watch.map(|_| entry.state.load(Ordering::Relaxed));
        Ok((index.find(&self.hasher, name), state))
    }

    /// Returns whether a name equal to `name` except for case is in the directory `file`, and the directory's
    /// [`server::vfs::DirectoryVersion::state`]. `None` if there is no index that inotify keeps current.
    pub(crate) fn known(&self, file: FileId, name: &[u8]) -> Option<(bool, u64)> {
        let entry = {
            let mut watched = self.watched.lock();
            self.drain(&mut watched);
            let entry = Arc::clone(watched.directories.get(&file)?);
            entry.used.store(self.budget.tick(), Ordering::Relaxed);
            entry
        };
        entry.watch?;
        let mut guard = entry.index.try_lock()?;
        let index = guard.as_mut()?;
        for change in entry.pending.lock().take() {
            index.apply(&self.hasher, change);
        }
        Some((index.find(&self.hasher, name).is_some(), entry.state.load(Ordering::Relaxed)))
    }

    #[cfg(test)]
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn directories(&self) -> usize {
        self.watched.lock().directories.len()
    }

    /// Returns the directory's entry, created if necessary, with all changes until now queued in it.
    fn entry(&self, directory: FileId, fd: BorrowedFd<'_>, wait: Wait) -> Result<Arc<Directory>> {
        let mut watched = self.watched.lock();
        self.drain(&mut watched);
        let used = self.budget.tick();
        if let Some(entry) = watched.directories.get(&directory) {
            entry.used.store(used, Ordering::Relaxed);
            return Ok(Arc::clone(entry));
        }
        if wait == Wait::Never {
            return Err(Errno::AGAIN);
        }
        while watched.directories.len() >= DIRECTORIES {
            if !self.forget_oldest(&mut watched) {
                break;
            }
        }
        // A remote file system mounted below the share does not report changes that are made elsewhere.
        let inotify = watched.inotify.as_ref().filter(|_| is_local(fd).unwrap_or(false));
        let watch = inotify.and_then(|inotify| watch(inotify, fd));
        let entry = Arc::new(Directory {
            watch,
            used: AtomicU64::new(used),
            state: AtomicU64::new(next_state()),
            pending: Mutex::new(Pending { changes: Vec::new(), held: Held::nothing(&self.budget) }),
            index: Mutex::new(None),
        });
        if let Some(watch) = watch {
            watched.by_watch.insert(watch, directory);
        }
        watched.directories.insert(directory, Arc::clone(&entry));
        Ok(entry)
    }

    /// Passes every queued change to its directory.
    fn drain(&self, watched: &mut DirectoryVersion) {
        let Some(inotify) = watched.inotify.take() else { return };
        let mut buffer = Vec::with_capacity(QUEUE);
        let mut reader = inotify::Reader::new(&inotify, buffer.spare_capacity_mut());
        let mut room = QUEUE;
        loop {
            match reader.next() {
                Ok(event) => {
                    room = room.saturating_sub(event_size(&event));
                    self.hand_over(watched, &event);
                }
                Err(Raw::INTR) => {}
                Err(_) => break,
            }
            if reader.is_buffer_empty() {
                // The read left space for another event, so the queue was empty.
                if room > LONGEST_EVENT {
                    break;
                }
                room = QUEUE;
            }
        }
        watched.inotify = Some(inotify);
    }

    fn hand_over(&self, watched: &mut DirectoryVersion, event: &inotify::Event<'_>) {
        use inotify::ReadFlags;
        if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
            // The lost events may concern any directory, so all indexes are discarded.
            while self.forget_oldest(watched) {}
            return;
        }
        let Some(&directory) = watched.by_watch.get(&event.wd()) else { return };
        if event.events().contains(ReadFlags::IGNORED) {
            // The directory was removed, and its watch with it, so the number may be reused.
            watched.by_watch.remove(&event.wd());
            self.forget(watched, directory);
            return;
        }
        let Some(entry) = watched.directories.get(&directory) else { return };
        if event.events().contains(ReadFlags::ATTRIB) {
            // An event without a name concerns the directory itself.
            if event.file_name().is_none() {
                entry.state.store(next_state(), Ordering::Relaxed);
            }
            return;
        }
        let Some(name) = event.file_name() else { return };
        let name: Name = Box::from(name.to_bytes());
        let added = event.events().intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        let mut pending = entry.pending.lock();
        if pending.changes.len() < PENDING && !self.budget.is_exceeded() {
            pending.held.add(CHANGE + name.len());
            pending.changes.push(if added { Change::Added(name) } else { Change::Removed(name) });
            return;
        }
        drop(pending);
        self.forget(watched, directory);
    }

    /// Returns when the least recently searched directory was searched.
    fn oldest(&self) -> Option<u64> {
        self.watched.lock().directories.values().map(|entry| entry.used.load(Ordering::Relaxed)).min()
    }

    /// Discards the least recently searched directory; `false` if there is none.
    fn forget_one(&self) -> bool {
        let forgotten = self.forget_oldest(&mut self.watched.lock());
        self.discard();
        forgotten
    }

    /// Frees discarded directories.
    fn discard(&self) {
        let forgotten = std::mem::take(&mut self.watched.lock().forgotten);
        drop(forgotten);
    }

    fn forget_oldest(&self, watched: &mut DirectoryVersion) -> bool {
        let oldest = watched.directories.iter().min_by_key(|(_, entry)| entry.used.load(Ordering::Relaxed));
        let Some((&directory, _)) = oldest else { return false };
        self.forget(watched, directory);
        true
    }

    fn forget(&self, watched: &mut DirectoryVersion, directory: FileId) {
        let Some(entry) = watched.directories.remove(&directory) else { return };
        if let (Some(inotify), Some(watch)) = (&watched.inotify, entry.watch)
            && watched.by_watch.remove(&watch).is_some()
        {
            // An error means that the watch has already been removed.
            let _ = inotify::remove_watch(inotify, watch);
        }
        watched.forgotten.push(entry);
    }

    /// Reads the directory; `None` if it has more names than an index may hold.
    fn build(&self, root: &Root, directory: BorrowedFd<'_>, is_watched: bool) -> Result<Option<Index>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let fd = open_for_reading(root, directory)?;
        let before = stat(&fd)?;
        let settled = self.stamps.is_old(time(before.stx_ctime).max(time(before.stx_mtime)));
        let mut index = Index {
            names: HashMap::new(),
            held: Held::nothing(&self.budget),
            stamp: (settled && !is_watched).then(|| Index::stamp_of(&before)),
        };
        let most = self.budget.of_one();
        let complete = dir::each_name(&fd, |name| {
            index.add(&self.hasher, name.into());
            index.held.bytes() <= most
        })?;
        Ok(complete.then_some(index))
    }

    /// Searches the directory itself, without an index.
    fn scan(&self, root: &Root, directory: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Name>> {
        let key = fold_key(name);
        let mut found: Option<Name> = None;
        self.reads.fetch_add(1, Ordering::Relaxed);
        dir::each_name(&open_for_reading(root, directory)?, |other| {
            if other == name || (fold_key(other) == key && found.as_deref().is_none_or(|found| other < found)) {
                found = Some(other.into());
            }
            other != name
        })?;
        Ok(found)
    }
}

/// Returns a number that no directory of any share has had.
fn next_state() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// Returns the size of an event in bytes. The kernel pads its name to a multiple of the header size.
fn event_size(event: &inotify::Event<'_>) -> usize {
    const HEADER: usize = 16;
    HEADER + event.file_name().map_or(0, |name| name.to_bytes_with_nul().len().next_multiple_of(HEADER))
}

fn watch(inotify: &OwnedFd, fd: impl AsFd) -> Option<i32> {
    use inotify::WatchFlags;
    let names = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO;
    let changes = names | WatchFlags::ATTRIB;
    identity::assume_process().ok()?;
    inotify::add_watch(inotify, held::path(fd), changes | WatchFlags::ONLYDIR).ok()
}

/// Opens the directory as the process, because the index belongs to the server.
fn open_for_reading(root: &Root, directory: impl AsFd) -> Result<OwnedFd> {
    identity::assume_process().map_err(crate::errno)?;
    root.reopen(directory, OFlags::RDONLY | OFlags::DIRECTORY)
}

impl Index {
    fn stamp_of(stat: &Statx) -> Stamp {
        (time(stat.stx_ctime), time(stat.stx_mtime))
    }

    /// Returns whether the directory is unchanged since it was read, judging by its times.
    fn is_of(&self, present: &Statx) -> bool {
        self.stamp == Some(Index::stamp_of(present))
    }

    fn apply(&mut self, hasher: &RandomState, change: Change) {
        match change {
            Change::Added(name) => self.add(hasher, name),
            Change::Removed(name) => self.remove(hasher, &name),
        }
    }

    fn add(&mut self, hasher: &RandomState, name: Box<[u8]>) {
        let names = self.names.entry(hasher.hash_one(fold_key(&name))).or_default();
        if let Err(at) = names.binary_search(&name) {
            self.held.add(NAME + name.len());
            names.insert(at, name);
        }
    }

    fn remove(&mut self, hasher: &RandomState, name: &[u8]) {
        let hash = hasher.hash_one(fold_key(name));
        let Some(names) = self.names.get_mut(&hash) else { return };
        if let Ok(at) = names.binary_search_by(|other| (**other).cmp(name)) {
            self.held.subtract(NAME + names.remove(at).len());
        }
        if names.is_empty() {
            self.names.remove(&hash);
        }
    }

    fn find(&self, hasher: &RandomState, name: &[u8]) -> Option<Name> {
        let key = fold_key(name);
        let names = self.names.get(&hasher.hash_one(&key))?;
        let exact = names.iter().find(|other| &***other == name);
        exact.or_else(|| names.iter().find(|other| fold_key(other) == key)).cloned()
    }
}
