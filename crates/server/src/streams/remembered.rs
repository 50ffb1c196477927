//! What is known of files as they are at one change time. The number of files is limited.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use parking_lot::Mutex;

use super::{Owner, owner};
use crate::policy::stream_layout::Layout;
use crate::tree::Disk;
use crate::vfs::{FileId, Metadata};

/// Files with a state of type `T`, by the share's layout. They are in two generations: when the newer one is full, it
/// becomes the older one.
pub(super) struct Remembered<T> {
    hasher: RandomState,
    limit: usize,
    generations: Mutex<[HashMap<(Owner, u64), T>; 2]>,
}

impl<T: PartialEq> Remembered<T> {
    /// Returns a memory of at most `limit` files.
    pub(super) fn new(limit: usize) -> Remembered<T> {
        Remembered { hasher: RandomState::new(), limit, generations: Mutex::default() }
    }

    /// Returns the part of the key for a layout. A client cannot choose a layout, so hashes do not collide.
    pub(super) fn layout(&self, layout: &Layout) -> u64 {
        self.hasher.hash_one(layout)
    }

    /// Whether the file was noted in this state.
    pub(super) fn has(&self, file: FileId, layout: u64, state: &T) -> bool {
        let key = (owner(file), layout);
        self.generations.lock().iter().any(|known| known.get(&key) == Some(state))
    }

    /// Notes the state of a file.
    pub(super) fn note(&self, file: FileId, layout: u64, state: T) {
        let mut generations = self.generations.lock();
        if generations[0].len() >= self.limit / 2 {
            generations.swap(0, 1);
            generations[0].clear();
        }
        generations[0].insert((owner(file), layout), state);
    }
}

/// Whether every later change of the file gets another change time than that in `metadata`. It is known only before the
/// file is read.
pub(super) fn is_settled(disk: &Disk, metadata: &Metadata) -> bool {
    let granularity = disk.vfs.capabilities().changes.granularity(metadata.stamped);
    disk.descriptors.is_settled(metadata, granularity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_states_are_forgotten() {
        let remembered = Remembered::new(8);
        let file = |inode| FileId { device: 1, inode, stream: 0 };
        for inode in 0..100 {
            remembered.note(file(inode), 7, inode);
            assert!(remembered.has(file(inode), 7, &inode));
        }
        let known = (0..100).filter(|inode| remembered.has(file(*inode), 7, inode));
        assert_eq!(known.collect::<Vec<_>>(), [92, 93, 94, 95, 96, 97, 98, 99]);
        assert!(!remembered.has(file(99), 7, &98) && !remembered.has(file(99), 8, &99));
    }
}
