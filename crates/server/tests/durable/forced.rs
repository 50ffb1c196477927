//! Sessions, opens and tree connects that an administrator closes ([MS-SMB2] 3.3.4.12, 3.3.4.17).

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proto::bytes::utf16_bytes;
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, ShareAccess};
use proto::smb2::header::{Command, Flags};
use proto::smb2::lock::{LockElement, LockFlags, LockRequest};
use proto::smb2::read::ReadRequest;
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;
use server::testing::{PipelinedClient, TestServer, opened};

use crate::requests::{lost, reconnect, request, run, send};

/// Returns the result of a future that waits only for the storage.
fn finish<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..1000 {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
    }
    panic!("the storage has not answered");
}

/// Returns the status of a READ.
fn read(client: &mut PipelinedClient, file_id: FileId) -> Status {
    let read = ReadRequest { file_id, length: 1, ..ReadRequest::default() };
    client.request(Command::READ, |out| read.encode(out)).header().status
}

fn lock(client: &mut PipelinedClient, file_id: FileId) -> Status {
    let flags = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
    let locks = vec![LockElement { offset: 0, length: 10, flags }];
    client.request(Command::LOCK, |out| LockRequest { lock_sequence: 0, file_id, locks }.encode(out)).header().status
}

/// Opens `name` with a durable handle and a batch oplock, and locks a range of it.
fn hold(server: &TestServer, name: &str) -> (PipelinedClient, FileId) {
    let mut client = server.log_on("alice", false);
    let (file_id, _) = opened(&send(&mut client, name, OplockLevel::BATCH, vec![request()]));
    assert_eq!(lock(&mut client, file_id), Status::SUCCESS);
    (client, file_id)
}

/// Checks that nobody holds `name`: another client gets an oplock and the lock.
fn check_free(server: &TestServer, name: &str) {
    let mut other = server.log_on("alice", false);
    let (file_id, oplock) = other.open(name, OplockLevel::BATCH);
    assert_eq!((oplock, lock(&mut other, file_id)), (OplockLevel::BATCH, Status::SUCCESS));
}

#[test]
fn a_closed_file_is_released_and_its_client_gets_an_error() {
    let server = TestServer::with_stopped_clock();
    let (mut client, file_id) = hold(&server, "file");
    let (other, _) = client.open("other", OplockLevel::NONE);
    assert!(finish(server.close_file(file_id.volatile)));
    assert!(!finish(server.close_file(file_id.volatile)), "it is closed once");
    assert_eq!(read(&mut client, file_id), Status::FILE_CLOSED);
    assert_eq!(lock(&mut client, other), Status::SUCCESS, "the other opens of the client stay");
    check_free(&server, "file");
}

#[test]
fn a_closed_session_ends_with_its_durable_opens() {
    let server = TestServer::with_stopped_clock();
    let (mut client, file_id) = hold(&server, "file");
    let mut bystander = server.log_on("bob", false);
    let (others, _) = bystander.open("other", OplockLevel::NONE);
    let sessions = server.sessions.all();
    let of_alice = sessions.iter().find(|session| session.user().is_some_and(|user| user.name == "alice"));
    let id = of_alice.expect("the session of alice").id;
    assert!(finish(server.close_session(id)) && !finish(server.close_session(id)));
    assert_eq!(read(&mut client, file_id), Status::USER_SESSION_DELETED);
    assert_eq!(lock(&mut bystander, others), Status::SUCCESS, "other clients are not affected");
    check_free(&server, "file");
    let mut client = server.log_on("alice", false);
    send(&mut client, "file", OplockLevel::NONE, vec![reconnect(file_id)]).check(Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn an_open_that_is_kept_for_a_lost_client_is_closed() {
    let server = TestServer::with_stopped_clock();
    let file_id = lost(&server);
    assert_eq!(server.open_count(), 1);
    assert!(finish(server.close_file(file_id.volatile)));
    assert_eq!(server.open_count(), 0);
    let mut client = server.log_on("alice", false);
    send(&mut client, "file", OplockLevel::NONE, vec![reconnect(file_id)]).check(Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn a_file_to_be_deleted_is_deleted_when_an_administrator_closes_it() {
    for by_session in [false, true] {
        let server = TestServer::with_stopped_clock();
        let mut client = server.log_on("alice", false);
        let name = utf16_bytes("file");
        let create = CreateRequest {
            desired_access: 0x001f_01ff,
            share_access: ShareAccess(7),
            create_disposition: CreateDisposition::OPEN_IF,
            create_options: CreateOptions::DELETE_ON_CLOSE,
            name: &name,
            ..CreateRequest::default()
        };
        let (file_id, _) = opened(&client.request(Command::CREATE, |out| create.encode(out)));
        if by_session {
            let id = server.sessions.all()[0].id;
            assert!(finish(server.close_session(id)));
        } else {
            assert!(finish(server.close_file(file_id.volatile)));
        }
        let mut other = server.log_on("bob", false);
        let create = other.create("file", CreateDisposition::OPEN, OplockLevel::NONE, Flags(0));
        assert!(other.send(&create));
        assert_eq!(other.receive().header().status, Status::OBJECT_NAME_NOT_FOUND);
    }
}

#[test]
fn the_clients_of_a_share_are_disconnected() {
    let server = TestServer::with_stopped_clock();
    let (mut client, file_id) = hold(&server, "file");
    run(hold(&server, "other").0.connection.close());
    assert_eq!(server.open_count(), 2);
    assert_eq!(finish(server.close_share("none")), 0);
    assert_eq!(finish(server.close_share("SHARE")), 1);
    assert_eq!(server.open_count(), 0);
    assert_eq!(read(&mut client, file_id), Status::NETWORK_NAME_DELETED);
    check_free(&server, "file");
}
