//! Case-insensitive name look-ups: an index of each searched directory, so that a missing name costs no reading of the
//! directory.
//!
//! An index is built by reading the directory once. A [`ChangeQueue`] keeps it current: inotify, the storage's
//! notifications, or a list of the back end's own changes if nobody else changes the storage. The queue is drained
//! before a search, which makes the index as current as the search. If a directory cannot be watched, its times are
//! compared instead. Memory is bounded, and the least recently searched directory is discarded first.

pub mod budget;
mod index;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use server::name::fold_key;
use server::vfs::{Errno, FileId, Result, Time};

use self::budget::{Budget, Charge, Indexes};
use self::index::{Change, Index};
use crate::Wait;
use crate::clock::Clock;

/// Maximum number of indexed directories of a volume.
const DIRECTORIES: usize = 512;
/// Memory for a pending change in addition to the bytes of its name.
const CHANGE: usize = 64;
/// Maximum number of pending changes of one directory. With more it is cheaper to read it again.
const PENDING: usize = 16_384;

/// A name as stored.
pub type Name = Box<[u8]>;

/// Reports the changes of watched directories in their order.
///
/// A change is in the queue as soon as a later search can depend on it: before the call that made it returns.
pub trait ChangeQueue: Send + 'static {
    /// Identifies a watched directory.
    type Watch: Copy + Eq + Hash + Send + Sync;

    /// Calls `each` with every change that was queued until now.
    fn drain(&mut self, each: &mut dyn FnMut(Event<'_, Self::Watch>));

    /// Ends a watch. The storage may already have ended it.
    fn unwatch(&mut self, watch: Self::Watch);
}

/// A change of a watched directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a, Watch> {
    /// The name was created, or moved into the directory.
    Added(Watch, &'a [u8]),
    /// The name was removed, or moved out of the directory.
    Removed(Watch, &'a [u8]),
    /// The directory's own permissions or attributes changed.
    Attributes(Watch),
    /// The watch has ended, because the directory was removed. Its value may be used for another directory.
    Ended(Watch),
    /// Changes of any directories were lost.
    Lost,
}

/// A directory that can be searched. The back end has already refused users who may not search it.
pub trait Directory<Queue: ChangeQueue> {
    /// An open directory.
    type Listing: Listing;

    /// Starts to watch the directory; `None` if not all of its changes would be reported.
    fn watch(&self, queue: &mut Queue) -> Option<Queue::Watch>;

    /// Returns the directory's times now.
    fn stamp(&self) -> Result<Stamp>;

    /// Returns whether a listing has all names now. It has not while a part of the storage is not connected whose names
    /// it leaves out. The thread may have the server's identity afterwards.
    fn lists_all(&self) -> Result<bool> {
        Ok(true)
    }

    /// Opens the directory with the server's own identity, because an index belongs to the server. The thread may have
    /// that identity afterwards.
    fn open(&self) -> Result<Self::Listing>;
}

/// A directory that is open for reading.
pub trait Listing {
    /// Returns the directory's times now.
    fn stamp(&self) -> Result<Stamp>;

    /// Calls `each` with every name of the directory except `.` and `..` until it returns `false`. Returns whether it
    /// never did.
    fn each_name(&mut self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<bool>;
}

/// The times of a directory that change with its names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Last change of anything.
    pub changed: Time,
    /// Last change of the names.
    pub modified: Time,
}

/// The indexes of one volume.
pub struct NameIndexes<Queue: ChangeQueue> {
    state: Mutex<State<Queue>>,
    budget: Arc<Budget>,
    clock: Clock,
    /// Number of times that a directory was read.
    reads: AtomicU64,
}

struct State<Queue: ChangeQueue> {
    queue: Option<Queue>,
    directories: HashMap<FileId, Arc<Entry<Queue::Watch>>>,
    by_watch: HashMap<Queue::Watch, FileId>,
    /// Watches of directories that were discarded while the queue was drained.
    unwatched: Vec<Queue::Watch>,
    /// Discarded directories. Freeing the names of a large one takes a while, which not every caller can afford.
    discarded: Vec<Arc<Entry<Queue::Watch>>>,
}

/// One directory.
struct Entry<Watch> {
    watch: Option<Watch>,
    used: AtomicU64,
    /// Replaced by a new number with each change of the directory's own permissions and attributes.
    version: AtomicU64,
    pending: Mutex<Pending>,
    index: Mutex<Option<Index>>,
}

/// Changes that were drained from the queue and not yet applied.
struct Pending {
    changes: Vec<Change>,
    charge: Charge,
}

impl Pending {
    fn take(&mut self) -> Vec<Change> {
        self.charge.subtract(self.charge.bytes());
        std::mem::take(&mut self.changes)
    }
}

impl<Queue: ChangeQueue> NameIndexes<Queue> {
    /// Creates the indexes of directories whose changes `queue` reports, and whose times come from `clock`.
    pub fn new(queue: Option<Queue>, clock: Clock, budget: Arc<Budget>) -> Arc<NameIndexes<Queue>> {
        let (directories, by_watch, unwatched, discarded) = Default::default();
        let indexes = Arc::new(NameIndexes {
            state: Mutex::new(State { queue, directories, by_watch, unwatched, discarded }),
            budget: Arc::clone(&budget),
            clock,
            reads: AtomicU64::new(0),
        });
        let weak = Arc::downgrade(&indexes);
        budget.add(weak);
        indexes
    }

    /// Returns the name in `directory` that equals `name` except for case: `name` itself if it exists, else the first
    /// match in byte order. Also returns the directory's [`server::vfs::DirectoryVersion::state`] if the directory is
    /// watched. `directory` is the file `file`. The thread may have the server's identity afterwards.
    ///
    /// # Errors
    /// `Errno::AGAIN` if the directory must be read or another search waited for, and `wait` forbids it. Otherwise
    /// those of the storage.
    pub fn find(
        &self,
        directory: &impl Directory<Queue>,
        file: FileId,
        name: &[u8],
        wait: Wait,
    ) -> Result<(Option<Name>, Option<u64>)> {
        let entry = self.entry(directory, file, wait)?;
        let found = self.find_in(&entry, directory, name, wait);
        if wait == Wait::Allowed {
            self.free_discarded();
            self.budget.enforce();
        }
        found
    }

    fn find_in(
        &self,
        entry: &Entry<Queue::Watch>,
        directory: &impl Directory<Queue>,
        name: &[u8],
        wait: Wait,
    ) -> Result<(Option<Name>, Option<u64>)> {
        let mut guard = match wait {
            Wait::Never => entry.index.try_lock().ok_or(Errno::AGAIN)?,
            Wait::Allowed => entry.index.lock(),
        };
        let index = match &mut *guard {
            Some(index) if entry.watch.is_some() || index.is_current(directory.stamp()?) => index,
            _ if wait == Wait::Never => return Err(Errno::AGAIN),
            slot => match self.build(directory, entry.watch.is_some())? {
                Some(index) => slot.insert(index),
                None => return Ok((self.scan(directory, name)?, None)),
            },
        };
        for change in entry.pending.lock().take() {
            index.apply(change);
        }
        let version = entry.watch.map(|_| entry.version.load(Ordering::Relaxed));
        Ok((index.find(name), version))
    }

    /// Returns whether a name equal to `name` except for case is in the directory `file`, and the directory's
    /// [`server::vfs::DirectoryVersion::state`]. `None` if there is no index of a watched directory.
    pub fn known(&self, file: FileId, name: &[u8]) -> Option<(bool, u64)> {
        let entry = {
            let mut state = self.state.lock();
            self.drain(&mut state);
            let entry = Arc::clone(state.directories.get(&file)?);
            entry.used.store(self.budget.tick(), Ordering::Relaxed);
            entry
        };
        entry.watch?;
        let mut guard = entry.index.try_lock()?;
        let index = guard.as_mut()?;
        for change in entry.pending.lock().take() {
            index.apply(change);
        }
        Some((index.find(name).is_some(), entry.version.load(Ordering::Relaxed)))
    }

    /// Returns how many times a directory was read.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Returns the number of indexed directories.
    pub fn directories(&self) -> usize {
        self.state.lock().directories.len()
    }

    /// Returns the directory's entry, created if necessary, with all changes until now queued in it.
    fn entry(&self, directory: &impl Directory<Queue>, file: FileId, wait: Wait) -> Result<Arc<Entry<Queue::Watch>>> {
        let mut state = self.state.lock();
        self.drain(&mut state);
        let used = self.budget.tick();
        if let Some(entry) = state.directories.get(&file) {
            entry.used.store(used, Ordering::Relaxed);
            return Ok(Arc::clone(entry));
        }
        if wait == Wait::Never {
            return Err(Errno::AGAIN);
        }
        while state.directories.len() >= DIRECTORIES {
            if !state.discard_oldest() {
                break;
            }
        }
        let watch = state.queue.as_mut().and_then(|queue| directory.watch(queue));
        let entry = Arc::new(Entry {
            watch,
            used: AtomicU64::new(used),
            version: AtomicU64::new(next_version()),
            pending: Mutex::new(Pending { changes: Vec::new(), charge: Charge::nothing(&self.budget) }),
            index: Mutex::new(None),
        });
        if let Some(watch) = watch {
            state.by_watch.insert(watch, file);
        }
        state.directories.insert(file, Arc::clone(&entry));
        Ok(entry)
    }

    /// Passes every queued change to its directory.
    fn drain(&self, state: &mut State<Queue>) {
        let Some(mut queue) = state.queue.take() else { return };
        queue.drain(&mut |event| self.hand_over(state, event));
        for watch in state.unwatched.drain(..) {
            queue.unwatch(watch);
        }
        state.queue = Some(queue);
    }

    fn hand_over(&self, state: &mut State<Queue>, event: Event<'_, Queue::Watch>) {
        match event {
            // The lost changes may concern any directory, so all indexes are discarded.
            Event::Lost => while state.discard_oldest() {},
            Event::Ended(watch) => {
                if let Some(file) = state.by_watch.remove(&watch) {
                    state.discard(file);
                }
            }
            Event::Attributes(watch) => {
                if let Some(entry) = state.watched(watch) {
                    entry.version.store(next_version(), Ordering::Relaxed);
                }
            }
            Event::Added(watch, name) => self.add_change(state, watch, name, Change::Added),
            Event::Removed(watch, name) => self.add_change(state, watch, name, Change::Removed),
        }
    }

    /// Queues a change of names, or discards the directory if there are too many.
    fn add_change(&self, state: &mut State<Queue>, watch: Queue::Watch, name: &[u8], change: fn(Name) -> Change) {
        let Some(&file) = state.by_watch.get(&watch) else { return };
        let Some(entry) = state.directories.get(&file) else { return };
        let mut pending = entry.pending.lock();
        if pending.changes.len() < PENDING && !self.budget.is_exceeded() {
            pending.charge.add(CHANGE + name.len());
            pending.changes.push(change(name.into()));
            return;
        }
        drop(pending);
        state.discard(file);
    }

    /// Frees discarded directories.
    fn free_discarded(&self) {
        let discarded = std::mem::take(&mut self.state.lock().discarded);
        drop(discarded);
    }

    /// Reads the directory; `None` if it has more names than an index may hold, or a listing may lack names.
    fn build(&self, directory: &impl Directory<Queue>, is_watched: bool) -> Result<Option<Index>> {
        if !directory.lists_all()? {
            return Ok(None);
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        let mut listing = directory.open()?;
        let before = listing.stamp()?;
        let settled = self.clock.is_old(before.changed.max(before.modified));
        let mut index = Index::new(Charge::nothing(&self.budget), (settled && !is_watched).then_some(before));
        let most = self.budget.of_directory();
        let fits = listing.each_name(&mut |name| {
            index.add(name);
            index.bytes() <= most
        })?;
        // A part that is connected only at the begin or only at the end may have been left out.
        let complete = fits && directory.lists_all()?;
        index.finish();
        Ok(complete.then_some(index))
    }

    /// Searches the directory itself, without an index.
    fn scan(&self, directory: &impl Directory<Queue>, name: &[u8]) -> Result<Option<Name>> {
        let key = fold_key(name);
        let mut found: Option<Name> = None;
        self.reads.fetch_add(1, Ordering::Relaxed);
        directory.open()?.each_name(&mut |other| {
            if other == name || (fold_key(other) == key && found.as_deref().is_none_or(|found| other < found)) {
                found = Some(other.into());
            }
            other != name
        })?;
        Ok(found)
    }
}

impl<Queue: ChangeQueue> Indexes for NameIndexes<Queue> {
    fn oldest(&self) -> Option<u64> {
        self.state.lock().directories.values().map(|entry| entry.used.load(Ordering::Relaxed)).min()
    }

    fn discard_one(&self) -> bool {
        let discarded = self.state.lock().discard_oldest();
        self.free_discarded();
        discarded
    }
}

impl<Queue: ChangeQueue> State<Queue> {
    fn watched(&self, watch: Queue::Watch) -> Option<&Arc<Entry<Queue::Watch>>> {
        self.directories.get(self.by_watch.get(&watch)?)
    }

    /// Discards the least recently searched directory; `false` if there is none.
    fn discard_oldest(&mut self) -> bool {
        let oldest = self.directories.iter().min_by_key(|(_, entry)| entry.used.load(Ordering::Relaxed));
        let Some((&file, _)) = oldest else { return false };
        self.discard(file);
        true
    }

    fn discard(&mut self, file: FileId) {
        let Some(entry) = self.directories.remove(&file) else { return };
        if let Some(watch) = entry.watch
            && self.by_watch.remove(&watch).is_some()
        {
            match &mut self.queue {
                Some(queue) => queue.unwatch(watch),
                None => self.unwatched.push(watch),
            }
        }
        self.discarded.push(entry);
    }
}

/// Returns a number that no directory of any volume has had.
fn next_version() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}
