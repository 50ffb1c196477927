//! Attempts to reach hidden or outside files by links, and to damage other users' files by creating links.

use proto::bytes::utf16_bytes;
use proto::dtyp::AccessMask;
use proto::fscc::{FileRenameInformation, ReparseTag};
use proto::smb2::create::{CreateDisposition, CreateOptions, ShareAccess};
use proto::smb2::error::SymlinkFlags;
use proto::smb2::header::Command;
use proto::smb2::ioctl::FsctlCode;
use proto::smb2::write::WriteRequest;
use proto::status::Status;
use server::testing::{TestClient, status};
use server::vfs::{Kind, NewFile};

use crate::fixture::{Fixture, buffer, fixture, link, open};
use crate::handles::set_info;

#[test]
fn no_rename_makes_a_link_of_a_client_lead_out_of_the_share() {
    let mut fixture = fixture(|_| {});
    for name in ["a", r"a\b"] {
        let made = fixture.directory(name);
        fixture.client.close(made);
    }
    fixture.make_link(r"a\b\climbing", r"..\..\outside\file");
    fixture.make_link(r"a\b\detour", r"c\..\..\..\outside");
    fixture.make_link(r"a\b\down", r"c\file");
    // Only a link that leads downwards becomes a Linux link, because it stays in the share wherever it is moved.
    for (name, kind) in [("climbing", Kind::File), ("detour", Kind::File), ("down", Kind::Symlink)] {
        assert_eq!(fixture.on_disk(&format!("a/b/{name}")).0, kind, "{name}");
    }
    let climbing = fixture.open_itself(r"a\b\climbing", 0x0011_0180, 0).expect("the link itself");
    let target = utf16_bytes("climbing");
    let rename = FileRenameInformation { replace_if_exists: false, file_name: &target, ..Default::default() };
    assert_eq!(set_info(&mut fixture.client, climbing.file_id, 10, |out| rename.encode(out)), Status::SUCCESS);
    fixture.client.close(climbing.file_id);
    assert_eq!(fixture.on_disk("climbing").0, Kind::File);
    assert_eq!(fixture.refused("climbing", CreateDisposition::OPEN), Status::STOPPED_ON_SYMLINK);
}

#[test]
fn a_share_with_wide_links_has_no_links_of_clients() {
    let mut fixture = fixture(|share| share.names.wide_links = true);
    let target = fixture.make("target");
    fixture.client.close(target);
    fixture.make_link("link", "target");
    assert_eq!(fixture.on_disk("link"), (Kind::File, None));
    assert_eq!(fixture.refused("link", CreateDisposition::OPEN), Status::STOPPED_ON_SYMLINK);
}

/// Creates an empty file of bob's, opened exclusively.
fn bobs_file(fixture: &Fixture) -> (TestClient, proto::smb2::FileId) {
    let mut bob = TestClient::logged_on(&fixture.server, "bob");
    let all = CreateDisposition::CREATE;
    let made = open(&mut bob, "report.doc", 0x0012_019f, ShareAccess(0), all, 0).expect("the name is not in use");
    (bob, made.file_id)
}

#[test]
fn an_open_file_becomes_no_reparse_point() {
    let mut fixture = fixture(|_| {});
    let (mut bob, his) = bobs_file(&fixture);
    let attributes = (AccessMask::FILE_WRITE_ATTRIBUTES | AccessMask::FILE_READ_ATTRIBUTES).0;
    let alices = fixture.open_itself("report.doc", attributes, 0).expect("no share mode conflicts").file_id;
    for asked in [link("elsewhere", SymlinkFlags::RELATIVE), buffer(ReparseTag::NFS, b"data")] {
        fixture.set(alices, &asked, Status::SHARING_VIOLATION);
    }
    let delete = buffer(ReparseTag::SYMLINK, b"");
    assert_eq!(fixture.control(FsctlCode::DELETE_REPARSE_POINT, alices, &delete).0, Status::SHARING_VIOLATION);
    fixture.client.close(alices);
    let write = WriteRequest { file_id: his, length: 3, buffer: b"day", ..WriteRequest::default() };
    assert_eq!(status(&bob.request(Command::WRITE, |out| write.encode(out))), Status::SUCCESS);
    bob.close(his);
    fixture.client = bob;
    assert_eq!(fixture.content("report.doc"), "day");
}

