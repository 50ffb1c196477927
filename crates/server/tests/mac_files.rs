//! Resource forks in AppleDouble files (`fruit:resource = file`), as clients see them through shares of one directory:
//! `mac` has such files, `stream` has resource forks in streams, and `share` has no extensions and shows all files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Ace, AceFlags, Acl, SecurityDescriptor, Sid};
use proto::fscc::{FileInformationClass as Class, FileRenameInformation, FileStreamInformation};
use proto::mac::aapl::{Parts, ServerCapabilities, ServerQuery};
use proto::mac::afp_info::{AfpInfo, compressed};
use proto::mac::apple_double;
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
use proto::smb2::{FileId, SecurityInformation};
use proto::status::Status;
use server::acl::model::posix_acl::{ACCESS, Entry, PosixAcl, Tag};
use server::answer::block_on;
use server::policy::stream_layout::Layout;
use server::policy::{MacPolicy, MacStreams, MetadataPlace, Policy, ResourcePlace, Share};
use server::testing::{self, PASSWORD, TestClient, TestServer, TestServerBuilder, status};
use server::vfs::faulty::{Fault, Faulty, Operation, Script};
use server::vfs::memory::Options;
use server::vfs::{
    Create, ListRequest, Lookup, LookupOptions, Metadata, NewFile, RelPath, RenameRequest, Replace, SERVER,
    SetMetadata, SetXattr, SymlinkPolicy,
};

const ALL: u32 = 0x001f_01ff;
const FORK: &str = "user.DosStream.AFP_Resource:$DATA";

fn server() -> TestServer {
    builder().start()
}

fn builder() -> TestServerBuilder {
    let options = Options { mode: 0o777, lists: true, ..Options::default() };
    TestServer::builder().volume_options(options).configure(|policy| {
        policy.mac.offered = true;
        policy.mac.copyfile = true;
        for (name, resource) in [("mac", ResourcePlace::File), ("stream", ResourcePlace::Stream)] {
            let mut share = Share::clone(&policy.shares["share"]);
            share.name = name.to_owned();
            share.mac = Some(Arc::new(MacPolicy::default()));
            let layout = share.streams.take().unwrap_or_default();
            let mac = MacStreams { metadata: MetadataPlace::Netatalk, resource };
            share.streams = Some(Layout { mac: Some(mac), ..layout });
            if resource == ResourcePlace::File {
                share.names.veto_files.push("._*".to_owned());
            }
            policy.shares.insert(name.into(), share.into());
        }
    })
}

/// A client of one share.
struct Client {
    client: TestClient,
}

impl Client {
    fn new(server: &TestServer, user: &str, share: &str) -> Client {
        let mut client = TestClient::new(server);
        client.negotiate(SecurityMode::SIGNING_ENABLED);
        assert_eq!(client.log_on(user, PASSWORD, 0), Status::SUCCESS);
        assert_eq!(client.tree_connect(share), Status::SUCCESS);
        Client { client }
    }

    /// Returns a client that has negotiated the extensions.
    fn mac(server: &TestServer, user: &str, share: &str) -> Client {
        let mut client = Client::new(server, user, share);
        let parts = Parts::SERVER_CAPABILITIES;
        let query = ServerQuery { parts, client: ServerCapabilities::READ_DIR_ATTR };
        let root = client.create_with("", 0x81, Disposition::OPEN, 0, vec![query.to_context()]);
        client.client.close(root.expect("the root can be opened"));
        client
    }

    fn create_with(
        &mut self,
        name: &str,
        access: u32,
        disposition: Disposition,
        options: u32,
        create_contexts: Vec<CreateContext<'_>>,
    ) -> Result<FileId, Status> {
        let name = utf16_bytes(name);
        let create = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: access,
            share_access: ShareAccess(7),
            create_disposition: disposition,
            create_options: CreateOptions(options),
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
    fn open(&mut self, name: &str) -> FileId {
        let opened = self.create_with(name, ALL, Disposition::OPEN_IF, 0, Vec::new());
        opened.unwrap_or_else(|status| panic!("{name}: {status:?}"))
    }

    fn write(&mut self, file_id: FileId, offset: u64, buffer: &[u8]) -> Status {
        let write = WriteRequest { length: buffer.len() as u32, offset, file_id, buffer, ..WriteRequest::default() };
        status(&self.client.request(Command::WRITE, |out| write.encode(out)))
    }

    /// Opens a file or a stream, writes, and closes it.
    #[track_caller]
    fn put(&mut self, name: &str, content: &[u8]) {
        let file = self.open(name);
        assert_eq!(self.write(file, 0, content), Status::SUCCESS, "{name}");
        self.client.close(file);
    }

    fn read(&mut self, file_id: FileId) -> Result<Vec<u8>, Status> {
        let read = ReadRequest { length: 65_536, offset: 0, file_id, ..ReadRequest::default() };
        let response = self.client.request(Command::READ, |out| read.encode(out));
        match status(&response) {
            Status::END_OF_FILE => Ok(Vec::new()),
            Status::SUCCESS => Ok(ReadResponse::decode(&response).expect("a well-formed message").buffer.to_vec()),
            refused => Err(refused),
        }
    }

    /// Returns the content of an existing file or stream.
    fn get(&mut self, name: &str) -> Result<Vec<u8>, Status> {
        let file = self.create_with(name, 1, Disposition::OPEN, 0, Vec::new())?;
        let content = self.read(file);
        self.client.close(file);
        content
    }

    fn set(&mut self, file_id: FileId, class: Class, buffer: &[u8]) -> Status {
        let (info_type, file_info_class) = (InfoType::FILE, class.0);
        let set = SetInfoRequest { info_type, file_info_class, additional_information: 0, file_id, buffer };
        status(&self.client.request(Command::SET_INFO, |out| set.encode(out)))
    }

    fn set_size(&mut self, file_id: FileId, size: u64) -> Status {
        self.set(file_id, Class::END_OF_FILE, &size.to_le_bytes())
    }

    fn rename(&mut self, from: &str, to: &str) -> Status {
        let file = self.open(from);
        let name = utf16_bytes(to);
        let target = FileRenameInformation { replace_if_exists: true, file_name: &name, ..Default::default() };
        let mut buffer = Vec::new();
        target.encode(&mut Writer::new(&mut buffer));
        let renamed = self.set(file, Class::RENAME, &buffer);
        self.client.close(file);
        renamed
    }

    /// Deletes a file or stream.
    #[track_caller]
    fn delete(&mut self, name: &str) {
        let deleted = self.create_with(name, 0x0001_0000, Disposition::OPEN, 0x1000, Vec::new());
        self.client.close(deleted.expect("it can be deleted"));
    }

    fn query(&mut self, file_id: FileId, class: Class) -> Vec<u8> {
        let query = QueryInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class.0,
            output_buffer_length: 65_536,
            file_id,
            ..QueryInfoRequest::default()
        };
        let response = self.client.request(Command::QUERY_INFO, |out| query.encode(out));
        assert_eq!(status(&response), Status::SUCCESS);
        QueryInfoResponse::decode(&response).expect("a well-formed message").buffer.to_vec()
    }

