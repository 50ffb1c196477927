//! An open that is in the table of open files while its CREATE still waits for the file system.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::error::Result;
use crate::files::{Closed, OpenName};
use crate::request::Request;
use crate::state::abandoned::{Abandoned, What};
use crate::state::connection::Connection;
use crate::tree::Tree;
use crate::vfs::{FileId, Kind};

/// Has the new name of a file reported although its CREATE fails, because the file stays.
pub(super) fn stays(request: &Request<'_>, file: FileId, kind: Kind, name: &Arc<OpenName>) {
    let Ok(tree) = request.tree() else { return };
    let (tree, name) = (tree.clone(), name.clone());
    request.connection.server.opens.abandoned.add(Abandoned { tree, name, file, what: What::Made(kind) });
}

/// Removes the open from the table if the CREATE fails, or is dropped because its connection has ended.
pub(super) struct Entered {
    connection: Arc<Connection>,
    tree: Arc<Tree>,
    name: Arc<OpenName>,
    /// The file, and its stream if an alternate one is opened.
    files: SmallVec<[(FileId, What); 2]>,
    open: u64,
    /// The CREATE made the file, whose name is not reported yet.
    made: bool,
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
        Ok(Entered {
            connection,
            tree,
            name: name.clone(),
            files: smallvec![(file, what)],
            open,
            made: false,
            stays: false,
        })
    }

    /// Records whether the CREATE made the file, whose name is then reported if the CREATE fails.
    pub(super) fn made(mut self, made: bool) -> Self {
        self.made = made;
        self
    }

    /// Returns the open's id in the table.
    pub(super) fn open(&self) -> u64 {
        self.open
    }

    /// Merges two entries, for the open of a stream and that of its file.
    pub(super) fn join(mut self, mut other: Entered) -> Self {
        self.files.append(&mut other.files);
        self.made |= other.made;
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
            let what = match (opens.files.close(file, self.open, false), what) {
                // Another client set delete pending meanwhile and closed the file. Opens are refused until it is
                // deleted.
                (Closed::Delete, what) => what,
                (_, What::File(_, kind)) if self.made => What::Made(kind),
                _ => continue,
            };
            let (tree, name) = (self.tree.clone(), self.name.clone());
            opens.abandoned.add(Abandoned { tree, name, file, what });
        }
    }
}
