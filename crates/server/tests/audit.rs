//! `vfs objects = full_audit`: the lines that requests cause.

use std::sync::Arc;
use std::time::Duration;

use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::{AccessMask, FileTime, SecurityDescriptor};
use proto::fscc::{FileBasicInformation, FileInformationClass};
use proto::smb2::InfoType;
use proto::smb2::close::CloseRequest;
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::create_context::{DurableHandleReconnect, DurableHandleRequest};
use proto::smb2::flush::FlushRequest;
use proto::smb2::header::Command;
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use proto::smb2::read::ReadRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::tree_disconnect::TreeDisconnectRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;
use server::audit::{Destinations, Event, Moved, Queue, Record};
use server::policy::audit::{Audit, Destination, Operations, Overflow};
use server::policy::printing::QueueSystem;
use server::policy::recycle::Recycle;
use server::policy::{PrintPolicy, Share, Template};
use server::testing::{self, ManualClock, TestClient, TestPrinter, TestServer, status};
use server::vfs::{Create, NewFile};

/// One queue for all destinations, which the test reads.
#[derive(Default)]
struct Lines(Arc<Queue>);

impl Destinations for Lines {
    fn queue(&self, _: &Destination) -> Arc<Queue> {
        Arc::clone(&self.0)
    }
}

/// A server whose share has an audit, and a client of it.
struct Fixture {
    server: TestServer,
    client: TestClient,
    lines: Arc<Queue>,
}

/// Returns an audit of all operations.
fn audit() -> Audit {
    Audit {
        prefix: Template::parse("P").expect("no variables"),
        success: Operations::ALL,
        failure: Operations::ALL,
        ..Audit::default()
    }
}

fn name_of(path: &str) -> Vec<u8> {
    utf16_bytes(&path.replace('/', "\\"))
}

fn create<'a>(
    name: &'a [u8],
    access: u32,
    disposition: CreateDisposition,
    options: CreateOptions,
) -> CreateRequest<'a> {
    CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: access,
        share_access: ShareAccess(7),
        create_disposition: disposition,
        create_options: options,
        name,
        ..CreateRequest::default()
    }
}

const READ_AND_WRITE: u32 = 0x12_019f;
const NO_OPTIONS: CreateOptions = CreateOptions(0);

impl Fixture {
    fn new(audit: Audit) -> Fixture {
        Fixture::with_share(audit, |_| ())
    }

    fn with_share(audit: Audit, change: impl FnOnce(&mut Share)) -> Fixture {
        let lines = Arc::<Queue>::default();
        let builder = TestServer::builder().clock(ManualClock::new()).audit(Arc::new(Lines(Arc::clone(&lines))));
        let builder = builder.print_system(Arc::new(TestPrinter)).share(|share| {
            share.audit = Some(Arc::new(audit));
            change(share);
        });
        let server = builder.start();
        let client = TestClient::logged_on(&server, "alice");
        Fixture { server, client, lines }
    }

    /// Returns the lines since the last call.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let batch = self.lines.next(Duration::ZERO);
            assert_eq!(batch.lost, 0);
            if batch.events.is_empty() {
                return lines;
            }
            self.lines.written(batch.events.len(), 0);
            lines.extend(batch.events.iter().map(ToString::to_string));
        }
    }

    #[track_caller]
    fn wrote(&self, expected: &[&str]) {
        assert_eq!(self.lines(), expected);
    }

    fn try_create(&mut self, request: &CreateRequest<'_>) -> Result<FileId, Status> {
        let response = self.client.request(Command::CREATE, |out| request.encode(out));
        match status(&response) {
            Status::SUCCESS => Ok(CreateResponse::decode(&response).expect("a response").file_id),
            refused => Err(refused),
        }
    }

    #[track_caller]
    fn create(&mut self, path: &str, access: u32, disposition: CreateDisposition, options: CreateOptions) -> FileId {
        let name = name_of(path);
        self.try_create(&create(&name, access, disposition, options)).expect(path)
    }

    /// Creates a file, and forgets the lines of that.
    fn file(&mut self, path: &str) -> FileId {
        let access = READ_AND_WRITE | AccessMask::DELETE.0 | AccessMask::WRITE_DAC.0;
        let file = self.create(path, access, CreateDisposition::OPEN_IF, NO_OPTIONS);
        self.lines();
        file
    }

    fn set(&mut self, file_id: FileId, info_type: InfoType, class: u8, buffer: &[u8]) -> Status {
        let request = SetInfoRequest { info_type, file_info_class: class, additional_information: 4, file_id, buffer };
        status(&self.client.request(Command::SET_INFO, |out| request.encode(out)))
    }
}

