//! Locks per file for changes that read an attribute and write it again.

use std::hash::{BuildHasher, RandomState};

use parking_lot::{Condvar, Mutex};
use server::vfs::FileId;

/// Number of lists of locked files. Files share them by hash, so that threads rarely wait for a list.
const LISTS: usize = 64;

/// The locks of one volume.
pub struct AttributeLocks {
    lists: [Locked; LISTS],
    hasher: RandomState,
}

/// Files that are locked.
#[derive(Default)]
struct Locked {
    files: Mutex<Vec<FileId>>,
    ended: Condvar,
}

/// The lock of a file, which ends when it is dropped.
#[must_use = "the lock ends when this is dropped"]
pub struct AttributeLock<'a> {
    locked: &'a Locked,
    file: FileId,
}

impl Default for AttributeLocks {
    fn default() -> Self {
        AttributeLocks { lists: std::array::from_fn(|_| Locked::default()), hasher: RandomState::new() }
    }
}

impl AttributeLocks {
    /// Waits until no other thread has the lock of `file`, and takes it. The lock may be held during calls that hang,
    /// which must not delay changes of other files.
    pub fn lock(&self, file: FileId) -> AttributeLock<'_> {
        let locked = &self.lists[self.hasher.hash_one(file) as usize % LISTS];
        let mut files = locked.files.lock();
        while files.contains(&file) {
            locked.ended.wait(&mut files);
        }
        files.push(file);
        AttributeLock { locked, file }
    }
}

impl Drop for AttributeLock<'_> {
    fn drop(&mut self) {
        self.locked.files.lock().retain(|file| *file != self.file);
        self.locked.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn file(inode: usize) -> FileId {
        FileId { device: 1, inode: inode as u64, stream: 0 }
    }

    #[test]
    fn changes_of_one_file_exclude_each_other() {
        const THREADS: usize = 4;
        const CHANGES: usize = 1_000;
        let (locks, changing, changed) = (AttributeLocks::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let change = || {
            for _ in 0..CHANGES {
                let _lock = locks.lock(file(1));
                assert_eq!(changing.fetch_add(1, Ordering::Relaxed), 0);
                changed.fetch_add(1, Ordering::Relaxed);
                changing.fetch_sub(1, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(change))));
        assert_eq!(changed.into_inner(), THREADS * CHANGES);
    }

    #[test]
    fn a_change_that_hangs_delays_no_other_file() {
        let locks = AttributeLocks::default();
        // Some of them are in one list. This thread would wait for ever if they had one lock.
        let held: Vec<_> = (0..4 * LISTS).map(|inode| locks.lock(file(inode))).collect();
        drop(held);
        assert!(locks.lists.iter().all(|locked| locked.files.lock().is_empty()));
    }
}
