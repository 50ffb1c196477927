//! File properties on disk as reported to clients: file ID, flushing, and errors that storage reports late.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use proto::bytes::utf16_bytes;
use proto::fscc::{DirectoryClass, DirectoryEntry, FileInformationClass as Class};
use proto::smb2::FileId;
use proto::smb2::SecurityInformation;
use proto::smb2::close::CloseRequest;
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::create_context::{CreateContext, QueryOnDiskIdResponse, name};
use proto::smb2::flush::FlushRequest;
use proto::smb2::header::Command;
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::smb2::query_info::{InfoType, QueryInfoRequest, QueryInfoResponse};
use proto::smb2::read::ReadRequest;
use proto::smb2::write::{WriteFlags, WriteRequest};
use proto::status::Status;
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::faulty::{Fault, Faulty, Operation, Script};
use server::vfs::memory::Options;
use server::vfs::{Cancellation, Errno, Kind, Metadata, Time};

/// `FileIdInformation`.
const ID: Class = Class(59);

/// Opens or creates `name` and returns the handle and the number in the QFid response.
#[track_caller]
fn open(client: &mut TestClient, name: &str, options: CreateOptions) -> (FileId, u64) {
    // The root is not opened for deletion.
    let desired_access = if name.is_empty() { 0x0012_00a9 } else { 0x001f_01ff };
    let name = utf16_bytes(name);
    let create = CreateRequest {
        desired_access,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        create_options: options,
        name: &name,
        create_contexts: vec![CreateContext::new(name::QUERY_ON_DISK_ID, &[][..])],
        ..CreateRequest::default()
    };
    let response = client.request(Command::CREATE, |out| create.encode(out));
    assert_eq!(status(&response), Status::SUCCESS);
    let response = CreateResponse::decode(&response).expect("a well-formed message");
    let context = response.create_contexts.iter().find(|context| &*context.name == name::QUERY_ON_DISK_ID);
    let number =
        QueryOnDiskIdResponse::decode(&context.expect("it was requested").data).expect("a well-formed message");
    (response.file_id, number.disk_file_id)
}

/// Returns eight bytes of the information `class`, at the offset `at`.
#[track_caller]
fn query(client: &mut TestClient, file_id: FileId, class: Class, at: usize) -> u64 {
    let query = QueryInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: class.0,
        output_buffer_length: 4096,
        file_id,
        ..QueryInfoRequest::default()
    };
    let response = client.request(Command::QUERY_INFO, |out| query.encode(out));
    let buffer = QueryInfoResponse::decode(&response).expect("a well-formed message").buffer;
    u64::from_le_bytes(buffer[at..at + 8].try_into().expect("eight bytes"))
}

/// Returns the number of `name` in a listing of the root.
fn listed(client: &mut TestClient, wanted: &str) -> u64 {
    let (root, _) = open(client, "", CreateOptions(0));
    let pattern = utf16_bytes(wanted);
    let class = Class::ID_BOTH_DIRECTORY;
    let query = QueryDirectoryRequest {
        file_information_class: class.0,
        flags: QueryDirectoryFlags(0),
        file_index: 0,
        file_id: root,
        file_name: &pattern,
        output_buffer_length: 65_536,
    };
    let response = client.request(Command::QUERY_DIRECTORY, |out| query.encode(out));
    client.close(root);
    let buffer = QueryDirectoryResponse::decode(&response).expect("a well-formed message").buffer.to_vec();
    let mut entries =
        DirectoryEntry::list(DirectoryClass::new(class).expect("a class of directory listings"), buffer.as_slice());
    entries.next().expect("it exists").expect("a well-formed message").file_id
}

