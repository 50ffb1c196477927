//! ECHO ([MS-SMB2] 3.3.5.17).

use proto::smb2::echo::{EchoRequest, EchoResponse};
use proto::status::Status;

use crate::conn::{Reply, Request};
use crate::error::Result;

pub(crate) fn echo(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    EchoRequest::decode(request.message)?;
    EchoResponse.encode(&mut reply.body());
    Ok(Status::SUCCESS)
}