    /// Returns the names and sizes of the alternate streams of a file.
    #[track_caller]
    fn streams(&mut self, name: &str) -> Vec<(String, u64)> {
        let file = self.open(name);
        let buffer = self.query(file, Class::STREAM);
        self.client.close(file);
        let text = |name: &[u8]| String::from_utf16(&proto::bytes::utf16_units(name).expect("even")).expect("text");
        let streams = FileStreamInformation::list(&buffer).map(|stream| stream.expect("a well-formed message"));
        let names = streams.map(|stream| (text(stream.stream_name), stream.stream_size));
        let named = names.filter(|(name, _)| name != "::$DATA");
        named.map(|(name, size)| (name[1..].trim_end_matches(":$DATA").to_owned(), size)).collect()
    }

    /// Returns the buffer of a listing of the root.
    fn listing(&mut self, pattern: &str) -> (Status, Vec<u8>) {
        let root = self.create_with("", 0x81, Disposition::OPEN, 0, Vec::new()).expect("the root can be opened");
        let pattern = utf16_bytes(pattern);
        let query = QueryDirectoryRequest {
            file_information_class: Class::ID_BOTH_DIRECTORY.0,
            flags: QueryDirectoryFlags(0),
            file_index: 0,
            file_id: root,
            file_name: &pattern,
            output_buffer_length: 65_536,
        };
        let response = self.client.request(Command::QUERY_DIRECTORY, |out| query.encode(out));
        self.client.close(root);
        let entries = QueryDirectoryResponse::decode(&response).map(|it| it.buffer.to_vec()).unwrap_or_default();
        (status(&response), entries)
    }

    /// Returns the length of the resource fork of an entry of the root, as a listing for Macs shows it.
    #[track_caller]
    fn listed(&mut self, name: &str) -> u64 {
        let (status, entry) = self.listing(name);
        assert_eq!(status, Status::SUCCESS);
        u64::from_le_bytes(entry[70..78].try_into().expect("eight bytes"))
    }

    fn control(&mut self, file_id: FileId, ctl_code: FsctlCode, input: &[u8], space: u32) -> (Status, Vec<u8>) {
        let flags = IoctlFlags::IS_FSCTL;
        let request =
            IoctlRequest { ctl_code, file_id, input, max_output_response: space, flags, ..IoctlRequest::default() };
        let response = self.client.request(Command::IOCTL, |out| request.encode(out));
        let output = IoctlResponse::decode(&response).map(|answer| answer.output.to_vec()).unwrap_or_default();
        (status(&response), output)
    }

