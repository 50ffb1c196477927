//! Print shares: what a client sends arrives in the print system under its title and owner, and no file of a job stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use proto::bytes::utf16_bytes;
use proto::dtyp::AccessMask;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel};
use proto::smb2::flush::FlushRequest;
use proto::smb2::header::Command;
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::read::ReadRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::tree_connect::{ShareType, TreeConnectFlags, TreeConnectRequest, TreeConnectResponse};
use proto::smb2::tree_disconnect::TreeDisconnectRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, InfoType};
use proto::status::Status;
use server::accounting::Resource;
use server::accounts::Unavailable;
use server::answer::{Answer, block_on};
use server::policy::printing::QueueSystem;
use server::policy::{PrintPolicy, Printers, Share, Template, UserShares};
use server::printing::{Action, NewJob, PrintError, PrintSystem, PrintUser, QueueInfo, QueueJobs, QueueState, Result};
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::{
    Access, Create as FileToCreate, ListRequest, Lookup, LookupOptions, NewFile, Op, RelPath, SetMetadata,
    SymlinkPolicy, Time, read_into,
};

/// Queue, owner, title and data of a job.
type Printed = (String, String, String, Vec<u8>);

/// A print system that records jobs.
#[derive(Default)]
struct Recorder {
    jobs: Mutex<Vec<Printed>>,
    /// The jobs that each queue has already.
    waiting: AtomicUsize,
    stopped: AtomicBool,
    /// Jobs are neither printed nor removed.
    forgets: AtomicBool,
    /// How often the queues were asked for.
    asked: AtomicUsize,
}

impl Recorder {
    fn answer<T: Send + 'static>(&self, value: T) -> Answer<Result<T>> {
        Answer::now(match self.stopped.load(Ordering::Relaxed) {
            true => Err(PrintError::Unavailable("start the print system".into())),
            false => Ok(value),
        })
    }
}

struct Shared(Arc<Recorder>);

impl PrintSystem for Shared {
    fn queues(&self) -> Answer<Result<Arc<[QueueInfo]>>> {
        let queue = |name: &str| QueueInfo { name: name.into(), description: String::new(), location: String::new() };
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        self.0.answer(Arc::from([queue("laser"), queue("share")]))
    }

    fn submit(&self, queue: &Arc<PrintPolicy>, job: NewJob) -> Answer<Result<()>> {
        let (recorder, queue) = (self.0.clone(), queue.queue.clone());
        Answer::later(async move {
            if recorder.forgets.load(Ordering::Relaxed) {
                return Err(PrintError::Unavailable("the server stops".into()));
            }
            let NewJob { title, user, spool, size, .. } = job;
            let read = read_into(&spool.node, &spool.op, 0, vec![0; size as usize], 0).await;
            spool.remove().await;
            recorder.answer(()).await?;
            recorder.jobs.lock().push((queue, user.name, title, read.0));
            Ok(())
        })
    }

    fn job_count(&self, _queue: &Arc<PrintPolicy>, _user: &PrintUser) -> Answer<Result<usize>> {
        self.0.answer(self.0.waiting.load(Ordering::Relaxed))
    }

    fn jobs(&self, _queue: &Arc<PrintPolicy>, _user: &PrintUser) -> Answer<Result<Arc<QueueJobs>>> {
        self.0.answer(Arc::new(QueueJobs { state: QueueState::Idle, jobs: Vec::new() }))
    }

    fn control(&self, _queue: &Arc<PrintPolicy>, _user: &PrintUser, _action: Action) -> Answer<Result<()>> {
        self.0.answer(())
    }
}

fn printer(name: &str) -> Share {
    let printing = PrintPolicy {
        queue: name.to_owned(),
        system: QueueSystem::Cups { options: Vec::new() },
        user_name: Template::parse("%U").expect("a template"),
        min_space: 0,
        max_jobs: 3,
        max_reported: 0,
    };
    Share { printing: Some(Arc::new(printing)), ..Share::new(name, "/spool") }
}

/// `[printers]`.
struct Section(Share);

impl Printers for Section {
    fn share_of(&self, queue: &str) -> Answer<std::result::Result<Option<Arc<Share>>, Unavailable>> {
        Answer::now(Ok(Some(Arc::new(printer(queue)))))
    }

    fn section(&self) -> &Share {
        &self.0
    }
}

/// A share that a user has defined under the name of a queue.
#[derive(Debug)]
struct OfUsers;

