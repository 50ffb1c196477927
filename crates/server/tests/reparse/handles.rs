//! A handle opened with FILE_OPEN_REPARSE_POINT refers to the link itself, whatever its target.

use proto::bytes::{Writer, utf16_bytes};
use proto::fscc::{FileAttributes, FileBasicInformation, FileRenameInformation};
use proto::smb2::create::{CreateDisposition, CreateOptions};
use proto::smb2::header::Command;
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::read::ReadRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, InfoType, SecurityInformation};
use proto::status::Status;
use server::answer::block_on;
use server::testing::{self, TestClient, status};
use server::vfs::{Kind, Lookup, LookupOptions, Metadata, NewFile, Op, SymlinkPolicy};

use crate::fixture::{ALL, Fixture, fixture, path};

const TARGETS: [&str; 3] = ["dir/file", "dir", "missing"];
const DELETE: u32 = 0x0001_0000;

pub(crate) fn set_info(
    client: &mut TestClient,
    file_id: FileId,
    class: u8,
    encode: impl FnOnce(&mut Writer<'_>),
) -> Status {
    let mut buffer = Vec::new();
    encode(&mut Writer::new(&mut buffer));
    let set = SetInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: class,
        buffer: &buffer,
        file_id,
        ..SetInfoRequest::default()
    };
    status(&client.request(Command::SET_INFO, |out| set.encode(out)))
}

/// Returns a share with `dir/file`, and `link`, which was created locally and leads to `target`.
fn linked(target: &str) -> Fixture {
    let mut fixture = fixture(|_| {});
    let directory = fixture.directory("dir");
    fixture.client.close(directory);
    let file = fixture.make(r"dir\file");
    fixture.write(file, "content");
    fixture.client.close(file);
    let (who, name) = (found(&fixture, "dir/file").1, path("link"));
    let op = Op::from(server::vfs::Identity { uid: who.uid, gid: who.gid, groups: Box::default() });
    block_on(fixture.server.volume.create(&op, &name, NewFile::symlink(target.as_bytes(), None)))
        .expect("created by a local program");
    fixture
}

fn found(fixture: &Fixture, name: &str) -> (std::sync::Arc<dyn server::vfs::Node>, Metadata) {
    match block_on(fixture.server.volume.lookup(
        &testing::root(),
        &path(name),
        LookupOptions::exact(SymlinkPolicy::NONE),
    )) {
        Ok(Lookup::Found { node, metadata, .. }) => (node, metadata),
        _ => panic!("{name} is missing"),
    }
}

fn is_there(fixture: &Fixture, name: &str) -> bool {
    let found = block_on(fixture.server.volume.lookup(
        &testing::root(),
        &path(name),
        LookupOptions::exact(SymlinkPolicy::NONE),
    ));
    matches!(found, Ok(Lookup::Found { .. }))
}

/// Checks that the possible targets of the link are unchanged.
#[track_caller]
fn untouched(fixture: &mut Fixture, before: (Metadata, Metadata)) {
    assert_eq!((found(fixture, "dir").1, found(fixture, "dir/file").1), before);
    assert_eq!(fixture.content(r"dir\file"), "content");
}

fn state(fixture: &Fixture) -> (Metadata, Metadata) {
    (found(fixture, "dir").1, found(fixture, "dir/file").1)
}

#[test]
fn a_link_is_deleted_and_its_target_remains() {
    for target in TARGETS {
        for way in 0..4 {
            let mut fixture = linked(target);
            let before = state(&fixture);
            let directory = if target == "dir" { CreateOptions::DIRECTORY_FILE.0 } else { 0 };
            let options = match way {
                0 => 0,
                1 => CreateOptions::DELETE_ON_CLOSE.0,
                2 => directory,
                _ => directory | CreateOptions::DELETE_ON_CLOSE.0,
            };
            let opened =
                fixture.open_itself("link", DELETE | 0x80, options).unwrap_or_else(|why| panic!("{target}: {why}"));
            match way {
                0 => assert_eq!(set_info(&mut fixture.client, opened.file_id, 13, |out| out.u8(1)), Status::SUCCESS),
                // FILE_DISPOSITION_DELETE.
                2 => assert_eq!(set_info(&mut fixture.client, opened.file_id, 64, |out| out.u32(1)), Status::SUCCESS),
                _ => {}
            }
            fixture.client.close(opened.file_id);
            assert!(!is_there(&fixture, "link"), "{target} {way}");
            untouched(&mut fixture, before);
        }
    }
}

#[test]
fn a_link_to_a_directory_is_shown_as_a_directory() {
    for (target, directory) in [("dir", true), ("dir/file", false), ("missing", false)] {
        let mut fixture = linked(target);
        let opened = fixture.open_itself("link", 0x80, 0).expect("the link itself");
        let bits = FileAttributes::REPARSE_POINT.0 | if directory { FileAttributes::DIRECTORY.0 } else { 0 };
        let mask = FileAttributes::REPARSE_POINT.0 | FileAttributes::DIRECTORY.0;
        assert_eq!(opened.file_attributes & mask, bits, "{target}");
        for (option, expected) in [
            (CreateOptions::DIRECTORY_FILE.0, (target == "dir/file").then_some(Status::NOT_A_DIRECTORY)),
            (CreateOptions::NON_DIRECTORY_FILE.0, directory.then_some(Status::FILE_IS_A_DIRECTORY)),
        ] {
            assert_eq!(fixture.open_itself("link", 0x80, option).err(), expected, "{target} {option}");
        }
    }
}

