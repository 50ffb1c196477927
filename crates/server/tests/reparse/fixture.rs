//! A server with an in-memory share, and a client that creates and opens reparse points.

use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::Guid;
use proto::fscc::{FileInformationClass, ReparseDataBuffer, ReparseTag, SymbolicLinkReparseData};
use proto::smb2::FileId;
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::error::SymlinkFlags;
use proto::smb2::header::Command;
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::write::WriteRequest;
use proto::status::Status;
use server::answer::block_on;
use server::policy::Share;
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::{Kind, Lookup, LookupOptions, NewFile, RelPath, SERVER, SymlinkPolicy};

pub(crate) const ALL: u32 = 0x001f_01ff;

pub(crate) struct Fixture {
    pub(crate) server: TestServer,
    pub(crate) client: TestClient,
}

pub(crate) fn fixture(configure: impl Fn(&mut Share)) -> Fixture {
    let server = TestServer::builder().share(configure).start();
    Fixture { client: TestClient::logged_on(&server, "alice"), server }
}

impl Fixture {
    pub(crate) fn create(
        &mut self,
        name: &str,
        disposition: CreateDisposition,
        options: u32,
    ) -> Result<CreateResponse<'static>, Vec<u8>> {
        let access = if options & CreateOptions::DIRECTORY_FILE.0 == 0 { ALL } else { 0x0010_0181 };
        open(&mut self.client, name, access, ShareAccess(7), disposition, options)
    }

    #[track_caller]
    pub(crate) fn make(&mut self, name: &str) -> FileId {
        self.create(name, CreateDisposition::CREATE, 0).expect("the name is not in use").file_id
    }

    /// Opens the link itself, with rights that do not include reading its data.
    pub(crate) fn open_link(&mut self, name: &str) -> Result<CreateResponse<'static>, Status> {
        self.open_itself(name, 0x0010_0180, 0)
    }

    /// Opens the link itself, with these rights and options.
    pub(crate) fn open_itself(
        &mut self,
        name: &str,
        access: u32,
        options: u32,
    ) -> Result<CreateResponse<'static>, Status> {
        let options = options | CreateOptions::OPEN_REPARSE_POINT.0;
        open(&mut self.client, name, access, ShareAccess(7), CreateDisposition::OPEN, options)
            .map_err(|refused| status(&refused))
    }

    #[track_caller]
    pub(crate) fn directory(&mut self, name: &str) -> FileId {
        self.create(name, CreateDisposition::CREATE, CreateOptions::DIRECTORY_FILE.0)
            .expect("the name is not in use")
            .file_id
    }

    /// Creates a link as a client would, and closes it.
    #[track_caller]
    pub(crate) fn make_link(&mut self, name: &str, target: &str) {
        let made = self.make(name);
        self.set(made, &link(target, SymlinkFlags::RELATIVE), Status::SUCCESS);
        self.client.close(made);
    }

    /// Creates a link as a local program would.
    pub(crate) fn link_locally(&self, name: &str, target: &str) {
        let made = self.server.volume.create(&testing::root(), &path(name), NewFile::symlink(target.as_bytes(), None));
        block_on(made).expect("created by a local program");
    }

    #[track_caller]
    pub(crate) fn refused(&mut self, name: &str, disposition: CreateDisposition) -> Status {
        status(&self.create(name, disposition, 0).map(|_| ()).expect_err(name))
    }

    pub(crate) fn control(&mut self, code: FsctlCode, file_id: FileId, input: &[u8]) -> (Status, Vec<u8>) {
        let ioctl = IoctlRequest {
            ctl_code: code,
            file_id,
            input,
            max_output_response: 4096,
            flags: IoctlFlags::IS_FSCTL,
            ..IoctlRequest::default()
        };
        let response = self.client.request(Command::IOCTL, |out| ioctl.encode(out));
        let output = IoctlResponse::decode(&response).map(|response| response.output.to_vec()).unwrap_or_default();
        (status(&response), output)
    }

    #[track_caller]
    pub(crate) fn set(&mut self, file_id: FileId, buffer: &[u8], expected: Status) {
        assert_eq!(self.control(FsctlCode::SET_REPARSE_POINT, file_id, buffer).0, expected);
    }

    pub(crate) fn write(&mut self, file_id: FileId, text: &str) {
        let write =
            WriteRequest { file_id, length: text.len() as u32, buffer: text.as_bytes(), ..WriteRequest::default() };
        assert_eq!(status(&self.client.request(Command::WRITE, |out| write.encode(out))), Status::SUCCESS);
    }

    pub(crate) fn content(&mut self, name: &str) -> String {
        let file_id = self.create(name, CreateDisposition::OPEN, 0).expect("the open succeeds").file_id;
        let read = ReadRequest { length: 100, file_id, ..ReadRequest::default() };
        let response = self.client.request(Command::READ, |out| read.encode(out));
        String::from_utf8(ReadResponse::decode(&response).expect("data").buffer.to_vec()).expect("text")
    }

    /// Returns the type of `name` in the underlying file system, and the link target.
    pub(crate) fn on_disk(&self, name: &str) -> (Kind, Option<String>) {
        let root = testing::root();
        match block_on(self.server.volume.lookup(&root, &path(name), LookupOptions::exact(SymlinkPolicy::default()))) {
            Ok(Lookup::Found { node, metadata, .. }) => {
                let target = block_on(node.read_link(&SERVER)).ok();
                (metadata.kind, target.map(|target| String::from_utf8(target).expect("text")))
            }
            _ => panic!("{name} is missing"),
        }
    }

    /// Returns attributes and reparse tag of the entry `name` in the root.
    pub(crate) fn entry(&mut self, name: &str) -> (u32, u32) {
        let root = self.create("", CreateDisposition::OPEN, CreateOptions::DIRECTORY_FILE.0).expect("the root").file_id;
        let pattern = utf16_bytes(name);
        let query = QueryDirectoryRequest {
            file_information_class: FileInformationClass::ID_BOTH_DIRECTORY.0,
            flags: QueryDirectoryFlags(0),
            file_id: root,
            file_name: &pattern,
            output_buffer_length: 4096,
            ..QueryDirectoryRequest::default()
        };
        let response = self.client.request(Command::QUERY_DIRECTORY, |out| query.encode(out));
        let entry = QueryDirectoryResponse::decode(&response).expect("an entry").buffer;
        let number = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().expect("four"));
        // [MS-FSCC] 2.4.21: FileAttributes, and EaSize, which contains the tag of a reparse point.
        (number(56), number(64))
    }
}

