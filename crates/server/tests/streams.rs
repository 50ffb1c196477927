//! Alternate streams and extended attributes as clients see them ([MS-FSA] 2.1.5.1.2, 2.1.5.12.29, 2.1.5.15.12.1).

use std::sync::Arc;

use proto::bytes::{Writer, utf16_bytes};
use proto::fscc::{
    EA_ALIGNMENT, EaFlags, EntryChain, FileFullEaInformation, FileInformationClass as Class, FileRenameInformation,
    FileStreamInformation,
};
use proto::smb2::create::{
    CreateAction, CreateDisposition as Disposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel,
    ShareAccess,
};
use proto::smb2::create_context::{self, CreateContext};
use proto::smb2::header::Command;
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::smb2::query_info::{InfoType, QueryInfoFlags, QueryInfoRequest, QueryInfoResponse};
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{Channel, FileId};
use proto::status::Status;
use server::policy::Share;
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::memory::Options;

const ALL: u32 = 0x001f_01ff;
const READ: u32 = 1;
const WRITE: u32 = 2;
const DELETE: u32 = 0x0001_0000;
const SHARE_ALL: u32 = 7;
const NOTHING: u32 = 0;

/// A client of a server with an in-memory share.
struct Fixture {
    client: TestClient,
}

fn fixture() -> Fixture {
    Fixture { client: TestClient::logged_on(&TestServer::new(), "alice") }
}

/// Returns a client on a file system with this capacity.
fn small_bed(capacity: u64) -> Fixture {
    let options = Options { mode: 0o777, capacity, ..Options::default() };
    Fixture { client: TestClient::logged_on(&TestServer::builder().volume_options(options).start(), "alice") }
}

