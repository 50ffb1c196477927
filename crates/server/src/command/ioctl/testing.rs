//! An in-memory server with a client, for tests of controls.

use std::rc::Rc;

use proto::bytes::{Reader, utf16_bytes};
use proto::fscc::{
    FileAttributes, FileBasicInformation, FileFsAttributeInformation, FileInformationClass, FileSystemAttributes,
    FsInformationClass,
};
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::header::Command;
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use proto::smb2::lock::{LockElement, LockFlags, LockRequest};
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::write::{WriteRequest, WriteResponse};
use proto::smb2::{FileId, InfoType};
use proto::status::Status;

use crate::answer::block_on;
use crate::policy::Share;
use crate::testing::{TestClient, TestServer, status};
use crate::vfs::memory::Options;
use crate::vfs::{Access, Features};

/// All access rights to a file.
pub(super) const ALL: u32 = 0x001f_01ff;

/// A file system with all optional features.
pub(super) const EVERYTHING: Features =
    Features { clones: true, compresses: true, punches: true, shows_reserved: true };

/// A logged-on client.
pub(super) struct Fixture {
    pub(super) server: Rc<TestServer>,
    client: TestClient,
}

impl Fixture {
    /// Creates a server and logs `alice` on.
    pub(super) fn new() -> Fixture {
        Fixture::with(EVERYTHING, |_| ())
    }

    /// Creates a server with a share on a file system with `features` and changed by `configure`, and logs `alice` on.
    pub(super) fn with(features: Features, configure: impl Fn(&mut Share)) -> Fixture {
        let options = Options { mode: 0o777, capacity: 16 << 20, features, ..Options::default() };
        let server = TestServer::builder().volume_options(options).share(configure).start();
        Fixture { client: TestClient::logged_on(&server, "alice"), server: Rc::new(server) }
    }

    /// Returns another client of the same server.
    pub(super) fn another(&self, user: &str) -> Fixture {
        let client = TestClient::logged_on(&self.server, user);
        Fixture { server: self.server.clone(), client }
    }

