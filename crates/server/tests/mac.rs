//! The extensions for macOS as clients see them: Finder info and resource forks that several shares reach, modes in
//! security descriptors, listings, and copies of whole files.

use std::sync::Arc;

use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask as A, Acl, SecurityDescriptor, Sid};
use proto::fscc::{FileInformationClass as Class, FileStreamInformation};
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
use proto::smb2::{Channel, FileId, SecurityInformation};
use proto::status::Status;
use server::answer::block_on;
use server::policy::stream_layout::Layout;
use server::policy::{MacPolicy, MacStreams, MetadataPlace, Policy, Share};
use server::testing::{self, PASSWORD, TestClient, TestServer, status};
use server::vfs::memory::Options;
use server::vfs::{Create, NewFile, SERVER, SetXattr};

const NETATALK: &str = "user.org.netatalk.Metadata";
const ORDINARY: &str = "user.DosStream.AFP_AfpInfo:$DATA";
const ALL: u32 = 0x001f_01ff;

/// Returns a server with the share `share` without the extensions, and the share `mac` with them, of one directory.
fn server(metadata: MetadataPlace) -> TestServer {
    with(metadata, |_| {})
}

fn with(metadata: MetadataPlace, adjust: impl FnOnce(&mut Policy)) -> TestServer {
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
            mac.streams = Some(Layout { mac: Some(MacStreams { metadata }), ..layout });
            policy.shares.insert("mac".into(), mac.into());
            adjust(policy);
        })
        .start()
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
        let opened = client.create_with("", 0x81, Disposition::OPEN, vec![query.to_context()]);
        let root = opened.expect("the root can be opened");
        client.client.close(root);
        client
    }

    fn create_with(
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
    fn open(&mut self, name: &str) -> FileId {
        let opened = self.create_with(name, ALL, Disposition::OPEN_IF, Vec::new());
        opened.unwrap_or_else(|status| panic!("{name}: {status:?}"))
    }

    /// Returns the status of opening an existing file or stream for reading.
    fn look(&mut self, name: &str) -> Status {
        match self.create_with(name, 1, Disposition::OPEN, Vec::new()) {
            Ok(file) => {
                self.client.close(file);
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }

    fn write(&mut self, file_id: FileId, offset: u64, buffer: &[u8]) -> Status {
        let length = buffer.len() as u32;
        let write = WriteRequest { length, offset, file_id, channel: Channel(0), buffer, ..WriteRequest::default() };
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
        let file = self.create_with(name, 1, Disposition::OPEN, Vec::new())?;
        let content = self.read(file);
        self.client.close(file);
        content
    }

    fn set_size(&mut self, file_id: FileId, size: u64) -> Status {
        let buffer = size.to_le_bytes();
        let set = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: Class::END_OF_FILE.0,
            additional_information: 0,
            file_id,
            buffer: &buffer,
        };
        status(&self.client.request(Command::SET_INFO, |out| set.encode(out)))
    }

    fn query(&mut self, file_id: FileId, class: Class) -> (Status, Vec<u8>) {
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
    fn streams(&mut self, name: &str) -> Vec<String> {
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
    fn listed(&mut self, name: &str) -> (u32, u64, [u8; 12]) {
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

    fn control(&mut self, file_id: FileId, ctl_code: FsctlCode, input: &[u8], space: u32) -> (Status, Vec<u8>) {
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

fn attribute(server: &TestServer, file: &str, name: &str) -> Option<Vec<u8>> {
    block_on(testing::volume::node(&server.volume, file).get_xattr(&SERVER, name)).expect("the server may read it")
}

fn set_attribute(server: &TestServer, file: &str, name: &str, value: &[u8]) {
    let node = testing::volume::node(&server.volume, file);
    block_on(node.set_xattr(&SERVER, name, Some(value.to_vec()), SetXattr::Any)).expect("the server may set it");
}

fn info(byte: u8) -> Vec<u8> {
    AfpInfo::of([byte; 32]).encode().to_vec()
}

/// The start of what a listing shows of that Finder info.
fn listed_info(byte: u8) -> [u8; 12] {
    compressed(&[byte; 32], true, 0)[..12].try_into().expect("twelve bytes")
}

fn mode_entry(mode: u32) -> Ace {
    Ace::deny(Sid::of(5, [88, 3, mode]), A::NONE, AceFlags::NONE)
}

fn dacl(aces: Vec<Ace>) -> SecurityDescriptor {
    let control = Control::SELF_RELATIVE | Control::DACL_PRESENT;
    SecurityDescriptor { control, dacl: Acl::new(Acl::REVISION, aces), ..SecurityDescriptor::default() }
}

#[test]
fn two_shares_reach_one_stream() {
    for (place, name) in [(MetadataPlace::Netatalk, "f:AFP_Resource"), (MetadataPlace::Stream, "f:AFP_Resource")] {
        let server = server(place);
        let (mut plain, mut mac) = (Client::new(&server, "alice", "share"), Client::mac(&server, "alice", "mac"));
        let through_mac = mac.open(name);
        let through_plain = plain.open(name);
        // What does not fit in an attribute goes to the store, from where the other share must read it.
        assert_eq!(plain.write(through_plain, 0, &[1; 65_536]), Status::SUCCESS);
        assert_eq!(mac.write(through_mac, 65_536, b"mac"), Status::SUCCESS);
        assert_eq!(plain.write(through_plain, 65_539, b"plain"), Status::SUCCESS);
        assert_eq!(mac.write(through_mac, 0, b"start"), Status::SUCCESS);
        for (client, file) in [(&mut plain, through_plain), (&mut mac, through_mac)] {
            assert_eq!(client.read(file).expect("it can be read")[..6], *b"start\x01");
        }
        assert_eq!(plain.set_size(through_plain, 0), Status::SUCCESS);
        assert_eq!(mac.write(through_mac, 0, b"again"), Status::SUCCESS);
        assert_eq!(mac.set_size(through_mac, 0), Status::SUCCESS);
        assert_eq!(plain.write(through_plain, 0, b"last"), Status::SUCCESS);
        plain.client.close(through_plain);
        mac.client.close(through_mac);
        assert_eq!((plain.get(name), mac.get(name)), (Ok(b"last".to_vec()), Ok(b"last".to_vec())));
    }
}

#[test]
fn share_modes_hold_through_both_shares() {
    let server = server(MetadataPlace::Stream);
    let (mut plain, mut mac) = (Client::new(&server, "alice", "share"), Client::mac(&server, "bob", "mac"));
    plain.put("f:AFP_Resource", b"fork");
    let name = utf16_bytes("f:AFP_Resource");
    let alone = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: 1,
        share_access: ShareAccess(0),
        create_disposition: Disposition::OPEN,
        name: &name,
        ..CreateRequest::default()
    };
    let response = plain.client.request(Command::CREATE, |out| alone.encode(out));
    assert_eq!(status(&response), Status::SUCCESS);
    assert_eq!(mac.look("f:AFP_Resource"), Status::SHARING_VIOLATION);
}

#[test]
fn a_share_that_gets_the_extensions_keeps_open_streams() {
    let server = server(MetadataPlace::Stream);
    let mut alice = Client::new(&server, "alice", "share");
    let file = alice.open("f:s");
    assert_eq!(alice.write(file, 0, b"before"), Status::SUCCESS);
    let mut policy = Policy::clone(&server.policy());
    let mac = Share { name: "share".to_owned(), ..Share::clone(&policy.shares["mac"]) };
    policy.shares.insert("share".into(), mac.into());
    server.reload(policy);
    let mut bob = Client::mac(&server, "bob", "share");
    let other = bob.create_with("f:s", 1, Disposition::OPEN, Vec::new()).expect("bob may read it");
    assert_eq!(alice.write(file, 0, &[2; 65_536]), Status::SUCCESS);
    assert_eq!(bob.read(other).map(|content| content.len()), Ok(65_536));
}

#[test]
fn a_mode_does_not_void_a_stored_descriptor() {
    let server = with(MetadataPlace::Netatalk, |policy| {
        let mac = policy.shares.get_mut("mac").map(Arc::make_mut).expect("it is there");
        mac.acls.stored = Some(testing::stored_acls());
    });
    let mut alice = Client::mac(&server, "alice", "mac");
    let file = alice.open("f");
    let own = Ace::allow(Sid::unix_user(1000), A::FILE_ALL_ACCESS, AceFlags::NONE);
    let parts = SecurityInformation::DACL;
    assert_eq!(alice.client.set_security(file, parts, &dacl(vec![own.clone()])), Status::SUCCESS);
    let of = |alice: &mut Client| alice.client.security(file, parts).dacl.map(Acl::into_aces).unwrap_or_default();
    assert!(of(&mut alice).contains(&own));
    assert_eq!(alice.client.set_security(file, parts, &dacl(vec![mode_entry(0o644)])), Status::SUCCESS);
    assert!(of(&mut alice).contains(&own));
    let both = dacl(vec![own.clone(), mode_entry(0o666)]);
    assert_eq!(alice.client.set_security(file, parts, &both), Status::SUCCESS);
    assert!(of(&mut alice).contains(&own));
    let mut bob = Client::new(&server, "bob", "mac");
    assert_eq!(bob.look("f"), Status::ACCESS_DENIED);
}

#[test]
fn a_mode_is_set_where_no_descriptors_are_stored() {
    let mode = |server: &TestServer| testing::volume::node(&server.volume, "f").metadata(&SERVER);
    let mode = |server: &TestServer| block_on(mode(server)).expect("it is there").mode & 0o777;
    for (share, supported, changes) in [("mac", true, true), ("mac", false, false), ("share", true, false)] {
        let server = with(MetadataPlace::Netatalk, |policy| {
            let mac = policy.shares.get_mut("mac").map(Arc::make_mut).expect("it is there");
            mac.acls.nt_acl_support = supported;
        });
        let mut alice = Client::mac(&server, "alice", share);
        let file = alice.open("f");
        let before = mode(&server);
        let done = alice.client.set_security(file, SecurityInformation::DACL, &dacl(vec![mode_entry(0o100_751)]));
        assert_eq!(done, Status::SUCCESS);
        assert_eq!(mode(&server), if changes { 0o751 } else { before }, "{share} {supported}");
    }
}

#[test]
fn another_handle_writes_after_a_mac_has_emptied_a_stream() {
    let server = server(MetadataPlace::Netatalk);
    let (mut mac, mut other) = (Client::mac(&server, "alice", "mac"), Client::mac(&server, "alice", "mac"));
    for size in [5, 70_000_u64] {
        let (first, second) = (mac.open("f:s"), other.open("f:s"));
        assert_eq!(mac.write(first, size - 5, b"12345"), Status::SUCCESS);
        assert_eq!(mac.set_size(first, 0), Status::SUCCESS);
        assert_eq!(mac.streams("f"), Vec::<String>::new());
        assert_eq!(other.write(second, 0, b"kept"), Status::SUCCESS);
        mac.client.close(first);
        other.client.close(second);
        assert_eq!(mac.get("f:s"), Ok(b"kept".to_vec()), "{size}");
    }
}

#[test]
fn finder_info_is_listed_for_every_user_on_every_share() {
    let server = server(MetadataPlace::Netatalk);
    let mut mac = Client::mac(&server, "alice", "mac");
    let mut alice = Client::mac(&server, "alice", "share");
    for name in ["f", "g"] {
        mac.put(&format!("{name}:AFP_Resource"), b"fork");
    }
    mac.put("f:AFP_AfpInfo", &info(1));
    // Stored by a Mac on the share without the extensions.
    alice.put("g:AFP_AfpInfo", &info(2));
    server.advance_seconds(1_000);
    // Bob may not read the attributes of this file. What Bob sees must not be remembered for Alice.
    let hidden = server::vfs::SetMetadata { mode: Some(0o600), ..Default::default() };
    block_on(testing::volume::node(&server.volume, "f").set_metadata(&testing::root(), hidden)).expect("root may");
    server.advance_seconds(1_000);
    let mut bob = Client::mac(&server, "bob", "mac");
    let (_, fork, finder) = bob.listed("f");
    assert_eq!((fork, finder), (0, [0; 12]));
    let (rights, fork, finder) = mac.listed("f");
    assert_eq!((fork, finder), (4, listed_info(1)));
    assert_eq!(rights & A::FILE_WRITE_DATA.0, A::FILE_WRITE_DATA.0);
    // Each share shows the Finder info that it stores, whichever is listed first.
    assert_eq!(alice.listed("g").1, 4);
    assert_eq!((alice.listed("g").2, mac.listed("g").2), (listed_info(2), listed_info(2)));
    assert_eq!(alice.listed("f").2, [0; 12]);
}

#[test]
fn finder_info_of_ordinary_streams_moves_to_the_attribute_of_netatalk() {
    let server = server(MetadataPlace::Netatalk);
    let (mut plain, mut mac) = (Client::new(&server, "alice", "share"), Client::mac(&server, "alice", "mac"));
    plain.put("f:AFP_AfpInfo", &info(1));
    assert_eq!(mac.streams("f"), ["AFP_AfpInfo"]);
    assert_eq!(mac.get("f:AFP_AfpInfo"), Ok(info(1)));
    assert!(attribute(&server, "f", NETATALK).is_none());
    mac.put("f:AFP_AfpInfo", &info(2));
    assert_eq!((attribute(&server, "f", NETATALK).is_some(), attribute(&server, "f", ORDINARY)), (true, None));
    assert_eq!(mac.get("f:AFP_AfpInfo"), Ok(info(2)));
    // Finder info that is removed does not come back from the other attribute.
    plain.put("f:AFP_AfpInfo", &info(1));
    mac.put("f:AFP_AfpInfo", &info(0));
    assert_eq!(mac.look("f:AFP_AfpInfo"), Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn an_attribute_of_netatalk_that_cannot_be_understood_is_left_alone() {
    let server = server(MetadataPlace::Netatalk);
    let mut mac = Client::mac(&server, "alice", "mac");
    mac.put("f", b"content");
    mac.put("f:s", b"stream");
    mac.put("g", b"replaced");
    mac.put("g:AFP_AfpInfo", &info(3));
    set_attribute(&server, "f", NETATALK, b"nonsense");
    assert_eq!(mac.streams("f"), ["s"]);
    assert_eq!(mac.look("f:AFP_AfpInfo"), Status::OBJECT_NAME_NOT_FOUND);
    let file = mac.open("f:AFP_AfpInfo");
    assert_ne!(mac.write(file, 0, &info(1)), Status::SUCCESS);
    mac.client.close(file);
    assert_eq!(mac.copy_file("f", "g"), Status::SUCCESS);
    assert_eq!((mac.get("g"), mac.get("g:s")), (Ok(b"content".to_vec()), Ok(b"stream".to_vec())));
    let replaced = mac.create_with("f", ALL, Disposition::OVERWRITE, Vec::new()).expect("it can be overwritten");
    mac.client.close(replaced);
    assert_eq!(attribute(&server, "f", NETATALK), Some(b"nonsense".to_vec()));
}

#[test]
fn other_information_of_netatalk_outlives_the_finder_info() {
    let server = server(MetadataPlace::Netatalk);
    let mut mac = Client::mac(&server, "alice", "mac");
    for (has_comment, name) in [(false, "f"), (true, "g")] {
        mac.put(name, b"");
        let created = block_on(testing::volume::node(&server.volume, name).metadata(&SERVER)).expect("it is there");
        let mut value = apple_double::metadata(&[1; 32], created.created.secs, 0);
        if has_comment {
            // The length of the comment, the second entry, and its text.
            (value[49], value[154]) = (1, b'c');
        }
        set_attribute(&server, name, NETATALK, &value);
        mac.put(&format!("{name}:AFP_AfpInfo"), &info(0));
        value[122..154].fill(0);
        assert_eq!(attribute(&server, name, NETATALK), has_comment.then_some(value), "{name}");
        assert_eq!(mac.streams(name), Vec::<String>::new());
        mac.put(&format!("{name}:AFP_AfpInfo"), &info(4));
        assert_eq!(mac.get(&format!("{name}:AFP_AfpInfo")), Ok(info(4)));
    }
}

#[test]
fn a_copy_does_not_overwrite_an_open_stream() {
    let server = server(MetadataPlace::Netatalk);
    let mut mac = Client::mac(&server, "alice", "mac");
    mac.put("f", b"new");
    mac.put("f:s", b"new");
    mac.put("g", b"old");
    mac.put("g:s", b"old");
    let stream = mac.open("g:s");
    assert_eq!(mac.copy_file("f", "g"), Status::SHARING_VIOLATION);
    assert_eq!((mac.get("g"), mac.read(stream)), (Ok(b"old".to_vec()), Ok(b"old".to_vec())));
    mac.client.close(stream);
    assert_eq!(mac.copy_file("f", "g"), Status::SUCCESS);
    assert_eq!((mac.get("g"), mac.get("g:s")), (Ok(b"new".to_vec()), Ok(b"new".to_vec())));
    assert_eq!(server.open_files(), 0);
}

#[test]
fn ids_are_hidden_from_macs_in_every_class() {
    let server = server(MetadataPlace::Netatalk);
    for (share, hides) in [("mac", true), ("share", false)] {
        let mut mac = Client::mac(&server, "alice", share);
        let file = mac.open("f");
        let id = mac.query(file, Class::INTERNAL).1;
        assert_eq!(id == [0; 8], hides, "{share}");
        // FileBasicInformation and FileStandardInformation are before it.
        assert_eq!(mac.query(file, Class::ALL).1[64..72], id, "{share}");
        assert_eq!(mac.query(file, Class::ID).1[8..16], id, "{share}");
        mac.client.close(file);
    }
}

#[test]
fn finder_info_is_written_from_its_start() {
    let server = server(MetadataPlace::Stream);
    let mut mac = Client::mac(&server, "alice", "mac");
    let file = mac.open("f:AFP_AfpInfo");
    assert_ne!(mac.write(file, 4, &info(1)[..20]), Status::SUCCESS);
    assert_eq!(mac.write(file, 0, &info(1)), Status::SUCCESS);
    assert_eq!(mac.read(file), Ok(info(1)));
}

#[test]
fn the_size_of_backups_is_kept_for_some_seconds() {
    let server = with(MetadataPlace::Netatalk, |policy| {
        let mac = policy.shares.get_mut("mac").map(Arc::make_mut).expect("it is there");
        let size = Some(1 << 20);
        mac.mac = Some(Arc::new(MacPolicy { time_machine: true, time_machine_max_size: size, ..Default::default() }));
    });
    for (name, band_size) in [("a.sparsebundle", 4096_u64), ("absurd.sparsebundle", 1 << 63)] {
        for directory in [name.to_owned(), format!("{name}/bands")] {
            server.create_locally(&directory, NewFile::new(Create::Directory, 0o777));
        }
        let description = format!("<dict><key>band-size</key><integer>{band_size}</integer></dict>");
        let mut mac = Client::mac(&server, "alice", "mac");
        mac.put(&format!(r"{name}\Info.plist"), description.as_bytes());
        mac.put(&format!(r"{name}\bands\0"), b"band");
    }
    let mut mac = Client::mac(&server, "alice", "mac");
    let root = mac.create_with("", 0x81, Disposition::OPEN, Vec::new()).expect("the root can be opened");
    let left = |mac: &mut Client| {
        let query = QueryInfoRequest {
            info_type: InfoType::FILESYSTEM,
            // FileFsSizeInformation.
            file_info_class: 3,
            output_buffer_length: 24,
            file_id: root,
            ..QueryInfoRequest::default()
        };
        let response = mac.client.request(Command::QUERY_INFO, |out| query.encode(out));
        let buffer = QueryInfoResponse::decode(&response).expect("a well-formed message").buffer.to_vec();
        let number = |at: usize| u64::from_le_bytes(buffer[at..at + 8].try_into().expect("eight bytes"));
        (number(0), number(8))
    };
    // In blocks of 1 KiB. The bundle with absurd bands is not counted.
    assert_eq!(left(&mut mac), (1024, 1020));
    mac.put(r"a.sparsebundle\bands\1", b"band");
    assert_eq!(left(&mut mac), (1024, 1020));
    server.advance_seconds(10);
    assert_eq!(left(&mut mac), (1024, 1016));
}