#[test]
fn all_queries_of_a_file_number_agree() {
    let mut client = TestClient::logged_on(&TestServer::new(), "alice");
    for (name, options) in [("file", CreateOptions(0)), ("dir", CreateOptions::DIRECTORY_FILE)] {
        let (file, number) = open(&mut client, name, options);
        assert_eq!(query(&mut client, file, Class::INTERNAL, 0), number, "{name}");
        assert_eq!(query(&mut client, file, ID, 8), number, "{name}");
        assert_eq!(listed(&mut client, name), number, "{name}");
        client.close(file);
        assert_eq!(open(&mut client, name, options).1, number, "{name}: the same number when reopened");
    }
}

fn numbered(metadata: Metadata, inode: u64, born: Option<(i64, u32)>) -> u64 {
    let born = born.map(|(secs, nanos)| Time { secs, nanos });
    Metadata { id: server::vfs::FileId { inode, ..metadata.id }, born, ..metadata }.file_id()
}

#[test]
fn a_file_number_is_unique_even_among_deleted_files() {
    let metadata = testing::metadata(Kind::File, 0o644, (0, 0));
    let births = [(1_700_000_000, 0), (1_700_000_000, 4_000_000), (1_700_000_001, 0), (-5, 1)];
    for inode in [2, 12, 0xffff_ffff, 0x1_0000_0000, 0xffff_ffff_ffff] {
        let mut numbers: Vec<u64> = births.iter().map(|&born| numbered(metadata, inode, Some(born))).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), births.len(), "{inode:x}");
    }
    // Numbers that do not contain the complete inode number would eventually collide.
    let mut all: Vec<u64> = (1..=4096).map(|inode| numbered(metadata, inode, Some((7, 7)))).collect();
    all.extend((1..=4096).map(|inode| numbered(metadata, inode << 32, Some((7, 7)))));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 8192);
    assert_eq!(numbered(metadata, 12, None), 12, "no birth time, nothing but the inode number");
    assert_eq!(numbered(metadata, 1 << 63, Some((7, 7))), 1 << 63);
}

/// Counts the calls of one operation.
struct Calls(Operation, AtomicU64);

impl Calls {
    fn of(operation: Operation) -> Arc<Calls> {
        Arc::new(Calls(operation, AtomicU64::new(0)))
    }

    fn count(&self) -> u64 {
        self.1.load(Ordering::Relaxed)
    }
}

impl Script for Calls {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        self.1.fetch_add(u64::from(operation == self.0), Ordering::Relaxed);
        Fault::default()
    }
}

#[test]
fn a_volume_without_acls_is_not_asked_for_any() {
    for (lists, expected) in [(true, 1), (false, 0)] {
        let options = Options { mode: 0o777, lists, ..Options::default() };
        let attributes = Calls::of(Operation::GetXattr);
        let script = attributes.clone();
        let server =
            TestServer::builder().volume_options(options).wrap_volume(|volume| Faulty::new(volume, script)).start();
        let mut client = TestClient::logged_on(&server, "alice");
        let (file, _) = open(&mut client, "file", CreateOptions(0));
        let before = attributes.count();
        client.security(file, SecurityInformation::DACL);
        assert_eq!(attributes.count() - before, expected, "the access ACL of a file, if the volume has ACLs: {lists}");
    }
}

#[test]
fn a_directory_is_flushed_like_a_file() {
    let flushes = Calls::of(Operation::Flush);
    let script = flushes.clone();
    let server = TestServer::builder().wrap_volume(|volume| Faulty::new(volume, script)).start();
    let mut client = TestClient::logged_on(&server, "alice");
    for (at, (name, options)) in [("file", CreateOptions(0)), ("dir", CreateOptions::DIRECTORY_FILE)].iter().enumerate()
    {
        let (file_id, _) = open(&mut client, name, *options);
        assert_eq!(flushes.count(), at as u64, "{name}: no flush was requested");
        let flush = FlushRequest { file_id, ..FlushRequest::default() };
        assert_eq!(status(&client.request(Command::FLUSH, |out| flush.encode(out))), Status::SUCCESS);
        assert_eq!(flushes.count(), at as u64 + 1, "{name}");
        client.close(file_id);
        assert_eq!(flushes.count(), at as u64 + 1, "{name}: closing flushes nothing");
    }
}

