mod peer;

use std::sync::Arc;

use proto::bytes::utf16_bytes;
use proto::fscc::FileInformationClass;
use proto::mac::aapl::{Parts, ServerCapabilities, ServerQuery};
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess};
use proto::smb2::create_context::CreateContext;
use proto::smb2::header::{Command, Header};
use proto::smb2::ioctl::{FsctlCode, IoctlFlags, IoctlRequest, IoctlResponse, NetworkInterfaceInfo};
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::negotiate::{Dialect, SigningAlgorithm};
use proto::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use proto::smb2::read::ReadRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;

use self::peer::{Known, Peer};
use crate::accounting::Resource;
use crate::answer::block_on;
use crate::command::logoff::end_session;
use crate::interfaces::{Interface, Interfaces};
use crate::state::Server;
use crate::state::session::{LOGON_BYTES, Phase};
use crate::testing::{self, ManualClock, PASSWORD, TestServer, status};
use crate::vfs::faulty::{Fault, Faulty, Operation, Script, Wait};

const NEWEST: Dialect = Dialect::SMB_3_1_1;

fn close(peer: &mut Peer, file_id: FileId) -> Status {
    let close = CloseRequest { flags: CloseFlags(0), file_id };
    status(&peer.request(Command::CLOSE, |out| close.encode(out)))
}

fn open(peer: &mut Peer, name: &str) -> FileId {
    peer.create(name, OplockLevel::NONE).expect("every user has permission")
}

fn log_off(peer: &mut Peer) -> Status {
    status(&peer.request(Command::LOGOFF, |out| LogoffRequest.encode(out)))
}

#[test]
fn a_file_opened_on_one_channel_is_used_on_another() {
    for dialect in [Dialect::SMB_3_0, Dialect::SMB_3_0_2, NEWEST] {
        let server = TestServer::new();
        let mut first = Peer::logged_on(&server, dialect, "alice");
        let mut second = Peer::channel_of(&server, &first);
        let (one, two) = (open(&mut first, "one"), open(&mut second, "two"));
        assert_eq!(close(&mut second, one), Status::SUCCESS, "{dialect:?}");
        assert_eq!(close(&mut first, two), Status::SUCCESS, "{dialect:?}");
        // The keys differ: a request signed with the other channel's key is refused.
        second.key = first.key.clone();
        assert_eq!(second.create("three", OplockLevel::NONE), Err(Status::ACCESS_DENIED), "{dialect:?}");
    }
}

/// Returns the field of the first entry of the root where Macs see the rights, and other clients see 0.
fn listed_rights(peer: &mut Peer, root: FileId) -> u32 {
    let query = QueryDirectoryRequest {
        file_information_class: FileInformationClass::ID_BOTH_DIRECTORY.0,
        flags: QueryDirectoryFlags::RESTART_SCANS,
        file_index: 0,
        file_id: root,
        file_name: b"*\0",
        output_buffer_length: 4096,
    };
    let response = peer.request(Command::QUERY_DIRECTORY, |out| query.encode(out));
    assert_eq!(status(&response), Status::SUCCESS);
    let entries = QueryDirectoryResponse::decode(&response).expect("a well-formed message").buffer;
    u32::from_le_bytes(entries[64..68].try_into().expect("four bytes"))
}

#[test]
fn extensions_that_a_mac_negotiates_on_one_channel_apply_to_all() {
    let server = TestServer::builder().configure(|policy| policy.mac.offered = true).start();
    let mut first = Peer::logged_on(&server, NEWEST, "alice");
    let mut second = Peer::channel_of(&server, &first);
    let mut root = |context: Option<CreateContext<'static>>| {
        let create = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: 0x81,
            share_access: ShareAccess(7),
            create_disposition: CreateDisposition::OPEN,
            create_contexts: context.into_iter().collect(),
            ..CreateRequest::default()
        };
        let response = first.request(Command::CREATE, |out| create.encode(out));
        CreateResponse::decode(&response).expect("the root can be opened").file_id
    };
    let file = root(None);
    assert_eq!(listed_rights(&mut second, file), 0);
    let client = ServerCapabilities::READ_DIR_ATTR;
    root(Some(ServerQuery { parts: Parts::SERVER_CAPABILITIES, client }.to_context()));
    assert_ne!(listed_rights(&mut second, file), 0);
}

