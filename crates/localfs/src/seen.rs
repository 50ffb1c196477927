//! Paths that were of a certain kind when last looked at or listed: regular files, or directories below the root.
//!
//! Opening a device or a FIFO has side effects, but opening a regular file does not. A path that recently was a regular
//! file may therefore be opened in one step; anything else is checked first. A path whose kind has changed since is
//! opened by mistake once, without waiting and for reading only, and the handle is then discarded. The paths themselves
//! are not stored.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use server::vfs::RelPath;

/// Number of paths that are remembered, 8 bytes each. A later path replaces an earlier one in its slot.
const PATHS: usize = 16_384;

/// The paths of one share.
#[derive(Default)]
pub(crate) struct Seen {
    slots: OnceLock<Box<[AtomicU64]>>,
    hasher: RandomState,
    is_off: bool,
}

impl Seen {
    /// Creates an instance that remembers nothing.
    pub(crate) fn none() -> Seen {
        Seen { is_off: true, ..Seen::default() }
    }

    /// Records that `name` in `directory` is of the kind.
    pub(crate) fn note(&self, directory: &RelPath, name: &[u8]) {
        if self.is_off {
            return;
        }
        let slots = self.slots.get_or_init(|| (0..PATHS).map(|_| AtomicU64::new(0)).collect());
        let mark = self.mark(directory, name);
        slots[mark as usize % PATHS].store(mark, Ordering::Relaxed);
    }

    /// Records that `path` is of the kind.
    pub(crate) fn note_path(&self, path: &RelPath) {
        if let (Some(directory), Some(name)) = (path.parent(), path.name()) {
            self.note(&directory, name);
        }
    }

    /// Returns whether the path was of the kind.
    pub(crate) fn has(&self, path: &RelPath) -> bool {
        let (Some(slots), Some(directory), Some(name)) = (self.slots.get(), path.parent(), path.name()) else {
            return false;
        };
        let mark = self.mark(&directory, name);
        slots[mark as usize % PATHS].load(Ordering::Relaxed) == mark
    }

    /// Returns the hash of a path, which is never the 0 of an empty slot.
    fn mark(&self, directory: &RelPath, name: &[u8]) -> u64 {
        self.hasher.hash_one((directory.as_bytes(), name)) | 1 << 63
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_its_directory_and_its_name() {
        let path = |text: &str| text.split('/').fold(RelPath::root(), |path, name| path.join(name.as_bytes()).unwrap());
        let seen = Seen::default();
        assert!(!seen.has(&path("a/b")));
        seen.note(&path("a"), b"b");
        seen.note_path(&path("c"));
        assert!(seen.has(&path("a/b")) && seen.has(&path("c")));
        for other in ["a", "b", "a/c", "ab", "c/a", "A/b"] {
            assert!(!seen.has(&path(other)), "{other}");
        }
        assert!(!seen.has(&RelPath::root()));
    }
}
