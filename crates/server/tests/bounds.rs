//! Limits for clients that make the server hold too many resources or work for too long.

use proto::bytes::utf16_bytes;
use proto::dtyp::AccessMask;
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, ImpersonationLevel, ShareAccess};
use proto::smb2::create_context::{AllocationSize, LeaseFlags, LeaseV2};
use proto::smb2::echo::EchoRequest;
use proto::smb2::header::{Command, Header};
use proto::smb2::negotiate::{Capabilities, Dialect, NegotiateRequest, SecurityMode};
use proto::smb2::read::ReadRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, LeaseState, OplockLevel};
use proto::status::Status;
use server::accounting::Resource;
use server::policy::{Limits, Policy};
use server::testing::{self, PASSWORD, TestClient, TestServer, chain, status};

const MIB: usize = 1 << 20;

fn server(limits: Limits) -> TestServer {
    TestServer::with_policy(Policy { limits, ..testing::policy() })
}

fn create(name: &[u8]) -> CreateRequest<'_> {
    CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: AccessMask::FILE_ALL_ACCESS.0,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        name,
        ..CreateRequest::default()
    }
}

/// Creates a file of 1 MiB.
fn file(client: &mut TestClient) -> FileId {
    let name = utf16_bytes("file");
    client.request(Command::CREATE, |out| create(&name).encode(out));
    let file_id = client.open("file", AccessMask::FILE_ALL_ACCESS);
    let data = vec![7; MIB];
    let write = WriteRequest { file_id, length: MIB as u32, buffer: &data, ..WriteRequest::default() };
    let message = charged(client, Command::WRITE, 16, |out| write.encode(out));
    assert_eq!(status(client.send(&message).last().expect("an answer")), Status::SUCCESS);
    file_id
}

