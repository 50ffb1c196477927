//! Breaks of oplocks and leases whose clients lose their connections ([MS-SMB2] 3.3.4.6, 3.3.4.7, 3.3.5.9.12).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::CreateDisposition;
use proto::smb2::create_context::{CreateContext, DurableHandleReconnectV2, DurableHandleRequestV2};
use proto::smb2::header::{Command, Flags};
use proto::smb2::oplock_break::{LeaseBreak, OplockBreakAcknowledgment, OplockBreakNotification};
use proto::smb2::read::ReadRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, LeaseState, OplockLevel};
use proto::status::Status;
use server::testing::{ManualClock, PASSWORD, PipelinedClient, TestServer, chain, opened};
use server::vfs::faulty::{Fault, Faulty, Operation, Script, Wait};

use crate::persistent::{PERSISTENT, granted, lease, server_with_persistent_opens};
use crate::requests::{BATCH, FIRST, compose, reconnect, reconnect_v2, request, request_v2, run, send};
use crate::resilient::make_resilient;

/// Has reads wait until the test lets them go on.
#[derive(Default)]
pub(crate) struct ReadsWait(Arc<AtomicBool>);

impl Script for ReadsWait {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        let wait = || -> Wait { Box::pin(Until(self.0.clone())) };
        Fault { before: (operation == Operation::Read).then(wait), ..Fault::default() }
    }
}

struct Until(Arc<AtomicBool>);

impl Future for Until {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Makes a resilient open with a batch oplock of `file`, which another client then opens. Returns both clients; the
/// second one waits.
fn broken(server: &TestServer, is_connected: bool) -> (PipelinedClient, FileId, PipelinedClient) {
    let mut client = server.log_on("alice", false);
    let (file_id, _) = client.open("file", BATCH);
    assert_eq!(make_resilient(&mut client, file_id, 60_000), Status::SUCCESS);
    if !is_connected {
        run(client.connection.close());
    }
    let mut other = server.log_on("alice", false);
    send(&mut other, "file", OplockLevel::NONE, vec![]).check(Status::PENDING);
    (client, file_id, other)
}

/// Reclaims the open; returns its id and oplock.
fn reclaim(client: &mut PipelinedClient, file_id: FileId) -> (FileId, OplockLevel) {
    opened(&send(client, "", OplockLevel::NONE, vec![reconnect(file_id)]))
}

fn close(client: &mut PipelinedClient, file_id: FileId) {
    let close = CloseRequest { flags: CloseFlags(0), file_id };
    client.request(Command::CLOSE, |out| close.encode(out)).check(Status::SUCCESS);
}

#[test]
fn a_client_that_reconnects_is_told_of_a_break_in_progress() {
    for was_connected in [true, false] {
        let server = TestServer::with_stopped_clock();
        let (mut client, file_id, mut other) = broken(&server, was_connected);
        if was_connected {
            assert_eq!(client.receive().header().command, Command::OPLOCK_BREAK);
            run(client.connection.close());
        }
        server.advance_seconds(30);
        let mut back = server.log_on("alice", false);
        let (again, oplock) = reclaim(&mut back, file_id);
        assert_eq!(oplock, BATCH);
        assert_eq!(back.receive().header().command, Command::OPLOCK_BREAK);
        back.silent();
        server.advance_seconds(30);
        assert!(other.try_receive().is_none(), "the client has as much time as after the first notification");
        close(&mut back, again);
        opened(&other.receive());
    }
}

#[test]
fn a_break_that_ended_without_the_client_is_not_announced() {
    let server = TestServer::with_stopped_clock();
    let (_, file_id, mut other) = broken(&server, false);
    server.advance_seconds(35);
    opened(&other.receive());
    let mut back = server.log_on("alice", false);
    let (_, oplock) = reclaim(&mut back, file_id);
    assert_eq!(oplock, OplockLevel::NONE, "the response has the present level");
    back.silent();
}

#[test]
fn a_break_that_was_acknowledged_does_not_end_a_durable_open() {
    let server = TestServer::with_stopped_clock();
    let mut client = server.log_on_as("alice", [7; 16]);
    let message = send(&mut client, "file", OplockLevel::LEASE, vec![request_v2(0), lease(1, 7, 4)]);
    let (file_id, _) = opened(&message);
    let mut other = server.log_on_as("alice", [8; 16]);
    send(&mut other, "file", OplockLevel::NONE, vec![]).check(Status::PENDING);
    assert_eq!(client.receive().header().command, Command::OPLOCK_BREAK);
    let kept = LeaseBreak { lease_key: [1; 16], lease_state: LeaseState(3) };
    let acknowledgment = OplockBreakAcknowledgment::Lease(kept);
    client.request(Command::OPLOCK_BREAK, |out| acknowledgment.encode(out)).check(Status::SUCCESS);
    opened(&other.receive());
    // The acknowledgment of TCP, by which the server knows that the notification arrived, is not evaluated any more.
    run(client.connection.close());
    let mut back = server.log_on_as("alice", [7; 16]);
    run(server.scavenge());
    let contexts = vec![reconnect_v2(file_id, FIRST), lease(1, 3, 6)];
    let message = send(&mut back, "file", OplockLevel::LEASE, contexts);
    assert_eq!(granted(&message).1, Some((LeaseState(3), 6)));
    back.silent();
}

/// The context that makes or reclaims the persistent open with this CreateGuid.
fn persistent(create_guid: u8, reclaims: Option<FileId>) -> CreateContext<'static> {
    let create_guid = [create_guid; 16];
    match reclaims {
        Some(file_id) => DurableHandleReconnectV2 { file_id, create_guid, flags: PERSISTENT }.to_context(),
        None => DurableHandleRequestV2 { timeout: 0, flags: PERSISTENT, create_guid }.to_context(),
    }
}