    /// Copies a whole file with its streams to an existing one.
    fn copy_file(&mut self, from: &str, to: &str) -> Status {
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

/// Returns the names on disk that begin with a point, except those of the server.
fn names(server: &TestServer) -> Vec<String> {
    let root = server.volume.lookup(&testing::root(), &RelPath::root(), LookupOptions::exact(SymlinkPolicy::NONE));
    let Ok(Lookup::Found { node, .. }) = block_on(root) else { panic!("the root exists") };
    let page = block_on(node.list(&testing::root(), ListRequest { cursor: 0, count: 100, metadata: false }));
    let entries = page.expect("root may list").entries;
    let mut names: Vec<_> = entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
    names.retain(|name| name.starts_with("._"));
    names.sort();
    names
}

fn attribute(server: &TestServer, file: &str, name: &str) -> Option<Vec<u8>> {
    block_on(testing::volume::node(&server.volume, file).get_xattr(&SERVER, name)).expect("the server may read it")
}

fn set_attribute(server: &TestServer, file: &str, name: &str, value: &[u8]) {
    let node = testing::volume::node(&server.volume, file);
    block_on(node.set_xattr(&SERVER, name, Some(value.to_vec()), SetXattr::Any)).expect("the server may set it");
}

/// Returns an AppleDouble file as Samba writes it, with this resource fork.
fn double(fork: &[u8]) -> Vec<u8> {
    let mut bytes = apple_double::file().to_vec();
    bytes[34..38].copy_from_slice(&(fork.len() as u32).to_be_bytes());
    bytes.extend_from_slice(fork);
    bytes
}

/// Returns an AppleDouble file as macOS writes it: Finder info, these extended attributes, and the resource fork.
fn with_attributes(finder: [u8; 32], attributes: &[(&str, &[u8])], fork: &[u8]) -> Vec<u8> {
    let aligned = |name: &str| (12 + name.len()).next_multiple_of(4);
    let values = 120 + attributes.iter().map(|(name, _)| aligned(name)).sum::<usize>();
    let all = attributes.iter().map(|(_, value)| value.len()).sum::<usize>();
    let end = values + all;
    let mut bytes = vec![0, 5, 0x16, 7, 0, 2, 0, 0];
    bytes.extend_from_slice(b"Mac OS X        ");
    bytes.extend_from_slice(&[0, 2]);
    let number = |bytes: &mut Vec<u8>, number: usize| bytes.extend_from_slice(&(number as u32).to_be_bytes());
    for field in [9, 50, end - 50, 2, end, fork.len()] {
        number(&mut bytes, field);
    }
    bytes.extend_from_slice(&finder);
    bytes.extend_from_slice(b"\0\0ATTR\x12\x34\x56\x78");
    for field in [end, values, all, 0, 0, 0, attributes.len()] {
        number(&mut bytes, field);
    }
    let mut offset = values;
    for (name, value) in attributes {
        number(&mut bytes, offset);
        number(&mut bytes, value.len());
        bytes.extend_from_slice(&[0, 0, name.len() as u8 + 1]);
        bytes.extend_from_slice(name.as_bytes());
        bytes.resize(bytes.len() + aligned(name) - 11 - name.len(), 0);
        offset += value.len();
    }
    attributes.iter().for_each(|(_, value)| bytes.extend_from_slice(value));
    bytes.extend_from_slice(fork);
    bytes
}

/// Returns an AppleDouble file of macOS with data behind the Finder info that is not understood.
fn of_macos(fork: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 5, 0x16, 7, 0, 2, 0, 0];
    bytes.extend_from_slice(b"Mac OS X        ");
    bytes.extend_from_slice(&[0, 2]);
    for number in [9, 50, 100, 2, 150, fork.len() as u32] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(&[7; 100]);
    bytes.extend_from_slice(fork);
    bytes
}

#[test]
fn forks_are_in_appledouble_files() {
    let server = server();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    mac.put("f", b"content");
    let fork = mac.open("f:AFP_Resource");
    assert!(names(&server).is_empty(), "a fork without content has no file");
    assert_eq!(mac.write(fork, 3, b"fork"), Status::SUCCESS);
    assert_eq!(mac.read(fork), Ok(b"\0\0\0fork".to_vec()));
    assert_eq!(plain.get("._f"), Ok(double(b"\0\0\0fork")));
    assert_eq!(mac.streams("f"), [("AFP_Resource".to_owned(), 7)]);
    assert_eq!(mac.listed("f"), 7);
    let standard = mac.query(fork, Class::STANDARD);
    assert_eq!(standard[..16], [8, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    // What is cut off does not come back.
    assert_eq!(mac.set_size(fork, 4), Status::SUCCESS);
    assert_eq!(mac.set_size(fork, 6), Status::SUCCESS);
    assert_eq!(plain.get("._f"), Ok(double(b"\0\0\0f\0\0")));
    assert_eq!(mac.set_size(fork, 0), Status::SUCCESS);
    assert_eq!(mac.write(fork, 0, b"again"), Status::SUCCESS);
    mac.client.close(fork);
    assert_eq!(mac.get("f:AFP_Resource"), Ok(b"again".to_vec()));
    // As in Samba, an empty file stays where the fork was.
    let fork = mac.open("f:afp_resource");
    assert_eq!(mac.set_size(fork, 0), Status::SUCCESS);
    mac.client.close(fork);
    assert_eq!(plain.get("._f"), Ok(double(b"")));
    assert_eq!(mac.get("f:AFP_Resource"), Err(Status::OBJECT_NAME_NOT_FOUND));
    assert!(mac.streams("f").is_empty());
    assert_eq!(attribute(&server, "f", FORK), None);
}

#[test]
fn large_forks_are_read_and_written() {
    let server = server();
    let mut mac = Client::mac(&server, "alice", "mac");
    let fork = mac.open("f:AFP_Resource");
    assert_eq!(mac.write(fork, 0, &[1; 65_536]), Status::SUCCESS);
    assert_eq!(mac.write(fork, 70_000, &[2; 65_536]), Status::SUCCESS);
    assert_eq!(mac.read(fork), Ok(vec![1; 65_536]));
    assert_eq!(mac.write(fork, u64::from(u32::MAX), b"far"), Status::DISK_FULL, "the length has 32 bits");
    mac.client.close(fork);
    assert_eq!(mac.streams("f"), [("AFP_Resource".to_owned(), 135_536)]);
}

#[test]
fn appledouble_files_are_hidden() {
    let server = server();
    let mut mac = Client::mac(&server, "alice", "mac");
    mac.put("f:AFP_Resource", b"fork");
    assert_eq!(names(&server), ["._f"]);
    assert_eq!(mac.listing("._*").0, Status::NO_SUCH_FILE);
    assert_eq!(mac.get("._f"), Err(Status::OBJECT_NAME_NOT_FOUND));
    assert!(mac.create_with("._new", ALL, Disposition::CREATE, 0, Vec::new()).is_err());
    assert_eq!(mac.rename("f", "._g"), Status::ACCESS_DENIED);
}

#[test]
fn the_file_follows_its_file() {
    let server = server();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    mac.put("a:AFP_Resource", b"of a");
    assert_eq!(mac.rename("a", "b"), Status::SUCCESS);
    assert_eq!(names(&server), ["._b"]);
    server.create_locally("dir", NewFile::new(Create::Directory, 0o777));
    assert_eq!(mac.rename("b", r"dir\B"), Status::SUCCESS);
    assert_eq!(mac.get(r"dir\b:AFP_Resource"), Ok(b"of a".to_vec()));
    assert_eq!(plain.get(r"dir\._B"), Ok(double(b"of a")));
    // A change of case only.
    assert_eq!(mac.rename(r"dir\b", r"dir\b"), Status::SUCCESS);
    assert_eq!(plain.get(r"dir\._b"), Ok(double(b"of a")));
    assert_eq!(mac.rename(r"dir\b", "a"), Status::SUCCESS);
    // The fork of a file that is replaced goes with it, whether or not another one takes its place.
    mac.put("c:AFP_Resource", b"of c");
    assert_eq!(mac.rename("a", "c"), Status::SUCCESS);
    assert_eq!(mac.get("c:AFP_Resource"), Ok(b"of a".to_vec()));
    mac.put("plain", b"content");
    assert_eq!(mac.rename("plain", "c"), Status::SUCCESS);
    assert_eq!(mac.get("c:AFP_Resource"), Err(Status::OBJECT_NAME_NOT_FOUND));
    assert!(names(&server).is_empty());
    mac.put("c:AFP_Resource", b"of c");
    // A resource fork cannot be deleted, but it goes with its file.
    mac.delete("c:AFP_Resource");
    assert_eq!(mac.get("c:AFP_Resource"), Ok(b"of c".to_vec()));
    mac.delete("c");
    assert!(names(&server).is_empty());
    assert_eq!(mac.get("c"), Err(Status::OBJECT_NAME_NOT_FOUND));
}

#[test]
fn a_file_that_belongs_to_none_is_set_aside() {
    let server = server();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    // Samba's file without a fork has nothing to lose.
    plain.put("._new", &double(b""));
    mac.put("a:AFP_Resource", b"of a");
    assert_eq!(mac.rename("a", "new"), Status::SUCCESS);
    assert_eq!(names(&server), ["._new"]);
    mac.delete("new");
    // A name with which one would belong to another file is not taken.
    plain.put("new.orphan-2", b"content");
    for number in 1..4 {
        plain.put("._new", &double(&[number]));
        mac.put("a:AFP_Resource", b"of a");
        assert_eq!(mac.rename("a", "new"), Status::SUCCESS);
        assert_eq!(mac.get("new:AFP_Resource"), Ok(b"of a".to_vec()));
        mac.delete("new");
    }
    assert_eq!(names(&server), ["._new.orphan-1", "._new.orphan-3", "._new.orphan-4"]);
    assert_eq!(plain.get("._new.orphan-1"), Ok(double(&[1])));
    assert_eq!(plain.get("._new.orphan-3"), Ok(double(&[2])));
    // Where no name is free, nothing is lost either: the forks stay under their names.
    for number in 5..10 {
        plain.put(&format!("._new.orphan-{number}"), &double(b"other"));
    }
    plain.put("._new", &double(b"former"));
    mac.put("a:AFP_Resource", b"of a");
    assert_eq!(mac.rename("a", "new"), Status::OBJECT_NAME_INVALID);
    assert_eq!((plain.get("._a"), plain.get("._new")), (Ok(double(b"of a")), Ok(double(b"former"))));
    // As in Samba, a file without a fork gets the one that is there.
    mac.put("b", b"content");
    assert_eq!(mac.rename("b", "new"), Status::SUCCESS);
    assert_eq!(mac.get("new:AFP_Resource"), Ok(b"former".to_vec()));
}

#[test]
fn content_that_is_replaced_keeps_the_fork() {
    let server = server();
    let mut mac = Client::mac(&server, "alice", "mac");
    mac.put("f:AFP_Resource", b"fork");
    for disposition in [Disposition::OVERWRITE_IF, Disposition::SUPERSEDE] {
        let file = mac.create_with("f", ALL, disposition, 0, Vec::new()).expect("it is replaced");
        mac.client.close(file);
        assert_eq!(mac.get("f:AFP_Resource"), Ok(b"fork".to_vec()));
    }
    let fork = mac.create_with("f:AFP_Resource", ALL, Disposition::OVERWRITE, 0, Vec::new()).expect("it is replaced");
    assert_eq!(mac.read(fork), Ok(Vec::new()));
    mac.client.close(fork);
}

#[test]
fn former_forks_move_with_the_next_change() {
    for length in [100, 100_000] {
        let server = server();
        let (mut mac, mut stream) = (Client::mac(&server, "alice", "mac"), Client::mac(&server, "alice", "stream"));
        let content = vec![5; length];
        let fork = stream.open("f:AFP_Resource");
        for (at, part) in content.chunks(50_000).enumerate() {
            assert_eq!(stream.write(fork, 50_000 * at as u64, part), Status::SUCCESS);
        }
        stream.client.close(fork);
        assert_eq!(mac.streams("f"), [("AFP_Resource".to_owned(), length as u64)]);
        assert_eq!(mac.listed("f"), length as u64);
        assert!(names(&server).is_empty(), "reading moves nothing");
        mac.put("f:AFP_Resource", b"new");
        assert_eq!(names(&server), ["._f"]);
        let moved = [b"new", &content[3..]].concat();
        assert_eq!(mac.get("f:AFP_Resource").map(|all| all.len()), Ok(length.min(65_536)));
        assert!(moved.starts_with(&mac.get("f:AFP_Resource").expect("it can be read")));
        assert_eq!(mac.streams("f"), [("AFP_Resource".to_owned(), length as u64)]);
        assert_eq!(attribute(&server, "f", FORK), None, "the former one is gone");
        // One that is left over does not come back.
        set_attribute(&server, "f", FORK, b"former\0");
        assert_eq!(mac.streams("f"), [("AFP_Resource".to_owned(), length as u64)]);
        let fork = mac.open("f:AFP_Resource");
        assert_eq!(mac.set_size(fork, 0), Status::SUCCESS);
        mac.client.close(fork);
        assert!(mac.streams("f").is_empty());
        assert_eq!(attribute(&server, "f", FORK), None);
    }
}

#[test]
fn what_macos_wrote_is_kept() {
    let server = server();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    plain.put("f", b"content");
    plain.put("._f", &of_macos(b"fork"));
    assert_eq!(mac.get("f:AFP_Resource"), Ok(b"fork".to_vec()));
    assert_eq!(mac.listed("f"), 4);
    let fork = mac.open("f:AFP_Resource");
    assert_eq!(mac.write(fork, 4, b" and more"), Status::SUCCESS);
    mac.client.close(fork);
    assert_eq!(plain.get("._f"), Ok(of_macos(b"fork and more")));
}

#[test]
fn files_that_are_not_understood_are_not_touched() {
    let server = server();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    // Bytes behind the fork that belong to another part.
    let mut behind = of_macos(b"fork");
    (behind[29], behind[41]) = (2, 9);
    let mut cut = of_macos(b"fork");
    cut.truncate(152);
    for other in [b"text of a user".to_vec(), behind, cut] {
        plain.put("f", b"content");
        plain.put("._f", &other);
        let fork = mac.open("f:AFP_Resource");
        assert_ne!(mac.write(fork, 0, b"new"), Status::SUCCESS);
        mac.client.close(fork);
        assert_eq!(plain.get("._f"), Ok(other.clone()));
        plain.delete("._f");
    }
    plain.put("._f", b"text of a user");
    assert!(mac.streams("f").is_empty());
    assert_eq!(mac.rename("f", "g"), Status::SUCCESS);
    mac.delete("g");
    assert_eq!(plain.get("._f"), Ok(b"text of a user".to_vec()));
}

#[test]
fn a_link_in_place_of_the_file_is_not_followed() {
    let server = server();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    plain.put("secret", &double(b"secret"));
    plain.put("f", b"content");
    server.create_locally("._f", NewFile::symlink(b"secret", None));
    assert!(mac.streams("f").is_empty());
    assert_eq!(mac.listed("f"), 0);
    let fork = mac.create_with("f:AFP_Resource", ALL, Disposition::OPEN_IF, 0, Vec::new());
    if let Ok(fork) = fork {
        assert_ne!(mac.write(fork, 0, b"new"), Status::SUCCESS);
        mac.client.close(fork);
    }
    mac.delete("f");
    assert_eq!(plain.get("secret"), Ok(double(b"secret")));
    assert_eq!(names(&server), ["._f"]);
}

#[test]
fn the_rights_of_the_user_decide() {
    let server = server();
    let (mut alice, mut bob) = (Client::mac(&server, "alice", "mac"), Client::mac(&server, "bob", "mac"));
    alice.put("f", b"content");
    let set_mode = |name: &str, mode: u32| {
        let node = testing::volume::node(&server.volume, name);
        let set = SetMetadata { mode: Some(mode), ..Default::default() };
        block_on(node.set_metadata(&SERVER, set)).expect("the server may set it");
    };
    set_mode("f", 0o644);
    alice.put("f:AFP_Resource", b"fork");
    let node = testing::volume::node(&server.volume, "._f");
    assert_eq!(block_on(node.metadata(&SERVER)).expect("it exists").mode & 0o777, 0o644);
    assert_eq!(bob.get("f:AFP_Resource"), Ok(b"fork".to_vec()));
    assert!(bob.create_with("f:AFP_Resource", 2, Disposition::OPEN, 0, Vec::new()).is_err());
    set_mode("._f", 0o600);
    assert_eq!(bob.get("f:AFP_Resource"), Err(Status::ACCESS_DENIED));
    assert_eq!(bob.listed("f"), 0);
    let file = bob.create_with("f", 0x81, Disposition::OPEN, 0, Vec::new()).expect("it can be read");
    assert_eq!(FileStreamInformation::list(&bob.query(file, Class::STREAM)).count(), 1);
    bob.client.close(file);
    assert_eq!(alice.get("f:AFP_Resource"), Ok(b"fork".to_vec()));
}

#[test]
fn files_that_belong_to_none_keep_their_directory() {
    let server = server();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    let made = mac.create_with("dir", ALL, Disposition::CREATE, 1, Vec::new()).expect("it can be created");
    plain.put(r"dir\._gone", &double(b"fork"));
    assert_eq!(mac.set(made, Class::DISPOSITION, &[1]), Status::DIRECTORY_NOT_EMPTY);
    mac.client.close(made);
    mac.delete("dir");
    assert_eq!(plain.get(r"dir\._gone"), Ok(double(b"fork")));
    plain.delete(r"dir\._gone");
    mac.delete("dir");
    assert_eq!(plain.get(r"dir\._gone"), Err(Status::OBJECT_PATH_NOT_FOUND));
}

#[test]
fn an_empty_file_belongs_to_its_user() {
    let server = server();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    for name in ["f", "._f", "g", "._g"] {
        plain.put(name, b"");
    }
    assert!(mac.streams("f").is_empty());
    assert_eq!(mac.rename("f", "h"), Status::SUCCESS);
    mac.delete("g");
    assert_eq!(names(&server), ["._f", "._g"]);
    // A file with a fork cannot take the name.
    mac.put("h:AFP_Resource", b"fork");
    assert_eq!(mac.rename("h", "g"), Status::OBJECT_NAME_INVALID);
    assert_eq!(plain.get("._g"), Ok(Vec::new()));
    // A crash may have left an empty file of the user's: the next fork is stored there.
    mac.put("f:AFP_Resource", b"fork");
    assert_eq!(plain.get("._f"), Ok(double(b"fork")));
    // That of another user stays as it is.
    let mut bob = Client::new(&server, "bob", "share");
    bob.put("._i", b"");
    mac.put("i", b"content");
    let fork = mac.open("i:AFP_Resource");
    assert_eq!(mac.write(fork, 0, b"fork"), Status::IO_DEVICE_ERROR);
    mac.client.close(fork);
    assert_eq!(bob.get("._i"), Ok(Vec::new()));
}

fn metadata(server: &TestServer, name: &str) -> Metadata {
    block_on(testing::volume::node(&server.volume, name).metadata(&SERVER)).expect("the server may query it")
}

fn mode(server: &TestServer, name: &str) -> u32 {
    metadata(server, name).mode & 0o777
}

fn set_metadata(server: &TestServer, name: &str, set: SetMetadata) {
    block_on(testing::volume::node(&server.volume, name).set_metadata(&SERVER, set)).expect("the server may set it");
}

fn list(entries: &[(Tag, u8)]) -> Vec<u8> {
    PosixAcl::new(entries.iter().map(|&(tag, permissions)| Entry { tag, permissions }).collect()).encode()
}

#[test]
fn nobody_gets_more_rights_than_on_the_file() {
    let server = server();
    let (mut alice, mut bob) = (Client::mac(&server, "alice", "mac"), Client::mac(&server, "bob", "mac"));
    // The mask is no right of the owning group, and bob has fewer rights than others.
    alice.put("f", b"content");
    set_metadata(&server, "f", SetMetadata { mode: Some(0o664), ..Default::default() });
    let classes = [(Tag::Owner, 6), (Tag::OwningGroup, 4), (Tag::Other, 4)];
    let all = list(&[&classes[..], &[(Tag::User(1001), 0), (Tag::Mask, 6)]].concat());
    set_attribute(&server, "f", ACCESS, &all);
    alice.put("f:AFP_Resource", b"fork");
    assert_eq!((attribute(&server, "._f", ACCESS), mode(&server, "._f")), (Some(all), 0o664));
    // The file of another user: its owner and group keep their rights, and the writer's group has no more than them.
    alice.put("h", b"content");
    set_metadata(&server, "h", SetMetadata { mode: Some(0o626), ..Default::default() });
    let fork = bob.create_with("h:AFP_Resource", 3, Disposition::OPEN_IF, 0, Vec::new()).expect("bob may write");
    assert_eq!(bob.write(fork, 0, b"fork"), Status::SUCCESS);
    bob.client.close(fork);
    let named = [(Tag::User(1000), 6), (Tag::Group(1000), 2), (Tag::Mask, 6)];
    let expected = list(&[&[(Tag::Owner, 6), (Tag::OwningGroup, 2), (Tag::Other, 6)][..], &named].concat());
    assert_eq!(attribute(&server, "._h", ACCESS), Some(expected));
}

/// Sets the mode of an open file as a Mac does.
fn set_mode(mac: &mut Client, file: FileId, mode: u32) -> Status {
    let ace = Ace::deny(Sid::of(5, [88, 3, mode]), AccessMask::NONE, AceFlags::NONE);
    let descriptor = SecurityDescriptor {
        control: Control::SELF_RELATIVE | Control::DACL_PRESENT,
        dacl: Acl::new(Acl::REVISION, vec![ace]),
        ..SecurityDescriptor::default()
    };
    mac.client.set_security(file, SecurityInformation::DACL, &descriptor)
}

#[test]
fn permissions_follow_those_of_the_file() {
    let server = server();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    mac.put("f:AFP_Resource", b"fork");
    plain.put("text", b"content");
    plain.put("._text", b"text");
    let others = mode(&server, "._text");
    for name in ["f", "text"] {
        let file = mac.open(name);
        assert_eq!(set_mode(&mut mac, file, 0o600), Status::SUCCESS);
        mac.client.close(file);
    }
    assert_eq!((mode(&server, "f"), mode(&server, "._f")), (0o600, 0o600));
    // Another file keeps its permissions.
    assert_eq!((mode(&server, "text"), mode(&server, "._text")), (0o600, others));
}

#[test]
fn permissions_do_not_follow_those_of_a_file_that_had_the_name() {
    let server = server();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    mac.put("f", b"former");
    mac.put("new", b"content");
    mac.put("new:AFP_Resource", b"fork");
    for name in ["new", "._new"] {
        set_metadata(&server, name, SetMetadata { mode: Some(0o600), ..Default::default() });
    }
    let former = mac.open("f");
    // A local program replaces the file.
    for (from, to) in [("new", "f"), ("._new", "._f")] {
        let file = metadata(&server, from).id;
        let (from, to) = (testing::volume::path(from), testing::volume::path(to));
        let renaming = RenameRequest::new(&from, file, &to).replacing(Replace::Any);
        block_on(server.volume.rename(&testing::root(), renaming)).expect("root may rename");
    }
    assert_eq!(set_mode(&mut mac, former, 0o666), Status::SUCCESS);
    assert_eq!((mode(&server, "f"), mode(&server, "._f")), (0o600, 0o600));
    assert_eq!(plain.get("._f"), Ok(double(b"fork")));
}

#[test]
fn long_names_have_their_forks_in_streams() {
    let server = server();
    let mut mac = Client::mac(&server, "alice", "mac");
    let (long, fits) = ("n".repeat(254), "n".repeat(253));
    mac.put(&format!("{long}:AFP_Resource"), b"fork");
    assert!(names(&server).is_empty());
    assert_eq!(mac.get(&format!("{long}:AFP_Resource")), Ok(b"fork".to_vec()));
    assert_eq!(mac.rename(&long, &fits), Status::SUCCESS);
    mac.put(&format!("{fits}:AFP_Resource"), b"FORK");
    assert_eq!(names(&server).len(), 1);
    // The file could not follow.
    assert_eq!(mac.rename(&fits, &long), Status::OBJECT_NAME_INVALID);
    assert_eq!(mac.get(&format!("{fits}:AFP_Resource")), Ok(b"FORK".to_vec()));
}

#[test]
fn directories_have_no_appledouble_files() {
    let server = server();
    let mut mac = Client::mac(&server, "alice", "mac");
    let made = mac.create_with("dir", ALL, Disposition::CREATE, 1, Vec::new()).expect("it can be created");
    mac.client.close(made);
    mac.put("dir:AFP_Resource", b"fork");
    assert!(names(&server).is_empty());
    assert_eq!(mac.get("dir:AFP_Resource"), Ok(b"fork".to_vec()));
}

#[test]
fn whole_files_are_copied_with_their_forks() {
    let server = server();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    mac.put("from", b"content");
    mac.put("from:AFP_Resource", b"fork");
    mac.put("to", b"");
    assert_eq!(mac.copy_file("from", "to"), Status::SUCCESS);
    assert_eq!(mac.get("to:AFP_Resource"), Ok(b"fork".to_vec()));
    assert_eq!(plain.get("._to"), Ok(double(b"fork")));
}

const TAGS: (&str, &[u8]) = ("com.apple.metadata:_kMDItemUserTags", b"tags");
const FINDER: [u8; 32] = *b"TEXTttxt\x40\0\0\0\0\0\0\0................";

/// The state of the streams after a conversion, as a Mac sees them.
#[track_caller]
fn check_converted(mac: &mut Client, name: &str) {
    let tags = "com.apple.metadata\u{f022}_kMDItemUserTags";
    let mut streams = mac.streams(name);
    streams.sort();
    let expected = [("AFP_AfpInfo", 60), ("AFP_Resource", 4), (tags, 4), ("empty", 0)];
    assert_eq!(streams, expected.map(|(name, size)| (name.to_owned(), size)));
    assert_eq!(mac.get(&format!("{name}:{tags}")), Ok(b"tags".to_vec()));
    assert_eq!(mac.get(&format!("{name}:AFP_AfpInfo")), Ok(AfpInfo::of(FINDER).encode().to_vec()));
    assert_eq!(mac.get(&format!("{name}:AFP_Resource")), Ok(b"fork".to_vec()));
}

#[test]
fn files_of_macos_are_converted() {
    let attributes = [TAGS, ("empty", b"")];
    for share in ["mac", "stream"] {
        for by_listing in [false, true] {
            let server = server();
            let (mut mac, mut plain) = (Client::mac(&server, "alice", share), Client::new(&server, "alice", "share"));
            plain.put("f", b"content");
            plain.put("._f", &with_attributes(FINDER, &attributes, b"fork"));
            if by_listing {
                let (_, entries) = mac.listing("*");
                let shown = compressed(&FINDER, true, 0);
                assert!(entries.windows(8).any(|bytes| bytes == &shown[..8]), "the listing has the Finder info");
            }
            check_converted(&mut mac, "f");
            let left = plain.get("._f").expect("it stays");
            let double = apple_double::AppleDouble::decode(&left, left.len() as u64).expect("valid");
            let length = |id| double.entry(id).map(|entry| entry.length);
            let fork = if share == "mac" { 4 } else { 0 };
            assert_eq!((length(apple_double::id::FINDER_INFO), length(2)), (Some(32), Some(fork)));
            check_converted(&mut mac, "f");
        }
    }
}

#[test]
fn directories_have_finder_info_converted() {
    let server = server();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    let made = mac.create_with("dir", ALL, Disposition::CREATE, 1, Vec::new()).expect("it can be created");
    mac.client.close(made);
    plain.put("._dir", &with_attributes(FINDER, &[("x", b"y")], b""));
    assert_eq!(mac.get("dir:AFP_AfpInfo"), Ok(AfpInfo::of(FINDER).encode().to_vec()));
    assert_eq!(mac.get("dir:x"), Ok(b"y".to_vec()));
}

#[test]
fn what_would_be_lost_prevents_a_conversion() {
    let server = server();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    let behind = [&with_attributes(FINDER, &[TAGS], b"fork")[..], b"more"].concat();
    let mut comment = with_attributes(FINDER, &[TAGS], b"fork");
    comment[41] = 4;
    let mut offset = with_attributes(FINDER, &[TAGS], b"fork");
    offset[120] = 0xff;
    let slash = with_attributes(FINDER, &[TAGS, ("a/b", b"x")], b"fork");
    for other in [behind, comment, offset, slash] {
        plain.put("f", b"content");
        plain.put("._f", &other);
        assert!(mac.streams("f").iter().all(|(name, _)| name == "AFP_Resource"));
        assert_eq!(plain.get("._f"), Ok(other.clone()));
        plain.delete("._f");
    }
    // A stream of that name with another content.
    let file = with_attributes(FINDER, &[("x", b"of macOS")], b"");
    plain.put("._f", &file);
    plain.put("f:x", b"newer");
    assert_eq!(mac.get("f:x"), Ok(b"newer".to_vec()));
    assert_eq!(plain.get("._f"), Ok(file.clone()));
    // With the same content, as after a crash.
    plain.delete("f:x");
    plain.put("f:x", b"of macOS");
    assert_eq!(mac.get("f:AFP_AfpInfo"), Ok(AfpInfo::of(FINDER).encode().to_vec()));
    assert_ne!(plain.get("._f"), Ok(file));
}

#[test]
fn only_a_user_who_may_write_converts() {
    let server = server();
    let (mut alice, mut bob) = (Client::mac(&server, "alice", "mac"), Client::mac(&server, "bob", "mac"));
    let mut plain = Client::new(&server, "alice", "share");
    let file = with_attributes(FINDER, &[TAGS], b"fork");
    plain.put("f", b"content");
    plain.put("._f", &file);
    let set_mode = |name: &str, mode: u32| {
        let node = testing::volume::node(&server.volume, name);
        let set = SetMetadata { mode: Some(mode), ..Default::default() };
        block_on(node.set_metadata(&SERVER, set)).expect("the server may set it");
    };
    for (base, double) in [(0o644, 0o666), (0o666, 0o644)] {
        set_mode("f", base);
        set_mode("._f", double);
        bob.listing("*");
        let opened = bob.create_with("f", 0x81, Disposition::OPEN, 0, Vec::new()).expect("it can be read");
        assert_eq!(FileStreamInformation::list(&bob.query(opened, Class::STREAM)).count(), 2);
        bob.client.close(opened);
        assert_eq!(plain.get("._f"), Ok(file.clone()), "{base:o} {double:o}");
    }
    assert_eq!(alice.get("f:AFP_AfpInfo"), Ok(AfpInfo::of(FINDER).encode().to_vec()));
}

/// Counts the calls that read files, and those that read directories.
#[derive(Default)]
struct Reads(AtomicU64, AtomicU64);

impl Script for Reads {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        self.0.fetch_add(u64::from(operation == Operation::Read), Ordering::Relaxed);
        self.1.fetch_add(u64::from(operation == Operation::List), Ordering::Relaxed);
        Fault::default()
    }
}

#[test]
fn a_directory_without_files_beside_is_read_once_until_it_changes() {
    let reads = Arc::new(Reads::default());
    let script = Arc::clone(&reads);
    let server = builder().wrap_volume(|volume| Faulty::new(volume, script)).start();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
    plain.put("file", b"content");
    let listed = |mac: &mut Client| {
        let before = reads.1.load(Ordering::Relaxed);
        (mac.listed("fil*"), reads.1.load(Ordering::Relaxed) - before)
    };
    server.advance_seconds(60);
    let (_, first) = listed(&mut mac);
    let (_, later) = listed(&mut mac);
    assert!(later < first, "{later} and {first} calls");
    plain.put("._file", &double(b"fork"));
    assert_eq!(listed(&mut mac), (4, first));
    plain.delete("._file");
    server.advance_seconds(60);
    assert_eq!(listed(&mut mac), (0, first));
    assert_eq!(listed(&mut mac), (0, later));
}

#[test]
fn a_file_that_cannot_be_converted_is_read_once() {
    let reads = Arc::new(Reads::default());
    let script = Arc::clone(&reads);
    let server = builder().wrap_volume(|volume| Faulty::new(volume, script)).start();
    let (mut mac, mut plain) = (Client::mac(&server, "alice", "stream"), Client::new(&server, "alice", "share"));
    let slash = with_attributes(FINDER, &[TAGS, ("a/b", b"x")], b"fork");
    let conflict = with_attributes(FINDER, &[TAGS, ("x", b"of macOS")], b"fork");
    plain.put("conflict:x", b"newer");
    for (name, file) in [("slash", &slash), ("conflict", &conflict), ("text", &b"text".to_vec())] {
        plain.put(name, b"content");
        plain.put(&format!("._{name}"), file);
    }
    let count = |mac: &mut Client, name: &str| {
        server.advance_seconds(60);
        let before = reads.0.load(Ordering::Relaxed);
        mac.streams(name);
        reads.0.load(Ordering::Relaxed) - before
    };
    for name in ["slash", "conflict", "text"] {
        assert!(count(&mut mac, name) > 0, "{name}");
        // The first attempt may have stored a stream.
        count(&mut mac, name);
        assert_eq!(count(&mut mac, name), 0, "{name}");
    }
    let before = reads.0.load(Ordering::Relaxed);
    mac.listing("*");
    assert_eq!(reads.0.load(Ordering::Relaxed), before);
    // Every change counts: of the file beside, and of the file.
    plain.put("._text", &with_attributes(FINDER, &[TAGS], b"fork"));
    plain.delete("conflict:x");
    for name in ["text", "conflict"] {
        assert!(count(&mut mac, name) > 0, "{name}");
        assert_eq!(mac.get(&format!("{name}:AFP_Resource")), Ok(b"fork".to_vec()));
    }
    // What a user may not convert is not read.
    plain.put("other", b"content");
    plain.put("._other", &with_attributes(FINDER, &[TAGS], b"fork"));
    let mut bob = Client::mac(&server, "bob", "stream");
    for (file, beside) in [(0o644, 0o666), (0o666, 0o644), (0o666, 0o622)] {
        set_metadata(&server, "other", SetMetadata { mode: Some(file), ..Default::default() });
        set_metadata(&server, "._other", SetMetadata { mode: Some(beside), ..Default::default() });
        let before = reads.0.load(Ordering::Relaxed);
        let opened = bob.create_with("other", 0x81, Disposition::OPEN, 0, Vec::new()).expect("it can be read");
        bob.query(opened, Class::STREAM);
        bob.client.close(opened);
        assert_eq!(reads.0.load(Ordering::Relaxed), before, "{file:o} {beside:o}");
    }
    assert!(count(&mut mac, "other") > 0);
}

#[test]
fn blank_forks_and_empty_files_go_if_the_share_says_so() {
    let mut blank = vec![0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 30];
    blank.extend_from_slice(b"This resource fork intentionally left blank   ");
    blank.resize(256, 0);
    blank.extend_from_slice(&[0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 30]);
    blank.resize(281, 0);
    blank.extend_from_slice(&[28, 0, 30, 0xff, 0xff]);
    for (wipes_blank_forks, removes_empty_files) in [(false, true), (true, false), (true, true)] {
        let server = server();
        let mut policy = Policy::clone(&server.policy());
        let share = policy.shares.get_mut("mac").map(Arc::make_mut).expect("it is there");
        share.mac = Some(Arc::new(MacPolicy { wipes_blank_forks, removes_empty_files, ..Default::default() }));
        server.reload(policy);
        let (mut mac, mut plain) = (Client::mac(&server, "alice", "mac"), Client::new(&server, "alice", "share"));
        for (name, fork) in [("blank", &blank[..]), ("full", b"fork"), ("none", b"")] {
            plain.put(name, b"content");
            plain.put(&format!("._{name}"), &with_attributes(FINDER, &[TAGS], fork));
            assert_eq!(mac.get(&format!("{name}:AFP_AfpInfo")), Ok(AfpInfo::of(FINDER).encode().to_vec()));
        }
        let expected: &[&str] = match (wipes_blank_forks, removes_empty_files) {
            (false, true) => &["._blank", "._full"],
            (true, true) => &["._full"],
            _ => &["._blank", "._full", "._none"],
        };
        assert_eq!(names(&server), expected);
        let left = mac.streams("blank").iter().any(|(name, _)| name == "AFP_Resource");
        assert_eq!(left, !wipes_blank_forks);
        assert_eq!(mac.get("full:AFP_Resource"), Ok(b"fork".to_vec()));
    }
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
