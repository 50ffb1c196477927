//! Durable handles seen from the client's side: what outlives a connection, who gets it back, and what ends it
//! ([MS-SMB2] 3.3.5.9.6, 3.3.5.9.7, 3.3.5.9.10, 3.3.5.9.12, 3.3.7.1).

#[allow(dead_code, reason = "not every test file needs all of it")]
mod bed;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use bed::{Bed, Client, Message, opened};
use proto::bytes::{Writer, utf16_bytes};
use proto::fscc::{FileInformationClass as InfoClass, FileRenameInformation};
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::create_context::{
    AppInstanceId, CreateContext, DurableHandleFlags, DurableHandleReconnect, DurableHandleReconnectV2,
    DurableHandleRequest, DurableHandleRequestV2, DurableHandleResponseV2, LeaseFlags, LeaseV2, name,
};
use proto::smb2::header::{Command, Flags};
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest, NetworkResiliencyRequest};
use proto::smb2::lock::{LockElement, LockFlags, LockRequest};
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::tree_disconnect::TreeDisconnectRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, InfoType, LeaseState, OplockLevel};
use proto::status::Status;

const FIRST: [u8; 16] = [1; 16];

/// Runs what the server does on its own, as far as it goes without a wait.
fn run(future: impl Future<Output = ()>) {
    let mut future = pin!(future);
    for _ in 0..100 {
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
    }
}

fn send(client: &mut Client, name: &str, oplock: OplockLevel, contexts: Vec<CreateContext<'static>>) -> Message {
    send_with(client, Flags(0), name, oplock, contexts)
}

fn send_with(
    client: &mut Client,
    flags: Flags,
    name: &str,
    oplock: OplockLevel,
    contexts: Vec<CreateContext<'static>>,
) -> Message {
    let name = utf16_bytes(name);
    let create = CreateRequest {
        requested_oplock_level: oplock,
        desired_access: 0x001f_01ff,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        create_options: CreateOptions(0),
        name: &name,
        create_contexts: contexts,
        ..CreateRequest::default()
    };
    let message = client.compose(Command::CREATE, flags, |out| create.encode(out));
    assert!(client.send(&message));
    client.next()
}

fn request() -> CreateContext<'static> {
    DurableHandleRequest.to_context()
}

fn request_v2(timeout: u32) -> CreateContext<'static> {
    DurableHandleRequestV2 { timeout, flags: DurableHandleFlags(0), create_guid: FIRST }.to_context()
}

fn reconnect(file_id: FileId) -> CreateContext<'static> {
    DurableHandleReconnect { file_id }.to_context()
}

fn reconnect_v2(file_id: FileId, create_guid: [u8; 16]) -> CreateContext<'static> {
    DurableHandleReconnectV2 { file_id, create_guid, flags: DurableHandleFlags(0) }.to_context()
}

fn has(message: &Message, context: &[u8]) -> bool {
    let response = CreateResponse::decode(message.bytes()).expect("it decodes");
    CreateContext::find(&response.create_contexts, context).is_some()
}

/// A durable open of alice's, its client gone.
fn lost(bed: &Bed) -> FileId {
    let mut client = bed.log_on("alice", false);
    let opened = send(&mut client, "file", OplockLevel::BATCH, vec![request()]);
    assert!(has(&opened, name::DURABLE_HANDLE_REQUEST));
    let (file_id, _) = bed::opened(&opened);
    run(client.connection.close());
    assert_eq!(bed.server.open_count(), 1, "kept");
    file_id
}

#[test]
fn what_makes_an_open_durable() {
    for (oplock, contexts, durable) in [
        (OplockLevel::BATCH, vec![request()], true),
        (OplockLevel::BATCH, vec![request_v2(0)], true),
        (OplockLevel::BATCH, vec![], false),
        (OplockLevel::EXCLUSIVE, vec![request()], false),
        (OplockLevel::II, vec![request_v2(0)], false),
        (OplockLevel::NONE, vec![request()], false),
    ] {
        let bed = Bed::new();
        let mut client = bed.log_on("alice", false);
        let message = send(&mut client, "file", oplock, contexts);
        message.check(Status::SUCCESS);
        let told = has(&message, name::DURABLE_HANDLE_REQUEST) || has(&message, name::DURABLE_HANDLE_REQUEST_V2);
        assert_eq!(told, durable, "{oplock:?}");
        run(client.connection.close());
        assert_eq!(bed.server.open_count(), usize::from(durable), "{oplock:?}");
    }
}

