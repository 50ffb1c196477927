//! A client with the POSIX extensions.

use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::{Guid, SecurityDescriptor};
use proto::fscc::{
    DirectoryClass, DirectoryEntry, FileInformationClass as Class, FilePosixInformation, FsInformationClass,
    NfsReparseData, PosixAttributes, ReparseDataBuffer, ReparseTag, SymbolicLinkReparseData,
};
use proto::smb2::create::{
    CreateAction, CreateDisposition as Disposition, CreateOptions as Options, CreateRequest, CreateResponse,
    ImpersonationLevel, ShareAccess,
};
use proto::smb2::create_context::{CreateContext, LeaseFlags, LeaseV2, PosixRequest, PosixResponse, name};
use proto::smb2::error::SymlinkFlags;
use proto::smb2::header::Command;
use proto::smb2::ioctl::{
    CopyChunk, CopyChunkCopy, FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse, RequestResumeKeyResponse,
};
use proto::smb2::negotiate::{
    Capabilities, Dialect, NegotiateContextType, NegotiateResponse, PosixExtensions, SecurityMode,
};
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::smb2::query_info::{InfoType, QueryInfoRequest, QueryInfoResponse};
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{Channel, FileId, LeaseState, OplockLevel};
use proto::status::Status;
use server::policy::Policy;
use server::testing::{PASSWORD, TestClient, TestServer, status};
use server::vfs::memory::Options as VolumeOptions;

pub(crate) const ALL: u32 = 0x001f_01ff;
pub(crate) const READ: u32 = 0x81;

/// Returns a server that offers the extensions.
pub(crate) fn server() -> TestServer {
    with(|_| {})
}

pub(crate) fn with(adjust: impl FnOnce(&mut Policy)) -> TestServer {
    let options = VolumeOptions { mode: 0o777, lists: true, ..VolumeOptions::default() };
    TestServer::builder()
        .volume_options(options)
        .configure(|policy| {
            policy.smb3_unix_extensions = true;
            adjust(policy);
        })
        .start()
}

/// A client of the share. Its opens have POSIX semantics unless a method says otherwise.
pub(crate) struct Client {
    pub(crate) client: TestClient,
    /// The server has agreed to the extensions.
    pub(crate) negotiated: bool,
    /// The share access of its opens.
    pub(crate) share: u32,
}

/// A file in a listing.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) posix: PosixAttributes,
}

type Opened = (FileId, CreateAction, Option<PosixResponse>);

impl Client {
    /// Returns a client that does not offer the extensions.
    pub(crate) fn new(server: &TestServer, user: &str) -> Client {
        Client::start(server, user, false)
    }

    /// Returns a client that offers the extensions.
    pub(crate) fn posix(server: &TestServer, user: &str) -> Client {
        Client::start(server, user, true)
    }

    fn start(server: &TestServer, user: &str, offers: bool) -> Client {
        let mut client = TestClient::new(server);
        client.dialect = Dialect::SMB_3_1_1;
        client.capabilities = Capabilities::DIRECTORY_LEASING;
        if offers {
            client.contexts.push(PosixExtensions { versions: vec![PosixExtensions::VERSION] }.to_context());
        }
        let response = client.negotiate(SecurityMode::SIGNING_ENABLED);
        let contexts = NegotiateResponse::decode(&response).expect("a well-formed message").negotiate_context_list;
        let answered = contexts.iter().find(|it| it.context_type == NegotiateContextType::POSIX_EXTENSIONS_AVAILABLE);
        if let Some(context) = answered {
            assert_eq!(*context.data, PosixExtensions::VERSION);
        }
        let negotiated = answered.is_some();
        assert_eq!(client.log_on(user, PASSWORD, 0), Status::SUCCESS);
        assert_eq!(client.tree_connect("share"), Status::SUCCESS);
        Client { client, negotiated, share: 7 }
    }

