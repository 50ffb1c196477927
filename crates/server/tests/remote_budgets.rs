//! The calls of storage on another machine that an SMB operation makes, each of which takes milliseconds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proto::bytes::utf16_bytes;
use proto::dtyp::AccessMask;
use proto::fscc::FileInformationClass;
use proto::smb2::FileId;
use proto::smb2::InfoType;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::header::Command;
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::write::{WriteFlags, WriteRequest};
use proto::status::Status;
use server::answer::block_on;
use server::environment::Environment;
use server::policy::Share;
use server::state::wanted_xattrs;
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::faulty::{Operation, Wait, yields};
use server::vfs::memory::Options;
use server::vfs::remote::{Remote, latency_of};
use server::vfs::{Access, Create, Identity, NewFile, Op, Time};

/// A clock that only the calls of the storage advance.
#[derive(Default)]
struct Clock {
    slept: AtomicU64,
    random: AtomicU64,
}

impl Environment for Clock {
    fn now(&self) -> Time {
        let slept = self.uptime();
        Time { secs: 1_800_000_000 + slept.as_secs() as i64, nanos: slept.subsec_nanos() }
    }

    fn uptime(&self) -> Duration {
        Duration::from_micros(self.slept.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> Wait {
        self.slept.fetch_add(duration.as_micros() as u64, Ordering::Relaxed);
        yields(1)
    }

    fn random(&self, bytes: &mut [u8]) {
        let number = self.random.fetch_add(1, Ordering::Relaxed);
        bytes.iter_mut().zip(number.to_le_bytes().into_iter().cycle()).for_each(|(byte, random)| *byte = random);
    }
}

struct Bench {
    client: TestClient,
    storage: Arc<Remote>,
    clock: Arc<Clock>,
}

const READ: AccessMask = AccessMask(AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_READ_ATTRIBUTES.0);
const READ_WRITE: AccessMask = AccessMask(READ.0 | AccessMask::FILE_WRITE_DATA.0);
const ALICE: u32 = 1000;

impl Bench {
    fn new(configure: impl Fn(&mut Share)) -> Bench {
        let clock = Arc::new(Clock::default());
        let environment: Arc<dyn Environment> = clock.clone();
        let mut policy = testing::policy();
        policy.shares.values_mut().for_each(|share| configure(Arc::make_mut(share)));
        let attributes = wanted_xattrs(&policy.shares["share"]);
        let options = Options { mode: 0o777, lists: true, attributes, ..Options::default() };
        let storage = Arc::new(Remote::new(environment.clone(), options, latency_of(environment.clone())));
        let server = TestServer::builder().policy(policy).environment(environment).volume(storage.clone()).start();
        let client = TestClient::logged_on(&server, "alice");
        let bench = Bench { client, storage, clock };
        bench.later();
        bench
    }

    /// A share without stored descriptors.
    fn plain() -> Bench {
        Bench::new(|_| {})
    }

    /// A share that stores descriptors.
    fn with_acls() -> Bench {
        Bench::new(|share| share.acls.stored = Some(testing::stored_acls()))
    }

    /// Lets everything that is known only for a time expire.
    fn later(&self) {
        self.clock.slept.fetch_add(60_000_000, Ordering::Relaxed);
    }

    /// Creates what `kind` says, as another client of the storage would.
    fn create(&self, path: &str, kind: Create) {
        let alice = Op::from(Identity { uid: ALICE, gid: ALICE, groups: Box::default() });
        let new = NewFile::new(kind, 0o755);
        block_on(self.storage.storage().create(&alice, &testing::volume::path(path), new))
            .expect("the name is not in use");
    }

    fn file(&self, path: &str) {
        self.create(path, Create::File(Access::default()));
        self.later();
    }

    /// Returns the calls since the last time.
    fn calls(&self) -> BTreeMap<Operation, u64> {
        self.storage.take_calls()
    }

    fn stat(&mut self, file_id: FileId) {
        let query = QueryInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: FileInformationClass::ALL.0,
            output_buffer_length: 4_096,
            file_id,
            ..QueryInfoRequest::default()
        };
        let response = self.client.request(Command::QUERY_INFO, |out| query.encode(out));
        assert_eq!(status(&response), Status::SUCCESS);
        assert!(QueryInfoResponse::decode(&response).is_ok());
    }

    fn close(&mut self, file_id: FileId) {
        let close = CloseRequest { flags: CloseFlags::POSTQUERY_ATTRIB, file_id };
        assert_eq!(status(&self.client.request(Command::CLOSE, |out| close.encode(out))), Status::SUCCESS);
    }

    fn create_file(&mut self, path: &str) -> FileId {
        let name = utf16_bytes(path);
        let create = CreateRequest {
            desired_access: READ_WRITE.0,
            share_access: ShareAccess(7),
            create_disposition: CreateDisposition::CREATE,
            create_options: CreateOptions::NON_DIRECTORY_FILE,
            name: &name,
            ..CreateRequest::default()
        };
        let response = self.client.request(Command::CREATE, |out| create.encode(out));
        assert_eq!(status(&response), Status::SUCCESS);
        CreateResponse::decode(&response).expect("a well-formed message").file_id
    }

    fn write(&mut self, file_id: FileId) {
        let write = WriteRequest {
            offset: 0,
            file_id,
            flags: WriteFlags(0),
            length: 1_024,
            buffer: &[1; 1_024],
            ..WriteRequest::default()
        };
        assert_eq!(status(&self.client.request(Command::WRITE, |out| write.encode(out))), Status::SUCCESS);
    }

    /// Lists a directory to its end and returns the number of responses with entries.
    fn list(&mut self, file_id: FileId) -> u64 {
        let pattern = utf16_bytes("*");
        for pages in 0.. {
            let query = QueryDirectoryRequest {
                file_information_class: FileInformationClass::ID_BOTH_DIRECTORY.0,
                flags: QueryDirectoryFlags(0),
                file_index: 0,
                file_id,
                file_name: &pattern,
                output_buffer_length: 65_536,
            };
            let response = self.client.request(Command::QUERY_DIRECTORY, |out| query.encode(out));
            if status(&response) == Status::NO_MORE_FILES {
                return pages;
            }
            assert!(QueryDirectoryResponse::decode(&response).is_ok_and(|page| !page.buffer.is_empty()));
        }
        unreachable!("a listing ends")
    }
}

/// Returns the calls, of any kind, since the last time.
fn count(calls: &BTreeMap<Operation, u64>) -> u64 {
    calls.values().sum()
}

/// Both kinds of shares, by what they store.
fn shares() -> [(&'static str, Bench); 2] {
    [("permission bits", Bench::plain()), ("descriptors", Bench::with_acls())]
}

#[test]
fn a_known_file_is_opened_with_one_call_and_described_and_closed_with_none() {
    for (share, mut bench) in shares() {
        bench.create("dir", Create::Directory);
        bench.file("dir/file");
        bench.calls();
        for access in [READ, READ_WRITE, AccessMask::FILE_READ_ATTRIBUTES] {
            let file = bench.client.open("dir\\file", access);
            let calls = bench.calls();
            assert_eq!(count(&calls), 1, "{share}, {access:?}: {calls:?}");
            bench.stat(file);
            bench.close(file);
            let calls = bench.calls();
            assert_eq!(count(&calls), 0, "{share}, {access:?}: {calls:?}");
            bench.later();
        }
    }
}

#[test]
fn a_file_is_created_written_and_closed_with_four_calls() {
    for (share, mut bench) in shares() {
        bench.create("dir", Create::Directory);
        bench.later();
        let file = bench.create_file("dir\\new");
        bench.write(file);
        bench.close(file);
        let calls = bench.calls();
        assert_eq!(count(&calls), 4, "{share}: {calls:?}");
        assert_eq!(calls.get(&Operation::Write), Some(&1), "{share}");
    }
}

#[test]
fn a_page_of_a_listing_costs_one_call() {
    for (share, mut bench) in shares() {
        bench.create("dir", Create::Directory);
        for number in 0..2_500 {
            bench.create(&format!("dir/a name of usual length {number}"), Create::File(Access::default()));
        }
        bench.later();
        let directory = bench.client.open("dir", READ);
        let calls = bench.calls();
        assert_eq!(count(&calls), 1, "{share}: {calls:?}");
        let pages = bench.list(directory);
        bench.close(directory);
        let calls = bench.calls();
        assert!(pages > 2 && count(&calls) <= pages, "{share}, {pages} pages: {calls:?}");
    }
}

#[test]
fn what_another_client_of_the_storage_changes_shows_after_a_second() {
    let mut bench = Bench::plain();
    bench.file("file");
    let file = bench.client.open("file", READ_WRITE);
    bench.calls();
    bench.stat(file);
    assert_eq!(count(&bench.calls()), 0);
    bench.later();
    bench.stat(file);
    let asked = BTreeMap::from([(Operation::Metadata, 1)]);
    assert_eq!(bench.calls(), asked);
}
