//! Names that differ in case only: an index of each directory that is searched for one, so that a name that is not
//! there costs no reading of the directory.
//!
//! An index is built by reading the directory once and kept right by inotify, which queues a change before the call
//! that made it returns: draining the queue before a search makes the index as new as the search. Where a directory
//! cannot be watched, or its file system changes elsewhere too, its change times tell instead. Everything is bounded,
//! and the directory that was not searched for the longest time goes first.

pub(crate) mod budget;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::fs::{OFlags, Statx, inotify};
use rustix::io::Errno as Raw;
use server::name::fold_key;
use server::vfs::{Errno, FileId, Result, Time};

use self::budget::{Budget, Held};
use crate::clock::Clock;
use crate::held;
use crate::metadata::time;
use crate::root::{Root, Wait, is_local, stat};
use crate::{dir, identity};

/// Directories of a share that are indexed at a time.
const DIRECTORIES: usize = 512;
/// What a name takes in an index, and one that waits to be applied, beyond its own bytes: its places in tables, which are
/// half empty at worst, and what the allocator adds.
const NAME: usize = 128;
const CHANGE: usize = 64;
/// Changes of one directory that wait to be applied; with more it is cheaper to read it again.
const PENDING: usize = 16_384;

/// Bytes of queued changes that are read at a time, and what one change takes at most.
const QUEUE: usize = 16 * 1024;
const LONGEST_EVENT: usize = 16 + 256 + 16;

/// A name as it is on disk.
pub(crate) type Name = Box<[u8]>;

/// The indexes of one share.
pub(crate) struct Names {
    watched: Mutex<Watched>,
    hasher: RandomState,
    budget: Arc<Budget>,
    stamps: Clock,
    /// How often a directory was read.
    reads: AtomicU64,
}

struct Watched {
    /// `None` where the kernel gave none, and on file systems that change elsewhere too.
    inotify: Option<OwnedFd>,
    directories: HashMap<FileId, Arc<Directory>>,
    by_watch: HashMap<i32, FileId>,
    /// Those that were forgotten. To free the names of a large one takes a while, for which not every caller has the time.
    forgotten: Vec<Arc<Directory>>,
}

/// One directory.
struct Directory {
    watch: Option<i32>,
    used: AtomicU64,
    /// A new one with each change of the directory's own permissions and attributes.
    state: AtomicU64,
    pending: Mutex<Pending>,
    index: Mutex<Option<Index>>,
}

/// Changes that were drained and not yet applied.
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

/// The names of a directory by the hash of their folded form. Names whose hashes are equal stand side by side.
struct Index {
    names: HashMap<u64, Vec<Box<[u8]>>>,
    held: Held,
    /// The directory's change times when it was read; `None` where they cannot tell of a change.
    stamp: Option<Stamp>,
}

type Stamp = (Time, Time);

impl Names {
    /// Those of directories that are stamped by `stamps`.
    pub(crate) fn new(local: bool, stamps: Clock, budget: Arc<Budget>) -> Arc<Names> {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        let inotify = if local { inotify::init(flags).ok() } else { None };
        let names = Arc::new(Names {
            watched: Mutex::new(Watched {
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

    /// The name in `directory` that equals `name`, but for case: `name` itself if it is there, else the first of the
    /// others in the order of their bytes; and the directory's [`server::vfs::Watched::state`] where inotify tells of its
    /// changes. `directory` is the file `file`. The directory is read with the process's own identity, which the thread may
    /// have afterwards: who may not search it has been refused before.
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

    /// Whether a name equal to `name` but for case is in the directory `file`, and the directory's
    /// [`server::vfs::Watched::state`]; `None` where there is no index at hand that inotify keeps right.
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

    /// The directory's entry, made if need be; all changes until now are known to it.
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
        // A file system of another machine that is mounted beneath the share tells of no changes that are made elsewhere.
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

    /// Hands every queued change to its directory.
    fn drain(&self, watched: &mut Watched) {
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
                // The kernel had room for another event and gave none: there was none.
                if room > LONGEST_EVENT {
                    break;
                }
                room = QUEUE;
            }
        }
        watched.inotify = Some(inotify);
    }

    fn hand_over(&self, watched: &mut Watched, event: &inotify::Event<'_>) {
        use inotify::ReadFlags;
        if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
            // What was lost is not known, so nothing is.
            while self.forget_oldest(watched) {}
            return;
        }
        let Some(&directory) = watched.by_watch.get(&event.wd()) else { return };
        if event.events().contains(ReadFlags::IGNORED) {
            // The directory is gone, and its watch with it: the number may be given again.
            watched.by_watch.remove(&event.wd());
            self.forget(watched, directory);
            return;
        }
        let Some(entry) = watched.directories.get(&directory) else { return };
        if event.events().contains(ReadFlags::ATTRIB) {
            // Without a name it is the directory's own.
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

    /// When the directory was searched that was not for the longest time.
    fn oldest(&self) -> Option<u64> {
        self.watched.lock().directories.values().map(|entry| entry.used.load(Ordering::Relaxed)).min()
    }

    /// Forgets that directory; `false` where there is none.
    fn forget_one(&self) -> bool {
        let forgotten = self.forget_oldest(&mut self.watched.lock());
        self.discard();
        forgotten
    }

    /// Frees what was forgotten.
    fn discard(&self) {
        let forgotten = std::mem::take(&mut self.watched.lock().forgotten);
        drop(forgotten);
    }

    fn forget_oldest(&self, watched: &mut Watched) -> bool {
        let oldest = watched.directories.iter().min_by_key(|(_, entry)| entry.used.load(Ordering::Relaxed));
        let Some((&directory, _)) = oldest else { return false };
        self.forget(watched, directory);
        true
    }

    fn forget(&self, watched: &mut Watched, directory: FileId) {
        let Some(entry) = watched.directories.remove(&directory) else { return };
        if let (Some(inotify), Some(watch)) = (&watched.inotify, entry.watch)
            && watched.by_watch.remove(&watch).is_some()
        {
            // An error means that it is gone already.
            let _ = inotify::remove_watch(inotify, watch);
        }
        watched.forgotten.push(entry);
    }

    /// Reads the directory; `None` where it has more names than an index may.
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

/// A number that no directory of any share has had.
fn next_state() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// How many bytes an event takes: the kernel fills its name up to whole headers.
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

/// The index is the server's own, so the server reads for it.
fn open_for_reading(root: &Root, directory: impl AsFd) -> Result<OwnedFd> {
    identity::assume_process().map_err(crate::errno)?;
    root.reopen(directory, OFlags::RDONLY | OFlags::DIRECTORY)
}

impl Index {
    fn stamp_of(stat: &Statx) -> Stamp {
        (time(stat.stx_ctime), time(stat.stx_mtime))
    }

    /// Whether nothing has changed since the directory was read, judged by its times.
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
