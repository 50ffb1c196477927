//! Locks per file for changes that read an attribute and write it again.

use std::hash::{BuildHasher, RandomState};

use parking_lot::{Mutex, MutexGuard};
use server::vfs::FileId;

/// Number of locks. Files share them by hash.
const LOCKS: usize = 64;

/// The locks of one volume.
pub struct AttributeLocks {
    locks: [Mutex<()>; LOCKS],
    hasher: RandomState,
}

impl Default for AttributeLocks {
    fn default() -> Self {
        AttributeLocks { locks: std::array::from_fn(|_| Mutex::new(())), hasher: RandomState::new() }
    }
}

impl AttributeLocks {
    /// Waits until no other thread has the lock of `file`, and takes it.
    pub fn lock(&self, file: FileId) -> MutexGuard<'_, ()> {
        self.locks[self.hasher.hash_one(file) as usize % LOCKS].lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_one_file_exclude_each_other() {
        let (locks, file) = (AttributeLocks::default(), FileId { device: 1, inode: 2, stream: 0 });
        let lock = locks.lock(file);
        let is_locked = |lock: &&Mutex<()>| lock.is_locked();
        assert_eq!(locks.locks.iter().filter(is_locked).count(), 1);
        assert!(locks.locks[locks.hasher.hash_one(file) as usize % LOCKS].is_locked());
        drop(lock);
        assert_eq!(locks.locks.iter().filter(is_locked).count(), 0);
    }
}
