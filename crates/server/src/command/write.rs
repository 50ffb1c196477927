//! WRITE ([MS-SMB2] 3.3.5.13).

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use proto::dtyp::AccessMask;
use proto::smb2::create::CreateOptions;
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::write::{WriteFlags, WriteRequest, WriteResponse};
use proto::smb2::{Channel, FileId};
use proto::status::Status;

use super::pipe_caller::PipeCaller;
use super::print;
use crate::error::{Error, Result};
use crate::request::arrival::Rest;
use crate::request::{Reply, Request};
use crate::state::connection::Connection;
use crate::state::open::{FileOpen, Open, Target};
use crate::vfs::Kind;

/// The offset that means appending, whatever the file's size ([MS-FSA] 2.1.5.4).
const END_OF_FILE: u64 = u64::MAX;

pub(crate) async fn write(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = match request.rest {
        None => WriteRequest::decode(request.message)?,
        Some(_) => WriteRequest::decode_start(request.message)?.0,
    };
    let length = request.rest.map_or(asked.buffer.len(), Rest::length);
    if request.connection.negotiated().is_some_and(|negotiated| length > negotiated.max_write as usize) {
        return Err(Error::because(Status::INVALID_PARAMETER, "the length exceeds MaxWriteSize"));
    }
    request.check_charge(length)?;
    let open = request.open(asked.file_id, reply)?;
    let file = match &open.target {
        Target::File(file) => file,
        Target::Quotas(_) => return Err(Error::because(Status::INVALID_DEVICE_REQUEST, "the quota file has no data")),
        Target::Job(job) => {
            print::write(request, job, asked.offset, asked.buffer).await?;
            WriteResponse { count: length as u32 }.encode(&mut reply.body());
            return Ok(Status::SUCCESS);
        }
        Target::Pipe(pipe) => {
            pipe.write(asked.buffer, &PipeCaller::new(request, reply)).await?;
            WriteResponse { count: length as u32 }.encode(&mut reply.body());
            return Ok(Status::SUCCESS);
        }
    };
    if file.kind == Kind::Directory {
        return Err(Error::new(Status::INVALID_DEVICE_REQUEST));
    }
    // A symbolic link that was opened itself cannot be written to.
    if !may_write_or_append(&open) || file.kind == Kind::Symlink {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    file.not_replaced()?;
    // As on Windows, a file in a snapshot can be opened for writing, but writes are refused.
    if let Some(disk) = open.tree.disk().filter(|disk| disk.snapshot.is_some()) {
        return Err(disk.refusal());
    }
    let mut appends = None;
    let offset = match asked.offset {
        END_OF_FILE => {
            appends = Some(request.connection.server.opens.appends.take(file.file).await);
            // The handle may have been closed, or reclaimed by another session.
            (reply.outstanding, reply.audited) = (None, None);
            request.open(asked.file_id, reply)?;
            file.node.metadata(&file.op).await?.size
        }
        offset => offset,
    };
    if offset > i64::MAX as u64 || offset + length as u64 > i64::MAX as u64 {
        return Err(Error::because(Status::INVALID_PARAMETER, "the offset exceeds the maximum file size"));
    }
    // Nothing is written if a part of the range is locked.
    if length > 0 && !open.may_write(&request.connection.server, offset, length as u64) {
        return Err(Error::new(Status::FILE_LOCK_CONFLICT));
    }
    match request.rest {
        Some(rest) => {
            drop(open);
            write_rest(request, reply, rest, asked.file_id, offset).await?;
        }
        None => {
            let data = request.message.slice_ref(asked.buffer);
            write_data(request, reply, &open, file, offset, data, asked.flags).await?;
        }
    }
    drop(appends);
    WriteResponse { count: length as u32 }.encode(&mut reply.body());
    Ok(Status::SUCCESS)
}

/// Writes data while it arrives. Nothing is held while the server waits for the client: each part is written as by a
/// request of its own, if the handle is still open and the request is not outdated (3.3.5.2.10).
async fn write_rest(request: &Request<'_>, reply: &mut Reply, rest: &Rest, id: FileId, offset: u64) -> Result<()> {
    let mut written = 0;
    while written < rest.length() {
        (reply.outstanding, reply.audited) = (None, None);
        let part = match rest.next().await {
            Ok(Some(part)) => part,
            Ok(None) => break,
            // The connection ends, so there is no response.
            Err(reason) => return Err(Error::because(Status::CANCELLED, reason.0)),
        };
        let open = request.open(id, reply)?;
        let Some(file) = open.file() else { return Err(Error::new(Status::FILE_CLOSED)) };
        file.not_replaced()?;
        let (at, length) = (offset + written as u64, part.len());
        if written > 0 && !open.may_write(&request.connection.server, at, length as u64) {
            return Err(Error::new(Status::FILE_LOCK_CONFLICT));
        }
        write_data(request, reply, &open, file, at, part, WriteFlags::NONE).await?;
        written += length;
    }
    Ok(())
}

/// Writes `data` at `offset` of `file`, for which the caller has checked the access and the locks.
async fn write_data(
    request: &Request<'_>,
    reply: &mut Reply,
    open: &Open,
    file: &FileOpen,
    offset: u64,
    data: Bytes,
    flags: WriteFlags,
) -> Result<()> {
    let length = data.len();
    if length == 0 {
        return Ok(());
    }
    let server = &request.connection.server;
    let _change = file.begin_change(server)?;
    let held = file.hold_times().await?;
    let delay = open.tree.disk().map_or(Duration::ZERO, |disk| disk.share.sync.write_time_delay);
    if !delay.is_zero() && held.is_none() {
        let modified = file.node.metadata(&file.op).await?.modified;
        server.opens.files.defer_write_time(file.file, modified, server.environment.uptime(), delay);
    }
    file.node.write(&file.op, offset, data.into(), writes_through(open, file, flags)).await?;
    reply.moved += length as u64;
    file.restore_times(held).await?;
    if let Some(disk) = open.tree.disk() {
        disk.counters.written(length);
        server.written(disk, file);
    }
    file.position.store(offset + length as u64, Ordering::Relaxed);
    Ok(())
}

fn may_write_or_append(open: &Open) -> bool {
    open.granted.0 & (AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0) != 0
}

/// Whether the data must be on disk before the response.
fn writes_through(open: &Open, file: &FileOpen, flags: WriteFlags) -> bool {
    flags.contains(WriteFlags::WRITE_THROUGH)
        || file.options().contains(CreateOptions::WRITE_THROUGH)
        || open.tree.disk().is_some_and(|disk| disk.share.sync.sync_always)
}

/// Returns the length of the part before the data if `start` is the beginning of a WRITE that can be executed while the
/// data arrives. The message has `length` bytes. It must not be signed, because a signature is verified before anything
/// is changed, and data that must be on disk is written at once.
pub(crate) fn takes_parts(connection: &Connection, header: &Header, start: &[u8], length: usize) -> Option<usize> {
    let plain = Flags(header.flags.0 & !(Flags::REPLAY_OPERATION.0 | Flags::PRIORITY_MASK.0));
    if header.command != Command::WRITE || !plain.is_empty() || header.next_command != 0 {
        return None;
    }
    let (asked, data_offset) = WriteRequest::decode_start(start).ok()?;
    let at_end = data_offset + asked.length as usize == length && data_offset >= Header::SIZE + WriteRequest::SIZE;
    if !at_end || data_offset > start.len() || asked.channel != Channel::NONE || asked.offset == END_OF_FILE {
        return None;
    }
    let open = connection.channel(header.session_id)?.session.open(asked.file_id.persistent, asked.file_id.volatile)?;
    let file = open.file().filter(|file| file.kind == Kind::File && file.node.takes_parts())?;
    (may_write_or_append(&open) && !writes_through(&open, file, asked.flags)).then_some(data_offset)
}
