//! An open that stands in the table of open files while its CREATE still waits for the disk.

use std::sync::Arc;

use crate::files::Closed;
use crate::server::Server;
use crate::vfs::FileId;

/// Takes the open out of the table again if the CREATE fails, or is dropped because its connection is gone.
pub(super) struct Entered {
    server: Arc<Server>,
    /// The file, and the stream of it that is opened where that is not the unnamed one.
    files: Vec<FileId>,
    open: u64,
    stays: bool,
}

impl Entered {
    /// The open `open` of each of `files` was just entered.
    pub(super) fn new(server: &Arc<Server>, files: &[FileId], open: u64) -> Self {
        Entered { server: server.clone(), files: files.to_vec(), open, stays: false }
    }

    /// The number that it stands in the table by.
    pub(super) fn open(&self) -> u64 {
        self.open
    }

    /// Both are one from now on: an open of a stream, which stands for its file, too.
    pub(super) fn join(mut self, mut other: Entered) -> Self {
        self.files.append(&mut other.files);
        self
    }

    /// The CREATE has succeeded.
    pub(super) fn stay(mut self) {
        self.stays = true;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        for &file in self.files.iter().filter(|_| !self.stays) {
            // A file that was to go with its last open stays in this rare case, but does not keep others out.
            if self.server.files.close(file, self.open, false) == Closed::Delete {
                self.server.files.deleted(file);
            }
        }
    }
}
