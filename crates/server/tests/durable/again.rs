//! Requests that a client repeats because it does not know whether they arrived: CREATE with a CreateGuid ([MS-SMB2]
//! 3.3.5.9.10), LOCK with a sequence number (3.3.5.14).

use proto::smb2::OplockLevel;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::CreateResponse;
use proto::smb2::create_context::name;
use proto::smb2::header::{Command, Flags};
use proto::smb2::lock::LockFlags;
use proto::smb2::write::WriteRequest;
use proto::status::Status;

use crate::requests::{BATCH, EXCLUSIVE, REPLAY, has, lock, reconnect, request, request_v2, run, send, send_with};
use server::testing::{Message, TestServer, opened};

#[test]
fn a_replayed_create_returns_the_same_open() {
    let server = TestServer::with_stopped_clock();
    let mut client = server.log_on_as("alice", [7; 16]);
    let first = send(&mut client, "file", BATCH, vec![request_v2(0)]);
    let again = send_with(&mut client, REPLAY, "file", BATCH, vec![request_v2(0)]);
    again.check(Status::SUCCESS);
    let decode = |message: &Message| {
        let response = CreateResponse::decode(message.bytes()).expect("a well-formed message");
        (response.file_id, response.create_action, response.oplock_level)
    };
    assert_eq!(decode(&first), decode(&again));
    assert!(has(&again, name::DURABLE_HANDLE_REQUEST_V2));
    let lower = send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_v2(0)]);
    assert_eq!(decode(&lower), (decode(&first).0, decode(&first).1, OplockLevel::NONE));
    assert!(!has(&lower, name::DURABLE_HANDLE_REQUEST_V2));
    assert_eq!(server.open_count(), 1);
}

#[test]
fn clients_that_may_not_replay_a_create() {
    for (user, client_guid, flags, expected) in [
        ("alice", [7; 16], Flags(0), Status::DUPLICATE_OBJECTID),
        ("bob", [7; 16], REPLAY, Status::ACCESS_DENIED),
        // From another session, although of the same user.
        ("alice", [7; 16], REPLAY, Status::DUPLICATE_OBJECTID),
        // Another client may choose the same GUID, and gets a separate open of the file.
        ("alice", [8; 16], REPLAY, Status::SUCCESS),
    ] {
        let server = TestServer::with_stopped_clock();
        let mut first = server.log_on_as("alice", [7; 16]);
        opened(&send(&mut first, "file", OplockLevel::NONE, vec![request_v2(0)]));
        let mut second = server.log_on_as(user, client_guid);
        let again = send_with(&mut second, flags, "file", OplockLevel::NONE, vec![request_v2(0)]);
        assert_eq!(again.header().status, expected, "{user} {client_guid:?} {flags:?}");
    }
}

#[test]
fn a_replay_after_the_open_was_used_is_a_new_create() {
    let server = TestServer::with_stopped_clock();
    let mut client = server.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "file", OplockLevel::NONE, vec![request_v2(0)]));
    let write = WriteRequest { file_id, length: 1, buffer: b"x", ..WriteRequest::default() };
    client.request(Command::WRITE, |out| write.encode(out)).check(Status::SUCCESS);
    let (second, _) = opened(&send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_v2(0)]));
    assert_ne!(second, file_id);
}

#[test]
fn a_waiting_create_is_not_executed_twice() {
    let server = TestServer::with_stopped_clock();
    let mut holder = server.log_on_as("alice", [1; 16]);
    let (held, _) = opened(&send(&mut holder, "file", BATCH, vec![]));
    let mut client = server.log_on_as("alice", [7; 16]);
    send(&mut client, "file", OplockLevel::NONE, vec![request_v2(0)]).check(Status::PENDING);
    let again = send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_v2(0)]);
    again.check(Status::FILE_NOT_AVAILABLE);
    let close = CloseRequest { flags: CloseFlags(0), file_id: held };
    while holder.receive().header().command != Command::OPLOCK_BREAK {}
    holder.request(Command::CLOSE, |out| close.encode(out)).check(Status::SUCCESS);
    let (first, _) = opened(&client.receive());
    let (again, _) = opened(&send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_v2(0)]));
    assert_eq!(first, again);
}

#[test]
fn a_replayed_lock_is_locked_once_even_over_another_connection() {
    let server = TestServer::with_stopped_clock();
    let mut client = server.log_on("alice", false);
    let (file_id, _) = opened(&send(&mut client, "file", BATCH, vec![request()]));
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::SUCCESS);
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::SUCCESS);
    run(client.connection.close());
    let mut client = server.log_on("alice", false);
    let (file_id, _) = opened(&send(&mut client, "", OplockLevel::NONE, vec![reconnect(file_id)]));
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::SUCCESS);
    assert_eq!(lock(&mut client, file_id, 0x12, EXCLUSIVE), Status::LOCK_NOT_GRANTED, "the lock is not a replay");
    assert_eq!(lock(&mut client, file_id, 0x11, LockFlags::UNLOCK), Status::SUCCESS);
    assert_eq!(lock(&mut client, file_id, 0x11, LockFlags::UNLOCK), Status::SUCCESS, "sent again");
    assert_eq!(lock(&mut client, file_id, 0, LockFlags::UNLOCK), Status::RANGE_NOT_LOCKED);
}

#[test]
fn lock_sequences_are_ignored_without_resilient_or_durable_handles() {
    let server = TestServer::with_stopped_clock();
    let mut client = server.log_on("alice", false);
    let (file_id, _) = client.open("file", OplockLevel::NONE);
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::SUCCESS);
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::LOCK_NOT_GRANTED);
}
