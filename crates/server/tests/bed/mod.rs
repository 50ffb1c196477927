//! A server on an in-memory file system, and clients that send it frames byte by byte ([MS-SMB2] 2.1), for tests of
//! the state machine. No real time passes: [`Bed::pass`] advances the clock.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use parking_lot::Mutex;
use proto::auth::ntlm::{Credentials, Initiator, Random, nt_hash};
use proto::auth::pac::LogonInfo;
use proto::bytes::{Writer, utf16_bytes};
use proto::crypto::kdf::{Derivation, Key, KeyLength};
use proto::crypto::seal::SealingKey;
use proto::crypto::sign::SigningKey;
use proto::dtyp::{Guid, Sid};
use proto::smb2::cancel::CancelRequest;
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::negotiate::{
    Capabilities, CipherId, Dialect, NegotiateRequest, NegotiateResponse, SecurityMode, SigningAlgorithm,
};
use proto::smb2::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use proto::smb2::transform::TransformHeader;
use proto::smb2::tree_connect::{TreeConnectFlags, TreeConnectRequest};
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;
use server::accounts::doubles::password_not_changed;
use server::accounts::{
    Account, AccountPolicy, Accounts, Authenticator, DomainSid, LogonOutcome, NotChanged, NtHash, Unavailable,
};
use server::answer::Answer;
use server::environment::Environment;
use server::policy::{Policy, Share};
use server::state::connection::{Connection, Peer};
use server::state::durable::{Failed, Records, Store};
use server::state::{Server, ServerParts, VolumeId, Volumes, directories_overlap};
use server::tickets::{ClientName, Tickets};
use server::vfs::memory::Memory;
use server::vfs::{self, Identity, LookupOptions, NewFile, Op, Time, Vfs};

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A clock that the test controls.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Environment for Clock {
    fn now(&self) -> Time {
        Time { secs: 1_800_000_000 + self.0.load(Ordering::Relaxed) as i64, nanos: 0 }
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> Running {
        let (clock, until) = (self.clone(), self.uptime() + duration);
        Box::pin(std::future::poll_fn(move |_| if clock.uptime() >= until { Poll::Ready(()) } else { Poll::Pending }))
    }

    fn random(&self, bytes: &mut [u8]) {
        static LAST: AtomicU64 = AtomicU64::new(1);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        bytes.iter_mut().zip(number.to_le_bytes().into_iter().cycle()).for_each(|(byte, random)| *byte = random);
    }
}

/// Two users whose passwords equal their names.
struct People;

impl Authenticator for People {
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        let uid = ["alice", "bob"].iter().position(|known| name.eq_ignore_ascii_case(known));
        let account = uid.map(|uid| Account {
            name: name.to_ascii_lowercase(),
            nt_hash: Some(NtHash(nt_hash(&name.to_ascii_lowercase()))),
            disabled: false,
            locked: false,
            must_change: false,
            never_expires: false,
            sid: DomainSid([1, 2, 3]).with_rid(1000 + uid as u32),
            domain: None,
            expires: None,
            former_sids: Arc::new([]),
            full_name: String::new(),
            password_last_set: None,
            identity: Arc::new(Identity { uid: 1000 + uid as u32, gid: 1000, groups: Box::new([]) }),
            groups: Arc::new([]),
        });
        Answer::now(Ok(account))
    }

    fn of_client(&self, client: &ClientName, _: Option<&LogonInfo>) -> Answer<Result<Option<Account>, Unavailable>> {
        match &client.components[..] {
            // A principal without a user account, who is a system user.
            [name] if client.own_realm && name == "nora" => {
                self.find("alice").map(|found| found.map(|alice| alice.map(of_nora)))
            }
            [name] if client.own_realm => self.find(name),
            _ => Answer::now(Ok(None)),
        }
    }

    fn find_anew(&self, _: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        Answer::now(Ok(None))
    }

    fn logged_on(&self, _: &str, _: LogonOutcome) {}

    fn lock(&self, _: &str) {}

    fn change_password(&self, _: &str, _: NtHash, _: NtHash) -> Answer<Result<(), NotChanged>> {
        password_not_changed()
    }

    fn policy(&self) -> AccountPolicy {
        AccountPolicy::default()
    }
}

fn of_nora(alice: Account) -> Account {
    let identity = Arc::new(Identity { uid: 1500, gid: 1000, groups: Box::new([]) });
    Account { name: "nora".into(), nt_hash: None, sid: Sid::unix_user(1500), identity, ..alice }
}

