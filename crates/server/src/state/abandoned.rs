//! Files to delete because the last open was that of a CREATE that failed.

use std::sync::Arc;

use crate::files::OpenName;
use crate::streams::Stream;
use crate::tree::Tree;
use crate::vfs::{FileId, Kind, Node};

/// A file with delete pending whose last open was that of a failed CREATE.
pub(crate) struct Abandoned {
    pub(crate) tree: Arc<Tree>,
    pub(crate) name: Arc<OpenName>,
    pub(crate) file: FileId,
    pub(crate) what: What,
}

/// The object that the CREATE was to open.
pub(crate) enum What {
    File(Arc<dyn Node>, Kind),
    /// A stream, and the file's node.
    Stream(Arc<Stream>, Arc<dyn Node>),
}
