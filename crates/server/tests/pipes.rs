//! Named pipes as a transport: messages, waiting READs, and limits for data that a client can make the server hold,
//! such as incomplete calls and unread answers.

use std::sync::Arc;

use proto::bytes::{Reader, Writer, utf16_bytes};
use proto::dtyp::AccessMask;
use proto::fscc::{
    FileInformationClass, FilePipeInformation, FilePipeLocalInformation, PipeCompletionMode, PipeMode, PipePeekReply,
    PipeWaitRequest,
};
use proto::rpc::pdu::{self, Bind, Context, Header as Pdu, PduFlags, PduType};
use proto::rpc::srvsvc;
use proto::smb2::cancel::CancelRequest;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::header::{Command, Header};
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::read::{ReadRequest, ReadResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::tree_disconnect::TreeDisconnectRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, InfoType};
use proto::status::Status;
use server::policy::{Share, UserPattern};
use server::testing::{self, TestClient, TestServer, status};

/// The access that programs request on a pipe.
const READ_WRITE: AccessMask = AccessMask(0x0012_019f);

fn write(client: &mut TestClient, file_id: FileId, bytes: &[u8]) -> Status {
    let write = WriteRequest { length: bytes.len() as u32, file_id, buffer: bytes, ..WriteRequest::default() };
    status(&client.request(Command::WRITE, |out| write.encode(out)))
}

fn read(client: &mut TestClient, file_id: FileId) -> Status {
    let read = ReadRequest { length: 65_536, file_id, ..ReadRequest::default() };
    status(&client.request(Command::READ, |out| read.encode(out)))
}

/// Builds a request with `length` bytes of arguments; `flags` say whether it is complete.
fn request(flags: PduFlags, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = Writer::new(&mut bytes);
    Pdu { kind: PduType::REQUEST, flags, frag_length: 0, auth_length: 0, call_id: 1 }.encode(&mut out);
    out.zeros(8 + length);
    pdu::finish(&mut out);
    bytes
}

fn logged_on(limit: Option<usize>) -> TestClient {
    let mut policy = testing::policy();
    policy.limits.pipe_bytes = limit.unwrap_or(policy.limits.pipe_bytes);
    let server = TestServer::with_policy(policy);
    let mut client = TestClient::logged_on(&server, "alice");
    assert_eq!(client.tree_connect("IPC$"), Status::SUCCESS);
    client
}

#[test]
fn one_write_produces_no_more_responses_than_may_be_queued() {
    let mut client = logged_on(None);
    let pipe = client.open("lsarpc", READ_WRITE);
    let calls = request(PduFlags::FIRST_FRAG | PduFlags::LAST_FRAG, 0).repeat(1000);
    assert_eq!(write(&mut client, pipe, &calls), Status::INSUFFICIENT_RESOURCES);
    let answers = (0..1000).take_while(|_| read(&mut client, pipe) == Status::SUCCESS).count();
    assert_eq!(answers, 64);
}

#[test]
fn only_lookup_calls_have_long_arguments() {
    for (name, expected) in [("samr", 1), ("srvsvc", 1), ("lsarpc", 20)] {
        let mut client = logged_on(None);
        let pipe = client.open(name, READ_WRITE);
        let (first, part) = (request(PduFlags::FIRST_FRAG, 50_000), request(PduFlags::NONE, 50_000));
        let parts = std::iter::once(&first).chain(std::iter::repeat(&part)).take(100);
        let taken = parts.take_while(|part| write(&mut client, pipe, part) == Status::SUCCESS).count();
        assert_eq!(taken, expected, "{name}");
    }
}

#[test]
fn the_pipes_of_a_user_hold_at_most_half_of_the_limit() {
    let mut client = logged_on(Some(400_000));
    let part = request(PduFlags::FIRST_FRAG, 60_000);
    let pipes: Vec<_> = (0..4).map(|_| client.open("lsarpc", READ_WRITE)).collect();
    let taken: Vec<_> = pipes.iter().map(|pipe| write(&mut client, *pipe, &part)).collect();
    assert_eq!(taken, [Status::SUCCESS, Status::SUCCESS, Status::SUCCESS, Status::INSUFFICIENT_RESOURCES]);
    let short = request(PduFlags::FIRST_FRAG | PduFlags::LAST_FRAG, 100);
    assert_eq!(write(&mut client, pipes[3], &short), Status::SUCCESS, "a short call is always accepted");
    client.close(pipes[0]);
    assert_eq!(write(&mut client, pipes[3], &part), Status::SUCCESS, "the data of a closed pipe is freed");
}

