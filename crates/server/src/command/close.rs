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
use crate::open::{FileOpen, Open};
use crate::server::Server;
use crate::vfs::{Errno, SetMetadata};

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
    let delete = file.delete_on_close.load(Ordering::Acquire);
    let closed = server.files.close(file.file, open.persistent_id, delete);
    if delete && closed == Closed::Stays {
        // Who keeps it open only to be quick closes it, so that it goes. Nobody waits for that.
        let _ = server.files.name_changes(file.file, open.persistent_id, None, false, server.world.uptime());
    }
    if closed == Closed::Delete {
        match delete_file(open, file).await {
            Ok(()) => report_deletion(server, open, file),
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
}

fn report_deletion(server: &Server, open: &Open, file: &FileOpen) {
    if let Some(disk) = open.tree.disk()
        && !server.watches.is_idle()
    {
        let path = file.name.path.lock().clone();
        server.changed(disk, &path, Change::removed(file.kind));
    }
}

async fn delete_file(open: &Open, file: &FileOpen) -> std::result::Result<(), Errno> {
    let Some(disk) = open.tree.disk() else { return Ok(()) };
    let path = file.name.path.lock().clone();
    disk.vfs.unlink(&file.identity, &path, file.file, file.kind).await
}