    fn request_open(
        &mut self,
        path: &str,
        access: u32,
        disposition: Disposition,
        options: Options,
        contexts: Vec<CreateContext<'_>>,
    ) -> Vec<u8> {
        let path = utf16_bytes(path);
        let create = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: access,
            share_access: ShareAccess(self.share),
            create_disposition: disposition,
            create_options: options,
            name: &path,
            create_contexts: contexts,
            ..CreateRequest::default()
        };
        self.client.request(Command::CREATE, |out| create.encode(out))
    }

    /// Opens or creates a file; with the create context if `mode` is given.
    pub(crate) fn create(
        &mut self,
        path: &str,
        access: u32,
        disposition: Disposition,
        options: Options,
        mode: Option<u32>,
    ) -> Result<Opened, Status> {
        let contexts = mode.iter().map(|mode| PosixRequest { mode: *mode }.to_context()).collect();
        let response = self.request_open(path, access, disposition, options, contexts);
        if status(&response) != Status::SUCCESS {
            return Err(status(&response));
        }
        let created = CreateResponse::decode(&response).expect("a well-formed message");
        let posix = CreateContext::find(&created.create_contexts, name::POSIX);
        let posix = posix.map(|context| PosixResponse::decode(&context.data).expect("a well-formed context"));
        Ok((created.file_id, created.create_action, posix))
    }

    /// Creates a file with a security descriptor.
    #[track_caller]
    pub(crate) fn create_described(&mut self, path: &str, descriptor: &SecurityDescriptor, mode: u32) {
        let contexts =
            vec![PosixRequest { mode }.to_context(), CreateContext::new(name::SD_BUFFER, descriptor.to_bytes())];
        let response = self.request_open(path, ALL, Disposition::CREATE, Options(0), contexts);
        assert_eq!(status(&response), Status::SUCCESS);
    }

    #[track_caller]
    pub(crate) fn open(&mut self, path: &str, access: u32) -> FileId {
        let opened = self.create(path, access, Disposition::OPEN, Options(0), Some(0xffff));
        opened.unwrap_or_else(|status| panic!("{path}: {status:?}")).0
    }

    /// Opens a reparse point itself.
    #[track_caller]
    pub(crate) fn open_itself(&mut self, path: &str, access: u32) -> FileId {
        let opened = self.create(path, access, Disposition::OPEN, Options::OPEN_REPARSE_POINT, Some(0xffff));
        opened.unwrap_or_else(|status| panic!("{path}: {status:?}")).0
    }

    /// Opens a directory with a lease by which the client caches its listing.
    #[track_caller]
    pub(crate) fn open_cached(&mut self, path: &str) -> FileId {
        let path = utf16_bytes(path);
        let lease = LeaseV2 {
            lease_key: [1; 16],
            lease_state: LeaseState(3),
            flags: LeaseFlags::NONE,
            parent_lease_key: [0; 16],
            epoch: 0,
        };
        let create = CreateRequest {
            requested_oplock_level: OplockLevel::LEASE,
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: READ,
            share_access: ShareAccess(7),
            create_disposition: Disposition::OPEN,
            create_options: Options::DIRECTORY_FILE,
            name: &path,
            create_contexts: vec![lease.to_context(), PosixRequest { mode: 0xffff }.to_context()],
            ..CreateRequest::default()
        };
        let response = self.client.request(Command::CREATE, |out| create.encode(out));
        assert_eq!(status(&response), Status::SUCCESS);
        let created = CreateResponse::decode(&response).expect("a well-formed message");
        assert_eq!(created.oplock_level, OplockLevel::LEASE);
        created.file_id
    }

    pub(crate) fn open_directory(&mut self, path: &str) -> Result<FileId, Status> {
        let options = Options(Options::DIRECTORY_FILE.0 | Options::OPEN_REPARSE_POINT.0);
        Ok(self.create(path, READ, Disposition::OPEN, options, Some(0xffff))?.0)
    }

    /// Opens a file without the context.
    pub(crate) fn open_plain(&mut self, path: &str, access: u32) -> Result<FileId, Status> {
        Ok(self.create(path, access, Disposition::OPEN, Options(0), None)?.0)
    }

    /// Returns the status of opening an existing file for reading.
    pub(crate) fn look(&mut self, path: &str) -> Status {
        match self.create(path, READ, Disposition::OPEN, Options(0), Some(0xffff)) {
            Ok((file, ..)) => {
                self.client.close(file);
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }

    /// Returns the target, whether it is relative, and the length of the rest of the path, if an open is stopped by a
    /// symbolic link.
    pub(crate) fn stopped(
        &mut self,
        path: &str,
        access: u32,
        disposition: Disposition,
    ) -> Option<(String, bool, usize)> {
        let contexts = vec![PosixRequest { mode: 0o600 }.to_context()];
        let response = self.request_open(path, access, disposition, Options(0), contexts);
        if status(&response) != Status::STOPPED_ON_SYMLINK {
            return None;
        }
        // 2.2.2, 2.2.2.1 and 2.2.2.2.1: the error, its context, and the data of the link.
        let data = &response[64 + 8 + 8..];
        let behind = u16::from_le_bytes([data[14], data[15]]);
        let link = SymbolicLinkReparseData::decode(&data[16..]).expect("the data of a link");
        let target = proto::bytes::utf16_units(link.substitute_name).expect("even");
        Some((String::from_utf16(&target).expect("text"), link.flags == SymlinkFlags::RELATIVE, behind.into()))
    }

    /// Creates a file with content.
    #[track_caller]
    pub(crate) fn put(&mut self, path: &str, content: &[u8]) {
        let opened = self.create(path, ALL, Disposition::CREATE, Options(0), Some(0o644));
        let (file, ..) = opened.unwrap_or_else(|status| panic!("{path}: {status:?}"));
        assert_eq!(self.write(file, content), Status::SUCCESS, "{path}");
        self.client.close(file);
    }

    /// Creates a file with content, without the context.
    #[track_caller]
    pub(crate) fn put_plain(&mut self, path: &str, content: &[u8]) {
        let (file, ..) = self.create(path, ALL, Disposition::CREATE, Options(0), None).expect("a new file");
        assert_eq!(self.write(file, content), Status::SUCCESS, "{path}");
        self.client.close(file);
    }

    pub(crate) fn write(&mut self, file_id: FileId, buffer: &[u8]) -> Status {
        let length = buffer.len() as u32;
        let write = WriteRequest { length, offset: 0, file_id, channel: Channel(0), buffer, ..WriteRequest::default() };
        status(&self.client.request(Command::WRITE, |out| write.encode(out)))
    }

    pub(crate) fn set_size(&mut self, file_id: FileId, size: u64) -> Status {
        self.set(file_id, Class::END_OF_FILE, &size.to_le_bytes())
    }

    pub(crate) fn read(&mut self, file_id: FileId) -> Result<Vec<u8>, Status> {
        let read = ReadRequest { length: 65_536, offset: 0, file_id, ..ReadRequest::default() };
        let response = self.client.request(Command::READ, |out| read.encode(out));
        match status(&response) {
            Status::END_OF_FILE => Ok(Vec::new()),
            Status::SUCCESS => Ok(ReadResponse::decode(&response).expect("a well-formed message").buffer.to_vec()),
            refused => Err(refused),
        }
    }

    /// Returns the content of an existing file.
    pub(crate) fn get(&mut self, path: &str) -> Result<Vec<u8>, Status> {
        let (file, ..) = self.create(path, READ, Disposition::OPEN, Options(0), Some(0xffff))?;
        let content = self.read(file);
        self.client.close(file);
        content
    }

    fn query_of(&mut self, file_id: FileId, info_type: InfoType, class: u8) -> (Status, Vec<u8>) {
        let query = QueryInfoRequest {
            info_type,
            file_info_class: class,
            output_buffer_length: 65_536,
            file_id,
            ..QueryInfoRequest::default()
        };
        let response = self.client.request(Command::QUERY_INFO, |out| query.encode(out));
        let buffer = QueryInfoResponse::decode(&response).map(|it| it.buffer.to_vec()).unwrap_or_default();
        (status(&response), buffer)
    }

    pub(crate) fn query(&mut self, file_id: FileId, class: Class) -> (Status, Vec<u8>) {
        self.query_of(file_id, InfoType::FILE, class.0)
    }

    pub(crate) fn query_filesystem(&mut self, file_id: FileId, class: FsInformationClass) -> (Status, Vec<u8>) {
        self.query_of(file_id, InfoType::FILESYSTEM, class.0)
    }

    #[track_caller]
    pub(crate) fn information(&mut self, file_id: FileId) -> FilePosixInformation {
        let (status, buffer) = self.query(file_id, Class::POSIX);
        assert_eq!(status, Status::SUCCESS);
        FilePosixInformation::decode(&mut proto::bytes::Reader::new(&buffer)).expect("a well-formed structure")
    }

    fn set(&mut self, file_id: FileId, class: Class, buffer: &[u8]) -> Status {
        let set = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class.0,
            additional_information: 0,
            file_id,
            buffer,
        };
        status(&self.client.request(Command::SET_INFO, |out| set.encode(out)))
    }

    /// Renames an open file.
    pub(crate) fn rename_by(&mut self, file_id: FileId, to: &str, replaces: bool) -> Status {
        let to = utf16_bytes(to);
        let mut buffer = vec![0; 20];
        buffer[0] = u8::from(replaces);
        buffer[16..].copy_from_slice(&(to.len() as u32).to_le_bytes());
        buffer.extend(to);
        self.set(file_id, Class::RENAME, &buffer)
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str, replaces: bool) -> Status {
        let file = self.open_itself(from, 0x0001_0080);
        let done = self.rename_by(file, to, replaces);
        self.client.close(file);
        done
    }

    /// Renames a file, which is opened without the context.
    pub(crate) fn rename_plain(&mut self, from: &str, to: &str, replaces: bool) -> Status {
        let file = self.open_plain(from, 0x0001_0080).unwrap_or_else(|status| panic!("{from}: {status:?}"));
        let done = self.rename_by(file, to, replaces);
        self.client.close(file);
        done
    }

    /// Adds a hard link to an open file.
    pub(crate) fn link_by(&mut self, file_id: FileId, to: &str) -> Status {
        let to = utf16_bytes(to);
        let mut buffer = vec![0; 20];
        buffer[16..].copy_from_slice(&(to.len() as u32).to_le_bytes());
        buffer.extend(to);
        self.set(file_id, Class::LINK, &buffer)
    }

    /// Requests the deletion of an open file.
    pub(crate) fn delete_by(&mut self, file_id: FileId) -> Status {
        self.set(file_id, Class::DISPOSITION, &[1])
    }

    /// Deletes a file as Linux does, by an open that deletes it.
    pub(crate) fn unlink(&mut self, path: &str) -> Status {
        let options = Options(Options::DELETE_ON_CLOSE.0 | Options::OPEN_REPARSE_POINT.0);
        match self.create(path, 0x0001_0000, Disposition::OPEN, options, Some(0xffff)) {
            Ok((file, ..)) => {
                self.client.close(file);
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }

    /// Returns the whole listing of an open directory in this class.
    pub(crate) fn list_class(&mut self, file_id: FileId, class: Class) -> Result<Vec<u8>, Status> {
        let pattern = utf16_bytes("*");
        let query = QueryDirectoryRequest {
            file_information_class: class.0,
            flags: QueryDirectoryFlags(0),
            file_index: 0,
            file_id,
            file_name: &pattern,
            output_buffer_length: 65_536,
        };
        let response = self.client.request(Command::QUERY_DIRECTORY, |out| query.encode(out));
        match status(&response) {
            Status::SUCCESS => {
                Ok(QueryDirectoryResponse::decode(&response).expect("a well-formed message").buffer.to_vec())
            }
            refused => Err(refused),
        }
    }

    /// Returns the entries of a directory, sorted by name.
    #[track_caller]
    pub(crate) fn list(&mut self, path: &str) -> Vec<Entry> {
        let directory = self.open_directory(path).expect("a directory");
        let listed = self.list_class(directory, Class::POSIX).expect("the class of the extensions");
        self.client.close(directory);
        let class = DirectoryClass::new(Class::POSIX).expect("it is known");
        let entry = |entry: DirectoryEntry<'_>| {
            let name = proto::bytes::utf16_units(entry.file_name).expect("even");
            let posix = entry.posix.expect("a part of the class");
            Entry { name: String::from_utf16(&name).expect("text"), posix }
        };
        let entries = DirectoryEntry::list(class, &listed).map(|found| entry(found.expect("a well-formed entry")));
        let mut entries: Vec<Entry> = entries.collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries
    }

    /// Returns the names in a directory as a client without the extensions lists them.
    #[track_caller]
    pub(crate) fn plain_names(&mut self, path: &str) -> Vec<String> {
        let directory = self.open_plain(path, READ).expect("a directory");
        let listed = self.list_class(directory, Class::NAMES).expect("the class of names");
        self.client.close(directory);
        let class = DirectoryClass::new(Class::NAMES).expect("it is known");
        let text = |entry: DirectoryEntry<'_>| {
            let name = proto::bytes::utf16_units(entry.file_name).expect("even");
            String::from_utf16(&name).expect("text")
        };
        DirectoryEntry::list(class, &listed).map(|found| text(found.expect("a well-formed entry"))).collect()
    }

    pub(crate) fn names(&mut self, path: &str) -> Vec<String> {
        self.list(path).into_iter().map(|entry| entry.name).collect()
    }

    fn control(&mut self, file_id: FileId, ctl_code: FsctlCode, input: &[u8]) -> (Status, Vec<u8>) {
        let request = IoctlRequest {
            ctl_code,
            file_id,
            input,
            max_output_response: 65_536,
            flags: IoctlFlags::IS_FSCTL,
            ..IoctlRequest::default()
        };
        let response = self.client.request(Command::IOCTL, |out| request.encode(out));
        let output = IoctlResponse::decode(&response).map(|answer| answer.output.to_vec()).unwrap_or_default();
        (status(&response), output)
    }

    /// Copies the first `length` bytes of one open file to another.
    pub(crate) fn copy(&mut self, from: FileId, to: FileId, length: u32) -> Status {
        let (status, key) = self.control(from, FsctlCode::SRV_REQUEST_RESUME_KEY, &[]);
        assert_eq!(status, Status::SUCCESS);
        let source_key = RequestResumeKeyResponse::decode(&key).expect("a well-formed message").resume_key;
        let chunks = vec![CopyChunk { source_offset: 0, target_offset: 0, length }];
        let mut input = Vec::new();
        CopyChunkCopy { source_key, chunks }.encode(&mut Writer::new(&mut input));
        self.control(to, FsctlCode::SRV_COPYCHUNK, &input).0
    }

    /// Returns the data of a reparse point of an NFS server.
    #[track_caller]
    pub(crate) fn reparse_data(&mut self, file_id: FileId) -> Vec<u8> {
        let (status, output) = self.control(file_id, FsctlCode::GET_REPARSE_POINT, &[]);
        assert_eq!(status, Status::SUCCESS);
        let buffer = ReparseDataBuffer::decode(&output).expect("a well-formed buffer");
        assert_eq!(buffer.reparse_tag(), ReparseTag::NFS);
        buffer.data().to_vec()
    }

    pub(crate) fn set_reparse(&mut self, file_id: FileId, data: NfsReparseData<'_>) -> Status {
        self.set_reparse_buffer(file_id, ReparseTag::NFS, &data.to_bytes())
    }

    /// Stores a symbolic link as Windows does.
    pub(crate) fn set_windows_link(&mut self, file_id: FileId, target: &str, flags: SymlinkFlags) -> Status {
        let target = utf16_bytes(target);
        let link = SymbolicLinkReparseData { substitute_name: &target, print_name: &target, flags };
        self.set_reparse_buffer(file_id, ReparseTag::SYMLINK, &link.to_bytes().expect("short"))
    }

    fn set_reparse_buffer(&mut self, file_id: FileId, tag: ReparseTag, data: &[u8]) -> Status {
        let buffer = ReparseDataBuffer::new(tag, Guid::NIL, data).expect("short");
        let mut input = Vec::new();
        buffer.encode(&mut Writer::new(&mut input));
        self.control(file_id, FsctlCode::SET_REPARSE_POINT, &input).0
    }
}
