//! Attacks on signed or encrypted sessions by an attacker on the network path, and restrictions of sessions without
//! secret keys ([MS-SMB2] 3.3.5.2.4, 3.3.5.2.9, 3.3.5.5.2).

use server::vfs::Identity;
use std::sync::Arc;

use proto::bytes::utf16_bytes;
use proto::smb2::cancel::CancelRequest;
use proto::smb2::create::{CreateDisposition, CreateRequest, ShareAccess};
use proto::smb2::create_context::{LeaseFlags, LeaseV2};
use proto::smb2::echo::EchoRequest;
use proto::smb2::header::{Command, Flags};
use proto::smb2::negotiate::{Dialect, SecurityMode};
use proto::smb2::oplock_break::{LeaseBreak, OplockBreakAcknowledgment};
use proto::smb2::{LeaseState, OplockLevel};
use proto::status::Status;
use server::policy::printing::QueueSystem;
use server::policy::{Encryption, Guest, MapToGuest, Policy, PrintPolicy, Signing, Template};
use server::testing::{self, ManualClock, PASSWORD, PipelinedClient, TestPrinter, TestServer, opened};

const GUID: [u8; 16] = [7; 16];

/// A client whose session, or whose share, is encrypted.
fn sealed(server: &TestServer, user: &str) -> PipelinedClient {
    let mut client = server.connect_as(Dialect::SMB_3_0, GUID);
    client.log_on(user, PASSWORD, false, 0).check(Status::SUCCESS);
    client.seals = true;
    client.tree_connect();
    client
}

/// Sends plaintext requests in the encrypted session of `client`, as an attacker on the network path would. Neither
/// another user's valid proof nor an invalid one may change anything.
fn attack(server: &TestServer, client: &mut PipelinedClient) {
    client.open("before", OplockLevel::NONE);
    let session = client.session_id;
    let owner = || server.sessions.get(session).and_then(|session| session.user()).map(|user| user.name.clone());
    client.seals = false;
    let proofs: [fn(&mut PipelinedClient); 3] = [
        |attacker| _ = attacker.session_setup(b"no token", false, 0),
        |attacker| attacker.session_setup(&negotiate(), false, 0).check(Status::ACCESS_DENIED),
        |attacker| attacker.session_setup(&[], true, 0).check(Status::ACCESS_DENIED),
    ];
    for proof in proofs {
        proof(client);
        assert_eq!(owner().as_deref(), Some("bob"));
        assert_eq!(server.open_count(), 1, "the session continues");
    }
    client.seals = true;
    client.open("after", OplockLevel::NONE);
    client.log_on("bob", PASSWORD, false, 0).check(Status::SUCCESS);
    assert_eq!(server.open_count(), 2, "over an encrypted connection, the user may authenticate again");
}

fn negotiate() -> Vec<u8> {
    proto::auth::ntlm::Initiator::new(None, "ATTACKER", "").negotiate().to_vec()
}

#[test]
fn an_unencrypted_session_setup_changes_nothing_in_an_encrypted_session() {
    let server = TestServer::builder()
        .clock(ManualClock::new())
        .configure(|policy| policy.server_smb_encrypt = Encryption::Required)
        .start();
    let mut client = sealed(&server, "bob");
    attack(&server, &mut client);
    // Other plaintext requests are refused too.
    client.seals = false;
    client.request(Command::ECHO, |out| EchoRequest.encode(out)).check(Status::ACCESS_DENIED);
}

#[test]
fn an_unencrypted_session_setup_changes_nothing_if_a_share_or_the_client_encrypts() {
    let server = TestServer::builder()
        .clock(ManualClock::new())
        .share(|share| share.access.server_smb_encrypt = Encryption::Required)
        .start();
    attack(&server, &mut sealed(&server, "bob"));
    let server = TestServer::with_stopped_clock();
    attack(&server, &mut sealed(&server, "bob"));
}

