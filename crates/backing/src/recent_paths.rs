//! Paths that were of a certain kind when last looked at or listed, for example regular files.
//!
//! A call that is right only for this kind can then be tried first. The answer may be wrong, because the kind of a path
//! can change and two paths can have the same hash. The paths themselves are not stored.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use server::vfs::RelPath;

/// Number of paths that are remembered, 8 bytes each. A later path replaces an earlier one in its slot.
const PATHS: usize = 16_384;

/// The paths of one volume that were of the kind.
#[derive(Default)]
pub struct RecentPaths {
    slots: OnceLock<Box<[AtomicU64]>>,
    hasher: RandomState,
    is_off: bool,
}

impl RecentPaths {
    /// Creates an instance that remembers nothing.
    pub fn none() -> RecentPaths {
        RecentPaths { is_off: true, ..RecentPaths::default() }
    }

    /// Records that `name` in `directory` is of the kind.
    pub fn note(&self, directory: &RelPath, name: &[u8]) {
        self.record(0, directory, name);
    }

    /// Records that `path` is of the kind.
    pub fn note_path(&self, path: &RelPath) {
        if let (Some(directory), Some(name)) = (path.parent(), path.name()) {
            self.note(&directory, name);
        }
    }

    /// Records that `path` is of the kind in this era, a number that changes when paths may change their kind.
    pub fn note_path_in(&self, era: u64, path: &RelPath) {
        if let (Some(directory), Some(name)) = (path.parent(), path.name()) {
            self.record(era, &directory, name);
        }
    }

    /// Returns whether the path was of the kind.
    pub fn contains(&self, path: &RelPath) -> bool {
        self.contains_in(0, path)
    }

    /// Returns whether the path was of the kind in this era.
    pub fn contains_in(&self, era: u64, path: &RelPath) -> bool {
        let (Some(slots), Some(directory), Some(name)) = (self.slots.get(), path.parent(), path.name()) else {
            return false;
        };
        let mark = self.mark(era, &directory, name);
        slots[mark as usize % PATHS].load(Ordering::Relaxed) == mark
    }

    fn record(&self, era: u64, directory: &RelPath, name: &[u8]) {
        if self.is_off {
            return;
        }
        let slots = self.slots.get_or_init(|| (0..PATHS).map(|_| AtomicU64::new(0)).collect());
        let mark = self.mark(era, directory, name);
        slots[mark as usize % PATHS].store(mark, Ordering::Relaxed);
    }

    /// Returns the hash of a path in an era, which is never the 0 of an empty slot.
    fn mark(&self, era: u64, directory: &RelPath, name: &[u8]) -> u64 {
        self.hasher.hash_one((era, directory.as_bytes(), name)) | 1 << 63
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_its_directory_and_its_name() {
        let path = |text: &str| text.split('/').fold(RelPath::root(), |path, name| path.join(name.as_bytes()).unwrap());
        let recent = RecentPaths::default();
        assert!(!recent.contains(&path("a/b")));
        recent.note(&path("a"), b"b");
        recent.note_path(&path("c"));
        assert!(recent.contains(&path("a/b")) && recent.contains(&path("c")));
        for other in ["a", "b", "a/c", "ab", "c/a", "A/b"] {
            assert!(!recent.contains(&path(other)), "{other}");
        }
        assert!(!recent.contains(&RelPath::root()));
        recent.note_path_in(7, &path("d/e"));
        assert_eq!([0, 6, 7, 8].map(|era| recent.contains_in(era, &path("d/e"))), [false, false, true, false]);
    }
}