pub(crate) fn buffer(tag: ReparseTag, data: &[u8]) -> Vec<u8> {
    let buffer = ReparseDataBuffer::new(tag, Guid::NIL, data).expect("short");
    let mut bytes = Vec::new();
    buffer.encode(&mut Writer::new(&mut bytes));
    bytes
}

pub(crate) fn link(target: &str, flags: SymlinkFlags) -> Vec<u8> {
    let name = utf16_bytes(target);
    let data = SymbolicLinkReparseData { substitute_name: &name, print_name: &name, flags };
    buffer(ReparseTag::SYMLINK, &data.to_bytes().expect("short"))
}

/// Returns a path for the file system.
pub(crate) fn path(text: &str) -> RelPath {
    text.split('/').fold(RelPath::root(), |path, name| path.join(name.as_bytes()).expect("a valid name"))
}

/// Opens a file; returns the whole response if it is refused.
pub(crate) fn open(
    client: &mut TestClient,
    name: &str,
    access: u32,
    share_access: ShareAccess,
    create_disposition: CreateDisposition,
    options: u32,
) -> Result<CreateResponse<'static>, Vec<u8>> {
    let name = utf16_bytes(name);
    let create = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: access,
        share_access,
        create_disposition,
        create_options: CreateOptions(options),
        name: &name,
        ..CreateRequest::default()
    };
    let response = client.request(Command::CREATE, |out| create.encode(out));
    match status(&response) {
        Status::SUCCESS => {
            let decoded = CreateResponse::decode(&response).expect("a response");
            Ok(CreateResponse { create_contexts: Vec::new(), ..decoded })
        }
        _ => Err(response),
    }
}