/// The session itself is encrypted by nothing else than the tree connect to a printer.
#[test]
fn an_unencrypted_session_setup_changes_nothing_if_a_printer_encrypts() {
    let server = TestServer::builder()
        .clock(ManualClock::new())
        .print_system(Arc::new(TestPrinter))
        .share(|share| {
            let printing = PrintPolicy {
                queue: "laser".to_owned(),
                system: QueueSystem::Cups { options: Vec::new() },
                user_name: Template::parse("%U").expect("a template"),
                min_space: 0,
                max_jobs: 0,
                max_reported: 0,
            };
            share.printing = Some(Arc::new(printing));
            share.access.server_smb_encrypt = Encryption::Required;
        })
        .start();
    let mut client = server.connect_as(Dialect::SMB_3_0, GUID);
    client.log_on("bob", PASSWORD, false, 0).check(Status::SUCCESS);
    client.tree_connect();
    let snapshot = server::status::snapshot(&server, server::vfs::Time::default());
    assert!(snapshot.trees.iter().all(|tree| tree.encrypted) && snapshot.trees.len() == 1, "{:?}", snapshot.trees);
    client.session_setup(&negotiate(), false, 0).check(Status::ACCESS_DENIED);
}

#[test]
fn an_unsigned_session_setup_changes_nothing_if_signing_is_required() {
    let server = TestServer::builder()
        .clock(ManualClock::new())
        .configure(|policy| policy.server_signing = Signing::Required)
        .start();
    let mut client = server.connect_as(Dialect::SMB_3_0, GUID);
    client.log_on("bob", PASSWORD, true, 0).check(Status::SUCCESS);
    client.tree_connect();
    client.open("file", OplockLevel::NONE);
    client.signs = false;
    client.session_setup(&negotiate(), false, 0).check(Status::ACCESS_DENIED);
    client.signs = true;
    client.open("file", OplockLevel::NONE);
    assert_eq!(server.open_count(), 2);
    client.log_on("bob", PASSWORD, true, 0).check(Status::SUCCESS);
}

/// The keys of a null session are not secret, so a user account must not be used with them.
#[test]
fn an_account_gets_no_session_whose_keys_are_not_secret() {
    let server = TestServer::builder()
        .clock(ManualClock::new())
        .configure(|policy| policy.server_signing = Signing::Required)
        .start();
    let mut client = server.connect_as(Dialect::SMB_3_0, GUID);
    client.log_on_anonymously().check(Status::SUCCESS);
    client.log_on("bob", PASSWORD, false, 0).check(Status::ACCESS_DENIED);
}

/// [MS-NLMP] 3.2.5.1.2: the base key is zero, and clients may sign with keys derived from it.
#[test]
fn requests_of_a_null_session_may_be_signed() {
    for dialect in [Dialect::SMB_2_1, Dialect::SMB_3_0] {
        let server = TestServer::with_stopped_clock();
        let mut client = server.connect_as(dialect, GUID);
        let last = client.log_on_anonymously();
        last.check(Status::SUCCESS);
        assert!(!last.header().flags.contains(Flags::SIGNED));
        client.connect_to("IPC$").check(Status::SUCCESS);
        client.signs = true;
        let signed = client.connect_to("IPC$");
        signed.check(Status::SUCCESS);
        assert!(signed.header().flags.contains(Flags::SIGNED));
        let mut wrong = client.compose(Command::ECHO, |out| EchoRequest.encode(out));
        *wrong.last_mut().expect("not empty") ^= 1;
        assert!(client.send(&wrong));
        client.receive().check(Status::ACCESS_DENIED);
        assert!(client.connection.ended().is_none());
    }
}

