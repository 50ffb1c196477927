//! The POSIX extensions of SMB 3.1.1 as Linux clients use them, beside clients that do not.

mod audited;
mod cached;
mod client;
mod concurrent;
mod escapes;
mod side_by_side;

use std::sync::Arc;

use proto::bytes::utf16_bytes;
use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask as A, Acl, SecurityDescriptor, Sid};
use proto::fscc::{FileInformationClass as Class, FsInformationClass as FsClass, NfsReparseData, ReparseTag};
use proto::smb2::SecurityInformation;
use proto::smb2::create::{CreateAction, CreateDisposition as Disposition, CreateOptions as Options};
use proto::status::Status;
use server::answer::block_on;
use server::testing::{self, TestServer, passes_on_remote_storage};
use server::vfs::{Access, Create, NewFile, SERVER, SetMetadata, SetXattr, SpecialFile};

use self::client::{ALL, Client, READ, server, with};

/// The rights by which Linux changes a mode.
const CHMOD: u32 = 0x0006_0080;
/// Reading and writing.
const BOTH: u32 = 0x0012_019f;
const MODE_OF_LINUX: u32 = 0xffff;

fn metadata(server: &TestServer, name: &str) -> server::vfs::Metadata {
    block_on(testing::volume::node(&server.volume, name).metadata(&SERVER)).expect("it is there")
}

fn mode_entry(mode: u32) -> Ace {
    Ace::deny(Sid::of(5, [88, 3, mode]), A::NONE, AceFlags::NONE)
}

fn everything() -> Ace {
    Ace::allow(Sid::AUTHENTICATED_USERS, A::FILE_ALL_ACCESS, AceFlags::NONE)
}

fn dacl(aces: Vec<Ace>) -> SecurityDescriptor {
    let control = Control::SELF_RELATIVE | Control::DACL_PRESENT;
    SecurityDescriptor { control, dacl: Acl::new(Acl::REVISION, aces), ..SecurityDescriptor::default() }
}

fn file(access: Access) -> NewFile {
    NewFile::new(Create::File(access), 0o644)
}

fn fifo() -> NewFile {
    NewFile::new(Create::Special { file: SpecialFile::Fifo, replaces: None }, 0o622)
}

#[test]
fn the_suite_passes_on_remote_storage() {
    passes_on_remote_storage(&[]);
}

#[test]
fn the_extensions_are_negotiated_if_both_sides_offer_them() {
    for (configured, offered) in [(true, true), (true, false), (false, true)] {
        let server = with(|policy| policy.smb3_unix_extensions = configured);
        let mut client = if offered { Client::posix(&server, "alice") } else { Client::new(&server, "alice") };
        assert_eq!(client.negotiated, configured && offered);
        let (_, _, posix) = client.create("f", ALL, Disposition::CREATE, Options(0), Some(0o601)).expect("new");
        // Without the extensions, the context has no meaning.
        assert_eq!(posix.is_some(), configured && offered);
        assert_eq!(metadata(&server, "f").mode == 0o601, configured && offered);
    }
}

#[test]
fn the_response_describes_the_file() {
    let server = server();
    let mut alice = Client::posix(&server, "alice");
    let (file, action, posix) = alice.create("f", ALL, Disposition::CREATE, Options(0), Some(0o100_640)).expect("new");
    let posix = posix.expect("a POSIX open");
    assert_eq!((action, posix.links, posix.reparse_tag, posix.mode), (CreateAction::CREATED, 1, 0, 0o640));
    let found = metadata(&server, "f");
    assert_eq!((posix.owner, posix.group), (Sid::unix_user(found.uid), Sid::unix_group(found.gid)));
    let information = alice.information(file);
    assert_eq!((information.posix.inode, information.posix.mode, information.posix.links), (found.file_id(), 0o640, 1));
    assert_eq!((information.posix.owner, information.posix.group), (posix.owner, posix.group));
    let done = alice.client.set_security(file, SecurityInformation::DACL, &dacl(vec![mode_entry(0o644)]));
    assert_eq!(done, Status::SUCCESS);
    alice.client.close(file);
    // The level exists for POSIX opens only.
    let mut bob = Client::new(&server, "bob");
    let plain = bob.open_plain("f", READ).expect("it is there");
    assert_eq!(bob.query(plain, Class::POSIX).0, Status::INVALID_INFO_CLASS);
    assert_eq!(bob.query_filesystem(plain, FsClass::POSIX).0, Status::INVALID_INFO_CLASS);
}

