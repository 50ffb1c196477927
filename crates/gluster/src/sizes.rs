//! The sizes of files that this server changes.
//!
//! The library caches attributes (`performance/md-cache`), which every answer of a brick about a file carries. It takes
//! those of any answer unless their change time is earlier than that of the cached ones. Change times come from a clock
//! that advances every few milliseconds. If a brick processes several calls within such a step, and their answers
//! arrive in another order, an earlier size replaces the later one. It is reported until the cache ends, for ten
//! minutes on volumes for Samba. With GlusterFS 10.3 that happened to one of ten files that were written by four calls
//! at the same time.
//!
//! This module therefore knows between which sizes a file must be. A size beyond them is asked of a brick.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::vfs::FileId;

/// How long a file is known after its last change. The answers of calls that began before have arrived by then.
pub(crate) const LASTING: Duration = Duration::from_secs(10);

/// Maximum number of files. Beyond it, those that were changed first are forgotten earlier.
const MOST: usize = 16_384;

/// The number of files that are forgotten at once.
const BATCH: usize = 64;

/// The files of a volume that were changed lately. `T` is the handle of a file.
pub(crate) struct Sizes<T> {
    state: Mutex<State<T>>,
    lasting: Duration,
}

struct State<T> {
    files: HashMap<FileId, Known<T>>,
    /// Each of the files once, the one that was changed first at the front, with the earliest time of its last change.
    /// Files that were removed may be left.
    queue: VecDeque<(Instant, FileId)>,
}

/// What is known of the size of a file.
struct Known<T> {
    handle: Arc<T>,
    /// The least and the most that it may be. `None`: it must be asked of a brick.
    range: Option<(u64, u64)>,
    /// Changes that are not complete.
    running: u32,
    /// The number of changes that began or ended.
    version: u64,
    changed: Instant,
}

/// A change of the size of a file that is not complete.
pub(crate) struct Change {
    pub(crate) file: FileId,
    kind: Kind,
    /// The number of changes that had begun or ended when it began.
    version: u64,
}

#[derive(Clone, Copy)]
enum Kind {
    /// A write that ends at this offset.
    Write(u64),
    /// The size is set.
    Set(u64),
}

/// A size was reported that the file cannot have.
pub(crate) struct Doubt(u64);

/// A file that is to be forgotten. Its size may be wrong in the cache of the library.
pub(crate) struct Old<T> {
    pub(crate) file: FileId,
    pub(crate) handle: Arc<T>,
    version: u64,
}

impl<T> Default for Sizes<T> {
    fn default() -> Sizes<T> {
        let state = State { files: HashMap::new(), queue: VecDeque::new() };
        Sizes { state: Mutex::new(state), lasting: LASTING }
    }
}

impl<T> Sizes<T> {
    /// Records that a write begins, which ends at `end` in the file.
    pub(crate) fn write(&self, file: FileId, handle: &Arc<T>, end: u64) -> Change {
        self.begin(file, handle, Kind::Write(end))
    }

    /// Records that the size of a file is about to be set.
    pub(crate) fn set(&self, file: FileId, handle: &Arc<T>, size: u64) -> Change {
        self.begin(file, handle, Kind::Set(size))
    }

    fn begin(&self, file: FileId, handle: &Arc<T>, kind: Kind) -> Change {
        let mut state = self.state.lock();
        let State { files, queue } = &mut *state;
        let now = Instant::now();
        let known = files.entry(file).or_insert_with(|| {
            queue.push_back((now, file));
            let handle = Arc::clone(handle);
            Known { handle, range: Some((0, u64::MAX)), running: 0, version: 0, changed: now }
        });
        known.running += 1;
        known.version += 1;
        known.range = match (known.range, kind) {
            (Some((least, most)), Kind::Write(end)) => Some((least, most.max(end))),
            // Until it is complete, the old size and the new one are right.
            (Some((least, most)), Kind::Set(size)) => Some((least.min(size), most.max(size))),
            (None, _) => None,
        };
        Change { file, kind, version: known.version }
    }

    /// Records that a change is complete.
    pub(crate) fn end(&self, change: Change, succeeded: bool) {
        let mut state = self.state.lock();
        let Some(known) = state.files.get_mut(&change.file) else { return };
        let is_alone = known.version == change.version && known.running == 1;
        known.running = known.running.saturating_sub(1);
        known.version += 1;
        known.changed = Instant::now();
        known.range = match (known.range, change.kind) {
            (Some((least, most)), Kind::Write(end)) if succeeded => Some((least.max(end), most)),
            (_, Kind::Set(size)) if succeeded && is_alone => Some((size, size)),
            // Which of the changes came last is not known.
            (_, Kind::Set(_)) => None,
            (range, Kind::Write(_)) => range,
        };
    }

