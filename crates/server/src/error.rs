//! How a command fails: it is refused with a status, or the connection ends.

use std::borrow::Cow;
use std::fmt;

use proto::bytes::Malformed;
use proto::status::Status;

use crate::vfs::Errno;

/// A refused request: the client gets `status`, the log also gets `why`. Two errors are equal if their statuses are.
#[derive(Clone, Debug)]
pub struct Error {
    /// The status for the client.
    pub status: Status,
    /// Details for the administrator, in the log; empty if the status is sufficient.
    pub why: Cow<'static, str>,
    /// The `ErrorData` of the response ([MS-SMB2] 2.2.2); empty for most errors.
    pub data: Vec<u8>,
}

/// The result of a command.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns an error whose status needs no explanation.
    pub fn new(status: Status) -> Self {
        Error { status, why: Cow::Borrowed(""), data: Vec::new() }
    }

    /// Returns an error with an explanation for the log.
    pub fn because(status: Status, why: impl Into<Cow<'static, str>>) -> Self {
        Error { status, why: why.into(), data: Vec::new() }
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.status == other.status
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.why.is_empty() { self.status.fmt(f) } else { write!(f, "{}: {}", self.status, self.why) }
    }
}

impl std::error::Error for Error {}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Error::new(status)
    }
}

/// [MS-SMB2] 3.3.5.2.6: a request that cannot be decoded has an invalid parameter.
impl From<Malformed> for Error {
    fn from(_: Malformed) -> Self {
        Error::because(Status::INVALID_PARAMETER, "the request cannot be decoded")
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error::new(errno.status())
    }
}

/// A protocol violation by the peer, for which the specification requires the connection to end without a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disconnect(pub &'static str);

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
