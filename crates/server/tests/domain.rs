//! Users of a domain: when the server asks the controller, how it uses the answers, and that only logons of domain
//! users wait for them.

use server::vfs::Identity;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proto::auth::ntlm::{Credentials, Initiator, Random, nt_hash};
use proto::auth::pac::LogonInfo;
use proto::dtyp::Sid;
use proto::smb2::header::Header;
use proto::smb2::negotiate::SecurityMode;
use proto::smb2::session_setup::SessionSetupResponse;
use proto::status::Status;
use server::accounts::{Account, Unavailable};
use server::answer::Answer;
use server::domain::{Domain, Membership, NetworkLogon, Proven, Refused};
use server::policy::{MapToGuest, Policy, Share, UserPattern, UsernameMap};
use server::state::Server;
use server::testing::{self, PASSWORD, TestClient, TestServer, status};
use server::tickets::ClientName;

/// A domain with `dora`, whose password is [`PASSWORD`], `rory`, who is root, and a few users who may not log on.
#[derive(Default)]
struct Controller {
    asked: AtomicUsize,
    /// Whether it never answers.
    hangs: AtomicBool,
    /// The length of the longest name of a computer, in characters.
    longest: AtomicUsize,
}

/// The domain's group of all users.
const USERS: Sid = Sid::of(5, [21, 7, 8, 9, 513]);

fn account(name: &str, uid: u32) -> Account {
    Account {
        name: format!(r"DOM\{name}"),
        nt_hash: None,
        disabled: false,
        locked: false,
        must_change: false,
        never_expires: false,
        sid: Sid::of(5, [21, 7, 8, 9, uid]),
        domain: Some("DOM".into()),
        expires: None,
        former_sids: Arc::new([USERS, Sid::unix_user(0), Sid::BUILTIN_ADMINISTRATORS]),
        full_name: String::new(),
        password_last_set: None,
        identity: Arc::new(Identity { uid, gid: 5513, groups: Box::new([]) }),
        groups: Arc::new([r"DOM\Domain Users".into()]),
    }
}

impl Domain for Controller {
    fn log_on(&self, logon: NetworkLogon) -> Answer<Result<Proven, Refused>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.longest.fetch_max(logon.workstation.chars().count(), Ordering::Relaxed);
        if self.hangs.load(Ordering::Relaxed) {
            return Answer::later(std::future::pending());
        }
        let user = logon.user.split('@').next().unwrap_or_default();
        let refused = match user {
            "dora" | "rory" | "alice" | "late" | "daemon" => None,
            "disabled" => Some(Refused::Because(Status::ACCOUNT_DISABLED)),
            "nowhere" => Some(Refused::Unavailable("no controller".into())),
            _ => Some(Refused::Unknown),
        };
        if let Some(refused) = refused {
            return Answer::now(Err(refused));
        }
        let uid = match user {
            "rory" => 0,
            "daemon" => 999,
            _ => 5001,
        };
        let key = logon.response.decide(&nt_hash(PASSWORD), &logon.user, &logon.domain);
        Answer::now(
            key.map(|session_base_key| Proven { account: account(user, uid), session_base_key }).ok_or(Refused::Wrong),
        )
    }

    fn account(&self, _: &ClientName, _: LogonInfo) -> Answer<Result<Account, Refused>> {
        Answer::now(Ok(account("dora", 5001)))
    }

    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        Answer::now(Ok((name == r"DOM\dora").then(|| account("dora", 5001))))
    }
}

fn policy() -> Policy {
    let membership = Some(Membership { workgroup: "DOM".into(), realm: "DOM.TEST".into() });
    Policy { membership, ..testing::policy() }
}

fn member(policy: Policy) -> (TestServer, Arc<Controller>) {
    let controller = Arc::new(Controller::default());
    let server = TestServer::builder().policy(policy).domain(controller.clone()).start();
    (server, controller)
}

fn log_on(server: &Arc<Server>, user: &str, password: &str) -> Status {
    let mut client = TestClient::new(server);
    client.negotiate(SecurityMode::SIGNING_ENABLED);
    client.log_on(user, password, 0)
}

