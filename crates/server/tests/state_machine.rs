//! The state machine in isolation: no sockets, no runtime, an in-memory file system ([MS-SMB2] 3.3.5).

use proto::bytes::utf16_bytes;
use proto::smb2::FileId;
use proto::smb2::cancel::CancelRequest;
use proto::smb2::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, ImpersonationLevel, ShareAccess};
use proto::smb2::echo::EchoRequest;
use proto::smb2::header::{Command, Header};
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::negotiate::{Capabilities, Dialect, NegotiateRequest, NegotiateResponse, SecurityMode};
use proto::smb2::tree_disconnect::TreeDisconnectRequest;
use proto::status::Status;
use server::policy::{Guest, Limits, MapToGuest, Policy, Signing};
use server::testing::{self, PASSWORD, TestClient, TestServer, chain, status};
use server::vfs::Identity;

fn create(name: &[u8]) -> CreateRequest<'_> {
    CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: 0x0013_019f,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        name,
        ..CreateRequest::default()
    }
}

fn close(file_id: FileId) -> CloseRequest {
    CloseRequest { flags: CloseFlags::NONE, file_id }
}

#[test]
fn no_request_is_answered_before_negotiate() {
    let server = TestServer::new();
    for command in [Command::SESSION_SETUP, Command::ECHO, Command::CREATE, Command::LOGOFF] {
        let mut client = TestClient::new(&server);
        let message = client.compose(command, |out| EchoRequest.encode(out));
        assert!(client.send(&message).is_empty());
        assert!(client.connection.ended().is_some(), "{command:?}");
    }
}

#[test]
fn a_second_negotiate_ends_the_connection() {
    let server = TestServer::new();
    let mut client = TestClient::new(&server);
    client.negotiate(SecurityMode::SIGNING_ENABLED);
    let message = client.compose(Command::NEGOTIATE, |out| out.zeros(64));
    client.send(&message);
    assert!(client.connection.ended().is_some());
}

/// [MS-SMB2] 3.3.5.4: some clients fail if they are offered a capability that they did not request.
#[test]
fn directory_leases_and_channels_are_offered_on_request() {
    let server = TestServer::new();
    let special = Capabilities::DIRECTORY_LEASING | Capabilities::MULTI_CHANNEL;
    for asked in [Capabilities(0), special] {
        let negotiate = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: asked,
            client_guid: [7; 16],
            dialects: vec![Dialect::SMB_3_0],
            negotiate_context_list: Vec::new(),
        };
        let response = TestClient::new(&server).request(Command::NEGOTIATE, |out| negotiate.encode(out));
        let offered = NegotiateResponse::decode(&response).expect("a response").capabilities;
        assert!(offered.contains(Capabilities::LEASING));
        assert_eq!(offered & special, asked);
    }
}

#[test]
fn a_message_id_is_used_once() {
    let server = TestServer::new();
    let mut client = TestClient::logged_on(&server, "alice");
    let echo = client.compose(Command::ECHO, |out| EchoRequest.encode(out));
    assert_eq!(status(&client.send(&echo)[0]), Status::SUCCESS);
    assert!(client.send(&echo).is_empty());
    assert!(client.connection.ended().is_some());
}

#[test]
fn users_that_may_log_on() {
    let server = TestServer::new();
    let check = |user, password, expected| {
        let mut client = TestClient::new(&server);
        client.negotiate(SecurityMode::SIGNING_ENABLED);
        assert_eq!(client.log_on(user, password, 0), expected, "{user} {password}");
    };
    check("alice", PASSWORD, Status::SUCCESS);
    check("ALICE", PASSWORD, Status::SUCCESS);
    check("alice", "wrong", Status::LOGON_FAILURE);
    check("nobody", PASSWORD, Status::LOGON_FAILURE);
    check("carol", PASSWORD, Status::ACCOUNT_DISABLED);
    // A user without the password must not learn that the account is disabled.
    check("carol", "wrong", Status::LOGON_FAILURE);
}

#[test]
fn a_failed_logon_leaves_no_session() {
    let server = TestServer::new();
    let mut client = TestClient::new(&server);
    client.negotiate(SecurityMode::SIGNING_ENABLED);
    client.log_on("alice", "wrong", 0);
    assert!(server.sessions.all().is_empty());
    assert_eq!(client.tree_connect("share"), Status::USER_SESSION_DELETED);
}

#[test]
fn unsigned_requests_are_refused_if_signing_is_required() {
    let policy = Policy { server_signing: Signing::Required, ..testing::policy() };
    let server = TestServer::with_policy(policy);
    let mut client = TestClient::new(&server);
    client.negotiate(SecurityMode::SIGNING_ENABLED);
    assert_eq!(client.log_on("alice", PASSWORD, 0), Status::SUCCESS);
    assert_eq!(client.tree_connect("share"), Status::ACCESS_DENIED);
}

#[test]
fn a_previous_session_ends_only_for_the_same_user() {
    let server = TestServer::new();
    let first = TestClient::logged_on(&server, "alice");
    let mut thief = TestClient::new(&server);
    thief.negotiate(SecurityMode::SIGNING_ENABLED);
    assert_eq!(thief.log_on("bob", PASSWORD, first.session_id), Status::SUCCESS);
    assert!(server.sessions.get(first.session_id).is_some(), "bob cannot end alice's session");
    let mut again = TestClient::new(&server);
    again.negotiate(SecurityMode::SIGNING_ENABLED);
    assert_eq!(again.log_on("alice", PASSWORD, first.session_id), Status::SUCCESS);
    assert!(server.sessions.get(first.session_id).is_none(), "alice is back");
}