#[test]
fn print_jobs_are_recorded() {
    let mut fixture = Fixture::with_share(audit(), |share| {
        let printing = PrintPolicy {
            queue: "laser".to_owned(),
            system: QueueSystem::Cups { options: Vec::new() },
            user_name: Template::parse("%U").expect("a template"),
            min_space: 0,
            max_jobs: 10,
            max_reported: 0,
        };
        share.printing = Some(Arc::new(printing));
    });
    let begun = fixture.lines();
    assert!(begun.iter().any(|line| line.contains("connect|ok")), "{begun:?}");
    let name = name_of("a report");
    let job = fixture.create("a report", READ_AND_WRITE, CreateDisposition::OPEN_IF, NO_OPTIONS);
    let close = CloseRequest { file_id: job, ..CloseRequest::default() };
    assert_eq!(status(&fixture.client.request(Command::CLOSE, |out| close.encode(out))), Status::SUCCESS);
    let read = create(&name, 1, CreateDisposition::OPEN, NO_OPTIONS);
    assert_eq!(fixture.try_create(&read), Err(Status::ACCESS_DENIED));
    fixture.client.request(Command::TREE_DISCONNECT, |out| TreeDisconnectRequest.encode(out));
    let lines = fixture.lines();
    let expected = ["openat|ok|w|", "create_file|ok|0x12019f|", "close|ok|", "create_file|fail", "disconnect|ok"];
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    assert!(lines.iter().zip(expected).all(|(line, part)| line.contains(part)), "{lines:?}");
    assert!(lines[..4].iter().all(|line| line.ends_with("/a report")), "{lines:?}");
}

#[test]
fn a_tree_connect_begins_and_ends() {
    let mut fixture = Fixture::new(audit());
    fixture.wrote(&["P|connect|ok|share"]);
    fixture.client.request(Command::TREE_DISCONNECT, |out| TreeDisconnectRequest.encode(out));
    fixture.wrote(&["P|disconnect|ok|share"]);
    assert_eq!(fixture.client.tree_connect("share"), Status::SUCCESS);
    let file = fixture.file("f");
    let Fixture { client, lines, server } = fixture;
    client.disconnect();
    let lines: Vec<_> = lines.next(Duration::ZERO).events.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["P|close|ok|/share/f", "P|disconnect|ok|share"], "{file:?}");
    assert_eq!(server.open_files(), 0);
}

#[test]
fn a_file_is_created_written_read_and_closed() {
    let mut fixture = Fixture::new(audit());
    fixture.lines();
    let file = fixture.create("f", READ_AND_WRITE, CreateDisposition::OVERWRITE_IF, NO_OPTIONS);
    fixture.wrote(&[
        "P|openat|ok|w|/share/f",
        "P|fset_dos_attributes|ok|/share/f",
        "P|create_file|ok|0x12019f|file|overwrite_if|/share/f",
    ]);
    let write = WriteRequest { file_id: file, buffer: b"data", ..WriteRequest::default() };
    fixture.client.request(Command::WRITE, |out| write.encode(out));
    fixture.wrote(&["P|pwrite_send|ok|/share/f", "P|pwrite_recv|ok|/share/f"]);
    for length in [4, 10] {
        let read = ReadRequest { file_id: file, length, offset: 10 - u64::from(length), ..ReadRequest::default() };
        fixture.client.request(Command::READ, |out| read.encode(out));
        fixture.wrote(&["P|pread_send|ok|/share/f", "P|pread_recv|ok|/share/f"]);
    }
    fixture.client.request(Command::FLUSH, |out| FlushRequest { file_id: file, ..FlushRequest::default() }.encode(out));
    fixture.wrote(&["P|fsync_send|ok|/share/f", "P|fsync_recv|ok|/share/f"]);
    fixture.client.close(file);
    fixture.wrote(&["P|close|ok|/share/f"]);
    let file = fixture.create("f", READ_AND_WRITE, CreateDisposition::OVERWRITE_IF, NO_OPTIONS);
    fixture.client.close(file);
    fixture.wrote(&[
        "P|openat|ok|w|/share/f",
        "P|ftruncate|ok|/share/f",
        "P|fset_dos_attributes|ok|/share/f",
        "P|create_file|ok|0x12019f|file|overwrite_if|/share/f",
        "P|close|ok|/share/f",
    ]);
    let file = fixture.create("F", 0x12_0089, CreateDisposition::OPEN, NO_OPTIONS);
    fixture.client.close(file);
    fixture.wrote(&["P|openat|ok|r|/share/f", "P|create_file|ok|0x120089|file|open|/share/f", "P|close|ok|/share/f"]);
}

