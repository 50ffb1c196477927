//! Kerberos as clients see it: which mechanism is selected, the responses to invalid tickets, and what happens when a
//! ticket expires ([MS-SMB2] 3.3.5.5.3, 3.3.5.2.9, 3.3.5.5.2; RFC 4178 5). The tickets are of a realm without
//! cryptography.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::auth::spnego::{MechType, NegState, NegTokenResp, Token, encode_init, encode_mech_types};
use proto::bytes::utf16_bytes;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::create_context::{
    CreateContext, DurableHandleFlags, DurableHandleReconnectV2, DurableHandleRequestV2,
};
use proto::smb2::header::{Command, Flags};
use proto::smb2::lock::{LockElement, LockFlags, LockRequest};
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::negotiate::Dialect;
use proto::smb2::session_setup::SessionSetupResponse;
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;
use server::answer::Answer;
use server::testing::{self, ManualClock, Message, PASSWORD, PipelinedClient, TestServer};
use server::tickets::{Cause, ClientName, Refusal, Signatures, Ticket, Tickets};

const KERBEROS: MechType<'static> = MechType::KERBEROS;
const MS_KERBEROS: MechType<'static> = MechType::MS_KERBEROS;
const NTLMSSP: MechType<'static> = MechType::NTLMSSP;
const NEGOEX: MechType<'static> = MechType::NEGOEX;
/// The response to the realm's tickets.
const REPLY: &[u8] = b"here is the server";

/// A realm whose tickets are words: `alice`, `alice for 60`, `alice of OTHER`, or the name of their defect.
struct Realm {
    ready: AtomicBool,
}

impl Tickets for Realm {
    fn ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    fn accept(&self, token: Vec<u8>) -> Answer<Result<Ticket, Refusal>> {
        let token = String::from_utf8_lossy(&token).into_owned();
        let refusal = |cause, reply: &[u8]| Refusal { cause, why: token.clone(), reply: reply.to_vec() };
        let refused = match &token[..] {
            "clock" => Some(refusal(Cause::Clock, b"the time is noon")),
            "clock without a word" => Some(refusal(Cause::Clock, b"")),
            "ended" => Some(refusal(Cause::Time, b"so it is")),
            "no key" => Some(refusal(Cause::Other, b"")),
            "no keytab" => Some(refusal(Cause::Unavailable, b"")),
            _ => None,
        };
        Answer::now(match refused {
            Some(refusal) => Err(refusal),
            None => Ok(ticket(&token)),
        })
    }
}

fn ticket(token: &str) -> Ticket {
    let (rest, seconds) = token.split_once(" for ").map_or((token, None), |(rest, seconds)| (rest, Some(seconds)));
    let (name, realm) = rest.split_once(" of ").unwrap_or((rest, "REALM"));
    let components = name.split('/').map(str::to_owned).collect();
    Ticket {
        client: ClientName { components, realm: realm.into(), own_realm: realm == "REALM" },
        logon: None,
        reply: REPLY.to_vec(),
        key: vec![7; 32].into(),
        lifetime: seconds.map(|seconds| Duration::from_secs(seconds.parse().expect("a number"))),
        signatures: Box::new(Scribe),
    }
}

struct Scribe;

