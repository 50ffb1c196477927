//! Content changes that the storage has not carried out yet when their handle is closed, their connection is lost, or
//! another change of the same file arrives.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use proto::bytes::utf16_bytes;
use proto::smb2::close::{CloseFlags, CloseRequest, CloseResponse};
use proto::smb2::create::{CreateDisposition, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::create_context::{DurableHandleReconnect, DurableHandleRequest};
use proto::smb2::header::{Command, Header};
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;
use server::testing::{self, TestClient, TestServer, status};
use server::vfs::faulty::{Fault, Faulty, Operation, Script, Wait};

/// Has the first write wait until the test lets it go on.
#[derive(Default)]
struct FirstWriteWaits {
    has_begun: AtomicBool,
    may_go_on: Arc<AtomicBool>,
}

impl Script for FirstWriteWaits {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        let is_it = operation == Operation::Write && !self.has_begun.swap(true, Ordering::Relaxed);
        let wait = || -> Wait { Box::pin(Until(self.may_go_on.clone())) };
        Fault { before: is_it.then(wait), ..Fault::default() }
    }
}

struct Until(Arc<AtomicBool>);

impl Future for Until {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
    }
}

struct Stage {
    server: TestServer,
    alice: TestClient,
    bob: TestClient,
    may_go_on: Arc<AtomicBool>,
}

impl Stage {
    fn new() -> Stage {
        let script = Arc::new(FirstWriteWaits::default());
        let may_go_on = script.may_go_on.clone();
        let server = TestServer::builder().wrap_volume(|volume| Faulty::new(volume, script)).start();
        let [alice, bob] = ["alice", "bob"].map(|user| TestClient::logged_on(&server, user));
        Stage { server, alice, bob, may_go_on }
    }
}