#[test]
fn a_link_replaces_only_the_file_that_its_creator_closed_last() {
    let mut fixture = fixture(|_| {});
    let relative = |target| link(target, SymlinkFlags::RELATIVE);
    // A handle without the right to delete.
    let made = fixture.make("kept");
    fixture.client.close(made);
    let attributes = (AccessMask::FILE_WRITE_ATTRIBUTES | AccessMask::FILE_READ_ATTRIBUTES).0;
    let handle = fixture.open_itself("kept", attributes, 0).expect("it exists").file_id;
    fixture.set(handle, &relative("target"), Status::SUCCESS);
    fixture.client.close(handle);
    assert_eq!(fixture.on_disk("kept"), (Kind::File, None));
    // Another handle has been opened meanwhile.
    let handle = fixture.make("open");
    fixture.set(handle, &relative("target"), Status::SUCCESS);
    let other = fixture.open_link("open").expect("the link itself").file_id;
    fixture.client.close(handle);
    fixture.client.close(other);
    assert_eq!(fixture.on_disk("open"), (Kind::File, None));
    // The file has content when it is closed.
    let handle = fixture.make("written");
    fixture.set(handle, &relative("target"), Status::SUCCESS);
    fixture.write(handle, "content");
    fixture.client.close(handle);
    assert_eq!(fixture.on_disk("written"), (Kind::File, None));
    // The reparse point has been removed again.
    let handle = fixture.make("undone");
    fixture.set(handle, &relative("target"), Status::SUCCESS);
    let undone = fixture.control(FsctlCode::DELETE_REPARSE_POINT, handle, &buffer(ReparseTag::SYMLINK, b"")).0;
    assert_eq!(undone, Status::SUCCESS);
    fixture.client.close(handle);
    assert_eq!(fixture.on_disk("undone"), (Kind::File, None));
    // The file is deleted by the handle.
    let handle = fixture.make("doomed");
    fixture.set(handle, &relative("target"), Status::SUCCESS);
    assert_eq!(set_info(&mut fixture.client, handle, 13, |out| out.u8(1)), Status::SUCCESS);
    fixture.client.close(handle);
    assert_eq!(fixture.refused("doomed", CreateDisposition::OPEN), Status::OBJECT_NAME_NOT_FOUND);
}

/// Returns a share that hides `secret` and `.hidden`, which both exist, with links created locally.
fn hiding() -> Fixture {
    let mut fixture = fixture(|share| share.names.veto_files = vec!["secret".into(), ".hidden".into()]);
    for (name, target) in [
        ("to_secret", "secret"),
        ("to_none", "missing"),
        ("to_hidden", ".hidden"),
        ("to_no_folder", "missing"),
        ("chain", "to_secret"),
        ("shown", "public"),
    ] {
        fixture.link_locally(name, target);
    }
    let public = fixture.make("public");
    fixture.write(public, "public");
    fixture.client.close(public);
    let volume = fixture.server.volume.clone();
    let make = |name: &str, what| {
        use server::answer::block_on;
        block_on(volume.create(&server::testing::root(), &crate::fixture::path(name), NewFile::new(what, 0o777)))
            .expect("new");
    };
    use server::vfs::{Access, Create};
    make("secret", Create::File(Access::default()));
    make(".hidden", Create::Directory);
    make(".hidden/file", Create::File(Access::default()));
    make(".hidden/folder", Create::Directory);
    fixture
}

#[test]
fn a_link_to_a_vetoed_name_is_a_dangling_link() {
    let mut fixture = hiding();
    let every = [CreateDisposition::OPEN, CreateDisposition::OPEN_IF, CreateDisposition::OVERWRITE_IF];
    for (link, dangling) in [
        ("to_secret", "to_none"),
        ("chain", "to_none"),
        (r"to_hidden\file", r"to_no_folder\file"),
        (r"to_hidden\new", r"to_no_folder\new"),
        (r"to_hidden\folder\new", r"to_no_folder\folder\new"),
        (r"to_hidden\none\new", r"to_no_folder\none\new"),
        (r"to_hidden\file:stream", r"to_no_folder\file:stream"),
    ] {
        for disposition in every {
            let (found, expected) = (fixture.refused(link, disposition), fixture.refused(dangling, disposition));
            assert_eq!(found, expected, "{link} {disposition:?}");
        }
    }
    assert_eq!(fixture.content("shown"), "public");
    // They are listed as clients see them, and can be opened themselves.
    assert_eq!(fixture.entry("to_secret").1, ReparseTag::SYMLINK.0);
    let itself = fixture.open_itself("to_secret", 0x0011_0180, 0).expect("the link itself");
    fixture.client.close(itself.file_id);
    // A new name below one is refused like one below the other.
    let file = fixture.open_itself("public", 0x0011_0180, 0).expect("it exists").file_id;
    for (class, what) in [(10, "renamed"), (11, "linked")] {
        let mut try_in = |folder: &str| {
            let target = utf16_bytes(&format!(r"{folder}\{what}"));
            let named = FileRenameInformation { replace_if_exists: false, file_name: &target, ..Default::default() };
            set_info(&mut fixture.client, file, class, |out| named.encode(out))
        };
        assert_eq!(try_in("to_hidden"), try_in("to_no_folder"), "{what}");
    }
}

#[test]
fn clients_cannot_create_a_link_to_a_vetoed_name() {
    let mut fixture = hiding();
    let made = fixture.make("link");
    for target in ["secret", r".hidden\file", r"..\secret", r"public\.hidden", ".frevo-streams"] {
        fixture.set(made, &link(target, SymlinkFlags::RELATIVE), Status::ACCESS_DENIED);
    }
    let directory = CreateOptions::DIRECTORY_FILE.0;
    assert!(fixture.create("link", CreateDisposition::OPEN, directory).is_err(), "the file remains a file");
}
