//! Clients and local programs using the same files: `kernel oplocks`, leases of local programs, `posix locking`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use proto::bytes::utf16_bytes;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateRequest};
use proto::smb2::create_context::DurableHandleRequest;
use proto::smb2::header::{Command, Flags};
use proto::smb2::lock::{LockElement, LockFlags, LockRequest};
use proto::smb2::oplock_break::{OplockBreak, OplockBreakNotification, OplockBreakResponse};
use proto::smb2::read::ReadRequest;
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;
use server::answer::block_on;
use server::policy::Share;
use server::testing::{self, ManualClock, Message, PipelinedClient, TestServer, opened, root, volume};
use server::vfs::{Access, Errno, Node, RangeChange, RangeLock, Result};

const READ: Access = Access { read: true, write: false };
const BOTH: Access = Access { read: true, write: true };

/// A share whose oplocks are backed by kernel leases.
fn server_with_kernel_oplocks() -> TestServer {
    TestServer::builder().clock(ManualClock::new()).share(|share| share.caching.kernel_oplocks = true).start()
}

/// Looks up the file `file` as a local program.
fn found(server: &TestServer) -> Arc<dyn Node> {
    volume::node(&server.volume, "file")
}

/// Locks a range as a local program would.
fn lock_locally(node: &Arc<dyn Node>, offset: u64, length: u64, after: RangeLock) -> Result<()> {
    block_on(node.lock(&root(), vec![RangeChange { offset, length, before: RangeLock::Free, after }], false))
}

/// Opens it as a local program, without waiting.
fn open_locally(server: &TestServer, access: Access) -> Result<Arc<dyn Node>> {
    block_on(found(server).open(&root(), access))
}

/// Returns the server's background work, which is independent of connections.
fn housekeeping(server: &TestServer) -> Pin<Box<dyn Future<Output = ()>>> {
    let server = Arc::clone(server);
    Box::pin(async move { server.scavenge().await })
}

