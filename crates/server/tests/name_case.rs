//! Names of new files on shares that do not preserve their case.

use std::sync::Arc;

use proto::bytes::utf16_bytes;
use proto::dtyp::AccessMask;
use proto::fscc::{FileInformationClass, FileRenameInformation};
use proto::smb2::InfoType;
use proto::smb2::create::{CreateDisposition, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess};
use proto::smb2::header::Command;
use proto::smb2::set_info::SetInfoRequest;
use proto::status::Status;
use server::answer::block_on;
use server::name::Capitals;
use server::policy::NamePolicy;
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::{ListRequest, Lookup, LookupOptions, Page, RelPath, SymlinkPolicy, Vfs};

/// The rights to write and to delete.
const ALL: AccessMask = AccessMask(0x001f_01ff);

fn client(configure: impl Fn(&mut NamePolicy)) -> (TestClient, Arc<dyn Vfs>) {
    let server = TestServer::builder().share(|share| configure(&mut share.names)).start();
    (TestClient::logged_on(&server, "alice"), server.volume.clone())
}

/// Opens a file, which is created if it does not exist.
fn make(client: &mut TestClient, name: &str) {
    let name = utf16_bytes(name);
    let create = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: ALL.0,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        name: &name,
        ..CreateRequest::default()
    };
    let response = client.request(Command::CREATE, |out| create.encode(out));
    assert_eq!(status(&response), Status::SUCCESS);
    client.close(CreateResponse::decode(&response).expect("a response").file_id);
}

fn rename(client: &mut TestClient, from: &str, to: &str) -> Status {
    let file_id = client.open(from, ALL);
    let name = utf16_bytes(to);
    let mut buffer = Vec::new();
    let target = FileRenameInformation { replace_if_exists: false, file_name: &name, ..Default::default() };
    target.encode(&mut proto::bytes::Writer::new(&mut buffer));
    let (info_type, file_info_class) = (InfoType::FILE, FileInformationClass::RENAME.0);
    let set = SetInfoRequest { info_type, file_info_class, additional_information: 0, file_id, buffer: &buffer };
    let status = status(&client.request(Command::SET_INFO, |out| set.encode(out)));
    client.close(file_id);
    status
}

/// Returns the names on disk.
fn names(volume: &Arc<dyn Vfs>) -> Vec<String> {
    let root = volume.lookup(&testing::root(), &RelPath::root(), LookupOptions::exact(SymlinkPolicy::NONE));
    let Ok(Lookup::Found { node, .. }) = block_on(root) else { panic!("the root exists") };
    let all = ListRequest { cursor: 0, count: 100, metadata: false };
    let Page { entries, .. } = block_on(node.list(&testing::root(), all)).expect("root may list");
    let mut names: Vec<_> = entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
    names.sort();
    names
}

#[test]
fn new_files_get_the_default_case() {
    let (mut client, volume) = client(|names| names.preserve_case = false);
    for name in ["One.Text", "ONE.TEXT", "TWO"] {
        make(&mut client, name);
    }
    assert_eq!(names(&volume), ["one.text", "two"]);
    assert_eq!(rename(&mut client, "two", "Three.Text"), Status::SUCCESS);
    assert_eq!(rename(&mut client, "Three.Text", "THREE.text"), Status::SUCCESS);
    assert_eq!(names(&volume), ["one.text", "three.text"]);
    assert_eq!(rename(&mut client, "three.text", "One.Text"), Status::OBJECT_NAME_COLLISION);
}

#[test]
fn only_short_names_may_get_the_default_case() {
    let (mut client, volume) = client(|names| {
        names.short_preserve_case = false;
        names.default_case = Capitals::Upper;
    });
    for name in ["Short.txt", "Not a short name"] {
        make(&mut client, name);
    }
    assert_eq!(names(&volume), ["Not a short name", "SHORT.TXT"]);
}

#[test]
fn a_file_with_the_new_name_is_opened_if_case_matters() {
    let (mut client, volume) = client(|names| (names.case_sensitive, names.preserve_case) = (true, false));
    for name in ["A long name.text", "A LONG NAME.text", "other"] {
        make(&mut client, name);
    }
    assert_eq!(names(&volume), ["a long name.text", "other"]);
    assert_eq!(rename(&mut client, "other", "A Long Name.text"), Status::OBJECT_NAME_COLLISION);
}

#[test]
fn all_names_of_a_share_may_have_one_case() {
    let (mut client, volume) = client(|names| {
        (names.case_sensitive, names.preserve_case, names.short_preserve_case) = (true, false, false);
    });
    for name in ["First", "FIRST", "Second"] {
        make(&mut client, name);
    }
    assert_eq!(names(&volume), ["first", "second"]);
    assert_eq!(rename(&mut client, "SECOND", "THIRD"), Status::SUCCESS);
    assert_eq!(names(&volume), ["first", "third"]);
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
