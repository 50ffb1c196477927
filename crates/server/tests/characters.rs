//! Characters that clients see as others (`vfs objects = catia`), through the whole state machine.

use proto::bytes::{utf16_bytes, utf16_units};
use proto::fscc::{FileInformationClass, FileRenameInformation};
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::header::Command;
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{FileId, InfoType};
use proto::status::Status;
use server::answer::block_on;
use server::name::CharacterMap;
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::{Create, ListRequest, NewFile, Page};

const ALL: FileInformationClass = FileInformationClass(18);
const STREAMS: FileInformationClass = FileInformationClass(22);
const NAMES: FileInformationClass = FileInformationClass(12);
const RENAME: FileInformationClass = FileInformationClass(10);

fn server() -> TestServer {
    let characters = CharacterMap::new([(0x22, 0xa8), (0x2a, 0xa4), (0x2f, 0xf8), (0x3a, 0xf7)]);
    TestServer::builder().share(|share| share.names.characters = characters).start()
}

fn create(client: &mut TestClient, name: &str, options: u32, disposition: CreateDisposition) -> Result<FileId, Status> {
    let name = utf16_bytes(name);
    let create = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: 0x0013_019f,
        share_access: ShareAccess(7),
        create_disposition: disposition,
        create_options: CreateOptions(options),
        name: &name,
        ..CreateRequest::default()
    };
    let response = client.request(Command::CREATE, |out| create.encode(out));
    match status(&response) {
        Status::SUCCESS => Ok(CreateResponse::decode(&response).expect("a response").file_id),
        refused => Err(refused),
    }
}

/// Returns the names in the root as they are on disk.
fn on_disk(server: &TestServer) -> Vec<String> {
    let root = testing::volume::node(&server.volume, "");
    let all = ListRequest { cursor: 0, count: 100, metadata: false };
    let Page { entries, .. } = block_on(root.list(&testing::root(), all)).expect("root may list");
    let mut names: Vec<_> = entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
    names.sort();
    names
}

/// Returns the names in the root that match the pattern, as a client sees them.
fn listed(client: &mut TestClient, pattern: &str) -> Vec<String> {
    let root = create(client, "", CreateOptions::DIRECTORY_FILE.0, CreateDisposition::OPEN).expect("the root opens");
    let pattern = utf16_bytes(pattern);
    let request = QueryDirectoryRequest {
        file_information_class: NAMES.0,
        flags: QueryDirectoryFlags(0),
        file_index: 0,
        file_id: root,
        file_name: &pattern,
        output_buffer_length: 65_536,
    };
    let response = client.request(Command::QUERY_DIRECTORY, |out| request.encode(out));
    client.close(root);
    if status(&response) != Status::SUCCESS {
        return Vec::new();
    }
    let buffer = QueryDirectoryResponse::decode(&response).expect("a response").buffer.to_vec();
    let (mut names, mut at) = (Vec::new(), 0);
    loop {
        let field = |offset: usize| {
            let bytes = buffer[at + offset..at + offset + 4].try_into().expect("four bytes");
            u32::from_le_bytes(bytes) as usize
        };
        let (next, length) = (field(0), field(8));
        names.push(text(&buffer[at + 12..at + 12 + length]));
        if next == 0 {
            names.sort();
            return names;
        }
        at += next;
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf16(&utf16_units(bytes).expect("whole units")).expect("valid UTF-16")
}

fn query(client: &mut TestClient, file_id: FileId, class: FileInformationClass) -> Vec<u8> {
    let request = QueryInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: class.0,
        output_buffer_length: 4096,
        file_id,
        ..QueryInfoRequest::default()
    };
    let response = client.request(Command::QUERY_INFO, |out| request.encode(out));
    assert_eq!(status(&response), Status::SUCCESS);
    QueryInfoResponse::decode(&response).expect("a response").buffer.to_vec()
}

#[test]
fn names_are_mapped_in_requests_and_responses() {
    let server = server();
    let mut client = TestClient::logged_on(&server, "alice");
    let file = create(&mut client, "n\u{a8}n", 0, CreateDisposition::CREATE).expect("it is created");
    assert_eq!(on_disk(&server), ["n\"n"]);
    assert!(query(&mut client, file, ALL).ends_with(&utf16_bytes("\\n\u{a8}n")));
    let name = utf16_bytes("m\u{a4}m");
    let rename = FileRenameInformation { replace_if_exists: false, root_directory: 0, file_name: &name };
    let mut buffer = Vec::new();
    rename.encode(&mut proto::bytes::Writer::new(&mut buffer));
    let set = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: RENAME.0,
        additional_information: 0,
        file_id: file,
        buffer: &buffer,
    };
    assert_eq!(status(&client.request(Command::SET_INFO, |out| set.encode(out))), Status::SUCCESS);
    assert_eq!(on_disk(&server), ["m*m"]);
    client.close(file);
    let stream = create(&mut client, "m\u{a4}m:s\u{a8}t", 0, CreateDisposition::CREATE).expect("it is created");
    let streams = query(&mut client, stream, STREAMS);
    let shown = utf16_bytes(":s\u{a8}t:$DATA");
    assert!(streams.windows(shown.len()).any(|window| window == shown));
    client.close(stream);
    assert_eq!(create(&mut client, "a\u{f8}b", 0, CreateDisposition::CREATE), Err(Status::OBJECT_NAME_INVALID));
}

#[test]
fn listings_show_the_names_that_clients_can_use() {
    let server = server();
    let mut client = TestClient::logged_on(&server, "alice");
    for name in ["a:b", "plain", "dup\"x", "dup\u{a8}x", "q\u{a8}q", "new|line"] {
        server.create_locally(name, NewFile::new(Create::Directory, 0o777));
    }
    let all = [".", "..", "a\u{f7}b", "dup\u{a8}x", "new\u{f027}line", "plain"];
    assert_eq!(listed(&mut client, "*"), all);
    assert_eq!(listed(&mut client, "A\u{f7}*"), ["a\u{f7}b"]);
    assert_eq!(listed(&mut client, "a\u{f7}b"), ["a\u{f7}b"]);
    assert!(listed(&mut client, "q*").is_empty());
    // The name means the file that is listed.
    let options = CreateOptions::DIRECTORY_FILE.0 | CreateOptions::DELETE_ON_CLOSE.0;
    let directory = create(&mut client, "dup\u{a8}x", options, CreateDisposition::OPEN).expect("it opens");
    client.close(directory);
    assert!(!on_disk(&server).contains(&"dup\"x".to_owned()) && on_disk(&server).contains(&"dup\u{a8}x".to_owned()));
    assert_eq!(create(&mut client, "q\u{a8}q", 0, CreateDisposition::OPEN), Err(Status::OBJECT_NAME_NOT_FOUND));
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