#[test]
fn a_new_file_has_exactly_the_requested_mode() {
    let server = with(|policy| {
        let share = policy.shares.get_mut("share").map(Arc::make_mut).expect("it is there");
        (share.modes.create_mask, share.modes.force_create_mode) = (0o600, 0o004);
        (share.modes.directory_mask, share.modes.force_directory_mode) = (0o700, 0o010);
    });
    let mut alice = Client::posix(&server, "alice");
    for (name, mode, options) in [
        ("plain", 0o666, Options(0)),
        ("program", 0o755, Options(0)),
        ("secret", 0, Options(0)),
        ("set-id", 0o4711, Options(0)),
        ("directory", 0o1777, Options::DIRECTORY_FILE),
    ] {
        alice.create(name, ALL, Disposition::CREATE, options, Some(mode)).expect("new");
        assert_eq!(metadata(&server, name).mode, mode, "{name}");
    }
    // A client that gives no mode, and one without the extensions, get that of the share.
    alice.create("none", ALL, Disposition::CREATE, Options(0), Some(MODE_OF_LINUX)).expect("new");
    assert_eq!(metadata(&server, "none").mode, 0o604);
    alice.create("other", ALL, Disposition::CREATE, Options(0), None).expect("new");
    assert_eq!(metadata(&server, "other").mode, 0o604);
    // An existing file keeps its own.
    alice.create("plain", ALL, Disposition::OPEN_IF, Options(0), Some(0o600)).expect("it is there");
    alice.create("plain", ALL, Disposition::OVERWRITE_IF, Options(0), Some(0o600)).expect("it is there");
    assert_eq!(metadata(&server, "plain").mode, 0o666);
}

#[test]
fn case_matters_for_posix_opens_only() {
    let server = server();
    let (mut posix, mut plain) = (Client::posix(&server, "alice"), Client::new(&server, "alice"));
    posix.put("a", b"small");
    assert_eq!(posix.look("A"), Status::OBJECT_NAME_NOT_FOUND);
    posix.put("A", b"large");
    assert_eq!((posix.get("a"), posix.get("A")), (Ok(b"small".to_vec()), Ok(b"large".to_vec())));
    posix.put("d", b"");
    // Without the context, on either connection, the exact name is first, and then any other spelling.
    for client in [&mut plain, &mut posix] {
        let file = client.open_plain("a", READ).expect("it is there");
        assert_eq!(client.read(file), Ok(b"small".to_vec()));
        let file = client.open_plain("D", READ).expect("in another case");
        assert_eq!(client.read(file), Ok(Vec::new()));
    }
    assert_eq!(posix.names(""), [".", "..", "A", "a", "d"]);
    // A new spelling is another file.
    assert_eq!(posix.rename("d", "D", false), Status::SUCCESS);
    assert_eq!(posix.names(""), [".", "..", "A", "D", "a"]);
}

#[test]
fn names_that_windows_forbids() {
    let server = server();
    let (mut posix, mut plain) = (Client::posix(&server, "alice"), Client::new(&server, "alice"));
    let names = ["a:b", "c*?", "d\"<>|", "e.", "f ", "con", "aux.txt", "g~1", "\u{1}"];
    for name in names {
        posix.put(name, name.as_bytes());
        assert_eq!(metadata(&server, name).size, name.len() as u64, "{name}");
        assert_eq!(posix.get(name), Ok(name.as_bytes().to_vec()), "{name}");
    }
    let mut expected: Vec<String> = [".", ".."].into_iter().chain(names).map(str::to_owned).collect();
    expected.sort();
    assert_eq!(posix.names(""), expected);
    // There is no stream of `a`, and no file `a`.
    assert_eq!(posix.look("a"), Status::OBJECT_NAME_NOT_FOUND);
    // Others see replaced characters, as before.
    let file = plain.open_plain("a\u{f022}b", READ).expect("its shown name");
    assert_eq!(plain.read(file), Ok(b"a:b".to_vec()));
    assert_eq!(plain.open_plain("a:b", READ).err(), Some(Status::OBJECT_NAME_NOT_FOUND));
    // So do kernels that replace them themselves; they mean the same file.
    assert_eq!(posix.get("a\u{f022}b"), Ok(b"a:b".to_vec()));
    posix.put("new\u{f022}", b"");
    assert_eq!(metadata(&server, "new:").size, 0);
    // A file that has such a name is found.
    plain.put_plain("own\u{f022}", b"literal");
    assert_eq!(posix.get("own\u{f022}"), Ok(b"literal".to_vec()));
    assert_eq!(posix.rename("e.", "x\u{f022}y", false), Status::SUCCESS);
    assert_eq!(posix.get("x:y"), Ok(b"e.".to_vec()));
    for name in ["..", r"d\..\..\etc", ".", r".\a"] {
        assert_ne!(posix.look(name), Status::SUCCESS, "{name}");
    }
}

