//! CLOSE ([MS-SMB2] 3.3.5.10), and what closing means however it comes about.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::smb2::close::{CloseFlags, CloseRequest, CloseResponse};
use proto::status::Status;

use super::change_notify;
use super::directory;
use crate::attributes;
use crate::conn::{Reply, Request};
use crate::error::{Error, Result};
use crate::files::Closed;
use crate::files::notify::Change;
use crate::local::locks;
use crate::open::{FileOpen, Open};
use crate::server::Server;
use crate::streams;
use crate::vfs::{Errno, FileId, Kind, Node, SetMetadata};

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
    let closed = server.files.close(file.file, open.persistent_id, delete);
    if delete && closed == Closed::Stays {
        // Who keeps it open only to be quick closes it, so that it goes. Nobody waits for that.
        let _ = server.files.name_changes(file.file, open.persistent_id, None, false, server.world.uptime());
    }
    if closed == Closed::Delete {
        let stream = streams::of(&file.node).and_then(|node| node.stream.name());
        match delete_file(server, open, file).await {
            Ok(()) => report_deletion(server, open, file, stream.as_deref(), file.kind),
            Err(errno) => {
                tracing::debug!(path = %*file.name.path.lock(), ?errno, "not deleted with its last open");
            }
        }
        server.files.deleted(file.file);
        if let Some(disk) = disk {
            directory::entry_of_changes(server, disk, file).await;
        }
    } else if let Some(disk) = disk {
        server.report(disk, file);
        if delete {
            server.doomed(disk, file);
        }
    }
    close_base(server, open, file).await;
}

/// Tells of the end of a stream, or of a file or directory of this kind.
fn report_deletion(server: &Server, open: &Open, file: &FileOpen, stream: Option<&str>, kind: Kind) {
    if let Some(disk) = open.tree.disk()
        && !server.watches.is_idle()
    {
        let path = file.name.path.lock().clone();
        match stream {
            Some(name) => server.stream_changed(disk, &path, name, Change::stream_removed()),
            None => server.changed(disk, &path, Change::removed(kind)),
        }
    }
}

/// An open stream keeps its file open, too; the file may have been waiting for it to be deleted.
async fn close_base(server: &Server, open: &Open, file: &FileOpen) {
    let Some(stream) = streams::of(&file.node) else { return };
    let base = stream.stream.file();
    if server.files.close(base, open.persistent_id, false) == Closed::Delete {
        if let Err(errno) = delete_base(server, open, file, &stream.file).await {
            tracing::debug!(path = %*file.name.path.lock(), ?errno, "not deleted with the last open of its streams");
        }
        server.files.deleted(base);
        if let Some(disk) = open.tree.disk() {
            directory::entry_of_changes(server, disk, file).await;
        }
    }
}

async fn delete_base(
    server: &Server,
    open: &Open,
    file: &FileOpen,
    base: &Arc<dyn Node>,
) -> std::result::Result<(), Errno> {
    let metadata = base.metadata().await?;
    unlink(server, open, file, base, metadata.id, metadata.kind).await?;
    report_deletion(server, open, file, None, metadata.kind);
    Ok(())
}

async fn delete_file(server: &Server, open: &Open, file: &FileOpen) -> std::result::Result<(), Errno> {
    match streams::of(&file.node) {
        Some(node) => node.stream.remove(&node.file, &file.identity).await,
        None => unlink(server, open, file, &file.node, file.file, file.kind).await,
    }
}

/// Removes the name of the file `id`, which `node` leads to.
async fn unlink(
    server: &Server,
    open: &Open,
    file: &FileOpen,
    node: &Arc<dyn Node>,
    id: FileId,
    kind: Kind,
) -> std::result::Result<(), Errno> {
    let Some(disk) = open.tree.disk() else { return Ok(()) };
    let path = file.name.path.lock().clone();
    disk.vfs.unlink(&file.identity, &path, id, kind).await?;
    server.streams.unlinked(disk, node).await;
    if disk.share.mangled_names {
        server.tunnel.enter(disk.volume, path, server.world.uptime());
    }
    Ok(())
}
