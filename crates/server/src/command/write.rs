//! WRITE ([MS-SMB2] 3.3.5.13).

use std::sync::atomic::Ordering;
use std::time::Duration;

use proto::dtyp::AccessMask;
use proto::smb2::create::CreateOptions;
use proto::smb2::write::{WriteFlags, WriteRequest, WriteResponse};
use proto::status::Status;

use super::pipe_caller::PipeCaller;
use super::print;
use crate::error::{Error, Result};
use crate::request::{Reply, Request};
use crate::state::open::Target;
use crate::vfs::Kind;

/// The offset that means appending, whatever the file's size ([MS-FSA] 2.1.5.4).
const END_OF_FILE: u64 = u64::MAX;

pub(crate) async fn write(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = WriteRequest::decode(request.message)?;
    let length = asked.buffer.len();
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
    let may_write = open.granted.0 & AccessMask::FILE_WRITE_DATA.0 != 0;
    let may_append = open.granted.0 & AccessMask::FILE_APPEND_DATA.0 != 0;
    // A symbolic link that was opened itself cannot be written to.
    if !may_write && !may_append || file.kind == Kind::Symlink {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    file.not_replaced()?;
    // As on Windows, a file in a snapshot can be opened for writing, but writes are refused.
    if let Some(disk) = open.tree.disk().filter(|disk| disk.snapshot.is_some()) {
        return Err(disk.refusal());
    }
    let offset = if asked.offset == END_OF_FILE { file.node.metadata(&file.op).await?.size } else { asked.offset };
    if offset > i64::MAX as u64 || offset + length as u64 > i64::MAX as u64 {
        return Err(Error::because(Status::INVALID_PARAMETER, "the offset exceeds the maximum file size"));
    }
    if length > 0 {
        let files = &request.connection.server.opens.files;
        if !open.may_write(&request.connection.server, offset, length as u64) {
            return Err(Error::new(Status::FILE_LOCK_CONFLICT));
        }
        let _change = file.content_changes(&request.connection.server);
        let through = asked.flags.contains(WriteFlags::WRITE_THROUGH)
            || file.options().contains(CreateOptions::WRITE_THROUGH)
            || open.tree.disk().is_some_and(|disk| disk.share.sync.sync_always);
        let held = file.hold_times().await?;
        let delay = open.tree.disk().map_or(Duration::ZERO, |disk| disk.share.sync.write_time_delay);
        if !delay.is_zero() && held.is_none() {
            let modified = file.node.metadata(&file.op).await?.modified;
            files.defer_write_time(file.file, modified, request.connection.server.environment.uptime(), delay);
        }
        file.node.write(&file.op, offset, request.message.slice_ref(asked.buffer).into(), through).await?;
        reply.moved = length as u64;
        file.restore_times(held).await?;
        if let Some(disk) = open.tree.disk() {
            disk.counters.written(length);
            request.connection.server.written(disk, file);
        }
        file.position.store(offset + length as u64, Ordering::Relaxed);
    }
    WriteResponse { count: length as u32 }.encode(&mut reply.body());
    Ok(Status::SUCCESS)
}