#[test]
fn a_mode_is_set_by_an_entry_of_the_acl() {
    let server = server();
    let mut alice = Client::posix(&server, "alice");
    alice.put("f", b"");
    let file = alice.open("f", ALL);
    for mode in [0o4751, 0o600, 0] {
        // Linux adds an entry that grants everything, which is not meant as an ACL.
        let done =
            alice.client.set_security(file, SecurityInformation::DACL, &dacl(vec![mode_entry(mode), everything()]));
        assert_eq!((done, metadata(&server, "f").mode), (Status::SUCCESS, mode), "{mode:o}");
        assert_eq!(alice.information(file).posix.mode, mode);
    }
    // A handle without the right cannot.
    let weak = alice.open("f", A::READ_CONTROL.0);
    let done = alice.client.set_security(weak, SecurityInformation::DACL, &dacl(vec![mode_entry(0o777)]));
    assert_eq!((done, metadata(&server, "f").mode), (Status::ACCESS_DENIED, 0));
    // The mode of a new file may be in its descriptor.
    let descriptor = dacl(vec![mode_entry(0o751), everything()]);
    alice.create_described("g", &descriptor, MODE_OF_LINUX);
    assert_eq!(metadata(&server, "g").mode, 0o751);
    // Without the context, such an entry is one for an unknown user.
    let plain = alice.open_plain("g", ALL).expect("it is there");
    alice.client.set_security(plain, SecurityInformation::DACL, &descriptor);
    assert_ne!(metadata(&server, "g").mode & 0o777, 0o700);
}

#[test]
fn a_mode_does_not_void_a_stored_descriptor() {
    let server = with(|policy| {
        let share = policy.shares.get_mut("share").map(Arc::make_mut).expect("it is there");
        share.acls.stored = Some(testing::stored_acls());
    });
    let (mut alice, mut plain) = (Client::posix(&server, "alice"), Client::new(&server, "alice"));
    // Without a stored descriptor the mode is the protection.
    alice.put("unix", b"");
    let file = alice.open("unix", CHMOD);
    let chmod = |client: &mut Client, file, mode| {
        client.client.set_security(file, SecurityInformation::DACL, &dacl(vec![mode_entry(mode), everything()]))
    };
    assert_eq!((chmod(&mut alice, file, 0o640), metadata(&server, "unix").mode), (Status::SUCCESS, 0o640));
    // With one, it is not changed, and the client is told.
    plain.put_plain("windows", b"");
    let own = Ace::allow(Sid::unix_user(1000), A::FILE_ALL_ACCESS, AceFlags::NONE);
    let file = plain.open_plain("windows", ALL).expect("it is there");
    assert_eq!(plain.client.set_security(file, SecurityInformation::DACL, &dacl(vec![own.clone()])), Status::SUCCESS);
    let before = metadata(&server, "windows").mode;
    let same = alice.open("windows", CHMOD);
    assert_eq!(chmod(&mut alice, same, before), Status::SUCCESS);
    assert_eq!(chmod(&mut alice, same, 0o666), Status::ACCESS_DENIED);
    assert_eq!(metadata(&server, "windows").mode, before);
    let left = plain.client.security(file, SecurityInformation::DACL).dacl.map(Acl::into_aces);
    assert!(left.is_some_and(|aces| aces.contains(&own)));
    assert_eq!(Client::new(&server, "bob").open_plain("windows", READ).err(), Some(Status::ACCESS_DENIED));
}

