//! Durable opens ([MS-SMB2] 3.3.5.9.6, 3.3.5.9.7, 3.3.5.9.10, 3.3.5.9.12): which opens are durable, which clients can
//! reclaim them, and what ends them.

use proto::smb2::create::{CreateDisposition, CreateResponse};
use proto::smb2::create_context::{AppInstanceId, CreateContext, DurableHandleResponseV2, name};
use proto::smb2::header::{Command, Flags};
use proto::smb2::lock::{LockElement, LockFlags, LockRequest};
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::tree_disconnect::TreeDisconnectRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;

use crate::requests::{FIRST, has, lost, reconnect, reconnect_v2, request, request_v2, run, send};
use server::testing::{TestServer, opened};

#[test]
fn conditions_for_a_durable_open() {
    for (oplock, contexts, durable) in [
        (OplockLevel::BATCH, vec![request()], true),
        (OplockLevel::BATCH, vec![request_v2(0)], true),
        (OplockLevel::BATCH, vec![], false),
        (OplockLevel::EXCLUSIVE, vec![request()], false),
        (OplockLevel::II, vec![request_v2(0)], false),
        (OplockLevel::NONE, vec![request()], false),
    ] {
        let server = TestServer::with_stopped_clock();
        let mut client = server.log_on("alice", false);
        let message = send(&mut client, "file", oplock, contexts);
        message.check(Status::SUCCESS);
        let told = has(&message, name::DURABLE_HANDLE_REQUEST) || has(&message, name::DURABLE_HANDLE_REQUEST_V2);
        assert_eq!(told, durable, "{oplock:?}");
        run(client.connection.close());
        assert_eq!(server.open_count(), usize::from(durable), "{oplock:?}");
    }
}

#[test]
fn a_reconnecting_client_has_its_open_its_locks_and_its_oplock() {
    let server = TestServer::with_stopped_clock();
    let mut client = server.log_on("alice", false);
    let (file_id, _) = opened(&send(&mut client, "file", OplockLevel::BATCH, vec![request()]));
    let locks = LockElement { offset: 0, length: 10, flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY };
    let lock = |locks| LockRequest { lock_sequence: 0, file_id, locks: vec![locks] };
    client.request(Command::LOCK, |out| lock(locks).encode(out)).check(Status::SUCCESS);
    run(client.connection.close());

    let mut client = server.log_on("alice", false);
    let message = send(&mut client, "whatever", OplockLevel::NONE, vec![reconnect(file_id)]);
    assert!(!has(&message, name::DURABLE_HANDLE_REQUEST));
    let (again, oplock) = opened(&message);
    assert_eq!((again.persistent, oplock), (file_id.persistent, OplockLevel::BATCH));
    assert_ne!(again.volatile, file_id.volatile);
    let write = WriteRequest { file_id: again, length: 4, buffer: b"mine", ..WriteRequest::default() };
    client.request(Command::WRITE, |out| write.encode(out)).check(Status::SUCCESS);
    let unlock = LockElement { flags: LockFlags::UNLOCK, ..locks };
    let unlock = LockRequest { lock_sequence: 0, file_id: again, locks: vec![unlock] };
    client.request(Command::LOCK, |out| unlock.encode(out)).check(Status::SUCCESS);

    let mut other = server.log_on("alice", false);
    let create = other.create("file", CreateDisposition::OPEN, OplockLevel::NONE, Flags(0));
    assert!(other.send(&create));
    other.receive().check(Status::PENDING);
    assert_eq!(client.receive().header().command, Command::OPLOCK_BREAK, "breaks are sent over the new connection");
}

#[test]
fn clients_that_may_not_reconnect_to_an_open() {
    type Context = fn(FileId) -> CreateContext<'static>;
    let cases: [(&str, Context, Status); 5] = [
        ("alice", |id| reconnect(id), Status::SUCCESS),
        ("bob", |id| reconnect(id), Status::ACCESS_DENIED),
        ("alice", |id| reconnect(FileId { persistent: id.persistent ^ 1, ..id }), Status::OBJECT_NAME_NOT_FOUND),
        ("alice", |id| reconnect(FileId { volatile: 7, ..id }), Status::SUCCESS),
        ("alice", |id| reconnect_v2(id, FIRST), Status::OBJECT_NAME_NOT_FOUND),
    ];
    for (number, (user, context, expected)) in cases.into_iter().enumerate() {
        let server = TestServer::with_stopped_clock();
        let file_id = lost(&server);
        let mut client = server.log_on(user, false);
        let message = send(&mut client, "file", OplockLevel::NONE, vec![context(file_id)]);
        assert_eq!(message.header().status, expected, "case {number}");
        if expected == Status::SUCCESS {
            let twice = send(&mut client, "file", OplockLevel::NONE, vec![context(file_id)]);
            twice.check(Status::OBJECT_NAME_NOT_FOUND);
        } else {
            let mut owner = server.log_on("alice", false);
            opened(&send(&mut owner, "file", OplockLevel::NONE, vec![reconnect(file_id)]));
        }
    }
}