impl UserShares for OfUsers {
    fn share(&self, name: &str) -> Answer<std::result::Result<Option<Arc<Share>>, Unavailable>> {
        let share = (name == "laser").then(|| Arc::new(Share::new("laser", "/share")));
        Answer::now(Ok(share))
    }

    fn list(&self) -> Answer<std::result::Result<Vec<Arc<Share>>, Unavailable>> {
        Answer::now(Ok(Vec::new()))
    }
}

struct World {
    server: TestServer,
    recorder: Arc<Recorder>,
}

impl World {
    fn new() -> World {
        World::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut server::policy::Policy)) -> World {
        let recorder = Arc::new(Recorder::default());
        let server = TestServer::builder()
            .configure(|policy| {
                policy.shares.insert("ink".into(), printer("ink").into());
                policy.printers = Some(Arc::new(Section(printer("printers"))));
                change(policy);
            })
            .print_system(Arc::new(Shared(recorder.clone())))
            .start();
        World { server, recorder }
    }

    fn client(&self, share: &str) -> TestClient {
        self.client_of("alice", share)
    }

    fn client_of(&self, user: &str, share: &str) -> TestClient {
        let mut client = TestClient::logged_on(&self.server, user);
        assert_eq!(client.tree_connect(share), Status::SUCCESS);
        client
    }

    /// Returns the number of files in the spool directory.
    fn files(&self) -> usize {
        let root = LookupOptions::exact(SymlinkPolicy { follow: false, wide: false, itself: false });
        let op: &Op = &testing::root();
        let Ok(Lookup::Found { node, .. }) = block_on(self.server.volume.lookup(op, &RelPath::root(), root)) else {
            panic!("the root exists");
        };
        let listing = ListRequest { cursor: 0, count: 100, metadata: false };
        block_on(node.list(op, listing)).expect("it can be listed").entries.len()
    }

    fn is_clean(&self) {
        assert_eq!(self.files(), 0, "files in the spool directory");
        for resource in [Resource::PrintJobs, Resource::SpoolSpace] {
            assert_eq!(self.server.accounting.held(resource), 0, "{resource:?}");
        }
    }
}

fn create(client: &mut TestClient, name: &str, change: impl FnOnce(&mut CreateRequest<'_>)) -> Opened {
    let name = utf16_bytes(name);
    let mut create = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::GENERIC_WRITE.0 | AccessMask::GENERIC_READ.0,
        create_disposition: CreateDisposition::OVERWRITE_IF,
        name: &name,
        ..CreateRequest::default()
    };
    change(&mut create);
    let response = client.request(Command::CREATE, |out| create.encode(out));
    match status(&response) {
        Status::SUCCESS => Ok(CreateResponse::decode(&response).expect("a response").file_id),
        refused => Err(refused),
    }
}

type Opened = std::result::Result<FileId, Status>;

fn write(client: &mut TestClient, file_id: FileId, offset: u64, bytes: &[u8]) -> Status {
    let write = WriteRequest { length: bytes.len() as u32, offset, file_id, buffer: bytes, ..WriteRequest::default() };
    status(&client.request(Command::WRITE, |out| write.encode(out)))
}

fn set_size(client: &mut TestClient, file_id: FileId, size: u64) -> Status {
    let buffer = &size.to_le_bytes();
    // FileEndOfFileInformation.
    let set =
        SetInfoRequest { info_type: InfoType::FILE, file_info_class: 20, buffer, file_id, ..SetInfoRequest::default() };
    status(&client.request(Command::SET_INFO, |out| set.encode(out)))
}

fn close(client: &mut TestClient, file_id: FileId) -> Status {
    let close = CloseRequest { flags: CloseFlags::NONE, file_id };
    status(&client.request(Command::CLOSE, |out| close.encode(out)))
}

#[test]
fn a_job_is_printed_when_its_client_closes_it() {
    let world = World::new();
    let mut client = world.client("ink");
    let job = create(&mut client, r"dir\; touch x $(id) |", |_| ()).expect("a job");
    assert_eq!(write(&mut client, job, 0, b"hello "), Status::SUCCESS);
    assert_eq!(write(&mut client, job, u64::MAX, b"world"), Status::SUCCESS);
    let flush = FlushRequest { file_id: job, ..FlushRequest::default() };
    assert_eq!(status(&client.request(Command::FLUSH, |out| flush.encode(out))), Status::SUCCESS);
    assert_eq!((world.files(), world.recorder.jobs.lock().len()), (1, 0));
    assert_eq!(close(&mut client, job), Status::SUCCESS);
    let printed = world.recorder.jobs.lock().clone();
    let expected = ("ink".into(), "alice".into(), "; touch x $(id) |".into(), b"hello world".to_vec());
    assert_eq!(printed, [expected]);
    world.is_clean();
    assert_eq!(close(&mut client, job), Status::FILE_CLOSED);
}

