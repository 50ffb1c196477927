//! A small asynchronous SMB client on the `proto` codecs, for tests and load generation.
//!
//! It never uses the server's code, because a bug that both sides share would go unnoticed.
//!
//! A [`Client`] is one connection with one session and one tree connect. It has no background task: it costs a few KiB
//! when idle, and makes no system call that a request does not need. Calls such as [`Client::read`] send one request
//! and wait. [`Client::queue`] and [`Client::next`] keep several requests in flight, [`Client::read_file`] and
//! [`Client::write_file`] do so for a whole file, and a [`Chain`] sends several requests about one open as one
//! compound. [`Client::bind`] opens further connections of a session.
//!
//! It caches nothing: a broken oplock or lease is given up at once. Not implemented: durable handles, DFS.

mod chain;
mod client;
mod connection;
mod kerberos;
mod logon;
mod negotiate;
mod options;
mod pipeline;
mod protection;
mod transport;

use std::fmt;
use std::io;
use std::time::Duration;

use proto::bytes::Malformed;
use proto::smb2::header::Command;
use proto::status::Status;

pub use chain::Chain;
pub use client::{Access, Client, Open};
pub use connection::{Raw, Response};
pub use kerberos::Kerberos;
pub use negotiate::Agreed;
pub use options::{Credentials, Options};
pub use pipeline::Window;

/// The error of a client call.
#[derive(Debug)]
pub enum Error {
    /// The transport failed.
    Io(io::Error),
    /// The server closed the connection.
    Closed,
    /// The server did not respond in time.
    Timeout {
        /// How long the client waited.
        after: Duration,
        /// A description of the awaited event.
        waiting_for: String,
    },
    /// The server returned an error status.
    Refused {
        /// The command of the refused request.
        command: Command,
        /// The status of the response.
        status: Status,
    },
    /// The server's response violates the protocol.
    Protocol(&'static str),
}

/// The result of a client call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The status, if the server refused the request.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => error.fmt(f),
            Error::Closed => f.write_str("the server closed the connection"),
            Error::Timeout { after, waiting_for } => write!(f, "no answer in {after:?}, waiting for {waiting_for}"),
            Error::Refused { command, status } => write!(f, "{command:?} was refused: {status}"),
            Error::Protocol(what) => write!(f, "the server violates the protocol: {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::Closed,
            _ => Error::Io(error),
        }
    }
}

impl From<Malformed> for Error {
    fn from(_: Malformed) -> Self {
        Error::Protocol("a response cannot be decoded")
    }
}

/// Returns random bytes.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::Io(io::Error::other("no random numbers are available")))?;
    Ok(bytes)
}