#[test]
fn a_break_after_a_restart_has_an_epoch_that_the_client_does_not_know() {
    let mut server = server_with_persistent_opens(true);
    let mut caches = server.log_on_as("alice", [7; 16]);
    let message = send(&mut caches, "file", OplockLevel::LEASE, vec![persistent(1, None), lease(1, 3, 4)]);
    assert_eq!(granted(&message).1, Some((LeaseState(3), 5)));
    let (cached, _) = opened(&message);
    let mut writes = server.log_on_as("alice", [8; 16]);
    let (written, _) = opened(&send(&mut writes, "file", OplockLevel::NONE, vec![persistent(2, None)]));

    server.crash();
    let mut writes = server.log_on_as("alice", [8; 16]);
    let (file_id, _) = opened(&send(&mut writes, "file", OplockLevel::NONE, vec![persistent(2, Some(written))]));
    let write = WriteRequest { file_id, length: 1, buffer: b"x", ..WriteRequest::default() };
    writes.request(Command::WRITE, |out| write.encode(out)).check(Status::SUCCESS);

    // The epoch had advanced since it was stored.
    let mut caches = server.log_on_as("alice", [7; 16]);
    let contexts = vec![persistent(1, Some(cached)), lease(1, 3, 9)];
    let message = send(&mut caches, "file", OplockLevel::LEASE, contexts);
    assert_eq!(granted(&message).1, Some((LeaseState(3), 10)));
    let notification = caches.receive();
    let Ok(OplockBreakNotification::Lease(told)) = OplockBreakNotification::decode(notification.bytes()) else {
        panic!("not a lease break")
    };
    assert_eq!((told.current_lease_state, told.new_lease_state), (LeaseState(3), LeaseState(0)));
    assert_eq!(told.new_epoch, 11, "the client ignores an epoch that it knows");
    caches.silent();
}

/// A CREATE and a READ of its file in one chain, which waits for the storage.
fn create_and_read(client: &mut PipelinedClient, contexts: Vec<CreateContext<'static>>) -> Vec<u8> {
    let create = compose(client, Flags(0), "file", BATCH, contexts);
    let read = ReadRequest { file_id: FileId::ANY, length: 1, ..ReadRequest::default() };
    let read = client.compose(Command::READ, |out| read.encode(out));
    chain(&[create, read], true)
}

/// A server whose volume has a file with data, and what lets its reads go on.
fn server_with_slow_reads() -> (TestServer, Arc<AtomicBool>) {
    let script = Arc::new(ReadsWait::default());
    let go_on = script.0.clone();
    let builder = TestServer::builder().clock(ManualClock::new());
    let server = builder.wrap_volume(|volume| Faulty::new(volume, script)).start();
    let mut client = server.log_on("alice", false);
    let (file_id, _) = client.open("file", OplockLevel::NONE);
    let write = WriteRequest { file_id, length: 1, buffer: b"x", ..WriteRequest::default() };
    client.request(Command::WRITE, |out| write.encode(out)).check(Status::SUCCESS);
    close(&mut client, file_id);
    (server, go_on)
}

#[test]
fn a_durable_open_is_closed_if_the_notification_after_its_response_cannot_be_sent() {
    let (server, go_on) = server_with_slow_reads();
    let mut client = server.log_on("alice", false);
    let chain = create_and_read(&mut client, vec![request()]);
    assert!(client.send(&chain));
    client.silent();
    let mut ends = server.connect();
    ends.log_on("alice", PASSWORD, false, client.session_id).check(Status::SUCCESS);
    assert_eq!(server.open_count(), 1, "it is kept");
    let mut other = server.log_on("alice", false);
    let create = other.create("file", CreateDisposition::OPEN, OplockLevel::NONE, Flags(0));
    assert!(other.send(&create));
    other.receive().check(Status::PENDING);
    go_on.store(true, Ordering::Relaxed);
    while client.is_waiting() {
        client.turn();
    }
    run(server.scavenge());
    opened(&other.receive());
}
