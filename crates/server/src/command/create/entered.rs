//! An open that stands in the table of open files while its CREATE still waits for the disk.

use std::sync::Arc;

use crate::command::close::{Abandoned, What};
use crate::conn::Request;
use crate::error::Result;
use crate::files::{Closed, OpenName};
use crate::server::Server;
use crate::tree::Tree;
use crate::vfs::FileId;

/// Takes the open out of the table again if the CREATE fails, or is dropped because its connection is gone.
pub(super) struct Entered {
    server: Arc<Server>,
    tree: Arc<Tree>,
    name: Arc<OpenName>,
    /// The file, and the stream of it that is opened where that is not the unnamed one.
    files: Vec<(FileId, What)>,
    open: u64,
    stays: bool,
}

impl Entered {
    /// The open `open` of `file`, which is `what` by the name `name`, was just entered.
    pub(super) fn new(
        request: &Request<'_>,
        file: FileId,
        what: What,
        name: &Arc<OpenName>,
        open: u64,
    ) -> Result<Self> {
        let (server, tree) = (request.connection.server.clone(), request.tree()?.clone());
        Ok(Entered { server, tree, name: name.clone(), files: vec![(file, what)], open, stays: false })
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
        for (file, what) in self.files.drain(..).filter(|_| !self.stays) {
            // Somebody wanted the file deleted meanwhile and closed it. It keeps others out until it is.
            if self.server.files.close(file, self.open, false) == Closed::Delete {
                let (tree, name) = (self.tree.clone(), self.name.clone());
                self.server.abandoned.lock().push(Abandoned { tree, name, file, what });
            }
        }
    }
}
