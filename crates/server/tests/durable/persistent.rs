//! Persistent opens, which survive a restart of the server ([MS-SMB2] 3.3.5.9.10, 3.3.5.9.12).

use proto::bytes::{Writer, utf16_bytes};
use proto::fscc::{FileInformationClass as InfoClass, FileRenameInformation};
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::create_context::{
    CreateContext, DurableHandleFlags, DurableHandleReconnectV2, DurableHandleRequestV2, DurableHandleResponseV2,
    LeaseFlags, LeaseV2, name,
};
use proto::smb2::header::{Command, Flags};
use proto::smb2::lock::LockFlags;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{FileId, InfoType, LeaseState, OplockLevel};
use proto::status::Status;
use server::answer::block_on;
use server::testing::{ManualClock, Message, PipelinedClient, TestServer, opened, root, volume};
use server::vfs::{Access, Create, NewFile};

use crate::requests::{
    BATCH, EXCLUSIVE, FIRST, REPLAY, lock, reconnect, reconnect_v2, request_v2, run, send, send_with,
};

/// A server whose share is continuously available or not.
pub(crate) fn server_with_persistent_opens(continuously_available: bool) -> TestServer {
    let server = TestServer::builder().clock(ManualClock::new());
    let server = server.share(|share| {
        share.handles.continuously_available = continuously_available;
        // A process's locks end with the process, but the in-memory file system has no processes.
        share.locks.posix_locking = false;
    });
    server.start()
}

/// Replaces `name` with another file, as a local program would.
fn replace_locally(server: &TestServer, name: &str) {
    let metadata = block_on(volume::node(&server.volume, name).metadata(&root())).expect("the file has metadata");
    let removed = server.volume.unlink(&root(), &volume::path(name), metadata.id, metadata.kind);
    block_on(removed).expect("root has permission");
    server.create_locally(name, NewFile::new(Create::File(Access::default()), 0o666));
}

pub(crate) const PERSISTENT: DurableHandleFlags = DurableHandleFlags::PERSISTENT;

fn request_persistent() -> CreateContext<'static> {
    DurableHandleRequestV2 { timeout: 0, flags: PERSISTENT, create_guid: FIRST }.to_context()
}

fn reconnect_persistent(file_id: FileId) -> CreateContext<'static> {
    DurableHandleReconnectV2 { file_id, create_guid: FIRST, flags: PERSISTENT }.to_context()
}

pub(crate) fn lease(key: u8, state: u32, epoch: u16) -> CreateContext<'static> {
    let lease_state = LeaseState(state);
    LeaseV2 { lease_key: [key; 16], lease_state, flags: LeaseFlags::NONE, parent_lease_key: [0; 16], epoch }
        .to_context()
}

/// Returns the flags of the DH2Q response, and the lease.
pub(crate) fn granted(message: &Message) -> (Option<DurableHandleFlags>, Option<(LeaseState, u16)>) {
    message.check(Status::SUCCESS);
    let response = CreateResponse::decode(message.bytes()).expect("a well-formed message");
    let find = |name: &[u8]| CreateContext::find(&response.create_contexts, name);
    let durable = find(name::DURABLE_HANDLE_REQUEST_V2);
    let durable =
        durable.map(|context| DurableHandleResponseV2::decode(&context.data).expect("a well-formed message").flags);
    let lease = find(name::REQUEST_LEASE).map(|context| LeaseV2::decode(&context.data).expect("a well-formed message"));
    (durable, lease.map(|lease| (lease.lease_state, lease.epoch)))
}

#[test]
fn conditions_for_a_persistent_open() {
    for (available, context, full, expected) in [
        (true, request_persistent(), false, Some(PERSISTENT)),
        // Without an oplock there is no other kind of durability to fall back to.
        (true, request_persistent(), true, None),
        (false, request_persistent(), false, None),
        (true, request_v2(0), false, None),
    ] {
        let server = server_with_persistent_opens(available);
        server.store.full.store(full, std::sync::atomic::Ordering::Relaxed);
        let mut client = server.log_on_as("alice", [7; 16]);
        let message = send(&mut client, "file", OplockLevel::NONE, vec![context]);
        assert_eq!(granted(&message).0, expected);
        assert_eq!(server.store.records.lock().len(), usize::from(expected.is_some()));
        let (file_id, _) = opened(&message);
        let close = CloseRequest { flags: CloseFlags(0), file_id };
        client.request(Command::CLOSE, |out| close.encode(out)).check(Status::SUCCESS);
        assert!(server.store.records.lock().is_empty(), "a closed open has no record");
    }
}