    fn create(&mut self, name: &str, access: u32, options: CreateOptions) -> FileId {
        let name = utf16_bytes(name);
        let create_disposition = CreateDisposition::OPEN_IF;
        let create = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: access,
            share_access: ShareAccess(7),
            create_disposition,
            create_options: options,
            name: &name,
            ..CreateRequest::default()
        };
        let response = self.client.request(Command::CREATE, |out| create.encode(out));
        assert_eq!(status(&response), Status::SUCCESS);
        CreateResponse::decode(&response).expect("a CREATE response").file_id
    }

    /// Opens a file; creates it if it does not exist.
    pub(super) fn open(&mut self, name: &str, access: u32) -> FileId {
        self.create(name, access, CreateOptions::NON_DIRECTORY_FILE)
    }

    /// Opens a directory; creates it if it does not exist.
    pub(super) fn directory(&mut self, name: &str) -> FileId {
        self.create(name, ALL, CreateOptions::DIRECTORY_FILE)
    }

    /// Creates a file that is not compressed.
    pub(super) fn uncompressed(&mut self, name: &str) -> FileId {
        self.create(name, ALL, CreateOptions::NO_COMPRESSION)
    }

    /// Creates a file with content, opened with all rights.
    pub(super) fn file(&mut self, name: &str, content: &[u8]) -> FileId {
        let file = self.open(name, ALL);
        if !content.is_empty() {
            self.write(file, 0, content);
        }
        file
    }

    pub(super) fn write(&mut self, file_id: FileId, offset: u64, buffer: &[u8]) {
        let length = buffer.len() as u32;
        let write = WriteRequest { file_id, offset, length, buffer, ..WriteRequest::default() };
        let response = self.client.request(Command::WRITE, |out| write.encode(out));
        assert_eq!(status(&response), Status::SUCCESS);
        assert_eq!(WriteResponse::decode(&response).map(|written| written.count as usize), Ok(buffer.len()));
    }

    /// Writes to the beginning of a file, as a local program would.
    pub(super) fn write_locally(&mut self, name: &str, data: &[u8]) {
        let root = crate::testing::root();
        let node = crate::testing::volume::node(&self.server.volume, name);
        let node = block_on(node.open(&root, Access { read: false, write: true })).expect("root may write");
        block_on(node.write(&root, 0, bytes::Bytes::copy_from_slice(data).into(), false)).expect("there is free space");
    }

    /// Returns the content, at most 64 KiB.
    pub(super) fn read(&mut self, file_id: FileId) -> Vec<u8> {
        let read = ReadRequest { file_id, length: 65_536, ..ReadRequest::default() };
        let response = self.client.request(Command::READ, |out| read.encode(out));
        match status(&response) {
            Status::END_OF_FILE => Vec::new(),
            _ => ReadResponse::decode(&response).expect("a READ response").buffer.to_vec(),
        }
    }

    /// Returns the attributes in FileBasicInformation.
    pub(super) fn attributes(&mut self, file_id: FileId) -> FileAttributes {
        let information = self.query(file_id, InfoType::FILE, FileInformationClass::BASIC.0);
        let basic = FileBasicInformation::decode(&mut Reader::new(&information));
        basic.expect("a complete structure").file_attributes
    }

    /// Returns the attributes of the file system.
    pub(super) fn capabilities(&mut self, file_id: FileId) -> FileSystemAttributes {
        let information = self.query(file_id, InfoType::FILESYSTEM, FsInformationClass::ATTRIBUTE.0);
        let attributes =
            FileFsAttributeInformation::decode(&mut Reader::new(&information)).expect("a complete structure");
        attributes.file_system_attributes
    }

    fn query(&mut self, file_id: FileId, info_type: InfoType, file_info_class: u8) -> Vec<u8> {
        let query = QueryInfoRequest {
            info_type,
            file_info_class,
            output_buffer_length: 1024,
            file_id,
            ..QueryInfoRequest::default()
        };
        let response = self.client.request(Command::QUERY_INFO, |out| query.encode(out));
        assert_eq!(status(&response), Status::SUCCESS);
        QueryInfoResponse::decode(&response).expect("a QUERY_INFO response").buffer.to_vec()
    }

    /// Sets FileEndOfFileInformation.
    pub(super) fn set_size(&mut self, file_id: FileId, size: u64) {
        let set = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: FileInformationClass::END_OF_FILE.0,
            file_id,
            buffer: &size.to_le_bytes(),
            ..SetInfoRequest::default()
        };
        assert_eq!(status(&self.client.request(Command::SET_INFO, |out| set.encode(out))), Status::SUCCESS);
    }

    pub(super) fn lock(&mut self, file_id: FileId, offset: u64, length: u64, flags: LockFlags) {
        let flags = if flags == LockFlags::UNLOCK { flags } else { flags | LockFlags::FAIL_IMMEDIATELY };
        let locks = vec![LockElement { offset, length, flags }];
        let lock = LockRequest { file_id, locks, ..LockRequest::default() };
        assert_eq!(status(&self.client.request(Command::LOCK, |out| lock.encode(out))), Status::SUCCESS);
    }

    pub(super) fn close(&mut self, file_id: FileId) {
        let close = CloseRequest { flags: CloseFlags::NONE, file_id };
        assert_eq!(status(&self.client.request(Command::CLOSE, |out| close.encode(out))), Status::SUCCESS);
    }

    /// Sends a control; returns the status and the output, which is usually empty for an error.
    pub(super) fn control(&mut self, file: FileId, code: FsctlCode, input: &[u8], space: u32) -> (Status, Vec<u8>) {
        let ioctl = IoctlRequest {
            ctl_code: code,
            file_id: file,
            input,
            max_output_response: space,
            flags: IoctlFlags::IS_FSCTL,
            ..IoctlRequest::default()
        };
        let response = self.client.request(Command::IOCTL, |out| ioctl.encode(out));
        let output = IoctlResponse::decode(&response).map_or(Vec::new(), |answer| answer.output.to_vec());
        (status(&response), output)
    }
}
