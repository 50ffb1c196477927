//! Reparse points as clients create, read and encounter them.

use proto::bytes::utf16_bytes;
use proto::fscc::{FileAttributes, ReparseTag};
use proto::smb2::create::{CreateDisposition, CreateOptions, ShareAccess};
use proto::smb2::error::{ErrorResponse, SymbolicLinkError, SymlinkFlags};
use proto::smb2::ioctl::FsctlCode;
use proto::status::Status;
use server::answer::block_on;
use server::testing::{self, status};
use server::vfs::{Kind, SetMetadata, SetXattr};

use crate::fixture::{buffer, fixture, link, open};

#[test]
fn a_link_that_stays_in_the_share_becomes_a_linux_link() {
    let mut fixture = fixture(|_| {});
    let target = fixture.make("target");
    fixture.write(target, "content");
    let made = fixture.make("link");
    fixture.set(made, &link("target", SymlinkFlags::RELATIVE), Status::SUCCESS);
    fixture.client.close(made);
    assert_eq!(fixture.on_disk("link"), (Kind::Symlink, Some("target".into())));
    assert_eq!(fixture.content("link"), "content");
    // A followed link is reported as its target, in listings too.
    assert_eq!(fixture.entry("link").1, 0);
    let options = CreateOptions::DIRECTORY_FILE.0;
    let made = open(&mut fixture.client, "dir", 0x0011_0181, ShareAccess(7), CreateDisposition::CREATE, options);
    let directory = made.expect("the name is not in use").file_id;
    fixture.set(directory, &link(".", SymlinkFlags::RELATIVE), Status::SUCCESS);
    // It remains a file of the client for as long as it is open.
    assert_eq!(fixture.on_disk("dir"), (Kind::Directory, None));
    fixture.client.close(directory);
    assert_eq!(fixture.on_disk("dir"), (Kind::Symlink, Some(".".into())));
    assert_ne!(fixture.entry("dir").0 & FileAttributes::DIRECTORY.0, 0);
}

#[test]
fn links_that_lead_out_are_kept_only_for_clients() {
    for (target, flags) in [(r"..\secret", SymlinkFlags::RELATIVE), (r"\??\C:\secret", SymlinkFlags(0))] {
        let mut fixture = fixture(|_| {});
        let made = fixture.make("link");
        let asked = link(target, flags);
        fixture.set(made, &asked, Status::SUCCESS);
        fixture.client.close(made);
        assert_eq!(fixture.on_disk("link"), (Kind::File, None));
        let stopped = fixture.create("link", CreateDisposition::OPEN, 0).expect_err("the server does not follow it");
        assert_eq!(status(&stopped), Status::STOPPED_ON_SYMLINK);
        let error = ErrorResponse::decode(&stopped).expect("an error");
        let told = SymbolicLinkError::decode(error.error_data).expect("a link");
        assert_eq!((told.substitute_name, told.flags), (&*utf16_bytes(target), flags));
        assert_eq!(fixture.refused(r"link\file", CreateDisposition::OPEN_IF), Status::STOPPED_ON_SYMLINK);
        let opened = fixture.open_link("link").expect("the reparse point itself");
        assert_ne!(opened.file_attributes & FileAttributes::REPARSE_POINT.0, 0);
        assert_eq!(fixture.control(FsctlCode::GET_REPARSE_POINT, opened.file_id, &[]), (Status::SUCCESS, asked));
        let (attributes, tag) = fixture.entry("link");
        assert_eq!((attributes & FileAttributes::REPARSE_POINT.0 != 0, tag), (true, ReparseTag::SYMLINK.0));
    }
}

#[test]
fn other_tags_are_kept_until_deleted() {
    let mut fixture = fixture(|_| {});
    let made = fixture.make("point");
    let (nfs, other) = (buffer(ReparseTag::NFS, b"data"), buffer(ReparseTag::WOF, b"x"));
    fixture.set(made, &nfs, Status::SUCCESS);
    fixture.set(made, &buffer(ReparseTag::NFS, b"new"), Status::SUCCESS);
    fixture.set(made, &other, Status::IO_REPARSE_TAG_MISMATCH);
    for (wrong, expected) in [
        (&nfs[..7], Status::IO_REPARSE_DATA_INVALID),
        (&buffer(ReparseTag(1), b""), Status::IO_REPARSE_TAG_INVALID),
        (&buffer(ReparseTag::MOUNT_POINT, b""), Status::NOT_A_DIRECTORY),
    ] {
        fixture.set(made, wrong, expected);
    }
    assert_eq!(fixture.refused("point", CreateDisposition::OPEN), Status::IO_REPARSE_TAG_NOT_HANDLED);
    let mut delete = |tag| fixture.control(FsctlCode::DELETE_REPARSE_POINT, made, &buffer(tag, b"")).0;
    assert_eq!(delete(ReparseTag::WOF), Status::IO_REPARSE_TAG_MISMATCH);
    assert_eq!(delete(ReparseTag::NFS), Status::SUCCESS);
    assert_eq!(delete(ReparseTag::NFS), Status::NOT_A_REPARSE_POINT);
    assert_eq!(fixture.control(FsctlCode::GET_REPARSE_POINT, made, &[]).0, Status::NOT_A_REPARSE_POINT);
    assert_eq!(fixture.create("point", CreateDisposition::OPEN, 0).map(|opened| opened.file_attributes & 0x400), Ok(0));
}

