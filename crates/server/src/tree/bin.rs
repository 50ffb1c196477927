//! The recycle bin of a share as one session uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::policy::recycle::{Origin, Recycle};
use crate::vfs::RelPath;

/// The recycle bin.
pub struct Bin {
    /// The configuration.
    pub(crate) recycle: Arc<Recycle>,
    /// The directory to which deleted files are moved.
    pub(crate) directory: RelPath,
    /// The parameters of the server by which the directory was found; `None` if the share is not one of its own.
    pub(crate) origin: Option<Origin>,
    /// Whether a rename is known to set the change time of a file.
    renames_stamp: AtomicBool,
}

impl Bin {
    pub(crate) fn new(recycle: Arc<Recycle>, directory: RelPath, origin: Option<Origin>) -> Bin {
        Bin { recycle, directory, origin, renames_stamp: AtomicBool::new(false) }
    }

    /// Returns whether a rename is known to set the change time of a file, as it does on the file systems of Linux.
    pub(crate) fn renames_stamp(&self) -> bool {
        self.renames_stamp.load(Ordering::Relaxed)
    }

    /// Records that a rename has set it.
    pub(crate) fn has_stamped(&self) {
        self.renames_stamp.store(true, Ordering::Relaxed);
    }
}
