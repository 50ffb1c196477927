//! Breaks directory leases when an entry is added, removed or changed ([MS-FSA] 2.1.4.12 with PARENT_OBJECT, [MS-SMB2]
//! 3.3.1.12).
//!
//! Written data changes the entry when the handle is closed, as on Windows; all other changes take effect immediately.

use crate::files::LeaseId;
use crate::state::Server;
use crate::state::open::FileOpen;
use crate::tree::Disk;
use crate::vfs::{Lookup, LookupOptions, RelPath};

/// Breaks the leases on the directory of the entry `path`, which changes. `by`: the client's own lease on the
/// directory, which is kept.
pub(crate) async fn entry_changes(server: &Server, disk: &Disk, path: &RelPath, by: Option<LeaseId>) {
    if !server.opens.files.has_directory_leases() {
        return;
    }
    let Some(parent) = path.parent() else { return };
    // Shares may overlap, so the directory is identified by its file id and not by its path.
    if let Ok(Lookup::Found { metadata, .. }) =
        disk.vfs.lookup(&disk.op, &parent, LookupOptions::exact(disk.share.links())).await
    {
        server.opens.files.directory_changes(metadata.id, by, server.environment.uptime());
    }
}

/// Breaks the leases on the directory of an open file, whose entry changes.
pub(crate) async fn entry_of_changes(server: &Server, disk: &Disk, file: &FileOpen) {
    if server.opens.files.has_directory_leases() {
        let path = file.name.path.lock().clone();
        entry_changes(server, disk, &path, file.lease.and_then(|lease| lease.parent_id())).await;
    }
}