#[test]
fn a_persistent_open_its_locks_and_its_lease_outlive_the_server() {
    let mut server = server_with_persistent_opens(true);
    let mut client = server.log_on_as("alice", [7; 16]);
    let contexts = vec![request_persistent(), lease(1, 7, 0)];
    let message = send(&mut client, "file", OplockLevel::LEASE, contexts);
    assert_eq!(granted(&message), (Some(PERSISTENT), Some((LeaseState(7), 1))));
    let (file_id, _) = opened(&message);
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::SUCCESS);

    server.crash();
    assert_eq!(server.open_count(), 1);
    let mut other = server.log_on_as("alice", [8; 16]);
    send(&mut other, "file", OplockLevel::NONE, vec![]).check(Status::FILE_NOT_AVAILABLE);

    let mut client = server.log_on_as("alice", [7; 16]);
    // The client has seen a later epoch of its lease than was stored.
    let contexts = vec![reconnect_persistent(file_id), lease(1, 7, 5)];
    let message = send(&mut client, "file", OplockLevel::LEASE, contexts);
    assert_eq!(granted(&message).1, Some((LeaseState(7), 5)));
    let (again, _) = opened(&message);
    assert_eq!(again.persistent, file_id.persistent);
    assert_eq!(lock(&mut client, again, 0x11, EXCLUSIVE), Status::SUCCESS, "sent again");
    assert_eq!(lock(&mut client, again, 0x12, EXCLUSIVE), Status::LOCK_NOT_GRANTED, "still locked");
    assert_eq!(lock(&mut client, again, 0, LockFlags::UNLOCK), Status::SUCCESS);

    server.crash();
    let mut client = server.log_on_as("alice", [7; 16]);
    let contexts = vec![reconnect_persistent(again), lease(1, 7, 5)];
    let (again, _) = opened(&send(&mut client, "file", OplockLevel::LEASE, contexts));
    assert_eq!(lock(&mut client, again, 0, EXCLUSIVE), Status::SUCCESS, "the range was unlocked");
}

#[test]
fn a_lock_that_cannot_be_recorded_is_refused() {
    let server = server_with_persistent_opens(true);
    let mut client = server.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "file", OplockLevel::NONE, vec![request_persistent()]));
    let full = |full| server.store.full.store(full, std::sync::atomic::Ordering::Relaxed);
    full(true);
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::INSUFFICIENT_RESOURCES);
    full(false);
    let mut other = server.log_on_as("alice", [8; 16]);
    let (others, _) = opened(&send(&mut other, "file", OplockLevel::NONE, vec![]));
    assert_eq!(lock(&mut other, others, 0, EXCLUSIVE), Status::SUCCESS);
    assert_eq!(
        lock(&mut client, file_id, 0x11, EXCLUSIVE),
        Status::LOCK_NOT_GRANTED,
        "the failed lock is not treated as completed"
    );
}

#[test]
fn reconnecting_to_a_persistent_open() {
    let unknown = |file_id: FileId| FileId { persistent: file_id.persistent ^ 1, ..file_id };
    type Context = fn(FileId) -> CreateContext<'static>;
    let cases: [(&str, Context, Status); 4] = [
        ("alice", |id| reconnect_persistent(id), Status::SUCCESS),
        ("bob", |id| reconnect_persistent(id), Status::ACCESS_DENIED),
        ("alice", |id| reconnect_v2(id, FIRST), Status::OBJECT_NAME_NOT_FOUND),
        ("alice", |id| reconnect(id), Status::OBJECT_NAME_NOT_FOUND),
    ];
    for (number, (user, context, expected)) in cases.into_iter().enumerate() {
        let mut server = server_with_persistent_opens(true);
        let mut client = server.log_on_as("alice", [7; 16]);
        let (file_id, _) = opened(&send(&mut client, "file", OplockLevel::NONE, vec![request_persistent()]));
        server.crash();
        let mut client = server.log_on_as(user, [7; 16]);
        let message = send(&mut client, "", OplockLevel::NONE, vec![context(file_id)]);
        assert_eq!(message.header().status, expected, "case {number}");
        if expected != Status::SUCCESS {
            // It is also found by its CreateGuid.
            let mut owner = server.log_on_as("alice", [7; 16]);
            opened(&send(&mut owner, "", OplockLevel::NONE, vec![reconnect_persistent(unknown(file_id))]));
        }
    }
    let server = server_with_persistent_opens(true);
    let mut client = server.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "file", BATCH, vec![request_v2(0)]));
    run(client.connection.close());
    let mut client = server.log_on_as("alice", [7; 16]);
    let message = send(&mut client, "file", OplockLevel::NONE, vec![reconnect_persistent(file_id)]);
    message.check(Status::INVALID_PARAMETER);
}

