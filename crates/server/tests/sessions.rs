//! Sessions, signatures, chains and oplocks as clients see them: which requests the specification permits or refuses
//! ([MS-SMB2] 3.3.5.2, 3.3.5.5, 3.3.5.6, 3.3.4.6).

use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::CreateDisposition;
use proto::smb2::echo::EchoRequest;
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::logoff::LogoffRequest;
use proto::smb2::oplock_break::{OplockBreak, OplockBreakAcknowledgment, OplockBreakNotification};
use proto::smb2::tree_disconnect::TreeDisconnectRequest;
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;
use server::testing::{self, Message, PASSWORD, PipelinedClient, TestServer, chain, opened};

const NO_OPLOCK: OplockLevel = OplockLevel::NONE;

fn close(client: &mut PipelinedClient, file_id: FileId, flags: Flags) -> Vec<u8> {
    client.compose_with(Command::CLOSE, flags, |out| CloseRequest { flags: CloseFlags(0), file_id }.encode(out))
}

/// CVE-2023-3347: signing was required but not enforced.
#[test]
fn an_unsigned_request_has_no_effect_if_signing_is_required() {
    let server = TestServer::with_stopped_clock();
    let mut client = server.log_on("alice", true);
    client.open("signed", NO_OPLOCK);
    client.signs = false;
    let create = client.create("unsigned", CreateDisposition::CREATE, NO_OPLOCK, Flags(0));
    let more = client.create("behind it", CreateDisposition::CREATE, NO_OPLOCK, Flags(0));
    assert!(client.send(&chain(&[create, more], false)));
    client.receive().check(Status::ACCESS_DENIED);
    client.silent();
    assert!(client.connection.ended().is_some());
    client.signs = true;
    let signed = client.create("too late", CreateDisposition::CREATE, NO_OPLOCK, Flags(0));
    assert!(!client.send(&signed));

    let mut other = server.log_on("alice", true);
    for (name, expected) in [
        ("signed", Status::SUCCESS),
        ("unsigned", Status::OBJECT_NAME_NOT_FOUND),
        ("behind it", Status::OBJECT_NAME_NOT_FOUND),
        ("too late", Status::OBJECT_NAME_NOT_FOUND),
    ] {
        let open = other.create(name, CreateDisposition::OPEN, NO_OPLOCK, Flags(0));
        assert!(other.send(&open));
        other.receive().check(expected);
    }
}

#[test]
fn a_wrong_signature_is_refused() {
    let server = TestServer::with_stopped_clock();
    let mut client = server.log_on("alice", true);
    let mut create = client.create("file", CreateDisposition::CREATE, NO_OPLOCK, Flags(0));
    *create.last_mut().expect("not empty") ^= 1;
    assert!(client.send(&create));
    client.receive().check(Status::ACCESS_DENIED);
    assert_eq!(server.open_count(), 0);
}

#[test]
fn a_session_that_replaces_another_ends_it_for_the_same_user_only() {
    for (user, replaced) in [("alice", true), ("bob", false)] {
        let server = TestServer::with_stopped_clock();
        let mut old = server.log_on("alice", false);
        old.open("file", NO_OPLOCK);
        let mut new = server.connect();
        new.log_on(user, PASSWORD, false, old.session_id).check(Status::SUCCESS);
        assert_eq!(server.open_count(), usize::from(!replaced), "{user}");
        let create = old.create("file", CreateDisposition::OPEN, NO_OPLOCK, Flags(0));
        assert!(old.send(&create));
        old.receive().check(if replaced { Status::USER_SESSION_DELETED } else { Status::SUCCESS });
    }
}

/// 3.3.5.5.3: a failed reauthentication ends the session too.
#[test]
fn a_failed_reauthentication_ends_the_session() {
    let server = TestServer::with_stopped_clock();
    let mut client = server.log_on("alice", false);
    let (file, _) = client.open("file", NO_OPLOCK);
    client.log_on("alice", PASSWORD, false, 0).check(Status::SUCCESS);
    assert_eq!(server.open_count(), 1, "the session continues");
    client.log_on("alice", "wrong", false, 0).check(Status::LOGON_FAILURE);
    assert_eq!(server.open_count(), 0);
    let message = close(&mut client, file, Flags(0));
    assert!(client.send(&message));
    client.receive().check(Status::USER_SESSION_DELETED);
}

#[test]
fn logoff_closes_what_is_open() {
    let server = TestServer::with_stopped_clock();
    let mut client = server.log_on("alice", false);
    let (file, _) = client.open("file", NO_OPLOCK);
    client.request(Command::LOGOFF, |out| LogoffRequest.encode(out)).check(Status::SUCCESS);
    assert_eq!(server.open_count(), 0);
    let message = close(&mut client, file, Flags(0));
    assert!(client.send(&message));
    client.receive().check(Status::USER_SESSION_DELETED);
}

