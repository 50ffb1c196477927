//! AppleDouble files without their files, which clients do not see. They go with the directory that has nothing else,
//! because clients see it as empty.
//!
//! Every entry must be such a file, so no file that one could belong to is left. Other files, empty ones and
//! those that the user may not delete keep the directory.

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::fscc::FileAttributes;

use super::close::{Doomed, unlink};
use crate::attributes;
use crate::policy::limits::ORPHANS_LIMIT;
use crate::security::access;
use crate::state::Server;
use crate::streams::beside;
use crate::tree::Disk;
use crate::vfs::{Errno, Kind, ListRequest, Metadata, Node, Op, RelPath, Result, SERVER};
use crate::yielding::Work;

/// The number of entries that are listed at once.
const PAGE: usize = 256;
/// The cost of the examination of an entry ([`Work::spend`]).
const EXAMINED: u32 = 24;

/// An AppleDouble file without its file.
struct Orphan {
    node: Arc<dyn Node>,
    metadata: Metadata,
    path: RelPath,
}

/// Whether the directory has nothing but files that the user may remove with it.
///
/// # Errors
/// The directory cannot be listed.
pub(super) async fn are_removable(
    server: &Server,
    disk: &Disk,
    (node, path): (&Arc<dyn Node>, &RelPath),
) -> Result<bool> {
    let Some(names) = hidden(disk, &disk.op, node).await? else { return Ok(false) };
    let mut work = Work::new();
    for name in names {
        work.spend(EXAMINED).await;
        if examined(server, disk, path, &name).await.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes such files from a directory that is deleted, or moves them to the recycle bin. Returns whether it has
/// nothing else, so that it can be removed. Otherwise all of them stay.
pub(super) async fn remove(server: &Server, disk: &Disk, doomed: &Doomed, node: &Arc<dyn Node>) -> bool {
    // The rights of another user, who has closed the directory last, do not count.
    let is_asked = disk.op.uid == doomed.op.uid;
    if !is_asked || !are_removable(server, disk, (node, &doomed.path)).await.unwrap_or(false) {
        return false;
    }
    let Ok(Some(names)) = hidden(disk, &doomed.op, node).await else { return false };
    let mut work = Work::new();
    for name in names {
        work.spend(EXAMINED).await;
        let Some(orphan) = examined(server, disk, &doomed.path, &name).await else {
            // It may have gone together with a file of whose name its own is made.
            continue;
        };
        let Orphan { node, metadata, path } = orphan;
        let own = Doomed { path, op: doomed.op.clone(), is_ignored: false };
        if let Err(errno) = unlink(server, disk, &own, &node, metadata.id, Kind::File).await {
            tracing::warn!(share = disk.share.name, path = %own.path, ?errno, "cannot remove an AppleDouble file that \
                                                                              keeps a directory from being deleted; \
                                                                              remove it, then the directory");
            return false;
        }
        server.changed(disk, &own.path, crate::files::notify::Change::removed(Kind::File));
    }
    true
}

/// Returns the names in a directory; `None` if one of them is not hidden as that of an AppleDouble file, or if there
/// are too many.
async fn hidden(disk: &Disk, op: &Op, node: &Arc<dyn Node>) -> Result<Option<Vec<Box<[u8]>>>> {
    if !beside::are_used(disk) {
        return Ok(None);
    }
    let mut names = Vec::new();
    let mut work = Work::new();
    let mut listing = ListRequest { cursor: 0, count: 1, metadata: false };
    loop {
        // As for an empty directory, its user need not be able to list it.
        let page = match node.list(op, listing).await {
            Err(Errno::ACCES | Errno::PERM) => node.list(&SERVER, listing).await?,
            page => page?,
        };
        for entry in &page.entries {
            work.spend(1).await;
            if !entry.name.starts_with(beside::PREFIX) || !disk.veto.matches(&entry.name) {
                return Ok(None);
            }
        }
        let is_last = page.is_last || page.entries.is_empty();
        names.extend(page.entries.into_iter().map(|entry| entry.name));
        if names.len() > ORPHANS_LIMIT {
            return Ok(None);
        }
        if is_last {
            return Ok(Some(names));
        }
        // Most directories that have something have something else.
        listing = ListRequest { cursor: page.next, count: PAGE, metadata: false };
    }
}

/// Returns an AppleDouble file that the user may delete, and that nobody has open.
async fn examined(server: &Server, disk: &Disk, directory: &RelPath, name: &[u8]) -> Option<Orphan> {
    let path = directory.join(name)?;
    let (node, metadata) = beside::whole(disk, &disk.op, &path).await.ok()??;
    let is_readonly = attributes::file_attributes(disk, path.name(), &metadata).contains(FileAttributes::READONLY);
    if is_readonly && !disk.share.attributes.delete_readonly || server.opens.files.is_open(metadata.id) {
        return None;
    }
    let may_delete = disk.share_rights.contains(AccessMask::DELETE)
        && access::permits(disk, &path, &node, &metadata, AccessMask::DELETE).await.unwrap_or(false);
    may_delete.then_some(Orphan { node, metadata, path })
}