#[test]
fn a_create_is_answered_after_a_restart_that_lost_its_response() {
    let mut server = server_with_persistent_opens(true);
    let mut client = server.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "file", OplockLevel::NONE, vec![request_persistent()]));
    let again = send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_persistent()]);
    assert_eq!(opened(&again).0, file_id);
    server.crash();
    let mut bob = server.log_on_as("bob", [7; 16]);
    let message = send_with(&mut bob, REPLAY, "file", OplockLevel::NONE, vec![request_persistent()]);
    message.check(Status::ACCESS_DENIED);
    let mut client = server.log_on_as("alice", [7; 16]);
    let message = send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_persistent()]);
    assert_eq!(granted(&message).0, Some(PERSISTENT));
    assert_eq!(opened(&message).0.persistent, file_id.persistent);
    // It has its client now, which has used it.
    let (file_id, _) = opened(&message);
    assert_eq!(lock(&mut client, file_id, 0, EXCLUSIVE), Status::SUCCESS);
    let message = send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_persistent()]);
    message.check(Status::FILE_NOT_AVAILABLE);
}

#[test]
fn another_file_of_the_same_name_is_not_restored() {
    let mut server = server_with_persistent_opens(true);
    let mut client = server.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "file", OplockLevel::NONE, vec![request_persistent()]));
    replace_locally(&server, "file");
    server.crash();
    assert_eq!(server.open_count(), 0);
    assert!(server.store.records.lock().is_empty());
    let mut client = server.log_on_as("alice", [7; 16]);
    let message = send(&mut client, "", OplockLevel::NONE, vec![reconnect_persistent(file_id)]);
    message.check(Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn persistent_opens_expire_too() {
    let mut server = server_with_persistent_opens(true);
    let mut client = server.log_on_as("alice", [7; 16]);
    opened(&send(&mut client, "file", OplockLevel::NONE, vec![request_persistent()]));
    server.crash();
    server.advance_seconds(60);
    run(server.scavenge());
    assert_eq!(server.open_count(), 0);
    assert!(server.store.records.lock().is_empty());
    server.log_on_as("alice", [8; 16]).open("file", OplockLevel::NONE);
}

#[test]
fn a_deletion_by_another_client_is_restored() {
    let mut server = server_with_persistent_opens(true);
    let mut client = server.log_on_as("alice", [7; 16]);
    let (kept, _) = opened(&send(&mut client, "file", OplockLevel::NONE, vec![request_persistent()]));
    let mut other = server.log_on_as("alice", [8; 16]);
    let name = utf16_bytes("file");
    let create = CreateRequest {
        desired_access: 0x0001_0000,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN,
        create_options: CreateOptions::DELETE_ON_CLOSE,
        name: &name,
        ..CreateRequest::default()
    };
    let (deletes, _) = opened(&other.request(Command::CREATE, |out| create.encode(out)));
    let close = |client: &mut PipelinedClient, file_id| {
        let close = CloseRequest { flags: CloseFlags(0), file_id };
        client.request(Command::CLOSE, |out| close.encode(out)).check(Status::SUCCESS);
    };
    close(&mut other, deletes);
    server.crash();
    let mut client = server.log_on_as("alice", [7; 16]);
    let (kept, _) = opened(&send(&mut client, "", OplockLevel::NONE, vec![reconnect_persistent(kept)]));
    close(&mut client, kept);
    client.request(Command::CREATE, |out| create.encode(out)).check(Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn the_state_of_a_persistent_open_is_restored() {
    let mut server = server_with_persistent_opens(true);
    let mut client = server.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "old", OplockLevel::NONE, vec![request_persistent()]));
    let set = |client: &mut PipelinedClient, file_id, class: InfoClass, buffer: &[u8]| {
        let info = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class.0,
            buffer,
            additional_information: 0,
            file_id,
        };
        client.request(Command::SET_INFO, |out| info.encode(out)).check(Status::SUCCESS);
    };
    let mut rename = Vec::new();
    let name = utf16_bytes("new");
    let to = FileRenameInformation { file_name: &name, ..FileRenameInformation::default() };
    to.encode(&mut Writer::new(&mut rename));
    set(&mut client, file_id, InfoClass::RENAME, &rename);
    set(&mut client, file_id, InfoClass::DISPOSITION, &[1]);
    server.crash();
    let mut client = server.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "", OplockLevel::NONE, vec![reconnect_persistent(file_id)]));
    let close = CloseRequest { flags: CloseFlags(0), file_id };
    client.request(Command::CLOSE, |out| close.encode(out)).check(Status::SUCCESS);
    for name in ["old", "new"] {
        let open = client.create(name, CreateDisposition::OPEN, OplockLevel::NONE, Flags(0));
        assert!(client.send(&open));
        client.receive().check(Status::OBJECT_NAME_NOT_FOUND);
    }
}
