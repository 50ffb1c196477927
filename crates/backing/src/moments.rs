//! The sequence of changes of a volume, so that what was read before a change is not cached after it.

use std::time::Instant;

use server::vfs::FileId;

/// Number of groups of files whose last change is known.
const GROUPS: usize = 256;

/// A point in the sequence of changes. What is read after it has the age of the moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    changes: u64,
    pub(crate) at: Instant,
}

/// The number of changes so far, and when files changed last.
pub(crate) struct Moments {
    changes: u64,
    /// Number of changes after the last one of a file in each group.
    changed: [u64; GROUPS],
}

impl Default for Moments {
    fn default() -> Moments {
        Moments { changes: 0, changed: [0; GROUPS] }
    }
}

impl Moments {
    fn group(file: FileId) -> usize {
        (file.inode ^ file.inode >> 32) as usize % GROUPS
    }

    /// Returns the present moment.
    pub(crate) fn now(&self) -> Moment {
        Moment { changes: self.changes, at: Instant::now() }
    }

    /// Records that a file changed.
    pub(crate) fn change(&mut self, file: FileId) {
        self.changes += 1;
        self.changed[Moments::group(file)] = self.changes;
    }

    /// Records that any file may have changed.
    pub(crate) fn change_all(&mut self) {
        self.changes += 1;
        self.changed = [self.changes; GROUPS];
    }

    /// Returns whether the file may have changed after `since`. A few other files count as the same one.
    pub(crate) fn has_changed(&self, file: FileId, since: Moment) -> bool {
        self.changed[Moments::group(file)] > since.changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_concerns_what_was_read_before_it() {
        let file = |inode| FileId { device: 1, inode, stream: 0 };
        let mut moments = Moments::default();
        let before = moments.now();
        assert!(!moments.has_changed(file(1), before));
        moments.change(file(1));
        assert!(moments.has_changed(file(1), before) && !moments.has_changed(file(2), before));
        let between = moments.now();
        assert!(!moments.has_changed(file(1), between));
        moments.change_all();
        assert!(moments.has_changed(file(1), between) && moments.has_changed(file(2), between));
        assert!(!moments.has_changed(file(1), moments.now()));
    }
}
