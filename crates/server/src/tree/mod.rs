//! Tree connects: a share as one session uses it ([MS-SMB2] 3.3.1.9).

mod bin;
mod catalogues;
mod snapshot_names;
mod uses;
mod views;

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::status::Status;

pub use self::bin::Bin;
pub(crate) use self::catalogues::{Catalogue, Catalogues, Place};
pub(crate) use self::snapshot_names::SnapshotNames;
pub(crate) use self::uses::{ShareUse, ShareUses, WideLinks};
pub(crate) use self::views::{Views, Volume};
use crate::accounts::{Authenticator, IdMap};
use crate::acl::cache::{Cache, VolumeView};
use crate::acl::model::evaluate::Token;
use crate::audit::Trail;
use crate::error::Error;
use crate::metrics::ShareCounters;
use crate::name::glob::Globs;
use crate::policy::{PrintPolicy, Share};
use crate::printing::PrintUser;
use crate::vfs::{Op, RelPath, Time, Vfs};

/// A share as one session uses it.
pub struct Tree {
    /// `TreeId`.
    pub id: u32,
    /// The kind of share.
    pub kind: TreeKind,
    /// When it was connected.
    pub created: Time,
    /// `TreeConnect.MaximalAccess`.
    pub maximal_access: AccessMask,
}

/// The kind of share that a tree connect is for.
pub enum TreeKind {
    /// IPC$: named pipes.
    Pipes,
    /// A directory.
    Disk(Box<Disk>),
    /// A printer.
    Printer(Box<Printer>),
}

/// A print share as used by one user.
pub struct Printer {
    /// The directory of the files of jobs, as the user uses it.
    pub spool: Disk,
    /// The queue.
    pub queue: Arc<PrintPolicy>,
    /// The user, as the print system knows them.
    pub user: PrintUser,
}

/// A directory share as used by one user.
#[derive(Clone)]
pub struct Disk {
    /// The configuration at the time of the connect: a reload affects new tree connects only.
    pub share: Arc<Share>,
    /// The file system.
    pub vfs: Arc<dyn Vfs>,
    /// The volume number, which identifies the volume in the table of open files.
    pub volume: u64,
    /// The context for storage calls: the user, `force user`, or root for `admin users`.
    pub op: Op,
    /// That identity as SIDs, for access checks.
    pub token: Arc<Token>,
    /// The token's id in `descriptors`.
    pub(crate) token_id: u64,
    /// The cache of security descriptors.
    pub(crate) descriptors: Arc<Cache>,
    /// The location of the share's files in that cache.
    pub(crate) place: VolumeView,
    /// The mapping between SIDs and ids.
    pub ids: Arc<dyn IdMap>,
    /// The accounts, by which the groups of other users are known; `None` if they cannot be looked up.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// The counters of the share's requests.
    pub(crate) counters: Arc<ShareCounters>,
    /// Whether write access is refused.
    pub read_only: bool,
    /// The rights that the ACL of the share gives to the user. No open has others.
    pub share_rights: AccessMask,
    /// Whether the share is the root of a DFS namespace (`Share.IsDfs`, [MS-SMB2] 3.3.1.6).
    pub is_dfs: bool,
    /// If this is a view of a snapshot: the path of the snapshot's copy of the share in the file system.
    pub snapshot: Option<RelPath>,
    /// `hide files`, compiled.
    pub hide: Globs,
    /// `veto files`, compiled.
    pub veto: Globs,
    /// `veto oplock files`, compiled.
    pub veto_oplocks: Globs,
    /// The recycle bin; `None` if deleted files are removed.
    pub bin: Option<Arc<Bin>>,
    /// The record of what the client does; `None` if there is none.
    pub audit: Option<Arc<Trail>>,
    /// Whether requests must be encrypted.
    pub encrypt_data: bool,
    /// Set if links out of the share are followed.
    pub(crate) _wide_links: Option<WideLinks>,
}

impl Tree {
    /// Returns the directory share, unless this is IPC$ or a printer.
    pub fn disk(&self) -> Option<&Disk> {
        match &self.kind {
            TreeKind::Disk(disk) => Some(disk),
            TreeKind::Pipes | TreeKind::Printer(_) => None,
        }
    }

    /// Returns the printer, if this is one.
    pub fn printer(&self) -> Option<&Printer> {
        match &self.kind {
            TreeKind::Printer(printer) => Some(printer),
            TreeKind::Pipes | TreeKind::Disk(_) => None,
        }
    }

    /// Returns the record of what the client does, if there is one.
    pub(crate) fn audit(&self) -> Option<&Arc<Trail>> {
        match &self.kind {
            TreeKind::Pipes => None,
            TreeKind::Disk(disk) => disk.audit.as_ref(),
            TreeKind::Printer(printer) => printer.spool.audit.as_ref(),
        }
    }

    /// Returns whether requests must be encrypted.
    pub(crate) fn encrypts(&self) -> bool {
        match &self.kind {
            TreeKind::Pipes => false,
            TreeKind::Disk(disk) => disk.encrypt_data,
            TreeKind::Printer(printer) => printer.spool.encrypt_data,
        }
    }

    /// Returns the share's name.
    pub fn share_name(&self) -> &str {
        match &self.kind {
            TreeKind::Disk(disk) => &disk.share.name,
            TreeKind::Printer(printer) => &printer.spool.share.name,
            TreeKind::Pipes => "IPC$",
        }
    }
}

impl Disk {
    /// The rights in a share without an ACL.
    pub const ALL_RIGHTS: AccessMask = AccessMask(u32::MAX);

    /// Returns the error for write access if `read_only` is set.
    pub fn refusal(&self) -> Error {
        match self.snapshot {
            Some(_) => Error::because(Status::MEDIA_WRITE_PROTECTED, "a previous version cannot be changed"),
            None => Error::because(Status::ACCESS_DENIED, "the share is read-only for the user"),
        }
    }

    /// Returns a path in the file system as clients see it: a snapshot is presented as if it were the share.
    pub fn shown(&self, path: &RelPath) -> RelPath {
        let Some(root) = &self.snapshot else { return path.clone() };
        let mut shown = RelPath::root();
        // Cannot fail, because a component of one path is valid in another.
        let _ = path.components().skip(root.components().count()).all(|component| shown.push(component));
        shown
    }
}