/// Builds a request with the given credit charge.
fn charged(
    client: &mut TestClient,
    command: Command,
    charge: u16,
    encode: impl FnOnce(&mut proto::bytes::Writer<'_>),
) -> Vec<u8> {
    let mut message = client.compose(command, encode);
    message[6..8].copy_from_slice(&charge.to_le_bytes());
    message[14..16].copy_from_slice(&512_u16.to_le_bytes());
    client.next_message += u64::from(charge) - 1;
    message
}

fn read(client: &mut TestClient, file_id: FileId) -> Vec<u8> {
    let read = ReadRequest { length: MIB as u32, file_id, ..ReadRequest::default() };
    charged(client, Command::READ, 16, |out| read.encode(out))
}

/// Returns the number of responses in a frame.
fn responses(mut frame: &[u8]) -> usize {
    let mut count = 1;
    while let Ok(header) = Header::decode(frame)
        && header.next_command != 0
    {
        frame = &frame[header.next_command as usize..];
        count += 1;
    }
    count
}

/// Acquires credits for many requests.
fn rich(client: &mut TestClient) {
    for _ in 0..20 {
        let echo = charged(client, Command::ECHO, 1, |out| EchoRequest.encode(out));
        client.send(&echo);
    }
}

#[test]
fn a_chain_of_reads_is_answered_in_frames_of_bounded_length_and_yields() {
    let limits = Limits::default();
    let server = server(limits.clone());
    let mut client = TestClient::logged_on(&server, "alice");
    rich(&mut client);
    let file_id = file(&mut client);
    let requests: Vec<_> = (0..40).map(|_| read(&mut client, file_id)).collect();
    client.post(&chain(&requests, false));
    let (mut turns, mut answered) = (0, 0);
    while answered < 40 {
        let frames = client.proceed();
        assert!(turns < 200, "{answered} answered");
        turns += 1;
        for frame in frames {
            assert!(frame.len() <= limits.response_frame, "{}", frame.len());
            answered += responses(&frame);
        }
    }
    assert!(turns >= 10, "other requests had {turns} turns meanwhile");
    client.disconnect();
    assert_eq!(server.accounting.memory(), 0);
}

#[test]
fn few_responses_are_queued_for_a_client_that_reads_none() {
    let limits = Limits::default();
    let server = server(limits.clone());
    let mut client = TestClient::logged_on(&server, "alice");
    rich(&mut client);
    let file_id = file(&mut client);
    // In separate frames, all executed before a single response is read.
    let mut running = Vec::new();
    for _ in 0..100 {
        let message = read(&mut client, file_id);
        let chain = client.connection.receive(bytes::BytesMut::from(&*message)).expect("a request").expect("a chain");
        running.push(Box::pin(chain.execute()));
    }
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..10 {
        running.retain_mut(|chain| chain.as_mut().poll(&mut context).is_pending());
    }
    let held = client.connection.backlog();
    assert!(held < limits.backlog + 2 * MIB, "{held} bytes");
    assert!(running.len() > 80, "the other requests wait");
    let mut answered = 0;
    while !running.is_empty() {
        answered += std::iter::from_fn(|| client.connection.next_frame()).count();
        running.retain_mut(|chain| chain.as_mut().poll(&mut context).is_pending());
    }
    answered += std::iter::from_fn(|| client.connection.next_frame()).count();
    assert_eq!(answered, 100);
}

#[test]
fn a_user_above_their_share_is_refused_and_others_are_not() {
    let server = server(Limits { memory: Limits::LEAST_MEMORY, ..Limits::default() });
    let mut alice = TestClient::logged_on(&server, "alice");
    let mut bob = TestClient::logged_on(&server, "bob");
    rich(&mut bob);
    let of_bob = file(&mut bob);
    rich(&mut alice);
    let of_alice = alice.open("file", AccessMask::FILE_READ_DATA);
    let payer = server.sessions.get(alice.session_id).expect("a session").payer();
    let mut held = Vec::new();
    while let Ok(charge) = payer.charge(Resource::Listings, MIB / 2) {
        held.push(charge);
    }
    let message = read(&mut alice, of_alice);
    let refused = alice.send(&message);
    assert_eq!(status(refused.last().expect("an answer")), Status::INSUFFICIENT_RESOURCES);
    let message = read(&mut bob, of_bob);
    assert_eq!(status(bob.send(&message).last().expect("an answer")), Status::SUCCESS);
    drop(held);
    let message = read(&mut alice, of_alice);
    assert_eq!(status(alice.send(&message).last().expect("an answer")), Status::SUCCESS);
}

#[test]
fn an_anonymous_user_gets_no_more_than_a_client_before_its_logon() {
    let server = server(Limits::default());
    let mut client = TestClient::new(&server);
    client.negotiate(SecurityMode::SIGNING_ENABLED);
    assert_eq!(client.log_on_anonymously(), Status::SUCCESS);
    assert!(!client.connection.is_logged_on() && client.connection.has_session());
    assert_eq!(client.tree_connect("IPC$"), Status::SUCCESS);
    let mut header = Header::request(Command::NEGOTIATE, 0);
    for _ in 0..10 {
        let message = charged(&mut client, Command::TREE_CONNECT, 1, |out| out.zeros(8));
        header = Header::decode(client.send(&message).last().expect("an answer")).expect("a header");
    }
    assert_eq!(header.credits, 1, "the client has the maximum of credits");
    let name = utf16_bytes("srvsvc");
    let mut pipes = 0;
    while status(&client.request(Command::CREATE, |out| create(&name).encode(out))) == Status::SUCCESS {
        pipes += 1;
    }
    assert_eq!(pipes, Limits::default().pipes_per_anonymous_session);
}

#[test]
fn anonymous_users_leave_opens_for_others() {
    let limits = Limits { opens: 1000, pipes: 160, ..Limits::default() };
    let server = server(limits);
    let name = utf16_bytes("srvsvc");
    let mut clients: Vec<TestClient> = Vec::new();
    let mut pipes = 0;
    for _ in 0..10 {
        let mut client = TestClient::new(&server);
        client.negotiate(SecurityMode::SIGNING_ENABLED);
        client.log_on_anonymously();
        client.tree_connect("IPC$");
        while status(&client.request(Command::CREATE, |out| create(&name).encode(out))) == Status::SUCCESS {
            pipes += 1;
        }
        clients.push(client);
    }
    assert_eq!(pipes, 5, "half of a sixteenth, because all come from one address");
    let mut alice = TestClient::logged_on(&server, "alice");
    alice.tree_connect("IPC$");
    assert_eq!(status(&alice.request(Command::CREATE, |out| create(&name).encode(out))), Status::SUCCESS);
}

/// The server keeps the dialects that a client offers.
#[test]
fn a_client_cannot_offer_many_dialects() {
    let server = server(Limits::default());
    for (count, expected) in [
        (1, Status::SUCCESS),
        (64, Status::SUCCESS),
        (65, Status::INVALID_PARAMETER),
        (60_000, Status::INVALID_PARAMETER),
    ] {
        let mut client = TestClient::new(&server);
        let mut dialects = vec![Dialect(0x0100); count - 1];
        dialects.push(Dialect::SMB_2_1);
        let negotiate = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities(0),
            client_guid: [7; 16],
            dialects,
            negotiate_context_list: Vec::new(),
        };
        let response = client.request(Command::NEGOTIATE, |out| negotiate.encode(out));
        assert_eq!(status(&response), expected, "{count} dialects");
        if expected == Status::SUCCESS {
            assert_eq!(client.log_on("alice", PASSWORD, 0), Status::SUCCESS);
        }
    }
}

#[test]
fn an_echo_is_answered_a_few_times_before_a_logon() {
    let limits = Limits::default();
    let server = server(limits.clone());
    let mut client = TestClient::new(&server);
    client.negotiate(SecurityMode::SIGNING_ENABLED);
    for _ in 0..limits.echoes_before_logon {
        assert_eq!(status(&client.request(Command::ECHO, |out| EchoRequest.encode(out))), Status::SUCCESS);
    }
    let message = client.compose(Command::ECHO, |out| EchoRequest.encode(out));
    client.send(&message);
    assert!(client.connection.ended().is_some());
    let mut alice = TestClient::logged_on(&server, "alice");
    for _ in 0..100 {
        assert_eq!(status(&alice.request(Command::ECHO, |out| EchoRequest.encode(out))), Status::SUCCESS);
    }
}

