//! Previous versions: snapshots of a share in directories, as served by Samba's module shadow_copy2 ([MS-SMB2]
//! 3.3.5.9.4, 3.3.5.15.1).
//!
//! A client selects one by the timewarp context of CREATE, or by an @GMT token as the first component of a path. The
//! open then uses its own tree connect, which is read-only and whose root is the share's copy in the snapshot. Paths
//! and links are resolved below that root, so they cannot lead to another snapshot or to another share's copy. The path
//! from the directory of the snapshots to the root is looked up as the user, and symbolic links on it are not followed.
//! Not supported: creating and deleting snapshots, and different inode numbers for files in them (`shadow:fixinodes`).

use std::path::Path;
use std::sync::Arc;

use proto::dtyp::FileTime;
use proto::status::Status;

use crate::error::{Error, Result};
use crate::name::Name;
use crate::policy::Share;
use crate::policy::snapshots::{Format, Snapshots, Sort};
use crate::request::Request;
use crate::streams::layout::is_store_name;
use crate::tree::{Disk, Tree, TreeKind};
use crate::vfs::{Access, Kind, ListRequest, Lookup, LookupOptions, Node, Page, RelPath, SymlinkPolicy, Vfs};

/// A directory that contains snapshots.
struct Folder {
    volume: u64,
    vfs: Arc<dyn Vfs>,
    path: RelPath,
    /// The path in a snapshot of the share, or of the directory that the snapshots contain.
    within: RelPath,
    /// The remaining requested path below that.
    rest: RelPath,
}

/// Symbolic links are not followed on the server's own paths.
const NO_LINKS: SymlinkPolicy = SymlinkPolicy::NONE;

/// Returns the time that an open requests, in seconds since 1970-01-01 UTC, and removes a token from the name.
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

/// Returns the tree for an open that requests a previous version, and makes the name's path relative to the snapshot;
/// `None` if it requests none.
pub(crate) async fn tree(
    request: &Request<'_>,
    disk: &Disk,
    name: &mut Name,
    timewarp: Option<u64>,
) -> Result<Option<Arc<Tree>>> {
    let Some(moment) = moment(disk, name, timewarp) else { return Ok(None) };
    let missing = |why| Error::because(Status::OBJECT_NAME_NOT_FOUND, why);
    let settings = disk.share.snapshots.as_ref().ok_or(missing("the share has no snapshots"))?;
    let folder =
        find(request, disk, settings, &name.path).await?.ok_or(missing("the snapshot directory does not exist"))?;
    let called = settings.format.name(moment, settings.local);
    let snapshot = folder.path.join(&called).ok_or(missing("no such snapshot"))?;
    let root = join(&snapshot, folder.within.components()).ok_or(missing("the path is too long"))?;
    let server = &request.connection.server;
    // As the user, so that a user who may not enter the directory of the snapshots sees none of them.
    let view = server.opens.views.open(|| server.next_id(), disk, &(folder.volume, folder.vfs), &root).await;
    let (volume, vfs) = view.ok_or(missing("no such snapshot"))?;
    name.path = folder.rest;
    let connected = request.tree()?;
    Ok(Some(Arc::new(Tree {
        id: connected.id,
        created: connected.created,
        maximal_access: connected.maximal_access,
        kind: TreeKind::Disk(Box::new(Disk {
            vfs,
            volume,
            place: disk.descriptors.place(folder.volume, &disk.share),
            read_only: true,
            snapshot: Some(RelPath::root()),
            ..disk.clone()
        })),
    })))
}

/// Returns the @GMT tokens, at most `limit`, of all snapshots that may have a version of the file or directory `path`.
pub(crate) async fn list(request: &Request<'_>, disk: &Disk, path: &RelPath, limit: usize) -> Result<Vec<String>> {
    let Some(settings) = &disk.share.snapshots else { return Ok(Vec::new()) };
    let Some(folder) = find(request, disk, settings, path).await? else { return Ok(Vec::new()) };
    let Some(node) = directory(disk, &folder.vfs, &folder.path).await else { return Ok(Vec::new()) };
    let Ok(node) = node.open(&disk.op, Access { read: true, write: false }).await else { return Ok(Vec::new()) };
    let mut moments = Vec::new();
    let mut cursor = 0;
    while moments.len() < limit {
        let Page { entries, next, .. } =
            node.list(&disk.op, ListRequest { cursor, count: limit, metadata: false }).await?;
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

/// Finds the directory of the snapshots that have versions of `path`.
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
    let within =
        within.ok_or(Error::because(Status::OBJECT_NAME_NOT_FOUND, "shadow:basedir is not a parent of path"))?;
    let rest = path.clone();
    let at = mount_point.join(&settings.directory);
    if let Some(path) = at.strip_prefix(share).ok().and_then(relative) {
        let (volume, vfs) = (disk.volume, disk.vfs.clone());
        return Ok(Some(Folder { volume, vfs, path, within, rest }));
    }
    // Outside of the share only the administrator can create names, so this path is trusted.
    let outside = Share { path: at, ..(*disk.share).clone() };
    let Ok((volume, vfs)) = server.volume(&outside).await else { return Ok(None) };
    Ok(Some(Folder { volume, vfs, path: RelPath::root(), within, rest }))
}

/// Finds the nearest directory on `path`, from its end upwards, that contains snapshots.
async fn find_everywhere(disk: &Disk, settings: &Snapshots, path: &RelPath) -> Option<Folder> {
    let called = relative(&settings.directory)?;
    let mut above = Some(path.clone());
    while let Some(at) = above {
        // Checks of the path inside the snapshot do not see the directories above it, so vetoed names are checked here.
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

/// Looks up the directory `path`; `None` if there is none or the user cannot reach it.
async fn directory(disk: &Disk, vfs: &Arc<dyn Vfs>, path: &RelPath) -> Option<Arc<dyn Node>> {
    match vfs.lookup(&disk.op, path, LookupOptions::exact(NO_LINKS)).await {
        Ok(Lookup::Found { node, metadata, .. }) if metadata.kind == Kind::Directory => Some(node),
        _ => None,
    }
}

/// Converts a configured path that is relative and has no `..`.
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
