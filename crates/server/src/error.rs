//! How a command ends when it does not succeed: refused with a status, or the connection ends.

use std::borrow::Cow;
use std::fmt;

use proto::bytes::Malformed;
use proto::status::Status;

use crate::accounting::Full;
use crate::vfs::Errno;

/// A request is refused: the client gets `status`, the log gets `why` as well. Equal by status.
#[derive(Clone, Debug)]
pub struct Error {
    /// What the client is told.
    pub status: Status,
    /// What an administrator reading the log wants to know besides; empty where the status says it all.
    pub why: Cow<'static, str>,
    /// The `ErrorData` of the response ([MS-SMB2] 2.2.2); empty for most errors.
    pub data: Vec<u8>,
}

/// What a command answers.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A refusal whose status needs no explanation.
    pub fn new(status: Status) -> Self {
        Error { status, why: Cow::Borrowed(""), data: Vec::new() }
    }

    /// A refusal with a word for the log.
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

/// [MS-SMB2] 3.3.5.2.6: what does not decode is an invalid parameter.
impl From<Malformed> for Error {
    fn from(_: Malformed) -> Self {
        Error::because(Status::INVALID_PARAMETER, "request does not decode")
    }
}

/// An account that pays for a client holds as much as it may.
impl From<Full> for Error {
    fn from(full: Full) -> Self {
        Error::because(Status::INSUFFICIENT_RESOURCES, full.to_string())
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Error::new(errno.status())
    }
}

/// The peer broke the protocol where the specification ends the connection without a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disconnect(pub &'static str);

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
