//! Calls of spoolss, with a print system that records what it is asked.

use std::sync::Arc;

use parking_lot::Mutex;
use proto::dtyp::AccessMask;
use proto::rpc::enumeration::error;
use proto::rpc::ndr::{ContextHandle, Decoder, Encoder};
use proto::rpc::spoolss::{self, job_control, opnum, printer_control, rights};

use crate::accounting::Resource;
use crate::accounts::Unavailable;
use crate::answer::Answer;
use crate::policy::limits::{LISTED_JOBS_MAX, QUEUES_MAX};
use crate::policy::printing::{Printers, QueueSystem};
use crate::policy::{Policy, PrintPolicy, Share, Template, UserPattern};
use crate::printing::{
    Action, Job, JobState, NewJob, PrintError, PrintSystem, PrintUser, QueueInfo, QueueJobs, QueueState, Result,
};
use crate::rpc::tests::client::PipeClient;
use crate::rpc::tests::lists::last;
use crate::testing::{TestClient, TestServer};
use crate::vfs::read_into;

/// A print system with jobs of two users.
struct Recorder {
    queues: Mutex<Arc<[QueueInfo]>>,
    jobs: Mutex<Vec<Job>>,
    done: Mutex<Vec<String>>,
    printed: Mutex<Vec<(String, String, Vec<u8>)>>,
}

fn job(id: u32, user: &str) -> Job {
    let title = format!("job {id}");
    Job { id, user: user.into(), title, size: 2048, state: JobState::Queued, submitted: 1_000_000_000 }
}

fn queue(name: &str) -> QueueInfo {
    QueueInfo { name: name.into(), description: "a laser".into(), location: "Room 1".into() }
}

/// `[printers]`.
struct Section(Share);

impl Printers for Section {
    fn share_of(&self, queue: &str) -> Answer<std::result::Result<Option<Arc<Share>>, Unavailable>> {
        Answer::now(Ok(Some(Arc::new(Share { name: queue.to_owned(), ..self.0.clone() }))))
    }

    fn section(&self) -> &Share {
        &self.0
    }
}

struct Shared(Arc<Recorder>);

impl PrintSystem for Shared {
    fn queues(&self) -> Answer<Result<Arc<[QueueInfo]>>> {
        Answer::now(Ok(self.0.queues.lock().clone()))
    }

    fn submit(&self, queue: &Arc<PrintPolicy>, job: NewJob) -> Answer<Result<()>> {
        let (recorder, queue) = (self.0.clone(), queue.queue.clone());
        Answer::later(async move {
            let NewJob { title, spool, size, .. } = job;
            let read = read_into(&spool.node, &spool.op, 0, vec![0; size as usize], 0).await;
            spool.remove().await;
            recorder.printed.lock().push((queue, title, read.0));
            Ok(())
        })
    }

    fn job_count(&self, _: &Arc<PrintPolicy>, _: &PrintUser) -> Answer<Result<usize>> {
        Answer::now(Ok(self.0.jobs.lock().len()))
    }

    fn jobs(&self, _: &Arc<PrintPolicy>, _: &PrintUser) -> Answer<Result<Arc<QueueJobs>>> {
        let jobs = self.0.jobs.lock().clone();
        Answer::now(Ok(Arc::new(QueueJobs { state: QueueState::Stopped, jobs })))
    }

    fn control(&self, queue: &Arc<PrintPolicy>, _: &PrintUser, action: Action) -> Answer<Result<()>> {
        let told = match action {
            Action::Cancel(job) if job.id == 13 => return Answer::now(Err(PrintError::Refused("unlucky".into()))),
            Action::Cancel(job) => format!("cancel {}", job.id),
            Action::Hold(job) => format!("hold {}", job.id),
            Action::Release(job) => format!("release {}", job.id),
            Action::Pause => format!("pause {}", queue.queue),
            Action::Resume => format!("resume {}", queue.queue),
            Action::Purge => format!("purge {}", queue.queue),
        };
        self.0.done.lock().push(told);
        Answer::now(Ok(()))
    }
}

