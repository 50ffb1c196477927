//! CLOSE ([MS-SMB2] 3.3.5.10), and what closing means however it comes about.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::smb2::close::{CloseFlags, CloseRequest, CloseResponse};
use proto::status::Status;

use super::change_notify;
use super::directory;
use crate::attributes;
use crate::conn::{Reply, Request};
use crate::durable;
use crate::error::{Error, Result};
use crate::files::Closed;
use crate::files::notify::Change;
use crate::local::locks;
use crate::open::{FileOpen, Open};
use crate::server::Server;
use crate::streams;
use crate::vfs::{Errno, FileId, Identity, Kind, Node, RelPath, SetMetadata};

pub(crate) async fn close(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = CloseRequest::decode(request.message)?;
    let open = request.open(asked.file_id, reply)?;
    let mut response = CloseResponse::default();
    if let Some(file) = open.file() {
        settle_write_time(&request.connection.server, file).await;
    }
    if asked.flags.contains(CloseFlags::POSTQUERY_ATTRIB)
        && let (Some(file), Some(disk)) = (open.file(), open.tree.disk())
        && let Ok(metadata) = file.node.metadata().await
    {
        response = attributes::close_response(disk, file, &metadata);
    }
    // Two CLOSE requests may race; one of them closes.
    let open = request.session()?.remove_open(open.volatile_id).ok_or(Error::new(Status::FILE_CLOSED))?;
    close_open(&request.connection.server, &open).await;
    response.encode(&mut reply.body());
    Ok(Status::SUCCESS)
}

/// Writes that were left out of the write time show now.
async fn settle_write_time(server: &Server, file: &FileOpen) {
    if server.files.settle_write_time(file.file) {
        let set = SetMetadata { modified: Some(server.world.now()), ..SetMetadata::default() };
        if let Err(errno) = file.node.set_metadata(&file.identity, set).await {
            tracing::debug!(?errno, "the time of the last write stays");
        }
    }
}

/// Closes an open that was taken out of its session: locks and share modes end, and the file goes if it was to be
/// deleted with its last open ([MS-FSA] 2.1.5.5).
pub(crate) async fn close_open(server: &Server, open: &Arc<Open>) {
    server.discharge_open();
    let Some(file) = open.file() else { return };
    file.closed.store(true, Ordering::Release);
    if let Some(id) = file.durability.take_creation() {
        server.creations.forget(id);
    }
    if let Some(instance) = file.durability.instance() {
        server.instances.remove(instance, open);
    }
    for waiting in file.waiting.lock().drain(..) {
        waiting.cancel();
    }
    change_notify::end(server, open, file);
    let disk = open.tree.disk();
    if let Some(disk) = disk
        && file.modified.load(Ordering::Relaxed)
    {
        directory::entry_of_changes(server, disk, file).await;
    }
    locks::close(file).await;
    let delete = file.delete_on_close.load(Ordering::Acquire);
    if delete {
        server.files.set_doom(file.file, file.doom());
    }
    let closed = server.files.close(file.file, open.persistent_id, delete);
    if delete && closed == Closed::Stays {
        // Who keeps it open only to be quick closes it, so that it goes. Nobody waits for that.
        let _ = server.files.name_changes(file.file, open.persistent_id, None, false, server.world.uptime());
    }
    if closed == Closed::Delete {
        let stream = streams::of(&file.node).and_then(|node| node.stream.name());
        let doomed = Doomed::of(server, file.file, file);
        match delete_file(server, open, file, &doomed).await {
            Ok(()) => report_deletion(server, open, &doomed.path, stream.as_deref(), file.kind),
            Err(errno) => tracing::debug!(path = %doomed.path, ?errno, "not deleted with its last open"),
        }
        server.files.deleted(file.file);
        doomed.entry_changes(server, open, file).await;
    } else if let Some(disk) = disk {
        server.report(disk, file);
        if delete {
            server.doomed(disk, file);
        }
    }
    close_base(server, open, file).await;
    durable::remove(server, open).await;
}

/// The name of a file that goes with its last open, and on whose behalf: of who wanted it deleted, not of who closes it
/// last.
struct Doomed {
    path: RelPath,
    identity: Arc<Identity>,
}

impl Doomed {
    /// What goes of `id`, the file of the open `file` or the one that its stream belongs to.
    fn of(server: &Server, id: FileId, file: &FileOpen) -> Doomed {
        let doom = server.files.doom(id).unwrap_or_else(|| file.doom());
        // Another share has another path for it.
        let name = if doom.name.volume == file.name.volume { &doom.name } else { &file.name };
        let path = name.path.lock().clone();
        Doomed { path, identity: doom.identity }
    }

    async fn entry_changes(&self, server: &Server, open: &Open, file: &FileOpen) {
        if let Some(disk) = open.tree.disk() {
            let by = file.lease.and_then(|lease| lease.parent_id());
            directory::entry_changes(server, disk, &self.path, by).await;
        }
    }
}

/// Tells of the end of a stream, or of a file or directory of this kind.
fn report_deletion(server: &Server, open: &Open, path: &RelPath, stream: Option<&str>, kind: Kind) {
    if let Some(disk) = open.tree.disk()
        && !server.watches.is_idle()
    {
        match stream {
            Some(name) => server.stream_changed(disk, path, name, Change::stream_removed()),
            None => server.changed(disk, path, Change::removed(kind)),
        }
    }
}

/// An open stream keeps its file open, too; the file may have been waiting for it to be deleted.
async fn close_base(server: &Server, open: &Open, file: &FileOpen) {
    let Some(stream) = streams::of(&file.node) else { return };
    let base = stream.stream.file();
    if server.files.close(base, open.persistent_id, false) == Closed::Delete {
        let doomed = Doomed::of(server, base, file);
        if let Err(errno) = delete_base(server, open, &doomed, &stream.file).await {
            tracing::debug!(path = %doomed.path, ?errno, "not deleted with the last open of its streams");
        }
        server.files.deleted(base);
        doomed.entry_changes(server, open, file).await;
    }
}

async fn delete_base(
    server: &Server,
    open: &Open,
    doomed: &Doomed,
    base: &Arc<dyn Node>,
) -> std::result::Result<(), Errno> {
    let metadata = base.metadata().await?;
    unlink(server, open, doomed, base, metadata.id, metadata.kind).await?;
    report_deletion(server, open, &doomed.path, None, metadata.kind);
    Ok(())
}

async fn delete_file(server: &Server, open: &Open, file: &FileOpen, doomed: &Doomed) -> std::result::Result<(), Errno> {
    match streams::of(&file.node) {
        Some(node) => node.stream.remove(&node.file, &doomed.identity).await,
        None => unlink(server, open, doomed, &file.node, file.file, file.kind).await,
    }
}

/// Removes the name of the file `id`, which `node` leads to.
async fn unlink(
    server: &Server,
    open: &Open,
    doomed: &Doomed,
    node: &Arc<dyn Node>,
    id: FileId,
    kind: Kind,
) -> std::result::Result<(), Errno> {
    let Some(disk) = open.tree.disk() else { return Ok(()) };
    disk.vfs.unlink(&doomed.identity, &doomed.path, id, kind).await?;
    server.streams.unlinked(disk, node).await;
    if disk.share.mangled_names {
        server.tunnel.enter(disk.volume, doomed.path.clone(), server.world.uptime());
    }
    Ok(())
}
