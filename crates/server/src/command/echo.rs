//! ECHO ([MS-SMB2] 3.3.5.17).

use proto::smb2::echo::{EchoRequest, EchoResponse};
use proto::status::Status;

use crate::error::{Disconnect, Error, Result};
use crate::request::{Reply, Request};

pub(crate) fn echo(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    EchoRequest::decode(request.message)?;
    if !request.connection.admit_echo() {
        request.connection.end(Disconnect("too many ECHO requests before a logon"));
        return Err(Error::new(Status::INSUFFICIENT_RESOURCES));
    }
    EchoResponse.encode(&mut reply.body());
    Ok(Status::SUCCESS)
}
