//! READ ([MS-SMB2] 3.3.5.12): the file system reads directly into the response.

use std::sync::atomic::Ordering;

use proto::dtyp::AccessMask;
use proto::smb2::negotiate::Dialect;
use proto::smb2::read::{ReadFlags, ReadRequest, ReadResponse, ReadResponseFlags};
use proto::status::Status;

use crate::error::{Error, Result};
use crate::named_pipe::{Message, NamedPipe, PipeRead};
use crate::request::{Reply, Request};
use crate::state::open::Target;
use crate::vfs::{self, Content, Kind, Payload};

/// The largest file offset, because Linux uses signed 64-bit offsets.
const MAX_OFFSET: u64 = i64::MAX as u64;

pub(crate) async fn read(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = ReadRequest::decode(request.message)?;
    let length = asked.length as usize;
    if request.connection.negotiated().is_some_and(|negotiated| asked.length > negotiated.max_read) {
        return Err(Error::because(Status::INVALID_PARAMETER, "the length exceeds MaxReadSize"));
    }
    request.check_charge(length)?;
    let open = request.open(asked.file_id, reply)?;
    let file = match &open.target {
        Target::File(file) => file,
        Target::Quotas(_) => return Err(Error::because(Status::INVALID_DEVICE_REQUEST, "the quota file has no data")),
        Target::Job(_) => return Err(Error::because(Status::ACCESS_DENIED, "a print job cannot be read")),
        Target::Pipe(pipe) => {
            let unbuffered = asked.flags.contains(ReadFlags::READ_UNBUFFERED);
            if unbuffered && request.connection.dialect().0 >= Dialect::SMB_3_0_2.0 {
                return Err(Error::because(Status::INVALID_PARAMETER, "unbuffered READ of a pipe"));
            }
            let (data, status) = read_pipe(&**pipe, length, request, reply).await?;
            let mut body = reply.body();
            ReadResponse { data_remaining: 0, flags: ReadResponseFlags::NONE, buffer: &data }.encode(&mut body);
            return Ok(status);
        }
    };
    if file.kind == Kind::Directory {
        return Err(Error::new(Status::INVALID_DEVICE_REQUEST));
    }
    // A symbolic link that was opened itself has no data.
    if file.kind == Kind::Symlink {
        return Err(Error::new(Status::END_OF_FILE));
    }
    // The right to execute includes reading over SMB.
    if open.granted.0 & (AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_EXECUTE.0) == 0 {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    if asked.offset > MAX_OFFSET || asked.offset + length as u64 > MAX_OFFSET {
        return Err(Error::because(Status::INVALID_PARAMETER, "the offset exceeds the maximum file size"));
    }
    if !open.may_read(&request.connection.server, asked.offset, length as u64) {
        return Err(Error::new(Status::FILE_LOCK_CONFLICT));
    }
    ReadResponse::encode_header(&mut reply.body(), 0);
    let head = reply.outgoing.take_buffer();
    let filled = head.len();
    let buffer = request.connection.server.buffers.stretch(head, filled + length);
    let sends_files = open.tree.disk().is_some_and(|disk| disk.share.use_sendfile);
    let pipe = sends_files && reply.outgoing.may_pipe(request);
    #[cfg(feature = "torture")]
    let pipe = pipe && !crate::torture::pads_reads(request);
    let read = vfs::ReadRequest { offset: asked.offset, buffer, filled, pipe };
    let count = match file.node.read(&file.op, read).await {
        (buffer, Ok(Content::Payload(Payload::Pipe(data)))) => {
            let count = data.length();
            reply.outgoing.put_buffer(request.connection.server.buffers.cut(buffer, filled));
            reply.outgoing.put_data(data);
            count
        }
        read => {
            let (buffer, result) = vfs::into_buffer(read, filled);
            let got = *result.as_ref().unwrap_or(&0);
            reply.outgoing.put_buffer(request.connection.server.buffers.cut(buffer, filled + got));
            result?
        }
    };
    // Deviates from [MS-FSA] 2.1.5.3: the position is updated for every open, synchronous or not, as other servers do.
    file.position.store(asked.offset + count as u64, Ordering::Relaxed);
    // 3.3.5.12: END_OF_FILE if there is no data, or less than the client's minimum.
    if (count == 0 && length > 0) || count < asked.minimum_count as usize {
        return Err(Error::new(Status::END_OF_FILE));
    }
    reply.moved = count as u64;
    if let Some(disk) = open.tree.disk() {
        disk.counters.read(count);
    }
    ReadResponse::set_data_length(&mut reply.body(), count as u32);
    #[cfg(feature = "torture")]
    crate::torture::pad_read(request, reply);
    Ok(Status::SUCCESS)
}

/// Reads from a pipe, with an interim response if the READ has to wait.
pub(super) async fn read_pipe(
    pipe: &dyn NamedPipe,
    space: usize,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result<Message> {
    let waiting = match pipe.read(space) {
        PipeRead::Ready(result) => return result,
        PipeRead::Waiting(waiting) => waiting,
    };
    request.check_last()?;
    let pending = reply.go_async(request)?;
    let result = pending.wait(waiting).await;
    result.unwrap_or_else(|_| Err(Error::new(pipe.ended().unwrap_or(Status::CANCELLED))))
}