#[test]
fn a_print_share_has_its_type_and_no_files() {
    let world = World::new();
    let mut client = TestClient::logged_on(&world.server, "alice");
    let path = utf16_bytes(r"\\server\ink");
    let tree = TreeConnectRequest { flags: TreeConnectFlags(0), path: &path, tree_connect_contexts: Vec::new() };
    let response = client.request(Command::TREE_CONNECT, |out| tree.encode(out));
    assert_eq!(TreeConnectResponse::decode(&response).expect("a response").share_type, ShareType::PRINT);
    assert_eq!(client.tree_connect("ink"), Status::SUCCESS);
    let directory = |it: &mut CreateRequest<'_>| it.create_options = CreateOptions::DIRECTORY_FILE;
    assert_eq!(create(&mut client, "", directory), Err(Status::NOT_A_DIRECTORY));
    let reads = |it: &mut CreateRequest<'_>| it.desired_access = AccessMask::FILE_GENERIC_READ.0;
    assert_eq!(create(&mut client, "x", reads), Err(Status::ACCESS_DENIED));
    let job = create(&mut client, "x", |_| ()).expect("a job");
    let read = ReadRequest { length: 10, file_id: job, ..ReadRequest::default() };
    assert_eq!(status(&client.request(Command::READ, |out| read.encode(out))), Status::ACCESS_DENIED);
    let mut query = |info_type, file_info_class| {
        let query = QueryInfoRequest {
            info_type,
            file_info_class,
            output_buffer_length: 1024,
            file_id: job,
            ..QueryInfoRequest::default()
        };
        let response = client.request(Command::QUERY_INFO, |out| query.encode(out));
        match status(&response) {
            Status::SUCCESS => Ok(QueryInfoResponse::decode(&response).expect("a response").buffer.to_vec()),
            refused => Err(refused),
        }
    };
    assert_eq!(query(InfoType::FILE, 5).expect("FileStandardInformation").len(), 24);
    assert_eq!(query(InfoType::FILESYSTEM, 4).expect("FileFsDeviceInformation")[0], 0x18);
    assert_eq!(query(InfoType::SECURITY, 0), Err(Status::NOT_SUPPORTED));
    assert_eq!(close(&mut client, job), Status::SUCCESS);
    assert!(world.recorder.jobs.lock().is_empty(), "an empty job is not printed");
    world.is_clean();
}

#[test]
fn a_job_that_is_not_closed_is_discarded() {
    let ends: [fn(TestClient); 3] = [
        TestClient::disconnect,
        |mut client| {
            client.request(Command::LOGOFF, |out| LogoffRequest.encode(out));
        },
        |mut client| {
            client.request(Command::TREE_DISCONNECT, |out| TreeDisconnectRequest.encode(out));
        },
    ];
    for end in ends {
        let world = World::new();
        let mut client = world.client("ink");
        let job = create(&mut client, "x", |_| ()).expect("a job");
        assert_eq!(write(&mut client, job, 0, b"half of it"), Status::SUCCESS);
        end(client);
        assert!(world.recorder.jobs.lock().is_empty());
        world.is_clean();
    }
}

#[test]
fn a_print_system_that_does_not_answer_is_reported_to_the_client() {
    let world = World::new();
    let mut client = world.client("ink");
    let job = create(&mut client, "x", |_| ()).expect("a job");
    assert_eq!(write(&mut client, job, 0, b"data"), Status::SUCCESS);
    world.recorder.stopped.store(true, Ordering::Relaxed);
    assert_eq!(close(&mut client, job), Status::DEVICE_NOT_READY);
    world.is_clean();
    assert_eq!(create(&mut client, "y", |_| ()), Err(Status::DEVICE_NOT_READY));
    world.is_clean();
}

