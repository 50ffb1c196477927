//! The copy of a whole file with its streams, which a Mac requests by FSCTL_SRV_COPYCHUNK without chunks
//! (`fruit:copyfile`).

use std::sync::Arc;

use super::{Control, change};
use crate::error::{Error, Result};
use crate::state::open::{FileOpen, Open};
use crate::streams::{self, StreamNode};
use crate::vfs::{self, Access, Extent, Node};

/// The number of bytes after which the copy lets other requests of the connection continue.
const STEP: u64 = 16 << 20;

/// Whether a request without chunks copies a file.
pub(super) fn is_asked_for(control: &Control<'_>) -> bool {
    let connection = &control.request.connection;
    connection.server.policy().mac.copyfile && connection.mac.is_negotiated()
}

/// Copies the content and the streams of `from` to the file of the request. Returns the length of the content.
pub(super) async fn copy(control: &Control<'_>, source: &Open, from: &FileOpen) -> Result<u64> {
    let target = control.file()?;
    let server = &control.request.connection.server;
    let size = from.node.metadata(&from.op).await?.size;
    if !source.may_read(server, 0, size) || !control.open.may_write(server, 0, size) {
        return Err(Error::new(proto::status::Status::FILE_LOCK_CONFLICT));
    }
    if from.file == target.file {
        return Ok(size);
    }
    let size = change(control, || content(from, target, size)).await?;
    if streams::of(&from.node).is_none() && streams::of(&target.node).is_none() {
        alternate(control, source, from, target).await?;
    }
    Ok(size)
}

async fn content(from: &FileOpen, target: &FileOpen, size: u64) -> Result<u64> {
    let mut at = 0;
    while at < size {
        let step = STEP.min(size - at);
        let copied = vfs::copy_range(&target.op, &from.node, at, &target.node, at, step).await?;
        at += copied;
        if copied < step {
            break;
        }
    }
    target.node.set_extent(&target.op, Extent::Size(at)).await?;
    Ok(at)
}

/// Copies the alternate streams.
async fn alternate(control: &Control<'_>, source: &Open, from: &FileOpen, target: &FileOpen) -> Result<()> {
    let (Some(of_source), disk) = (source.tree.disk(), control.disk()?) else { return Ok(()) };
    let (Some(read), Some(written)) = (&of_source.share.streams, &disk.share.streams) else { return Ok(()) };
    let server = &control.request.connection.server;
    for stored in streams::list(&from.node, &from.op, read).await? {
        let stream = server.opens.streams.stream(of_source, read, from.file, &stored.name);
        stream.is_at(&from.node, &stored).await?;
        let size = stream.metadata(&from.node).await?.size;
        let copy = server.opens.streams.stream(disk, written, target.file, &stored.name);
        if !copy.exists(&target.node, &target.op).await? {
            copy.create(&target.node, &target.op).await?;
        }
        let handle = |stream, file: &Arc<dyn Node>, op: &vfs::Op, access| -> Arc<dyn Node> {
            Arc::new(StreamNode::new(stream, Arc::clone(file), op.clone(), access, server.environment.clone()))
        };
        let reading = handle(stream, &from.node, &from.op, Access { read: true, write: false });
        let writing = handle(copy, &target.node, &target.op, Access { read: true, write: true });
        let copied = vfs::copy_through_memory(&target.op, &reading, 0, &writing, 0, size).await?;
        writing.set_extent(&target.op, Extent::Size(copied)).await?;
    }
    Ok(())
}
