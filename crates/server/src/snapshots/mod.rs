//! Previous versions: snapshots of a share that lie in directories of their own, as Samba's module shadow_copy2 serves
//! them ([MS-SMB2] 3.3.5.9.4, 3.3.5.15.1).
//!
//! A client names one by the timewarp context of CREATE, or by an @GMT token as the first component of a path. The open
//! then goes through a tree connect of its own, whose disk is read-only and whose root is the snapshot's copy of the share:
//! paths and links resolve beneath that, so nothing leads to another snapshot or to another share's copy. The way there
//! from the directory of the snapshots is the user's to go, and no link on it is followed. Left out: making and deleting
//! snapshots, and telling clients other inode numbers for what is in them (`shadow:fixinodes`).

mod format;
mod views;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto::dtyp::FileTime;
use proto::status::Status;

pub use self::format::{Format, UtcOffset};
pub(crate) use self::views::Views;
use crate::conn::Request;
use crate::error::{Error, Result};
use crate::name::Name;
use crate::policy::Share;
use crate::streams::layout::is_store_name;
use crate::tree::{Disk, Tree, TreeKind};
use crate::vfs::{Access, Case, Kind, Links, Lookup, Node, RelPath, Vfs};

/// Where the snapshots of a share are, and what they are called.
#[derive(Clone, Debug)]
pub struct Snapshots {
    /// `shadow:snapdir`: the directory that holds one for each snapshot; relative to the mount point, or to any directory
    /// of the share with `everywhere`.
    pub directory: PathBuf,
    /// `shadow:snapdirseverywhere`: any directory of the share may hold snapshots of itself.
    pub everywhere: bool,
    /// `shadow:mountpoint`: of the file system that the snapshots are of; found out where it is not given.
    pub mount_point: Option<PathBuf>,
    /// `shadow:basedir`: the directory that the snapshots are of; the mount point where it is not given.
    pub base: Option<PathBuf>,
    /// `shadow:snapsharepath`: where in a snapshot the share is; what lies between `base` and the share where it is not
    /// given.
    pub share_path: Option<PathBuf>,
    /// `shadow:format`.
    pub format: Format,
    /// `shadow:localtime`: names are in local time.
    pub local: Option<UtcOffset>,
    /// `shadow:sort`.
    pub sort: Sort,
}

/// The order in which clients are told of snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// The latest first.
    Descending,
    /// The oldest first.
    Ascending,
    /// As the directory has them.
    Unsorted,
}

/// A directory that holds snapshots.
struct Folder {
    volume: u64,
    vfs: Arc<dyn Vfs>,
    path: RelPath,
    /// Where in a snapshot the share is, or the directory that the snapshots are of.
    within: RelPath,
    /// What of the path that was asked for comes behind that.
    rest: RelPath,
}

/// Links of the server's own ways: none is followed.
const NO_LINKS: Links = Links::NONE;

/// The moment that an open asks for, in seconds since 1970-01-01 UTC. A token is taken out of the name.
fn moment(disk: &Disk, name: &mut Name, timewarp: Option<u64>) -> Option<i64> {
    if let Some(timewarp) = timewarp.filter(|&timewarp| timewarp != 0) {
        return Some(FileTime(timewarp).to_unix().0);
    }
    disk.share.snapshots.as_ref()?;
    let mut components = name.path.components();
    let moment = Format::token().moment(components.next()?, None)?;
    name.path = join(&RelPath::root(), components)?;
    Some(moment)
}

/// The tree that an open goes through where it asks for a previous version; `None` where it asks for none. From then on
/// the name's path begins at the snapshot's file system.
pub(crate) async fn tree(
    request: &Request<'_>,
    disk: &Disk,
    name: &mut Name,
    timewarp: Option<u64>,
) -> Result<Option<Arc<Tree>>> {
    let Some(moment) = moment(disk, name, timewarp) else { return Ok(None) };
    let missing = |why| Error::because(Status::OBJECT_NAME_NOT_FOUND, why);
    let settings = disk.share.snapshots.as_ref().ok_or(missing("the share has no snapshots"))?;
    let folder = find(request, disk, settings, &name.path).await?.ok_or(missing("no directory of snapshots"))?;
    let called = settings.format.name(moment, settings.local);
    let snapshot = folder.path.join(&called).ok_or(missing("no such snapshot"))?;
    let root = join(&snapshot, folder.within.components()).ok_or(missing("the path is too long"))?;
    let server = &request.connection.server;
    // As the user: who may not enter the directory of the snapshots sees none of them.
    let view = server.views.open(server, disk, &(folder.volume, folder.vfs), &root).await;
    let (volume, vfs) = view.ok_or(missing("no such snapshot"))?;
    name.path = folder.rest;
    let connected = request.tree()?;
    Ok(Some(Arc::new(Tree {
        id: connected.id,
        created: connected.created,
        maximal_access: connected.maximal_access,
        kind: TreeKind::Disk(Disk {
            vfs,
            volume,
            place: disk.descriptors.place(folder.volume, &disk.share),
            read_only: true,
            snapshot: Some(RelPath::root()),
            ..disk.clone()
        }),
    })))
}

