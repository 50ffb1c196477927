//! Previous versions: snapshots of a share in directories, as served by Samba's module shadow_copy2 ([MS-SMB2]
//! 3.3.5.9.4, 3.3.5.15.1).
//!
//! A client selects one by the timewarp context of CREATE, or by an @GMT token as the first component of a path. The
//! open then uses its own tree connect, which is read-only and whose root is the share's copy in the snapshot. Paths
//! and links are resolved below that root, so they cannot lead to another snapshot or to another share's copy. The path
//! from the directory of the snapshots to the root is looked up as the user, and symbolic links on it are not followed,
//! except a snapshot that is a [link of the administrator](links). Not supported: creating and deleting snapshots.
//! Without `shadow:` parameters, snapshots may be [found](automatic).

mod admin;
mod automatic;
mod folders;
mod links;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use proto::dtyp::FileTime;
use proto::status::Status;

pub use self::admin::PreviousVersions;
use self::folders::{Folder, Folders, directory};
use crate::error::{Error, Result};
use crate::name::Name;
use crate::policy::limits::SNAPSHOT_TWINS_MAX;
use crate::policy::snapshots::{Format, Snapshots, Sort};
use crate::request::Request;
use crate::state::SnapshotSearch;
use crate::tree::{Disk, Tree, TreeKind, Volume};
use crate::vfs::{Access, ListRequest, Node, Page, RelPath};
use crate::yielding::Work;

/// The cost of comparing the name of a directory entry with those of snapshots ([`Work::spend`]).
const COMPARE: u32 = 4;
/// The number of names read at once.
const BATCH: usize = 512;

/// Returns the time that an open requests, in seconds since 1970-01-01 UTC, and removes a token from the name.
fn moment(disk: &Disk, name: &mut Name, timewarp: Option<u64>) -> Option<i64> {
    if let Some(timewarp) = timewarp.filter(|&timewarp| timewarp != 0) {
        return Some(FileTime(timewarp).to_unix().0);
    }
    let moment = token(disk, &name.path)?;
    name.path = join(&RelPath::root(), name.path.components().skip(1))?;
    Some(moment)
}

/// Returns the time of the snapshot that a path names by its first component, an @GMT token. Such a path opens no file
/// of the share itself.
pub(crate) fn token(disk: &Disk, path: &RelPath) -> Option<i64> {
    if disk.share.snapshots.is_none() && disk.share.automatic_snapshots.is_none() {
        return None;
    }
    Format::token().moment(path.components().next()?, None)
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
    let search = request.connection.server.snapshot_search();
    let snapshot = at(search, disk, &mut name.path, moment).await?;
    let connected = request.tree()?;
    Ok(Some(Arc::new(Tree {
        id: connected.id,
        created: connected.created,
        maximal_access: connected.maximal_access,
        kind: TreeKind::Disk(Box::new(snapshot)),
    })))
}

/// Returns the share as it was at `moment`, and makes `path` relative to it.
async fn at(search: SnapshotSearch<'_>, disk: &Disk, path: &mut RelPath, moment: i64) -> Result<Disk> {
    let missing = |why| Error::because(Status::OBJECT_NAME_NOT_FOUND, why);
    let (container, (volume, vfs)) = match (&disk.share.snapshots, disk.share.automatic_snapshots) {
        (Some(settings), _) => {
            let requested = path.clone();
            let mut folders = Folders::new(search, disk, settings, &requested);
            loop {
                let folder = folders.next().await?.ok_or(missing("no such snapshot"))?;
                if let Some(view) = view(search, disk, settings, &folder, moment).await {
                    *path = folder.rest;
                    break (folder.volume, view);
                }
            }
        }
        (None, Some(automatic)) => {
            automatic::view(search, disk, automatic, moment).await?.ok_or(missing("no such snapshot"))?
        }
        (None, None) => return Err(missing("the share has no snapshots")),
    };
    Ok(Disk {
        vfs,
        volume,
        place: disk.descriptors.place(container, &disk.share),
        read_only: true,
        snapshot: Some(RelPath::root()),
        ..disk.clone()
    })
}

/// Returns the @GMT tokens, at most `limit`, of all snapshots that may have a version of the file or directory `path`.
pub(crate) async fn list(request: &Request<'_>, disk: &Disk, path: &RelPath, limit: usize) -> Result<Vec<String>> {
    let (moments, sort) = moments(request.connection.server.snapshot_search(), disk, path, limit).await?;
    Ok(tokens(moments, sort, limit))
}