fn printer(name: &str, max_reported: usize) -> Share {
    let printing = PrintPolicy {
        queue: "laser".into(),
        system: QueueSystem::Cups { options: Vec::new() },
        user_name: Template::parse("%U").expect("a template"),
        min_space: 0,
        max_jobs: 0,
        max_reported,
    };
    Share { printing: Some(Arc::new(printing)), comment: "ink only".into(), ..Share::new(name, "/spool") }
}

struct World {
    server: TestServer,
    recorder: Arc<Recorder>,
}

impl World {
    /// A server that alice administrates, with the printers `ink`, `short` and, for alice only, `secret`.
    fn new() -> World {
        let jobs = Mutex::new(vec![job(7, "alice"), job(8, "bob"), job(13, "bob")]);
        let queues = Mutex::new(Arc::from([queue("laser")]));
        let recorder = Arc::new(Recorder { queues, jobs, done: Mutex::default(), printed: Mutex::default() });
        let server = TestServer::builder()
            .configure(|policy: &mut Policy| {
                policy.printers = Some(Arc::new(Section(printer("printers", 0))));
                policy.load_printers = false;
                policy.admin_users = vec![UserPattern::User("alice".into())];
                let mut secret = printer("secret", 0);
                secret.access.valid_users = vec![UserPattern::User("alice".into())];
                for share in [printer("ink", 0), printer("short", 2), secret] {
                    policy.shares.insert(share.name.clone(), share.into());
                }
            })
            .print_system(Arc::new(Shared(recorder.clone())))
            .start();
        World { server, recorder }
    }

    fn client(&self, user: &str) -> Client {
        Client(PipeClient::new(TestClient::logged_on(&self.server, user), "spoolss"))
    }

    fn is_clean(&self) {
        for resource in [Resource::PrintJobs, Resource::SpoolSpace] {
            assert_eq!(self.server.accounting.held(resource), 0, "{resource:?}");
        }
    }
}

struct Client(PipeClient);

fn optional(out: &mut Encoder, text: Option<&str>) {
    match text {
        Some(text) => {
            out.pointer();
            out.string(text);
        }
        None => out.null(),
    }
}

/// A buffer of a client.
fn buffer(out: &mut Encoder, size: u32) {
    if size > 0 {
        out.pointer();
        out.u32(size);
        out.array(1, &vec![0; size as usize]);
    } else {
        out.null();
    }
    out.u32(size);
}

impl Client {
    fn call(&mut self, opnum: u16, write: impl FnOnce(&mut Encoder)) -> Vec<u8> {
        let mut out = Encoder::default();
        write(&mut out);
        self.0.call(opnum, &out.into_bytes())
    }

    fn open(&mut self, name: &str, desired: u32) -> std::result::Result<ContextHandle, u32> {
        let results = self.call(opnum::OPEN_PRINTER_EX, |out| {
            optional(out, Some(name));
            out.null();
            out.u32(0);
            out.null();
            out.u32(desired);
            // A client, whose description is not read.
            [1, 1].iter().for_each(|number| out.u32(*number));
            out.pointer();
        });
        match last(&results) {
            error::SUCCESS => Ok(Decoder::new(&results).handle().expect("a handle")),
            status => Err(status),
        }
    }

    fn printer(&mut self, name: &str) -> ContextHandle {
        self.open(name, AccessMask::MAXIMUM_ALLOWED.0).expect(name)
    }

    /// Executes a call whose results are structures with the size that it returns first. Returns the structures, their
    /// number if it has one, and the status.
    fn query(&mut self, opnum: u16, counts: bool, write: impl Fn(&mut Encoder, u32)) -> (Vec<u8>, u32, u32) {
        let first = self.call(opnum, |out| write(out, 0));
        let mut decoder = Decoder::new(&first);
        assert_eq!(decoder.pointer(), Ok(false), "nothing fits into no buffer");
        let needed = decoder.u32().expect("a size");
        if last(&first) != error::INSUFFICIENT_BUFFER {
            return (Vec::new(), 0, last(&first));
        }
        let results = self.call(opnum, |out| write(out, needed));
        let mut decoder = Decoder::new(&results);
        assert_eq!((decoder.pointer(), decoder.u32()), (Ok(true), Ok(needed)));
        let infos = decoder.bytes(needed as usize).expect("structures").to_vec();
        assert_eq!(decoder.u32(), Ok(needed));
        let count = if counts { decoder.u32().expect("a number") } else { 1 };
        (infos, count, last(&results))
    }