/// `attack` tries to bind the session of its first argument. Afterwards the session must be unchanged.
fn check_refused(expected: Status, attack: impl FnOnce(&Arc<Server>, &mut Peer) -> (Peer, Status)) {
    let server = TestServer::new();
    let mut victim = Peer::logged_on(&server, NEWEST, "alice");
    let file = open(&mut victim, "file");
    let (mut attacker, status) = attack(&server, &mut victim);
    assert_eq!(status, expected);
    let session = server.sessions.get(victim.session().session_id).expect("the session still exists");
    assert_eq!(session.channel_count(), 1);
    attacker.pretend(&victim.session());
    for key in [None, victim.key.clone()] {
        attacker.key = key;
        assert_eq!(close(&mut attacker, file), Status::USER_SESSION_DELETED);
    }
    attacker.disconnect();
    assert_eq!(close(&mut victim, file), Status::SUCCESS);
}

#[test]
fn binding_requires_the_key_and_the_password() {
    let bind = |dialect: Dialect, user: &'static str, password: &'static str, with_key: bool| {
        move |server: &Arc<Server>, victim: &mut Peer| {
            let mut peer = Peer::new(server, dialect);
            let mut session = victim.session();
            session.key = session.key.filter(|_| with_key);
            let status = peer.bind(&session, user, password);
            (peer, status)
        }
    };
    check_refused(Status::INVALID_PARAMETER, bind(NEWEST, "alice", PASSWORD, false));
    check_refused(Status::LOGON_FAILURE, bind(NEWEST, "alice", "guess", true));
    check_refused(Status::ACCESS_DENIED, bind(NEWEST, "bob", PASSWORD, true));
    check_refused(Status::INVALID_PARAMETER, bind(Dialect::SMB_3_0, "alice", PASSWORD, true));
    check_refused(Status::REQUEST_NOT_ACCEPTED, bind(Dialect::SMB_2_1, "alice", PASSWORD, true));
    check_refused(Status::ACCESS_DENIED, |server, victim| {
        let other = Peer::logged_on(server, NEWEST, "bob");
        let mut peer = Peer::new(server, NEWEST);
        let session = Known { key: other.key.clone(), ..victim.session() };
        let status = peer.bind(&session, "alice", PASSWORD);
        (peer, status)
    });
}

#[test]
fn a_binding_that_failed_can_be_tried_again() {
    let server = TestServer::new();
    let first = Peer::logged_on(&server, NEWEST, "alice");
    let mut second = Peer::new(&server, NEWEST);
    assert_eq!(second.bind(&first.session(), "alice", "guess"), Status::LOGON_FAILURE);
    assert_eq!(second.bind(&first.session(), "alice", PASSWORD), Status::SUCCESS);
    // On its channel the channel's key signs, even a request to bind the channel again.
    assert_eq!(second.bind(&first.session(), "alice", PASSWORD), Status::ACCESS_DENIED);
    let known = Known { key: second.key.clone(), ..first.session() };
    assert_eq!(second.bind(&known, "alice", PASSWORD), Status::REQUEST_NOT_ACCEPTED);
}

#[test]
fn the_channels_of_a_session_are_bounded() {
    let server = TestServer::new();
    let limit = server.policy().limits.channels_per_session;
    let first = Peer::logged_on(&server, NEWEST, "alice");
    let mut others: Vec<Peer> = (1..limit).map(|_| Peer::channel_of(&server, &first)).collect();
    let mut one_more = Peer::new(&server, NEWEST);
    assert_eq!(one_more.bind(&first.session(), "alice", PASSWORD), Status::INSUFFICIENT_RESOURCES);
    others.pop().expect("one").disconnect();
    assert_eq!(one_more.bind(&first.session(), "alice", PASSWORD), Status::SUCCESS);
}

