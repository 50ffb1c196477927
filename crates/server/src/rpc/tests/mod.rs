//! The table of services: a service that only tests have, and its calls.

pub(super) mod client;
mod guesses;
pub(super) mod lists;

use proto::bytes::utf16_bytes;
use proto::dtyp::Guid;
use proto::rpc::ndr::{ContextHandle, Encoder};
use proto::rpc::pdu::{self, Header, PduFlags, PduType, SyntaxId};
use proto::smb2::create::{CreateDisposition, CreateRequest, ImpersonationLevel, ShareAccess};
use proto::smb2::header::Command;
use proto::status::Status;

use self::client::PipeClient;
use super::interface::{Call, Interface, Operation, operations};
use crate::policy::{Policy, UserPattern};
use crate::testing::{TestClient, TestServer, status};

/// A service that adds numbers. Its row in [`super::services::SERVICES`] and this implementation are all that a service
/// needs.
pub(super) struct Calculator;

impl Interface for Calculator {
    fn pipe(&self) -> &'static str {
        "calculator"
    }

    fn syntax(&self) -> SyntaxId {
        SyntaxId { uuid: Guid::from_fields(1, 2, 3, [4; 8]), version: 1 }
    }

    fn max_stub(&self) -> usize {
        5000
    }

    fn operations(&self) -> &'static [Operation] {
        operations![(0, "Open", open), (1, "Add", add), (3, "Close", close),]
    }
}

struct Sum(u32);

async fn open(call: &Call<'_>, (): ()) -> Vec<u8> {
    let handle = call.handles.lock().open(Sum(0), &*call.server.environment);
    handle.map_or_else(Vec::new, Vec::from)
}

async fn add(call: &Call<'_>, (handle, number): (ContextHandle, u32)) -> Vec<u8> {
    let mut handles = call.handles.lock();
    let Some(sum) = handles.get::<Sum>(&handle) else { return Vec::new() };
    sum.0 += number;
    sum.0.to_le_bytes().to_vec()
}

async fn close(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    vec![u8::from(call.handles.lock().close(&handle))]
}

fn calculator() -> PipeClient {
    PipeClient::new(TestClient::logged_on(&TestServer::new(), "alice"), "calculator")
}

fn with_number(handle: &[u8], number: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, handle);
    out.u32(number);
    out.into_bytes()
}

/// Returns the status of the fault that answers a call.
fn fault(pipe: &mut PipeClient, opnum: u16, stub: &[u8]) -> u32 {
    for fragment in client::fragments(opnum, stub) {
        assert_eq!(pipe.write(&fragment), Status::SUCCESS);
    }
    let answer = pipe.read();
    assert_eq!(Header::decode(&answer).map(|header| header.kind), Ok(PduType::FAULT));
    u32::from_le_bytes(answer[24..28].try_into().expect("a status"))
}

#[test]
fn a_service_of_the_table_can_be_called() {
    let mut pipe = calculator();
    let handle = pipe.call(0, &[]);
    assert_eq!(handle.len(), 20);
    assert_eq!(pipe.call(1, &with_number(&handle, 3)), 3_u32.to_le_bytes());
    assert_eq!(pipe.call(1, &with_number(&handle, 4)), 7_u32.to_le_bytes());
    assert_eq!(pipe.call(1, &with_number(&[9; 20], 4)), []);
    assert_eq!((pipe.call(3, &handle), pipe.call(3, &handle)), (vec![1], vec![0]));
    // A handle belongs to its pipe.
    let handle = pipe.call(0, &[]);
    assert_eq!(calculator().call(1, &with_number(&handle, 4)), []);
}

/// Reverses the bytes of numbers of a PDU: their positions and sizes.
fn reversed(mut pdu: Vec<u8>, numbers: &[(usize, usize)]) -> Vec<u8> {
    numbers.iter().for_each(|&(at, size)| pdu[at..at + size].reverse());
    pdu[4] = 0;
    pdu
}