#[test]
fn owners_are_given_as_ids() {
    let server = server();
    let mut alice = Client::posix(&server, "alice");
    alice.put("f", b"");
    let file = alice.open("f", ALL);
    let found = metadata(&server, "f");
    let control = Control::SELF_RELATIVE;
    let owned = |uid, gid| SecurityDescriptor {
        control,
        owner: Some(Sid::of(5, [88, 1, uid])),
        group: Some(Sid::of(5, [88, 2, gid])),
        ..SecurityDescriptor::default()
    };
    let parts = SecurityInformation::OWNER | SecurityInformation::GROUP;
    assert_eq!(alice.client.set_security(file, parts, &owned(found.uid, found.gid)), Status::SUCCESS);
    // Only root may give a file away.
    assert_ne!(alice.client.set_security(file, parts, &owned(0, 0)), Status::SUCCESS);
    let after = metadata(&server, "f");
    assert_eq!((after.uid, after.gid), (found.uid, found.gid));
}

#[test]
fn a_link_is_never_followed() {
    let server = server();
    server.create_locally("inside", file(Access { read: true, write: true }));
    server.create_locally("directory", NewFile::new(Create::Directory, 0o777));
    server.create_locally("directory/file", file(Access { read: true, write: true }));
    for (name, target) in [
        ("absolute", "/etc/passwd"),
        ("above", "../../etc/passwd"),
        ("near", "inside"),
        ("dangling", "no:where"),
        ("to-directory", "directory"),
        ("loop", "loop"),
    ] {
        server.create_locally(name, NewFile::symlink(target.as_bytes(), None));
    }
    let (mut posix, mut plain) = (Client::posix(&server, "alice"), Client::new(&server, "alice"));
    for (name, target, is_relative) in [
        ("absolute", r"\etc\passwd", false),
        ("above", r"..\..\etc\passwd", true),
        ("near", "inside", true),
        ("dangling", "no:where", true),
        ("loop", "loop", true),
    ] {
        for (access, disposition) in [(READ, Disposition::OPEN), (ALL, Disposition::OVERWRITE_IF)] {
            let stopped = posix.stopped(name, access, disposition);
            assert_eq!(stopped, Some((target.to_owned(), is_relative, 0)), "{name}");
        }
    }
    // Also on the way, with the rest of the path.
    let stopped = posix.stopped(r"to-directory\file", READ, Disposition::OPEN);
    assert_eq!(stopped, Some(("directory".to_owned(), true, 2 * r"\file".len())));
    let stopped = posix.stopped(r"to-directory\new", ALL, Disposition::CREATE);
    assert_eq!(stopped, Some(("directory".to_owned(), true, 2 * r"\new".len())));
    // The link itself is a reparse point.
    let link = posix.open_itself("above", READ);
    let information = posix.information(link);
    assert_eq!(information.posix.reparse_tag, ReparseTag::NFS.0);
    assert_eq!(information.posix.mode >> 12, 2);
    assert_eq!(information.end_of_file, "../../etc/passwd".len() as u64);
    let target = utf16_bytes("../../etc/passwd");
    assert_eq!(posix.reparse_data(link), NfsReparseData::SymbolicLink(&target).to_bytes());
    assert_eq!(posix.read(link), Ok(Vec::new()), "it has no content");
    assert_eq!(posix.open_directory("to-directory").err(), Some(Status::NOT_A_DIRECTORY));
    // Others get what they got before.
    let file = plain.open_plain("near", READ).expect("inside the share");
    assert_eq!(plain.read(file), Ok(Vec::new()));
    for name in ["absolute", "above"] {
        assert_eq!(plain.open_plain(name, READ).err(), Some(Status::OBJECT_NAME_NOT_FOUND), "{name}");
    }
    assert_eq!(posix.unlink("absolute"), Status::SUCCESS);
    assert!(!posix.names("").contains(&"absolute".to_owned()));
}