impl Signatures for Scribe {
    fn sign(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        Some([b"server", message].concat())
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> bool {
        signature == [b"client", message].concat()
    }
}

fn server_with_tickets() -> (TestServer, Arc<Realm>) {
    let realm = Arc::new(Realm { ready: AtomicBool::new(true) });
    let server = TestServer::builder().clock(ManualClock::new()).tickets(realm.clone()).start();
    (server, realm)
}

fn init(list: &[MechType<'_>], token: Option<&str>) -> Vec<u8> {
    encode_init(&encode_mech_types(list), token.map(str::as_bytes))
}

fn resp(token: Option<&str>, mic: Option<&[u8]>) -> Vec<u8> {
    NegTokenResp { response_token: token.map(str::as_bytes), mech_list_mic: mic, ..NegTokenResp::default() }.encode()
}

/// The response to a token: its status and its SPNEGO token.
struct Said(Message);

impl Said {
    #[track_caller]
    fn check(&self, status: Status, expected: NegTokenResp<'_>) {
        self.0.check(status);
        let response = SessionSetupResponse::decode(self.0.bytes()).expect("a well-formed message");
        assert_eq!(Token::decode(response.buffer), Ok(Token::Resp(expected)));
    }
}

#[track_caller]
fn say(client: &mut PipelinedClient, token: &[u8]) -> Said {
    let message = client.session_setup(token, false, 0);
    client.session_id = message.header().session_id;
    Said(message)
}

/// Logs on or reauthenticates with one token.
#[track_caller]
fn log_on(client: &mut PipelinedClient, ticket: &str) {
    say(client, &init(&[MS_KERBEROS, KERBEROS, NTLMSSP], Some(ticket))).0.check(Status::SUCCESS);
}

#[test]
fn kerberos_is_offered_while_there_are_keys() {
    let (server, realm) = server_with_tickets();
    let check = |expected: &[MechType<'_>]| {
        let client = server.connect();
        let Ok(Token::Init(hint)) = Token::decode(&client.negotiate_token) else { panic!("no hint") };
        assert_eq!(hint.mech_types, expected);
    };
    check(&[MS_KERBEROS, KERBEROS, NTLMSSP]);
    realm.ready.store(false, Ordering::Relaxed);
    check(&[NTLMSSP]);
    // A client that tries it nevertheless is told to use an available mechanism.
    let said = say(&mut server.connect(), &init(&[KERBEROS, NTLMSSP], Some("alice")));
    let (neg_state, supported_mech) = (Some(NegState::REQUEST_MIC), Some(NTLMSSP));
    said.check(Status::MORE_PROCESSING_REQUIRED, NegTokenResp { neg_state, supported_mech, ..NegTokenResp::default() });
    say(&mut server.connect(), &init(&[KERBEROS], Some("alice"))).0.check(Status::LOGON_FAILURE);
}

#[test]
fn a_ticket_sent_with_the_mechanism_list_is_enough() {
    let (server, _) = server_with_tickets();
    for list in [&[MS_KERBEROS, KERBEROS, NTLMSSP][..], &[KERBEROS], &[KERBEROS, NEGOEX]] {
        let mut client = server.connect();
        let neg_state = Some(NegState::ACCEPT_COMPLETED);
        let (supported_mech, response_token) = (list.first().copied(), Some(REPLY));
        say(&mut client, &init(list, Some("alice")))
            .check(Status::SUCCESS, NegTokenResp { neg_state, supported_mech, response_token, mech_list_mic: None });
        client.tree_connect();
        client.open("file", OplockLevel::NONE);
    }
}

#[test]
fn a_list_that_prefers_another_mechanism_is_signed_by_both() {
    let (server, _) = server_with_tickets();
    let list = [NEGOEX, MS_KERBEROS, NTLMSSP];
    let der = encode_mech_types(&list);
    let (theirs, ours) = ([b"client", &der[..]].concat(), [b"server", &der[..]].concat());
    for (mic, status) in
        [(Some(&theirs[..]), Status::SUCCESS), (Some(&ours[..]), Status::LOGON_FAILURE), (None, Status::LOGON_FAILURE)]
    {
        let mut client = server.connect();
        // The token is for NEGOEX, which the server does not read.
        say(&mut client, &init(&list, Some("bob"))).check(
            Status::MORE_PROCESSING_REQUIRED,
            NegTokenResp {
                neg_state: Some(NegState::REQUEST_MIC),
                supported_mech: Some(MS_KERBEROS),
                ..NegTokenResp::default()
            },
        );
        say(&mut client, &resp(Some("alice"), None)).check(
            Status::MORE_PROCESSING_REQUIRED,
            NegTokenResp {
                neg_state: Some(NegState::ACCEPT_INCOMPLETE),
                supported_mech: None,
                response_token: Some(REPLY),
                mech_list_mic: Some(&ours),
            },
        );
        let last = say(&mut client, &resp(None, mic));
        last.0.check(status);
        if status == Status::SUCCESS {
            let neg_state = Some(NegState::ACCEPT_COMPLETED);
            last.check(status, NegTokenResp { neg_state, ..NegTokenResp::default() });
            client.tree_connect();
        }
    }
}

#[test]
fn tickets_that_are_refused() {
    let (server, _) = server_with_tickets();
    for (ticket, status) in [
        ("ended", Status::LOGON_FAILURE),
        ("no key", Status::LOGON_FAILURE),
        ("no keytab", Status::NO_LOGON_SERVERS),
        ("clock without a word", Status::TIME_DIFFERENCE_AT_DC),
        ("nobody", Status::LOGON_FAILURE),
        ("alice of OTHER", Status::LOGON_FAILURE),
        ("alice/admin", Status::LOGON_FAILURE),
    ] {
        let mut client = server.connect();
        let message = client.session_setup(&init(&[KERBEROS], Some(ticket)), false, 0);
        assert_eq!(message.header().status, status, "{ticket}");
        assert!(server.sessions.all().is_empty(), "{ticket}");
    }
    say(&mut server.connect(), &resp(Some("alice"), None)).0.check(Status::INVALID_PARAMETER);
}

/// The UNIX user with a realm user's name may be a system account of this host.
#[test]
fn a_realm_user_is_never_a_system_account() {
    for (least, expected) in [(1500, Status::SUCCESS), (1501, Status::LOGON_FAILURE)] {
        let realm = Arc::new(Realm { ready: AtomicBool::new(true) });
        let server = TestServer::builder()
            .clock(ManualClock::new())
            .tickets(realm)
            .configure(|policy| policy.min_domain_uid = least)
            .start();
        say(&mut server.connect(), &init(&[KERBEROS], Some("nora"))).0.check(expected);
    }
}

/// `ntlm auth = disabled`.
#[test]
fn without_ntlm_only_kerberos_is_offered() {
    let realm = Arc::new(Realm { ready: AtomicBool::new(true) });
    let server =
        TestServer::builder().clock(ManualClock::new()).tickets(realm).configure(|policy| policy.ntlm = false).start();
    let mut client = server.connect();
    let Ok(Token::Init(offered)) = Token::decode(&client.negotiate_token) else {
        panic!("the token has no mechanism list")
    };
    assert_eq!(offered.mech_types, [MS_KERBEROS, KERBEROS]);
    say(&mut client, &init(&[NTLMSSP], None)).0.check(Status::NTLM_BLOCKED);
    client.session_id = 0;
    say(&mut client, &init(&[NTLMSSP, KERBEROS], None)).0.check(Status::MORE_PROCESSING_REQUIRED);
}

#[test]
fn a_client_gets_the_server_time_once() {
    let (server, _) = server_with_tickets();
    for (second, status) in [("alice", Status::SUCCESS), ("clock", Status::TIME_DIFFERENCE_AT_DC)] {
        let mut client = server.connect();
        say(&mut client, &init(&[KERBEROS], Some("clock"))).check(
            Status::MORE_PROCESSING_REQUIRED,
            NegTokenResp {
                neg_state: Some(NegState::ACCEPT_INCOMPLETE),
                supported_mech: Some(KERBEROS),
                response_token: Some(b"the time is noon"),
                mech_list_mic: None,
            },
        );
        say(&mut client, &resp(Some(second), None)).0.check(status);
    }
}

/// 3.3.5.2.9: what a client may still do, and that reauthentication restores the session with all opens intact.
#[test]
fn a_session_expires_with_its_ticket_and_continues_with_the_next() {
    let (server, _) = server_with_tickets();
    let mut client = server.connect();
    log_on(&mut client, "alice for 60");
    client.tree_connect();
    let (kept, _) = client.open("kept", OplockLevel::NONE);
    let (closed, _) = client.open("closed", OplockLevel::NONE);
    lock(&mut client, kept, LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY).check(Status::SUCCESS);
    server.advance_seconds(59);
    client.open("in time", OplockLevel::NONE);
    server.advance_seconds(1);
    let create = |client: &mut PipelinedClient| {
        let message = client.create("late", CreateDisposition::OPEN_IF, OplockLevel::NONE, Flags(0));
        assert!(client.send(&message));
        client.receive().header().status
    };
    assert_eq!(create(&mut client), Status::NETWORK_SESSION_EXPIRED);
    // Locks can be released but not taken.
    for (flags, status) in [
        (LockFlags::UNLOCK, Status::SUCCESS),
        (LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY, Status::NETWORK_SESSION_EXPIRED),
    ] {
        lock(&mut client, kept, flags).check(status);
    }
    close(&mut client, closed).check(Status::SUCCESS);
    let session_id = client.session_id;
    log_on(&mut client, "alice for 60");
    assert_eq!(client.session_id, session_id);
    assert_eq!(create(&mut client), Status::SUCCESS);
    close(&mut client, kept).check(Status::SUCCESS);
    // Each authentication has its own expiry, and the latest applies.
    server.advance_seconds(30);
    log_on(&mut client, "alice for 600");
    server.advance_seconds(60);
    assert_eq!(create(&mut client), Status::SUCCESS);
    client.log_on("alice", PASSWORD, false, 0).check(Status::SUCCESS);
    server.advance_seconds(6000);
    assert_eq!(create(&mut client), Status::SUCCESS, "a password logon does not expire");
}

#[test]
fn a_client_with_an_expired_session_may_log_off() {
    let (server, _) = server_with_tickets();
    let mut client = server.connect();
    log_on(&mut client, "alice for 1");
    client.tree_connect();
    client.open("file", OplockLevel::NONE);
    server.advance_seconds(1);
    client.request(Command::LOGOFF, |out| LogoffRequest.encode(out)).check(Status::SUCCESS);
    assert_eq!((server.open_count(), server.sessions.all().len()), (0, 0));
}

#[test]
fn a_later_ticket_that_is_refused_ends_the_session() {
    let (server, _) = server_with_tickets();
    let mut client = server.connect();
    log_on(&mut client, "alice for 1");
    client.tree_connect();
    client.open("file", OplockLevel::NONE);
    server.advance_seconds(1);
    say(&mut client, &init(&[KERBEROS], Some("no key"))).0.check(Status::LOGON_FAILURE);
    assert_eq!((server.open_count(), server.sessions.all().len()), (0, 0));
}

#[track_caller]
fn lock(client: &mut PipelinedClient, file_id: FileId, flags: LockFlags) -> Message {
    let locks = vec![LockElement { offset: 0, length: 1, flags }];
    client.request(Command::LOCK, |out| LockRequest { lock_sequence: 0, file_id, locks }.encode(out))
}

#[track_caller]
fn close(client: &mut PipelinedClient, file_id: FileId) -> Message {
    client.request(Command::CLOSE, |out| CloseRequest { flags: CloseFlags(0), file_id }.encode(out))
}

/// A user without an account has no password and is identified by tickets only. Their persistent opens survive
/// nevertheless.
#[test]
fn a_persistent_open_of_a_user_without_an_account_outlives_the_server() {
    let realm = Arc::new(Realm { ready: AtomicBool::new(true) });
    let mut server = TestServer::builder()
        .clock(ManualClock::new())
        .tickets(realm)
        .share(|share| (share.handles.continuously_available, share.locks.posix_locking) = (true, false))
        .start();
    let come = |server: &TestServer, ticket: &str, contexts: Vec<CreateContext<'static>>| {
        let mut client = server.connect_as(Dialect::SMB_3_0, [7; 16]);
        log_on(&mut client, ticket);
        client.tree_connect();
        let name = utf16_bytes("file");
        let create = CreateRequest {
            desired_access: 0x001f_01ff,
            share_access: ShareAccess(7),
            create_disposition: CreateDisposition::OPEN_IF,
            name: &name,
            create_contexts: contexts,
            ..CreateRequest::default()
        };
        let message = client.request(Command::CREATE, |out| create.encode(out));
        let response = CreateResponse::decode(message.bytes()).map(|response| response.file_id);
        (message.header().status, response.unwrap_or_default())
    };
    let (flags, create_guid) = (DurableHandleFlags::PERSISTENT, [5; 16]);
    let asked = DurableHandleRequestV2 { timeout: 0, flags, create_guid }.to_context();
    let (status, file_id) = come(&server, "nora", vec![asked]);
    assert_eq!((status, server.store.records.lock().len()), (Status::SUCCESS, 1));
    server.crash();
    assert_eq!(server.open_count(), 1);
    let again = DurableHandleReconnectV2 { file_id, create_guid, flags }.to_context();
    assert_eq!(come(&server, "bob", vec![again.clone()]).0, Status::ACCESS_DENIED);
    assert_eq!(come(&server, "nora", vec![again]).0, Status::SUCCESS);
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