#[test]
fn the_second_version_compares_the_create_guid_and_bounds_the_time() {
    for (guid, asked, granted, later, expected) in [
        (FIRST, 0, 60_000, 59, Status::SUCCESS),
        (FIRST, 1_000, 1_000, 0, Status::SUCCESS),
        (FIRST, u32::MAX, 300_000, 299, Status::SUCCESS),
        (FIRST, u32::MAX, 300_000, 300, Status::OBJECT_NAME_NOT_FOUND),
        ([2; 16], 0, 60_000, 0, Status::OBJECT_NAME_NOT_FOUND),
    ] {
        let server = TestServer::with_stopped_clock();
        let mut client = server.log_on("alice", false);
        let message = send(&mut client, "file", OplockLevel::BATCH, vec![request_v2(asked)]);
        let response = CreateResponse::decode(message.bytes()).expect("a well-formed message");
        let context = CreateContext::find(&response.create_contexts, name::DURABLE_HANDLE_REQUEST_V2).expect("granted");
        let response_v2 = DurableHandleResponseV2::decode(&context.data).expect("a well-formed message");
        assert_eq!(response_v2.timeout, granted);
        run(client.connection.close());
        server.advance_seconds(later);
        run(server.scavenge());
        let mut client = server.log_on("alice", false);
        let again = send(&mut client, "", OplockLevel::NONE, vec![reconnect_v2(response.file_id, guid)]);
        assert_eq!(again.header().status, expected, "{asked} {later}");
    }
}

#[test]
fn contexts_that_exclude_each_other() {
    let server = TestServer::with_stopped_clock();
    let id = FileId { persistent: 1, volatile: 2 };
    for contexts in [
        vec![request(), request_v2(0)],
        vec![request(), reconnect_v2(id, FIRST)],
        vec![reconnect(id), request_v2(0)],
        vec![reconnect(id), reconnect_v2(id, FIRST)],
        vec![reconnect_v2(id, FIRST), request_v2(0)],
    ] {
        let mut client = server.log_on("alice", false);
        send(&mut client, "file", OplockLevel::BATCH, contexts).check(Status::INVALID_PARAMETER);
    }
    let mut client = server.log_on("alice", false);
    let ignored = vec![request(), reconnect(id)];
    send(&mut client, "file", OplockLevel::BATCH, ignored).check(Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn a_conflicting_open_ends_a_durable_open_without_a_wait() {
    let server = TestServer::with_stopped_clock();
    let file_id = lost(&server);
    let mut other = server.log_on("alice", false);
    other.open("file", OplockLevel::NONE);
    let mut client = server.log_on("alice", false);
    let message = send(&mut client, "file", OplockLevel::NONE, vec![reconnect(file_id)]);
    message.check(Status::OBJECT_NAME_NOT_FOUND);
    assert_eq!(server.open_count(), 1);
}

#[test]
fn the_scavenger_closes_opens_that_no_client_reconnects_to() {
    let server = TestServer::with_stopped_clock();
    lost(&server);
    server.advance_seconds(119);
    run(server.scavenge());
    assert_eq!(server.open_count(), 1);
    server.advance_seconds(1);
    run(server.scavenge());
    assert_eq!(server.open_count(), 0);
}

/// 3.3.5.6, 3.3.5.8: LOGOFF preserves durable opens, TREE_DISCONNECT does not.
#[test]
fn a_logoff_keeps_what_a_tree_disconnect_closes() {
    for logs_off in [true, false] {
        let server = TestServer::with_stopped_clock();
        let mut client = server.log_on("alice", false);
        opened(&send(&mut client, "file", OplockLevel::BATCH, vec![request()]));
        match logs_off {
            true => client.request(Command::LOGOFF, |out| LogoffRequest.encode(out)).check(Status::SUCCESS),
            false => {
                let message = client.request(Command::TREE_DISCONNECT, |out| TreeDisconnectRequest.encode(out));
                message.check(Status::SUCCESS);
            }
        }
        assert_eq!(server.open_count(), usize::from(logs_off));
    }
}

#[test]
fn an_application_that_restarts_elsewhere_ends_its_opens() {
    const ONE: [u8; 16] = [1; 16];
    for (instance, client_guid, name, ended) in [
        (ONE, [2; 16], "FILE", true),
        (ONE, [2; 16], "other", false),
        ([9; 16], [2; 16], "file", false),
        // The same client, so there was no failover.
        (ONE, [1; 16], "file", false),
    ] {
        let server = TestServer::with_stopped_clock();
        let context = |app_instance_id| AppInstanceId { app_instance_id }.to_context();
        let mut first = server.log_on_as("alice", [1; 16]);
        let (file_id, _) = opened(&send(&mut first, "file", OplockLevel::NONE, vec![context(ONE)]));
        let mut second = server.log_on_as("alice", client_guid);
        opened(&send(&mut second, name, OplockLevel::NONE, vec![context(instance)]));
        let write = WriteRequest { file_id, length: 1, buffer: b"x", ..WriteRequest::default() };
        let status = first.request(Command::WRITE, |out| write.encode(out)).header().status;
        assert_eq!(status == Status::FILE_CLOSED, ended, "{name} {client_guid:?}: {status:?}");
    }
}
