//! Tree connects: a share as one session uses it ([MS-SMB2] 3.3.1.9).

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::status::Status;

use crate::accounts::Accounts;
use crate::error::Error;
use crate::name::glob::Globs;
use crate::policy::Share;
use crate::security::cache::{Cache, Place};
use crate::security::evaluate::Token;
use crate::vfs::{Identity, RelPath, Time, Vfs};

/// A share as one session uses it.
pub struct Tree {
    /// `TreeId`.
    pub id: u32,
    /// What it is a tree of.
    pub kind: TreeKind,
    /// When it was connected.
    pub created: Time,
    /// `TreeConnect.MaximalAccess`.
    pub maximal_access: AccessMask,
}

/// What a tree connect leads to.
pub enum TreeKind {
    /// IPC$: named pipes.
    Pipes,
    /// A directory.
    Disk(Disk),
}

/// A directory share with the user's place in it.
#[derive(Clone)]
pub struct Disk {
    /// The configuration at the time of the connect: a reload affects new tree connects only.
    pub share: Arc<Share>,
    /// The file system.
    pub vfs: Arc<dyn Vfs>,
    /// Tells volumes apart in the table of open files.
    pub volume: u64,
    /// On whose behalf the kernel is asked: the user, `force user`, or root for `admin users`.
    pub identity: Arc<Identity>,
    /// Who asks, for the access check: `identity` as SIDs.
    pub token: Arc<Token>,
    /// The token's number in `descriptors`.
    pub(crate) token_id: u64,
    /// What is known of the protection of files.
    pub(crate) descriptors: Arc<Cache>,
    /// Which files those are there.
    pub(crate) place: Place,
    /// Whose SIDs are whose.
    pub accounts: Arc<dyn Accounts>,
    /// Whether changes are refused.
    pub read_only: bool,
    /// The snapshot that this is a view of: where in the file system its copy of the share is.
    pub snapshot: Option<RelPath>,
    /// `hide files`, compiled.
    pub hide: Globs,
    /// `veto files`, compiled.
    pub veto: Globs,
    /// `veto oplock files`, compiled.
    pub veto_oplocks: Globs,
    /// Whether requests must be sealed.
    pub encrypt_data: bool,
}

impl Tree {
    /// The directory share, where it is one.
    pub fn disk(&self) -> Option<&Disk> {
        match &self.kind {
            TreeKind::Disk(disk) => Some(disk),
            TreeKind::Pipes => None,
        }
    }

    /// The share's name.
    pub fn share_name(&self) -> &str {
        match &self.kind {
            TreeKind::Disk(disk) => &disk.share.name,
            TreeKind::Pipes => "IPC$",
        }
    }
}

impl Disk {
    /// What is answered to a change where `read_only` is set.
    pub fn refusal(&self) -> Error {
        match self.snapshot {
            Some(_) => Error::because(Status::MEDIA_WRITE_PROTECTED, "a previous version"),
            None => Error::because(Status::ACCESS_DENIED, "read only = yes"),
        }
    }

    /// A path in the file system as clients see it, whom a snapshot is shown as if it were the share.
    pub fn shown(&self, path: &RelPath) -> RelPath {
        let Some(root) = &self.snapshot else { return path.clone() };
        let mut shown = RelPath::root();
        // What was a component of one path may be one of another, so none is refused.
        let _ = path.components().skip(root.components().count()).all(|component| shown.push(component));
        shown
    }
}