#[test]
fn the_bindings_in_progress_are_bounded_and_charged() {
    let mut policy = testing::policy();
    policy.limits.logons_before_logon = 3;
    let server = TestServer::with_policy(policy);
    let sessions: Vec<Peer> = (0..6).map(|_| Peer::logged_on(&server, NEWEST, "alice")).collect();
    let before = server.accounting.held(Resource::Logons);
    let mut peer = Peer::new(&server, NEWEST);
    for session in &sessions {
        assert_eq!(peer.begin_to_bind(&session.session()), Status::MORE_PROCESSING_REQUIRED);
    }
    assert_eq!(peer.connection().state.lock().bindings.len(), 3);
    assert_eq!(server.accounting.held(Resource::Logons) - before, 3 * LOGON_BYTES);
    // The first one was aborted, so the client begins anew.
    assert_eq!(peer.bind(&sessions[0].session(), "alice", PASSWORD), Status::SUCCESS);
    peer.disconnect();
    assert_eq!(server.accounting.held(Resource::Logons), before);
}

#[test]
fn without_the_parameter_nothing_is_bound() {
    let mut policy = testing::policy();
    policy.server_multi_channel_support = false;
    let server = TestServer::with_policy(policy);
    let first = Peer::logged_on(&server, NEWEST, "alice");
    let mut second = Peer::new(&server, NEWEST);
    assert_eq!(second.bind(&first.session(), "alice", PASSWORD), Status::REQUEST_NOT_ACCEPTED);
}

#[test]
fn a_session_lives_as_long_as_a_channel() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let server = TestServer::new();
        let mut first = Peer::logged_on(&server, NEWEST, "alice");
        open(&mut first, "file");
        let second = Peer::channel_of(&server, &first);
        let third = Peer::channel_of(&server, &first);
        let mut peers = [Some(first), Some(second), Some(third)];
        for (index, leaves) in order.into_iter().enumerate() {
            peers[leaves].take().expect("once").disconnect();
            assert_eq!(server.open_count(), usize::from(index < 2), "{order:?} {index}");
        }
        assert!(server.sessions.all().is_empty() && server.connections.all().is_empty());
    }
}

#[test]
fn logoff_and_a_failed_logon_end_the_session_on_all_channels() {
    let log_off_there: fn(&mut Peer) = |peer| assert_eq!(log_off(peer), Status::SUCCESS);
    let fail_there: fn(&mut Peer) = |peer| {
        let key = peer.key.clone();
        assert_eq!(peer.log_on_again("alice", "guess", key.as_deref()), Status::LOGON_FAILURE);
    };
    for end in [log_off_there, fail_there] {
        let server = TestServer::new();
        let mut first = Peer::logged_on(&server, NEWEST, "alice");
        let mut second = Peer::channel_of(&server, &first);
        let file = open(&mut first, "file");
        end(&mut second);
        assert_eq!(server.open_count(), 0);
        let answer =
            first.request(Command::CLOSE, |out| CloseRequest { flags: CloseFlags(0), file_id: file }.encode(out));
        assert_eq!(status(&answer), Status::USER_SESSION_DELETED);
        assert!(first.key.as_ref().is_some_and(|key| key.verify(&mut answer.clone())), "a signed refusal");
        let mut third = Peer::new(&server, NEWEST);
        assert_eq!(third.bind(&first.session(), "alice", PASSWORD), Status::USER_SESSION_DELETED);
    }
}

#[test]
fn an_ended_session_stays_ended() {
    let server = TestServer::new();
    let first = Peer::logged_on(&server, NEWEST, "alice");
    let session = server.sessions.get(first.session().session_id).expect("the session still exists");
    let user = session.user().expect("alice");
    assert!(session.reauthenticated(user.clone(), None));
    block_on(end_session(&server, &session));
    assert!(!session.reauthenticated(user, None));
    assert_eq!(session.phase(), Phase::Closed);
}

/// Checks whether the refusal of a request that is signed with the key of another connection's session is signed with
/// it.
fn check_refusal_signed(signing: SigningAlgorithm, here: Option<&str>, expected: bool) {
    let server = TestServer::new();
    let mut victim = Peer::with_signing(&server, NEWEST, signing);
    assert_eq!(victim.log_on("alice", PASSWORD), Status::SUCCESS);
    let mut stranger = Peer::with_signing(&server, NEWEST, signing);
    if let Some(user) = here {
        assert_eq!(stranger.log_on(user, PASSWORD), Status::SUCCESS);
    }
    stranger.pretend(&victim.session());
    stranger.key = victim.key.clone();
    let answer = stranger.request(Command::LOGOFF, |out| LogoffRequest.encode(out));
    assert_eq!(status(&answer), Status::USER_SESSION_DELETED);
    let signed = victim.key.as_ref().is_some_and(|key| key.verify(&mut answer.clone()));
    assert_eq!(signed, expected, "{signing:?} {here:?}");
}