#[test]
fn a_guest_does_not_end_the_session_of_the_account_that_they_named() {
    let identity = std::sync::Arc::new(Identity { uid: 1000, gid: 1000, groups: Box::new([]) });
    let guest = Some(Guest { name: "alice".into(), identity });
    let policy = Policy { map_to_guest: MapToGuest::BadPassword, guest, ..testing::policy() };
    let server = TestServer::with_policy(policy);
    let first = TestClient::logged_on(&server, "alice");
    let log_on = |password, previous| {
        let mut client = TestClient::new(&server);
        client.negotiate(SecurityMode::SIGNING_ENABLED);
        assert_eq!(client.log_on("alice", password, previous), Status::SUCCESS);
        client
    };
    let guest = log_on("wrong", first.session_id);
    assert!(server.sessions.get(first.session_id).is_some(), "the guest knew no password");
    let _again = log_on("wrong", guest.session_id);
    assert!(server.sessions.get(guest.session_id).is_none(), "guests are not distinguished");
}

#[test]
fn a_related_chain_uses_the_file_that_it_opened() {
    let server = TestServer::new();
    let mut client = TestClient::logged_on(&server, "alice");
    let name = utf16_bytes("file");
    let requests = [
        client.compose(Command::CREATE, |out| create(&name).encode(out)),
        client.compose(Command::CLOSE, |out| close(FileId::ANY).encode(out)),
    ];
    let frames = client.send(&chain(&requests, true));
    assert_eq!(statuses(&frames), [Status::SUCCESS, Status::SUCCESS]);
    assert_eq!(server.open_count(), 0);
}

/// ksmbd's CVE-2026-23428: the tree connect or session is removed in the middle of a chain that continues to use it.
#[test]
fn a_teardown_at_any_position_of_a_chain() {
    let name = utf16_bytes("file");
    for place in 0..4 {
        for teardown in [Command::TREE_DISCONNECT, Command::LOGOFF] {
            for related in [true, false] {
                let server = TestServer::new();
                let mut client = TestClient::logged_on(&server, "alice");
                let mut requests = vec![
                    client.compose(Command::CREATE, |out| create(&name).encode(out)),
                    client.compose(Command::CREATE, |out| create(&name).encode(out)),
                    client.compose(Command::CLOSE, |out| close(FileId::ANY).encode(out)),
                ];
                let end = client.compose(teardown, |out| match teardown {
                    Command::LOGOFF => LogoffRequest.encode(out),
                    _ => TreeDisconnectRequest.encode(out),
                });
                requests.insert(place, end);
                // MessageIds may be used in any order, so the insertion is legal.
                client.send(&chain(&requests, related));
                client.disconnect();
                assert_eq!(server.open_count(), 0, "{teardown:?} at {place}, related: {related}");
            }
        }
    }
}

#[test]
fn a_waiting_request_is_cancelled() {
    let server = TestServer::new();
    let mut client = TestClient::logged_on(&server, "alice");
    let mut directory = create(&[]);
    directory.create_options = CreateOptions::DIRECTORY_FILE;
    directory.desired_access = 0x0012_0089;
    let response = client.request(Command::CREATE, |out| directory.encode(out));
    let opened = proto::smb2::create::CreateResponse::decode(&response).expect("the root can be opened");
    let notify = ChangeNotifyRequest {
        flags: ChangeNotifyFlags::NONE,
        output_buffer_length: 4096,
        file_id: opened.file_id,
        completion_filter: CompletionFilter(0xfff),
    };
    let message = client.compose(Command::CHANGE_NOTIFY, |out| notify.encode(out));
    let id = client.next_message - 1;
    assert_eq!(statuses(&client.send(&message)), [Status::PENDING]);
    assert!(client.proceed().is_empty(), "nothing has changed yet");
    let mut cancel = client.header(Command::CANCEL);
    client.next_message -= 1;
    cancel.message_id = id;
    let mut message = Vec::new();
    let mut out = proto::bytes::Writer::new(&mut message);
    cancel.encode(&mut out);
    CancelRequest.encode(&mut out);
    assert_eq!(statuses(&client.send(&message)), [Status::CANCELLED]);
}

#[test]
fn limits_refuse_requests_and_harm_no_client() {
    let limits = Limits { trees_per_session: 2, opens_per_session: 3, ..Limits::default() };
    let server = TestServer::with_policy(Policy { limits, ..testing::policy() });
    let mut client = TestClient::logged_on(&server, "alice");
    let first = client.tree_id;
    assert_eq!(client.tree_connect("share"), Status::SUCCESS);
    assert_eq!(client.tree_connect("share"), Status::INSUFFICIENT_RESOURCES);
    client.tree_id = first;
    let name = utf16_bytes("file");
    let open = |client: &mut TestClient| status(&client.request(Command::CREATE, |out| create(&name).encode(out)));
    for _ in 0..3 {
        assert_eq!(open(&mut client), Status::SUCCESS);
    }
    assert_eq!(open(&mut client), Status::INSUFFICIENT_RESOURCES);
    assert_eq!(server.open_count(), 3);
    client.disconnect();
    assert_eq!(server.open_count(), 0);
    assert!(server.sessions.all().is_empty());
}

/// Returns the statuses of all responses, including those in compounds.
fn statuses(frames: &[Vec<u8>]) -> Vec<Status> {
    let mut found = Vec::new();
    for frame in frames {
        let mut rest = &frame[..];
        loop {
            let header = Header::decode(rest).expect("a response has a header");
            found.push(header.status);
            match header.next_command as usize {
                0 => break,
                next => rest = &rest[next..],
            }
        }
    }
    found
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