fn turn(running: &mut Pin<Box<dyn Future<Output = ()>>>) {
    for _ in 0..3 {
        assert!(running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
}

fn send(client: &mut PipelinedClient, disposition: CreateDisposition, oplock: OplockLevel) -> Message {
    let create = client.create("file", disposition, oplock, Flags(0));
    assert!(client.send(&create));
    client.receive()
}

fn create(client: &mut PipelinedClient, oplock: OplockLevel) -> (FileId, OplockLevel) {
    opened(&send(client, CreateDisposition::OPEN_IF, oplock))
}

#[track_caller]
fn close(client: &mut PipelinedClient, file_id: FileId) {
    let close = CloseRequest { flags: CloseFlags(0), file_id };
    client.request(Command::CLOSE, |out| close.encode(out)).check(Status::SUCCESS);
}

/// Checks that the client's oplock is broken to none.
#[track_caller]
fn told(client: &mut PipelinedClient) {
    let message = client.receive();
    assert_eq!(message.header().command, Command::OPLOCK_BREAK);
    match OplockBreakNotification::decode(message.bytes()) {
        Ok(OplockBreakNotification::Oplock(broken)) => assert_eq!(broken.oplock_level, OplockLevel::NONE),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn acknowledge(client: &mut PipelinedClient, file_id: FileId) {
    let acknowledgment = OplockBreakResponse::Oplock(OplockBreak { oplock_level: OplockLevel::NONE, file_id });
    client.request(Command::OPLOCK_BREAK, |out| acknowledgment.encode(out)).check(Status::SUCCESS);
}

#[test]
fn oplocks_that_the_kernel_can_guarantee() {
    for (asked, granted) in [
        (OplockLevel::BATCH, OplockLevel::BATCH),
        (OplockLevel::EXCLUSIVE, OplockLevel::EXCLUSIVE),
        (OplockLevel::II, OplockLevel::NONE),
    ] {
        let server = server_with_kernel_oplocks();
        let mut client = server.log_on("alice", false);
        assert_eq!(create(&mut client, asked).1, granted);
        let mut second = server.log_on("alice", false);
        if granted == OplockLevel::NONE {
            assert_eq!(create(&mut second, asked).1, OplockLevel::NONE);
        }
    }
}

#[test]
fn a_file_that_is_open_locally_is_not_cached() {
    let server = server_with_kernel_oplocks();
    let mut client = server.log_on("alice", false);
    let (first, _) = create(&mut client, OplockLevel::NONE);
    close(&mut client, first);
    let local = open_locally(&server, READ).expect("opens");
    let (second, level) = create(&mut client, OplockLevel::BATCH);
    assert_eq!(level, OplockLevel::NONE);
    close(&mut client, second);
    drop(local);
    assert_eq!(create(&mut client, OplockLevel::BATCH).1, OplockLevel::BATCH);
}

#[test]
fn a_local_program_waits_until_the_client_has_acknowledged() {
    for closes in [false, true] {
        let server = server_with_kernel_oplocks();
        let mut client = server.log_on("alice", false);
        let (file_id, _) = create(&mut client, OplockLevel::EXCLUSIVE);
        for _ in 0..2 {
            assert_eq!(open_locally(&server, READ).err(), Some(Errno::AGAIN));
        }
        told(&mut client);
        client.silent();
        if closes {
            close(&mut client, file_id);
        } else {
            acknowledge(&mut client, file_id);
        }
        open_locally(&server, BOTH).expect("no client caches it");
    }
}

#[test]
fn a_client_that_does_not_answer_loses_its_oplock() {
    let server = server_with_kernel_oplocks();
    let mut housekeeping = housekeeping(&server);
    let mut client = server.log_on("alice", false);
    let (file_id, _) = create(&mut client, OplockLevel::BATCH);
    assert!(open_locally(&server, READ).is_err());
    told(&mut client);
    for (seconds, ended) in [(20, false), (20, true)] {
        turn(&mut housekeeping);
        server.advance_seconds(seconds);
        turn(&mut housekeeping);
        assert_eq!(open_locally(&server, READ).is_ok(), ended);
    }
    let late = OplockBreakResponse::Oplock(OplockBreak { oplock_level: OplockLevel::NONE, file_id });
    client.request(Command::OPLOCK_BREAK, |out| late.encode(out)).check(Status::INVALID_DEVICE_STATE);
}

#[test]
fn another_client_opens_when_the_first_has_acknowledged() {
    let server = server_with_kernel_oplocks();
    let mut first = server.log_on("alice", false);
    let (file_id, _) = create(&mut first, OplockLevel::BATCH);
    let mut second = server.log_on("alice", false);
    send(&mut second, CreateDisposition::OPEN, OplockLevel::BATCH).check(Status::PENDING);
    told(&mut first);
    acknowledge(&mut first, file_id);
    assert_eq!(opened(&second.receive()).1, OplockLevel::NONE, "both clients have the file open");
    open_locally(&server, BOTH).expect("no client caches it");
}

#[test]
fn a_client_waits_for_the_lease_of_a_local_program() {
    for gives_way in [true, false] {
        let server = TestServer::with_stopped_clock();
        let mut client = server.log_on("alice", false);
        let (file_id, _) = create(&mut client, OplockLevel::NONE);
        close(&mut client, file_id);
        let local = open_locally(&server, BOTH).expect("opens");
        let lease = block_on(local.lease(&root(), Arc::new(|| {}))).expect("a lease");
        send(&mut client, CreateDisposition::OPEN, OplockLevel::NONE).check(Status::PENDING);
        server.advance_seconds(10);
        client.silent();
        if gives_way {
            drop(lease);
            server.advance_seconds(1);
            opened(&client.receive());
        } else {
            server.advance_seconds(120);
            client.receive().check(Status::SHARING_VIOLATION);
        }
    }
}

#[test]
fn a_disconnected_client_does_not_block_local_programs() {
    let server = server_with_kernel_oplocks();
    let mut housekeeping = housekeeping(&server);
    let mut client = server.log_on("alice", false);
    let name = utf16_bytes("file");
    let durable = CreateRequest {
        requested_oplock_level: OplockLevel::BATCH,
        desired_access: 0x001f_01ff,
        create_disposition: CreateDisposition::OPEN_IF,
        name: &name,
        create_contexts: vec![DurableHandleRequest.to_context()],
        ..CreateRequest::default()
    };
    opened(&client.request(Command::CREATE, |out| durable.encode(out)));
    block_on(client.connection.close());
    assert_eq!(server.open_count(), 1, "kept");
    assert_eq!(open_locally(&server, BOTH).err(), Some(Errno::AGAIN));
    turn(&mut housekeeping);
    open_locally(&server, BOTH).expect("the lost client's open has ended");
    assert_eq!(server.open_count(), 0);
}

const SHARED: LockFlags = LockFlags(LockFlags::SHARED_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);
const EXCLUSIVE: LockFlags = LockFlags(LockFlags::EXCLUSIVE_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);
const WAITING: LockFlags = LockFlags::EXCLUSIVE_LOCK;
const UNLOCK: LockFlags = LockFlags::UNLOCK;
const GRANTED: Result<()> = Ok(());
const REFUSED: Result<()> = Err(Errno::AGAIN);

/// A file opened by a client and by a local program.
struct Both {
    server: TestServer,
    client: PipelinedClient,
    file_id: FileId,
    local: Arc<dyn Node>,
}

impl Both {
    fn new(change: impl FnOnce(&mut Share)) -> Both {
        let server = TestServer::builder().clock(ManualClock::new()).share(change).start();
        let mut client = server.log_on("alice", false);
        let (file_id, _) = create(&mut client, OplockLevel::NONE);
        let local = open_locally(&server, BOTH).expect("opens");
        Both { server, client, file_id, local }
    }

    /// The client locks or unlocks ranges: offset, length, flags.
    fn ask(&mut self, ranges: &[(u64, u64, LockFlags)]) -> Message {
        ask(&mut self.client, self.file_id, ranges)
    }

    #[track_caller]
    fn local(&self, offset: u64, length: u64, lock: RangeLock, expected: Result<()>) {
        assert_eq!(lock_locally(&self.local, offset, length, lock), expected, "{lock:?} {length} at {offset}");
    }

    /// Checks whether the local program can lock a range, and unlocks it again.
    #[track_caller]
    fn is_free(&self, offset: u64, length: u64, expected: bool) {
        self.local(offset, length, RangeLock::Exclusive, if expected { GRANTED } else { REFUSED });
        if expected {
            self.local(offset, length, RangeLock::Free, GRANTED);
        }
    }
}

fn ask(client: &mut PipelinedClient, file_id: FileId, ranges: &[(u64, u64, LockFlags)]) -> Message {
    let locks = ranges.iter().map(|&(offset, length, flags)| LockElement { offset, length, flags }).collect();
    client.request(Command::LOCK, |out| LockRequest { lock_sequence: 0, file_id, locks }.encode(out))
}

fn read(client: &mut PipelinedClient, file_id: FileId) -> Message {
    let read = ReadRequest { length: 1, file_id, ..ReadRequest::default() };
    client.request(Command::READ, |out| read.encode(out))
}

#[test]
fn locks_of_clients_block_local_programs() {
    let mut both = Both::new(|_| {});
    both.ask(&[(0, 10, EXCLUSIVE), (20, 10, SHARED)]).check(Status::SUCCESS);
    both.local(9, 1, RangeLock::Shared, REFUSED);
    both.local(20, 10, RangeLock::Shared, GRANTED);
    both.is_free(10, 10, true);
    // One range within the other, to check the remaining locks when either is unlocked.
    both.ask(&[(2, 4, SHARED)]).check(Status::SUCCESS);
    both.ask(&[(0, 10, UNLOCK)]).check(Status::SUCCESS);
    both.is_free(0, 2, true);
    both.local(2, 4, RangeLock::Shared, GRANTED);
    both.local(2, 4, RangeLock::Free, GRANTED);
    both.is_free(2, 4, false);
    both.is_free(6, 4, true);
    both.ask(&[(2, 4, UNLOCK)]).check(Status::SUCCESS);
    both.is_free(0, 10, true);
    // Exactly as many bytes as a file can have on Linux.
    both.ask(&[(100, u64::MAX - 100, EXCLUSIVE), (50, 0, EXCLUSIVE)]).check(Status::SUCCESS);
    both.is_free((1 << 63) - 1, 1, false);
    both.is_free(50, 1, true);
    let (mut client, file_id) = (both.client, both.file_id);
    close(&mut client, file_id);
    assert_eq!(lock_locally(&both.local, 0, 1 << 63, RangeLock::Exclusive), GRANTED, "closed");
}

#[test]
fn locks_of_local_programs_block_clients() {
    let mut both = Both::new(|_| {});
    both.local(50, 10, RangeLock::Exclusive, GRANTED);
    both.local(0, 1, RangeLock::Exclusive, GRANTED);
    let file_id = both.file_id;
    read(&mut both.client, file_id).check(Status::END_OF_FILE);
    both.local(0, 1, RangeLock::Free, GRANTED);
    // No lock of a failed array remains.
    both.ask(&[(0, 10, EXCLUSIVE), (45, 10, SHARED)]).check(Status::LOCK_NOT_GRANTED);
    both.is_free(0, 10, true);
    let mut other = both.server.log_on("alice", false);
    let (second, _) = create(&mut other, OplockLevel::NONE);
    ask(&mut other, second, &[(0, 10, EXCLUSIVE)]).check(Status::SUCCESS);
    both.local(50, 10, RangeLock::Shared, GRANTED);
    both.ask(&[(45, 10, EXCLUSIVE)]).check(Status::LOCK_NOT_GRANTED);
    both.ask(&[(45, 10, SHARED)]).check(Status::SUCCESS);
    // A lock that was refused does not conflict with others.
    both.local(90, 10, RangeLock::Exclusive, GRANTED);
    both.ask(&[(90, 10, EXCLUSIVE)]).check(Status::LOCK_NOT_GRANTED);
    both.local(90, 10, RangeLock::Free, GRANTED);
    ask(&mut other, second, &[(90, 10, EXCLUSIVE)]).check(Status::SUCCESS);
}

#[test]
fn a_client_waits_for_the_lock_of_a_local_program() {
    for cancels in [false, true] {
        let mut both = Both::new(|_| {});
        both.local(0, 10, RangeLock::Shared, GRANTED);
        let interim = both.ask(&[(0, 10, WAITING)]);
        interim.check(Status::PENDING);
        both.server.advance_seconds(3);
        both.client.silent();
        // Other clients may read meanwhile, because the lock is not granted.
        let mut other = both.server.log_on("alice", false);
        let (second, _) = create(&mut other, OplockLevel::NONE);
        read(&mut other, second).check(Status::END_OF_FILE);
        if cancels {
            both.client.cancel(&interim);
            both.client.receive().check(Status::CANCELLED);
        }
        both.local(0, 10, RangeLock::Free, GRANTED);
        both.server.advance_seconds(3);
        if !cancels {
            both.client.receive().check(Status::SUCCESS);
        }
        both.is_free(0, 10, cancels);
    }
}

#[test]
fn a_client_that_waits_for_a_client_gets_its_lock_at_once() {
    for closes in [false, true] {
        let mut both = Both::new(|_| {});
        both.ask(&[(0, 10, EXCLUSIVE)]).check(Status::SUCCESS);
        let mut other = both.server.log_on("alice", false);
        let (second, _) = create(&mut other, OplockLevel::NONE);
        ask(&mut other, second, &[(0, 10, WAITING)]).check(Status::PENDING);
        if closes {
            let file_id = both.file_id;
            close(&mut both.client, file_id);
        } else {
            both.ask(&[(0, 10, UNLOCK)]).check(Status::SUCCESS);
        }
        other.receive().check(Status::SUCCESS);
        both.is_free(0, 10, false);
    }
}

#[test]
fn features_that_the_administrator_can_disable() {
    let mut both = Both::new(|share| share.locks.posix_locking = false);
    both.ask(&[(0, 10, EXCLUSIVE)]).check(Status::SUCCESS);
    both.is_free(0, 10, true);

    let mut both = Both::new(|share| share.locks.blocking_locks = false);
    both.local(0, 10, RangeLock::Shared, GRANTED);
    both.ask(&[(0, 10, WAITING)]).check(Status::LOCK_NOT_GRANTED);

    for (strict, expected) in [(true, Status::FILE_LOCK_CONFLICT), (false, Status::END_OF_FILE)] {
        let mut both = Both::new(|share| share.locks.strict_locking = strict);
        both.ask(&[(0, 10, EXCLUSIVE)]).check(Status::SUCCESS);
        let mut other = both.server.log_on("alice", false);
        let (second, _) = create(&mut other, OplockLevel::NONE);
        read(&mut other, second).check(expected);
    }

    let mut both = Both::new(|share| share.locks.locking = false);
    both.ask(&[(0, 10, EXCLUSIVE)]).check(Status::SUCCESS);
    both.ask(&[(0, 10, EXCLUSIVE)]).check(Status::SUCCESS);
    both.is_free(0, 10, true);
    both.ask(&[(5, 10, UNLOCK)]).check(Status::SUCCESS);
}

/// Returns `count` ranges of one byte each, starting at `offset`, with a free byte after each.
fn ranges(offset: u64, count: u64) -> Vec<(u64, u64, LockFlags)> {
    (0..count).map(|number| (offset + number * 2, 1, EXCLUSIVE)).collect()
}

#[test]
fn a_request_for_too_many_ranges_is_refused_entirely() {
    let mut both = Both::new(|_| {});
    both.ask(&ranges(0, 257)).check(Status::INSUFFICIENT_RESOURCES);
    both.is_free(0, 1, true);
    both.ask(&ranges(0, 256)).check(Status::SUCCESS);
    both.is_free(0, 1, false);
    both.is_free(510, 1, false);
    let unlocks: Vec<_> = ranges(0, 256).into_iter().map(|(offset, length, _)| (offset, length, UNLOCK)).collect();
    both.ask(&[&unlocks[..], &[(1, 1, UNLOCK)]].concat()).check(Status::INSUFFICIENT_RESOURCES);
    both.is_free(0, 1, false);
    // A range that is not locked ends the unlocking; the ranges before it are unlocked.
    both.ask(&[&unlocks[..100], &[(1, 1, UNLOCK)], &unlocks[100..200]].concat()).check(Status::RANGE_NOT_LOCKED);
    both.is_free(0, 199, true);
    both.is_free(200, 1, false);
    both.ask(&unlocks[100..]).check(Status::SUCCESS);
    both.is_free(0, 600, true);
}

#[test]
fn the_locks_of_several_handles_on_a_file_are_bounded_together() {
    let server =
        TestServer::builder().clock(ManualClock::new()).share(|share| share.locks.posix_locking = false).start();
    let mut client = server.log_on("alice", false);
    let handles: Vec<_> = (0..3).map(|_| create(&mut client, OplockLevel::NONE).0).collect();
    for request in 0..64 {
        ask(&mut client, handles[request as usize / 32], &ranges(request * 512, 256)).check(Status::SUCCESS);
    }
    ask(&mut client, handles[2], &ranges(64 * 512, 1)).check(Status::INSUFFICIENT_RESOURCES);
    ask(&mut client, handles[2], &[(64 * 512, 1, WAITING)]).check(Status::INSUFFICIENT_RESOURCES);
    ask(&mut client, handles[0], &[(0, 1, UNLOCK)]).check(Status::SUCCESS);
    ask(&mut client, handles[2], &ranges(64 * 512, 1)).check(Status::SUCCESS);
    close(&mut client, handles[1]);
    ask(&mut client, handles[2], &ranges(65 * 512, 256)).check(Status::SUCCESS);
}

/// Overlapping locks of a handle that are unlocked in turn, with so many kernel locks that a worker changes them.
#[test]
fn the_rest_of_many_locks_blocks_local_programs() {
    let mut both = Both::new(|_| {});
    let shared = |(offset, length, _)| (offset, length, SHARED);
    both.ask(&ranges(0, 200).into_iter().map(shared).collect::<Vec<_>>()).check(Status::SUCCESS);
    both.ask(&[(0, 400, SHARED)]).check(Status::SUCCESS);
    both.is_free(1, 1, false);
    both.ask(&[(0, 400, UNLOCK)]).check(Status::SUCCESS);
    both.is_free(1, 1, true);
    both.is_free(2, 1, false);
    // More pieces than one lock may have.
    both.ask(&ranges(400, 200).into_iter().map(shared).collect::<Vec<_>>()).check(Status::SUCCESS);
    both.ask(&[(1_000, 1, EXCLUSIVE), (0, 800, SHARED)]).check(Status::INSUFFICIENT_RESOURCES);
    both.is_free(1, 1, true);
    both.is_free(1_000, 1, true);
    both.ask(&[(1_000, 1, EXCLUSIVE)]).check(Status::SUCCESS);
}

#[test]
fn the_suite_passes_on_remote_storage() {
    const LEASES: &str = "the storage has no leases";
    const LOCKS: &str = "the storage has no locks";
    testing::passes_on_remote_storage(&[
        ("oplocks_that_the_kernel_can_guarantee", LEASES),
        ("a_file_that_is_open_locally_is_not_cached", LEASES),
        ("a_local_program_waits_until_the_client_has_acknowledged", LEASES),
        ("a_client_that_does_not_answer_loses_its_oplock", LEASES),
        ("another_client_opens_when_the_first_has_acknowledged", LEASES),
        ("a_client_waits_for_the_lease_of_a_local_program", LEASES),
        ("a_disconnected_client_does_not_block_local_programs", LEASES),
        ("locks_of_clients_block_local_programs", LOCKS),
        ("locks_of_local_programs_block_clients", LOCKS),
        ("a_client_waits_for_the_lock_of_a_local_program", LOCKS),
        ("a_client_that_waits_for_a_client_gets_its_lock_at_once", LOCKS),
        ("features_that_the_administrator_can_disable", LOCKS),
        ("a_request_for_too_many_ranges_is_refused_entirely", LOCKS),
        ("the_rest_of_many_locks_blocks_local_programs", LOCKS),
    ]);
}