#[test]
fn jobs_are_bounded_in_number_and_size() {
    let world = World::with(|policy| {
        policy.limits.print_jobs = 4;
        policy.limits.spool_space = 8;
        policy.limits.print_job = 1 << 20;
    });
    let mut client = world.client("ink");
    world.recorder.waiting.store(3, Ordering::Relaxed);
    assert_eq!(create(&mut client, "x", |_| ()), Err(Status::PRINT_QUEUE_FULL));
    world.recorder.waiting.store(0, Ordering::Relaxed);
    let jobs: Vec<_> = (0..2).map(|_| create(&mut client, "x", |_| ()).expect("a job")).collect();
    // A user may have half of what is free.
    assert_eq!(create(&mut client, "x", |_| ()), Err(Status::INSUFFICIENT_RESOURCES));
    assert_eq!(write(&mut client, jobs[0], 0, &[7; 4096]), Status::SUCCESS);
    assert_eq!(write(&mut client, jobs[1], 0, b"x"), Status::NO_SPOOL_SPACE);
    assert_eq!(write(&mut client, jobs[0], (1 << 20) - 1, b"xy"), Status::NO_SPOOL_SPACE);
    assert_eq!(write(&mut client, jobs[0], u64::MAX - 1, b"xy"), Status::INVALID_PARAMETER);
    // Parts of both could not be written, so that neither is printed.
    for job in jobs {
        assert_eq!(close(&mut client, job), Status::INVALID_PARAMETER);
    }
    assert!(world.recorder.jobs.lock().is_empty());
    world.is_clean();
}

#[test]
fn a_job_ends_where_the_written_data_ends() {
    let world = World::new();
    let mut client = world.client("ink");
    let job = create(&mut client, "x", |_| ()).expect("a job");
    // A program that copies a file sets the size first, which costs nothing.
    assert_eq!(set_size(&mut client, job, 1 << 32), Status::SUCCESS);
    assert_eq!(world.server.accounting.held(Resource::SpoolSpace), 0);
    assert_eq!(set_size(&mut client, job, 1 << 50), Status::NO_SPOOL_SPACE);
    // Requests in flight may be executed in another order.
    assert_eq!(write(&mut client, job, 3, b"def-"), Status::SUCCESS);
    assert_eq!(write(&mut client, job, 0, b"abc"), Status::SUCCESS);
    assert_eq!(write(&mut client, job, u64::MAX, b"-"), Status::SUCCESS);
    assert_eq!(set_size(&mut client, job, 6), Status::SUCCESS);
    assert_eq!(close(&mut client, job), Status::SUCCESS);
    assert_eq!(world.recorder.jobs.lock().remove(0).3, b"abcdef");
    world.is_clean();
}

#[test]
fn a_job_with_missing_parts_is_not_printed() {
    let world = World::new();
    let mut client = world.client("ink");
    let job = create(&mut client, "x", |_| ()).expect("a job");
    assert_eq!(write(&mut client, job, (1 << 33) - 1, b"x"), Status::SUCCESS);
    assert_eq!(close(&mut client, job), Status::INVALID_PARAMETER);
    let job = create(&mut client, "x", |_| ()).expect("a job");
    let parts = (0..2000).take_while(|part| write(&mut client, job, 2 * part, b"x") == Status::SUCCESS).count();
    assert_eq!(parts, 1024);
    assert_eq!(close(&mut client, job), Status::INVALID_PARAMETER);
    assert!(world.recorder.jobs.lock().is_empty());
    world.is_clean();
}

#[test]
fn jobs_that_others_send_count_for_the_queue() {
    let world = World::new();
    let mut alice = [world.client("ink"), world.client("ink"), world.client("ink")];
    let jobs: Vec<_> = alice.iter_mut().map(|client| create(client, "x", |_| ())).collect();
    assert!(jobs[0].is_ok() && jobs[1].is_ok());
    // The queue has room for three. A user may send half of them, so that others can print.
    assert_eq!(jobs[2], Err(Status::PRINT_QUEUE_FULL));
    let mut bob = world.client_of("bob", "ink");
    let job = create(&mut bob, "x", |_| ()).expect("a job");
    assert_eq!(create(&mut bob, "x", |_| ()), Err(Status::PRINT_QUEUE_FULL));
    assert_eq!(close(&mut bob, job), Status::SUCCESS);
    assert_eq!(close(&mut alice[0], jobs[0].expect("a job")), Status::SUCCESS);
    assert!(create(&mut alice[2], "x", |_| ()).is_ok());
    // The last place is there for anybody.
    world.recorder.waiting.store(2, Ordering::Relaxed);
    assert_eq!(create(&mut bob, "x", |_| ()), Err(Status::PRINT_QUEUE_FULL));
    alice.into_iter().for_each(TestClient::disconnect);
    assert!(create(&mut bob, "x", |_| ()).is_ok());
    bob.disconnect();
    world.is_clean();
}

