//! Attacks on logons as clients see them: what a refusal reveals, how long it takes, and what anonymous clients can
//! make the server hold. The tests control the time.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto::auth::ntlm::{Credentials, Initiator, Random, nt_hash};
use proto::auth::pac::LogonInfo;
use proto::auth::spnego::{MechType, encode_init, encode_mech_types};
use proto::smb2::negotiate::SecurityMode;
use proto::smb2::session_setup::SessionSetupResponse;
use proto::status::Status;
use server::accounts::{Account, AccountPolicy, Authenticator, LogonOutcome, NotChanged, NtHash, Unavailable};
use server::answer::Answer;
use server::environment::Environment;
use server::policy::{MapToGuest, Policy, SpnCheck, UsernameMap};
use server::testing::{self, ManualClock, NoAccounts, PipelinedClient, TestServer, password_not_changed};
use server::tickets::ClientName;
use server::vfs::{Identity, Time};

/// User accounts with the password `right`, each named after its defect. Existing ones are found after `slow` ms,
/// missing ones at once.
struct DefectiveAccounts {
    clock: ManualClock,
    slow: u64,
    noted: Noted,
    policy: AccountPolicy,
}

/// The logon outcomes that were reported to the account back end.
type Noted = Arc<Mutex<Vec<(String, LogonOutcome)>>>;

const KNOWN: [&str; 12] = [
    "fine",
    "other",
    "disabled",
    "locked",
    "must change",
    "no password",
    "ends",
    "ended",
    "changed",
    "away",
    "old",
    "old for ever",
];

impl Authenticator for DefectiveAccounts {
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        let Some(uid) = KNOWN.iter().position(|known| *known == name) else { return Answer::now(Ok(None)) };
        let now = self.clock.now();
        let password = if name == "changed" { "former" } else { "right" };
        let ended = ["ends", "ended"].iter().position(|known| *known == name);
        let plain = testing::account(name, 1000 + uid as u32, password);
        let account = Account {
            nt_hash: plain.nt_hash.filter(|_| name != "no password"),
            disabled: name == "disabled",
            locked: name == "locked",
            must_change: name == "must change",
            never_expires: name == "old for ever",
            expires: ended.map(|ended| Time { secs: now.secs + 1 - ended as i64, ..now }),
            password_last_set: Some(if name.starts_with("old") { Time::default() } else { now }),
            ..plain
        };
        if self.slow == 0 {
            return Answer::now(Ok(Some(account)));
        }
        let found = self.clock.sleep(Duration::from_millis(self.slow));
        Answer::later(async move {
            found.await;
            Ok(Some(account))
        })
    }

    fn find_anew(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        let now =
            |account: Option<Account>| account.map(|it| Account { nt_hash: Some(NtHash(nt_hash("right"))), ..it });
        match name {
            "changed" => self.find(name).map(move |found| found.map(now)),
            "new" => self.find("fine"),
            "away" => Answer::now(Err(Unavailable("its server is".into()))),
            _ => Answer::now(Ok(None)),
        }
    }

    fn logged_on(&self, name: &str, outcome: LogonOutcome) {
        self.noted.lock().unwrap().push((name.to_owned(), outcome));
    }

    fn of_client(&self, _: &ClientName, _: Option<&LogonInfo>) -> Answer<Result<Option<Account>, Unavailable>> {
        Answer::now(Ok(None))
    }

    fn lock(&self, _: &str) {}

    fn change_password(&self, _: &str, _: NtHash, _: NtHash) -> Answer<Result<(), NotChanged>> {
        password_not_changed()
    }

    fn policy(&self) -> AccountPolicy {
        self.policy
    }
}

/// A server with these accounts, and what it reported to them.
struct Fixture {
    server: TestServer,
    noted: Noted,
}

impl Fixture {
    fn new(slow: u64, change: impl FnOnce(&mut Policy)) -> Fixture {
        Fixture::with(slow, AccountPolicy::default(), change)
    }

    fn with(slow: u64, policy: AccountPolicy, change: impl FnOnce(&mut Policy)) -> Fixture {
        let (clock, noted) = (ManualClock::new(), Noted::default());
        clock.advance(Duration::from_secs(1_000));
        let accounts = Arc::new(DefectiveAccounts { clock: clock.clone(), slow, noted: noted.clone(), policy });
        let accounts = NoAccounts(testing::MACHINE).with(accounts);
        let server = TestServer::builder().clock(clock).accounts(accounts).configure(change).start();
        Fixture { server, noted }
    }