impl Fixture {
    fn create(
        &mut self,
        name: &str,
        access: u32,
        share: u32,
        disposition: Disposition,
        options: CreateOptions,
    ) -> Result<(FileId, CreateAction), Status> {
        let name = utf16_bytes(name);
        let create = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: access,
            share_access: ShareAccess(share),
            create_disposition: disposition,
            create_options: options,
            name: &name,
            ..CreateRequest::default()
        };
        let response = self.client.request(Command::CREATE, |out| create.encode(out));
        match status(&response) {
            Status::SUCCESS => {
                let response = CreateResponse::decode(&response).expect("a well-formed message");
                Ok((response.file_id, response.create_action))
            }
            refused => Err(refused),
        }
    }

    /// Opens or creates a file with all rights and sharing modes.
    #[track_caller]
    fn open(&mut self, name: &str) -> FileId {
        let opened = self.create(name, ALL, SHARE_ALL, Disposition::OPEN_IF, CreateOptions(0));
        opened.unwrap_or_else(|status| panic!("{name}: {status:?}")).0
    }

    /// Returns the status of opening an existing file.
    fn look(&mut self, name: &str) -> Status {
        match self.create(name, READ, SHARE_ALL, Disposition::OPEN, CreateOptions(0)) {
            Ok((file, _)) => {
                self.client.close(file);
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }

    /// Writes in pieces covered by one credit, until one fails.
    fn write(&mut self, file_id: FileId, offset: u64, buffer: &[u8]) -> Status {
        let pieces = buffer.chunks(65_536).scan(offset, |at, piece| {
            let offset = *at;
            *at += piece.len() as u64;
            Some((offset, piece))
        });
        for (offset, piece) in pieces {
            let status = self.write_piece(file_id, offset, piece);
            if status != Status::SUCCESS {
                return status;
            }
        }
        Status::SUCCESS
    }

    fn write_piece(&mut self, file_id: FileId, offset: u64, buffer: &[u8]) -> Status {
        let write = WriteRequest {
            length: buffer.len() as u32,
            offset,
            file_id,
            channel: Channel(0),
            buffer,
            ..WriteRequest::default()
        };
        status(&self.client.request(Command::WRITE, |out| write.encode(out)))
    }

    #[track_caller]
    fn read(&mut self, file_id: FileId) -> Vec<u8> {
        let read = ReadRequest { length: 65_536, offset: 0, file_id, ..ReadRequest::default() };
        let response = self.client.request(Command::READ, |out| read.encode(out));
        match status(&response) {
            Status::END_OF_FILE => Vec::new(),
            done => {
                assert_eq!(done, Status::SUCCESS);
                ReadResponse::decode(&response).expect("a well-formed message").buffer.to_vec()
            }
        }
    }

    fn set(&mut self, file_id: FileId, class: Class, encode: impl FnOnce(&mut Writer<'_>)) -> Status {
        let mut buffer = Vec::new();
        encode(&mut Writer::new(&mut buffer));
        let set = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class.0,
            additional_information: 0,
            file_id,
            buffer: &buffer,
        };
        status(&self.client.request(Command::SET_INFO, |out| set.encode(out)))
    }

    fn rename(&mut self, file: FileId, to: &str, replace_if_exists: bool) -> Status {
        let name = utf16_bytes(to);
        let rename = FileRenameInformation { replace_if_exists, root_directory: 0, file_name: &name };
        self.set(file, Class::RENAME, |out| rename.encode(out))
    }

    fn doom(&mut self, file: FileId) -> Status {
        self.set(file, Class::DISPOSITION, |out| out.u8(1))
    }

    fn query(&mut self, file_id: FileId, class: Class, space: u32, asked: QueryInfoFlags) -> (Status, Vec<u8>) {
        let query = QueryInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class.0,
            output_buffer_length: space,
            flags: asked,
            file_id,
            ..QueryInfoRequest::default()
        };
        let response = self.client.request(Command::QUERY_INFO, |out| query.encode(out));
        let buffer = QueryInfoResponse::decode(&response).map(|it| it.buffer.to_vec()).unwrap_or_default();
        (status(&response), buffer)
    }

    /// Returns the names and sizes of the file's streams.
    fn streams(&mut self, file: FileId) -> Vec<(String, u64)> {
        let (_, buffer) = self.query(file, Class::STREAM, 65_536, QueryInfoFlags(0));
        let text = |name: &[u8]| String::from_utf16(&proto::bytes::utf16_units(name).expect("even")).expect("text");
        FileStreamInformation::list(&buffer)
            .map(|stream| stream.expect("a well-formed message"))
            .map(|stream| (text(stream.stream_name), stream.stream_size))
            .collect()
    }

    /// Returns the names in the share's root.
    fn listing(&mut self) -> Vec<u8> {
        let root = self.create("", READ, SHARE_ALL, Disposition::OPEN, CreateOptions(0)).expect("the root opens").0;
        let pattern = utf16_bytes("*");
        let query = QueryDirectoryRequest {
            file_information_class: Class::NAMES.0,
            flags: QueryDirectoryFlags(0),
            file_index: 0,
            file_id: root,
            file_name: &pattern,
            output_buffer_length: 65_536,
        };
        let response = self.client.request(Command::QUERY_DIRECTORY, |out| query.encode(out));
        self.client.close(root);
        QueryDirectoryResponse::decode(&response).expect("a well-formed message").buffer.to_vec()
    }
}

#[test]
fn dispositions() {
    use CreateAction as Action;
    let check = |disposition, there, missing, both_missing| {
        let mut fixture = fixture();
        let create = |fixture: &mut Fixture, name: &str| {
            let created = fixture.create(name, ALL, SHARE_ALL, disposition, CreateOptions(0));
            created.map(|(file, action)| {
                fixture.client.close(file);
                action
            })
        };
        let file = fixture.open("f:there");
        assert_eq!(fixture.write(file, 0, b"content"), Status::SUCCESS);
        fixture.client.close(file);
        assert_eq!(create(&mut fixture, "f:THERE:$data"), there, "{disposition:?}");
        assert_eq!(create(&mut fixture, "f:missing"), missing, "{disposition:?}");
        assert_eq!(create(&mut fixture, "g:s"), both_missing, "{disposition:?}");
        assert_eq!(fixture.look("g") == Status::SUCCESS, both_missing.is_ok());
        let file = fixture.open("f:there");
        let emptied = !matches!(there, Ok(Action::OPENED) | Err(_));
        assert_eq!(fixture.read(file).is_empty(), emptied, "{disposition:?}");
    };
    let (none, created) = (Err(Status::OBJECT_NAME_NOT_FOUND), Ok(Action::CREATED));
    check(Disposition::OPEN, Ok(Action::OPENED), none, none);
    check(Disposition::CREATE, Err(Status::OBJECT_NAME_COLLISION), created, created);
    check(Disposition::OPEN_IF, Ok(Action::OPENED), created, created);
    check(Disposition::OVERWRITE, Ok(Action::OVERWRITTEN), none, none);
    check(Disposition::OVERWRITE_IF, Ok(Action::OVERWRITTEN), created, created);
    check(Disposition::SUPERSEDE, Ok(Action::SUPERSEDED), created, created);
}