#[test]
fn special_files_are_shown_and_never_opened() {
    let server = server();
    server.create_locally("fifo", fifo());
    let mut alice = Client::posix(&server, "alice");
    for access in [READ, ALL, A::FILE_READ_ATTRIBUTES.0] {
        for disposition in [Disposition::OPEN, Disposition::OPEN_IF] {
            let refused = alice.create("fifo", access, disposition, Options(0), Some(0o600)).map(|_| ());
            assert_eq!(refused, Err(Status::IO_REPARSE_TAG_NOT_HANDLED));
        }
    }
    // Its data cannot be reached through the reparse point either.
    let itself = Options::OPEN_REPARSE_POINT;
    let refused = alice.create("fifo", READ, Disposition::OPEN, itself, Some(MODE_OF_LINUX)).map(|_| ());
    assert_eq!(refused, Err(Status::ACCESS_DENIED));
    let fifo = alice.open_itself("fifo", A::FILE_READ_ATTRIBUTES.0);
    let information = alice.information(fifo);
    assert_eq!((information.posix.reparse_tag, information.posix.mode), (ReparseTag::NFS.0, 0o50622));
    assert_eq!(information.file_attributes, proto::fscc::FileAttributes::REPARSE_POINT);
    assert_eq!(alice.reparse_data(fifo), NfsReparseData::Fifo.to_bytes());
    alice.client.close(fifo);
    let listed = alice.list("");
    let entry = listed.iter().find(|entry| entry.name == "fifo").expect("it is listed");
    assert_eq!((entry.posix.reparse_tag, entry.posix.mode), (ReparseTag::NFS.0, 0o50622));
    assert_eq!(alice.unlink("fifo"), Status::SUCCESS);
    assert_eq!(alice.names(""), [".", ".."]);
}

#[test]
fn special_files_are_created() {
    let server = server();
    let mut alice = Client::posix(&server, "alice");
    alice.put("source", b"lost");
    let source = alice.open("source", READ);
    let target = utf16_bytes("../../etc/pass:wd");
    for (name, data, kind) in [
        ("link", NfsReparseData::SymbolicLink(&target), 2),
        ("fifo", NfsReparseData::Fifo, 5),
        ("socket", NfsReparseData::Socket, 6),
    ] {
        let (file, ..) = alice.create(name, ALL, Disposition::CREATE, Options(0), Some(0o640)).expect("new");
        assert_eq!(alice.set_reparse(file, data), Status::SUCCESS, "{name}");
        // The handle shows what the file is now.
        let information = alice.information(file);
        assert_eq!((information.posix.mode >> 12, information.posix.reparse_tag), (kind, ReparseTag::NFS.0), "{name}");
        assert_eq!(alice.reparse_data(file), data.to_bytes());
        // What it would change has no name any more.
        assert_eq!(alice.set_reparse(file, NfsReparseData::Fifo), Status::ACCESS_DENIED);
        assert_eq!(alice.write(file, b"lost"), Status::ACCESS_DENIED);
        assert_eq!(alice.copy(source, file, 4), Status::ACCESS_DENIED);
        assert_eq!(alice.set_size(file, 10), Status::ACCESS_DENIED);
        assert_eq!(alice.rename_by(file, "elsewhere", false), Status::ACCESS_DENIED);
        assert_eq!(alice.link_by(file, "elsewhere"), Status::ACCESS_DENIED);
        assert_eq!(alice.delete_by(file), Status::ACCESS_DENIED);
        let chmod = alice.client.set_security(file, SecurityInformation::DACL, &dacl(vec![mode_entry(0o777)]));
        assert_eq!(chmod, Status::ACCESS_DENIED);
        assert_eq!(alice.read(file), Ok(Vec::new()));
        alice.client.close(file);
        let itself = alice.open_itself(name, A::FILE_READ_ATTRIBUTES.0);
        assert_eq!(alice.reparse_data(itself), data.to_bytes());
        alice.client.close(itself);
    }
    alice.client.close(source);
    assert_eq!(metadata(&server, "fifo").special, Some(SpecialFile::Fifo));
    assert_eq!(metadata(&server, "fifo").mode, 0o640);
    let link = testing::volume::node(&server.volume, "link");
    assert_eq!(block_on(link.read_link(&SERVER)), Ok(b"../../etc/pass:wd".to_vec()));
    assert_eq!(server.open_files(), 0);
}