    fn printers(&mut self, level: u32) -> (Vec<u8>, u32, u32) {
        self.query(opnum::ENUM_PRINTERS, true, |out, size| {
            out.u32(2);
            optional(out, Some(r"\\here"));
            out.u32(level);
            buffer(out, size);
        })
    }

    fn jobs(&mut self, printer: &ContextHandle, level: u32) -> (Vec<u8>, u32, u32) {
        self.query(opnum::ENUM_JOBS, true, |out, size| {
            out.array(4, printer);
            [0, u32::MAX, level].iter().for_each(|number| out.u32(*number));
            buffer(out, size);
        })
    }

    fn set_job(&mut self, printer: &ContextHandle, id: u32, command: u32) -> u32 {
        last(&self.call(opnum::SET_JOB, |out| {
            out.array(4, printer);
            out.u32(id);
            out.null();
            out.u32(command);
        }))
    }

    fn with_handle(&mut self, opnum: u16, handle: &ContextHandle) -> u32 {
        last(&self.call(opnum, |out| out.array(4, handle)))
    }

    fn start(&mut self, printer: &ContextHandle, title: &str) -> u32 {
        last(&self.call(opnum::START_DOC_PRINTER, |out| {
            out.array(4, printer);
            out.u32(1);
            out.u32(1);
            out.pointer();
            out.pointer();
            out.null();
            out.null();
            out.string(title);
        }))
    }

    fn write(&mut self, printer: &ContextHandle, data: &[u8]) -> u32 {
        last(&self.call(opnum::WRITE_PRINTER, |out| {
            out.array(4, printer);
            out.u32(data.len() as u32);
            out.array(1, data);
            out.u32(data.len() as u32);
        }))
    }
}