#[test]
fn a_write_through_that_moves_a_stream_flushes_its_file() {
    let flushes = Calls::of(Operation::Flush);
    let script = flushes.clone();
    let server = TestServer::builder().wrap_volume(|volume| Faulty::new(volume, script)).start();
    let mut client = TestClient::logged_on(&server, "alice");
    let (file_id, _) = open(&mut client, "file:stream", CreateOptions(0));
    let mut flushes_of = |offset, flags| {
        let before = flushes.count();
        let write = WriteRequest { file_id, offset, length: 4, flags, buffer: b"data", ..WriteRequest::default() };
        assert_eq!(status(&client.request(Command::WRITE, |out| write.encode(out))), Status::SUCCESS);
        flushes.count() - before
    };
    assert_eq!(flushes_of(0, WriteFlags::NONE), 0);
    assert_eq!(flushes_of(0, WriteFlags::WRITE_THROUGH), 1, "the attribute that has the content");
    assert_eq!(
        flushes_of(1 << 20, WriteFlags::WRITE_THROUGH),
        2,
        "the former content, and the attribute that names it"
    );
    assert_eq!(flushes_of(2 << 20, WriteFlags::WRITE_THROUGH), 0, "the data is written through");
}

/// Fails each close, and lets reads wait for a lost connection.
#[derive(Default)]
struct LateErrors {
    /// The cancellation of the request that reads.
    reading: Mutex<Option<Arc<Cancellation>>>,
    closes: AtomicU64,
}

impl Script for LateErrors {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        match operation {
            Operation::Close => {
                assert!(testing::root().cancellation().is_none(), "a change is completed");
                self.closes.fetch_add(1, Ordering::Relaxed);
                Fault { error: Some(Errno::NOSPC), ..Fault::default() }
            }
            Operation::Read => {
                *self.reading.lock().expect("no test panics with it") = testing::root().cancellation();
                Fault { before: Some(Box::pin(std::future::pending())), ..Fault::default() }
            }
            Operation::Create => {
                assert!(testing::root().cancellation().is_none(), "a change is completed");
                Fault::default()
            }
            _ => Fault::default(),
        }
    }
}

fn with_late_errors() -> (Arc<LateErrors>, TestClient) {
    let script = Arc::new(LateErrors::default());
    let decides = script.clone();
    let server = TestServer::builder().wrap_volume(|volume| Faulty::new(volume, decides)).start();
    (script, TestClient::logged_on(&server, "alice"))
}

#[test]
fn close_reports_a_write_that_failed_late() {
    let (script, mut client) = with_late_errors();
    let (file_id, _) = open(&mut client, "file", CreateOptions(0));
    let close = CloseRequest { file_id, ..CloseRequest::default() };
    assert_eq!(status(&client.request(Command::CLOSE, |out| close.encode(out))), Status::DISK_FULL);
    assert_eq!(status(&client.request(Command::CLOSE, |out| close.encode(out))), Status::FILE_CLOSED);
    assert_eq!(script.closes.load(Ordering::Relaxed), 1);
}

#[test]
fn the_loss_of_a_connection_cancels_its_requests_and_closes_its_files() {
    let (script, mut client) = with_late_errors();
    let (file_id, _) = open(&mut client, "file", CreateOptions(0));
    let read = ReadRequest { file_id, length: 10, ..ReadRequest::default() };
    let message = client.compose(Command::READ, |out| read.encode(out));
    assert!(client.send(&message).is_empty());
    let reading = script.reading.lock().expect("no test panics with it").take().expect("the request can be cancelled");
    assert!(!reading.is_cancelled());
    client.disconnect();
    assert!(reading.is_cancelled());
    assert_eq!(script.closes.load(Ordering::Relaxed), 1);
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