/// Number of shares, whose list takes several fragments.
const SHARES: usize = 300;

/// Returns a client with an open pipe on a server with many shares.
fn with_many_shares() -> (TestClient, FileId) {
    let mut policy = testing::policy();
    for number in 0..SHARES {
        let name = format!("share{number:03}");
        policy.shares.insert(name.as_str().into(), Arc::new(Share::new(&name, "/share")));
    }
    let server = TestServer::with_policy(policy);
    let mut client = TestClient::logged_on(&server, "alice");
    assert_eq!(client.tree_connect("IPC$"), Status::SUCCESS);
    let pipe = client.open("srvsvc", READ_WRITE);
    (client, pipe)
}

fn bind(max_fragment: u16) -> Vec<u8> {
    let contexts = vec![Context { id: 0, interface: srvsvc::INTERFACE, transfer_syntaxes: vec![pdu::NDR] }];
    let bind = Bind { max_xmit_frag: max_fragment, max_recv_frag: max_fragment, assoc_group_id: 0, contexts };
    whole(PduType::BIND, |out| bind.encode(out))
}

fn whole(kind: PduType, body: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = Writer::new(&mut bytes);
    let flags = PduFlags::FIRST_FRAG | PduFlags::LAST_FRAG;
    Pdu { kind, flags, frag_length: 0, auth_length: 0, call_id: 1 }.encode(&mut out);
    body(&mut out);
    pdu::finish(&mut out);
    bytes
}

/// Builds a NetrShareEnum of level 1.
fn share_enum() -> Vec<u8> {
    whole(PduType::REQUEST, |out| {
        out.u32(0);
        out.u16(0);
        out.u16(srvsvc::opnum::NETR_SHARE_ENUM);
        [0, 1, 1, 0x20000, 0, 0, u32::MAX, 0].into_iter().for_each(|field| out.u32(field));
    })
}

fn read_up_to(client: &mut TestClient, file_id: FileId, length: u32) -> (Status, Vec<u8>) {
    let read = ReadRequest { length, file_id, ..ReadRequest::default() };
    let response = client.request(Command::READ, |out| read.encode(out));
    let data = ReadResponse::decode(&response).map(|read| read.buffer.to_vec()).unwrap_or_default();
    (status(&response), data)
}

fn ioctl(client: &mut TestClient, ctl_code: FsctlCode, file_id: FileId, input: &[u8], space: u32) -> Vec<u8> {
    let flags = IoctlFlags::IS_FSCTL;
    let control =
        IoctlRequest { ctl_code, file_id, input, max_output_response: space, flags, ..IoctlRequest::default() };
    client.request(Command::IOCTL, |out| control.encode(out))
}

fn output(response: &[u8]) -> (Status, Vec<u8>) {
    let output = IoctlResponse::decode(response).map(|response| response.output.to_vec()).unwrap_or_default();
    (status(response), output)
}

fn peek(client: &mut TestClient, file_id: FileId, space: u32) -> (Status, PipePeekReply, Vec<u8>) {
    let (status, bytes) = output(&ioctl(client, FsctlCode::PIPE_PEEK, file_id, &[], space));
    let reply = PipePeekReply::decode(&mut Reader::new(&bytes)).expect("the pipe's state");
    (status, reply, bytes[PipePeekReply::SIZE..].to_vec())
}

fn set_mode(
    client: &mut TestClient,
    file_id: FileId,
    read_mode: PipeMode,
    completion_mode: PipeCompletionMode,
) -> Status {
    let mut buffer = Vec::new();
    FilePipeInformation { read_mode, completion_mode }.encode(&mut Writer::new(&mut buffer));
    let (info_type, file_info_class) = (InfoType::FILE, FileInformationClass::PIPE.0);
    let set = SetInfoRequest { info_type, file_info_class, additional_information: 0, file_id, buffer: &buffer };
    status(&client.request(Command::SET_INFO, |out| set.encode(out)))
}

/// Returns the header of `message`, which must be exactly one PDU.
fn header_of(message: &[u8]) -> Pdu {
    let header = Pdu::decode(message).expect("a PDU");
    assert_eq!(usize::from(header.frag_length), message.len(), "one PDU and no part of the next");
    header
}