struct OneVolume(Arc<dyn Vfs>);

impl Volumes for OneVolume {
    fn id(&self, share: &Share) -> VolumeId {
        VolumeId::of_directory(share)
    }

    fn open(&self, _: &Share) -> Answer<vfs::Result<Arc<dyn Vfs>>> {
        Answer::now(Ok(self.0.clone()))
    }

    fn overlap(&self, share: &Share, other: &Share) -> bool {
        directories_overlap(share, other)
    }

    fn mount_point(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }
}

/// Stores records of persistent opens and outlives the server.
#[derive(Default)]
pub(crate) struct InMemory {
    pub(crate) records: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// Whether writes fail.
    pub(crate) full: AtomicBool,
}

impl Store for InMemory {
    fn put(&self, id: u64, record: Vec<u8>) -> Answer<Result<(), Failed>> {
        if self.full.load(Ordering::Relaxed) {
            return Answer::now(Err(Failed("full".into())));
        }
        self.records.lock().insert(id, record);
        Answer::now(Ok(()))
    }

    fn remove(&self, id: u64) -> Answer<Result<(), Failed>> {
        self.records.lock().remove(&id);
        Answer::now(Ok(()))
    }

    fn load(&self) -> Answer<Result<Records, Failed>> {
        Answer::now(Ok(self.records.lock().clone().into_iter().collect()))
    }
}

/// The server and its environment.
pub(crate) struct Bed {
    pub(crate) server: Arc<Server>,
    /// The volume of the share, as local programs see it.
    pub(crate) volume: Arc<dyn Vfs>,
    pub(crate) store: Arc<InMemory>,
    policy: Policy,
    clock: Clock,
    tickets: Option<Arc<dyn Tickets>>,
}

impl Bed {
    pub(crate) fn new() -> Bed {
        Bed::with(|_| {})
    }

    /// Creates the server with the share modified by `change`.
    pub(crate) fn with(change: impl FnOnce(&mut Share)) -> Bed {
        Bed::with_policy(|_, share| change(share))
    }

    /// Creates the server with the configuration modified by `change`.
    pub(crate) fn with_policy(change: impl FnOnce(&mut Policy, &mut Share)) -> Bed {
        Bed::build(None, change)
    }

    /// Creates a server that accepts Kerberos tickets, with the configuration modified by `change`.
    pub(crate) fn with_tickets(tickets: Arc<dyn Tickets>, change: impl FnOnce(&mut Policy, &mut Share)) -> Bed {
        Bed::build(Some(tickets), change)
    }

    fn build(tickets: Option<Arc<dyn Tickets>>, change: impl FnOnce(&mut Policy, &mut Share)) -> Bed {
        let mut policy = Policy::default();
        let mut share = Share { read_only: false, ..Share::new("share", "/share") };
        change(&mut policy, &mut share);
        policy.shares.insert("share".into(), Arc::new(share));
        let clock = Clock::default();
        let options = vfs::memory::Options { mode: 0o777, capacity: 16 << 20, ..Default::default() };
        let volume: Arc<dyn Vfs> = Arc::new(Memory::with_options(Arc::new(clock.clone()), options));
        let store = Arc::<InMemory>::default();
        let server = Bed::start(&clock, &volume, &store, &policy, tickets.clone());
        Bed { server, store, volume, policy, clock, tickets }
    }

    fn start(
        clock: &Clock,
        volume: &Arc<dyn Vfs>,
        store: &Arc<InMemory>,
        policy: &Policy,
        tickets: Option<Arc<dyn Tickets>>,
    ) -> Arc<Server> {
        let environment: Arc<dyn Environment> = Arc::new(clock.clone());
        let volumes = Arc::new(OneVolume(volume.clone()));
        let accounts = Accounts { authenticator: Arc::new(People), ..Accounts::from(Arc::new(server::rig::People)) };
        let parts = ServerParts::new(environment, accounts, volumes);
        let parts = ServerParts { tickets, store: Some(store.clone()), ..parts };
        let server = Server::new(policy.clone(), Guid([9; 16]), parts);
        now(server.restore()).expect("the record store in memory does not fail");
        server
    }

    /// Simulates a crash of the server and starts another one.
    pub(crate) fn crash(&mut self) {
        self.server = Bed::start(&self.clock, &self.volume, &self.store, &self.policy, self.tickets.clone());
    }

