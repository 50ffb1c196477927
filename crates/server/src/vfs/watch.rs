//! What others change in a directory: local programs, as opposed to clients, whose changes the server knows itself.

use std::sync::Arc;

use super::{Kind, RelPath};

/// What a listener wants to be told of, beyond names that appear and vanish.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// The whole tree below the directory, as far as the file system can; symbolic links are not followed.
    pub tree: bool,
    /// Content that changes.
    pub content: bool,
    /// Attributes, times, permissions and extended attributes that change.
    pub attributes: bool,
}

/// What happened to a name in a watched directory or tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Noticed {
    /// It appeared.
    Added(Kind),
    /// It vanished.
    Removed(Kind),
    /// It was given this name in the same directory.
    Renamed(Kind, RelPath),
    /// Its content changed.
    Content,
    /// Something else about it changed.
    Attributes,
}

/// Who is told. Called on any thread; must not wait and not end the watch.
pub trait Listener: Send + Sync {
    /// Something happened to `path`, which is relative to the watched directory.
    fn noticed(&self, path: &RelPath, what: Noticed);

    /// More happened than could be noticed, or some of the tree cannot be watched: whoever wants to know must look.
    fn lost(&self);

    /// The directory itself was removed.
    fn gone(&self);
}

/// A watch of [`super::Node::watch`], which ends when this is dropped.
pub type Watching = Box<dyn Send + Sync>;

/// A shared listener.
pub type Ear = Arc<dyn Listener>;
