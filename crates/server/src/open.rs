//! Opens: a file, directory or pipe as one client holds it ([MS-SMB2] 3.3.1.10).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use proto::dtyp::AccessMask;
use proto::smb2::create::{CreateOptions, ShareAccess};

use crate::command::query_directory::Listing;
use crate::conn::Pending;
use crate::files::OpenName;
use crate::pipe::Pipe;
use crate::tree::Tree;
use crate::vfs::{FileId, Identity, Kind, Node, Time};

/// A file, directory or pipe as one client holds it.
pub struct Open {
    /// `FileId.Persistent`: unique in the server.
    pub persistent_id: u64,
    /// `FileId.Volatile`: unique in the session.
    pub volatile_id: u64,
    /// The session that made it.
    pub session_id: u64,
    /// The tree connect that it was made through.
    pub tree: Arc<Tree>,
    /// `Open.GrantedAccess`.
    pub granted: AccessMask,
    /// What it shares.
    pub share: ShareAccess,
    /// When it was made.
    pub created: Time,
    /// What it leads to.
    pub target: Target,
}

/// What an open leads to.
pub enum Target {
    /// A file or directory.
    File(FileOpen),
    /// A named pipe.
    Pipe(Pipe),
}

/// An open file or directory.
pub struct FileOpen {
    /// The handle.
    pub node: Arc<dyn Node>,
    /// Which file.
    pub file: FileId,
    /// What it is.
    pub kind: Kind,
    /// Where it is, kept up to date by renames.
    pub name: Arc<OpenName>,
    /// On whose behalf.
    pub identity: Arc<Identity>,
    /// The options given to CREATE, less those that only matter there; `FileModeInformation` shows some.
    pub options: AtomicU32,
    /// The file goes when this open is closed.
    pub delete_on_close: AtomicBool,
    /// `FilePositionInformation`: kept for the client, used by nobody.
    pub position: AtomicU64,
    /// Bytes that the opener asked to be set aside; shown as `AllocationSize` where the file takes less.
    pub asked_allocation: AtomicU64,
    /// What the client has explicitly set with -1: times that this handle's I/O must not change
    /// ([MS-FSCC] 2.4.7).
    pub sticky_times: AtomicU32,
    /// Requests that wait for something to happen to this handle.
    pub(crate) waiting: parking_lot::Mutex<Vec<Arc<Pending>>>,
    /// The handle was closed: whoever still waits on it is to go.
    pub(crate) closed: AtomicBool,
    /// Where a directory listing stands.
    pub listing: tokio::sync::Mutex<Listing>,
}

impl Open {
    /// The open file, where it is one.
    pub fn file(&self) -> Option<&FileOpen> {
        match &self.target {
            Target::File(file) => Some(file),
            Target::Pipe(_) => None,
        }
    }
}

impl FileOpen {
    /// Bytes that the opener asked to be set aside.
    pub fn asked_allocation(&self) -> u64 {
        self.asked_allocation.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The CREATE options that stand.
    pub fn options(&self) -> CreateOptions {
        CreateOptions(self.options.load(std::sync::atomic::Ordering::Relaxed))
    }
}