/// Sends a CREATE and three related CLOSEs, with the request at index `place` replaced by the result of `teardown`.
fn chain_with(server: &TestServer, place: usize, teardown: fn(&mut PipelinedClient, Flags) -> Vec<u8>) -> Vec<Status> {
    let mut client = server.log_on("alice", false);
    let requests = (0..4).map(|index| {
        let flags = if index == 0 { Flags(0) } else { Flags::RELATED_OPERATIONS };
        match index {
            _ if index == place => teardown(&mut client, flags),
            0 => client.create("file", CreateDisposition::OPEN_IF, NO_OPLOCK, flags),
            _ => close(&mut client, FileId::ANY, flags),
        }
    });
    let frame = chain(&requests.collect::<Vec<_>>(), false);
    assert!(client.send(&frame));
    let statuses = (0..4).map(|_| client.receive().header().status).collect();
    client.silent();
    assert_eq!(server.open_count(), 0);
    statuses
}

/// ksmbd CVE-2026-23428: a tree connect or session that is removed by a chain is not used by later requests of the
/// chain.
#[test]
fn chains_with_a_teardown_at_every_position() {
    const OK: Status = Status::SUCCESS;
    let server = TestServer::with_stopped_clock();
    let disconnect: fn(&mut PipelinedClient, Flags) -> Vec<u8> =
        |client, flags| client.compose_with(Command::TREE_DISCONNECT, flags, |out| TreeDisconnectRequest.encode(out));
    let logoff: fn(&mut PipelinedClient, Flags) -> Vec<u8> =
        |client, flags| client.compose_with(Command::LOGOFF, flags, |out| LogoffRequest.encode(out));
    for (teardown, gone) in [(disconnect, Status::NETWORK_NAME_DELETED), (logoff, Status::USER_SESSION_DELETED)] {
        // The first request after the removal reports it; those after it have no request to be related to.
        let orphan = Status::INVALID_PARAMETER;
        assert_eq!(chain_with(&server, 0, teardown), [OK, gone, orphan, orphan]);
        assert_eq!(chain_with(&server, 1, teardown), [OK, OK, gone, orphan]);
        assert_eq!(chain_with(&server, 2, teardown), [OK, OK, OK, gone]);
        assert_eq!(chain_with(&server, 3, teardown), [OK, OK, Status::FILE_CLOSED, OK]);
    }
}

/// [MS-SMB2] 3.3.5.2.7.2 and its note <269>.
#[test]
fn a_related_request_cannot_inherit_what_the_preceding_one_lacks() {
    let server = TestServer::with_stopped_clock();
    let related = Flags::RELATED_OPERATIONS;
    let statuses = |make: &dyn Fn(&mut PipelinedClient) -> Vec<Vec<u8>>| -> Vec<Status> {
        let mut client = server.log_on("alice", false);
        let requests = make(&mut client);
        let count = requests.len();
        assert!(client.send(&chain(&requests, false)));
        (0..count).map(|_| client.receive().header().status).collect()
    };
    let first = statuses(&|client| (0..3).map(|_| close(client, FileId::ANY, related)).collect());
    assert_eq!(first, [Status::INVALID_PARAMETER; 3]);
    let echo = statuses(&|client| {
        let (session, tree) = (client.session_id, client.tree_id);
        (client.session_id, client.tree_id) = (0, 0);
        let echo = client.compose(Command::ECHO, |out| EchoRequest.encode(out));
        (client.session_id, client.tree_id) = (session, tree);
        vec![echo, close(client, FileId::ANY, related)]
    });
    assert_eq!(echo, [Status::SUCCESS, Status::INVALID_PARAMETER]);
    let unknown = FileId { persistent: 77, volatile: 77 };
    let closed = statuses(&|client| vec![close(client, unknown, Flags(0)), close(client, FileId::ANY, related)]);
    assert_eq!(closed, [Status::FILE_CLOSED; 2]);
    let missing = statuses(&|client| {
        let create = client.create("missing", CreateDisposition::OPEN, NO_OPLOCK, Flags(0));
        vec![create, close(client, FileId::ANY, related), close(client, FileId::ANY, related)]
    });
    assert_eq!(missing, [Status::OBJECT_NAME_NOT_FOUND; 3]);
}