/// Opens `file` for reading and writing, with nothing shared.
fn create(client: &mut TestClient, name: &str, change: impl FnOnce(&mut CreateRequest<'_>)) -> Vec<u8> {
    let name = utf16_bytes(name);
    let mut create = CreateRequest {
        desired_access: 0x0013_019f,
        share_access: ShareAccess(0),
        create_disposition: CreateDisposition::OPEN_IF,
        name: &name,
        ..CreateRequest::default()
    };
    change(&mut create);
    client.request(Command::CREATE, |out| create.encode(out))
}

fn open(client: &mut TestClient, name: &str) -> Result<FileId, Status> {
    opened(&create(client, name, |_| {}))
}

fn opened(response: &[u8]) -> Result<FileId, Status> {
    CreateResponse::decode(response).map(|response| response.file_id).map_err(|_| status(response))
}

fn write(client: &mut TestClient, file_id: FileId, offset: u64, data: &[u8]) -> Vec<u8> {
    let write = WriteRequest { file_id, offset, length: data.len() as u32, buffer: data, ..WriteRequest::default() };
    client.compose(Command::WRITE, |out| write.encode(out))
}

fn read(client: &mut TestClient, file_id: FileId) -> Vec<u8> {
    let read = ReadRequest { file_id, length: 100, ..ReadRequest::default() };
    let response = client.request(Command::READ, |out| read.encode(out));
    ReadResponse::decode(&response).expect("a successful READ").buffer.to_vec()
}

/// Polls a future some times. Returns whether it has completed.
fn poll(future: impl Future<Output = ()>) -> bool {
    let mut future = pin!(future);
    (0..100).any(|_| future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready())
}

/// Returns the command and the status of each message.
fn outcomes(frames: &[Vec<u8>]) -> Vec<(Command, Status)> {
    let outcome = |frame: &Vec<u8>| Header::decode(frame).map(|header| (header.command, header.status));
    frames.iter().map(|frame| outcome(frame).expect("a well-formed message")).collect()
}

#[test]
fn a_close_waits_for_the_writes_through_its_handle() {
    let Stage { server, mut alice, mut bob, may_go_on } = Stage::new();
    let file = open(&mut alice, "file").expect("it can be created");
    let writes = write(&mut alice, file, 0, b"older");
    alice.post(&writes);
    let close = CloseRequest { flags: CloseFlags::POSTQUERY_ATTRIB, file_id: file };
    let close = alice.compose(Command::CLOSE, |out| close.encode(out));
    assert_eq!(outcomes(&alice.send(&close)), []);
    assert_eq!(open(&mut bob, "file"), Err(Status::SHARING_VIOLATION), "the handle still has its share mode");
    may_go_on.store(true, Ordering::Relaxed);
    let mut frames = alice.proceed();
    while frames.len() < 2 {
        frames.extend(alice.proceed());
    }
    assert_eq!(outcomes(&frames), [(Command::WRITE, Status::SUCCESS), (Command::CLOSE, Status::SUCCESS)]);
    assert_eq!(CloseResponse::decode(&frames[1]).expect("a successful CLOSE").end_of_file, 5);
    assert!(open(&mut bob, "file").is_ok());
    bob.disconnect();
    assert_eq!(server.open_count(), 0);
}

#[test]
fn a_write_of_a_lost_connection_does_not_replace_a_newer_one() {
    let Stage { server, mut alice, mut bob, may_go_on } = Stage::new();
    let file = open(&mut alice, "file").expect("it can be created");
    let writes = write(&mut alice, file, 0, b"older");
    assert_eq!(outcomes(&alice.send(&writes)), []);
    assert!(poll(alice.connection.clone().close()), "nothing else waits for the write");
    let mut scavenges = pin!(server.scavenge());
    let mut scavenge = || assert!(scavenges.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    scavenge();
    assert_eq!(open(&mut bob, "file"), Err(Status::SHARING_VIOLATION));
    may_go_on.store(true, Ordering::Relaxed);
    while alice.is_waiting() {
        alice.proceed();
    }
    scavenge();
    let file = open(&mut bob, "file").expect("no other handle is open");
    let writes = write(&mut bob, file, 0, b"newer");
    let frames = bob.send(&writes);
    assert_eq!(bob.finish(frames).map(|response| status(&response)), Some(Status::SUCCESS));
    assert_eq!(read(&mut bob, file), b"newer");
}

#[test]
fn a_handle_is_reclaimed_after_the_writes_of_its_lost_connection() {
    let Stage { server, mut alice, may_go_on, .. } = Stage::new();
    let durable = |create: &mut CreateRequest<'_>| {
        create.requested_oplock_level = OplockLevel::BATCH;
        create.create_contexts = vec![DurableHandleRequest.to_context()];
    };
    let file = opened(&create(&mut alice, "file", durable)).expect("it can be created");
    let writes = write(&mut alice, file, 0, b"older");
    assert_eq!(outcomes(&alice.send(&writes)), []);
    assert!(poll(alice.connection.clone().close()), "a durable open is kept as it is");
    let mut again = TestClient::logged_on(&server, "alice");
    let name = utf16_bytes("file");
    let reconnect = CreateRequest {
        requested_oplock_level: OplockLevel::BATCH,
        name: &name,
        create_contexts: vec![DurableHandleReconnect { file_id: file }.to_context()],
        ..CreateRequest::default()
    };
    let reconnect = again.compose(Command::CREATE, |out| reconnect.encode(out));
    assert_eq!(outcomes(&again.send(&reconnect)), []);
    may_go_on.store(true, Ordering::Relaxed);
    let mut frames = Vec::new();
    while frames.is_empty() {
        alice.proceed();
        frames = again.proceed();
    }
    let file = opened(&frames[0]).expect("it is reclaimed");
    let writes = write(&mut again, file, 0, b"newer");
    let frames = again.send(&writes);
    assert_eq!(again.finish(frames).map(|response| status(&response)), Some(Status::SUCCESS));
    assert_eq!(read(&mut again, file), b"newer");
}

#[test]
fn a_logoff_does_not_wait_for_writes() {
    let Stage { server, mut alice, mut bob, may_go_on } = Stage::new();
    let changing = open(&mut alice, "changing").expect("it can be created");
    open(&mut alice, "other").expect("it can be created");
    let writes = write(&mut alice, changing, 0, b"data");
    alice.post(&writes);
    let logoff = alice.compose(Command::LOGOFF, |out| LogoffRequest.encode(out));
    let mut frames = alice.send(&logoff);
    for _ in 0..100 {
        frames.extend(alice.proceed());
    }
    assert_eq!(outcomes(&frames), [(Command::LOGOFF, Status::SUCCESS)]);
    assert!(open(&mut bob, "other").is_ok(), "its handle is closed");
    assert_eq!(open(&mut bob, "changing"), Err(Status::SHARING_VIOLATION));
    may_go_on.store(true, Ordering::Relaxed);
    while alice.is_waiting() {
        alice.proceed();
    }
    assert!(!poll(server.scavenge()), "it runs forever");
    assert!(open(&mut bob, "changing").is_ok());
}

#[test]
fn appended_data_does_not_replace_other_appended_data() {
    let Stage { mut alice, may_go_on, .. } = Stage::new();
    let file = open(&mut alice, "file").expect("it can be created");
    for data in [b"one ", b"two "] {
        let append = write(&mut alice, file, u64::MAX, data);
        alice.post(&append);
    }
    assert_eq!(outcomes(&alice.proceed()), []);
    may_go_on.store(true, Ordering::Relaxed);
    let mut frames = Vec::new();
    while frames.len() < 2 {
        frames.extend(alice.proceed());
    }
    assert_eq!(outcomes(&frames), [(Command::WRITE, Status::SUCCESS); 2]);
    assert_eq!(read(&mut alice, file), b"one two ");
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
