//! The directories that contain snapshots of a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto::status::Status;

use super::{join, relative};
use crate::error::{Error, Result};
use crate::policy::Share;
use crate::policy::snapshots::Snapshots;
use crate::state::SnapshotSearch;
use crate::streams::layout::is_store_name;
use crate::tree::Disk;
use crate::vfs::{FileId, Kind, Lookup, LookupOptions, Node, RelPath, SymlinkPolicy, Vfs};
use crate::yielding::Work;

/// A directory that contains snapshots.
pub(super) struct Folder {
    pub(super) volume: u64,
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) path: RelPath,
    /// The directory on the host, if it is outside of the share.
    pub(super) outside: Option<PathBuf>,
    /// The path in a snapshot of the share, or of the directory that the snapshots contain.
    pub(super) within: RelPath,
    /// The remaining requested path below that.
    pub(super) rest: RelPath,
}

/// The cost of looking for snapshots in one directory ([`Work::spend`]).
const LOOK_UP: u32 = 12;
/// The longest path in bytes that the kernel resolves.
const PATH_LENGTH: usize = 4096;

/// The directories with snapshots of one file, the nearest first. There are several only with
/// `shadow:snapdirseverywhere`.
pub(super) struct Folders<'a> {
    search: SnapshotSearch<'a>,
    disk: &'a Disk,
    settings: &'a Snapshots,
    path: &'a RelPath,
    next: Next,
    work: Work,
}

/// Where to look next.
enum Next {
    /// In the one directory that is configured.
    Configured,
    /// In this directory of the share.
    Inside(RelPath),
    /// In this directory above the share, up to the other directory.
    Above(PathBuf, PathBuf),
    End,
}

impl<'a> Folders<'a> {
    /// The directories with snapshots of `path`.
    pub(super) fn new(search: SnapshotSearch<'a>, disk: &'a Disk, settings: &'a Snapshots, path: &'a RelPath) -> Self {
        let next = match settings.everywhere {
            true if path.as_bytes().len() >= PATH_LENGTH => Next::End,
            true => Next::Inside(path.clone()),
            false => Next::Configured,
        };
        Folders { search, disk, settings, path, next, work: Work::new() }
    }

    /// Returns the next directory.
    pub(super) async fn next(&mut self) -> Result<Option<Folder>> {
        loop {
            match std::mem::replace(&mut self.next, Next::End) {
                Next::Configured => return self.configured().await,
                Next::Inside(at) => {
                    self.next = match at.parent() {
                        Some(parent) => Next::Inside(parent),
                        None => above(&self.disk.share.path, self.limit().await?),
                    };
                    self.work.spend(LOOK_UP).await;
                    if let Some(folder) = self.inside(&at).await {
                        return Ok(Some(folder));
                    }
                }
                Next::Above(at, limit) => {
                    let found = self.above(&at, &limit).await;
                    self.next = above(&at, limit);
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                Next::End => return Ok(None),
            }
        }
    }

    async fn mount_point(&self) -> Result<PathBuf> {
        match &self.settings.mount_point {
            Some(configured) => Ok(configured.clone()),
            None => Ok(self.search.mount_point(&self.disk.share).await?),
        }
    }

    /// Returns the directory above which no snapshots are searched.
    async fn limit(&self) -> Result<PathBuf> {
        if self.settings.cross_mount_points { Ok(PathBuf::from("/")) } else { self.mount_point().await }
    }

    /// Returns the directory of `shadow:snapdir`.
    async fn configured(&self) -> Result<Option<Folder>> {
        let (settings, disk) = (self.settings, self.disk);
        let share = &disk.share.path;
        let mount_point = self.mount_point().await?;
        let within = match &settings.share_path {
            Some(path) => relative(path),
            None => share.strip_prefix(settings.base.as_ref().unwrap_or(&mount_point)).ok().and_then(relative),
        };
        let within =
            within.ok_or(Error::because(Status::OBJECT_NAME_NOT_FOUND, "shadow:basedir is not a parent of path"))?;
        let rest = self.path.clone();
        let at = mount_point.join(&settings.directory);
        if let Some(path) = at.strip_prefix(share).ok().and_then(relative) {
            let (volume, vfs) = (disk.volume, disk.vfs.clone());
            return Ok(Some(Folder { volume, vfs, path, outside: None, within, rest }));
        }
        // Outside of the share only the administrator can create names, so this path is trusted.
        let volume = self.volume(&at).await;
        Ok(volume.map(|(volume, vfs)| Folder { volume, vfs, path: RelPath::root(), outside: Some(at), within, rest }))
    }

    /// Returns the snapshots in the directory `at` of the share, if it has some.
    async fn inside(&self, at: &RelPath) -> Option<Folder> {
        // Checks of the path inside the snapshot do not see the directories above it, so vetoed names are checked here.
        if at.components().any(|name| self.disk.veto.matches(name) || is_store_name(name)) {
            return None;
        }
        let path = join(at, relative(&self.settings.directory)?.components())?;
        directory(self.disk, &self.disk.vfs, &path).await?;
        let rest = join(&RelPath::root(), self.path.components().skip(at.components().count()))?;
        let (volume, vfs) = (self.disk.volume, self.disk.vfs.clone());
        Some(Folder { volume, vfs, path, outside: None, within: RelPath::root(), rest })
    }

    /// Returns the snapshots in the directory `at` above the share, if it has some. Symbolic links below `limit` are
    /// not followed.
    async fn above(&self, at: &Path, limit: &Path) -> Option<Folder> {
        let below_limit = relative(at.strip_prefix(limit).ok()?)?;
        let path = join(&below_limit, relative(&self.settings.directory)?.components())?;
        let within = self.disk.share.path.strip_prefix(at).ok().and_then(relative)?;
        let (volume, vfs) = self.volume(limit).await?;
        directory(self.disk, &vfs, &path).await?;
        let outside = Some(at.join(&self.settings.directory));
        Some(Folder { volume, vfs, path, outside, within, rest: self.path.clone() })
    }

    async fn volume(&self, path: &Path) -> Option<(u64, Arc<dyn Vfs>)> {
        volume(self.search, self.disk, path).await
    }
}

/// Returns the step after the directory `path` of the host.
fn above(path: &Path, limit: PathBuf) -> Next {
    match path.parent().filter(|parent| parent.starts_with(&limit)) {
        Some(parent) => Next::Above(parent.to_owned(), limit),
        None => Next::End,
    }
}

/// Returns a volume of the directory `path` of the host, for the user of `disk`.
pub(super) async fn volume(search: SnapshotSearch<'_>, disk: &Disk, path: &Path) -> Option<(u64, Arc<dyn Vfs>)> {
    let share = Share { path: path.to_owned(), root: None, ..(*disk.share).clone() };
    search.volume(&share).await.ok()
}

/// Looks up the directory `path`; `None` if there is none or the user cannot reach it.
pub(super) async fn directory(disk: &Disk, vfs: &Arc<dyn Vfs>, path: &RelPath) -> Option<(FileId, Arc<dyn Node>)> {
    // Symbolic links are not followed on the server's own paths.
    match vfs.lookup(&disk.op, path, LookupOptions::exact(SymlinkPolicy::NONE)).await {
        Ok(Lookup::Found { node, metadata, .. }) if metadata.kind == Kind::Directory => Some((metadata.id, node)),
        _ => None,
    }
}
