//! An open that is in the table of open files while its CREATE still waits for the file system.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::error::Result;
use crate::files::{Closed, OpenName};
use crate::request::Request;
use crate::state::abandoned::{Abandoned, What};
use crate::state::connection::Connection;
use crate::tree::Tree;
use crate::vfs::FileId;

/// Removes the open from the table if the CREATE fails, or is dropped because its connection has ended.
pub(super) struct Entered {
    connection: Arc<Connection>,
    tree: Arc<Tree>,
    name: Arc<OpenName>,
    /// The file, and its stream if an alternate one is opened.
    files: SmallVec<[(FileId, What); 2]>,
    open: u64,
    stays: bool,
}

impl Entered {
    /// Records that `open` of `file` was entered under `name`.
    pub(super) fn new(
        request: &Request<'_>,
        file: FileId,
        what: What,
        name: &Arc<OpenName>,
        open: u64,
    ) -> Result<Self> {
        let (connection, tree) = (request.connection.clone(), request.tree()?.clone());
        Ok(Entered { connection, tree, name: name.clone(), files: smallvec![(file, what)], open, stays: false })
    }

    /// Returns the open's id in the table.
    pub(super) fn open(&self) -> u64 {
        self.open
    }

    /// Merges two entries, for the open of a stream and that of its file.
    pub(super) fn join(mut self, mut other: Entered) -> Self {
        self.files.append(&mut other.files);
        self
    }

    /// Keeps the entry, because the CREATE has succeeded.
    pub(super) fn stay(mut self) {
        self.stays = true;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let opens = &self.connection.server.opens;
        for (file, what) in self.files.drain(..).filter(|_| !self.stays) {
            // Another client set delete pending meanwhile and closed the file. Opens are refused until it is deleted.
            if opens.files.close(file, self.open, false) == Closed::Delete {
                let (tree, name) = (self.tree.clone(), self.name.clone());
                opens.abandoned.add(Abandoned { tree, name, file, what });
            }
        }
    }
}
