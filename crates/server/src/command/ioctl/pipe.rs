//! Controls of named pipes ([MS-SMB2] 3.3.5.15.3, 3.3.5.15.4, 3.3.5.15.10).

use std::sync::Arc;

use proto::bytes::{Reader, Writer, utf16_units};
use proto::fscc::{PipePeekReply, PipeWaitRequest};
use proto::smb2::FileId;
use proto::smb2::ioctl::IoctlRequest;
use proto::status::Status;

use super::respond;
use crate::command::pipe_caller::PipeCaller;
use crate::command::read::read_pipe;
use crate::error::{Error, Result};
use crate::named_pipe::NamedPipe;
use crate::request::{Reply, Request};
use crate::rpc;
use crate::state::open::{Open, Target};

fn open(request: &Request<'_>, asked: &IoctlRequest<'_>, reply: &mut Reply) -> Result<Arc<Open>> {
    request.open(asked.file_id, reply)
}

/// Returns the pipe, or Windows' error status for a file (<385>, <389>).
fn pipe(open: &Open) -> Result<&dyn NamedPipe> {
    match &open.target {
        Target::Pipe(pipe) => Ok(&**pipe),
        Target::File(_) | Target::Job(_) | Target::Quotas(_) => {
            Err(Error::because(Status::INVALID_DEVICE_REQUEST, "the FSCTL does not apply to a file"))
        }
    }
}

/// FSCTL_PIPE_TRANSCEIVE (3.3.5.15.3).
pub(super) async fn transceive(request: &Request<'_>, asked: &IoctlRequest<'_>, reply: &mut Reply) -> Result<Status> {
    let open = open(request, asked, reply)?;
    let space = asked.max_output_response as usize;
    let pipe = pipe(&open)?;
    pipe.check_transceive()?;
    pipe.write(asked.input, &PipeCaller::new(request, reply)).await?;
    let (output, status) = read_pipe(pipe, space, request, reply).await?;
    respond(asked, &output, reply);
    Ok(status)
}

/// FSCTL_PIPE_PEEK (3.3.5.15.4). An empty output buffer is allowed.
pub(super) fn peek(request: &Request<'_>, asked: &IoctlRequest<'_>, reply: &mut Reply) -> Result<Status> {
    let open = open(request, asked, reply)?;
    let space = asked.max_output_response as usize;
    if space > 0 && space < PipePeekReply::SIZE {
        return Err(Error::because(Status::INVALID_PARAMETER, "the output buffer is too small for the pipe's state"));
    }
    let (state, data) = pipe(&open)?.peek(space.saturating_sub(PipePeekReply::SIZE))?;
    let mut output = Vec::new();
    if space > 0 {
        state.encode(&mut Writer::new(&mut output));
        output.extend_from_slice(&data);
    }
    respond(asked, &output, reply);
    Ok(if data.len() < state.message_length as usize { Status::BUFFER_OVERFLOW } else { Status::SUCCESS })
}

/// FSCTL_PIPE_WAIT (3.3.5.15.10): an existing pipe can always be opened immediately.
pub(super) fn wait(request: &Request<'_>, asked: &IoctlRequest<'_>, reply: &mut Reply) -> Result<Status> {
    if asked.file_id != FileId::ANY {
        return Err(Error::because(Status::INVALID_PARAMETER, "PIPE_WAIT must name its pipe, not use a FileId"));
    }
    if request.tree()?.disk().is_some() {
        return Err(Error::because(Status::INVALID_DEVICE_REQUEST, "PIPE_WAIT on a file share"));
    }
    let wait = PipeWaitRequest::decode(&mut Reader::new(asked.input));
    let name = wait.ok().and_then(|wait| utf16_units(wait.name)).and_then(|units| String::from_utf16(&units).ok());
    if !name.is_some_and(|name| rpc::exists(&name)) {
        return Err(Error::because(Status::OBJECT_NAME_NOT_FOUND, "PIPE_WAIT for a pipe that does not exist"));
    }
    respond(asked, &[], reply);
    Ok(Status::SUCCESS)
}