#[test]
fn a_directory_is_created_listed_and_removed() {
    let mut fixture = Fixture::new(audit());
    fixture.lines();
    let directory = fixture.create("d", 0x81, CreateDisposition::CREATE, CreateOptions::DIRECTORY_FILE);
    fixture.wrote(&[
        "P|mkdirat|ok|/share/d",
        "P|openat|ok|r|/share/d",
        "P|fset_dos_attributes|ok|/share/d",
        "P|create_file|ok|0x81|dir|create|/share/d",
    ]);
    let pattern = utf16_bytes("*");
    let query = QueryDirectoryRequest {
        file_information_class: 37,
        flags: QueryDirectoryFlags(0),
        file_index: 0,
        file_id: directory,
        file_name: &pattern,
        output_buffer_length: 65_536,
    };
    for _ in 0..2 {
        fixture.client.request(Command::QUERY_DIRECTORY, |out| query.encode(out));
    }
    fixture.wrote(&["P|fdopendir|ok|/share/d"]);
    fixture.client.close(directory);
    fixture.wrote(&["P|closedir|ok|", "P|close|ok|/share/d"]);
    let options = CreateOptions::DIRECTORY_FILE | CreateOptions::DELETE_ON_CLOSE;
    let directory = fixture.create("d", AccessMask::DELETE.0, CreateDisposition::OPEN, options);
    fixture.client.close(directory);
    fixture.wrote(&[
        "P|openat|ok|r|/share/d",
        "P|create_file|ok|0x10000|dir|open|/share/d",
        "P|unlinkat|ok|/share/d",
        "P|close|ok|/share/d",
    ]);
}

#[test]
fn a_file_is_renamed_linked_and_changed() {
    let mut fixture = Fixture::new(audit());
    let other = fixture.file("other");
    fixture.client.close(other);
    let file = fixture.file("f");
    let named = |name: &str| {
        let name = utf16_bytes(name);
        let length = u32::try_from(name.len()).expect("a short name");
        [&[0; 16][..], &length.to_le_bytes(), &name].concat()
    };
    let set = |fixture: &mut Fixture, class: FileInformationClass, buffer: &[u8]| {
        fixture.set(file, InfoType::FILE, class.0, buffer)
    };
    assert_eq!(set(&mut fixture, FileInformationClass::RENAME, &named("g")), Status::SUCCESS);
    fixture.wrote(&["P|renameat|ok|/share/f|/share/g"]);
    assert_eq!(set(&mut fixture, FileInformationClass::LINK, &named("h")), Status::SUCCESS);
    fixture.wrote(&["P|linkat|ok|/share/g|/share/h"]);
    assert_eq!(set(&mut fixture, FileInformationClass::RENAME, &named("other")), Status::OBJECT_NAME_COLLISION);
    fixture.wrote(&["P|renameat|fail (File exists)|/share/g|/share/other"]);
    let mut basic = Vec::new();
    let info = FileBasicInformation {
        last_write_time: FileTime::from_unix(1_577_836_800, 0),
        file_attributes: proto::fscc::FileAttributes::HIDDEN,
        ..FileBasicInformation::default()
    };
    info.encode(&mut Writer::new(&mut basic));
    assert_eq!(set(&mut fixture, FileInformationClass::BASIC, &basic), Status::SUCCESS);
    fixture.wrote(&[
        "P|fset_dos_attributes|ok|/share/g",
        "P|fntimes|ok|/share/g|Thu Jan  1 00:00:01 1970 UTC|Thu Jan  1 00:00:01 1970 UTC|\
         Wed Jan  1 00:00:00 2020 UTC|Thu Jan  1 00:00:01 1970 UTC",
    ]);
    assert_eq!(set(&mut fixture, FileInformationClass::END_OF_FILE, &9_u64.to_le_bytes()), Status::SUCCESS);
    fixture.wrote(&["P|ftruncate|ok|/share/g"]);
}