/// Returns a client with a batch oplock, and a second client whose CREATE waits for it.
fn contended(server: &TestServer) -> (PipelinedClient, FileId, PipelinedClient) {
    let mut holder = server.log_on("alice", false);
    let (file, level) = holder.open("file", OplockLevel::BATCH);
    assert_eq!(level, OplockLevel::BATCH);
    let mut second = server.log_on("alice", false);
    let create = second.create("file", CreateDisposition::OPEN, OplockLevel::BATCH, Flags(0));
    assert!(second.send(&create));
    let interim = second.receive();
    interim.check(Status::PENDING);
    assert!(interim.header().async_id().is_some());
    second.silent();
    (holder, file, second)
}

#[track_caller]
fn check_break(message: &Message, file_id: FileId, oplock_level: OplockLevel) {
    let header = message.header();
    assert_eq!((header.command, header.message_id), (Command::OPLOCK_BREAK, Header::UNSOLICITED));
    assert!(!header.flags.contains(Flags::SIGNED));
    let expected = OplockBreakNotification::Oplock(OplockBreak { oplock_level, file_id });
    assert_eq!(OplockBreakNotification::decode(message.bytes()), Ok(expected));
}

#[test]
fn a_second_open_waits_for_the_acknowledgment() {
    let server = TestServer::with_stopped_clock();
    let (mut holder, file_id, mut second) = contended(&server);
    check_break(&holder.receive(), file_id, OplockLevel::II);
    second.silent();
    let acknowledgment = OplockBreakAcknowledgment::Oplock(OplockBreak { oplock_level: OplockLevel::II, file_id });
    holder.request(Command::OPLOCK_BREAK, |out| acknowledgment.encode(out)).check(Status::SUCCESS);
    let (_, level) = opened(&second.receive());
    assert_eq!(level, OplockLevel::II);
    holder.request(Command::OPLOCK_BREAK, |out| acknowledgment.encode(out)).check(Status::INVALID_DEVICE_STATE);
}

#[test]
fn a_second_open_waits_for_the_close_or_the_timer() {
    let server = TestServer::with_stopped_clock();
    let (mut holder, file, mut second) = contended(&server);
    holder.receive();
    let message = close(&mut holder, file, Flags(0));
    assert!(holder.send(&message));
    assert_eq!(opened(&second.receive()).1, OplockLevel::BATCH);

    let server = TestServer::with_stopped_clock();
    let (_holder, _, mut second) = contended(&server);
    server.advance_seconds(34);
    second.silent();
    server.advance_seconds(1);
    assert_eq!(opened(&second.receive()).1, OplockLevel::II);
}

#[test]
fn a_log_off_ends_the_wait_for_a_break() {
    let server = TestServer::with_stopped_clock();
    let (_holder, _, mut second) = contended(&server);
    let log_off = second.compose(Command::LOGOFF, |out| LogoffRequest.encode(out));
    assert!(second.send(&log_off));
    let mut answers =
        [second.receive(), second.receive()].map(|answer| (answer.header().command, answer.header().status));
    answers.sort_by_key(|(command, _)| command.0);
    assert_eq!(answers, [(Command::LOGOFF, Status::SUCCESS), (Command::CREATE, Status::CANCELLED)]);
}

/// Otherwise the client could not tell which open the break is for.
#[test]
fn a_break_never_overtakes_the_open_that_it_is_about() {
    let server = TestServer::with_stopped_clock();
    let mut client = server.log_on("alice", false);
    let first = client.create("file", CreateDisposition::OPEN_IF, OplockLevel::EXCLUSIVE, Flags(0));
    let second = client.create("file", CreateDisposition::OPEN_IF, NO_OPLOCK, Flags(0));
    assert!(client.send(&chain(&[first, second], false)));
    let (file_id, level) = opened(&client.receive());
    assert_eq!(level, OplockLevel::EXCLUSIVE);
    check_break(&client.receive(), file_id, OplockLevel::II);
    client.receive().check(Status::PENDING);
    let message = close(&mut client, file_id, Flags(0));
    assert!(client.send(&message));
    client.receive().check(Status::SUCCESS);
    opened(&client.receive());
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}

#[test]
fn a_status_may_be_limited() {
    let server = TestServer::with_stopped_clock();
    let mut clients: Vec<_> = (0..3).map(|_| server.log_on("alice", true)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        for file in 0..4 {
            client.open(&format!("{number}-{file}"), NO_OPLOCK);
        }
    }
    let counts = |most: usize| {
        let status = server::status::first(&server, server::vfs::Time::default(), most);
        assert!(status.trees.iter().all(|tree| tree.opens == 4), "{:?}", status.trees);
        (status.sessions.len(), status.trees.len(), status.opens.len())
    };
    for (most, expected) in [(usize::MAX, (3, 3, 12)), (2, (2, 2, 2)), (5, (3, 3, 5)), (0, (0, 0, 0))] {
        assert_eq!(counts(most), expected, "{most}");
    }
}