#[test]
fn requests_in_big_endian_order_are_answered_in_little_endian_order() {
    const HEADER: [(usize, usize); 3] = [(8, 2), (10, 2), (12, 4)];
    let mut pipe = PipeClient::open(TestClient::logged_on(&TestServer::new(), "alice"), "calculator");
    // The sizes of fragments, the group, the number of the context, and two UUIDs with their versions.
    let body = [(16, 2), (18, 2), (20, 4), (28, 2), (32, 4), (36, 2), (38, 2), (48, 4), (52, 4), (56, 2), (58, 2)];
    let bind = reversed(client::bind("calculator"), &[&HEADER[..], &body, &[(68, 4)]].concat());
    assert_eq!(pipe.write(&bind), Status::SUCCESS);
    let answer = pipe.read();
    assert_eq!((answer[4], Header::decode(&answer).map(|header| header.kind)), (0x10, Ok(PduType::BIND_ACK)));
    let result = u16::from_le_bytes(answer[answer.len() - 24..][..2].try_into().expect("two bytes"));
    assert_eq!(result, 0, "accepted");
    // The hint, the context and the operation, then the handle and the number.
    let call = [&HEADER[..], &[(16, 4), (20, 2), (22, 2)]].concat();
    let arguments = [(24, 4), (28, 4), (32, 2), (34, 2), (44, 4)];
    let handle = pipe.call(0, &[]);
    let add = client::fragments(1, &with_number(&handle, 3)).remove(0);
    assert_eq!(pipe.write(&reversed(add, &[&call[..], &arguments].concat())), Status::SUCCESS);
    assert_eq!(pipe.read()[24..], 3_u32.to_le_bytes());
}

#[test]
fn the_name_of_a_pipe_ignores_case_and_one_backslash() {
    for name in ["Calculator", "\\CALCULATOR"] {
        let mut pipe = PipeClient::open(TestClient::logged_on(&TestServer::new(), "alice"), name);
        assert_eq!(pipe.write(&client::bind("calculator")), Status::SUCCESS);
        let answer = pipe.read();
        assert_eq!(Header::decode(&answer).map(|header| header.kind), Ok(PduType::BIND_ACK));
    }
}

#[test]
fn no_other_name_opens_a_pipe() {
    let mut client = TestClient::logged_on(&TestServer::new(), "alice");
    assert_eq!(client.tree_connect("IPC$"), Status::SUCCESS);
    let mut names: Vec<String> = [
        "",
        "\\",
        "..",
        "..\\srvsvc",
        "\\..\\srvsvc",
        "srvsvc\\..",
        "srvsvc\\",
        "pipe\\srvsvc",
        "\\\\srvsvc",
        "../srvsvc",
        "./srvsvc",
        "/srvsvc",
        "srvsvc/",
        "srvsvc/../lsarpc",
        "/etc/passwd",
        "srvsvc\0",
        "\0srvsvc",
        "srvsvc\0.so",
        "srvsvc ",
        "srvsvc:stream",
        "srvsvc:$DATA",
    ]
    .map(str::to_owned)
    .into();
    // The longest that CREATE can carry: 65,534 bytes.
    names.extend(["a".repeat(32_767), "srvsvc".repeat(5_461), "../".repeat(10_922)]);
    for name in names {
        let bytes = utf16_bytes(&name);
        let create = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: 0x0012_019f,
            share_access: ShareAccess(7),
            create_disposition: CreateDisposition::OPEN,
            name: &bytes,
            ..CreateRequest::default()
        };
        let response = client.request(Command::CREATE, |out| create.encode(out));
        let shown: String = name.chars().take(40).collect();
        assert_eq!(status(&response), Status::OBJECT_NAME_NOT_FOUND, "{shown:?}, {} units", name.len());
    }
    assert_eq!(client.tree_connect("share"), Status::SUCCESS, "the connection is still there");
}

#[test]
fn an_unknown_operation_is_answered_with_a_fault() {
    assert_eq!(fault(&mut calculator(), 2, &[]), pdu::FAULT_OP_RANGE);
    for service in super::services::SERVICES {
        let unknown = (0..).find(|opnum| service.operations().iter().all(|known| known.opnum != *opnum));
        let mut pipe = PipeClient::new(TestClient::logged_on(&TestServer::new(), "alice"), service.pipe());
        assert_eq!(fault(&mut pipe, unknown.expect("a number without operation"), &[]), pdu::FAULT_OP_RANGE);
    }
}

