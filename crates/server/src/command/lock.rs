//! LOCK ([MS-SMB2] 3.3.5.14). Byte-range locks are not granted yet, and the client is told so rather than lied to.

use proto::smb2::lock::LockRequest;
use proto::status::Status;

use crate::conn::{Reply, Request};
use crate::error::{Error, Result};

pub(crate) async fn lock(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = LockRequest::decode(request.message)?;
    request.open(asked.file_id, reply)?;
    Err(Error::because(Status::NOT_SUPPORTED, "byte-range locks"))
}