#[test]
fn an_overwritten_file_loses_its_streams() {
    for (disposition, left) in [(Disposition::OVERWRITE, 1), (Disposition::SUPERSEDE, 1), (Disposition::OPEN, 3)] {
        let mut fixture = fixture();
        for (name, size) in [("f:small", 3), ("f:large", 70_000)] {
            let file = fixture.open(name);
            assert_eq!(fixture.write(file, 0, &vec![1; size]), Status::SUCCESS);
            fixture.client.close(file);
        }
        let file = fixture.create("f", ALL, SHARE_ALL, disposition, CreateOptions(0)).expect("the open succeeds").0;
        assert_eq!(fixture.streams(file).len(), left, "{disposition:?}");
    }
}

#[test]
fn opens_of_a_file_and_of_its_stream() {
    // Access and sharing mode of the file and of the stream, and whether they are compatible, in either order of
    // opening.
    let check = |file: (u32, u32), stream: (u32, u32), together: bool| {
        let expected = if together { None } else { Some(Status::SHARING_VIOLATION) };
        for names in [["f", "f:s"], ["f:s", "f"]] {
            let mut fixture = fixture();
            for name in names {
                let made = fixture.open(name);
                fixture.client.close(made);
            }
            let mode = |name: &str| if name == "f" { file } else { stream };
            let mut open = |name: &str| {
                let (access, share) = mode(name);
                fixture.create(name, access, share, Disposition::OPEN, CreateOptions(0)).err()
            };
            assert_eq!((open(names[0]), open(names[1])), (None, expected), "{names:?} {file:?} {stream:?}");
        }
    };
    check((WRITE, NOTHING), (WRITE, NOTHING), true);
    check((READ | WRITE, NOTHING), (DELETE, SHARE_ALL), true);
    check((DELETE, SHARE_ALL), (READ, SHARE_ALL), true);
    // Deleting the file would delete the stream.
    check((DELETE, SHARE_ALL), (READ, NOTHING), false);
    check((DELETE, SHARE_ALL), (0x80, NOTHING), true);
}

#[test]
fn streams_share_among_themselves() {
    let mut fixture = fixture();
    let first = fixture.create("f:a", WRITE, NOTHING, Disposition::CREATE, CreateOptions(0));
    assert!(first.is_ok());
    assert!(fixture.create("f:b", WRITE, NOTHING, Disposition::CREATE, CreateOptions(0)).is_ok());
    let again = fixture.create("F:A", READ, SHARE_ALL, Disposition::OPEN, CreateOptions(0));
    assert_eq!(again, Err(Status::SHARING_VIOLATION));
}

#[test]
fn a_deleted_file_is_removed_with_the_last_open_of_its_streams() {
    let mut fixture = fixture();
    let stream = fixture.open("f:s");
    assert_eq!(fixture.write(stream, 0, &vec![7; 70_000]), Status::SUCCESS);
    let file = fixture.open("f");
    assert_eq!(fixture.doom(file), Status::SUCCESS);
    fixture.client.close(file);
    assert_eq!(fixture.read(stream).len(), 65_536);
    assert_eq!((fixture.look("f"), fixture.look("f:s")), (Status::DELETE_PENDING, Status::DELETE_PENDING));
    assert_eq!(fixture.look("f:other"), Status::OBJECT_NAME_NOT_FOUND);
    fixture.client.close(stream);
    assert_eq!(fixture.look("f"), Status::OBJECT_NAME_NOT_FOUND);
    let file = fixture.open("f");
    assert_eq!(fixture.streams(file), [("::$DATA".to_owned(), 0)]);
}