/// A CANCEL has no session that the next request of its chain could inherit.
#[test]
fn the_key_of_one_session_proves_nothing_for_another_session_of_the_connection() {
    let server = TestServer::with_stopped_clock();
    let mut client = server.connect_as(Dialect::SMB_3_0, GUID);
    client.log_on("alice", PASSWORD, false, 0).check(Status::SUCCESS);
    let own = std::mem::take(&mut client.session_id);
    client.log_on("bob", PASSWORD, true, 0).check(Status::SUCCESS);
    let foreign = client.session_id;
    assert_ne!(own, foreign);
    // The client has the keys of its first session only.
    client.session_id = own;
    client.seals = true;
    client.tree_connect();
    let elements = |client: &mut PipelinedClient, session: u64, token: &[u8]| {
        let cancel = client.compose(Command::CANCEL, |out| CancelRequest.encode(out));
        client.next_message -= 1;
        client.session_id = session;
        let orphan = client.compose(Command::ECHO, |out| EchoRequest.encode(out));
        let logon = client.compose_session_setup(token, SecurityMode::SIGNING_ENABLED, 0);
        client.session_id = own;
        testing::chain(&[cancel, orphan, logon], true)
    };
    let frame = elements(&mut client, foreign, b"no token");
    client.send(&frame);
    client.receive().check(Status::INVALID_PARAMETER);
    client.receive().check(Status::ACCESS_DENIED);
    let owner = server.sessions.get(foreign).and_then(|session| session.user()).map(|user| user.name.clone());
    assert_eq!(owner.as_deref(), Some("bob"), "the other session continues");
    // In its own session, the client gets the answers to such a chain, and may authenticate again.
    client.open("file", OplockLevel::NONE);
    let frame = elements(&mut client, own, &negotiate());
    client.send(&frame);
    client.receive().check(Status::INVALID_PARAMETER);
    client.receive().check(Status::MORE_PROCESSING_REQUIRED);
}

fn with_guest(policy: &mut Policy) {
    let identity = Arc::new(Identity { uid: 65534, gid: 65534, groups: Box::new([]) });
    policy.guest = Some(Guest { name: "nobody".into(), identity });
    policy.map_to_guest = MapToGuest::BadUser;
}

/// A guest's session has no keys, so nothing could be encrypted.
#[test]
fn a_share_that_requires_encryption_is_not_for_guests() {
    for (encryption, expected) in
        [(Encryption::Required, Status::ACCESS_DENIED), (Encryption::Desired, Status::SUCCESS)]
    {
        let server = TestServer::builder()
            .clock(ManualClock::new())
            .configure(with_guest)
            .share(|share| (share.access.guest_ok, share.access.server_smb_encrypt) = (true, encryption))
            .start();
        let mut guest = server.connect_as(Dialect::SMB_3_0, GUID);
        guest.log_on("stranger", "", false, 0).check(Status::SUCCESS);
        guest.connect_to("share").check(expected);
    }
}

fn lease(client: &mut PipelinedClient, name: &str) -> Vec<u8> {
    let name = utf16_bytes(name);
    let lease = LeaseV2 {
        lease_key: [1; 16],
        lease_state: LeaseState(7),
        flags: LeaseFlags::NONE,
        parent_lease_key: [0; 16],
        epoch: 0,
    };
    let create = CreateRequest {
        requested_oplock_level: OplockLevel::LEASE,
        desired_access: 0x001f_01ff,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN_IF,
        name: &name,
        create_contexts: vec![lease.to_context()],
        ..CreateRequest::default()
    };
    client.compose(Command::CREATE, |out| create.encode(out))
}

/// ClientGuid and LeaseKey are sent in clear. Another user who sends both must not end the wait for the holder's data.
#[test]
fn another_user_cannot_acknowledge_the_break_of_a_lease() {
    let server = TestServer::with_stopped_clock();
    let mut holder = server.log_on_as("alice", GUID);
    let create = lease(&mut holder, "file");
    assert!(holder.send(&create));
    assert_eq!(opened(&holder.receive()).1, OplockLevel::LEASE);
    let mut second = server.log_on_as("alice", [8; 16]);
    let create = second.create("file", CreateDisposition::OPEN, OplockLevel::NONE, Flags(0));
    assert!(second.send(&create));
    second.receive().check(Status::PENDING);
    holder.receive();
    let acknowledge = |client: &mut PipelinedClient| {
        let kept = LeaseBreak { lease_key: [1; 16], lease_state: LeaseState(3) };
        client.request(Command::OPLOCK_BREAK, |out| OplockBreakAcknowledgment::Lease(kept).encode(out))
    };
    acknowledge(&mut server.log_on_as("bob", GUID)).check(Status::OBJECT_NAME_NOT_FOUND);
    second.silent();
    // The holder's user may, including over another connection of that client.
    acknowledge(&mut server.log_on_as("alice", GUID)).check(Status::SUCCESS);
    opened(&second.receive());
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
