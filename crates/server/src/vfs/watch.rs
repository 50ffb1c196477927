//! Changes that local programs make in a directory. The server already has the changes made by its own clients.

use std::sync::Arc;

use super::{Kind, RelPath};

/// The events that a listener requests in addition to names that appear and vanish.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Includes the whole tree below the directory, as far as the file system can; symbolic links are not followed.
    pub tree: bool,
    /// Includes changes of content.
    pub content: bool,
    /// Includes changes of attributes, times, permissions and extended attributes.
    pub attributes: bool,
}

/// A change of a name in a watched directory or tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Noticed {
    /// It appeared.
    Added(Kind),
    /// It vanished.
    Removed(Kind),
    /// It was renamed to this name in the same directory.
    Renamed(Kind, RelPath),
    /// Its content changed.
    Content,
    /// Something else about it changed.
    Attributes,
}

/// Receives the events of a watch. Called on any thread; must neither wait nor end the watch.
pub trait Listener: Send + Sync {
    /// Reports an event for `path`, which is relative to the watched directory.
    fn noticed(&self, path: &RelPath, what: Noticed);

    /// Events were lost, or part of the tree cannot be watched. The listener must scan the directory itself.
    fn lost(&self);

    /// The directory itself was removed.
    fn gone(&self);
}

/// A watch started by [`super::Node::watch`]. Dropping it ends the watch.
pub type Watching = Box<dyn Send + Sync>;

/// A shared listener.
pub type ChangeListener = Arc<dyn Listener>;