#[test]
fn a_security_descriptor_is_written_if_configured() {
    for (log_secdesc, expected) in [(false, "[]"), (true, "[D:(A;;FA;;;WD)]")] {
        let mut fixture = Fixture::new(Audit { log_secdesc, ..audit() });
        let file = fixture.file("f");
        let domains = proto::dtyp::sddl::Domains::default();
        let descriptor: SecurityDescriptor = proto::dtyp::sddl::decode("D:(A;;FA;;;WD)", &domains).expect("valid SDDL");
        assert_eq!(fixture.set(file, InfoType::SECURITY, 0, &descriptor.to_bytes()), Status::SUCCESS);
        fixture.wrote(&[&format!("P|fset_nt_acl|ok|/share/f {expected}")]);
    }
}

#[test]
fn failures_have_the_words_of_the_c_library() {
    let mut fixture = Fixture::new(audit());
    fixture.server.create_locally("d", NewFile::new(Create::Directory, 0o777));
    fixture.server.create_locally("closed", NewFile::new(Create::Directory, 0o700));
    fixture.lines();
    let name = name_of("gone");
    let request = create(&name, 0x12_0089, CreateDisposition::OPEN, NO_OPTIONS);
    assert_eq!(fixture.try_create(&request), Err(Status::OBJECT_NAME_NOT_FOUND));
    fixture.wrote(&[
        "P|openat|fail (No such file or directory)|r|/share/gone",
        "P|create_file|fail (No such file or directory)|0x120089|file|open|/share/gone",
    ]);
    let name = name_of("d");
    let request = create(&name, 0x80, CreateDisposition::CREATE, CreateOptions::DIRECTORY_FILE);
    assert_eq!(fixture.try_create(&request), Err(Status::OBJECT_NAME_COLLISION));
    fixture.wrote(&["P|create_file|fail (File exists)|0x80|dir|create|/share/d"]);
    let name = name_of("closed/new");
    let request = create(&name, 0x80, CreateDisposition::CREATE, CreateOptions::DIRECTORY_FILE);
    assert_eq!(fixture.try_create(&request), Err(Status::ACCESS_DENIED));
    fixture.wrote(&[
        "P|mkdirat|fail (Permission denied)|/share/closed/new",
        "P|create_file|fail (Permission denied)|0x80|dir|create|/share/closed/new",
    ]);
}

#[test]
fn only_the_configured_operations_are_recorded() {
    let success = Operations::parse(["all", "!close", "!openat"]).expect("known names");
    let failure = Operations::parse(["openat"]).expect("known names");
    let mut fixture = Fixture::new(Audit { success, failure, ..audit() });
    fixture.lines();
    let name = name_of("gone");
    let request = create(&name, 0x12_0089, CreateDisposition::OPEN, NO_OPTIONS);
    assert_eq!(fixture.try_create(&request), Err(Status::OBJECT_NAME_NOT_FOUND));
    fixture.wrote(&["P|openat|fail (No such file or directory)|r|/share/gone"]);
    let file = fixture.create("f", READ_AND_WRITE, CreateDisposition::CREATE, NO_OPTIONS);
    fixture.client.close(file);
    fixture.wrote(&["P|fset_dos_attributes|ok|/share/f", "P|create_file|ok|0x12019f|file|create|/share/f"]);
}