#[test]
fn attributes_set_on_an_opened_link_apply_to_the_link() {
    for target in TARGETS {
        let mut fixture = linked(target);
        let before = state(&fixture);
        let link = fixture.open_itself("link", ALL, 0).unwrap_or_else(|why| panic!("{target}: {why}")).file_id;
        let time = proto::dtyp::FileTime::from_unix(1_000, 0);
        let basic = FileBasicInformation {
            creation_time: time,
            last_access_time: time,
            last_write_time: time,
            change_time: time,
            file_attributes: FileAttributes::HIDDEN,
        };
        assert_eq!(set_info(&mut fixture.client, link, 4, |out| basic.encode(out)), Status::SUCCESS, "{target}");
        let metadata = found(&fixture, "link").1;
        assert_eq!((metadata.accessed.secs, metadata.modified.secs), (1_000, 1_000), "{target}");
        let attribute = |out: &mut Writer<'_>| out.bytes(b"\0\0\0\0\0\x01\x01\0a\0b\0\0");
        assert_eq!(set_info(&mut fixture.client, link, 15, attribute), Status::EAS_NOT_SUPPORTED, "{target}");
        assert_eq!(set_info(&mut fixture.client, link, 20, |out| out.u64(1)), Status::INVALID_PARAMETER, "{target}");
        let descriptor = fixture.client.security(link, SecurityInformation::OWNER | SecurityInformation::DACL);
        assert!(descriptor.owner.is_some(), "{target}");
        let mut bytes = Vec::new();
        descriptor.encode(&mut Writer::new(&mut bytes));
        let set = testing::set_security(link, SecurityInformation::DACL, &bytes);
        let refused = status(&fixture.client.request(Command::SET_INFO, |out| set.encode(out)));
        assert_eq!(refused, Status::NOT_SUPPORTED, "{target}");
        let read = ReadRequest { length: 10, file_id: link, ..ReadRequest::default() };
        assert_eq!(status(&fixture.client.request(Command::READ, |out| read.encode(out))), Status::END_OF_FILE);
        let write = WriteRequest { file_id: link, length: 1, buffer: b"x", ..WriteRequest::default() };
        assert_eq!(status(&fixture.client.request(Command::WRITE, |out| write.encode(out))), Status::ACCESS_DENIED);
        for class in [4, 5, 6, 7, 18, 22, 34, 35] {
            let query = QueryInfoRequest {
                info_type: InfoType::FILE,
                file_info_class: class,
                output_buffer_length: 1_000,
                file_id: link,
                ..QueryInfoRequest::default()
            };
            let response = fixture.client.request(Command::QUERY_INFO, |out| query.encode(out));
            assert_eq!(status(&response), Status::SUCCESS, "{target} {class}");
            assert!(QueryInfoResponse::decode(&response).is_ok(), "{target} {class}");
        }
        untouched(&mut fixture, before);
    }
}

#[test]
fn a_link_is_renamed_and_linked_itself() {
    for target in TARGETS {
        let mut fixture = linked(target);
        let before = state(&fixture);
        let link = fixture.open_itself("link", DELETE | 0x0010_0180, 0).expect("the link itself").file_id;
        for (class, name) in [(10, "moved"), (11, "second")] {
            let name = utf16_bytes(name);
            let named = FileRenameInformation { replace_if_exists: false, file_name: &name, ..Default::default() };
            assert_eq!(
                set_info(&mut fixture.client, link, class, |out| named.encode(out)),
                Status::SUCCESS,
                "{target}"
            );
        }
        fixture.client.close(link);
        assert!(!is_there(&fixture, "link"));
        for name in ["moved", "second"] {
            assert_eq!(fixture.on_disk(name), (Kind::Symlink, Some(target.into())), "{name}");
        }
        untouched(&mut fixture, before);
    }
}

#[test]
fn a_name_that_is_a_link_is_replaced_itself() {
    for (target, expected) in
        [("dir/file", Status::SUCCESS), ("missing", Status::SUCCESS), ("dir", Status::ACCESS_DENIED)]
    {
        let mut fixture = linked(target);
        let before = state(&fixture);
        let file = fixture.make("new");
        let name = utf16_bytes("link");
        let named = FileRenameInformation { replace_if_exists: true, file_name: &name, ..Default::default() };
        assert_eq!(set_info(&mut fixture.client, file, 10, |out| named.encode(out)), expected, "{target}");
        let kind = if expected == Status::SUCCESS { Kind::File } else { Kind::Symlink };
        assert_eq!(fixture.on_disk("link").0, kind, "{target}");
        untouched(&mut fixture, before);
    }
}

#[test]
fn a_followed_link_never_replaces_its_target() {
    let mut fixture = linked("dir/file");
    let opened = fixture.create("link", CreateDisposition::OPEN, 0).expect("the link is followed").file_id;
    let name = utf16_bytes(r"dir\file");
    let named = FileRenameInformation { replace_if_exists: true, file_name: &name, ..Default::default() };
    let refused = set_info(&mut fixture.client, opened, 10, |out| named.encode(out));
    assert_eq!(refused, Status::OBJECT_NAME_COLLISION);
    assert_eq!(fixture.content(r"dir\file"), "content");
}

#[test]
fn a_dangling_link_is_followed_by_clients() {
    let mut fixture = fixture(|_| {});
    fixture.make_link("link", "missing");
    assert_eq!(fixture.on_disk("link").0, Kind::Symlink);
    for name in ["link", r"link\file", r"link:stream"] {
        assert_eq!(fixture.refused(name, CreateDisposition::OPEN), Status::STOPPED_ON_SYMLINK, "{name}");
    }
    let link = fixture.open_itself("link", DELETE, CreateOptions::DELETE_ON_CLOSE.0).expect("the link itself").file_id;
    fixture.client.close(link);
    assert!(!is_there(&fixture, "link"));
}
