//! Attacks on logons as clients see them: what a refusal reveals, how long it takes, and what anonymous clients can
//! make the server hold. The tests control the time.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use proto::auth::ntlm::{Credentials, Initiator, Random, nt_hash};
use proto::auth::pac::LogonInfo;
use proto::auth::spnego::{MechType, encode_init, encode_mech_types};
use proto::bytes::Writer;
use proto::dtyp::Guid;
use proto::smb2::header::{Command, Header};
use proto::smb2::negotiate::{Capabilities, Dialect, NegotiateRequest, SecurityMode};
use proto::smb2::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use proto::status::Status;
use server::accounts::doubles::{Nobody, password_not_changed};
use server::accounts::{
    Account, AccountPolicy, Authenticator, DomainSid, LogonOutcome, NotChanged, NtHash, Unavailable,
};
use server::answer::Answer;
use server::environment::Environment;
use server::policy::{MapToGuest, Policy, Share, SpnCheck, UsernameMap};
use server::state::connection::{Connection, Peer};
use server::state::{Server, ServerParts, VolumeId, Volumes, directories_overlap};
use server::tickets::ClientName;
use server::vfs::{self, Errno, Identity, Time, Vfs};

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A clock in milliseconds that the test controls.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Clock {
    fn at(&self, millis: u64) -> Running {
        let clock = self.clone();
        let now = move |_: &mut Context<'_>| clock.0.load(Ordering::Relaxed);
        Box::pin(poll_fn(move |context| if now(context) >= millis { Poll::Ready(()) } else { Poll::Pending }))
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn unix_now(&self) -> i64 {
        Environment::now(self).secs
    }
}

impl Environment for Clock {
    fn now(&self) -> Time {
        Time { secs: 1_800_000_000 + (self.0.load(Ordering::Relaxed) / 1000) as i64, nanos: 0 }
    }

    fn uptime(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> Running {
        self.at(self.0.load(Ordering::Relaxed) + duration.as_millis() as u64)
    }

    fn random(&self, bytes: &mut [u8]) {
        static LAST: AtomicU64 = AtomicU64::new(1);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        bytes.iter_mut().zip(number.to_le_bytes().into_iter().cycle()).for_each(|(byte, random)| *byte = random);
    }
}

/// User accounts with the password `right`, each named after its defect. Existing ones are found after `slow` ms,
/// missing ones at once.
struct People {
    clock: Clock,
    slow: u64,
    noted: Noted,
    policy: AccountPolicy,
}

/// The logon outcomes that were reported to the account back end.
type Noted = Arc<Mutex<Vec<(String, LogonOutcome)>>>;

/// The SID of this machine.
const DOMAIN: DomainSid = DomainSid([1, 2, 3]);

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

impl Authenticator for People {
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        let Some(uid) = KNOWN.iter().position(|known| *known == name) else { return Answer::now(Ok(None)) };
        let account = Account {
            name: name.to_owned(),
            nt_hash: (name != "no password")
                .then(|| NtHash(nt_hash(if name == "changed" { "former" } else { "right" }))),
            disabled: name == "disabled",
            locked: name == "locked",
            must_change: name == "must change",
            never_expires: name == "old for ever",
            sid: DOMAIN.with_rid(1000 + uid as u32),
            domain: None,
            expires: ["ends", "ended"]
                .iter()
                .position(|known| *known == name)
                .map(|ended| Time { secs: self.clock.unix_now() + 1 - ended as i64, nanos: 0 }),
            former_sids: Arc::new([]),
            full_name: String::new(),
            password_last_set: Some(if name.starts_with("old") {
                Time::default()
            } else {
                Environment::now(&self.clock)
            }),
            identity: Arc::new(Identity { uid: 1000 + uid as u32, gid: 1000, groups: Box::new([]) }),
            groups: Arc::new([]),
        };
        if self.slow == 0 {
            return Answer::now(Ok(Some(account)));
        }
        let found = self.clock.at(self.clock.now() + self.slow);
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

struct NoVolume;

impl Volumes for NoVolume {
    fn id(&self, share: &Share) -> VolumeId {
        VolumeId::of_directory(share)
    }

    fn open(&self, _: &Share) -> Answer<vfs::Result<Arc<dyn Vfs>>> {
        Answer::now(Err(Errno::IO))
    }

    fn overlap(&self, share: &Share, other: &Share) -> bool {
        directories_overlap(share, other)
    }

    fn mount_point(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
}

struct Bed {
    server: Arc<Server>,
    clock: Clock,
    noted: Noted,
}

impl Bed {
    fn new(slow: u64, change: impl FnOnce(&mut Policy)) -> Bed {
        Bed::with(slow, AccountPolicy::default(), change)
    }

    fn with(slow: u64, accounts: AccountPolicy, change: impl FnOnce(&mut Policy)) -> Bed {
        let clock = Clock::default();
        clock.0.store(1_000_000, Ordering::Relaxed);
        let mut policy = Policy::default();
        change(&mut policy);
        let environment = Arc::new(clock.clone());
        let noted = Noted::default();
        let people = Arc::new(People { clock: clock.clone(), slow, noted: noted.clone(), policy: accounts });
        let parts = ServerParts::new(environment, Nobody(DOMAIN).with(people), Arc::new(NoVolume));
        Bed { server: Server::new(policy, Guid([9; 16]), parts), clock, noted }
    }

    fn pass(&self, millis: u64) {
        self.clock.0.fetch_add(millis, Ordering::Relaxed);
    }

    /// Connects and negotiates a client.
    fn connect(&self, from: &str) -> Client {
        let remote: SocketAddr = from.parse().expect("an address");
        self.server.admit(remote.ip()).expect("the connection is admitted");
        let peer = Peer { remote, local: ([127, 0, 0, 1], 445).into() };
        let connection = Connection::new(&self.server, peer);
        let mut client = Client { connection, message_id: 0, running: Vec::new(), received: VecDeque::new() };
        let negotiate = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities(0),
            client_guid: [7; 16],
            dialects: vec![Dialect::SMB_2_1],
            negotiate_context_list: Vec::new(),
        };
        client.send(Command::NEGOTIATE, 0, |out| negotiate.encode(out));
        client.received.clear();
        client
    }

    /// Returns the result of a logon, and the time since the proof was sent, ms.
    fn log_on(&self, client: &mut Client, user: &str, password: &str) -> (Status, u64) {
        let begun = self.clock.now();
        client.prove(user, password);
        for _ in 0..200 {
            if let Some(header) = client.turn() {
                return (header.status, self.clock.now() - begun);
            }
            self.pass(100);
        }
        panic!("no answer for {user}");
    }
}

struct Client {
    connection: Arc<Connection>,
    message_id: u64,
    running: Vec<Running>,
    received: VecDeque<Vec<u8>>,
}

impl Client {
    fn send(&mut self, command: Command, session_id: u64, encode: impl FnOnce(&mut Writer<'_>)) {
        let mut header = Header::request(command, self.message_id);
        (header.session_id, header.credits, header.credit_charge) = (session_id, 64, 1);
        self.message_id += 1;
        let mut message = Vec::new();
        let mut out = Writer::new(&mut message);
        header.encode(&mut out);
        encode(&mut out);
        if let Ok(Some(chain)) = self.connection.receive(BytesMut::from(&message[..])) {
            self.running.push(Box::pin(chain.run()));
        }
        self.poll();
    }

    fn poll(&mut self) {
        self.running.retain_mut(|running| running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        while let Some(frame) = self.connection.next_frame() {
            self.received.push_back(frame.as_bytes()[4..].to_vec());
        }
    }

    /// Returns the next available response.
    fn turn(&mut self) -> Option<Header> {
        self.poll();
        self.received.pop_front().map(|message| Header::decode(&message).expect("a well-formed response header"))
    }

    fn token(&mut self, session_id: u64, token: &[u8]) {
        let setup = SessionSetupRequest {
            flags: SessionSetupFlags(0),
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities(0),
            previous_session_id: 0,
            buffer: token,
        };
        self.send(Command::SESSION_SETUP, session_id, |out| setup.encode(out));
    }

    /// Starts a logon.
    fn begin(&mut self, initiator: &Initiator) -> (u64, Vec<u8>) {
        self.token(0, initiator.negotiate());
        let response = self.received.pop_front().expect("a challenge");
        let header = Header::decode(&response).expect("a well-formed response header");
        assert_eq!(header.status, Status::MORE_PROCESSING_REQUIRED);
        let challenge = SessionSetupResponse::decode(&response).expect("a challenge").buffer.to_vec();
        (header.session_id, challenge)
    }

    /// Logs on up to the proof of the password, without waiting for the response.
    fn prove(&mut self, user: &str, password: &str) {
        self.prove_to(user, password, "");
    }

    /// Like [`Client::prove`], to the server `target`, an SPN.
    fn prove_to(&mut self, user: &str, password: &str, target: &str) {
        let credentials = Credentials { user: user.into(), domain: String::new(), nt_hash: nt_hash(password) };
        let initiator = Initiator::new(Some(credentials), "TEST", target);
        let (session, challenge) = self.begin(&initiator);
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
        let bed = Bed::new(slow, |_| {});
        for user in ALL {
            let found = bed.log_on(&mut bed.connect("192.0.2.1:1"), user, "wrong");
            assert_eq!(found, (Status::LOGON_FAILURE, 2_000), "{user}, slow {slow}");
            bed.pass(60_000);
        }
    }
}

#[test]
fn the_state_of_an_account_is_revealed_only_with_its_password() {
    let year = Some(Duration::from_secs(365 * 86_400));
    let bed = Bed::with(0, AccountPolicy { max_password_age: year, ..AccountPolicy::default() }, |_| {});
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
        assert_eq!(bed.log_on(&mut bed.connect("192.0.2.1:1"), user, "right"), expected, "{user}");
    }
}

#[test]
fn a_failed_proof_is_checked_against_the_current_account() {
    let bed = Bed::new(0, |_| {});
    let log_on = |user: &str, password: &str| bed.log_on(&mut bed.connect("192.0.2.1:1"), user, password).0;
    assert_eq!(log_on("changed", "right"), Status::SUCCESS);
    assert_eq!(log_on("new", "right"), Status::SUCCESS);
    assert_eq!(log_on("changed", "neither"), Status::LOGON_FAILURE);
    assert_eq!(log_on("away", "wrong"), Status::NO_LOGON_SERVERS);
    assert_eq!(log_on("away", "right"), Status::SUCCESS);
}

#[test]
fn guesses_are_counted_while_the_back_end_is_unavailable() {
    let policy = AccountPolicy { lockout_attempts: 3, ..AccountPolicy::default() };
    let bed = Bed::with(0, policy, |_| {});
    let log_on = |password: &str| bed.log_on(&mut bed.connect("192.0.2.1:1"), "away", password);
    for _ in 0..3 {
        assert_eq!(log_on("wrong"), (Status::NO_LOGON_SERVERS, 2_000));
        bed.pass(60_000);
    }
    assert_eq!(log_on("right").0, Status::ACCOUNT_LOCKED_OUT);
}

#[test]
fn the_back_end_is_notified_of_logons_to_existing_accounts() {
    let bed = Bed::new(0, |_| {});
    for (user, password) in [("fine", "right"), ("fine", "wrong"), ("unknown", "x"), ("disabled", "right")] {
        bed.log_on(&mut bed.connect("192.0.2.1:1"), user, password);
    }
    let expected = [("fine".to_owned(), LogonOutcome::Success), ("fine".to_owned(), LogonOutcome::WrongPassword)];
    assert_eq!(*bed.noted.lock().unwrap(), expected);
}

#[test]
fn accounts_are_locked_after_wrong_passwords_and_reveal_nothing_more() {
    let policy = AccountPolicy { lockout_attempts: 3, ..AccountPolicy::default() };
    for user in ALL {
        let bed = Bed::with(0, policy, |_| {});
        let log_on = |password| bed.log_on(&mut bed.connect("192.0.2.1:1"), user, password);
        for _ in 0..3 {
            assert_eq!(log_on("wrong"), (Status::LOGON_FAILURE, 2_000), "{user}");
        }
        for password in ["wrong", "right", "wrong"] {
            assert_eq!(log_on(password), (Status::ACCOUNT_LOCKED_OUT, 2_000), "{user}");
        }
        assert_eq!(bed.log_on(&mut bed.connect("192.0.2.1:1"), "other", "right"), (Status::SUCCESS, 0));
        bed.pass(31 * 60_000);
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
    let bed = Bed::new(0, |policy| policy.username_map = Some(Arc::new(OneForAll)));
    let clients: Vec<_> = ["ann", "bob", "carl"].map(|name| (name, bed.connect("192.0.2.1:1"))).into();
    let mut before = Vec::new();
    for ((name, mut client), expected) in clients.into_iter().zip([2_000, 4_000, 6_000]) {
        client.prove(name, "wrong");
        before.push((client, expected));
    }
    for (mut client, expected) in before {
        let answered = (0..100).find(|_| {
            let there = client.turn().is_some();
            if !there {
                bed.pass(100);
            }
            there
        });
        assert!(answered.is_some());
        assert_eq!(bed.clock.now() - 1_000_000, expected);
    }
}

#[test]
fn a_user_whose_name_cannot_be_mapped_is_refused() {
    let bed = Bed::new(0, |policy| policy.username_map = Some(Arc::new(OneForAll)));
    assert_eq!(bed.log_on(&mut bed.connect("192.0.2.1:1"), "alice", "right").0, Status::NO_LOGON_SERVERS);
    assert_eq!(bed.log_on(&mut bed.connect("192.0.2.1:1"), "ann", "right").0, Status::SUCCESS);
}

#[test]
fn an_administrator_resets_the_count_of_wrong_passwords() {
    let policy = AccountPolicy { lockout_attempts: 1, lockout_duration: None, ..AccountPolicy::default() };
    let bed = Bed::with(0, policy, |_| {});
    assert_eq!(bed.log_on(&mut bed.connect("192.0.2.1:1"), "fine", "wrong").0, Status::LOGON_FAILURE);
    assert!(bed.server.logons.is_locked_out("FINE"));
    bed.pass(1 << 40);
    assert_eq!(bed.log_on(&mut bed.connect("192.0.2.1:1"), "fine", "right").0, Status::ACCOUNT_LOCKED_OUT);
    bed.server.logons.clear_lockout("Fine");
    assert_eq!(bed.log_on(&mut bed.connect("192.0.2.1:1"), "fine", "right").0, Status::SUCCESS);
}

#[test]
fn guests_for_bad_passwords_do_not_reveal_which_users_exist() {
    let identity = Arc::new(Identity { uid: 65534, gid: 65534, groups: Box::new([]) });
    let guest = server::policy::Guest { name: "nobody".into(), identity };
    let bed = Bed::new(0, |policy| (policy.map_to_guest, policy.guest) = (MapToGuest::BadPassword, Some(guest)));
    for user in ALL {
        assert_eq!(bed.log_on(&mut bed.connect("192.0.2.1:1"), user, "wrong"), (Status::SUCCESS, 0), "{user}");
    }
}

#[test]
fn a_correct_password_never_waits() {
    let bed = Bed::new(0, |_| {});
    assert_eq!(bed.log_on(&mut bed.connect("192.0.2.1:100"), "fine", "right"), (Status::SUCCESS, 0));
    let mut attackers: Vec<Client> = (1..=50).map(|port| bed.connect(&format!("192.0.2.1:{port}"))).collect();
    for attacker in &mut attackers {
        attacker.prove("fine", "wrong");
    }
    for from in ["192.0.2.1:99", "192.0.2.2:1"] {
        assert_eq!(bed.log_on(&mut bed.connect(from), "fine", "right"), (Status::SUCCESS, 0), "{from}");
    }
    // The owner's mistyped password is answered in time too.
    let (status, waited) = bed.log_on(&mut bed.connect("192.0.2.2:1"), "fine", "slip");
    assert!(status == Status::LOGON_FAILURE && waited <= 10_000, "{status}, {waited} ms");
}

/// An attacker who does not wait for responses gets few guesses checked, and cannot detect a right password among them.
#[test]
fn guesses_beyond_the_queue_are_not_checked() {
    for user in ["fine", "unknown"] {
        let bed = Bed::new(0, |_| {});
        assert_eq!(bed.log_on(&mut bed.connect("192.0.2.7:1"), "fine", "right").0, Status::SUCCESS);
        let mut attackers: Vec<Client> = (1..=20).map(|port| bed.connect(&format!("192.0.2.1:{port}"))).collect();
        for (number, attacker) in attackers.iter_mut().enumerate() {
            attacker.prove(user, if number < 10 { "wrong" } else { "right" });
        }
        let tried = bed.noted.lock().unwrap().iter().filter(|(_, how)| *how == LogonOutcome::WrongPassword).count();
        assert_eq!(tried, if user == "fine" { 4 } else { 0 });
        for attacker in &mut attackers {
            let answer = (0..200).find_map(|_| {
                let answer = attacker.turn();
                if answer.is_none() {
                    bed.pass(100);
                }
                answer
            });
            assert_eq!(answer.map(|header| header.status), Some(Status::LOGON_FAILURE), "{user}");
        }
        // From the owner's addresses and from others, logons work as before.
        for _ in 0..20 {
            bed.connect("192.0.2.1:99").prove("fine", "wrong");
        }
        for from in ["192.0.2.7:2", "192.0.2.8:1"] {
            assert_eq!(bed.log_on(&mut bed.connect(from), "fine", "right"), (Status::SUCCESS, 0), "{from}");
        }
        assert_eq!(bed.log_on(&mut bed.connect("192.0.2.1:99"), "fine", "right").0, Status::LOGON_FAILURE);
        bed.pass(2_000);
        assert_eq!(bed.log_on(&mut bed.connect("192.0.2.1:99"), "fine", "right").0, Status::SUCCESS);
    }
}

#[test]
fn delayed_failures_are_bounded_on_a_connection() {
    let bed = Bed::new(0, |policy| policy.limits.failed_logons_per_connection = 3);
    let mut client = bed.connect("192.0.2.1:1");
    for _ in 0..3 {
        client.prove("fine", "wrong");
    }
    assert!(client.turn().is_none() && client.connection.ended().is_none());
    client.prove("fine", "wrong");
    client.poll();
    assert!(client.connection.ended().is_some());
    // Nothing waits for a closed connection.
    assert!(client.running.is_empty());
    // On a connection with a logged-on user, the response is immediate instead.
    let mut client = bed.connect("192.0.2.2:1");
    assert_eq!(bed.log_on(&mut client, "fine", "right").0, Status::SUCCESS);
    for _ in 0..3 {
        client.prove("other", "wrong");
    }
    assert_eq!(bed.log_on(&mut client, "other", "wrong"), (Status::LOGON_FAILURE, 0));
    assert!(client.connection.ended().is_none());
}

#[test]
fn delayed_failures_are_bounded_for_an_address_and_in_total() {
    let bed = Bed::new(0, |_| {});
    let mut cut_off = 0;
    let mut those: Vec<Client> = (1..=100).map(|port| bed.connect(&format!("[2001:db8::{port:x}]:{port}"))).collect();
    for (number, client) in those.iter_mut().enumerate() {
        client.prove(&format!("user {number}"), "wrong");
        client.poll();
        cut_off += usize::from(client.connection.ended().is_some());
    }
    assert_eq!(cut_off, 36, "64 connections of a /64 wait");
    assert_eq!(bed.log_on(&mut bed.connect("[2001:db8:0:1::1]:1"), "unknown", "wrong").1, 2_000);

    let bed = Bed::new(0, |policy| policy.limits.failed_logon_bytes = 16 * 28_000);
    let mut those: Vec<Client> = (1..=3).map(|host| bed.connect(&format!("192.0.2.{host}:1"))).collect();
    those.iter_mut().for_each(|client| client.prove("fine", "wrong"));
    let ended: Vec<bool> = those.iter().map(|client| client.connection.ended().is_some()).collect();
    assert_eq!(ended, [false, false, true]);
}

#[test]
fn a_flood_of_unauthenticated_connections_blocks_only_its_own_address() {
    let bed =
        Bed::new(0, |policy| (policy.limits.unauthenticated, policy.limits.unauthenticated_per_address) = (10, 8));
    let mut known = bed.connect("192.0.2.1:1");
    assert_eq!(bed.log_on(&mut known, "fine", "right").0, Status::SUCCESS);
    let strangers: Vec<Client> = (1..=30).map(|port| bed.connect(&format!("192.0.2.1:{port}"))).collect();
    let left = strangers.iter().filter(|stranger| stranger.connection.ended().is_none()).count();
    assert_eq!(left, 8);
    let others: Vec<Client> = (2..=5).map(|host| bed.connect(&format!("192.0.2.{host}:1"))).collect();
    for mut other in others {
        assert!(other.connection.ended().is_none());
        assert_eq!(bed.log_on(&mut other, "fine", "right").0, Status::SUCCESS);
    }
    let newest = strangers.last().expect("at least one connection");
    assert!(known.connection.ended().is_none() && newest.connection.ended().is_none());
}

#[test]
fn unauthenticated_connections_are_dropped_when_the_server_is_full() {
    let bed = Bed::new(0, |policy| policy.limits.connections = 4);
    let mut known = bed.connect("192.0.2.1:1");
    assert_eq!(bed.log_on(&mut known, "fine", "right").0, Status::SUCCESS);
    let strangers: Vec<Client> = (1..=3).map(|port| bed.connect(&format!("192.0.2.9:{port}"))).collect();
    let mut last = bed.connect("192.0.2.3:1");
    assert!(strangers[0].connection.ended().is_some() && strangers[1].connection.ended().is_none());
    assert_eq!(bed.log_on(&mut last, "fine", "right").0, Status::SUCCESS);
    assert!(bed.server.admit([192, 0, 2, 4].into()).is_ok());
    assert!(strangers[1].connection.ended().is_some());
    assert!(bed.server.admit([192, 0, 2, 4].into()).is_ok());
    assert!(bed.server.admit([192, 0, 2, 4].into()).is_err(), "all remaining connections are logged on");
}

#[test]
fn pending_logons_are_bounded_and_end() {
    let bed = Bed::new(0, |policy| policy.limits.logons_before_logon = 4);
    let mut client = bed.connect("192.0.2.1:1");
    let initiator = Initiator::new(None, "TEST", "");
    let begun: Vec<u64> = (0..20).map(|_| client.begin(&initiator).0).collect();
    let under_way = |bed: &Bed| begun.iter().filter(|id| bed.server.sessions.get(**id).is_some()).count();
    assert_eq!(under_way(&bed), 4);
    bed.pass(31_000);
    let (last, _) = client.begin(&initiator);
    assert_eq!(under_way(&bed), 0);
    assert!(bed.server.sessions.get(last).is_some());
}

#[test]
fn a_server_without_ntlm_refuses_it() {
    let bed = Bed::new(0, |policy| policy.ntlm = false);
    let initiator = Initiator::new(None, "TEST", "");
    let mut client = bed.connect("192.0.2.1:1");
    client.token(0, initiator.negotiate());
    assert_eq!(client.turn().map(|header| header.status), Some(Status::NTLM_BLOCKED));
    client.token(0, &encode_init(&encode_mech_types(&[MechType::NTLMSSP]), Some(initiator.negotiate())));
    assert_eq!(client.turn().map(|header| header.status), Some(Status::NTLM_BLOCKED));
    assert!(bed.server.sessions.all().is_empty());
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
        let bed = Bed::new(0, |policy| policy.spn_check = check);
        let mut client = bed.connect("192.0.2.1:1");
        client.prove_to("fine", "right", target);
        assert_eq!(client.turn().map(|header| header.status), Some(expected), "{check:?} {target:?}");
    }
}

#[test]
fn a_logon_uses_little_memory() {
    let bed = Bed::new(0, |_| {});
    let mut client = bed.connect("192.0.2.1:1");
    let mut long = Initiator::new(None, "TEST", "").negotiate().to_vec();
    long.resize(60_000, 0);
    client.token(0, &long);
    assert_eq!(client.turn().map(|header| header.status), Some(Status::INVALID_PARAMETER));
    assert!(bed.server.sessions.all().is_empty());
}
