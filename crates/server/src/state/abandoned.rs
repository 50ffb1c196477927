//! Files that a failed CREATE leaves: to be deleted because its open was the last one, or new.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::files::OpenName;
use crate::streams::Stream;
use crate::tree::Tree;
use crate::vfs::{FileId, Kind, Node};

/// A file with delete pending whose last open was that of a failed CREATE, or one that such a CREATE made.
pub(crate) struct Abandoned {
    pub(crate) tree: Arc<Tree>,
    pub(crate) name: Arc<OpenName>,
    pub(crate) file: FileId,
    pub(crate) what: What,
}

/// All such files. Each CLOSE asks for them, so asking writes nothing if there are none.
#[derive(Default)]
pub(crate) struct AbandonedFiles {
    any: AtomicBool,
    files: Mutex<Vec<Abandoned>>,
}

impl AbandonedFiles {
    pub(crate) fn add(&self, file: Abandoned) {
        let mut files = self.files.lock();
        files.push(file);
        self.any.store(true, Ordering::Release);
    }

    /// Removes all and returns them.
    pub(crate) fn take(&self) -> Vec<Abandoned> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut files = self.files.lock();
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut files)
    }
}

/// The object that the CREATE was to open.
pub(crate) enum What {
    File(Arc<dyn Node>, Kind),
    /// A stream, and the file's node.
    Stream(Arc<Stream>, Arc<dyn Node>),
    /// A file that the CREATE made and that stays. Only its new name is to be reported.
    Made(Kind),
}
