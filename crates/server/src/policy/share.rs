//! One share: what it is called, where it is, and a policy for each area.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::audit::Audit;
use super::printing::PrintPolicy;
use super::recycle::Recycle;
use super::snapshots::{Automatic, Schedule, Snapshots};
use super::storage::Storage;
use super::stream_layout::Layout;
use super::{
    AccessPolicy, AclPolicy, AttributePolicy, CachePolicy, DfsPolicy, HandlePolicy, LockPolicy, MacPolicy, ModePolicy,
    NamePolicy, SyncPolicy, Template,
};
use crate::vfs::{FileId, SymlinkPolicy};

/// One share.
#[derive(Clone, Debug)]
pub struct Share {
    /// The section's name, as written.
    pub name: String,
    /// Where the files of the share are.
    pub storage: Storage,
    /// `path`, absolute; with [`Storage::Gluster`] a path inside the volume. If it has variables that depend on the
    /// session, the text as written; see `path_template`.
    pub path: PathBuf,
    /// `path` if it depends on the session; `None` if `path` is the path.
    pub path_template: Option<Template>,
    /// The directory to which `path` must lead when it is opened; `None` for any. A user who chose the path may
    /// exchange the directory after it was checked.
    pub root: Option<FileId>,
    /// `comment`.
    pub comment: String,
    /// `browseable`: shown in listings.
    pub browseable: bool,
    /// `access based share enum`: shown only to users that it admits.
    pub access_based_share_enum: bool,
    /// `available`: may be connected to.
    pub available: bool,
    /// `volume`: the volume label; the share's name if empty.
    pub volume: String,
    /// `fstype`: the reported name of the file system.
    pub fstype: String,
    /// The users and hosts that may connect, and their rights.
    pub access: AccessPolicy,
    /// File names.
    pub names: NamePolicy,
    /// Permission bits of new files.
    pub modes: ModePolicy,
    /// DOS attributes and extended attributes.
    pub attributes: AttributePolicy,
    /// Security descriptors and owners.
    pub acls: AclPolicy,
    /// Byte-range locks.
    pub locks: LockPolicy,
    /// Oplocks, leases and offline files.
    pub caching: CachePolicy,
    /// Opens that survive a lost connection.
    pub handles: HandlePolicy,
    /// When data reaches the disk.
    pub sync: SyncPolicy,
    /// `use sendfile`: the data of a READ is sent without a copy where possible.
    pub use_sendfile: bool,
    /// `vfs objects = streams_xattr`: the attributes that store alternate data streams; `None` if files have none.
    pub streams: Option<Layout>,
    /// `vfs objects = fruit`: the extensions for macOS; `None` if the share has none of its own.
    pub mac: Option<Arc<MacPolicy>>,
    /// Whether the share refers clients to other servers.
    pub dfs: DfsPolicy,
    /// `vfs objects = shadow_copy2`: the location of previous versions.
    pub snapshots: Option<Arc<Snapshots>>,
    /// `frevo:snapshots`: previous versions are found without `shadow:` parameters. Ignored if `snapshots` is set.
    pub automatic_snapshots: Option<Automatic>,
    /// `frevo:snapshot schedule`: which snapshots the administrator's command creates and keeps.
    pub snapshot_schedule: Schedule,
    /// `vfs objects = recycle`: the recycle bin.
    pub recycle: Option<Arc<Recycle>>,
    /// `printable`: how the share prints; `None` if it is a directory for clients.
    pub printing: Option<Arc<PrintPolicy>>,
    /// `vfs objects = full_audit`: the record of what clients do.
    pub audit: Option<Arc<Audit>>,
}

impl Share {
    /// Returns the share of a section that contains only a `path`: read only, for all accounts.
    pub fn new(name: &str, path: impl Into<PathBuf>) -> Self {
        Share {
            name: name.to_owned(),
            storage: Storage::default(),
            path: path.into(),
            path_template: None,
            root: None,
            comment: String::new(),
            browseable: true,
            access_based_share_enum: false,
            available: true,
            volume: String::new(),
            fstype: "NTFS".to_owned(),
            access: AccessPolicy::default(),
            names: NamePolicy::default(),
            modes: ModePolicy::default(),
            attributes: AttributePolicy::default(),
            acls: AclPolicy::default(),
            locks: LockPolicy::default(),
            caching: CachePolicy::default(),
            handles: HandlePolicy::default(),
            sync: SyncPolicy::default(),
            use_sendfile: true,
            streams: Some(Layout::default()),
            mac: None,
            dfs: DfsPolicy::default(),
            snapshots: None,
            automatic_snapshots: None,
            snapshot_schedule: Schedule::default(),
            recycle: None,
            printing: None,
            audit: None,
        }
    }

    /// Returns a path that tells the directory of the share from those of shares in other storage: `path`, or for a
    /// volume a relative path, because those of directories of this host are absolute.
    pub fn location(&self) -> Cow<'_, Path> {
        match &self.storage {
            Storage::Directory => Cow::Borrowed(&self.path),
            Storage::Gluster(volume) => Cow::Owned(volume.location(&self.path)),
        }
    }

    /// Returns which symbolic links are followed.
    pub fn links(&self) -> SymlinkPolicy {
        SymlinkPolicy { follow: self.names.follow_symlinks, wide: self.names.wide_links, itself: false }
    }

    /// Whether the share stores descriptors together with POSIX ACLs and synthesizes those that are not stored.
    pub fn converts(&self) -> bool {
        self.acls.stored.as_ref().is_some_and(|acls| !acls.ignore_system_acls)
    }
}
