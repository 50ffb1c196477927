//! Requests that make an open durable or reclaim it.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use proto::bytes::utf16_bytes;
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::create_context::{
    CreateContext, DurableHandleFlags, DurableHandleReconnect, DurableHandleReconnectV2, DurableHandleRequest,
    DurableHandleRequestV2, name,
};
use proto::smb2::header::{Command, Flags};
use proto::smb2::lock::{LockElement, LockFlags, LockRequest};
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;

use server::testing::{Message, PipelinedClient, TestServer, opened};

pub(crate) const FIRST: [u8; 16] = [1; 16];
pub(crate) const REPLAY: Flags = Flags::REPLAY_OPERATION;
pub(crate) const BATCH: OplockLevel = OplockLevel::BATCH;
pub(crate) const EXCLUSIVE: LockFlags = LockFlags(LockFlags::EXCLUSIVE_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);

/// Runs the server's background work, as far as it gets without waiting.
pub(crate) fn run(future: impl Future<Output = ()>) {
    let mut future = pin!(future);
    for _ in 0..100 {
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
    }
}

pub(crate) fn send(
    client: &mut PipelinedClient,
    name: &str,
    oplock: OplockLevel,
    contexts: Vec<CreateContext<'static>>,
) -> Message {
    send_with(client, Flags(0), name, oplock, contexts)
}

pub(crate) fn send_with(
    client: &mut PipelinedClient,
    flags: Flags,
    name: &str,
    oplock: OplockLevel,
    contexts: Vec<CreateContext<'static>>,
) -> Message {
    let message = compose(client, flags, name, oplock, contexts);
    assert!(client.send(&message));
    client.receive()
}

/// Builds a CREATE.
pub(crate) fn compose(
    client: &mut PipelinedClient,
    flags: Flags,
    name: &str,
    oplock: OplockLevel,
    contexts: Vec<CreateContext<'static>>,
) -> Vec<u8> {
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
    client.compose_with(Command::CREATE, flags, |out| create.encode(out))
}

pub(crate) fn request() -> CreateContext<'static> {
    DurableHandleRequest.to_context()
}

pub(crate) fn request_v2(timeout: u32) -> CreateContext<'static> {
    DurableHandleRequestV2 { timeout, flags: DurableHandleFlags(0), create_guid: FIRST }.to_context()
}

pub(crate) fn reconnect(file_id: FileId) -> CreateContext<'static> {
    DurableHandleReconnect { file_id }.to_context()
}

pub(crate) fn reconnect_v2(file_id: FileId, create_guid: [u8; 16]) -> CreateContext<'static> {
    DurableHandleReconnectV2 { file_id, create_guid, flags: DurableHandleFlags(0) }.to_context()
}

pub(crate) fn has(message: &Message, context: &[u8]) -> bool {
    let response = CreateResponse::decode(message.bytes()).expect("a well-formed message");
    CreateContext::find(&response.create_contexts, context).is_some()
}

/// Creates a durable open of alice's whose client has disconnected.
pub(crate) fn lost(server: &TestServer) -> FileId {
    let mut client = server.log_on("alice", false);
    let kept = send(&mut client, "file", OplockLevel::BATCH, vec![request()]);
    assert!(has(&kept, name::DURABLE_HANDLE_REQUEST));
    let (file_id, _) = opened(&kept);
    run(client.connection.close());
    assert_eq!(server.open_count(), 1, "kept");
    file_id
}

pub(crate) fn lock(client: &mut PipelinedClient, file_id: FileId, lock_sequence: u32, flags: LockFlags) -> Status {
    let locks = vec![LockElement { offset: 0, length: 10, flags }];
    let request = LockRequest { lock_sequence, file_id, locks };
    client.request(Command::LOCK, |out| request.encode(out)).header().status
}
