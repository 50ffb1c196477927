//! Directories in a share that only the server itself uses.
//!
//! A name alone proves nothing, because any user who may write to the share's root can create a directory of any name
//! there. The directory is therefore held open, its owner and mode are checked each time it is opened, and names in it
//! are resolved from its handle, never by a path from the root.

use std::sync::Arc;

use super::{Metadata, Node, Result};
use crate::answer::Answer;

/// A file in a private directory, and its metadata.
pub type Opened = (Arc<dyn Node>, Metadata);

/// A private directory, open and checked. All its methods act as the server.
pub trait Private: Send + Sync {
    /// Opens the regular file `name` with a handle that permits no data access yet; `None` where there is none.
    /// `Errno::PERM` for anything else of that name: a link, a directory, a file with more than one name, or a file on
    /// another file system mounted there.
    fn find(&self, name: &str) -> Answer<Result<Option<Opened>>>;

    /// Creates the file `name` with mode 0600, open for reading and writing; `Errno::EXIST` where the name is taken.
    fn create(&self, name: &str) -> Answer<Result<Opened>>;

    /// Removes `name`, which must not be a directory.
    fn remove(&self, name: &str) -> Answer<Result<()>>;
}