#[test]
fn the_domain_decides_on_its_accounts() {
    let (server, controller) = member(policy());
    let check = |user: &str, password: &str, expected: Status, asked: usize| {
        let before = controller.asked.load(Ordering::Relaxed);
        assert_eq!(log_on(&server, user, password), expected, "{user}");
        assert_eq!(controller.asked.load(Ordering::Relaxed) - before, asked, "{user}");
    };
    check("dora", PASSWORD, Status::SUCCESS, 1);
    check("dora@dom.test", PASSWORD, Status::SUCCESS, 1);
    check("dora", "wrong", Status::LOGON_FAILURE, 1);
    check("nobody", PASSWORD, Status::LOGON_FAILURE, 1);
    check("disabled", PASSWORD, Status::ACCOUNT_DISABLED, 1);
    check("nowhere", PASSWORD, Status::NO_LOGON_SERVERS, 1);
    // The server's root identity cannot be assigned by a domain.
    check("rory", PASSWORD, Status::LOGON_FAILURE, 1);
    // The server's own user takes precedence over the domain's of the same name, even if the password is wrong.
    check("alice", PASSWORD, Status::SUCCESS, 0);
    check("alice", "wrong", Status::LOGON_FAILURE, 0);
    check("alice@dom.test", PASSWORD, Status::SUCCESS, 1);
}

#[test]
fn the_domain_is_told_a_short_name_of_the_clients_computer() {
    let (server, controller) = member(policy());
    for (sent, expected) in [("LAPTOP", 6), (&"x".repeat(30_000)[..], 256)] {
        let mut client = TestClient::new(&server);
        client.negotiate(SecurityMode::SIGNING_ENABLED);
        let mut exchange = |token: &[u8]| {
            let message = client.compose_session_setup(token, SecurityMode::SIGNING_ENABLED, 0);
            let response = client.send(&message).pop().expect("a response");
            client.session_id = Header::decode(&response).expect("a header").session_id;
            response
        };
        let credentials = Credentials { user: "dora".into(), domain: String::new(), nt_hash: nt_hash(PASSWORD) };
        let initiator = Initiator::new(Some(credentials), sent, "");
        let first = exchange(initiator.negotiate());
        let challenge = SessionSetupResponse::decode(&first).expect("a challenge");
        let random = Random { client_challenge: [4; 8], session_key: [5; 16] };
        let (proof, _) =
            initiator.authenticate(challenge.buffer, &random, 0).expect("an NTLM response to an NTLM message");
        assert_eq!(status(&exchange(&proof)), Status::SUCCESS);
        assert_eq!(controller.longest.load(Ordering::Relaxed), expected);
    }
}

#[test]
fn a_domain_cannot_assign_sids_of_this_server() {
    let (server, _) = member(policy());
    let mut client = TestClient::new(&server);
    client.negotiate(SecurityMode::SIGNING_ENABLED);
    assert_eq!(client.log_on("dora", PASSWORD, 0), Status::SUCCESS);
    let user = server.sessions.all().iter().find_map(|session| session.user()).expect("logged on");
    assert_eq!(user.sids[..], [Sid::of(5, [21, 7, 8, 9, 5001]), USERS]);
}

/// Maps dora to the server's own alice, and emil to a user who does not exist.
struct Map;

impl UsernameMap for Map {
    fn account_of(&self, _: &str, _: &str) -> Answer<Result<Option<String>, Unavailable>> {
        Answer::now(Ok(None))
    }

    fn account_of_proven(&self, full: &str, groups: &[String]) -> Answer<Result<Option<String>, Unavailable>> {
        assert_eq!(groups, [r"DOM\Domain Users".to_owned()]);
        Answer::now(Ok(match full {
            r"DOM\dora" => Some("alice".into()),
            r"DOM\rory" => Some("carol".into()),
            r"DOM\alice" => Some("nobody here".into()),
            r"DOM\late" => return Answer::now(Err(Unavailable("NSS hangs".into()))),
            _ => None,
        }))
    }
}