#[test]
fn a_client_that_comes_back_has_its_open_its_locks_and_its_oplock() {
    let bed = Bed::new();
    let mut client = bed.log_on("alice", false);
    let (file_id, _) = opened(&send(&mut client, "file", OplockLevel::BATCH, vec![request()]));
    let locks = LockElement { offset: 0, length: 10, flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY };
    let lock = |locks| LockRequest { lock_sequence: 0, file_id, locks: vec![locks] };
    client.request(Command::LOCK, |out| lock(locks).encode(out)).check(Status::SUCCESS);
    run(client.connection.close());

    let mut client = bed.log_on("alice", false);
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

    let mut other = bed.log_on("alice", false);
    let create = other.create("file", CreateDisposition::OPEN, OplockLevel::NONE, Flags(0));
    assert!(other.send(&create));
    other.next().check(Status::PENDING);
    assert_eq!(client.next().header().command, Command::OPLOCK_BREAK, "breaks find the new connection");
}

#[test]
fn who_does_not_get_an_open_back() {
    type Context = fn(FileId) -> CreateContext<'static>;
    let cases: [(&str, Context, Status); 5] = [
        ("alice", |id| reconnect(id), Status::SUCCESS),
        ("bob", |id| reconnect(id), Status::ACCESS_DENIED),
        ("alice", |id| reconnect(FileId { persistent: id.persistent ^ 1, ..id }), Status::OBJECT_NAME_NOT_FOUND),
        ("alice", |id| reconnect(FileId { volatile: 7, ..id }), Status::SUCCESS),
        ("alice", |id| reconnect_v2(id, FIRST), Status::OBJECT_NAME_NOT_FOUND),
    ];
    for (number, (user, context, expected)) in cases.into_iter().enumerate() {
        let bed = Bed::new();
        let file_id = lost(&bed);
        let mut client = bed.log_on(user, false);
        let message = send(&mut client, "file", OplockLevel::NONE, vec![context(file_id)]);
        assert_eq!(message.header().status, expected, "case {number}");
        if expected == Status::SUCCESS {
            let twice = send(&mut client, "file", OplockLevel::NONE, vec![context(file_id)]);
            twice.check(Status::OBJECT_NAME_NOT_FOUND);
        } else {
            let mut owner = bed.log_on("alice", false);
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
        let bed = Bed::new();
        let mut client = bed.log_on("alice", false);
        let message = send(&mut client, "file", OplockLevel::BATCH, vec![request_v2(asked)]);
        let response = CreateResponse::decode(message.bytes()).expect("it decodes");
        let context = CreateContext::find(&response.create_contexts, name::DURABLE_HANDLE_REQUEST_V2).expect("granted");
        let response_v2 = DurableHandleResponseV2::decode(&context.data).expect("it decodes");
        assert_eq!(response_v2.timeout, granted);
        run(client.connection.close());
        bed.pass(later);
        run(bed.server.scavenge());
        let mut client = bed.log_on("alice", false);
        let again = send(&mut client, "", OplockLevel::NONE, vec![reconnect_v2(response.file_id, guid)]);
        assert_eq!(again.header().status, expected, "{asked} {later}");
    }
}

#[test]
fn contexts_that_do_not_go_together() {
    let bed = Bed::new();
    let id = FileId { persistent: 1, volatile: 2 };
    for contexts in [
        vec![request(), request_v2(0)],
        vec![request(), reconnect_v2(id, FIRST)],
        vec![reconnect(id), request_v2(0)],
        vec![reconnect(id), reconnect_v2(id, FIRST)],
        vec![reconnect_v2(id, FIRST), request_v2(0)],
    ] {
        let mut client = bed.log_on("alice", false);
        send(&mut client, "file", OplockLevel::BATCH, contexts).check(Status::INVALID_PARAMETER);
    }
    let mut client = bed.log_on("alice", false);
    let ignored = vec![request(), reconnect(id)];
    send(&mut client, "file", OplockLevel::BATCH, ignored).check(Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn somebody_who_opens_the_file_ends_a_durable_open_without_a_wait() {
    let bed = Bed::new();
    let file_id = lost(&bed);
    let mut other = bed.log_on("alice", false);
    other.open("file", OplockLevel::NONE);
    let mut client = bed.log_on("alice", false);
    let message = send(&mut client, "file", OplockLevel::NONE, vec![reconnect(file_id)]);
    message.check(Status::OBJECT_NAME_NOT_FOUND);
    assert_eq!(bed.server.open_count(), 1);
}

#[test]
fn the_scavenger_closes_what_nobody_comes_back_for() {
    let bed = Bed::new();
    lost(&bed);
    bed.pass(119);
    run(bed.server.scavenge());
    assert_eq!(bed.server.open_count(), 1);
    bed.pass(1);
    run(bed.server.scavenge());
    assert_eq!(bed.server.open_count(), 0);
}

/// 3.3.5.6, 3.3.5.8: LOGOFF keeps durable opens, TREE_DISCONNECT does not.
#[test]
fn a_logoff_keeps_what_a_tree_disconnect_closes() {
    for logs_off in [true, false] {
        let bed = Bed::new();
        let mut client = bed.log_on("alice", false);
        opened(&send(&mut client, "file", OplockLevel::BATCH, vec![request()]));
        match logs_off {
            true => client.request(Command::LOGOFF, |out| LogoffRequest.encode(out)).check(Status::SUCCESS),
            false => {
                let message = client.request(Command::TREE_DISCONNECT, |out| TreeDisconnectRequest.encode(out));
                message.check(Status::SUCCESS);
            }
        }
        assert_eq!(bed.server.open_count(), usize::from(logs_off));
    }
}

const REPLAY: Flags = Flags::REPLAY_OPERATION;
const BATCH: OplockLevel = OplockLevel::BATCH;

#[test]
fn a_create_that_is_sent_again_leads_to_the_same_open() {
    let bed = Bed::new();
    let mut client = bed.log_on_as("alice", [7; 16]);
    let first = send(&mut client, "file", BATCH, vec![request_v2(0)]);
    let again = send_with(&mut client, REPLAY, "file", BATCH, vec![request_v2(0)]);
    again.check(Status::SUCCESS);
    let decode = |message: &Message| {
        let response = CreateResponse::decode(message.bytes()).expect("it decodes");
        (response.file_id, response.create_action, response.oplock_level)
    };
    assert_eq!(decode(&first), decode(&again));
    assert!(has(&again, name::DURABLE_HANDLE_REQUEST_V2));
    let lower = send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_v2(0)]);
    assert_eq!(decode(&lower), (decode(&first).0, decode(&first).1, OplockLevel::NONE));
    assert!(!has(&lower, name::DURABLE_HANDLE_REQUEST_V2));
    assert_eq!(bed.server.open_count(), 1);
}

#[test]
fn who_cannot_send_a_create_again() {
    for (user, client_guid, flags, expected) in [
        ("alice", [7; 16], Flags(0), Status::DUPLICATE_OBJECTID),
        ("bob", [7; 16], REPLAY, Status::ACCESS_DENIED),
        // Of another session, though it is the same user's.
        ("alice", [7; 16], REPLAY, Status::DUPLICATE_OBJECTID),
        // Another client may choose the same number, and opens the file beside the first.
        ("alice", [8; 16], REPLAY, Status::SUCCESS),
    ] {
        let bed = Bed::new();
        let mut first = bed.log_on_as("alice", [7; 16]);
        opened(&send(&mut first, "file", OplockLevel::NONE, vec![request_v2(0)]));
        let mut second = bed.log_on_as(user, client_guid);
        let again = send_with(&mut second, flags, "file", OplockLevel::NONE, vec![request_v2(0)]);
        assert_eq!(again.header().status, expected, "{user} {client_guid:?} {flags:?}");
    }
}

#[test]
fn an_open_that_was_used_is_not_told_from_a_new_one() {
    let bed = Bed::new();
    let mut client = bed.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "file", OplockLevel::NONE, vec![request_v2(0)]));
    let write = WriteRequest { file_id, length: 1, buffer: b"x", ..WriteRequest::default() };
    client.request(Command::WRITE, |out| write.encode(out)).check(Status::SUCCESS);
    let (second, _) = opened(&send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_v2(0)]));
    assert_ne!(second, file_id);
}