#[test]
fn files_that_a_former_server_has_left_are_removed() {
    let world = World::new();
    let job = format!("smbprn.{}", "0123456789abcdef".repeat(2));
    let make = |name: &str| {
        let new = NewFile::new(FileToCreate::File(Access { read: true, write: true }), 0o600);
        let name = testing::volume::path(name);
        let made = block_on(world.server.volume.create(&testing::root(), &name, new)).expect("a file").opened();
        let old = SetMetadata { modified: Some(Time { secs: 1, nanos: 0 }), ..SetMetadata::default() };
        block_on(made.0.set_metadata(&testing::root(), old)).expect("it is old");
    };
    let others = ["smbprn.12", "report", "smbprn.0123456789abcdef0123456789abcdeg"];
    others.iter().for_each(|name| make(name));
    make(&job);
    let mut client = world.client("ink");
    let own = create(&mut client, "x", |_| ()).expect("a job");
    assert_eq!(world.files(), others.len() + 1, "one is that of the new job");
    // It is done once.
    make(&job);
    create(&mut client, "x", |_| ()).expect("a job");
    assert_eq!(world.files(), others.len() + 3);
    assert_eq!(close(&mut client, own), Status::SUCCESS);
}

#[test]
fn a_file_that_nobody_finishes_is_removed() {
    let world = World::new();
    world.recorder.forgets.store(true, Ordering::Relaxed);
    let mut client = world.client("ink");
    let job = create(&mut client, "x", |_| ()).expect("a job");
    assert_eq!(write(&mut client, job, 0, b"data"), Status::SUCCESS);
    assert_eq!(close(&mut client, job), Status::DEVICE_NOT_READY);
    world.is_clean();
}

#[test]
fn administrators_see_jobs_and_close_them() {
    let world = World::new();
    let mut client = world.client("ink");
    let job = create(&mut client, "a report", |_| ()).expect("a job");
    let snapshot = server::status::snapshot(&world.server, Time::default());
    let [open] = &snapshot.opens[..] else { panic!("{:?}", snapshot.opens) };
    assert_eq!((&*open.share, &*open.path, open.volatile), ("ink", "a report", job.volatile));
    assert!(block_on(world.server.close_file(job.volatile)));
    assert_eq!(close(&mut client, job), Status::FILE_CLOSED);
    assert!(world.recorder.jobs.lock().is_empty());
    world.is_clean();
}

#[test]
fn a_user_share_is_found_before_the_printers() {
    let world = World::with(|policy| policy.user_shares = Some(Arc::new(OfUsers)));
    // A print system that hangs must not delay them.
    world.recorder.stopped.store(true, Ordering::Relaxed);
    let mut client = TestClient::logged_on(&world.server, "alice");
    assert_eq!(client.tree_connect("laser"), Status::SUCCESS);
    assert_eq!(world.recorder.asked.load(Ordering::Relaxed), 0);
}

#[test]
fn too_little_space_is_reported_before_the_data_is_sent() {
    let world = World::with(|policy| {
        let mut share = printer("ink");
        let printing = Arc::make_mut(share.printing.as_mut().expect("a printer"));
        printing.min_space = 1 << 50;
        policy.shares.insert("ink".into(), share.into());
    });
    assert_eq!(create(&mut world.client("ink"), "x", |_| ()), Err(Status::DISK_FULL));
    world.is_clean();
}

#[test]
fn queues_are_shares_of_the_section_printers() {
    let world = World::new();
    let mut client = world.client("LASER");
    let job = create(&mut client, "", |_| ()).expect("a job");
    assert_eq!(write(&mut client, job, 0, b"data"), Status::SUCCESS);
    assert_eq!(close(&mut client, job), Status::SUCCESS);
    let (queue, _, title, _) = world.recorder.jobs.lock().remove(0);
    assert_eq!((&*queue, &*title), ("laser", "Remote Downlevel Document"));
    assert_eq!(client.tree_connect("paper"), Status::BAD_NETWORK_NAME);
    // A share of the configuration comes first.
    assert_eq!(client.tree_connect("share"), Status::SUCCESS);
    assert!(create(&mut client, "file", |_| ()).is_ok());
    assert_eq!(world.files(), 1);
    world.recorder.stopped.store(true, Ordering::Relaxed);
    assert_eq!(client.tree_connect("laser"), Status::BAD_NETWORK_NAME);
}

#[test]
fn the_suite_passes_on_remote_storage() {
    let begun = "a removal that nobody waits for is only begun";
    testing::passes_on_remote_storage(&[("a_file_that_nobody_finishes_is_removed", begun)]);
}
