//! Directories in a share that only the server itself uses.
//!
//! A name alone proves nothing: anybody who may write to the share's root can make a directory of any name there. So such a
//! directory is held open, its owner and mode are checked each time it is opened, and names in it are resolved
//! beneath it, never by a path from the root.

use std::sync::Arc;

use super::{Metadata, Node, Result};
use crate::answer::Answer;

/// A file in a private directory, and what is known of it.
pub type Opened = (Arc<dyn Node>, Metadata);

/// A private directory, open and checked. All its methods act as the server.
pub trait Private: Send + Sync {
    /// The regular file `name` with a handle that permits no data access yet; `None` where there is none.
    /// `Errno::PERM` for anything else of that name: a link, a directory, a file with more than one name, or one of a file
    /// system that is mounted there.
    fn find(&self, name: &str) -> Answer<Result<Option<Opened>>>;

    /// Makes the file `name` with mode 0600, open for reading and writing; `Errno::EXIST` where the name is taken.
    fn create(&self, name: &str) -> Answer<Result<Opened>>;

    /// Removes the name `name`, which must not be that of a directory.
    fn remove(&self, name: &str) -> Answer<Result<()>>;
}
