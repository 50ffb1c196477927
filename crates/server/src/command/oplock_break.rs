//! OPLOCK_BREAK acknowledgments ([MS-SMB2] 3.3.5.22). No oplock or lease is granted yet, so none can be acknowledged.

use proto::status::Status;

use crate::conn::{Reply, Request};
use crate::error::{Error, Result};

pub(crate) fn oplock_break(_request: &Request<'_>, _reply: &mut Reply) -> Result<Status> {
    Err(Error::because(Status::INVALID_OPLOCK_PROTOCOL, "nothing to acknowledge"))
}