#[test]
fn what_cannot_become_a_special_file() {
    let server = with(|policy| {
        let share = policy.shares.get_mut("share").map(Arc::make_mut).expect("it is there");
        share.names.veto_files = vec!["hidden".to_owned()];
    });
    let (mut alice, mut bob) = (Client::posix(&server, "alice"), Client::posix(&server, "bob"));
    for data in [NfsReparseData::CharacterDevice(1, 3), NfsReparseData::BlockDevice(8, 0)] {
        let (file, ..) = alice.create("null", ALL, Disposition::OPEN_IF, Options(0), Some(0o666)).expect("new");
        assert_eq!(alice.set_reparse(file, data), Status::ACCESS_DENIED);
        assert_eq!(alice.information(file).posix.reparse_tag, 0);
        alice.client.close(file);
    }
    let (link, ..) = alice.create("link", ALL, Disposition::CREATE, Options(0), Some(0o666)).expect("new");
    for target in ["hidden", "../hidden/file", "a\0b"] {
        let target = utf16_bytes(target);
        assert_ne!(alice.set_reparse(link, NfsReparseData::SymbolicLink(&target)), Status::SUCCESS);
    }
    let target = utf16_bytes(&"a".repeat(4096));
    assert_eq!(alice.set_reparse(link, NfsReparseData::SymbolicLink(&target)), Status::IO_REPARSE_DATA_INVALID);
    alice.client.close(link);
    alice.put("content", b"kept");
    let file = alice.open("content", ALL);
    assert_eq!(alice.set_reparse(file, NfsReparseData::Fifo), Status::IO_REPARSE_DATA_INVALID);
    alice.client.close(file);
    // A file that another client has open.
    alice.put("shared", b"");
    let file = alice.open("shared", ALL);
    let other = bob.open("shared", READ);
    assert_eq!(alice.set_reparse(file, NfsReparseData::Fifo), Status::SHARING_VIOLATION);
    bob.client.close(other);
    // The handle would not delete what it has become.
    let doomed = Options::DELETE_ON_CLOSE;
    let (deleted, ..) = alice.create("doomed", ALL, Disposition::CREATE, doomed, Some(0o600)).expect("new");
    assert_eq!(alice.set_reparse(deleted, NfsReparseData::Fifo), Status::IO_REPARSE_DATA_INVALID);
    alice.client.close(deleted);
    assert_eq!(alice.look("doomed"), Status::OBJECT_NAME_NOT_FOUND);
    let (directory, ..) =
        alice.create("d", ALL, Disposition::CREATE, Options::DIRECTORY_FILE, Some(0o755)).expect("new");
    assert_ne!(alice.set_reparse(directory, NfsReparseData::Fifo), Status::SUCCESS);
    // Only POSIX opens have this meaning; other clients store the data.
    let plain = alice.open_plain("shared", ALL).expect("it is there");
    alice.client.close(file);
    assert_eq!(alice.set_reparse(plain, NfsReparseData::Fifo), Status::SUCCESS);
    alice.client.close(plain);
    assert_eq!(metadata(&server, "shared").special, None);
    assert_eq!(alice.get("content"), Ok(b"kept".to_vec()));
}

#[test]
fn no_links_are_taken_from_clients_if_a_share_has_wide_links() {
    for own in [true, false] {
        no_links_are_taken(&with(|policy| {
            // Another share may have the same directory.
            policy.wide_links = true;
            let share = policy.shares.get_mut("share").map(Arc::make_mut).expect("it is there");
            share.names.wide_links = own;
        }));
    }
}

fn no_links_are_taken(server: &TestServer) {
    assert_eq!(make_link(server), Status::ACCESS_DENIED);
    assert_eq!(metadata(server, "link").kind, server::vfs::Kind::File);
}

/// Lets a new client create a link out of the share.
fn make_link(server: &TestServer) -> Status {
    let mut alice = Client::posix(server, "alice");
    let (file, ..) = alice.create("link", ALL, Disposition::OPEN_IF, Options(0), Some(0o644)).expect("a file");
    let target = utf16_bytes("/etc");
    let done = alice.set_reparse(file, NfsReparseData::SymbolicLink(&target));
    alice.client.close(file);
    done
}

#[test]
fn no_links_are_taken_while_a_client_has_wide_links_from_before_a_reload() {
    let server = with(|policy| {
        policy.wide_links = true;
        let share = policy.shares.get_mut("share").map(Arc::make_mut).expect("it is there");
        share.names.wide_links = true;
    });
    let (mut one, other) = (Client::new(&server, "alice"), Client::new(&server, "bob"));
    one.put_plain("f", b"");
    let mut policy = (**server.policy()).clone();
    policy.wide_links = false;
    policy.shares.get_mut("share").map(Arc::make_mut).expect("it is there").names.wide_links = false;
    server.reload(policy);
    assert_eq!(make_link(&server), Status::ACCESS_DENIED);
    one.client.disconnect();
    assert_eq!(make_link(&server), Status::ACCESS_DENIED, "the other tree connect follows links");
    other.client.disconnect();
    assert_eq!(make_link(&server), Status::SUCCESS);
}