#[test]
fn a_deletion_is_a_rename_if_the_audit_is_below_the_recycle_bin() {
    for (sees_recycling, expected) in
        [(false, "P|unlinkat|ok|/share/f"), (true, "P|renameat|ok|/share/f|/share/.recycle/f")]
    {
        let bin = |share: &mut Share| share.recycle = Some(Arc::new(Recycle::default()));
        let mut fixture = Fixture::with_share(Audit { sees_recycling, ..audit() }, bin);
        let file = fixture.file("f");
        fixture.client.close(file);
        fixture.lines();
        let file = fixture.create("f", AccessMask::DELETE.0, CreateDisposition::OPEN, CreateOptions::DELETE_ON_CLOSE);
        fixture.lines();
        fixture.client.close(file);
        fixture.wrote(&[expected, "P|close|ok|/share/f"]);
    }
}

#[test]
fn a_client_cannot_forge_fields_or_lines() {
    let prefix = Template::parse("%U|%m|%S|%T").expect("known variables");
    let mut fixture = Fixture::new(Audit { prefix, ..audit() });
    let line = fixture.lines().remove(0);
    assert!(line.starts_with("alice|") && line.ends_with("|connect|ok|share"), "{line}");
    assert_eq!(line.matches('|').count(), 6, "{line}");
    let file = fixture.file("a\u{85}b");
    fixture.client.close(file);
    let line = fixture.lines().remove(0);
    assert!(line.ends_with("|close|ok|/share/a?b"), "{line}");
}

#[test]
fn a_stalled_destination_delays_no_request() {
    let mut fixture = Fixture::new(audit());
    let mut path = "d".repeat(250);
    for _ in 0..14 {
        fixture.server.create_locally(&path, NewFile::new(Create::Directory, 0o777));
        path = format!("{path}/{}", "d".repeat(250));
    }
    let file = fixture.file(&path);
    let write = WriteRequest { file_id: file, buffer: b"data", ..WriteRequest::default() };
    const WRITES: usize = 1_500;
    for _ in 0..WRITES {
        let response = fixture.client.request(Command::WRITE, |out| write.encode(out));
        assert_eq!(status(&response), Status::SUCCESS);
    }
    let (mut lost, mut records) = (0, 0);
    loop {
        let batch = fixture.lines.next(Duration::ZERO);
        lost += usize::try_from(batch.lost).expect("a small number");
        records += batch.events.len();
        if batch.events.is_empty() {
            break;
        }
        fixture.lines.written(batch.events.len(), 0);
    }
    assert_eq!(lost + records, 2 * WRITES);
    // The queue is bounded.
    assert!(lost > 0 && records * path.len() < 9 << 20, "{records}");
    let response = fixture.client.request(Command::WRITE, |out| write.encode(out));
    assert_eq!(status(&response), Status::SUCCESS);
    assert_eq!(fixture.lines().len(), 2);
}

/// Returns the records since the last call.
fn records(fixture: &Fixture) -> Vec<Record> {
    let batch = fixture.lines.next(Duration::ZERO);
    fixture.lines.written(batch.events.len(), 0);
    let of_share = |event| match event {
        Event::Operation(record) => record,
        other => panic!("{other}"),
    };
    batch.events.into_iter().map(of_share).collect()
}

#[test]
fn the_bytes_of_each_operation_and_of_the_open_are_recorded() {
    let mut fixture = Fixture::new(audit());
    let file = fixture.file("f");
    let write = WriteRequest::new(file, 0, b"content");
    for _ in 0..2 {
        fixture.client.request(Command::WRITE, |out| write.encode(out));
    }
    for (offset, length) in [(0, 100), (3, 2), (50, 1)] {
        let read = ReadRequest { file_id: file, offset, length, ..ReadRequest::default() };
        fixture.client.request(Command::READ, |out| read.encode(out));
    }
    let written = WriteRequest::new(file, 0, b"");
    fixture.client.request(Command::WRITE, |out| written.encode(out));
    fixture.client.close(file);
    let moved: Vec<_> = records(&fixture)
        .into_iter()
        .filter(|record| record.moved != Moved::Nothing)
        .map(|record| (record.operation.name(), record.moved, record.path().map(str::to_owned)))
        .collect();
    let path = || Some("/share/f".to_owned());
    assert_eq!(
        moved,
        [
            ("pwrite_recv", Moved::Once(7), path()),
            ("pwrite_recv", Moved::Once(7), path()),
            ("pread_recv", Moved::Once(7), path()),
            ("pread_recv", Moved::Once(2), path()),
            ("pread_recv", Moved::Once(0), path()),
            ("pwrite_recv", Moved::Once(0), path()),
            ("close", Moved::InAll { read: 9, written: 14 }, path()),
        ]
    );
}