#[test]
fn a_stream_that_is_deleted_leaves_its_file() {
    let mut fixture = fixture();
    let (first, second) = (fixture.open("f:s"), fixture.open("f:s"));
    assert_eq!(fixture.doom(first), Status::SUCCESS);
    fixture.client.close(first);
    assert_eq!((fixture.look("f:s"), fixture.look("f")), (Status::DELETE_PENDING, Status::SUCCESS));
    fixture.client.close(second);
    assert_eq!((fixture.look("f:s"), fixture.look("f")), (Status::OBJECT_NAME_NOT_FOUND, Status::SUCCESS));
    let options = CreateOptions::DELETE_ON_CLOSE;
    let (file, _) = fixture.create("f:s", ALL, SHARE_ALL, Disposition::CREATE, options).expect("it is created");
    fixture.client.close(file);
    assert_eq!((fixture.look("f:s"), fixture.look("f")), (Status::OBJECT_NAME_NOT_FOUND, Status::SUCCESS));
}

#[test]
fn one_handle_reads_what_the_other_writes() {
    let mut fixture = fixture();
    let (first, second, other) = (fixture.open("f:s"), fixture.open("f:S"), fixture.open("f"));
    for (size, byte) in [(10, 1), (70_000, 2), (5, 3)] {
        assert_eq!(fixture.write(first, 0, &vec![byte; size]), Status::SUCCESS);
        assert_eq!(fixture.read(second)[..5], [byte; 5]);
    }
    assert_eq!(fixture.set(second, Class::END_OF_FILE, |out| out.u64(3)), Status::SUCCESS);
    assert_eq!(fixture.read(first), [3; 3]);
    assert_eq!(fixture.streams(other), [("::$DATA".to_owned(), 0), (":s:$DATA".to_owned(), 3)]);
    assert_eq!(fixture.streams(first), fixture.streams(other));
}