#[test]
fn an_open_file_is_unlinked_at_once() {
    let server = server();
    let (mut alice, mut bob) = (Client::posix(&server, "alice"), Client::posix(&server, "bob"));
    alice.put("f", b"content");
    let file = alice.open("f", ALL);
    let other = bob.open("f", READ);
    assert_eq!(alice.unlink("f"), Status::SUCCESS);
    // The name is free, and the handles keep the file.
    assert_eq!(bob.look("f"), Status::OBJECT_NAME_NOT_FOUND);
    alice.put("f", b"another");
    assert_eq!((alice.read(file), bob.read(other)), (Ok(b"content".to_vec()), Ok(b"content".to_vec())));
    assert_eq!(alice.write(file, b"CONTENT"), Status::SUCCESS);
    assert_eq!(bob.read(other), Ok(b"CONTENT".to_vec()));
    assert_eq!(alice.information(file).posix.links, 0);
    alice.client.close(file);
    bob.client.close(other);
    assert_eq!(alice.get("f"), Ok(b"another".to_vec()));
    assert_eq!(server.open_files(), 0);
    // By a handle that stays open, as well as by one that is opened for it.
    let file = alice.open("f", ALL);
    assert_eq!(alice.delete_by(file), Status::SUCCESS);
    let other = bob.open("f", READ);
    alice.client.close(file);
    assert_eq!(bob.look("f"), Status::OBJECT_NAME_NOT_FOUND);
    assert_eq!(bob.read(other), Ok(b"another".to_vec()));
}