/// Returns the times of all snapshots that may have a version of the file or directory `path`, not sorted, and the
/// order in which clients get them. Configured snapshots are searched until there are `limit`.
async fn moments(search: SnapshotSearch<'_>, disk: &Disk, path: &RelPath, limit: usize) -> Result<(Vec<i64>, Sort)> {
    let mut moments = Vec::new();
    let Some(settings) = &disk.share.snapshots else {
        if let Some(automatic) = disk.share.automatic_snapshots {
            moments = automatic::moments(search, disk, automatic).await?;
        }
        return Ok((moments, Sort::Descending));
    };
    let folder = Folders::new(search, disk, settings, path).next().await?;
    if let Some(folder) = folder
        && let Some((_, node)) = directory(disk, &folder.vfs, &folder.path).await
    {
        for_each_name(disk, &node, |name| {
            moments.extend(settings.moment(name));
            moments.len() < limit
        })
        .await?;
    }
    Ok((moments, settings.sort))
}

/// Returns at most `limit` tokens of the times `moments`, in order.
fn tokens(mut moments: Vec<i64>, sort: Sort, limit: usize) -> Vec<String> {
    match sort {
        Sort::Descending => moments.sort_unstable_by(|a, b| b.cmp(a)),
        Sort::Ascending => moments.sort_unstable(),
        Sort::Unsorted => {}
    }
    // Clients cannot distinguish snapshots of the same second.
    let mut listed = HashSet::new();
    moments.retain(|moment| listed.insert(*moment));
    let token = Format::token();
    let tokens = moments.into_iter().filter_map(|moment| String::from_utf8(token.name(moment, None)).ok());
    tokens.take(limit).collect()
}

/// Calls `visit` with each name in the directory `node` until it returns `false`. A user who may not read the directory
/// sees no names.
async fn for_each_name(disk: &Disk, node: &Arc<dyn Node>, mut visit: impl FnMut(&[u8]) -> bool) -> Result<()> {
    let Ok(node) = node.open(&disk.op, Access { read: true, write: false }).await else { return Ok(()) };
    let (mut cursor, mut work) = (0, Work::new());
    loop {
        let Page { entries, next, .. } =
            node.list(&disk.op, ListRequest { cursor, count: BATCH, metadata: false }).await?;
        if entries.is_empty() {
            return Ok(());
        }
        for entry in &entries {
            work.spend(COMPARE).await;
            if !visit(&entry.name) {
                return Ok(());
            }
        }
        cursor = next;
    }
}

/// Returns the share's copy in the snapshot of `moment`, as a file system of its own.
async fn view(
    search: SnapshotSearch<'_>,
    disk: &Disk,
    settings: &Snapshots,
    folder: &Folder,
    moment: i64,
) -> Option<Volume> {
    if let Some(name) = settings.name(moment)
        && let Some(view) = view_of(search, disk, folder, &name).await
    {
        return Some(view);
    }
    let (id, node) = directory(disk, &folder.vfs, &folder.path).await?;
    let known = &search.names;
    let key = (folder.volume, id, moment);
    // A reload may have changed the form of the names.
    if let Some(name) = known.find(key).filter(|name| settings.moment(name) == Some(moment))
        && let Some(view) = view_of(search, disk, folder, &name).await
    {
        return Some(view);
    }
    let mut names = Vec::new();
    for_each_name(disk, &node, |name| {
        if settings.moment(name) == Some(moment) {
            names.push(name.to_vec());
        }
        names.len() < SNAPSHOT_TWINS_MAX
    })
    .await
    .ok()?;
    names.sort_unstable();
    for name in names {
        if let Some(view) = view_of(search, disk, folder, &name).await {
            known.add(key, &name);
            return Some(view);
        }
    }
    None
}

/// Returns the share's copy in the snapshot called `name`. It is looked up as the user, so that a user without access
/// to the directory of the snapshots sees none of them.
async fn view_of(search: SnapshotSearch<'_>, disk: &Disk, folder: &Folder, name: &[u8]) -> Option<Volume> {
    let root = join(&folder.path.join(name)?, folder.within.components())?;
    let volume = (folder.volume, folder.vfs.clone());
    if let Some(view) = search.views.open(|| search.next_id(), disk, &volume, &root).await {
        return Some(view);
    }
    let (volume, root) = links::target(search, disk, folder, name).await?;
    search.views.open(|| search.next_id(), disk, &volume, &root).await
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