    /// Advances the clock by milliseconds.
    fn pass(&self, millis: u64) {
        self.server.clock.advance(Duration::from_millis(millis));
    }

    /// Connects and negotiates a client.
    fn connect(&self, from: &str) -> Client {
        let remote: SocketAddr = from.parse().expect("an address");
        self.server.admit(remote.ip()).expect("the connection is admitted");
        Client(self.server.connect_from(remote))
    }

    /// Returns the result of a logon, and the time since the proof was sent, ms.
    fn log_on(&self, client: &mut Client, user: &str, password: &str) -> (Status, u64) {
        let begun = self.server.clock.uptime();
        client.prove(user, password);
        for _ in 0..200 {
            if let Some(message) = client.try_receive() {
                return (message.header().status, (self.server.clock.uptime() - begun).as_millis() as u64);
            }
            self.pass(100);
        }
        panic!("no answer for {user}");
    }
}

/// A client that sends the tokens of a logon without waiting for the last response.
struct Client(PipelinedClient);

impl Deref for Client {
    type Target = PipelinedClient;

    fn deref(&self) -> &PipelinedClient {
        &self.0
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut PipelinedClient {
        &mut self.0
    }
}

impl Client {
    fn token(&mut self, session_id: u64, token: &[u8]) {
        self.session_id = session_id;
        let message = self.compose_session_setup(token, SecurityMode::SIGNING_ENABLED, 0);
        self.send(&message);
    }

    /// Starts a logon.
    fn begin(&mut self, initiator: &Initiator) -> (u64, Vec<u8>) {
        self.token(0, initiator.negotiate());
        let response = self.receive();
        response.check(Status::MORE_PROCESSING_REQUIRED);
        let challenge = SessionSetupResponse::decode(response.bytes()).expect("a challenge").buffer.to_vec();
        (response.header().session_id, challenge)
    }

    /// Logs on up to the proof of the password, without waiting for the response.
    fn prove(&mut self, user: &str, password: &str) {
        self.prove_to(user, password, "");
    }

    /// Like [`Client::prove`], to the server `target`, an SPN.
    fn prove_to(&mut self, user: &str, password: &str, target: &str) {
        let credentials = Credentials { user: user.into(), domain: String::new(), nt_hash: nt_hash(password) };
        self.prove_with(&Initiator::new(Some(credentials), "TEST", target));
    }