    /// Returns a doubt if a file cannot have this size.
    pub(crate) fn doubt(&self, file: FileId, size: u64) -> Option<Doubt> {
        let state = self.state.lock();
        let known = state.files.get(&file)?;
        let is_possible = known.range.is_some_and(|(least, most)| (least..=most).contains(&size));
        (!is_possible).then_some(Doubt(known.version))
    }

    /// Records the size that a brick reported after a doubt. It may be one that another client of the volume set.
    pub(crate) fn settle(&self, file: FileId, doubt: &Doubt, size: u64) {
        let mut state = self.state.lock();
        let Some(known) = state.files.get_mut(&file) else { return };
        if known.version == doubt.0 && known.running == 0 {
            let is_open = known.range.is_some_and(|(_, most)| most == u64::MAX);
            known.range = Some((size, if is_open { u64::MAX } else { size }));
        }
    }

    /// Returns files that were not changed lately, if there are enough of them. `is_open`: the file is still open, so
    /// that a change of it may wait in the library.
    pub(crate) fn old(&self, is_open: impl Fn(FileId) -> bool) -> Vec<Old<T>> {
        let mut state = self.state.lock();
        let State { files, queue } = &mut *state;
        let now = Instant::now();
        let is_over = |changed: Instant| now.saturating_duration_since(changed) >= self.lasting;
        let is_full = queue.len() > MOST;
        if !is_full && !queue.get(BATCH - 1).is_some_and(|(changed, _)| is_over(*changed)) {
            return Vec::new();
        }
        let mut old = Vec::new();
        for _ in 0..BATCH {
            let Some((_, file)) = queue.pop_front() else { break };
            let Some(known) = files.get(&file) else { continue };
            if known.running > 0 || is_open(file) || !is_full && !is_over(known.changed) {
                let changed = if known.running > 0 || is_open(file) { now } else { known.changed };
                queue.push_back((changed, file));
                continue;
            }
            old.push(Old { file, handle: Arc::clone(&known.handle), version: known.version });
        }
        old
    }

    /// Forgets a file that has no name any more and is not open, unless it is being changed.
    pub(crate) fn removed(&self, file: FileId) {
        let mut state = self.state.lock();
        if state.files.get(&file).is_some_and(|known| known.running == 0) {
            state.files.remove(&file);
        }
    }

