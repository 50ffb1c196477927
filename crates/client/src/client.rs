//! The requests of a client, one at a time.

use std::net::SocketAddr;

use proto::bytes::{Writer, utf16_bytes};
use proto::fscc::{FileInformationClass, FileRenameInformation};
use proto::mac::aapl::{self, Parts, ServerAnswer, ServerCapabilities, ServerQuery};
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::echo::EchoRequest;
use proto::smb2::flush::FlushRequest;
use proto::smb2::header::Command;
use proto::smb2::lock::{LockElement, LockRequest};
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::negotiate::Dialect;
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::tree_connect::{ShareFlags, TreeConnectFlags, TreeConnectRequest, TreeConnectResponse};
use proto::smb2::write::{WriteRequest, WriteResponse};
use proto::smb2::{FileId, InfoType};
use proto::status::Status;
use tokio::net::ToSocketAddrs;

use crate::connection::{Connection, Raw};
use crate::negotiate::{self, CREDIT};
use crate::transport::Transport;
use crate::{Agreed, Chain, Error, Options, Response, Result, logon, random};

/// Common combinations of access rights ([MS-SMB2] 2.2.13.1.1).
pub struct Access;

impl Access {
    /// Read and write data, attributes and extended attributes, and delete.
    pub const ALL: u32 = 0x0013_019f;
    /// Read data, attributes and extended attributes.
    pub const READ: u32 = 0x0012_0089;
    /// Read attributes.
    pub const ATTRIBUTES: u32 = 0x0010_0080;
    /// Delete and rename, and read attributes.
    pub const DELETE: u32 = 0x0011_0080;
}

/// The parameters of an open. The share mode always allows reading, writing and deleting.
#[derive(Clone, Copy, Debug)]
pub struct Open<'a> {
    /// The path below the share; empty for its root.
    pub name: &'a str,
    /// The desired access.
    pub access: u32,
    /// What to do if the file exists, and if it does not.
    pub disposition: CreateDisposition,
    /// The create options.
    pub options: CreateOptions,
}

impl<'a> Open<'a> {
    /// Opens an existing file for reading.
    pub fn existing(name: &'a str) -> Open<'a> {
        let options = CreateOptions::NON_DIRECTORY_FILE;
        Open { name, access: Access::READ, disposition: CreateDisposition::OPEN, options }
    }

    /// Opens a file for all access and creates it if it does not exist.
    pub fn file(name: &'a str) -> Open<'a> {
        let options = CreateOptions::NON_DIRECTORY_FILE;
        Open { name, access: Access::ALL, disposition: CreateDisposition::OPEN_IF, options }
    }

    /// Opens an existing directory for listing.
    pub fn directory(name: &'a str) -> Open<'a> {
        let options = CreateOptions::DIRECTORY_FILE;
        Open { name, access: Access::READ, disposition: CreateDisposition::OPEN, options }
    }

    /// Opens a file or directory that is deleted on close.
    pub fn deleted(name: &'a str) -> Open<'a> {
        let options = CreateOptions::DELETE_ON_CLOSE;
        Open { name, access: Access::DELETE, disposition: CreateDisposition::OPEN, options }
    }

    /// Replaces the access mask.
    pub fn with_access(self, access: u32) -> Open<'a> {
        Open { access, ..self }
    }

    /// Replaces the disposition.
    pub fn with_disposition(self, disposition: CreateDisposition) -> Open<'a> {
        Open { disposition, ..self }
    }

    /// Builds the request; `name` is the path as [`utf16_bytes`].
    pub fn request<'n>(&self, name: &'n [u8]) -> CreateRequest<'n> {
        CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: self.access,
            share_access: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
            create_disposition: self.disposition,
            create_options: self.options,
            name,
            ..CreateRequest::default()
        }
    }
}

/// A connection with one session and one tree connect.
pub struct Client {
    pub(crate) connection: Connection,
}

impl Client {
    /// Connects, logs on and connects to `share`. `host` is the server's name in the share's path and, for Kerberos, in
    /// its principal.
    pub async fn connect(address: impl ToSocketAddrs, host: &str, share: &str, options: &Options) -> Result<Client> {
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host(address).await?.collect();
        let mut client = Client::log_on(&addresses, host, options).await?;
        client.tree_connect(host, share).await?;
        Ok(client)
    }