    /// Replaces `name` with another file, as a local program would.
    pub(crate) fn replace(&self, name: &str) {
        let root = Op::from(Identity { uid: 0, gid: 0, groups: Box::new([]) });
        let path = vfs::RelPath::root().join(name.as_bytes()).expect("a valid name");
        let found = now(self.volume.lookup(
            &root,
            &path,
            LookupOptions { case: vfs::Case::Sensitive, links: vfs::SymlinkPolicy::default(), reads: false },
        ));
        let Ok(vfs::Lookup::Found { metadata, .. }) = found else { panic!("{name} does not exist") };
        now(self.volume.unlink(&root, &path, metadata.id, metadata.kind)).expect("root has permission");
        let what = vfs::Create::File(vfs::Access { read: false, write: false });
        now(self.volume.create(&root, &path, NewFile::new(what, 0o666))).expect("root has permission");
    }

    /// Advances the clock.
    pub(crate) fn pass(&self, seconds: u64) {
        self.clock.0.fetch_add(seconds, Ordering::Relaxed);
    }

    /// Returns a client that has only negotiated.
    pub(crate) fn connect(&self) -> Client {
        self.connect_as(Dialect::SMB_2_1, [7; 16])
    }

    /// Returns the client `client_guid`, which uses `dialect`, at most 3.0.
    pub(crate) fn connect_as(&self, dialect: Dialect, client_guid: [u8; 16]) -> Client {
        let address = ([127, 0, 0, 1], 445).into();
        let connection = Connection::new(&self.server, Peer { remote: address, local: address });
        let mut client = Client {
            connection,
            dialect,
            message_id: 0,
            session_id: 0,
            tree_id: 0,
            key: None,
            signs: false,
            sealing: None,
            seals: false,
            clock: self.clock.clone(),
            running: Vec::new(),
            received: VecDeque::new(),
            hint: Vec::new(),
        };
        let negotiate = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::PERSISTENT_HANDLES | Capabilities::ENCRYPTION,
            client_guid,
            dialects: vec![dialect],
            negotiate_context_list: Vec::new(),
        };
        let response = client.request(Command::NEGOTIATE, |out| negotiate.encode(out));
        response.check(Status::SUCCESS);
        client.hint = NegotiateResponse::decode(response.bytes()).expect("a well-formed message").buffer.to_vec();
        client
    }

    /// Returns the client `client_guid` with dialect 3.0 and the share connected.
    pub(crate) fn log_on_as(&self, user: &str, client_guid: [u8; 16]) -> Client {
        let mut client = self.connect_as(Dialect::SMB_3_0, client_guid);
        client.log_on(user, user, false, 0).check(Status::SUCCESS);
        client.tree_connect();
        client
    }

    /// Returns a client with the share connected; with `signs`, it requires signing.
    pub(crate) fn log_on(&self, user: &str, signs: bool) -> Client {
        let mut client = self.connect();
        client.log_on(user, user, signs, 0).check(Status::SUCCESS);
        client.tree_connect();
        client
    }
}

/// Returns an answer of the in-memory file system, which is always ready.
fn now<T>(answer: impl Future<Output = T>) -> T {
    match std::pin::pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the memory file system never waits"),
    }
}