#[test]
fn a_create_that_still_waits_is_not_executed_twice() {
    let bed = Bed::new();
    let mut holder = bed.log_on_as("alice", [1; 16]);
    let (held, _) = opened(&send(&mut holder, "file", BATCH, vec![]));
    let mut client = bed.log_on_as("alice", [7; 16]);
    send(&mut client, "file", OplockLevel::NONE, vec![request_v2(0)]).check(Status::PENDING);
    let again = send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_v2(0)]);
    again.check(Status::FILE_NOT_AVAILABLE);
    let close = CloseRequest { flags: CloseFlags(0), file_id: held };
    while holder.next().header().command != Command::OPLOCK_BREAK {}
    holder.request(Command::CLOSE, |out| close.encode(out)).check(Status::SUCCESS);
    let (first, _) = opened(&client.next());
    let (again, _) = opened(&send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_v2(0)]));
    assert_eq!(first, again);
}

fn lock(client: &mut Client, file_id: FileId, lock_sequence: u32, flags: LockFlags) -> Status {
    let locks = vec![LockElement { offset: 0, length: 10, flags }];
    let request = LockRequest { lock_sequence, file_id, locks };
    client.request(Command::LOCK, |out| request.encode(out)).header().status
}

const EXCLUSIVE: LockFlags = LockFlags(LockFlags::EXCLUSIVE_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);