#[test]
fn a_file_with_content_cannot_become_a_link() {
    let mut fixture = fixture(|_| {});
    let made = fixture.make("file");
    fixture.write(made, "content");
    fixture.set(made, &link("target", SymlinkFlags::RELATIVE), Status::IO_REPARSE_DATA_INVALID);
    assert_eq!(fixture.content("file"), "content");
}

#[test]
fn clients_learn_the_target_of_links_that_are_not_followed() {
    let mut fixture = fixture(|share| share.names.follow_symlinks = false);
    for (name, target) in [("link", "target"), ("out", r"..\secret")] {
        let made = fixture.make(name);
        fixture.set(made, &link(target, SymlinkFlags::RELATIVE), Status::SUCCESS);
        fixture.client.close(made);
    }
    for (name, unparsed) in [("link", 0), (r"link\a\bc", 10)] {
        let stopped = fixture.create(name, CreateDisposition::OPEN, 0).expect_err("a link");
        assert_eq!(status(&stopped), Status::STOPPED_ON_SYMLINK, "{name}");
        let error = ErrorResponse::decode(&stopped).expect("an error");
        let told = SymbolicLinkError::decode(error.error_data).expect("a link");
        assert_eq!((told.unparsed_path_length, told.flags), (unparsed, SymlinkFlags::RELATIVE), "{name}");
        assert_eq!(told.substitute_name, &*utf16_bytes("target"));
    }
    let opened = fixture.open_link("link").expect("the link itself");
    let (found, data) = fixture.control(FsctlCode::GET_REPARSE_POINT, opened.file_id, &[]);
    assert_eq!((found, data), (Status::SUCCESS, link("target", SymlinkFlags::RELATIVE)));
    assert_eq!(fixture.entry("link").1, ReparseTag::SYMLINK.0);
}

#[test]
fn a_link_out_of_the_share_is_not_visible() {
    let mut fixture = fixture(|share| share.names.follow_symlinks = false);
    for (name, target) in [("out", "../secret"), ("absolute", "/etc/passwd")] {
        fixture.link_locally(name, target);
        assert_eq!(fixture.refused(name, CreateDisposition::OPEN), Status::OBJECT_NAME_NOT_FOUND, "{name}");
    }
}

#[test]
fn an_attribute_without_data_or_data_without_the_attribute_is_not_a_reparse_point() {
    let mut fixture = fixture(|_| {});
    for name in ["mark", "data"] {
        let made = fixture.make(name);
        fixture.set(made, &buffer(ReparseTag::NFS, b"data"), Status::SUCCESS);
        fixture.client.close(made);
    }
    // The state after a crash between the two steps of setting or deleting.
    let (root, attribute) = (testing::root(), "user.SmbReparse");
    let found = |name: &str| testing::volume::node(&fixture.server.volume, name);
    block_on(found("mark").set_xattr(&root, attribute, None, SetXattr::Any)).expect("the attribute existed");
    let unmarked = SetMetadata { dos_attributes: Some(0x20), ..SetMetadata::default() };
    block_on(found("data").set_metadata(&root, unmarked)).expect("root has permission");
    for name in ["mark", "data"] {
        let opened = fixture.create(name, CreateDisposition::OPEN, 0).map_err(|refused| status(&refused));
        let file_id = opened.unwrap_or_else(|refused| panic!("{name}: {refused}")).file_id;
        let get = fixture.control(FsctlCode::GET_REPARSE_POINT, file_id, &[]).0;
        assert_eq!(get, Status::NOT_A_REPARSE_POINT, "{name}");
        // Another tag can still be set.
        fixture.set(file_id, &buffer(ReparseTag::WOF, b"x"), Status::SUCCESS);
        fixture.client.close(file_id);
        assert_eq!(fixture.refused(name, CreateDisposition::OPEN), Status::IO_REPARSE_TAG_NOT_HANDLED, "{name}");
    }
}