    /// Logs on with this initiator's credentials, up to the proof.
    fn prove_with(&mut self, initiator: &Initiator) {
        let (session, challenge) = self.begin(initiator);
        let random = Random { client_challenge: [4; 8], session_key: [5; 16] };
        let (proof, _) = initiator.authenticate(&challenge, &random, 0).expect("an NTLM response to an NTLM message");
        self.token(session, &proof);
    }
}

const ALL: [&str; 7] = ["fine", "unknown", "disabled", "locked", "must change", "no password", "Fine "];

#[test]
fn a_wrong_password_is_refused_alike_for_every_account() {
    // A slow back end takes a while for existing users and no time for missing ones.
    for slow in [0, 700, 1_900] {
        let fixture = Fixture::new(slow, |_| {});
        for user in ALL {
            let found = fixture.log_on(&mut fixture.connect("192.0.2.1:1"), user, "wrong");
            assert_eq!(found, (Status::LOGON_FAILURE, 2_000), "{user}, slow {slow}");
            fixture.pass(60_000);
        }
    }
}

#[test]
fn the_state_of_an_account_is_revealed_only_with_its_password() {
    let year = Some(Duration::from_secs(365 * 86_400));
    let fixture = Fixture::with(0, AccountPolicy { max_password_age: year, ..AccountPolicy::default() }, |_| {});
    for (user, expected) in [
        ("fine", (Status::SUCCESS, 0)),
        ("disabled", (Status::ACCOUNT_DISABLED, 0)),
        ("locked", (Status::ACCOUNT_LOCKED_OUT, 2_000)),
        ("must change", (Status::PASSWORD_MUST_CHANGE, 0)),
        ("ends", (Status::SUCCESS, 0)),
        ("ended", (Status::ACCOUNT_EXPIRED, 0)),
        ("old", (Status::PASSWORD_EXPIRED, 0)),
        ("old for ever", (Status::SUCCESS, 0)),
    ] {
        assert_eq!(fixture.log_on(&mut fixture.connect("192.0.2.1:1"), user, "right"), expected, "{user}");
    }
}

#[test]
fn a_failed_proof_is_checked_against_the_current_account() {
    let fixture = Fixture::new(0, |_| {});
    let log_on = |user: &str, password: &str| fixture.log_on(&mut fixture.connect("192.0.2.1:1"), user, password).0;
    assert_eq!(log_on("changed", "right"), Status::SUCCESS);
    assert_eq!(log_on("new", "right"), Status::SUCCESS);
    assert_eq!(log_on("changed", "neither"), Status::LOGON_FAILURE);
    assert_eq!(log_on("away", "wrong"), Status::NO_LOGON_SERVERS);
    assert_eq!(log_on("away", "right"), Status::SUCCESS);
}

#[test]
fn guesses_are_counted_while_the_back_end_is_unavailable() {
    let policy = AccountPolicy { lockout_attempts: 3, ..AccountPolicy::default() };
    let fixture = Fixture::with(0, policy, |_| {});
    let log_on = |password: &str| fixture.log_on(&mut fixture.connect("192.0.2.1:1"), "away", password);
    for _ in 0..3 {
        assert_eq!(log_on("wrong"), (Status::NO_LOGON_SERVERS, 2_000));
        fixture.pass(60_000);
    }
    assert_eq!(log_on("right").0, Status::ACCOUNT_LOCKED_OUT);
}

#[test]
fn the_back_end_is_notified_of_logons_to_existing_accounts() {
    let fixture = Fixture::new(0, |_| {});
    for (user, password) in [("fine", "right"), ("fine", "wrong"), ("unknown", "x"), ("disabled", "right")] {
        fixture.log_on(&mut fixture.connect("192.0.2.1:1"), user, password);
    }
    let expected = [("fine".to_owned(), LogonOutcome::Success), ("fine".to_owned(), LogonOutcome::WrongPassword)];
    assert_eq!(*fixture.noted.lock().unwrap(), expected);
}

#[test]
fn accounts_are_locked_after_wrong_passwords_and_reveal_nothing_more() {
    let policy = AccountPolicy { lockout_attempts: 3, ..AccountPolicy::default() };
    for user in ALL {
        let fixture = Fixture::with(0, policy, |_| {});
        let log_on = |password| fixture.log_on(&mut fixture.connect("192.0.2.1:1"), user, password);
        for _ in 0..3 {
            assert_eq!(log_on("wrong"), (Status::LOGON_FAILURE, 2_000), "{user}");
        }
        for password in ["wrong", "right", "wrong"] {
            assert_eq!(log_on(password), (Status::ACCOUNT_LOCKED_OUT, 2_000), "{user}");
        }
        assert_eq!(fixture.log_on(&mut fixture.connect("192.0.2.1:1"), "other", "right"), (Status::SUCCESS, 0));
        fixture.pass(31 * 60_000);
        assert_eq!(log_on("wrong"), (Status::LOGON_FAILURE, 2_000), "{user}");
    }
}

/// Maps every user to `fine`, except that the mapping of alice is unavailable.
struct OneForAll;

impl UsernameMap for OneForAll {
    fn account_of(&self, _: &str, user: &str) -> Answer<Result<Option<String>, Unavailable>> {
        Answer::now(match user {
            "alice" => Err(Unavailable("NSS hangs".into())),
            _ => Ok(Some("fine".into())),
        })
    }