#[test]
fn a_lock_that_is_sent_again_is_locked_once_even_over_another_connection() {
    let bed = Bed::new();
    let mut client = bed.log_on("alice", false);
    let (file_id, _) = opened(&send(&mut client, "file", BATCH, vec![request()]));
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::SUCCESS);
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::SUCCESS);
    run(client.connection.close());
    let mut client = bed.log_on("alice", false);
    let (file_id, _) = opened(&send(&mut client, "", OplockLevel::NONE, vec![reconnect(file_id)]));
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::SUCCESS);
    assert_eq!(lock(&mut client, file_id, 0x12, EXCLUSIVE), Status::LOCK_NOT_GRANTED, "another request");
    assert_eq!(lock(&mut client, file_id, 0x11, LockFlags::UNLOCK), Status::SUCCESS);
    assert_eq!(lock(&mut client, file_id, 0x11, LockFlags::UNLOCK), Status::SUCCESS, "sent again");
    assert_eq!(lock(&mut client, file_id, 0, LockFlags::UNLOCK), Status::RANGE_NOT_LOCKED);
}

#[test]
fn locks_have_no_sequence_where_nothing_outlives_the_connection() {
    let bed = Bed::new();
    let mut client = bed.log_on("alice", false);
    let (file_id, _) = client.open("file", OplockLevel::NONE);
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::SUCCESS);
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::LOCK_NOT_GRANTED);
}

fn make_resilient(client: &mut Client, file_id: FileId, timeout: u32) -> Status {
    let mut input = Vec::new();
    NetworkResiliencyRequest { timeout }.encode(&mut Writer::new(&mut input));
    let request = IoctlRequest {
        ctl_code: FsctlCode::LMR_REQUEST_RESILIENCY,
        file_id,
        flags: IoctlFlags::IS_FSCTL,
        input: &input,
        ..IoctlRequest::default()
    };
    client.request(Command::IOCTL, |out| request.encode(out)).header().status
}

#[test]
fn a_resilient_open_is_kept_without_an_oplock_for_as_long_as_was_asked_for() {
    for (asked, granted, kept) in [
        (0, Status::SUCCESS, 119),
        (5_000, Status::SUCCESS, 4),
        (300_000, Status::SUCCESS, 299),
        (300_001, Status::INVALID_PARAMETER, 0),
    ] {
        let bed = Bed::new();
        let mut client = bed.log_on("alice", false);
        let (file_id, _) = client.open("file", OplockLevel::NONE);
        assert_eq!(make_resilient(&mut client, file_id, asked), granted, "{asked}");
        run(client.connection.close());
        if granted != Status::SUCCESS {
            assert_eq!(bed.server.open_count(), 0);
            continue;
        }
        bed.log_on("alice", false).open("file", OplockLevel::NONE);
        bed.pass(kept);
        run(bed.server.scavenge());
        assert_eq!(bed.server.open_count(), 2, "{asked}");
        let mut back = bed.log_on("alice", false);
        opened(&send(&mut back, "", OplockLevel::NONE, vec![reconnect(file_id)]));
        run(back.connection.close());
        bed.pass(kept + 1);
        run(bed.server.scavenge());
        assert_eq!(bed.server.open_count(), 1, "{asked}");
    }
}