#[test]
fn a_share_is_listed_for_users_that_may_connect() {
    let alice = || vec![UserPattern::User("Alice".into())];
    let bob = || vec![UserPattern::User("bob".into())];
    let mut policy = testing::policy();
    for (name, by_access, valid, invalid) in [
        ("all", true, vec![], vec![]),
        ("her", true, alice(), vec![]),
        ("his", true, bob(), vec![]),
        ("known", false, bob(), vec![]),
        ("barred", true, vec![], alice()),
        ("both", true, alice(), alice()),
        ("not bob", true, vec![], bob()),
    ] {
        let mut share = Share::new(name, "/share");
        share.access_based_share_enum = by_access;
        (share.access.valid_users, share.access.invalid_users) = (valid, invalid);
        policy.shares.insert(name.into(), Arc::new(share));
    }
    let server = TestServer::with_policy(policy);
    let mut client = TestClient::logged_on(&server, "alice");
    assert_eq!(client.tree_connect("IPC$"), Status::SUCCESS);
    let pipe = client.open("srvsvc", READ_WRITE);
    assert_eq!(write(&mut client, pipe, &[bind(4280), share_enum()].concat()), Status::SUCCESS);
    read_up_to(&mut client, pipe, 65_536);
    let (status, results) = read_up_to(&mut client, pipe, 65_536);
    assert_eq!(status, Status::SUCCESS);
    let lists = |name: &str| {
        let name = utf16_bytes(&format!("{name}\0"));
        results.windows(name.len()).any(|part| part == name)
    };
    for (name, listed) in [
        ("all", true),
        ("her", true),
        ("his", false),
        ("known", true),
        ("barred", false),
        ("both", false),
        ("not bob", true),
        ("IPC$", true),
    ] {
        assert_eq!(lists(name), listed, "{name}");
    }
}

#[test]
fn each_fragment_of_a_response_is_a_message() {
    for max_fragment in [4280, 5840, 2000, 100] {
        let (mut client, pipe) = with_many_shares();
        assert_eq!(write(&mut client, pipe, &bind(max_fragment)), Status::SUCCESS);
        header_of(&read_up_to(&mut client, pipe, 65_536).1);
        assert_eq!(write(&mut client, pipe, &share_enum()), Status::SUCCESS);
        let (mut fragments, mut results) = (0, Vec::new());
        loop {
            let (_, state, _) = peek(&mut client, pipe, 16);
            let (status, message) = read_up_to(&mut client, pipe, 65_536);
            assert_eq!((status, state.message_length as usize), (Status::SUCCESS, message.len()));
            let header = header_of(&message);
            assert!(message.len() <= usize::from(max_fragment.clamp(1432, 4280)));
            assert_eq!(header.flags.contains(PduFlags::FIRST_FRAG), fragments == 0);
            results.extend_from_slice(&message[24..]);
            fragments += 1;
            if header.flags.contains(PduFlags::LAST_FRAG) {
                break;
            }
        }
        assert!(fragments > 4, "{fragments}");
        let last = utf16_bytes(&format!("share{:03}", SHARES - 1));
        assert!(results.windows(last.len()).any(|part| part == last));
    }
}

#[test]
fn a_message_longer_than_the_buffer_is_read_in_parts() {
    let (mut client, pipe) = with_many_shares();
    assert_eq!(write(&mut client, pipe, &bind(4280)), Status::SUCCESS);
    let (status, mut message) = read_up_to(&mut client, pipe, 20);
    assert_eq!((status, message.len()), (Status::BUFFER_OVERFLOW, 20));
    let (_, state, data) = peek(&mut client, pipe, 16 + 4);
    let (status, rest) = read_up_to(&mut client, pipe, 65_536);
    assert_eq!((status, state.message_length as usize, &data[..]), (Status::SUCCESS, rest.len(), &rest[..4]));
    message.extend_from_slice(&rest);
    header_of(&message);

    let call = share_enum();
    let (status, first) = output(&ioctl(&mut client, FsctlCode::PIPE_TRANSCEIVE, pipe, &call, 1024));
    assert_eq!((status, first.len()), (Status::BUFFER_OVERFLOW, 1024));
    let (status, _) = output(&ioctl(&mut client, FsctlCode::PIPE_TRANSCEIVE, pipe, &call, 1024));
    assert_eq!(status, Status::PIPE_BUSY, "the previous response was not read");
    let (status, state, _) = peek(&mut client, pipe, 16);
    assert_eq!((status, state.message_length), (Status::BUFFER_OVERFLOW, 4280 - 1024));
    let query = QueryInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: FileInformationClass::PIPE_LOCAL.0,
        output_buffer_length: 1024,
        file_id: pipe,
        ..QueryInfoRequest::default()
    };
    let response = client.request(Command::QUERY_INFO, |out| query.encode(out));
    let buffer = QueryInfoResponse::decode(&response).expect("an answer").buffer;
    let local = FilePipeLocalInformation::decode(&mut Reader::new(buffer)).expect("the class");
    assert_eq!(local.read_data_available, state.read_data_available);
    let (mut messages, mut bytes) = (0, 0);
    while bytes < state.read_data_available as usize {
        bytes += read_up_to(&mut client, pipe, 65_536).1.len();
        messages += 1;
    }
    assert_eq!((messages, bytes), (state.number_of_messages, state.read_data_available as usize));
    let state = peek(&mut client, pipe, 16).1;
    assert_eq!((state.number_of_messages, state.read_data_available, state.message_length), (0, 0, 0));
}