#[test]
fn one_user_leaves_opens_for_others() {
    let server = server(Limits { opens: 100, ..Limits::default() });
    let mut alice = TestClient::logged_on(&server, "alice");
    let opens = (0..200).filter(|number| {
        let name = utf16_bytes(&format!("file{number}"));
        status(&alice.request(Command::CREATE, |out| create(&name).encode(out))) == Status::SUCCESS
    });
    assert_eq!(opens.count(), 50);
    let mut bob = TestClient::logged_on(&server, "bob");
    let name = utf16_bytes("of bob");
    assert_eq!(status(&bob.request(Command::CREATE, |out| create(&name).encode(out))), Status::SUCCESS);
    alice.disconnect();
    bob.disconnect();
    assert_eq!((server.accounting.held(Resource::Opens), server.accounting.memory()), (0, 0));
}

#[test]
fn one_user_leaves_connections_for_others() {
    let server = server(Limits { connections: 16, ..Limits::default() });
    let mut connections = Vec::new();
    let mut log_on = |user: &str| {
        let mut client = TestClient::new(&server);
        client.negotiate(SecurityMode::SIGNING_ENABLED);
        let status = client.log_on(user, testing::PASSWORD, 0);
        connections.push(client);
        status
    };
    let alice: Vec<_> = (0..10).map(|_| log_on("alice")).collect();
    assert_eq!(alice[..8], [Status::SUCCESS; 8]);
    assert_eq!(alice[8..], [Status::INSUFFICIENT_RESOURCES; 2]);
    assert_eq!(log_on("bob"), Status::SUCCESS);
    connections.into_iter().for_each(TestClient::disconnect);
    assert_eq!((server.accounting.held(Resource::Connections), server.accounting.memory()), (0, 0));
}

#[test]
fn a_file_whose_allocation_does_not_fit_is_removed() {
    let server = TestServer::builder().share(|share| share.sync.strict_allocate = true).start();
    let mut client = TestClient::logged_on(&server, "alice");
    let name = utf16_bytes("large");
    let context = AllocationSize { allocation_size: 1 << 40 }.to_context();
    let large = CreateRequest { create_contexts: vec![context], ..create(&name) };
    assert_eq!(status(&client.request(Command::CREATE, |out| large.encode(out))), Status::DISK_FULL);
    let again = CreateRequest { create_disposition: CreateDisposition::OPEN, ..create(&name) };
    let opened = client.request(Command::CREATE, |out| again.encode(out));
    assert_eq!(status(&opened), Status::OBJECT_NAME_NOT_FOUND);
}

/// A file that is made before its CREATE is refused is a new entry of its directory, whose lease is broken.
#[test]
fn a_file_that_stays_after_a_refused_create_breaks_directory_leases() {
    let server = server(Limits { opens_per_session: 2, ..Limits::default() });
    let mut holder = TestClient::new(&server);
    (holder.dialect, holder.capabilities) = (Dialect::SMB_3_1_1, Capabilities::DIRECTORY_LEASING);
    let (mut holder, mut client) = (holder.ready("alice"), TestClient::logged_on(&server, "alice"));
    let names = ["dir", r"dir\last", r"dir\refused"].map(utf16_bytes);
    let lease = LeaseV2 {
        lease_key: [1; 16],
        lease_state: LeaseState(3),
        flags: LeaseFlags::NONE,
        parent_lease_key: [0; 16],
        epoch: 0,
    };
    let directory = CreateRequest { create_options: CreateOptions::DIRECTORY_FILE, ..create(&names[0]) };
    let leased = CreateRequest {
        requested_oplock_level: OplockLevel::LEASE,
        desired_access: AccessMask::FILE_READ_DATA.0,
        create_contexts: vec![lease.to_context()],
        ..directory.clone()
    };
    assert_eq!(status(&client.request(Command::CREATE, |out| directory.encode(out))), Status::SUCCESS);
    assert_eq!(status(&client.request(Command::CREATE, |out| create(&names[1]).encode(out))), Status::SUCCESS);
    assert_eq!(status(&holder.request(Command::CREATE, |out| leased.encode(out))), Status::SUCCESS);
    assert!(holder.proceed().is_empty());
    let refused = client.request(Command::CREATE, |out| create(&names[2]).encode(out));
    assert_eq!(status(&refused), Status::INSUFFICIENT_RESOURCES);
    assert_eq!(holder.proceed().len(), 1, "the lease is broken");
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[(
        "few_responses_are_queued_for_a_client_that_reads_none",
        "requests whose storage answers later are in progress together; the driver limits them (`in_flight_bytes`)",
    )]);
}
