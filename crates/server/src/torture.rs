//! Samba's private FSCTLs for smbtorture, which create conditions that no client can: a peer that no longer
//! acknowledges, padding that servers may send, a slow request.
//!
//! Only in builds with the feature `torture`, which releases do not have, because a client that can send these requests
//! can end any of its own connections and keep requests waiting.

use std::sync::atomic::Ordering;
use std::time::Duration;

use proto::smb2::header::{Command, Header};
use proto::smb2::ioctl::{FsctlCode, IoctlRequest, IoctlResponse};
use proto::smb2::read::ReadResponse;
use proto::status::Status;

use crate::error::{Error, Result};
use crate::request::{Reply, Request};

/// From now on the client of this connection is treated as if it never acknowledged notifications. A notification then
/// ends the connection after a while, even if it is the only one.
const FORCE_UNACKED_TIMEOUT: FsctlCode = FsctlCode(0x8384_8003);
/// The response to this request has padding before its output.
const IOCTL_RESPONSE_BODY_PADDING8: FsctlCode = FsctlCode(0x8384_8013);
/// From now on responses to READ on this connection have padding before their data.
const GLOBAL_READ_RESPONSE_BODY_PADDING8: FsctlCode = FsctlCode(0x8384_8023);
/// Takes as many milliseconds as its one-byte input specifies, and uses the file until the end.
const FSP_ASYNC_SLEEP: FsctlCode = FsctlCode(0x8384_8043);

/// Bytes of padding.
const PADDING: usize = 8;

/// Executes one of these controls; returns `None` for any other request. Called before the session check, because the
/// options belong to the connection.
pub(crate) async fn dispatch(request: &Request<'_>, reply: &mut Reply) -> Option<Result<Status>> {
    if request.header.command != Command::IOCTL {
        return None;
    }
    let asked = IoctlRequest::decode(request.message).ok()?;
    let hooks = &request.connection.torture;
    let done = match asked.ctl_code {
        FORCE_UNACKED_TIMEOUT => {
            hooks.unacknowledged.store(true, Ordering::Relaxed);
            respond(&asked, reply)
        }
        IOCTL_RESPONSE_BODY_PADDING8 => padded(request, &asked, reply),
        GLOBAL_READ_RESPONSE_BODY_PADDING8 => {
            hooks.pads_reads.store(true, Ordering::Relaxed);
            respond(&asked, reply)
        }
        FSP_ASYNC_SLEEP => sleep(request, &asked, reply).await,
        _ => return None,
    };
    Some(done)
}

fn respond(asked: &IoctlRequest<'_>, reply: &mut Reply) -> Result<Status> {
    if !asked.input.is_empty() {
        return Err(Error::new(Status::INVALID_PARAMETER));
    }
    IoctlResponse { ctl_code: asked.ctl_code, file_id: asked.file_id, input: &[], output: &[] }
        .encode(&mut reply.body());
    Ok(Status::SUCCESS)
}

/// Returns bytes of value 8, as many as the client accepts, with padding before them.
fn padded(request: &Request<'_>, asked: &IoctlRequest<'_>, reply: &mut Reply) -> Result<Status> {
    let longest = request.connection.negotiated().map_or(0, |negotiated| negotiated.max_transact);
    if !asked.input.is_empty() || asked.max_output_response > longest {
        return Err(Error::new(Status::INVALID_PARAMETER));
    }
    let output = vec![8; asked.max_output_response as usize];
    let fixed = IoctlResponse { ctl_code: asked.ctl_code, file_id: asked.file_id, input: &[], output: &output };
    let mut body = reply.body();
    fixed.encode(&mut body);
    if !output.is_empty() {
        body.patch_u32(IoctlResponse::OUTPUT_OFFSET_POSITION, (IoctlResponse::OUTPUT_OFFSET + PADDING) as u32);
        // The padding consists of the same bytes, so its position does not matter.
        body.bytes(&[8; PADDING]);
    }
    Ok(Status::SUCCESS)
}

/// The request keeps its open, so a CLOSE meanwhile invalidates the handle but does not close the file.
async fn sleep(request: &Request<'_>, asked: &IoctlRequest<'_>, reply: &mut Reply) -> Result<Status> {
    let [milliseconds] = *asked.input else { return Err(Error::new(Status::INVALID_PARAMETER)) };
    let open = request.open(asked.file_id, reply)?;
    let file = open.file().ok_or(Error::new(Status::INVALID_HANDLE))?;
    let pending = reply.go_async(request)?;
    let time = request.connection.server.environment.sleep(Duration::from_millis(milliseconds.into()));
    pending.wait(time).await.map_err(|_| Error::new(Status::CANCELLED))?;
    file.node.metadata(&file.op).await?;
    IoctlResponse { ctl_code: asked.ctl_code, file_id: asked.file_id, input: &[], output: &[] }
        .encode(&mut reply.body());
    Ok(Status::SUCCESS)
}

pub(crate) fn pads_reads(request: &Request<'_>) -> bool {
    request.connection.torture.pads_reads.load(Ordering::Relaxed)
}

/// Puts padding into the response to a READ, if it was requested.
pub(crate) fn pad_read(request: &Request<'_>, reply: &mut Reply) {
    if !pads_reads(request) {
        return;
    }
    let data = reply.outgoing.position() - ReadResponse::DATA_OFFSET;
    let mut buffer = reply.outgoing.take_buffer();
    let at = buffer.len() - data;
    buffer.splice(at..at, [0; PADDING]);
    buffer[at - ReadResponse::SIZE + 2] = (Header::SIZE + ReadResponse::SIZE + PADDING) as u8;
    reply.outgoing.put_buffer(buffer);
}