#[test]
fn a_break_that_a_resilient_open_missed_is_told_when_its_client_is_back() {
    let bed = Bed::new();
    let mut client = bed.log_on("alice", false);
    let (file_id, _) = client.open("file", BATCH);
    assert_eq!(make_resilient(&mut client, file_id, 60_000), Status::SUCCESS);
    run(client.connection.close());
    let mut other = bed.log_on("alice", false);
    send(&mut other, "file", OplockLevel::NONE, vec![]).check(Status::PENDING);
    let mut back = bed.log_on("alice", false);
    let (again, oplock) = opened(&send(&mut back, "", OplockLevel::NONE, vec![reconnect(file_id)]));
    assert_eq!(oplock, BATCH);
    assert_eq!(back.next().header().command, Command::OPLOCK_BREAK);
    let close = CloseRequest { flags: CloseFlags(0), file_id: again };
    back.request(Command::CLOSE, |out| close.encode(out)).check(Status::SUCCESS);
    opened(&other.next());
}

#[test]
fn an_application_that_comes_up_elsewhere_ends_its_opens() {
    const ONE: [u8; 16] = [1; 16];
    for (instance, client_guid, name, ended) in [
        (ONE, [2; 16], "FILE", true),
        (ONE, [2; 16], "other", false),
        ([9; 16], [2; 16], "file", false),
        // The same client: nothing has failed over.
        (ONE, [1; 16], "file", false),
    ] {
        let bed = Bed::new();
        let context = |app_instance_id| AppInstanceId { app_instance_id }.to_context();
        let mut first = bed.log_on_as("alice", [1; 16]);
        let (file_id, _) = opened(&send(&mut first, "file", OplockLevel::NONE, vec![context(ONE)]));
        let mut second = bed.log_on_as("alice", client_guid);
        opened(&send(&mut second, name, OplockLevel::NONE, vec![context(instance)]));
        let write = WriteRequest { file_id, length: 1, buffer: b"x", ..WriteRequest::default() };
        let status = first.request(Command::WRITE, |out| write.encode(out)).header().status;
        assert_eq!(status == Status::FILE_CLOSED, ended, "{name} {client_guid:?}: {status:?}");
    }
}

/// A server whose share is continuously available, or is not.
fn available_bed(continuously_available: bool) -> Bed {
    Bed::with(|share| {
        share.continuously_available = continuously_available;
        // A process's locks end with it, but memory knows no processes.
        share.posix_locking = false;
    })
}

const PERSISTENT: DurableHandleFlags = DurableHandleFlags::PERSISTENT;

fn request_persistent() -> CreateContext<'static> {
    DurableHandleRequestV2 { timeout: 0, flags: PERSISTENT, create_guid: FIRST }.to_context()
}

fn reconnect_persistent(file_id: FileId) -> CreateContext<'static> {
    DurableHandleReconnectV2 { file_id, create_guid: FIRST, flags: PERSISTENT }.to_context()
}

fn lease(key: u8, state: u32, epoch: u16) -> CreateContext<'static> {
    let lease_state = LeaseState(state);
    LeaseV2 { lease_key: [key; 16], lease_state, flags: LeaseFlags::NONE, parent_lease_key: [0; 16], epoch }
        .to_context()
}

/// The flags of the response to DH2Q, and the lease.
fn granted(message: &Message) -> (Option<DurableHandleFlags>, Option<(LeaseState, u16)>) {
    message.check(Status::SUCCESS);
    let response = CreateResponse::decode(message.bytes()).expect("it decodes");
    let find = |name: &[u8]| CreateContext::find(&response.create_contexts, name);
    let durable = find(name::DURABLE_HANDLE_REQUEST_V2);
    let durable = durable.map(|context| DurableHandleResponseV2::decode(&context.data).expect("it decodes").flags);
    let lease = find(name::REQUEST_LEASE).map(|context| LeaseV2::decode(&context.data).expect("it decodes"));
    (durable, lease.map(|lease| (lease.lease_state, lease.epoch)))
}