fn number(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// Returns the text whose offset is at `at` in the structure that begins at `start`.
fn text(bytes: &[u8], start: usize, at: usize) -> String {
    let from = start + number(bytes, start + at);
    let units = bytes[from..].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    String::from_utf16_lossy(&units.take_while(|unit| *unit != 0).collect::<Vec<_>>())
}

#[test]
fn users_see_the_printers_that_they_may_connect_to() {
    let world = World::new();
    for (user, expected) in [("alice", &["ink", "secret", "short"][..]), ("bob", &["ink", "short"])] {
        let mut client = world.client(user);
        let (infos, count, status) = client.printers(1);
        assert_eq!((count as usize, status), (expected.len(), error::SUCCESS), "{user}");
        for (index, name) in expected.iter().enumerate() {
            assert_eq!(text(&infos, index * 16, 8), format!(r"\\here\{name}"));
            assert_eq!(text(&infos, index * 16, 12), "ink only");
        }
        for level in [0, 2, 4, 5] {
            assert_eq!(client.printers(level).1 as usize, expected.len(), "{user}, level {level}");
        }
        assert_eq!(client.printers(9).2, error::INVALID_LEVEL);
    }
    let mut bob = world.client("bob");
    assert_eq!(bob.open(r"\\here\secret", 8), Err(error::ACCESS_DENIED));
    assert_eq!(bob.open("none", 8), Err(spoolss::error::INVALID_PRINTER_NAME));
    assert_eq!(bob.open("share", 8), Err(spoolss::error::INVALID_PRINTER_NAME));
}

#[test]
fn a_handle_has_the_rights_of_its_user() {
    let world = World::new();
    let (mut alice, mut bob) = (world.client("alice"), world.client("bob"));
    for (name, all) in [(r"\\here\ink", rights::PRINTER_ALL_ACCESS), (r"\\here", rights::SERVER_ALL_ACCESS)] {
        assert!(alice.open(name, all).is_ok());
        assert_eq!(bob.open(name, all), Err(error::ACCESS_DENIED));
        assert!(bob.open(name, 0).is_ok() && bob.open(name, AccessMask::GENERIC_READ.0).is_ok());
    }
    let printer = alice.printer("ink");
    assert_eq!(alice.with_handle(opnum::CLOSE_PRINTER, &printer), error::SUCCESS);
    assert_eq!(alice.with_handle(opnum::CLOSE_PRINTER, &printer), error::INVALID_HANDLE);
    assert_eq!(alice.jobs(&printer, 1).2, error::INVALID_HANDLE);
}

#[test]
fn a_printer_has_its_properties() {
    let world = World::new();
    let mut bob = world.client("bob");
    let printer = bob.printer(r"\\here\ink");
    let mut get = |level: u32| {
        bob.query(opnum::GET_PRINTER, false, |out, size| {
            out.array(4, &printer);
            out.u32(level);
            buffer(out, size);
        })
    };
    let (infos, _, status) = get(2);
    assert_eq!(status, error::SUCCESS);
    let texts = [r"\\here", r"\\here\ink", "ink", "Samba Printer Port", "", "ink only", "Room 1"];
    for (index, expected) in texts.iter().enumerate() {
        assert_eq!(text(&infos, 0, 4 * index), *expected);
    }
    // It is stopped, and has three jobs.
    assert_eq!((number(&infos, 72), number(&infos, 76)), (1, 3));
    for level in [0, 1, 3, 4, 5, 6, 7, 8] {
        assert_eq!(get(level).2, error::SUCCESS, "level {level}");
    }
    assert_eq!(get(10).2, error::INVALID_LEVEL);
    let server = bob.printer(r"\\here");
    let mut of_server = |level: u32| {
        let write = |out: &mut Encoder, size: u32| {
            out.array(4, &server);
            out.u32(level);
            buffer(out, size);
        };
        bob.query(opnum::GET_PRINTER, false, write).2
    };
    assert_eq!((of_server(3), of_server(2)), (error::SUCCESS, error::INVALID_LEVEL));
}

#[test]
fn jobs_are_listed_and_changed_by_their_owners() {
    let world = World::new();
    let mut bob = world.client("bob");
    let ink = bob.printer(r"\\here\ink");
    let (infos, count, _) = bob.jobs(&ink, 1);
    assert_eq!((count, number(&infos, 0), number(&infos, 64)), (3, 7, 8));
    assert_eq!([4, 8, 12, 16].map(|at| text(&infos, 64, at)), [r"\\here\ink", r"\\here", "bob", "job 8"]);
    // 2001-09-09, a Sunday.
    assert_eq!(infos[48..56], [0xd1, 7, 9, 0, 0, 0, 9, 0]);
    let (infos, ..) = bob.jobs(&ink, 3);
    assert_eq!([0, 4, 12, 16, 24, 28].map(|at| number(&infos, at)), [7, 8, 8, 13, 13, 0]);
    assert_eq!((bob.jobs(&ink, 2).1, bob.jobs(&ink, 4).1, bob.jobs(&ink, 5).2), (3, 3, error::INVALID_LEVEL));
    let short = bob.printer("short");
    assert_eq!(bob.jobs(&short, 1).1, 2, "`max reported print jobs`");
    assert_eq!(bob.set_job(&ink, 7, job_control::DELETE), error::ACCESS_DENIED);
    assert_eq!(bob.set_job(&ink, 99, job_control::DELETE), error::INVALID_PARAMETER);
    assert_eq!(bob.set_job(&ink, 13, job_control::CANCEL), error::GEN_FAILURE);
    assert_eq!(bob.set_job(&ink, 8, 77), error::INVALID_PARAMETER);
    for command in [job_control::PAUSE, job_control::RESUME, job_control::RESTART, job_control::DELETE] {
        assert_eq!(bob.set_job(&ink, 8, command), error::SUCCESS);
    }
    let mut alice = world.client("alice");
    let ink = alice.printer("ink");
    assert_eq!(alice.set_job(&ink, 8, job_control::CANCEL), error::SUCCESS);
    assert_eq!(*world.recorder.done.lock(), ["hold 8", "release 8", "release 8", "cancel 8", "cancel 8"]);
}

#[test]
fn administrators_change_queues() {
    let world = World::new();
    let set = |client: &mut Client, level: u32, command: u32| {
        let printer = client.printer("ink");
        last(&client.call(opnum::SET_PRINTER, |out| {
            out.array(4, &printer);
            [level, level, 0, 0, 0, 0, 0, command].iter().for_each(|number| out.u32(*number));
        }))
    };
    let (mut alice, mut bob) = (world.client("alice"), world.client("bob"));
    assert_eq!(set(&mut bob, 0, printer_control::PURGE), error::ACCESS_DENIED);
    for command in [printer_control::PAUSE, printer_control::RESUME, printer_control::PURGE] {
        assert_eq!(set(&mut alice, 0, command), error::SUCCESS);
    }
    assert_eq!(*world.recorder.done.lock(), ["pause laser", "resume laser", "purge laser"]);
    assert_eq!(set(&mut alice, 0, 9), spoolss::error::INVALID_PRINTER_COMMAND);
    assert_eq!(set(&mut alice, 2, 0), error::NOT_SUPPORTED);
}

#[test]
fn a_document_is_printed_at_its_end() {
    let world = World::new();
    let mut bob = world.client("bob");
    let printer = bob.printer("ink");
    assert_eq!(bob.write(&printer, b"x"), spoolss::error::SPL_NO_STARTDOC);
    assert_eq!(bob.start(&printer, "me\nmo"), error::SUCCESS);
    assert_eq!(bob.start(&printer, "another"), error::INVALID_HANDLE, "one at a time");
    assert_eq!(bob.with_handle(opnum::START_PAGE_PRINTER, &printer), error::SUCCESS);
    let long = vec![7; 20_000];
    assert_eq!((bob.write(&printer, b"hello "), bob.write(&printer, &long)), (error::SUCCESS, error::SUCCESS));
    assert_eq!(bob.with_handle(opnum::END_PAGE_PRINTER, &printer), error::SUCCESS);
    assert!(world.recorder.printed.lock().is_empty());
    assert_eq!(bob.with_handle(opnum::END_DOC_PRINTER, &printer), error::SUCCESS);
    let printed = world.recorder.printed.lock().clone();
    assert_eq!(printed, [("laser".into(), "memo".into(), [b"hello ", &long[..]].concat())]);
    assert_eq!(bob.with_handle(opnum::END_DOC_PRINTER, &printer), spoolss::error::SPL_NO_STARTDOC);
    world.is_clean();
}

#[test]
fn a_document_that_does_not_end_is_removed() {
    let world = World::new();
    let ends: [fn(&mut Client, &ContextHandle); 2] = [
        |client, printer| assert_eq!(client.with_handle(opnum::ABORT_PRINTER, printer), error::SUCCESS),
        |client, printer| assert_eq!(client.with_handle(opnum::CLOSE_PRINTER, printer), error::SUCCESS),
    ];
    for end in ends {
        let mut bob = world.client("bob");
        let printer = bob.printer("ink");
        assert_eq!((bob.start(&printer, "a"), bob.write(&printer, b"half")), (error::SUCCESS, error::SUCCESS));
        assert_eq!(world.server.accounting.held(Resource::PrintJobs), 1);
        end(&mut bob, &printer);
        world.is_clean();
    }
    let mut bob = world.client("bob");
    let printer = bob.printer("ink");
    assert_eq!((bob.start(&printer, "a"), bob.write(&printer, b"half")), (error::SUCCESS, error::SUCCESS));
    bob.0.client.disconnect();
    world.is_clean();
    assert!(world.recorder.printed.lock().is_empty());
}

#[test]
fn drivers_and_notifications_are_refused() {
    let world = World::new();
    let mut bob = world.client("bob");
    let printer = bob.printer("ink");
    let driver = bob.call(opnum::GET_PRINTER_DRIVER_2, |out| {
        out.array(4, &printer);
        out.null();
        out.u32(3);
        buffer(out, 0);
        [3, 0].iter().for_each(|number| out.u32(*number));
    });
    assert_eq!(last(&driver), spoolss::error::UNKNOWN_PRINTER_DRIVER);
    for opnum in [opnum::REMOTE_FIND_FIRST_PRINTER_CHANGE_NOTIFICATION_EX, opnum::WAIT_FOR_PRINTER_CHANGE] {
        assert_eq!(bob.with_handle(opnum, &printer), error::NOT_SUPPORTED);
    }
    for opnum in [opnum::DELETE_PRINTER, opnum::ADD_FORM, opnum::SET_PRINTER_DATA] {
        assert_eq!(bob.with_handle(opnum, &printer), error::ACCESS_DENIED);
        assert_eq!(bob.with_handle(opnum, &[9; 20]), error::INVALID_HANDLE);
    }
}

#[test]
fn forms_and_values_are_returned() {
    let world = World::new();
    let mut bob = world.client("bob");
    let (printer, server) = (bob.printer("ink"), bob.printer(r"\\here"));
    let forms = |out: &mut Encoder, size: u32| {
        out.array(4, &printer);
        out.u32(1);
        buffer(out, size);
    };
    let (infos, count, _) = bob.query(opnum::ENUM_FORMS, true, forms);
    assert_eq!((text(&infos, 0, 4), number(&infos, 8)), ("Letter".into(), 215_900));
    assert!(count > 20);
    let mut value = |handle: &ContextHandle, name: &str, size: u32| {
        let results = bob.call(opnum::GET_PRINTER_DATA, |out| {
            out.array(4, handle);
            out.string(name);
            out.u32(size);
        });
        (number(&results, 0), last(&results))
    };
    assert_eq!(value(&server, "OSVersion", 276), (3, error::SUCCESS));
    assert_eq!(value(&server, "osversion", 275), (3, error::MORE_DATA));
    assert_eq!(value(&server, "none", 4), (0, error::INVALID_PARAMETER));
    assert_eq!(value(&printer, "ChangeID", 4), (4, error::SUCCESS));
    assert_eq!(value(&printer, "none", 4), (0, error::FILE_NOT_FOUND));
}

#[test]
fn long_lists_are_complete() {
    let world = World::new();
    let mut policy = Policy::clone(&world.server.policy());
    policy.load_printers = true;
    world.server.reload(policy);
    *world.recorder.queues.lock() = (0..QUEUES_MAX).map(|number| queue(&format!("queue{number}"))).collect();
    *world.recorder.jobs.lock() = (1..=LISTED_JOBS_MAX as u32).map(|id| job(id, "bob")).collect();
    let mut bob = world.client("bob");
    // With the printers of the configuration that bob may use.
    assert_eq!(bob.printers(4).1 as usize, QUEUES_MAX + 2);
    let ink = bob.printer(r"\\here\ink");
    for level in [1, 2] {
        let (infos, count, status) = bob.jobs(&ink, level);
        assert_eq!((count as usize, status), (LISTED_JOBS_MAX, error::SUCCESS));
        assert_eq!(number(&infos, 0), 1);
    }
    let short = bob.printer(r"\\here\short");
    assert_eq!(bob.jobs(&short, 1).1, 2, "`max reported print jobs`");
    assert_eq!(bob.set_job(&ink, LISTED_JOBS_MAX as u32, job_control::CANCEL), error::SUCCESS);
    assert_eq!(*world.recorder.done.lock(), [format!("cancel {LISTED_JOBS_MAX}")]);
}

#[test]
fn open_printers_are_charged() {
    let world = World::new();
    let mut bob = world.client("bob");
    bob.printer(r"\\here\ink");
    let held = world.server.accounting.held(Resource::PipeData);
    let name = format!(r"\\{}\ink", "s".repeat(500));
    let handles: Vec<_> = (0..10).map(|_| bob.printer(&name)).collect();
    let more = world.server.accounting.held(Resource::PipeData) - held;
    assert!(more >= 10 * name.len(), "{more} bytes");
    for handle in &handles {
        assert_eq!(bob.with_handle(opnum::CLOSE_PRINTER, handle), error::SUCCESS);
    }
    assert_eq!(world.server.accounting.held(Resource::PipeData), held);
}