#[test]
fn a_read_of_a_byte_stream_ends_only_with_the_buffer() {
    let (mut client, pipe) = with_many_shares();
    let blocking = PipeCompletionMode::QUEUE_OPERATION;
    assert_eq!(set_mode(&mut client, pipe, PipeMode::BYTE_STREAM, blocking), Status::SUCCESS);
    assert_eq!(write(&mut client, pipe, &[bind(4280), share_enum()].concat()), Status::SUCCESS);
    let (status, bytes) = read_up_to(&mut client, pipe, 10_000);
    assert_eq!((status, bytes.len()), (Status::SUCCESS, 10_000));
    assert_eq!(set_mode(&mut client, pipe, PipeMode::MESSAGE, blocking), Status::INVALID_PARAMETER);
    let (status, _) = output(&ioctl(&mut client, FsctlCode::PIPE_TRANSCEIVE, pipe, &[], 1024));
    assert_eq!(status, Status::INVALID_PIPE_STATE);
}

/// Starts a READ that has to wait, and returns its interim response.
fn begin_read(client: &mut TestClient, file_id: FileId) -> Vec<u8> {
    let read = ReadRequest { length: 65_536, file_id, ..ReadRequest::default() };
    let message = client.compose(Command::READ, |out| read.encode(out));
    let interim = client.send(&message).pop().expect("an interim response");
    assert_eq!(status(&interim), Status::PENDING);
    interim
}

#[test]
fn a_read_of_an_empty_pipe_waits_for_a_message() {
    let (mut client, pipe) = with_many_shares();
    let waiting = [begin_read(&mut client, pipe), begin_read(&mut client, pipe)];
    let ids = waiting.map(|interim| Header::decode(&interim).expect("a header").message_id);
    let bytes = [bind(4280), share_enum()].concat();
    let write = WriteRequest { length: bytes.len() as u32, file_id: pipe, buffer: &bytes, ..WriteRequest::default() };
    let message = client.compose(Command::WRITE, |out| write.encode(out));
    let mut responses = client.send(&message);
    // A long list is built in parts.
    while client.is_waiting() {
        responses.extend(client.proceed());
    }
    let kinds = ids.map(|id| {
        let is = |response: &&Vec<u8>| Header::decode(response).is_ok_and(|header| header.message_id == id);
        let response = responses.iter().find(is).expect("the READ is answered");
        header_of(ReadResponse::decode(response).expect("an answer").buffer).kind
    });
    assert_eq!(kinds, [PduType::BIND_ACK, PduType::RESPONSE], "in the order of the READs");
}

#[test]
fn a_read_that_waits_ends_with_its_pipe_or_is_cancelled() {
    type End = fn(&mut TestClient, FileId, Header) -> Vec<u8>;
    let ends: [(Status, End); 4] = [
        (Status::FILE_CLOSED, |client, file_id, _| {
            let close = CloseRequest { flags: CloseFlags::NONE, file_id };
            client.compose(Command::CLOSE, |out| close.encode(out))
        }),
        (Status::FILE_CLOSED, |client, _, _| {
            client.compose(Command::TREE_DISCONNECT, |out| TreeDisconnectRequest.encode(out))
        }),
        (Status::FILE_CLOSED, |client, _, _| client.compose(Command::LOGOFF, |out| LogoffRequest.encode(out))),
        (Status::CANCELLED, |client, _, interim| {
            let mut cancel = client.header(Command::CANCEL);
            client.next_message -= 1;
            cancel.message_id = interim.message_id;
            let mut message = Vec::new();
            cancel.encode(&mut Writer::new(&mut message));
            CancelRequest.encode(&mut Writer::from(&mut message, 0));
            message
        }),
    ];
    for (expected, end) in ends {
        let (mut client, pipe) = with_many_shares();
        let interim = Header::decode(&begin_read(&mut client, pipe)).expect("a header");
        let message = end(&mut client, pipe, interim);
        let mut responses = client.send(&message);
        responses.extend(client.proceed());
        let is =
            |response: &&Vec<u8>| Header::decode(response).is_ok_and(|header| header.message_id == interim.message_id);
        assert_eq!(responses.iter().find(is).map(|response| status(response)), Some(expected));
    }
}