#[test]
fn directories_have_streams_but_no_content() {
    let mut fixture = fixture();
    let (directory, _) =
        fixture.create("d", ALL, SHARE_ALL, Disposition::CREATE, CreateOptions::DIRECTORY_FILE).expect("it is created");
    assert_eq!(fixture.streams(directory), []);
    let stream = fixture.open("d:s");
    assert_eq!(fixture.write(stream, 0, b"of a directory"), Status::SUCCESS);
    assert_eq!(fixture.streams(directory), [(":s:$DATA".to_owned(), 14)]);
    let options = CreateOptions::DIRECTORY_FILE;
    let as_directory = fixture.create("d:s", ALL, SHARE_ALL, Disposition::OPEN, options);
    assert_eq!(as_directory, Err(Status::NOT_A_DIRECTORY));
    // The root of the share is a directory too.
    let root = fixture.create(":s", READ | WRITE | DELETE, SHARE_ALL, Disposition::OPEN_IF, CreateOptions(0));
    let (root, _) = root.expect("it is created");
    assert_eq!(fixture.write(root, 0, b"of the root"), Status::SUCCESS);
    assert_eq!((fixture.doom(root), fixture.doom(stream)), (Status::SUCCESS, Status::SUCCESS));
    fixture.client.close(root);
    assert_eq!(fixture.look(":s"), Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn renames_of_streams() {
    let mut fixture = fixture();
    let (file, other) = (fixture.open("f:a"), fixture.open("f:b"));
    assert_eq!(fixture.write(file, 0, b"a"), Status::SUCCESS);
    let check = |fixture: &mut Fixture, to: &str, replace, expected| {
        assert_eq!(fixture.rename(file, to, replace), expected, "{to}")
    };
    check(&mut fixture, ":A:$DATA", false, Status::SUCCESS);
    check(&mut fixture, ":b", false, Status::OBJECT_NAME_COLLISION);
    check(&mut fixture, ":b", true, Status::INVALID_PARAMETER);
    assert_eq!(fixture.write(other, 0, b"b"), Status::SUCCESS);
    fixture.client.close(other);
    check(&mut fixture, ":b", true, Status::INVALID_PARAMETER);
    check(&mut fixture, "f:c", false, Status::SHARING_VIOLATION);
    check(&mut fixture, "g", false, Status::SHARING_VIOLATION);
    check(&mut fixture, ":c:$INDEX_ALLOCATION", false, Status::INVALID_PARAMETER);
    check(&mut fixture, ":c:", false, Status::INVALID_PARAMETER);
    check(&mut fixture, ":c", false, Status::SUCCESS);
    assert_eq!((fixture.look("f:a"), fixture.look("f:c")), (Status::OBJECT_NAME_NOT_FOUND, Status::SUCCESS));
    // The former name is free, and opens a different stream.
    let new = fixture.open("f:a");
    assert_eq!((fixture.read(new), fixture.read(file)), (Vec::new(), b"a".to_vec()));
    check(&mut fixture, "::$DATA", false, Status::SUCCESS);
    let own = fixture.open("f");
    assert_eq!((fixture.read(own), fixture.read(file)), (b"a".to_vec(), b"a".to_vec()));
    assert_eq!(fixture.look("f:c"), Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn a_file_with_an_open_stream_keeps_its_name() {
    let mut fixture = fixture();
    let (file, stream) = (fixture.open("f"), fixture.open("f:s"));
    assert_eq!(fixture.rename(file, "g", false), Status::ACCESS_DENIED);
    fixture.client.close(stream);
    assert_eq!(fixture.rename(file, "g", false), Status::SUCCESS);
    assert_eq!(fixture.look("g:s"), Status::SUCCESS);
}

#[test]
fn the_store_is_hidden_from_clients() {
    let mut fixture = fixture();
    let file = fixture.open("f:s");
    assert_eq!(fixture.write(file, 0, &vec![1; 100_000]), Status::SUCCESS);
    let listing = fixture.listing();
    let shows = |name: &str| listing.windows(name.len() * 2).any(|part| part == utf16_bytes(name));
    assert!(shows("f") && !shows("frevo"));
    for name in [".frevo-streams", r".FREVO-streams\x", ".frevo-streams:s"] {
        assert_eq!(fixture.look(name), Status::OBJECT_NAME_NOT_FOUND, "{name}");
        let made = fixture.create(name, ALL, SHARE_ALL, Disposition::OPEN_IF, CreateOptions(0));
        assert_eq!(made, Err(Status::ACCESS_DENIED), "{name}");
    }
    let other = fixture.open("g");
    assert_eq!(fixture.rename(other, ".frevo-streams", true), Status::ACCESS_DENIED);
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_lost() {
    let mut fixture = small_bed(64 << 10);
    let file = fixture.open("f:s");
    assert_eq!(fixture.write(file, 0, b"kept"), Status::SUCCESS);
    assert_eq!(fixture.write(file, 4, &vec![1; 200_000]), Status::DISK_FULL);
    assert_eq!(fixture.read(file)[..4], *b"kept");
}

#[test]
fn a_file_created_for_a_stream_is_removed_if_the_stream_cannot_be_created() {
    let mut fixture = fixture();
    // An extended attribute cannot have such a long name.
    let name = format!("f:{}", "s".repeat(250));
    let made = fixture.create(&name, ALL, SHARE_ALL, Disposition::OPEN_IF, CreateOptions(0));
    assert_eq!((made, fixture.look("f")), (Err(Status::OBJECT_NAME_INVALID), Status::OBJECT_NAME_NOT_FOUND));
}

#[test]
fn a_share_without_streams_has_none() {
    let mut policy = testing::policy();
    let share = Share { streams: None, ..(*policy.shares["share"]).clone() };
    policy.shares.insert("share".into(), Arc::new(share));
    let mut fixture = Fixture { client: TestClient::logged_on(&TestServer::with_policy(policy), "alice") };
    let file = fixture.open("f");
    for name in ["f:s", "f::$DATA", "g:s"] {
        let made = fixture.create(name, ALL, SHARE_ALL, Disposition::OPEN_IF, CreateOptions(0));
        assert_eq!(made, Err(Status::OBJECT_NAME_INVALID), "{name}");
    }
    assert_eq!(fixture.streams(file), [("::$DATA".to_owned(), 0)]);
}

/// Builds a list of extended attributes for SET_INFO.
fn attributes(list: &[(&str, &[u8])]) -> impl FnOnce(&mut Writer<'_>) {
    move |out| {
        let mut chain = EntryChain::new(out, EA_ALIGNMENT, usize::MAX);
        for (name, value) in list {
            let entry = FileFullEaInformation::new(EaFlags::NONE, name.as_bytes(), value).expect("the value is short");
            assert!(entry.push(&mut chain, out));
        }
    }
}

#[test]
fn extended_attributes_are_read_one_by_one_or_all_at_once() {
    let mut fixture = fixture();
    let file = fixture.open("f");
    let stream = fixture.open("f:s");
    assert_eq!(fixture.query(file, Class::FULL_EA, 100, QueryInfoFlags(0)).0, Status::NO_EAS_ON_FILE);
    let list: [(&str, &[u8]); 3] = [("a", b"1"), ("b", &[2; 30]), ("c", b"3")];
    assert_eq!(fixture.set(file, Class::FULL_EA, attributes(&list)), Status::SUCCESS);
    let mut names = |flags: QueryInfoFlags, space: u32| {
        let (status, buffer) = fixture.query(file, Class::FULL_EA, space, flags);
        let entries = FileFullEaInformation::list(&buffer).filter_map(|entry| entry.ok());
        let names: String = entries.filter_map(|entry| String::from_utf8(entry.ea_name().to_vec()).ok()).collect();
        (status, names)
    };
    let (restart, single) = (QueryInfoFlags::RESTART_SCAN, QueryInfoFlags::RETURN_SINGLE_ENTRY);
    let said = |status, names: &str| (status, names.to_owned());
    assert_eq!(names(restart, 1000), said(Status::SUCCESS, "abc"));
    assert_eq!(names(QueryInfoFlags(0), 1000), said(Status::NO_MORE_EAS, ""));
    assert_eq!(names(restart | single, 1000), said(Status::SUCCESS, "a"));
    assert_eq!(names(QueryInfoFlags(0), 30), said(Status::BUFFER_TOO_SMALL, ""));
    assert_eq!(names(QueryInfoFlags(0), 45), said(Status::BUFFER_OVERFLOW, "b"));
    assert_eq!(names(QueryInfoFlags(0), 45), said(Status::SUCCESS, "c"));
    assert_eq!(names(QueryInfoFlags::INDEX_SPECIFIED, 1000), said(Status::NONEXISTENT_EA_ENTRY, ""));
    // 4 bytes for the list, and for each attribute 4 + 1 + its name + 1 + its value.
    assert_eq!(fixture.query(file, Class::EA, 4, QueryInfoFlags(0)).1, (4_u32 + 8 + 37 + 8).to_le_bytes());
    // They belong to the file, whichever stream is used to set them. Empty ones are removed, and names are
    // case-insensitive.
    assert_eq!(fixture.set(stream, Class::FULL_EA, attributes(&[("B", b""), ("x", b"")])), Status::SUCCESS);
    assert_eq!(fixture.query(file, Class::EA, 4, QueryInfoFlags(0)).1, (4_u32 + 8 + 8).to_le_bytes());
}

#[test]
fn a_file_has_attributes_from_the_start_or_when_it_is_overwritten() {
    let mut fixture = fixture();
    for (disposition, value) in [(Disposition::CREATE, "1"), (Disposition::OPEN_IF, "2"), (Disposition::SUPERSEDE, "3")]
    {
        let mut data = Vec::new();
        attributes(&[("a", value.as_bytes())])(&mut Writer::new(&mut data));
        let name = utf16_bytes("f");
        let context = CreateContext { name: create_context::name::EA_BUFFER.to_vec().into(), data: data.into() };
        let create = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: ALL,
            share_access: ShareAccess(SHARE_ALL),
            create_disposition: disposition,
            name: &name,
            create_contexts: vec![context],
            ..CreateRequest::default()
        };
        let response = fixture.client.request(Command::CREATE, |out| create.encode(out));
        let file = CreateResponse::decode(&response).expect("the open succeeds").file_id;
        let (_, buffer) = fixture.query(file, Class::FULL_EA, 100, QueryInfoFlags::RESTART_SCAN);
        let expected = if disposition == Disposition::OPEN_IF { "1" } else { value };
        let found = FileFullEaInformation::list(&buffer).next().expect("one").expect("a well-formed message");
        assert_eq!(found.ea_value(), expected.as_bytes(), "{disposition:?}");
        fixture.client.close(file);
    }
}

#[test]
fn attributes_that_clients_cannot_access() {
    let mut fixture = fixture();
    let file = fixture.open("f");
    for (name, expected) in [
        ("DosStream.s:$DATA", Status::INVALID_EA_NAME),
        ("DosStream.s", Status::ACCESS_DENIED),
        ("frevostream.s", Status::ACCESS_DENIED),
        ("DOSATTRIB", Status::ACCESS_DENIED),
        ("a*", Status::INVALID_EA_NAME),
    ] {
        assert_eq!(fixture.set(file, Class::FULL_EA, attributes(&[(name, b"x")])), expected, "{name}");
    }
    assert_eq!(fixture.streams(file).len(), 1);
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