#[test]
fn arguments_that_cannot_be_decoded_are_answered_with_a_fault() {
    assert_eq!(fault(&mut calculator(), 1, &[0; 20]), pdu::FAULT_BAD_STUB);
}

#[test]
fn a_call_on_a_context_that_is_not_bound_is_answered_with_a_fault() {
    let mut pipe = PipeClient::open(TestClient::logged_on(&TestServer::new(), "alice"), "calculator");
    assert_eq!(fault(&mut pipe, 0, &[]), pdu::FAULT_UNKNOWN_INTERFACE);
}

#[test]
fn the_interface_of_another_service_is_not_bound() {
    let mut pipe = PipeClient::open(TestClient::logged_on(&TestServer::new(), "alice"), "calculator");
    assert_eq!(pipe.write(&client::bind("srvsvc")), Status::SUCCESS);
    let answer = pipe.read();
    let result = u16::from_le_bytes(answer[answer.len() - 24..][..2].try_into().expect("two bytes"));
    assert_eq!(result, 2, "provider rejection");
    assert_eq!(fault(&mut pipe, 0, &[]), pdu::FAULT_UNKNOWN_INTERFACE);
}

#[test]
fn stub_data_that_is_too_long_ends_the_association() {
    let fits = calculator().call(0, &[0; 5000]);
    assert_eq!(fits.len(), 20);
    let mut pipe = calculator();
    let [first, second] = &client::fragments(0, &[0; 5001])[..] else { panic!("two fragments") };
    assert_eq!(pipe.write(first), Status::SUCCESS);
    assert_eq!(pipe.write(second), Status::INSUFFICIENT_RESOURCES);
    assert_eq!(pipe.write(first), Status::PIPE_BROKEN);
}

#[test]
fn pipes_and_operation_numbers_are_unique() {
    for (index, service) in super::services::SERVICES.iter().enumerate() {
        let others = &super::services::SERVICES[..index];
        assert!(others.iter().all(|other| other.pipe() != service.pipe() && other.syntax() != service.syntax()));
        let mut opnums: Vec<u16> = service.operations().iter().map(|operation| operation.opnum).collect();
        assert!(opnums.is_sorted(), "{}", service.pipe());
        opnums.dedup();
        assert_eq!(opnums.len(), service.operations().len(), "{}", service.pipe());
    }
}

/// Returns whether the call ended with results or a fault.
fn is_answered(pipe: &mut PipeClient, opnum: u16, stub: &[u8]) -> bool {
    for fragment in client::fragments(opnum, stub) {
        assert_eq!(pipe.write(&fragment), Status::SUCCESS);
    }
    loop {
        let answer = pipe.read();
        let Ok(header) = Header::decode(&answer) else { return false };
        assert!(matches!(header.kind, PduType::RESPONSE | PduType::FAULT), "call {opnum}");
        if header.flags.contains(PduFlags::LAST_FRAG) {
            return true;
        }
    }
}

#[test]
fn every_call_answers_arguments_that_are_cut_off_or_random() {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    for service in ["srvsvc", "wkssvc", "winreg", "svcctl"] {
        let configure = |policy: &mut Policy| policy.admin_users = vec![UserPattern::User("alice".into())];
        let server = TestServer::builder().configure(configure).start();
        let mut pipe = PipeClient::new(TestClient::logged_on(&server, "alice"), service);
        let operations = super::services::find(service).expect("a service").operations();
        for operation in operations {
            for qualifiers in [&[][..], &[None], &[None, None], &[Some("\\\\127.0.0.1"), Some("bob")]] {
                let whole = lists::listing(qualifiers, [0, 1, 2, 3, 502][random() as usize % 5], 1000, Some(random()));
                for length in 0..=whole.len() {
                    assert!(is_answered(&mut pipe, operation.opnum, &whole[..length]), "{}", operation.name);
                }
            }
            for _ in 0..200 {
                // Small numbers are often valid lengths and levels.
                let word = |random: u32| if random & 1 == 0 { random >> 1 & 7 } else { random };
                let stub: Vec<u8> = (0..random() % 32).flat_map(|_| word(random()).to_le_bytes()).collect();
                assert!(is_answered(&mut pipe, operation.opnum, &stub), "{}", operation.name);
            }
        }
    }
}