/// smb.conf(5): a domain member maps names after the controller's authentication, and the result is another user.
#[test]
fn a_mapped_user_is_another_user() {
    let (server, controller) = member(Policy { username_map: Some(Arc::new(Map)), ..policy() });
    let mut client = TestClient::new(&server);
    client.negotiate(SecurityMode::SIGNING_ENABLED);
    assert_eq!(client.log_on("dora", PASSWORD, 0), Status::SUCCESS);
    let user = server.sessions.all().iter().find_map(|session| session.user()).expect("logged on");
    assert_eq!((user.name.as_str(), user.identity.uid), ("alice", 1000));
    assert_eq!(user.sids[..], [Sid::of(5, [21, 1, 2, 3, 1000])]);
    // The password is still the domain's. A user who is root in the domain is refused, whatever they are mapped to.
    assert_eq!(log_on(&server, "dora", "wrong"), Status::LOGON_FAILURE);
    assert_eq!(log_on(&server, "rory", PASSWORD), Status::LOGON_FAILURE);
    assert_eq!(log_on(&server, "alice@dom.test", PASSWORD), Status::LOGON_FAILURE);
    // A user whose mapping cannot be determined is refused.
    assert_eq!(log_on(&server, "late", PASSWORD), Status::NO_LOGON_SERVERS);
    assert_eq!(controller.asked.load(Ordering::Relaxed), 5);
}

#[test]
fn a_standalone_server_asks_no_controller() {
    let (server, controller) = member(testing::policy());
    assert_eq!(log_on(&server, "dora", PASSWORD), Status::LOGON_FAILURE);
    assert_eq!(controller.asked.load(Ordering::Relaxed), 0);
}

#[test]
fn an_unknown_user_may_be_a_guest() {
    let guest = server::policy::Guest {
        name: "nobody".into(),
        identity: Arc::new(Identity { uid: 65534, gid: 65534, groups: Box::new([]) }),
    };
    let (server, _) = member(Policy { map_to_guest: MapToGuest::BadUser, guest: Some(guest), ..policy() });
    assert_eq!(log_on(&server, "nobody", PASSWORD), Status::SUCCESS);
    assert_eq!(log_on(&server, "dora", "wrong"), Status::LOGON_FAILURE);
    assert_eq!(log_on(&server, "nowhere", PASSWORD), Status::NO_LOGON_SERVERS);
}

#[test]
fn a_hanging_controller_delays_no_other_client() {
    let (server, controller) = member(policy());
    controller.hangs.store(true, Ordering::Relaxed);
    let mut stuck = TestClient::new(&server);
    stuck.negotiate(SecurityMode::SIGNING_ENABLED);
    let patient = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stuck.log_on("dora", PASSWORD, 0)));
    assert!(patient.is_err(), "the request was answered");
    assert_eq!(log_on(&server, "alice", PASSWORD), Status::SUCCESS);
}

#[test]
fn user_lists_may_name_domain_users() {
    let check = |valid: UserPattern, expected: Status| {
        let mut policy = policy();
        let mut share = Share::clone(policy.share("share").expect("the share of the test rig"));
        share.access.valid_users = vec![valid.clone()];
        policy.shares.insert("share".into(), Arc::new(share));
        let (server, _) = member(policy);
        let mut client = TestClient::new(&server);
        client.negotiate(SecurityMode::SIGNING_ENABLED);
        assert_eq!(client.log_on("dora", PASSWORD, 0), Status::SUCCESS);
        assert_eq!(client.tree_connect("share"), expected, "{valid:?}");
    };
    check(UserPattern::User(r"dom\dora".into()), Status::SUCCESS);
    check(UserPattern::Group(r"DOM\domain users".into()), Status::SUCCESS);
    check(UserPattern::User("dora".into()), Status::ACCESS_DENIED);
    check(UserPattern::Group(r"DOM\Admins".into()), Status::ACCESS_DENIED);
}

#[test]
fn a_domain_user_is_never_a_system_account() {
    for (least, daemon) in [(1000, Status::LOGON_FAILURE), (999, Status::SUCCESS), (0, Status::SUCCESS)] {
        let (server, _) = member(Policy { min_domain_uid: least, ..policy() });
        assert_eq!(log_on(&server, "daemon", PASSWORD), daemon, "{least}");
        assert_eq!(log_on(&server, "dora", PASSWORD), Status::SUCCESS, "{least}");
        assert_eq!(log_on(&server, "rory", PASSWORD), Status::LOGON_FAILURE, "{least}");
    }
}

#[test]
fn logons_while_the_controller_is_unavailable_are_not_counted_as_guesses() {
    let (server, _) = member(policy());
    for _ in 0..20 {
        assert_eq!(log_on(&server, "nowhere", PASSWORD), Status::NO_LOGON_SERVERS);
    }
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