#[test]
fn a_file_that_another_client_has_open_is_deleted_later() {
    let server = server();
    let (mut alice, mut bob) = (Client::posix(&server, "alice"), Client::new(&server, "bob"));
    alice.put("f", b"content");
    let windows = bob.open_plain("f", READ).expect("it is there");
    assert_eq!(alice.unlink("f"), Status::SUCCESS);
    assert_eq!(alice.look("f"), Status::DELETE_PENDING);
    bob.client.close(windows);
    assert_eq!(alice.look("f"), Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn an_open_file_is_replaced() {
    let server = server();
    let (mut alice, mut bob) = (Client::posix(&server, "alice"), Client::posix(&server, "bob"));
    alice.put("old", b"old");
    alice.put("new", b"new");
    let (file, other) = (alice.open("old", READ | A::DELETE.0), bob.open("old", READ));
    assert_eq!(alice.rename("new", "old", true), Status::SUCCESS);
    assert_eq!((alice.read(file), bob.read(other)), (Ok(b"old".to_vec()), Ok(b"old".to_vec())));
    assert_eq!(bob.get("old"), Ok(b"new".to_vec()));
    // The handle of the replaced file does not affect the new one.
    assert_eq!(alice.rename_by(file, "elsewhere", true), Status::OBJECT_NAME_NOT_FOUND);
    alice.client.close(file);
    bob.client.close(other);
    assert_eq!(alice.names(""), [".", "..", "old"]);
    assert_eq!(server.open_files(), 0);
    // Not while a client without the extensions has it open, which never sees this.
    alice.put("new", b"newer");
    let mut windows = Client::new(&server, "bob");
    let open = windows.open_plain("old", READ).expect("it is there");
    assert_eq!(alice.rename("new", "old", true), Status::ACCESS_DENIED);
    windows.client.close(open);
    assert_eq!(alice.rename("new", "old", false), Status::OBJECT_NAME_COLLISION);
    assert_eq!(alice.rename("new", "old", true), Status::SUCCESS);
    assert_eq!(alice.get("old"), Ok(b"newer".to_vec()));
}

#[test]
fn a_directory_with_open_files_is_renamed() {
    let server = server();
    let mut alice = Client::posix(&server, "alice");
    alice.create("d", ALL, Disposition::CREATE, Options::DIRECTORY_FILE, Some(0o755)).expect("new");
    alice.put(r"d\f", b"content");
    let file = alice.open(r"d\f", ALL);
    assert_eq!(alice.rename("d", "e", false), Status::SUCCESS);
    assert_eq!(alice.read(file), Ok(b"content".to_vec()));
    assert_eq!(alice.delete_by(file), Status::SUCCESS);
    alice.client.close(file);
    assert_eq!(alice.look(r"e\f"), Status::OBJECT_NAME_NOT_FOUND);
    alice.put(r"e\g", b"");
    let plain = alice.open_plain(r"e\g", READ).expect("it is there");
    assert_eq!(alice.rename("e", "d", false), Status::ACCESS_DENIED, "a client without the extensions has a file open");
    alice.client.close(plain);
    assert_eq!(alice.rename("e", "d", false), Status::SUCCESS);
}

#[test]
fn share_modes_hold_against_other_clients_only() {
    let server = server();
    let (mut alice, mut bob) = (Client::posix(&server, "alice"), Client::posix(&server, "bob"));
    let (file, ..) = alice.create("f", ALL, Disposition::CREATE, Options(0), Some(0o666)).expect("new");
    alice.client.close(file);
    alice.share = 0;
    let file = alice.open("f", ALL);
    let other = bob.open("f", BOTH);
    assert_eq!(bob.open_plain("f", READ).err(), Some(Status::SHARING_VIOLATION));
    bob.client.close(other);
    alice.client.close(file);
    bob.share = 0;
    let plain = bob.open_plain("f", BOTH).expect("it is there");
    assert_eq!(alice.look("f"), Status::SHARING_VIOLATION);
    bob.client.close(plain);
}

#[test]
fn read_only_files_can_be_deleted_unless_the_attribute_is_stored() {
    let server = with(|policy| {
        let share = policy.shares.get_mut("share").map(Arc::make_mut).expect("it is there");
        share.attributes.store_dos_attributes = false;
        share.attributes.map_read_only = true;
    });
    let mut alice = Client::posix(&server, "alice");
    alice.create("f", ALL, Disposition::CREATE, Options(0), Some(0o444)).expect("new");
    assert_eq!(alice.unlink("f"), Status::SUCCESS);
    let server = self::server();
    let mut alice = Client::posix(&server, "alice");
    alice.put("f", b"");
    let set = SetMetadata { dos_attributes: Some(0x21), ..SetMetadata::default() };
    block_on(testing::volume::node(&server.volume, "f").set_metadata(&SERVER, set)).expect("the server may");
    assert_eq!(alice.unlink("f"), Status::CANNOT_DELETE);
}

#[test]
fn truncation_keeps_streams() {
    let server = server();
    let mut alice = Client::posix(&server, "alice");
    alice.put("f", b"content");
    let stream = "user.DosStream.s:$DATA";
    let node = testing::volume::node(&server.volume, "f");
    block_on(node.set_xattr(&SERVER, stream, Some(b"kept\0".to_vec()), SetXattr::Any)).expect("the server may");
    let (file, action, _) =
        alice.create("f", ALL, Disposition::OVERWRITE_IF, Options(0), Some(0o600)).expect("it is there");
    assert_eq!((action, alice.read(file)), (CreateAction::OVERWRITTEN, Ok(Vec::new())));
    assert_eq!(block_on(node.get_xattr(&SERVER, stream)), Ok(Some(b"kept\0".to_vec())));
}

#[test]
fn a_listing_describes_each_file() {
    let server = server();
    let mut alice = Client::posix(&server, "alice");
    alice.put("f", b"12345");
    alice.create("d", ALL, Disposition::CREATE, Options::DIRECTORY_FILE, Some(0o2750)).expect("new");
    server.create_locally("l", NewFile::symlink(b"f", None));
    let listed = alice.list("");
    let modes: Vec<(&str, u32)> = listed.iter().map(|entry| (&*entry.name, entry.posix.mode)).collect();
    let directory = metadata(&server, "d").mode;
    assert_eq!(modes[2..], [("d", directory), ("f", 0o644), ("l", 0o20777)]);
    let found = metadata(&server, "f");
    let entry = &listed[3].posix;
    assert_eq!((entry.inode, entry.links, entry.owner), (found.file_id(), 1, Sid::unix_user(found.uid)));
    assert_eq!(listed[4].posix.reparse_tag, ReparseTag::NFS.0);
    let root = alice.open_directory("").expect("the root");
    let (status, space) = alice.query_filesystem(root, FsClass::POSIX);
    assert_eq!((status, space.len()), (Status::SUCCESS, 56));
    // Clients without the extensions do not have the class.
    let mut plain = Client::new(&server, "alice");
    let root = plain.open_plain("", 0x81).expect("the root");
    assert_eq!(plain.list_class(root, Class::POSIX).err(), Some(Status::INVALID_INFO_CLASS));
}