/// Two messages with one MessageId reveal the key of AES-GMAC, so a client that may have seen the first gets no second
/// one.
#[test]
fn another_user_gets_no_signature_made_with_the_session_key() {
    check_refusal_signed(SigningAlgorithm::AES_CMAC, None, true);
    check_refusal_signed(SigningAlgorithm::AES_GMAC, None, false);
    check_refusal_signed(SigningAlgorithm::AES_GMAC, Some("bob"), false);
    check_refusal_signed(SigningAlgorithm::AES_GMAC, Some("alice"), true);
}

/// 3.3.5.2.10, on the wire: stale requests have no effect.
#[test]
fn a_write_of_a_lost_channel_is_rejected() {
    let server = TestServer::new();
    let mut first = Peer::logged_on(&server, NEWEST, "alice");
    let mut second = Peer::channel_of(&server, &first);
    let file_id = open(&mut first, "file");
    let write = |peer: &mut Peer, sequence: u16| {
        peer.sequence = sequence;
        let write = WriteRequest { file_id, buffer: b"x", ..WriteRequest::default() };
        status(&peer.request(Command::WRITE, |out| write.encode(out)))
    };
    assert_eq!(write(&mut first, 0), Status::SUCCESS);
    assert_eq!(write(&mut second, 1), Status::SUCCESS);
    assert_eq!(write(&mut first, 0), Status::FILE_NOT_AVAILABLE);
    assert_eq!(write(&mut first, 1), Status::SUCCESS);
    assert_eq!(close(&mut first, file_id), Status::SUCCESS);
}

struct Two;

impl Interfaces for Two {
    fn list(&self) -> Vec<Interface> {
        let interface = |index, last| Interface { index, address: [192, 0, 2, last].into(), speed: 7, rss: index == 2 };
        vec![interface(2, 1), interface(0, 2), interface(3, 3)]
    }
}

#[test]
fn clients_can_query_the_interfaces() {
    let server = TestServer::builder().interfaces(Arc::new(Two)).start();
    let ask = |dialect, file_id, space| {
        let mut peer = Peer::logged_on(&server, dialect, "alice");
        let ioctl = IoctlRequest {
            ctl_code: FsctlCode::QUERY_NETWORK_INTERFACE_INFO,
            file_id,
            max_output_response: space,
            flags: IoctlFlags::IS_FSCTL,
            ..IoctlRequest::default()
        };
        peer.request(Command::IOCTL, |out| ioctl.encode(out))
    };
    let answer = ask(NEWEST, FileId::ANY, 304);
    let answer = IoctlResponse::decode(&answer).expect("a response");
    let list = NetworkInterfaceInfo::decode_list(answer.output).expect("a list");
    let told: Vec<_> = list.iter().map(|info| (info.if_index, info.link_speed, info.capability.0)).collect();
    assert_eq!(told, [(2, 7, 1), (3, 7, 0)]);
    assert_eq!(status(&ask(NEWEST, FileId::ANY, 303)), Status::BUFFER_TOO_SMALL);
    assert_eq!(status(&ask(NEWEST, FileId { persistent: 1, volatile: 1 }, 304)), Status::INVALID_PARAMETER);
    assert_eq!(status(&ask(Dialect::SMB_2_1, FileId::ANY, 304)), Status::NOT_SUPPORTED);
}

/// Returns the number of oplock breaks that the client received on this connection.
fn breaks(peer: &mut Peer) -> usize {
    let is_break = |message: &&Vec<u8>| Header::decode(message).is_ok_and(|it| it.command == Command::OPLOCK_BREAK);
    peer.messages().iter().filter(is_break).count()
}