    /// Connects and logs on, without a share.
    pub async fn log_on(addresses: &[SocketAddr], host: &str, options: &Options) -> Result<Client> {
        let mut client = Client::negotiate(addresses, options).await?;
        client.log_on_again(host, options).await?;
        Ok(client)
    }

    /// Connects and negotiates, without a logon.
    pub async fn negotiate(addresses: &[SocketAddr], options: &Options) -> Result<Client> {
        Client::negotiate_as(addresses, options, options.client_guid.map_or_else(random, Ok)?).await
    }

    async fn negotiate_as(addresses: &[SocketAddr], options: &Options, client_guid: [u8; 16]) -> Result<Client> {
        let transport = Transport::connect(addresses, options.source, options.timeout).await?;
        let mut connection = Connection::new(transport, options.credits);
        connection.agreed = negotiate::negotiate(&mut connection, options, client_guid).await?;
        Ok(Client { connection })
    }

    /// Logs on in a new session that replaces the previous one, which stays on the server until the connection ends.
    pub async fn log_on_again(&mut self, host: &str, options: &Options) -> Result<()> {
        self.connection.forget_session();
        logon::log_on(&mut self.connection, host, options).await
    }

    /// Opens another connection of this client's session ([MS-SMB2] 3.2.4.2.3, session binding), which uses the same
    /// tree connect and opens. `options` are those of this client, with [`Options::multichannel`].
    pub async fn bind(&self, addresses: &[SocketAddr], host: &str, options: &Options) -> Result<Client> {
        let client_guid = self.connection.agreed.client_guid;
        let mut client = Client::negotiate_as(addresses, options, client_guid).await?;
        logon::bind(&mut client.connection, &self.connection, host, options).await?;
        client.connection.tree_id = self.connection.tree_id;
        Ok(client)
    }

    /// Returns the socket and the state needed to send hand-made frames, for tests of messages that this client never
    /// sends.
    pub fn into_raw(self) -> Raw {
        self.connection.into_raw()
    }

    /// Connects to a share, which replaces the previous tree connect.
    pub async fn tree_connect(&mut self, host: &str, share: &str) -> Result<()> {
        let path = utf16_bytes(&format!(r"\\{host}\{share}"));
        let request = TreeConnectRequest { flags: TreeConnectFlags(0), path: &path, tree_connect_contexts: Vec::new() };
        let response = self.call(Command::TREE_CONNECT, 1, |out| request.encode(out)).await?;
        let answer = TreeConnectResponse::decode(response.message)?;
        let seal = answer.share_flags.contains(ShareFlags::ENCRYPT_DATA);
        let tree_id = response.header.tree_id().ok_or(Error::Protocol("TREE_CONNECT answered without a TreeId"))?;
        self.connection.tree_id = tree_id;
        if let Some(protection) = &mut self.connection.protection {
            if seal && !protection.seals {
                protection.seal_everything()?;
            }
            protection.settle();
        }
        Ok(())
    }

    /// The outcome of the negotiation.
    pub fn agreed(&self) -> &Agreed {
        &self.connection.agreed
    }

    /// The negotiated dialect.
    pub fn dialect(&self) -> Dialect {
        self.connection.agreed.dialect
    }

    /// Returns whether messages are signed and whether they are sealed.
    pub fn protected(&self) -> (bool, bool) {
        self.connection.protection.as_ref().map_or((false, false), |it| (it.signs, it.seals))
    }

    /// Frees the buffers that only a busy client needs. To be called before an idle period.
    pub fn rest(&mut self) {
        self.connection.rest();
    }

    /// Queues a request that costs `charge` credits. Its response carries `tag`.
    pub fn queue(
        &mut self,
        command: Command,
        charge: u16,
        tag: u64,
        encode: impl FnOnce(&mut Writer<'_>),
    ) -> Result<()> {
        self.connection.queue_tagged(command, charge, tag, encode)
    }

    /// Sends the queued requests.
    pub async fn flush(&mut self) -> Result<()> {
        self.connection.flush().await
    }

    /// Sends a WRITE at once. Its data is copied only where it must be signed or sealed.
    pub async fn send_write(&mut self, tag: u64, request: &WriteRequest<'_>) -> Result<()> {
        self.connection.send_write(charge(request.buffer.len()), tag, request).await
    }

    /// Returns the next response to any request in flight, including an error response.
    pub async fn next(&mut self) -> Result<Response<'_>> {
        self.connection.next().await
    }