#[test]
fn each_request_of_a_chain_has_its_own_bytes() {
    let mut fixture = Fixture::new(audit());
    let file = fixture.file("f");
    let write = WriteRequest::new(file, 0, b"content");
    fixture.client.request(Command::WRITE, |out| write.encode(out));
    let reads = [0, 100].map(|offset| {
        let read = ReadRequest { file_id: file, offset, length: 7, minimum_count: 1, ..ReadRequest::default() };
        fixture.client.compose(Command::READ, |out| read.encode(out))
    });
    fixture.client.send(&testing::chain(&reads, false));
    fixture.client.close(file);
    let moved: Vec<_> = records(&fixture)
        .into_iter()
        .filter(|record| ["pread_recv", "close"].contains(&record.operation.name()))
        .map(|record| record.moved)
        .collect();
    // The second READ is after the end of the file.
    assert_eq!(moved, [Moved::Once(7), Moved::Once(0), Moved::InAll { read: 7, written: 7 }]);
}

/// Fills the queue until a request that changes the file is refused.
fn fill(fixture: &mut Fixture, file: FileId) {
    let write = WriteRequest::new(file, 0, b"x");
    let mut done = 0;
    while status(&fixture.client.request(Command::WRITE, |out| write.encode(out))) == Status::SUCCESS {
        done += 1;
        assert!(done < 100_000, "no request is refused");
    }
}

#[test]
fn requests_that_cannot_be_recorded_are_refused_if_configured() {
    let mut fixture = Fixture::new(Audit { overflow: Overflow::Refuse, ..audit() });
    let file = fixture.file("f");
    let other = fixture.file("g");
    fill(&mut fixture, file);
    // Nothing that changes the share is carried out.
    let large = WriteRequest::new(file, 100, b"large");
    let refused = fixture.client.request(Command::WRITE, |out| large.encode(out));
    assert_eq!(status(&refused), Status::AUDIT_FAILED);
    assert_eq!(fixture.set(other, InfoType::FILE, FileInformationClass::DISPOSITION.0, &[1]), Status::AUDIT_FAILED);
    let name = name_of("new");
    let new = create(&name, READ_AND_WRITE, CreateDisposition::CREATE, NO_OPTIONS);
    assert_eq!(fixture.try_create(&new), Err(Status::AUDIT_FAILED));
    let read = ReadRequest { file_id: file, length: 1, ..ReadRequest::default() };
    let refused = fixture.client.request(Command::READ, |out| read.encode(out));
    assert_eq!(status(&refused), Status::AUDIT_FAILED);
    assert_eq!(fixture.lines.numbers().refused, 5);
    // The event of a tree connect is smaller than those of a WRITE.
    let mut client = TestClient::new(&fixture.server);
    client.negotiate(proto::smb2::negotiate::SecurityMode::SIGNING_ENABLED);
    assert_eq!(client.log_on("alice", testing::PASSWORD, 0), Status::SUCCESS);
    let refused = (0..10).map(|_| client.tree_connect("share")).find(|status| *status != Status::SUCCESS);
    assert_eq!(refused, Some(Status::AUDIT_FAILED));
    // What cannot be refused is recorded nevertheless.
    fixture.client.close(other);
    assert_eq!(fixture.lines.numbers().lost, 0);
    let lines = fixture.lines();
    assert!(lines.iter().all(|line| !line.contains("new")));
    assert_eq!(lines.last().map(String::as_str), Some("P|close|ok|/share/g"));
    // The destination works again.
    assert_eq!(status(&fixture.client.request(Command::WRITE, |out| large.encode(out))), Status::SUCCESS);
    assert!(fixture.try_create(&new).is_ok());
    assert_eq!(fixture.lines.numbers().lost, 0);
}