#[test]
fn waiting_reads_are_bounded_and_none_waits_in_non_blocking_mode() {
    let (mut client, pipe) = with_many_shares();
    let most = client.connection.server.policy().limits.pending_per_connection;
    (0..most).for_each(|_| drop(begin_read(&mut client, pipe)));
    assert_eq!(read(&mut client, pipe), Status::INSUFFICIENT_RESOURCES);
    let at_once = PipeCompletionMode::COMPLETE_OPERATION;
    assert_eq!(set_mode(&mut client, pipe, PipeMode::MESSAGE, at_once), Status::PIPE_BUSY);
    let other = client.open("srvsvc", READ_WRITE);
    assert_eq!(set_mode(&mut client, other, PipeMode::MESSAGE, at_once), Status::SUCCESS);
    assert_eq!(read(&mut client, other), Status::PIPE_EMPTY);
}

#[test]
fn a_request_may_arrive_in_any_parts() {
    let (mut client, pipe) = with_many_shares();
    for byte in bind(4280) {
        assert_eq!(write(&mut client, pipe, &[byte]), Status::SUCCESS);
    }
    assert_eq!(header_of(&read_up_to(&mut client, pipe, 65_536).1).kind, PduType::BIND_ACK);
    let (call, mut fragments) = (share_enum(), Vec::new());
    let parts: Vec<_> = call[24..].chunks(8).collect();
    for (index, part) in parts.iter().enumerate() {
        let mut flags = if index == 0 { PduFlags::FIRST_FRAG } else { PduFlags::NONE };
        if index + 1 == parts.len() {
            flags |= PduFlags::LAST_FRAG;
        }
        let mut fragment = [&call[..24], part].concat();
        fragment[3] = flags.0;
        fragment[8] = fragment.len() as u8;
        fragments.extend_from_slice(&fragment);
    }
    assert_eq!(write(&mut client, pipe, &fragments), Status::SUCCESS);
    let results = read_up_to(&mut client, pipe, 65_536).1;
    assert_eq!((header_of(&results).kind, results.len()), (PduType::RESPONSE, 4280));
    // A fragment of a call without a first fragment.
    let (mut client, pipe) = with_many_shares();
    assert_eq!(write(&mut client, pipe, &request(PduFlags::LAST_FRAG, 8)), Status::SUCCESS);
    let fault = read_up_to(&mut client, pipe, 65_536).1;
    assert_eq!(header_of(&fault).kind, PduType::FAULT);
    assert_eq!(fault[24..28], pdu::FAULT_PROTOCOL.to_le_bytes());
}

#[test]
fn a_pipe_that_exists_is_never_waited_for() {
    let (mut client, pipe) = with_many_shares();
    let expected = [("srvsvc", Status::SUCCESS), ("netdfs", Status::OBJECT_NAME_NOT_FOUND)];
    for (name, expected) in expected {
        let mut input = Vec::new();
        PipeWaitRequest { timeout: None, name: &utf16_bytes(name) }.encode(&mut Writer::new(&mut input));
        let response = ioctl(&mut client, FsctlCode::PIPE_WAIT, FileId::ANY, &input, 0);
        assert_eq!(status(&response), expected, "{name}");
        if expected == Status::SUCCESS {
            // OutputOffset is where output would start.
            assert_eq!(response[64 + 32..][..8], [112, 0, 0, 0, 0, 0, 0, 0]);
        }
        let named = ioctl(&mut client, FsctlCode::PIPE_WAIT, pipe, &input, 0);
        assert_eq!(status(&named), Status::INVALID_PARAMETER);
    }
}

#[test]
fn contexts_are_bounded() {
    let (mut client, pipe) = with_many_shares();
    let context = |id| Context { id, interface: srvsvc::INTERFACE, transfer_syntaxes: vec![pdu::NDR] };
    let contexts = (0..100).map(context).collect();
    let bind = Bind { max_xmit_frag: 4280, max_recv_frag: 4280, assoc_group_id: 0, contexts };
    assert_eq!(write(&mut client, pipe, &whole(PduType::BIND, |out| bind.encode(out))), Status::SUCCESS);
    let answer = read_up_to(&mut client, pipe, 65_536).1;
    let results: Vec<_> = answer[answer.len() - 100 * 24..].chunks(24).map(|result| (result[0], result[2])).collect();
    assert_eq!(results.iter().filter(|result| **result == (0, 0)).count(), 64);
    assert_eq!(results.iter().filter(|result| **result == (2, 3)).count(), 36);
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