#[test]
fn what_makes_an_open_persistent() {
    for (available, context, full, expected) in [
        (true, request_persistent(), false, Some(PERSISTENT)),
        // Without an oplock there is nothing else to fall back on.
        (true, request_persistent(), true, None),
        (false, request_persistent(), false, None),
        (true, request_v2(0), false, None),
    ] {
        let bed = available_bed(available);
        bed.store.full.store(full, std::sync::atomic::Ordering::Relaxed);
        let mut client = bed.log_on_as("alice", [7; 16]);
        let message = send(&mut client, "file", OplockLevel::NONE, vec![context]);
        assert_eq!(granted(&message).0, expected);
        assert_eq!(bed.store.records.lock().len(), usize::from(expected.is_some()));
        let (file_id, _) = opened(&message);
        let close = CloseRequest { flags: CloseFlags(0), file_id };
        client.request(Command::CLOSE, |out| close.encode(out)).check(Status::SUCCESS);
        assert!(bed.store.records.lock().is_empty(), "a closed open has no record");
    }
}

#[test]
fn a_persistent_open_its_locks_and_its_lease_outlive_the_server() {
    let mut bed = available_bed(true);
    let mut client = bed.log_on_as("alice", [7; 16]);
    let contexts = vec![request_persistent(), lease(1, 7, 0)];
    let message = send(&mut client, "file", OplockLevel::LEASE, contexts);
    assert_eq!(granted(&message), (Some(PERSISTENT), Some((LeaseState(7), 1))));
    let (file_id, _) = opened(&message);
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::SUCCESS);

    bed.crash();
    assert_eq!(bed.server.open_count(), 1);
    let mut other = bed.log_on_as("alice", [8; 16]);
    send(&mut other, "file", OplockLevel::NONE, vec![]).check(Status::FILE_NOT_AVAILABLE);

    let mut client = bed.log_on_as("alice", [7; 16]);
    // The client has seen more of its lease than was kept.
    let contexts = vec![reconnect_persistent(file_id), lease(1, 7, 5)];
    let message = send(&mut client, "file", OplockLevel::LEASE, contexts);
    assert_eq!(granted(&message).1, Some((LeaseState(7), 5)));
    let (again, _) = opened(&message);
    assert_eq!(again.persistent, file_id.persistent);
    assert_eq!(lock(&mut client, again, 0x11, EXCLUSIVE), Status::SUCCESS, "sent again");
    assert_eq!(lock(&mut client, again, 0x12, EXCLUSIVE), Status::LOCK_NOT_GRANTED, "still locked");
    assert_eq!(lock(&mut client, again, 0, LockFlags::UNLOCK), Status::SUCCESS);

    bed.crash();
    let mut client = bed.log_on_as("alice", [7; 16]);
    let contexts = vec![reconnect_persistent(again), lease(1, 7, 5)];
    let (again, _) = opened(&send(&mut client, "file", OplockLevel::LEASE, contexts));
    assert_eq!(lock(&mut client, again, 0, EXCLUSIVE), Status::SUCCESS, "was unlocked");
}

#[test]
fn a_lock_that_cannot_be_kept_is_none() {
    let bed = available_bed(true);
    let mut client = bed.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "file", OplockLevel::NONE, vec![request_persistent()]));
    let full = |full| bed.store.full.store(full, std::sync::atomic::Ordering::Relaxed);
    full(true);
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::INSUFFICIENT_RESOURCES);
    full(false);
    let mut other = bed.log_on_as("alice", [8; 16]);
    let (others, _) = opened(&send(&mut other, "file", OplockLevel::NONE, vec![]));
    assert_eq!(lock(&mut other, others, 0, EXCLUSIVE), Status::SUCCESS);
    assert_eq!(lock(&mut client, file_id, 0x11, EXCLUSIVE), Status::LOCK_NOT_GRANTED, "not taken for done");
}