/// The @GMT tokens of all snapshots that the file or directory `path` may have a version in, at most `limit`.
pub(crate) async fn list(request: &Request<'_>, disk: &Disk, path: &RelPath, limit: usize) -> Result<Vec<String>> {
    let Some(settings) = &disk.share.snapshots else { return Ok(Vec::new()) };
    let Some(folder) = find(request, disk, settings, path).await? else { return Ok(Vec::new()) };
    let Some(node) = directory(disk, &folder.vfs, &folder.path).await else { return Ok(Vec::new()) };
    let Ok(node) = node.open(&disk.identity, Access { read: true, write: false }).await else { return Ok(Vec::new()) };
    let mut moments = Vec::new();
    let mut cursor = 0;
    while moments.len() < limit {
        let (entries, next) = node.list(&disk.identity, cursor, limit, false).await?;
        if entries.is_empty() {
            break;
        }
        moments.extend(entries.iter().filter_map(|entry| settings.format.moment(&entry.name, settings.local)));
        cursor = next;
    }
    moments.truncate(limit);
    match settings.sort {
        Sort::Descending => moments.sort_unstable_by(|a, b| b.cmp(a)),
        Sort::Ascending => moments.sort_unstable(),
        Sort::Unsorted => {}
    }
    let token = Format::token();
    Ok(moments.into_iter().filter_map(|moment| String::from_utf8(token.name(moment, None)).ok()).collect())
}

/// The directory with the snapshots that `path` has versions in.
async fn find(request: &Request<'_>, disk: &Disk, settings: &Snapshots, path: &RelPath) -> Result<Option<Folder>> {
    if settings.everywhere {
        return Ok(find_everywhere(disk, settings, path).await);
    }
    let server = &request.connection.server;
    let share = &disk.share.path;
    let mount_point = settings.mount_point.clone().unwrap_or_else(|| server.mount_point(share));
    let within = match &settings.share_path {
        Some(path) => relative(path),
        None => share.strip_prefix(settings.base.as_ref().unwrap_or(&mount_point)).ok().and_then(relative),
    };
    let within = within.ok_or(Error::because(Status::OBJECT_NAME_NOT_FOUND, "shadow:basedir is no parent of path"))?;
    let rest = path.clone();
    let at = mount_point.join(&settings.directory);
    if let Some(path) = at.strip_prefix(share).ok().and_then(relative) {
        let (volume, vfs) = (disk.volume, disk.vfs.clone());
        return Ok(Some(Folder { volume, vfs, path, within, rest }));
    }
    // Outside of the share nobody but the administrator makes names.
    let outside = Share { path: at, ..(*disk.share).clone() };
    let Ok((volume, vfs)) = server.volume(&outside).await else { return Ok(None) };
    Ok(Some(Folder { volume, vfs, path: RelPath::root(), within, rest }))
}

/// The nearest directory on the way down to `path` that holds snapshots.
async fn find_everywhere(disk: &Disk, settings: &Snapshots, path: &RelPath) -> Option<Folder> {
    let called = relative(&settings.directory)?;
    let mut above = Some(path.clone());
    while let Some(at) = above {
        // What lies above a snapshot is seen by nobody who checks the path within it.
        if at.components().any(|name| disk.veto.matches(name) || is_store_name(name)) {
            above = at.parent();
            continue;
        }
        let folder = join(&at, called.components())?;
        if directory(disk, &disk.vfs, &folder).await.is_some() {
            let rest = join(&RelPath::root(), path.components().skip(at.components().count()))?;
            let vfs = disk.vfs.clone();
            return Some(Folder { volume: disk.volume, vfs, path: folder, within: RelPath::root(), rest });
        }
        above = at.parent();
    }
    None
}

/// The directory `path`, where there is one that the user can reach.
async fn directory(disk: &Disk, vfs: &Arc<dyn Vfs>, path: &RelPath) -> Option<Arc<dyn Node>> {
    match vfs.lookup(&disk.identity, path, Case::Sensitive, NO_LINKS).await {
        Ok(Lookup::Found { node, metadata, .. }) if metadata.kind == Kind::Directory => Some(node),
        _ => None,
    }
}

/// A path of the configuration that is not absolute and leads nowhere but down.
fn relative(path: impl AsRef<Path>) -> Option<RelPath> {
    use std::os::unix::ffi::OsStrExt;
    use std::path::Component;
    let mut found = RelPath::root();
    for component in path.as_ref().components() {
        match component {
            Component::Normal(name) if found.push(name.as_bytes()) => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(found)
}

fn join<'a>(path: &RelPath, components: impl Iterator<Item = &'a [u8]>) -> Option<RelPath> {
    let mut path = path.clone();
    for component in components {
        if !path.push(component) {
            return None;
        }
    }
    Some(path)
}