    fn account_of_proven(&self, _: &str, _: &[String]) -> Answer<Result<Option<String>, Unavailable>> {
        Answer::now(Ok(Some("fine".into())))
    }
}

#[test]
fn many_names_of_one_account_allow_no_more_guesses() {
    let fixture = Fixture::new(0, |policy| policy.username_map = Some(Arc::new(OneForAll)));
    let clients: Vec<_> = ["ann", "bob", "carl"].map(|name| (name, fixture.connect("192.0.2.1:1"))).into();
    let mut before = Vec::new();
    for ((name, mut client), expected) in clients.into_iter().zip([2_000, 4_000, 6_000]) {
        client.prove(name, "wrong");
        before.push((client, expected));
    }
    for (mut client, expected) in before {
        let answered = (0..100).find(|_| {
            let there = client.try_receive().is_some();
            if !there {
                fixture.pass(100);
            }
            there
        });
        assert!(answered.is_some());
        assert_eq!(fixture.server.clock.uptime().as_millis() - 1_000_000, expected);
    }
}

#[test]
fn a_user_whose_name_cannot_be_mapped_is_refused() {
    let fixture = Fixture::new(0, |policy| policy.username_map = Some(Arc::new(OneForAll)));
    assert_eq!(fixture.log_on(&mut fixture.connect("192.0.2.1:1"), "alice", "right").0, Status::NO_LOGON_SERVERS);
    assert_eq!(fixture.log_on(&mut fixture.connect("192.0.2.1:1"), "ann", "right").0, Status::SUCCESS);
}

#[test]
fn an_administrator_resets_the_count_of_wrong_passwords() {
    let policy = AccountPolicy { lockout_attempts: 1, lockout_duration: None, ..AccountPolicy::default() };
    let fixture = Fixture::with(0, policy, |_| {});
    assert_eq!(fixture.log_on(&mut fixture.connect("192.0.2.1:1"), "fine", "wrong").0, Status::LOGON_FAILURE);
    assert!(fixture.server.logons.is_locked_out("FINE"));
    fixture.pass(1 << 40);
    assert_eq!(fixture.log_on(&mut fixture.connect("192.0.2.1:1"), "fine", "right").0, Status::ACCOUNT_LOCKED_OUT);
    fixture.server.logons.clear_lockout("Fine");
    assert_eq!(fixture.log_on(&mut fixture.connect("192.0.2.1:1"), "fine", "right").0, Status::SUCCESS);
}

#[test]
fn guests_for_bad_passwords_do_not_reveal_which_users_exist() {
    let identity = Arc::new(Identity { uid: 65534, gid: 65534, groups: Box::new([]) });
    let guest = server::policy::Guest { name: "nobody".into(), identity };
    let fixture =
        Fixture::new(0, |policy| (policy.map_to_guest, policy.guest) = (MapToGuest::BadPassword, Some(guest)));
    for user in ALL {
        assert_eq!(fixture.log_on(&mut fixture.connect("192.0.2.1:1"), user, "wrong"), (Status::SUCCESS, 0), "{user}");
    }
}

#[test]
fn a_correct_password_never_waits() {
    let fixture = Fixture::new(0, |_| {});
    assert_eq!(fixture.log_on(&mut fixture.connect("192.0.2.1:100"), "fine", "right"), (Status::SUCCESS, 0));
    let mut attackers: Vec<Client> = (1..=50).map(|port| fixture.connect(&format!("192.0.2.1:{port}"))).collect();
    for attacker in &mut attackers {
        attacker.prove("fine", "wrong");
    }
    for from in ["192.0.2.1:99", "192.0.2.2:1"] {
        assert_eq!(fixture.log_on(&mut fixture.connect(from), "fine", "right"), (Status::SUCCESS, 0), "{from}");
    }
    // The owner's mistyped password is answered in time too.
    let (status, waited) = fixture.log_on(&mut fixture.connect("192.0.2.2:1"), "fine", "slip");
    assert!(status == Status::LOGON_FAILURE && waited <= 10_000, "{status}, {waited} ms");
}

/// An attacker who does not wait for responses gets few guesses checked, and cannot detect a right password among them.
#[test]
fn guesses_beyond_the_queue_are_not_checked() {
    for user in ["fine", "unknown"] {
        let fixture = Fixture::new(0, |_| {});
        assert_eq!(fixture.log_on(&mut fixture.connect("192.0.2.7:1"), "fine", "right").0, Status::SUCCESS);
        let mut attackers: Vec<Client> = (1..=20).map(|port| fixture.connect(&format!("192.0.2.1:{port}"))).collect();
        for (number, attacker) in attackers.iter_mut().enumerate() {
            attacker.prove(user, if number < 10 { "wrong" } else { "right" });
        }
        let tried = fixture.noted.lock().unwrap().iter().filter(|(_, how)| *how == LogonOutcome::WrongPassword).count();
        assert_eq!(tried, if user == "fine" { 4 } else { 0 });
        for attacker in &mut attackers {
            let answer = (0..200).find_map(|_| {
                let answer = attacker.try_receive();
                if answer.is_none() {
                    fixture.pass(100);
                }
                answer
            });
            assert_eq!(answer.map(|message| message.header().status), Some(Status::LOGON_FAILURE), "{user}");
        }
        // From the owner's addresses and from others, logons work as before.
        for _ in 0..20 {
            fixture.connect("192.0.2.1:99").prove("fine", "wrong");
        }
        for from in ["192.0.2.7:2", "192.0.2.8:1"] {
            assert_eq!(fixture.log_on(&mut fixture.connect(from), "fine", "right"), (Status::SUCCESS, 0), "{from}");
        }
        assert_eq!(fixture.log_on(&mut fixture.connect("192.0.2.1:99"), "fine", "right").0, Status::LOGON_FAILURE);
        fixture.pass(2_000);
        assert_eq!(fixture.log_on(&mut fixture.connect("192.0.2.1:99"), "fine", "right").0, Status::SUCCESS);
    }
}

#[test]
fn delayed_failures_are_bounded_on_a_connection() {
    let fixture = Fixture::new(0, |policy| policy.limits.failed_logons_per_connection = 3);
    let mut client = fixture.connect("192.0.2.1:1");
    for _ in 0..3 {
        client.prove("fine", "wrong");
    }
    assert!(client.try_receive().is_none() && client.connection.ended().is_none());
    client.prove("fine", "wrong");
    client.turn();
    assert!(client.connection.ended().is_some());
    // Nothing waits for a closed connection.
    assert!(!client.is_waiting());
    // On a connection with a logged-on user, the response is immediate instead.
    let mut client = fixture.connect("192.0.2.2:1");
    assert_eq!(fixture.log_on(&mut client, "fine", "right").0, Status::SUCCESS);
    for _ in 0..3 {
        client.prove("other", "wrong");
    }
    assert_eq!(fixture.log_on(&mut client, "other", "wrong"), (Status::LOGON_FAILURE, 0));
    assert!(client.connection.ended().is_none());
}

#[test]
fn delayed_failures_are_bounded_for_an_address_and_in_total() {
    let fixture = Fixture::new(0, |_| {});
    let mut cut_off = 0;
    let mut those: Vec<Client> =
        (1..=100).map(|port| fixture.connect(&format!("[2001:db8::{port:x}]:{port}"))).collect();
    for (number, client) in those.iter_mut().enumerate() {
        client.prove(&format!("user {number}"), "wrong");
        client.turn();
        cut_off += usize::from(client.connection.ended().is_some());
    }
    assert_eq!(cut_off, 36, "64 connections of a /64 wait");
    assert_eq!(fixture.log_on(&mut fixture.connect("[2001:db8:0:1::1]:1"), "unknown", "wrong").1, 2_000);

    let fixture = Fixture::new(0, |policy| policy.limits.failed_logon_bytes = 16 * 28_000);
    let mut those: Vec<Client> = (1..=3).map(|host| fixture.connect(&format!("192.0.2.{host}:1"))).collect();
    those.iter_mut().for_each(|client| client.prove("fine", "wrong"));
    let ended: Vec<bool> = those.iter().map(|client| client.connection.ended().is_some()).collect();
    assert_eq!(ended, [false, false, true]);
}

#[test]
fn a_flood_of_unauthenticated_connections_blocks_only_its_own_address() {
    let fixture =
        Fixture::new(0, |policy| (policy.limits.unauthenticated, policy.limits.unauthenticated_per_address) = (10, 8));
    let mut known = fixture.connect("192.0.2.1:1");
    assert_eq!(fixture.log_on(&mut known, "fine", "right").0, Status::SUCCESS);
    let strangers: Vec<Client> = (1..=30).map(|port| fixture.connect(&format!("192.0.2.1:{port}"))).collect();
    let left = strangers.iter().filter(|stranger| stranger.connection.ended().is_none()).count();
    assert_eq!(left, 8);
    let others: Vec<Client> = (2..=5).map(|host| fixture.connect(&format!("192.0.2.{host}:1"))).collect();
    for mut other in others {
        assert!(other.connection.ended().is_none());
        assert_eq!(fixture.log_on(&mut other, "fine", "right").0, Status::SUCCESS);
    }
    let newest = strangers.last().expect("at least one connection");
    assert!(known.connection.ended().is_none() && newest.connection.ended().is_none());
}

#[test]
fn unauthenticated_connections_are_dropped_when_the_server_is_full() {
    let fixture = Fixture::new(0, |policy| policy.limits.connections = 4);
    let mut known = fixture.connect("192.0.2.1:1");
    assert_eq!(fixture.log_on(&mut known, "fine", "right").0, Status::SUCCESS);
    let strangers: Vec<Client> = (1..=3).map(|port| fixture.connect(&format!("192.0.2.9:{port}"))).collect();
    let mut last = fixture.connect("192.0.2.3:1");
    assert!(strangers[0].connection.ended().is_some() && strangers[1].connection.ended().is_none());
    assert_eq!(fixture.log_on(&mut last, "fine", "right").0, Status::SUCCESS);
    assert!(fixture.server.admit([192, 0, 2, 4].into()).is_ok());
    assert!(strangers[1].connection.ended().is_some());
    assert!(fixture.server.admit([192, 0, 2, 4].into()).is_ok());
    assert!(fixture.server.admit([192, 0, 2, 4].into()).is_err(), "all remaining connections are logged on");
}

#[test]
fn pending_logons_are_bounded_and_end() {
    let fixture = Fixture::new(0, |policy| policy.limits.logons_before_logon = 4);
    let mut client = fixture.connect("192.0.2.1:1");
    let initiator = Initiator::new(None, "TEST", "");
    let begun: Vec<u64> = (0..20).map(|_| client.begin(&initiator).0).collect();
    let under_way = |fixture: &Fixture| begun.iter().filter(|id| fixture.server.sessions.get(**id).is_some()).count();
    assert_eq!(under_way(&fixture), 4);
    fixture.pass(31_000);
    let (last, _) = client.begin(&initiator);
    assert_eq!(under_way(&fixture), 0);
    assert!(fixture.server.sessions.get(last).is_some());
}

#[test]
fn a_server_without_ntlm_refuses_it() {
    let fixture = Fixture::new(0, |policy| policy.ntlm = false);
    let initiator = Initiator::new(None, "TEST", "");
    let mut client = fixture.connect("192.0.2.1:1");
    client.token(0, initiator.negotiate());
    assert_eq!(client.try_receive().map(|message| message.header().status), Some(Status::NTLM_BLOCKED));
    client.token(0, &encode_init(&encode_mech_types(&[MechType::NTLMSSP]), Some(initiator.negotiate())));
    assert_eq!(client.try_receive().map(|message| message.header().status), Some(Status::NTLM_BLOCKED));
    assert!(fixture.server.sessions.all().is_empty());
}

#[test]
fn a_proof_for_another_server_is_refused_if_names_are_checked() {
    for (check, target, expected) in [
        (SpnCheck::Off, "cifs/attacker", Status::SUCCESS),
        (SpnCheck::IfSent, "cifs/attacker", Status::ACCESS_DENIED),
        (SpnCheck::IfSent, "", Status::SUCCESS),
        (SpnCheck::Required, "", Status::ACCESS_DENIED),
        (SpnCheck::Required, "cifs/127.0.0.1", Status::SUCCESS),
    ] {
        let fixture = Fixture::new(0, |policy| policy.spn_check = check);
        let mut client = fixture.connect("192.0.2.1:1");
        client.prove_to("fine", "right", target);
        assert_eq!(client.try_receive().map(|message| message.header().status), Some(expected), "{check:?} {target:?}");
    }
}

#[test]
fn a_logon_uses_little_memory() {
    let fixture = Fixture::new(0, |_| {});
    let mut client = fixture.connect("192.0.2.1:1");
    let mut long = Initiator::new(None, "TEST", "").negotiate().to_vec();
    long.resize(60_000, 0);
    client.token(0, &long);
    assert_eq!(client.try_receive().map(|message| message.header().status), Some(Status::INVALID_PARAMETER));
    assert!(fixture.server.sessions.all().is_empty());
}

/// A session keeps the name of its client's computer, which nothing is charged for.
#[test]
fn a_session_keeps_a_short_name_of_the_clients_computer() {
    let longest = "\u{20ac}".repeat(30_000);
    for user in [Some("fine"), None] {
        for (sent, kept) in [("LAPTOP", "LAPTOP"), (&longest[..], &longest[..3 * 256])] {
            let fixture = Fixture::new(0, |_| {});
            let mut client = fixture.connect("192.0.2.1:1");
            let credentials =
                user.map(|user| Credentials { user: user.into(), domain: String::new(), nt_hash: nt_hash("right") });
            client.prove_with(&Initiator::new(credentials, sent, ""));
            client.receive().check(Status::SUCCESS);
            let session = fixture.server.sessions.get(client.session_id).expect("a session");
            let user = session.user().expect("a user");
            assert!(user.workstation == kept, "{} bytes are kept", user.workstation.len());
            assert!(user.workstation.capacity() < 4 * 1024);
        }
    }
}

#[test]
fn the_suite_passes_on_remote_storage() {
    testing::passes_on_remote_storage(&[]);
}
