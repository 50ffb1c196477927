//! What a change of a file means for clients that cache its directory: a directory lease ends when an entry comes, goes
//! or shows something else ([MS-FSA] 2.1.4.12 with PARENT_OBJECT, [MS-SMB2] 3.3.1.12).
//!
//! Data that is written changes the entry when the handle is closed, as on Windows; all else does at once.

use crate::files::LeaseId;
use crate::open::FileOpen;
use crate::server::Server;
use crate::tree::Disk;
use crate::vfs::{Case, Lookup, RelPath};

/// The entry `path` changes. `by`: the lease on the directory under which the client does it, which does not end.
pub(crate) async fn entry_changes(server: &Server, disk: &Disk, path: &RelPath, by: Option<LeaseId>) {
    if !server.files.has_directory_leases() {
        return;
    }
    let Some(parent) = path.parent() else { return };
    // Shares may overlap, so a directory is told by what it is and not by its path.
    if let Ok(Lookup::Found { metadata, .. }) =
        disk.vfs.lookup(&disk.identity, &parent, Case::Sensitive, disk.share.links()).await
    {
        server.files.directory_changes(metadata.id, by, server.world.uptime());
    }
}

/// The entry of an open file changes.
pub(crate) async fn entry_of_changes(server: &Server, disk: &Disk, file: &FileOpen) {
    if server.files.has_directory_leases() {
        let path = file.name.path.lock().clone();
        entry_changes(server, disk, &path, file.lease.and_then(|lease| lease.parent_id())).await;
    }
}