#[test]
fn a_request_that_is_not_recorded_is_not_refused() {
    let success = Operations::parse(["pwrite_recv"]).expect("a known name");
    let failure = Operations::NONE;
    let mut fixture = Fixture::new(Audit { overflow: Overflow::Refuse, success, failure, ..audit() });
    let file = fixture.file("f");
    fill(&mut fixture, file);
    let read = ReadRequest { file_id: file, length: 1, ..ReadRequest::default() };
    assert_eq!(status(&fixture.client.request(Command::READ, |out| read.encode(out))), Status::SUCCESS);
    fixture.file("g");
}

#[test]
fn requests_without_an_event_are_not_refused() {
    let names = ["pwrite_recv", "create_file", "fdopendir", "renameat", "fsetxattr"];
    let success = Operations::parse(names).expect("known names");
    let failure = Operations::NONE;
    let mut fixture = Fixture::new(Audit { overflow: Overflow::Refuse, success, failure, ..audit() });
    let name = name_of("durable");
    let plain = create(&name, READ_AND_WRITE, CreateDisposition::OPEN_IF, NO_OPTIONS);
    let durable = CreateRequest {
        requested_oplock_level: OplockLevel::BATCH,
        create_contexts: vec![DurableHandleRequest.to_context()],
        ..plain.clone()
    };
    let kept = fixture.try_create(&durable).expect("a durable open");
    let client = TestClient::logged_on(&fixture.server, "alice");
    std::mem::replace(&mut fixture.client, client).disconnect();
    let directory = fixture.create("d", 0x81, CreateDisposition::CREATE, CreateOptions::DIRECTORY_FILE);
    let page = |fixture: &mut Fixture| {
        let pattern = utf16_bytes("*");
        let query = QueryDirectoryRequest {
            file_information_class: 37,
            flags: QueryDirectoryFlags(0),
            file_index: 0,
            file_id: directory,
            file_name: &pattern,
            output_buffer_length: 65_536,
        };
        status(&fixture.client.request(Command::QUERY_DIRECTORY, |out| query.encode(out)))
    };
    assert_eq!(page(&mut fixture), Status::SUCCESS);
    let file = fixture.file("f");
    let write = WriteRequest::new(file, 0, b"x");
    while status(&fixture.client.request(Command::WRITE, |out| write.encode(out))) == Status::SUCCESS {}
    assert_eq!(fixture.try_create(&plain), Err(Status::AUDIT_FAILED));
    // The next page, another change of the file, and the return to an open have no event.
    assert_eq!(page(&mut fixture), Status::NO_MORE_FILES);
    let end = FileInformationClass::END_OF_FILE.0;
    assert_eq!(fixture.set(file, InfoType::FILE, end, &9_u64.to_le_bytes()), Status::SUCCESS);
    let again = CreateRequest { create_contexts: vec![DurableHandleReconnect { file_id: kept }.to_context()], ..plain };
    assert_eq!(fixture.try_create(&again).map(|id| id.persistent), Ok(kept.persistent));
}

#[test]
fn a_large_request_needs_room_for_its_text_only() {
    let mut fixture = Fixture::new(Audit { overflow: Overflow::Refuse, ..audit() });
    let file = fixture.file("f");
    // The client may set a megabyte, which is not a descriptor.
    assert_ne!(fixture.set(file, InfoType::SECURITY, 0, &[0xff; 1 << 20]), Status::AUDIT_FAILED);
    let mut fixture = Fixture::new(Audit { overflow: Overflow::Refuse, log_secdesc: true, ..audit() });
    let file = fixture.file("f");
    assert_ne!(fixture.set(file, InfoType::SECURITY, 0, &[0xff; 1 << 20]), Status::AUDIT_FAILED);
    assert_eq!(fixture.lines.numbers().refused, 0);
}

#[test]
fn a_share_with_an_audit_is_not_served_without_a_destination() {
    let server = TestServer::builder().share(|share| share.audit = Some(Arc::new(audit()))).start();
    let mut client = TestClient::new(&server);
    client.negotiate(proto::smb2::negotiate::SecurityMode::SIGNING_ENABLED);
    assert_eq!(client.log_on("alice", testing::PASSWORD, 0), Status::SUCCESS);
    assert_eq!(client.tree_connect("share"), Status::BAD_NETWORK_NAME);
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