#[test]
fn who_gets_a_persistent_open_back_and_how() {
    let unknown = |file_id: FileId| FileId { persistent: file_id.persistent ^ 1, ..file_id };
    type Context = fn(FileId) -> CreateContext<'static>;
    let cases: [(&str, Context, Status); 4] = [
        ("alice", |id| reconnect_persistent(id), Status::SUCCESS),
        ("bob", |id| reconnect_persistent(id), Status::ACCESS_DENIED),
        ("alice", |id| reconnect_v2(id, FIRST), Status::OBJECT_NAME_NOT_FOUND),
        ("alice", |id| reconnect(id), Status::OBJECT_NAME_NOT_FOUND),
    ];
    for (number, (user, context, expected)) in cases.into_iter().enumerate() {
        let mut bed = available_bed(true);
        let mut client = bed.log_on_as("alice", [7; 16]);
        let (file_id, _) = opened(&send(&mut client, "file", OplockLevel::NONE, vec![request_persistent()]));
        bed.crash();
        let mut client = bed.log_on_as(user, [7; 16]);
        let message = send(&mut client, "", OplockLevel::NONE, vec![context(file_id)]);
        assert_eq!(message.header().status, expected, "case {number}");
        if expected != Status::SUCCESS {
            // By its CreateGuid it is found, too.
            let mut owner = bed.log_on_as("alice", [7; 16]);
            opened(&send(&mut owner, "", OplockLevel::NONE, vec![reconnect_persistent(unknown(file_id))]));
        }
    }
    let bed = available_bed(true);
    let mut client = bed.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "file", BATCH, vec![request_v2(0)]));
    run(client.connection.close());
    let mut client = bed.log_on_as("alice", [7; 16]);
    let message = send(&mut client, "file", OplockLevel::NONE, vec![reconnect_persistent(file_id)]);
    message.check(Status::INVALID_PARAMETER);
}

#[test]
fn a_create_whose_response_was_lost_with_the_server_is_answered_by_the_next() {
    let mut bed = available_bed(true);
    let mut client = bed.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "file", OplockLevel::NONE, vec![request_persistent()]));
    let again = send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_persistent()]);
    assert_eq!(opened(&again).0, file_id);
    bed.crash();
    let mut bob = bed.log_on_as("bob", [7; 16]);
    let message = send_with(&mut bob, REPLAY, "file", OplockLevel::NONE, vec![request_persistent()]);
    message.check(Status::ACCESS_DENIED);
    let mut client = bed.log_on_as("alice", [7; 16]);
    let message = send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_persistent()]);
    assert_eq!(granted(&message).0, Some(PERSISTENT));
    assert_eq!(opened(&message).0.persistent, file_id.persistent);
    // Now it has its client, which has used it.
    let (file_id, _) = opened(&message);
    assert_eq!(lock(&mut client, file_id, 0, EXCLUSIVE), Status::SUCCESS);
    let message = send_with(&mut client, REPLAY, "file", OplockLevel::NONE, vec![request_persistent()]);
    message.check(Status::FILE_NOT_AVAILABLE);
}

#[test]
fn nobody_gets_another_file_of_the_same_name() {
    let mut bed = available_bed(true);
    let mut client = bed.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "file", OplockLevel::NONE, vec![request_persistent()]));
    bed.replace("file");
    bed.crash();
    assert_eq!(bed.server.open_count(), 0);
    assert!(bed.store.records.lock().is_empty());
    let mut client = bed.log_on_as("alice", [7; 16]);
    let message = send(&mut client, "", OplockLevel::NONE, vec![reconnect_persistent(file_id)]);
    message.check(Status::OBJECT_NAME_NOT_FOUND);
}

#[test]
fn persistent_opens_end_with_their_time_too() {
    let mut bed = available_bed(true);
    let mut client = bed.log_on_as("alice", [7; 16]);
    opened(&send(&mut client, "file", OplockLevel::NONE, vec![request_persistent()]));
    bed.crash();
    bed.pass(60);
    run(bed.server.scavenge());
    assert_eq!(bed.server.open_count(), 0);
    assert!(bed.store.records.lock().is_empty());
    bed.log_on_as("alice", [8; 16]).open("file", OplockLevel::NONE);
}

#[test]
fn what_a_persistent_open_was_told_of_its_file_is_kept() {
    let mut bed = available_bed(true);
    let mut client = bed.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "old", OplockLevel::NONE, vec![request_persistent()]));
    let set = |client: &mut Client, file_id, class: InfoClass, buffer: &[u8]| {
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
    bed.crash();
    let mut client = bed.log_on_as("alice", [7; 16]);
    let (file_id, _) = opened(&send(&mut client, "", OplockLevel::NONE, vec![reconnect_persistent(file_id)]));
    let close = CloseRequest { flags: CloseFlags(0), file_id };
    client.request(Command::CLOSE, |out| close.encode(out)).check(Status::SUCCESS);
    for name in ["old", "new"] {
        let open = client.create(name, CreateDisposition::OPEN, OplockLevel::NONE, Flags(0));
        assert!(client.send(&open));
        client.next().check(Status::OBJECT_NAME_NOT_FOUND);
    }
}
