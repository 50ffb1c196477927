//! A named pipe as the commands of SMB use it ([MS-SMB2] 3.3.5.12, 3.3.5.13, 3.3.5.15). The pipes that exist are those
//! of `rpc`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proto::crypto::kdf::Key;
use proto::fscc::{FilePipeInformation, FilePipeLocalInformation, PipePeekReply};
use proto::smb2::SecurityInformation;
use proto::status::Status;

pub use crate::answer::BoxFuture;
use crate::error::Result;
use crate::policy::Share;
use crate::printing::SpoolFile;
use crate::tree::Printer;
use crate::user::User;

/// The data of a READ. The status is BUFFER_OVERFLOW if the message is longer.
pub type Message = (Bytes, Status);

/// The result of a READ.
pub enum PipeRead<'a> {
    /// There is a result at once.
    Ready(Result<Message>),
    /// The READ has its place in the queue, which it leaves when the future is dropped.
    Waiting(BoxFuture<'a, Result<Message>>),
}

/// A client's open of a named pipe.
pub trait NamedPipe: Send + Sync {
    /// Takes data from the client, and executes the complete calls one after another.
    fn write<'a>(&'a self, bytes: &'a [u8], caller: &'a dyn Caller) -> BoxFuture<'a, Result<()>>;

    /// Returns up to `space` bytes for the client. Waits if there is no message, unless the pipe is in non-blocking
    /// mode.
    fn read(&self, space: usize) -> PipeRead<'_>;

    /// Checks whether the client may send FSCTL_PIPE_TRANSCEIVE now ([MS-FSCC] 2.3.47).
    fn check_transceive(&self) -> Result<()>;

    /// Executes FSCTL_PIPE_PEEK ([MS-FSCC] 2.3.46): returns the state of the pipe and, as far as `space` permits, the
    /// beginning of the first message.
    fn peek(&self, space: usize) -> Result<(PipePeekReply, Bytes)>;

    /// Returns FilePipeInformation ([MS-FSCC] 2.4.37).
    fn mode(&self) -> FilePipeInformation;

    /// Sets FilePipeInformation.
    fn set_mode(&self, mode: FilePipeInformation) -> Result<()>;

    /// Returns FilePipeLocalInformation ([MS-FSCC] 2.4.38); `quota` is the number of bytes that the pipe accepts from a
    /// client before execution.
    fn local_information(&self, quota: usize) -> FilePipeLocalInformation;

    /// Returns the status with which READs end, if there will be no more messages.
    fn ended(&self) -> Option<Status>;

    /// Closes the pipe, with its open, tree connect or session; waiting READs end. Returns the documents that its
    /// client has begun to print.
    fn close(&self) -> Vec<Arc<Spool>>;
}

/// The file of a document that a client prints through a pipe; `None` once it was handed over or removed.
pub type Spool = tokio::sync::Mutex<Option<SpoolFile>>;

/// A file as calls name it.
#[derive(Clone, Copy, Debug)]
pub struct SharedFile<'a> {
    /// The name of the share.
    pub share: &'a str,
    /// The path in the share, with the name of a stream if it is one, UTF-16LE as in CREATE.
    pub name: &'a [u8],
}

/// The request that writes to a pipe.
pub trait Caller: Sync {
    /// Returns the user of the session.
    fn user(&self) -> Option<Arc<User>>;

    /// Returns the id of the session.
    fn session(&self) -> Option<u64>;

    /// Returns the key by which services encrypt passwords in calls: `Session.ApplicationKey` ([MS-SMB2] 3.3.4.6).
    fn application_key(&self) -> Option<Key>;

    /// Returns the client's address.
    fn address(&self) -> SocketAddr;

    /// Returns the value that a `%` variable of smb.conf, identified by its letter, has in the session.
    fn variable(&self, letter: char) -> Option<String>;

    /// Ends a session of any client and closes its opens. Returns `false` if there is no such session. The service has
    /// checked that the user may do so.
    fn close_session(&self, id: u64) -> BoxFuture<'_, bool>;

    /// Closes the open of any client that has this number in listings. Returns `false` if there is no such open. The
    /// service has checked that the user may do so.
    fn close_file(&self, number: u32) -> BoxFuture<'_, bool>;

    /// Waits until a wrong password for `name`, which arrived at `arrived`, may be answered. Ends the connection if too
    /// many responses already wait.
    fn delay_wrong_password<'a>(&'a self, name: &'a str, arrived: Duration) -> BoxFuture<'a, ()>;

    /// Returns the encoded parts of the security descriptor of a file that the user could query over SMB, with a tree
    /// connect and an open of their own. Waits for oplock breaks as CREATE does.
    fn file_security<'a>(&'a self, file: SharedFile<'a>, parts: SecurityInformation) -> BoxFuture<'a, Result<Vec<u8>>>;

    /// Sets parts of the security descriptor of a file, as [`Caller::file_security`] queries them.
    fn set_file_security<'a>(
        &'a self,
        file: SharedFile<'a>,
        parts: SecurityInformation,
        descriptor: &'a [u8],
    ) -> BoxFuture<'a, Result<()>>;

    /// Returns whether the user may connect to a share.
    fn may_connect<'a>(&'a self, share: &'a Share) -> BoxFuture<'a, bool>;

    /// Connects to a print share, as TREE_CONNECT does.
    fn connect_printer<'a>(&'a self, share: &'a str) -> BoxFuture<'a, Result<Printer>>;

    /// Begins a document, with the checks of CREATE on a print share.
    fn begin_document<'a>(&'a self, printer: &'a Printer) -> BoxFuture<'a, Result<Arc<Spool>>>;

    /// Appends data to a document.
    fn write_document<'a>(&'a self, spool: &'a Spool, data: Vec<u8>) -> BoxFuture<'a, Result<()>>;

    /// Hands a document over to the print system.
    fn print_document<'a>(
        &'a self,
        printer: &'a Printer,
        title: &'a str,
        spool: &'a Spool,
    ) -> BoxFuture<'a, Result<()>>;
}
