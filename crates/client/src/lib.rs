//! A small SMB client on the `proto` codecs, for tests and load. It never uses the server's code, so that a mistake in it
//! is not made twice.
//!
//! One request at a time, signed or sealed, NTLMv2 in bare NTLM tokens. Leaves out: pipelining, compounds, Kerberos.

mod session;
mod transport;

use std::fmt;
use std::io;

use proto::bytes::{Malformed, utf16_bytes};
use proto::smb2::FileId;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::echo::EchoRequest;
use proto::smb2::header::Command;
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::negotiate::Dialect;
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::tree_connect::{TreeConnectFlags, TreeConnectRequest};
use proto::smb2::write::{WriteRequest, WriteResponse};
use proto::status::Status;
use tokio::net::{TcpStream, ToSocketAddrs};

pub use session::Session;

/// Why something did not succeed.
#[derive(Debug)]
pub enum Error {
    /// The transport failed.
    Io(io::Error),
    /// The server refused.
    Refused(Status),
    /// The server answered what makes no sense.
    Protocol(&'static str),
}

/// What the client's calls answer.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => error.fmt(f),
            Error::Refused(status) => status.fmt(f),
            Error::Protocol(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}

impl From<Malformed> for Error {
    fn from(_: Malformed) -> Self {
        Error::Protocol("a response that does not decode")
    }
}

/// How to talk to the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The user's name.
    pub user: String,
    /// The password.
    pub password: String,
    /// What to offer.
    pub dialects: Vec<Dialect>,
    /// Seal everything once logged on; needs 3.0 or later.
    pub seal: bool,
}

/// A share on a connection of its own.
pub struct Client {
    session: Session,
    /// The tree connect.
    tree_id: u32,
}

impl Client {
    /// Connects, logs on and connects to `share`.
    pub async fn connect(address: impl ToSocketAddrs, share: &str, options: &Options) -> Result<Client> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut session = Session::log_on(stream, options).await?;
        let path = utf16_bytes(&format!(r"\\server\{share}"));
        let request = TreeConnectRequest { flags: TreeConnectFlags(0), path: &path, tree_connect_contexts: Vec::new() };
        let (header, _) = session.request(Command::TREE_CONNECT, 0, 1, |out| request.encode(out)).await?;
        let tree_id = header.tree_id().ok_or(Error::Protocol("TREE_CONNECT answered without a TreeId"))?;
        Ok(Client { session, tree_id })
    }

    /// The dialect that was agreed to.
    pub fn dialect(&self) -> Dialect {
        self.session.dialect()
    }

    /// Opens or makes a file, for everything, shared with everybody.
    pub async fn open(&mut self, name: &str, disposition: CreateDisposition, options: CreateOptions) -> Result<FileId> {
        let name = utf16_bytes(name);
        let directory = options.contains(CreateOptions::DIRECTORY_FILE);
        let request = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            // Reading and writing data, attributes and EAs, deleting; of a directory, reading.
            desired_access: if directory { 0x0012_0089 } else { 0x0013_019f },
            share_access: ShareAccess(7),
            create_disposition: disposition,
            create_options: options,
            name: &name,
            ..CreateRequest::default()
        };
        let (_, response) = self.request(Command::CREATE, 1, |out| request.encode(out)).await?;
        Ok(CreateResponse::decode(&response)?.file_id)
    }

    /// Closes an open.
    pub async fn close(&mut self, file_id: FileId) -> Result<()> {
        let request = CloseRequest { flags: CloseFlags::NONE, file_id };
        self.request(Command::CLOSE, 1, |out| request.encode(out)).await.map(|_| ())
    }

    /// Reads up to `length` bytes; none at the end of the file.
    pub async fn read(&mut self, file_id: FileId, offset: u64, length: u32) -> Result<Vec<u8>> {
        let request = ReadRequest { file_id, offset, length, ..ReadRequest::default() };
        match self.request(Command::READ, charge(length as usize), |out| request.encode(out)).await {
            Ok((_, response)) => Ok(ReadResponse::decode(&response)?.buffer.to_vec()),
            Err(Error::Refused(Status::END_OF_FILE)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Writes all of `data`.
    pub async fn write(&mut self, file_id: FileId, offset: u64, data: &[u8]) -> Result<()> {
        let request = WriteRequest::new(file_id, offset, data);
        let (_, response) = self.request(Command::WRITE, charge(data.len()), |out| request.encode(out)).await?;
        let whole = WriteResponse::decode(&response)?.count as usize == data.len();
        if whole { Ok(()) } else { Err(Error::Protocol("a part of a WRITE was written")) }
    }

    /// One buffer of a directory's listing in `class`; `None` at the end.
    pub async fn query_directory(&mut self, directory: FileId, class: u8, pattern: &str) -> Result<Option<Vec<u8>>> {
        let pattern = utf16_bytes(pattern);
        let request = QueryDirectoryRequest {
            file_information_class: class,
            flags: QueryDirectoryFlags(0),
            file_index: 0,
            file_id: directory,
            file_name: &pattern,
            output_buffer_length: 65536,
        };
        match self.request(Command::QUERY_DIRECTORY, 1, |out| request.encode(out)).await {
            Ok((_, response)) => Ok(Some(QueryDirectoryResponse::decode(&response)?.buffer.to_vec())),
            Err(Error::Refused(Status::NO_MORE_FILES)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks for a sign of life.
    pub async fn echo(&mut self) -> Result<()> {
        self.request(Command::ECHO, 1, |out| EchoRequest.encode(out)).await.map(|_| ())
    }

    /// Logs off.
    pub async fn log_off(mut self) -> Result<()> {
        self.request(Command::LOGOFF, 1, |out| LogoffRequest.encode(out)).await.map(|_| ())
    }

    async fn request(
        &mut self,
        command: Command,
        charge: u16,
        encode: impl FnOnce(&mut proto::bytes::Writer<'_>),
    ) -> Result<(proto::smb2::header::Header, Vec<u8>)> {
        self.session.request(command, self.tree_id, charge, encode).await
    }
}

/// `CreditCharge` for `length` bytes of payload ([MS-SMB2] 3.1.5.2).
fn charge(length: usize) -> u16 {
    u16::try_from(length.saturating_sub(1) / 65536 + 1).unwrap_or(u16::MAX)
}