/// 3.3.4.6. Whether TCP had acknowledged the break, and how often it is sent in total.
fn check_break(arrived: bool, expected: usize) {
    let server = TestServer::with_stopped_clock();
    let mut first = Peer::logged_on(&server, NEWEST, "alice");
    first.create("file", OplockLevel::BATCH).expect("the name is not in use");
    let mut others: Vec<Peer> = (0..3).map(|_| Peer::channel_of(&server, &first)).collect();
    let mut other = Peer::logged_on(&server, NEWEST, "alice");
    other.begin_to_create("file", OplockLevel::NONE);
    assert_eq!(others.iter_mut().map(breaks).sum::<usize>(), 0, "the break is sent over the oldest channel first");
    assert_eq!(breaks(&mut first), 1);
    let connection = first.connection().clone();
    assert_eq!(connection.acknowledge(0), Some(0));
    if arrived {
        assert_eq!(connection.acknowledge(u64::MAX), None);
    }
    assert!(connection.is_dispensable() && !other.connection().is_dispensable());
    first.disconnect();
    let told: Vec<usize> = others.iter_mut().map(breaks).collect();
    assert_eq!(told, [expected, 0, 0], "the next one");
    others.remove(0).disconnect();
    assert_eq!(others.iter_mut().map(breaks).collect::<Vec<_>>(), [expected, 0], "and the one after that");
}

#[test]
fn a_break_that_does_not_arrive_is_sent_over_another_channel() {
    check_break(false, 1);
    check_break(true, 0);
}

/// Has reads wait forever.
struct ReadsHang;

impl Script for ReadsHang {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        let wait = || -> Wait { Box::pin(std::future::pending()) };
        Fault { before: (operation == Operation::Read).then(wait), ..Fault::default() }
    }
}

#[test]
fn a_break_is_sent_although_the_response_before_it_is_lost() {
    let server = TestServer::builder().clock(ManualClock::new());
    let server = server.wrap_volume(|volume| Faulty::new(volume, Arc::new(ReadsHang))).start();
    let mut first = Peer::logged_on(&server, NEWEST, "alice");
    let mut second = Peer::channel_of(&server, &first);
    let file_id = open(&mut first, "other file");
    let write = WriteRequest { file_id, length: 1, buffer: b"x", ..WriteRequest::default() };
    assert_eq!(status(&first.request(Command::WRITE, |out| write.encode(out))), Status::SUCCESS);
    let name = utf16_bytes("file");
    let create = CreateRequest {
        requested_oplock_level: OplockLevel::BATCH,
        desired_access: 0x001f_01ff,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        name: &name,
        ..CreateRequest::default()
    };
    let create = first.compose(Command::CREATE, None, |out| create.encode(out));
    let read = ReadRequest { file_id, length: 1, ..ReadRequest::default() };
    let read = first.compose(Command::READ, None, |out| read.encode(out));
    assert_eq!(first.send(&testing::chain(&[create, read], false)).len(), 0, "the CREATE is answered with the READ");
    let mut other = Peer::logged_on(&server, NEWEST, "alice");
    other.begin_to_create("file", OplockLevel::NONE);
    assert_eq!(breaks(&mut second), 0);
    first.disconnect();
    assert_eq!(breaks(&mut second), 1);
}

/// Connections drop while the session is logged off and bound again. Nothing must be left, and nothing is closed twice.
#[test]
fn teardown_storms() {
    for round in 0..20 {
        let server = TestServer::new();
        let mut first = Peer::logged_on(&server, NEWEST, "alice");
        for name in ["a", "b", "c"] {
            open(&mut first, name);
        }
        let session = server.sessions.get(first.session().session_id).expect("the session still exists");
        let others: Vec<Peer> = (0..6).map(|_| Peer::channel_of(&server, &first)).collect();
        let connections: Vec<_> = others.iter().chain([&first]).map(|peer| peer.connection().clone()).collect();
        let (known, mut late) = (first.session(), Peer::new(&server, NEWEST));
        std::thread::scope(|scope| {
            for connection in &connections {
                scope.spawn(|| block_on(connection.close()));
            }
            if round % 2 == 0 {
                scope.spawn(|| block_on(end_session(&server, &session)));
            }
            scope.spawn(move || {
                // Whether it succeeds in time depends on chance.
                late.bind(&known, "alice", PASSWORD);
                late.disconnect();
            });
        });
        assert_eq!((server.open_count(), session.channel_count()), (0, 0), "round {round}");
        assert!(server.sessions.all().is_empty() && server.connections.all().is_empty(), "round {round}");
    }
}