    /// Forgets a file, of which the library now has the right size, unless it was changed meanwhile.
    pub(crate) fn forget(&self, old: &Old<T>) {
        let mut state = self.state.lock();
        let State { files, queue } = &mut *state;
        match files.get(&old.file) {
            Some(known) if known.version == old.version => {
                files.remove(&old.file);
            }
            Some(known) => queue.push_back((known.changed, old.file)),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { device: 1, inode: 2, stream: 0 };

    fn numbered(inode: u64) -> FileId {
        FileId { inode, ..FILE }
    }

    fn sizes() -> (Sizes<()>, Arc<()>) {
        (Sizes { lasting: Duration::ZERO, ..Sizes::default() }, Arc::new(()))
    }

    fn possible(sizes: &Sizes<()>, all: &[u64]) -> Vec<u64> {
        all.iter().copied().filter(|&size| sizes.doubt(FILE, size).is_none()).collect()
    }

    #[test]
    fn a_file_is_at_least_as_long_as_its_complete_writes() {
        let (sizes, handle) = sizes();
        assert_eq!(possible(&sizes, &[0, 10]), [0, 10]);
        let [first, second, failed] = [10, 20, 30].map(|end| sizes.write(FILE, &handle, end));
        assert_eq!(possible(&sizes, &[0, 10, 20, 30]), [0, 10, 20, 30]);
        sizes.end(second, true);
        assert_eq!(possible(&sizes, &[0, 10, 20, 30]), [20, 30]);
        sizes.end(first, true);
        sizes.end(failed, false);
        assert_eq!(possible(&sizes, &[0, 10, 20, 30]), [20, 30]);
        assert!(sizes.doubt(numbered(3), 0).is_none());
    }

    #[test]
    fn a_size_that_is_set_is_exact_unless_other_changes_ran() {
        let (sizes, handle) = sizes();
        let end = |change| sizes.end(change, true);
        end(sizes.write(FILE, &handle, 20));
        let set = sizes.set(FILE, &handle, 5);
        assert_eq!(possible(&sizes, &[0, 5, 20]), [5, 20]);
        end(set);
        assert_eq!(possible(&sizes, &[4, 5, 6, 20]), [5]);
        let write = sizes.write(FILE, &handle, 8);
        assert_eq!(possible(&sizes, &[4, 5, 8, 20]), [5, 8]);
        end(write);
        assert_eq!(possible(&sizes, &[5, 8, 20]), [8]);
        // Which of the two came last is not known, so that a brick is asked.
        let (write, set) = (sizes.write(FILE, &handle, 30), sizes.set(FILE, &handle, 1));
        end(write);
        end(set);
        assert_eq!(possible(&sizes, &[1, 8, 30]), []);
        let doubt = sizes.doubt(FILE, 8).expect("a doubt");
        sizes.settle(FILE, &doubt, 1);
        assert_eq!(possible(&sizes, &[1, 8, 30]), [1]);
        sizes.end(sizes.set(FILE, &handle, 7), false);
        assert_eq!(possible(&sizes, &[1, 7]), []);
    }

    #[test]
    fn an_answer_settles_nothing_while_the_file_changes() {
        let (sizes, handle) = sizes();
        sizes.end(sizes.write(FILE, &handle, 20), true);
        let doubt = sizes.doubt(FILE, 0).expect("a doubt");
        let write = sizes.write(FILE, &handle, 30);
        sizes.settle(FILE, &doubt, 0);
        assert_eq!(possible(&sizes, &[0, 20]), [20]);
        sizes.end(write, true);
        sizes.settle(FILE, &doubt, 0);
        assert_eq!(possible(&sizes, &[0, 20, 30]), [30]);
        // Another client of the volume has shortened the file.
        let doubt = sizes.doubt(FILE, 0).expect("a doubt");
        sizes.settle(FILE, &doubt, 0);
        assert_eq!(possible(&sizes, &[0, 20, 30]), [0, 20, 30]);
    }

    /// Forgets the files that are old, and returns how many there were.
    fn forget(sizes: &Sizes<()>, is_open: impl Fn(FileId) -> bool) -> usize {
        let old = sizes.old(is_open);
        old.iter().for_each(|old| sizes.forget(old));
        old.len()
    }

    #[test]
    fn files_are_forgotten_some_time_after_their_last_change() {
        let (sizes, handle) = sizes();
        let write = |inode| sizes.write(numbered(inode), &handle, 10);
        let batch = BATCH as u64;
        (1..batch).for_each(|inode| sizes.end(write(inode), true));
        assert_eq!(forget(&sizes, |_| false), 0);
        let running = write(batch);
        assert_eq!(forget(&sizes, |file| file == numbered(1)), BATCH - 2);
        assert!(sizes.doubt(numbered(1), 0).is_some() && sizes.doubt(numbered(2), 0).is_none());
        sizes.end(running, true);
        assert!(sizes.doubt(numbered(batch), 0).is_some());
        // A file that changes while it is forgotten stays.
        (batch..2 * batch).for_each(|inode| sizes.end(write(inode), true));
        let old = sizes.old(|_| false);
        sizes.end(write(batch), true);
        old.iter().for_each(|old| sizes.forget(old));
        assert!(sizes.doubt(numbered(batch), 0).is_some());
        let state = sizes.state.lock();
        assert_eq!(state.files.len(), state.queue.len());
    }

    #[test]
    fn files_that_are_removed_are_forgotten_at_once() {
        let (sizes, handle) = sizes();
        let count = 3 * BATCH as u64;
        for inode in 0..count {
            sizes.end(sizes.write(numbered(inode), &handle, 10), true);
        }
        let running = sizes.write(numbered(0), &handle, 20);
        (0..count).for_each(|inode| sizes.removed(numbered(inode)));
        assert_eq!((sizes.doubt(numbered(1), 0).is_some(), sizes.doubt(numbered(0), 0).is_some()), (false, true));
        sizes.end(running, true);
        let found: usize = (0..4).map(|_| forget(&sizes, |_| false)).sum();
        assert_eq!((found, sizes.state.lock().queue.len()), (1, 0), "only the file that was being changed was left");
        assert_eq!(Arc::strong_count(&handle), 1);
    }

    #[test]
    fn the_number_of_files_is_limited() {
        let (sizes, handle) = (Sizes::default(), Arc::new(()));
        for inode in 0..MOST as u64 + 2_000 {
            sizes.end(sizes.write(numbered(inode), &handle, 10), true);
            forget(&sizes, |_| false);
        }
        let state = sizes.state.lock();
        assert!((MOST - BATCH..=MOST).contains(&state.files.len()), "{}", state.files.len());
        assert_eq!(state.files.len(), state.queue.len());
    }
}