    /// The number of requests that wait for a response.
    pub fn in_flight(&self) -> usize {
        self.connection.in_flight()
    }

    /// Returns whether a request of `charge` credits can be queued now.
    pub fn affords(&self, charge: u16) -> bool {
        self.connection.affords(charge)
    }

    /// Sends one request and waits for its response. A refusal is an error.
    pub async fn call(
        &mut self,
        command: Command,
        charge: u16,
        encode: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Response<'_>> {
        self.connection.queue(command, charge, encode)?;
        self.connection.flush().await?;
        let response = self.connection.next().await?;
        response.succeeded()?;
        Ok(response)
    }

    /// Begins a chain of requests about one open.
    pub fn chain(&mut self) -> Chain<'_> {
        Chain::begin(self)
    }

    /// Opens or creates a file.
    pub async fn create(&mut self, request: &CreateRequest<'_>) -> Result<CreateResponse<'_>> {
        let response = self.call(Command::CREATE, 1, |out| request.encode(out)).await?;
        Ok(CreateResponse::decode(response.message)?)
    }

    /// Resends a CREATE whose outcome is unknown. The server recognizes it by its CreateGuid.
    pub async fn create_again(&mut self, request: &CreateRequest<'_>) -> Result<CreateResponse<'_>> {
        self.connection.queue_again(Command::CREATE, |out| request.encode(out))?;
        self.connection.flush().await?;
        let response = self.connection.next().await?;
        response.succeeded()?;
        Ok(CreateResponse::decode(response.message)?)
    }

    /// Opens or creates a file and returns its FileId.
    pub async fn open(&mut self, open: &Open<'_>) -> Result<FileId> {
        let name = utf16_bytes(open.name);
        Ok(self.create(&open.request(&name)).await?.file_id)
    }

    /// Closes an open.
    pub async fn close(&mut self, file_id: FileId) -> Result<()> {
        let request = CloseRequest { flags: CloseFlags::NONE, file_id };
        self.call(Command::CLOSE, 1, |out| request.encode(out)).await.map(|_| ())
    }

    /// Negotiates that listings have the fields for Macs (the create context AAPL). Returns whether the server offers
    /// that.
    pub async fn list_as_mac(&mut self) -> Result<bool> {
        let (parts, client) = (Parts::SERVER_CAPABILITIES, ServerCapabilities::READ_DIR_ATTR);
        let mut request = Open::directory("").request(&[]);
        request.create_contexts = vec![ServerQuery { parts, client }.to_context()];
        let created = self.create(&request).await?;
        let answer = created.create_contexts.iter().find(|context| *context.name == *aapl::NAME);
        let answer = answer.and_then(|context| ServerAnswer::decode(&context.data).ok());
        let offered = answer.and_then(|answer| answer.server).is_some_and(|given| given.contains(client));
        let root = created.file_id;
        self.close(root).await?;
        Ok(offered)
    }

    /// Opens and closes a file or directory in one round trip.
    pub async fn touch(&mut self, open: &Open<'_>) -> Result<()> {
        let name = utf16_bytes(open.name);
        self.chain().create(&open.request(&name))?.close()?.run().await
    }

    /// Creates a directory or opens an existing one.
    pub async fn make_directory(&mut self, name: &str) -> Result<()> {
        self.touch(&Open::directory(name).with_disposition(CreateDisposition::OPEN_IF)).await
    }

    /// Deletes a file or an empty directory.
    pub async fn delete(&mut self, name: &str) -> Result<()> {
        self.touch(&Open::deleted(name)).await
    }

    /// Renames a file or directory. A file that has the new name already is replaced if `replace` is set.
    pub async fn rename(&mut self, from: &str, to: &str, replace: bool) -> Result<()> {
        let (name, file_name) = (utf16_bytes(from), utf16_bytes(to));
        let open = Open { options: CreateOptions::NONE, ..Open::deleted(from) };
        let mut buffer = Vec::new();
        FileRenameInformation { replace_if_exists: replace, root_directory: 0, file_name: &file_name }
            .encode(&mut Writer::new(&mut buffer));
        let file_info_class = FileInformationClass::RENAME.0;
        let set = SetInfoRequest { info_type: InfoType::FILE, file_info_class, buffer: &buffer, ..Default::default() };
        self.chain().create(&open.request(&name))?.set_info(&set)?.close()?.run().await
    }

    /// Reads up to `length` bytes. Returns an empty slice at the end of the file.
    pub async fn read(&mut self, file_id: FileId, offset: u64, length: u32) -> Result<&[u8]> {
        let request = ReadRequest { file_id, offset, length, ..ReadRequest::default() };
        self.connection.queue(Command::READ, charge(length as usize), |out| request.encode(out))?;
        self.connection.flush().await?;
        let response = self.connection.next().await?;
        if response.header.status == Status::END_OF_FILE {
            return Ok(&[]);
        }
        response.succeeded()?;
        let data = ReadResponse::decode(response.message)?.buffer;
        if data.len() > length as usize {
            Err(Error::Protocol("it returned more data than the READ requested"))
        } else {
            Ok(data)
        }
    }

    /// Writes all of `data`.
    pub async fn write(&mut self, file_id: FileId, offset: u64, data: &[u8]) -> Result<()> {
        self.send_write(0, &WriteRequest::new(file_id, offset, data)).await?;
        let response = self.next().await?;
        response.succeeded()?;
        let whole = WriteResponse::decode(response.message)?.count as usize == data.len();
        if whole { Ok(()) } else { Err(Error::Protocol("it wrote only part of a WRITE")) }
    }

    /// Flushes the written data of a file to disk.
    pub async fn flush_file(&mut self, file_id: FileId) -> Result<()> {
        let request = FlushRequest { file_id, ..FlushRequest::default() };
        self.call(Command::FLUSH, 1, |out| request.encode(out)).await.map(|_| ())
    }

    /// Locks or unlocks ranges of a file.
    pub async fn lock(&mut self, file_id: FileId, locks: Vec<LockElement>) -> Result<()> {
        let request = LockRequest { lock_sequence: 0, file_id, locks };
        self.call(Command::LOCK, 1, |out| request.encode(out)).await.map(|_| ())
    }

    /// Queries information. The result is cut off at the requested buffer length.
    pub async fn query_info(&mut self, request: &QueryInfoRequest<'_>) -> Result<&[u8]> {
        let charge = charge(request.output_buffer_length as usize);
        let response = self.call(Command::QUERY_INFO, charge, |out| request.encode(out)).await?;
        Ok(QueryInfoResponse::decode(response.message)?.buffer)
    }

    /// Sets information.
    pub async fn set_info(&mut self, request: &SetInfoRequest<'_>) -> Result<()> {
        let charge = charge(request.buffer.len());
        self.call(Command::SET_INFO, charge, |out| request.encode(out)).await.map(|_| ())
    }

    /// Returns one buffer of at most `length` bytes of a directory's listing in `class`, or `None` at the end.
    pub async fn query_directory(
        &mut self,
        directory: FileId,
        class: u8,
        pattern: &str,
        length: u32,
    ) -> Result<Option<&[u8]>> {
        let pattern = utf16_bytes(pattern);
        let request = QueryDirectoryRequest {
            file_information_class: class,
            flags: QueryDirectoryFlags(0),
            file_index: 0,
            file_id: directory,
            file_name: &pattern,
            output_buffer_length: length.min(self.agreed().max_transact_size),
        };
        let charge = charge(request.output_buffer_length as usize);
        self.connection.queue(Command::QUERY_DIRECTORY, charge, |out| request.encode(out))?;
        self.connection.flush().await?;
        let response = self.connection.next().await?;
        if response.header.status == Status::NO_MORE_FILES {
            return Ok(None);
        }
        response.succeeded()?;
        Ok(Some(QueryDirectoryResponse::decode(response.message)?.buffer))
    }

    /// Sends an ECHO.
    pub async fn echo(&mut self) -> Result<()> {
        self.call(Command::ECHO, 1, |out| EchoRequest.encode(out)).await.map(|_| ())
    }

    /// Logs off.
    pub async fn log_off(mut self) -> Result<()> {
        self.call(Command::LOGOFF, 1, |out| LogoffRequest.encode(out)).await.map(|_| ())
    }
}

/// `CreditCharge` for `length` bytes of payload ([MS-SMB2] 3.1.5.2).
pub(crate) fn charge(length: usize) -> u16 {
    u16::try_from(length.saturating_sub(1) / CREDIT as usize + 1).unwrap_or(u16::MAX)
}
