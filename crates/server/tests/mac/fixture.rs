//! A server with a share for Macs beside an ordinary one, and a client that negotiates the extensions.

use std::sync::Arc;

use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask as A, Acl, SecurityDescriptor, Sid};
use proto::fscc::{FileInformationClass as Class, FileStreamInformation};
use proto::mac::aapl::{Parts, ServerCapabilities, ServerQuery};
use proto::mac::afp_info::{AfpInfo, compressed};
use proto::smb2::create::{
    CreateDisposition as Disposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::create_context::CreateContext;
use proto::smb2::header::Command;
use proto::smb2::ioctl::{CopyChunkCopy, FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse, RequestResumeKeyResponse};
use proto::smb2::negotiate::SecurityMode;
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::smb2::query_info::{InfoType, QueryInfoRequest, QueryInfoResponse};
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{Channel, FileId};
use proto::status::Status;
use server::answer::block_on;
use server::policy::stream_layout::Layout;
use server::policy::{MacPolicy, MacStreams, MetadataPlace, Policy, ResourcePlace, Share};
use server::testing::{self, PASSWORD, TestClient, TestServer, status};
use server::vfs::memory::Options;
use server::vfs::{SERVER, SetXattr};

pub(crate) const NETATALK: &str = "user.org.netatalk.Metadata";
pub(crate) const ORDINARY: &str = "user.DosStream.AFP_AfpInfo:$DATA";
pub(crate) const ALL: u32 = 0x001f_01ff;

/// Returns a server with the share `share` without the extensions, and the share `mac` with them, of one directory.
pub(crate) fn server(metadata: MetadataPlace) -> TestServer {
    with(metadata, |_| {})
}

pub(crate) fn with(metadata: MetadataPlace, adjust: impl FnOnce(&mut Policy)) -> TestServer {
    let options = Options { mode: 0o777, lists: true, ..Options::default() };
    TestServer::builder()
        .volume_options(options)
        .configure(|policy| {
            policy.mac.offered = true;
            policy.mac.copyfile = true;
            let mut mac = Share::clone(&policy.shares["share"]);
            mac.name = "mac".to_owned();
            mac.mac = Some(Arc::new(MacPolicy::default()));
            let layout = mac.streams.take().unwrap_or_default();
            mac.streams =
                Some(Layout { mac: Some(MacStreams { metadata, resource: ResourcePlace::Stream }), ..layout });
            policy.shares.insert("mac".into(), mac.into());
            adjust(policy);
        })
        .start()
}

/// A client of one share.
pub(crate) struct Client {
    pub(crate) client: TestClient,
}

impl Client {
    pub(crate) fn new(server: &TestServer, user: &str, share: &str) -> Client {
        let mut client = TestClient::new(server);
        client.negotiate(SecurityMode::SIGNING_ENABLED);
        assert_eq!(client.log_on(user, PASSWORD, 0), Status::SUCCESS);
        assert_eq!(client.tree_connect(share), Status::SUCCESS);
        Client { client }
    }

    /// Returns a client that has negotiated the extensions.
    pub(crate) fn mac(server: &TestServer, user: &str, share: &str) -> Client {
        let mut client = Client::new(server, user, share);
        let parts = Parts::SERVER_CAPABILITIES;
        let query = ServerQuery { parts, client: ServerCapabilities::READ_DIR_ATTR };
        let opened = client.create_with("", 0x81, Disposition::OPEN, vec![query.to_context()]);
        let root = opened.expect("the root can be opened");
        client.client.close(root);
        client
    }

    pub(crate) fn create_with(
        &mut self,
        name: &str,
        access: u32,
        disposition: Disposition,
        create_contexts: Vec<CreateContext<'_>>,
    ) -> Result<FileId, Status> {
        let name = utf16_bytes(name);
        let create = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: access,
            share_access: ShareAccess(7),
            create_disposition: disposition,
            create_options: CreateOptions(0),
            name: &name,
            create_contexts,
            ..CreateRequest::default()
        };
        let response = self.client.request(Command::CREATE, |out| create.encode(out));
        match status(&response) {
            Status::SUCCESS => Ok(CreateResponse::decode(&response).expect("a well-formed message").file_id),
            refused => Err(refused),
        }
    }

    #[track_caller]
    pub(crate) fn open(&mut self, name: &str) -> FileId {
        let opened = self.create_with(name, ALL, Disposition::OPEN_IF, Vec::new());
        opened.unwrap_or_else(|status| panic!("{name}: {status:?}"))
    }

    /// Returns the status of opening an existing file or stream for reading.
    pub(crate) fn look(&mut self, name: &str) -> Status {
        match self.create_with(name, 1, Disposition::OPEN, Vec::new()) {
            Ok(file) => {
                self.client.close(file);
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }

    pub(crate) fn write(&mut self, file_id: FileId, offset: u64, buffer: &[u8]) -> Status {
        let length = buffer.len() as u32;
        let write = WriteRequest { length, offset, file_id, channel: Channel(0), buffer, ..WriteRequest::default() };
        status(&self.client.request(Command::WRITE, |out| write.encode(out)))
    }

    /// Opens a file or a stream, writes, and closes it.
    #[track_caller]
    pub(crate) fn put(&mut self, name: &str, content: &[u8]) {
        let file = self.open(name);
        assert_eq!(self.write(file, 0, content), Status::SUCCESS, "{name}");
        self.client.close(file);
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

    /// Returns the content of an existing file or stream.
    pub(crate) fn get(&mut self, name: &str) -> Result<Vec<u8>, Status> {
        let file = self.create_with(name, 1, Disposition::OPEN, Vec::new())?;
        let content = self.read(file);
        self.client.close(file);
        content
    }

    pub(crate) fn set_size(&mut self, file_id: FileId, size: u64) -> Status {
        self.set(file_id, Class::END_OF_FILE, &size.to_le_bytes())
    }

    pub(crate) fn set(&mut self, file_id: FileId, class: Class, buffer: &[u8]) -> Status {
        let set = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class.0,
            additional_information: 0,
            file_id,
            buffer,
        };
        status(&self.client.request(Command::SET_INFO, |out| set.encode(out)))
    }

    pub(crate) fn query(&mut self, file_id: FileId, class: Class) -> (Status, Vec<u8>) {
        let query = QueryInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class.0,
            output_buffer_length: 65_536,
            file_id,
            ..QueryInfoRequest::default()
        };
        let response = self.client.request(Command::QUERY_INFO, |out| query.encode(out));
        let buffer = QueryInfoResponse::decode(&response).map(|it| it.buffer.to_vec()).unwrap_or_default();
        (status(&response), buffer)
    }

    /// Returns the names of the alternate streams of a file.
    #[track_caller]
    pub(crate) fn streams(&mut self, name: &str) -> Vec<String> {
        let file = self.open(name);
        let (status, buffer) = self.query(file, Class::STREAM);
        assert_eq!(status, Status::SUCCESS);
        self.client.close(file);
        let text = |name: &[u8]| String::from_utf16(&proto::bytes::utf16_units(name).expect("even")).expect("text");
        let streams = FileStreamInformation::list(&buffer).map(|stream| stream.expect("a well-formed message"));
        let names = streams.map(|stream| text(stream.stream_name)).filter(|name| name != "::$DATA");
        names.map(|name| name.trim_start_matches(':').trim_end_matches(":$DATA").to_owned()).collect()
    }

    /// Returns the fields for Macs of an entry of the root: rights, length of the resource fork, and Finder info.
    #[track_caller]
    pub(crate) fn listed(&mut self, name: &str) -> (u32, u64, [u8; 12]) {
        let root = self.create_with("", 0x81, Disposition::OPEN, Vec::new()).expect("the root can be opened");
        let pattern = utf16_bytes(name);
        let query = QueryDirectoryRequest {
            file_information_class: Class::ID_BOTH_DIRECTORY.0,
            flags: QueryDirectoryFlags(0),
            file_index: 0,
            file_id: root,
            file_name: &pattern,
            output_buffer_length: 65_536,
        };
        let response = self.client.request(Command::QUERY_DIRECTORY, |out| query.encode(out));
        assert_eq!(status(&response), Status::SUCCESS);
        let entry = QueryDirectoryResponse::decode(&response).expect("a well-formed message").buffer.to_vec();
        self.client.close(root);
        let rights = u32::from_le_bytes(entry[64..68].try_into().expect("four bytes"));
        let fork = u64::from_le_bytes(entry[70..78].try_into().expect("eight bytes"));
        (rights, fork, entry[78..90].try_into().expect("twelve bytes"))
    }

    pub(crate) fn control(
        &mut self,
        file_id: FileId,
        ctl_code: FsctlCode,
        input: &[u8],
        space: u32,
    ) -> (Status, Vec<u8>) {
        let request = IoctlRequest {
            ctl_code,
            file_id,
            input,
            max_output_response: space,
            flags: IoctlFlags::IS_FSCTL,
            ..IoctlRequest::default()
        };
        let response = self.client.request(Command::IOCTL, |out| request.encode(out));
        let output = IoctlResponse::decode(&response).map(|answer| answer.output.to_vec()).unwrap_or_default();
        (status(&response), output)
    }

    /// Copies a whole file with its streams to an existing one.
    pub(crate) fn copy_file(&mut self, from: &str, to: &str) -> Status {
        let (from, to) = (self.open(from), self.open(to));
        let (done, key) = self.control(from, FsctlCode::SRV_REQUEST_RESUME_KEY, &[], 32);
        assert_eq!(done, Status::SUCCESS);
        let source_key = RequestResumeKeyResponse::decode(&key).expect("a well-formed message").resume_key;
        let mut input = Vec::new();
        CopyChunkCopy { source_key, chunks: Vec::new() }.encode(&mut Writer::new(&mut input));
        let (done, _) = self.control(to, FsctlCode::SRV_COPYCHUNK, &input, 12);
        self.client.close(from);
        self.client.close(to);
        done
    }
}

pub(crate) fn attribute(server: &TestServer, file: &str, name: &str) -> Option<Vec<u8>> {
    block_on(testing::volume::node(&server.volume, file).get_xattr(&SERVER, name)).expect("the server may read it")
}

pub(crate) fn set_attribute(server: &TestServer, file: &str, name: &str, value: &[u8]) {
    let node = testing::volume::node(&server.volume, file);
    block_on(node.set_xattr(&SERVER, name, Some(value.to_vec()), SetXattr::Any)).expect("the server may set it");
}

pub(crate) fn info(byte: u8) -> Vec<u8> {
    AfpInfo::of([byte; 32]).encode().to_vec()
}

/// The start of what a listing shows of that Finder info.
pub(crate) fn listed_info(byte: u8) -> [u8; 12] {
    compressed(&[byte; 32], true, 0)[..12].try_into().expect("twelve bytes")
}

pub(crate) fn mode_entry(mode: u32) -> Ace {
    Ace::deny(Sid::of(5, [88, 3, mode]), A::NONE, AceFlags::NONE)
}

pub(crate) fn dacl(aces: Vec<Ace>) -> SecurityDescriptor {
    let control = Control::SELF_RELATIVE | Control::DACL_PRESENT;
    SecurityDescriptor { control, dacl: Acl::new(Acl::REVISION, aces), ..SecurityDescriptor::default() }
}