/// A response or an unsolicited message.
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub(crate) fn header(&self) -> Header {
        Header::decode(&self.0).expect("a well-formed response header")
    }

    #[track_caller]
    pub(crate) fn check(&self, status: Status) {
        assert_eq!(self.header().status, status);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The keys for encryption with dialect 3.0.
struct Sealing {
    to_server: SealingKey,
    to_client: SealingKey,
    nonce: u64,
}

/// A client.
pub(crate) struct Client {
    pub(crate) connection: Arc<Connection>,
    dialect: Dialect,
    message_id: u64,
    pub(crate) session_id: u64,
    pub(crate) tree_id: u32,
    key: Option<SigningKey>,
    /// Whether requests are signed.
    pub(crate) signs: bool,
    sealing: Option<Sealing>,
    /// Whether requests are encrypted instead of signed.
    pub(crate) seals: bool,
    clock: Clock,
    running: Vec<Running>,
    received: VecDeque<Message>,
    /// The server's security buffer in NEGOTIATE.
    pub(crate) hint: Vec<u8>,
}

impl Client {
    /// Builds a request without sending it.
    pub(crate) fn compose(&mut self, command: Command, flags: Flags, encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut header = Header::request(command, self.message_id).with_tree_id(self.tree_id);
        header.session_id = self.session_id;
        header.credits = 64;
        header.credit_charge = 1;
        header.flags |= flags;
        let key = self.key.as_ref().filter(|_| self.signs && !self.seals);
        if key.is_some() {
            header.flags |= Flags::SIGNED;
        }
        self.message_id += 1;
        let mut message = Vec::new();
        let mut out = Writer::new(&mut message);
        header.encode(&mut out);
        encode(&mut out);
        if let Some(key) = key {
            key.sign(&mut message);
        }
        message
    }

    /// Cancels the request that was answered by `interim`.
    pub(crate) fn cancel(&mut self, interim: &Message) {
        let mut header = Header::request(Command::CANCEL, interim.header().message_id);
        header.session_id = self.session_id;
        let mut message = Vec::new();
        let mut out = Writer::new(&mut message);
        header.encode(&mut out);
        CancelRequest.encode(&mut out);
        assert!(self.send(&message));
    }

    /// Combines requests into one frame. They must not be signed.
    pub(crate) fn chain(mut requests: Vec<Vec<u8>>) -> Vec<u8> {
        let last = requests.pop().expect("a chain has a request");
        let mut frame = Vec::new();
        for mut request in requests {
            request.resize(request.len().next_multiple_of(8), 0);
            let length = (request.len() as u32).to_le_bytes();
            request[Header::NEXT_COMMAND_POSITION..][..4].copy_from_slice(&length);
            frame.extend(request);
        }
        frame.extend(last);
        frame
    }

    /// Sends a frame. Returns `false` if the server accepts no more.
    pub(crate) fn send(&mut self, frame: &[u8]) -> bool {
        let mut frame = frame.to_vec();
        if let Some(sealing) = self.sealing.as_mut().filter(|_| self.seals) {
            frame = [&[0; TransformHeader::SIZE][..], &frame].concat();
            sealing.nonce += 1;
            sealing.to_server.seal(self.session_id, sealing.nonce, &mut frame);
        }
        match self.connection.receive(BytesMut::from(&frame[..])) {
            Ok(chain) => self.running.extend(chain.map(|chain| Box::pin(chain.run()) as Running)),
            Err(_) => return false,
        }
        self.turn();
        true
    }

    /// Lets the server continue with waiting requests.
    pub(crate) fn turn(&mut self) {
        self.running.retain_mut(|running| running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        while let Some(frame) = self.connection.next_frame() {
            let mut frame = frame.as_bytes()[4..].to_vec();
            let mut rest = match &self.sealing {
                Some(sealing) if frame.starts_with(b"\xfdSMB") => {
                    &*sealing.to_client.open(&mut frame).expect("the open succeeds")
                }
                _ => &frame[..],
            };
            loop {
                let next = Header::decode(rest).expect("a well-formed response header").next_command as usize;
                let (one, others) = rest.split_at(if next == 0 { rest.len() } else { next });
                self.received.push_back(Message(one.to_vec()));
                if next == 0 {
                    break;
                }
                rest = others;
            }
        }
    }

    /// Returns the next message from the server.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Message {
        self.turn();
        self.received.pop_front().expect("a message from the server")
    }

    /// Checks that no message was received.
    #[track_caller]
    pub(crate) fn silent(&mut self) {
        self.turn();
        assert!(self.received.is_empty(), "{} messages", self.received.len());
    }

    /// Sends a request and returns the response.
    #[track_caller]
    pub(crate) fn request(&mut self, command: Command, encode: impl FnOnce(&mut Writer<'_>)) -> Message {
        let message = self.compose(command, Flags(0), encode);
        assert!(self.send(&message), "the connection has ended");
        if self.received.is_empty() && command == Command::SESSION_SETUP {
            // A refusal is delayed.
            self.clock.0.fetch_add(2, Ordering::Relaxed);
        }
        self.next()
    }

    /// Logs on or reauthenticates, and returns the server's last response.
    #[track_caller]
    pub(crate) fn log_on(&mut self, user: &str, password: &str, signs: bool, previous: u64) -> Message {
        let credentials = Credentials { user: user.into(), domain: String::new(), nt_hash: nt_hash(password) };
        self.log_on_with(Some(credentials), signs, previous)
    }

    /// Logs on anonymously and returns the server's last response.
    #[track_caller]
    pub(crate) fn log_on_anonymously(&mut self) -> Message {
        self.log_on_with(None, false, 0)
    }

    #[track_caller]
    fn log_on_with(&mut self, credentials: Option<Credentials>, signs: bool, previous: u64) -> Message {
        let initiator = Initiator::new(credentials, "TEST", "");
        let first = self.session_setup(initiator.negotiate(), signs, previous);
        first.check(Status::MORE_PROCESSING_REQUIRED);
        self.session_id = first.header().session_id;
        let challenge = SessionSetupResponse::decode(first.bytes()).expect("a challenge").buffer.to_vec();
        let random = Random { client_challenge: [4; 8], session_key: [5; 16] };
        let (proof, session) =
            initiator.authenticate(&challenge, &random, 0).expect("an NTLM response to an NTLM message");
        let last = self.session_setup(&proof, signs, previous);
        if last.header().status == Status::SUCCESS && self.key.is_none() {
            self.set_keys(&session.key().0);
            self.signs = signs;
        }
        last
    }

    fn set_keys(&mut self, session_key: &[u8; 16]) {
        let (key, derivation) = (Key::from_session_key(session_key), Derivation::Smb30);
        if self.dialect.0 < Dialect::SMB_3_0.0 {
            self.key = SigningKey::new(SigningAlgorithm::HMAC_SHA256, key.as_bytes()).ok();
            return;
        }
        self.key = SigningKey::new(SigningAlgorithm::AES_CMAC, derivation.signing_key(&key).as_bytes()).ok();
        let of = |key: Key| SealingKey::new(CipherId::AES_128_CCM, key.as_bytes()).expect("a key of 16 bytes");
        self.sealing = Some(Sealing {
            to_server: of(derivation.client_to_server_key(session_key, KeyLength::Bits128)),
            to_client: of(derivation.server_to_client_key(session_key, KeyLength::Bits128)),
            nonce: 0,
        });
    }

    #[track_caller]
    pub(crate) fn session_setup(&mut self, token: &[u8], signs: bool, previous_session_id: u64) -> Message {
        let required = if signs { SecurityMode::SIGNING_REQUIRED } else { SecurityMode(0) };
        let setup = SessionSetupRequest {
            flags: SessionSetupFlags(0),
            security_mode: SecurityMode::SIGNING_ENABLED | required,
            capabilities: Capabilities(0),
            previous_session_id,
            buffer: token,
        };
        self.request(Command::SESSION_SETUP, |out| setup.encode(out))
    }

    /// Connects to the share `name` and returns the response.
    #[track_caller]
    pub(crate) fn connect_to(&mut self, name: &str) -> Message {
        let path = utf16_bytes(&format!(r"\\server\{name}"));
        let tree = TreeConnectRequest { flags: TreeConnectFlags(0), path: &path, tree_connect_contexts: Vec::new() };
        let response = self.request(Command::TREE_CONNECT, |out| tree.encode(out));
        self.tree_id = response.header().tree_id().expect("not asynchronous");
        response
    }

    #[track_caller]
    pub(crate) fn tree_connect(&mut self) {
        self.connect_to("share").check(Status::SUCCESS);
    }

    /// Builds a CREATE of `name` with all rights and sharing modes.
    pub(crate) fn create(
        &mut self,
        name: &str,
        disposition: CreateDisposition,
        oplock: OplockLevel,
        flags: Flags,
    ) -> Vec<u8> {
        let name = utf16_bytes(name);
        let create = CreateRequest {
            requested_oplock_level: oplock,
            desired_access: 0x001f_01ff,
            share_access: ShareAccess(7),
            create_disposition: disposition,
            create_options: CreateOptions(0),
            name: &name,
            ..CreateRequest::default()
        };
        self.compose(Command::CREATE, flags, |out| create.encode(out))
    }

    /// Opens or creates `name`.
    #[track_caller]
    pub(crate) fn open(&mut self, name: &str, oplock: OplockLevel) -> (FileId, OplockLevel) {
        let create = self.create(name, CreateDisposition::OPEN_IF, oplock, Flags(0));
        assert!(self.send(&create));
        opened(&self.next())
    }
}

/// Returns the result of a successful CREATE.
#[track_caller]
pub(crate) fn opened(message: &Message) -> (FileId, OplockLevel) {
    message.check(Status::SUCCESS);
    let response = CreateResponse::decode(message.bytes()).expect("a well-formed message");
    (response.file_id, response.oplock_level)
}
