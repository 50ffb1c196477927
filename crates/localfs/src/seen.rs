//! Which paths were of some kind when they were last looked at or listed: regular files, or directories beneath the root.
//!
//! Opening a device or a FIFO does something, opening a file does not: what was a file a moment ago may be opened in one
//! step, anything else is looked at first. A path that became something else since is opened once by mistake, without
//! waiting and for reading only, and then not taken. The paths themselves are not kept.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use server::vfs::RelPath;

/// Paths that are remembered, 8 bytes each; a later one takes the place of an earlier one.
const PATHS: usize = 16_384;

/// The paths of one share.
#[derive(Default)]
pub(crate) struct Seen {
    slots: OnceLock<Box<[AtomicU64]>>,
    hasher: RandomState,
    is_off: bool,
}

impl Seen {
    /// One that keeps nothing.
    pub(crate) fn none() -> Seen {
        Seen { is_off: true, ..Seen::default() }
    }

    /// `name` in `directory` is of the kind.
    pub(crate) fn note(&self, directory: &RelPath, name: &[u8]) {
        if self.is_off {
            return;
        }
        let slots = self.slots.get_or_init(|| (0..PATHS).map(|_| AtomicU64::new(0)).collect());
        let mark = self.mark(directory, name);
        slots[mark as usize % PATHS].store(mark, Ordering::Relaxed);
    }

    /// The same of a whole path.
    pub(crate) fn note_path(&self, path: &RelPath) {
        if let (Some(directory), Some(name)) = (path.parent(), path.name()) {
            self.note(&directory, name);
        }
    }

    /// Whether the path was of the kind.
    pub(crate) fn has(&self, path: &RelPath) -> bool {
        let (Some(slots), Some(directory), Some(name)) = (self.slots.get(), path.parent(), path.name()) else {
            return false;
        };
        let mark = self.mark(&directory, name);
        slots[mark as usize % PATHS].load(Ordering::Relaxed) == mark
    }

    /// Never the 0 of an empty slot.
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
