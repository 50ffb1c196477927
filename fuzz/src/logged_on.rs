//! A connection of a user who is logged on and has a share of a file system in memory, driven by bytes: a stranger's
//! imagination with a guest's key.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use proto::auth::ntlm::{Credentials, Initiator, Random, nt_hash};
use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::Guid;
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::negotiate::{Capabilities, Dialect, NegotiateRequest, SecurityMode};
use proto::smb2::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use proto::smb2::tree_connect::{TreeConnectFlags, TreeConnectRequest};
use proto::status::Status;
use server::accounts::{Account, Accounts, DomainSid, NtHash, Unavailable};
use server::answer::Answer;
use server::conn::{Connection, Peer};
use server::policy::{Policy, Share};
use server::server::{Server, Volumes};
use server::vfs::memory::Memory;
use server::vfs::{self, Identity, Time, Vfs};
use server::world::World;

/// A clock that moves when it is read, and dice that are none.
struct Still(AtomicU64);

impl World for Still {
    fn now(&self) -> Time {
        Time { secs: 1_800_000_000 + self.0.fetch_add(1, Ordering::Relaxed) as i64, nanos: 0 }
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    fn random(&self, bytes: &mut [u8]) {
        let seed = self.0.fetch_add(1, Ordering::Relaxed);
        bytes.iter_mut().zip(seed.to_le_bytes().into_iter().cycle()).for_each(|(byte, dice)| *byte = dice ^ 0x5a);
    }
}

struct Alice;

impl Accounts for Alice {
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        let account = name.eq_ignore_ascii_case("alice").then(|| Account {
            name: "alice".into(),
            nt_hash: Some(NtHash(nt_hash("secret"))),
            disabled: false,
            locked: false,
            must_change: false,
            rid: 1000,
            full_name: String::new(),
            password_last_set: None,
            identity: Arc::new(Identity { uid: 1000, gid: 1000, groups: Box::new([]) }),
            groups: Arc::new([]),
        });
        Answer::now(Ok(account))
    }

    fn domain(&self) -> DomainSid {
        DomainSid([1, 2, 3])
    }
}

struct InMemory(Arc<dyn World>);

impl Volumes for InMemory {
    fn volume(&self, _: &Share) -> Answer<vfs::Result<Arc<dyn Vfs>>> {
        let options = vfs::memory::Options { mode: 0o777, capacity: 16 << 20, ..Default::default() };
        Answer::now(Ok(Arc::new(Memory::with_options(self.0.clone(), options)) as Arc<dyn Vfs>))
    }
}

/// The client's side.
struct Client {
    connection: Arc<Connection>,
    next_message: u64,
    session_id: u64,
    tree_id: u32,
    /// Chains that wait for something.
    waiting: VecDeque<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Client {
    fn new() -> Client {
        let world: Arc<dyn World> = Arc::new(Still(AtomicU64::new(1)));
        let mut policy = Policy::default();
        let share = Share { read_only: false, ..Share::new("share", "/share") };
        policy.shares.insert("share".into(), Arc::new(share));
        let volumes = Arc::new(InMemory(world.clone()));
        let server = Server::new(policy, Guid([9; 16]), world, Arc::new(Alice), volumes);
        let address = ([127, 0, 0, 1], 445).into();
        let connection = Connection::new(&server, Peer { remote: address, local: address });
        Client { connection, next_message: 0, session_id: 0, tree_id: 0, waiting: VecDeque::new() }
    }

    fn header(&mut self, command: Command) -> Header {
        let mut header = Header::request(command, self.next_message).with_tree_id(self.tree_id);
        header.session_id = self.session_id;
        header.credits = 64;
        header.credit_charge = 1;
        self.next_message += 1;
        header
    }

    /// Sends a message and answers the first response to it, without the transport's header.
    fn send(&mut self, message: Vec<u8>) -> Option<Vec<u8>> {
        let chain = self.connection.receive(BytesMut::from(&message[..])).ok()??;
        let mut running: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(chain.run());
        if poll(running.as_mut()).is_pending() && self.waiting.len() < 64 {
            self.waiting.push_back(running);
        }
        let mut first = None;
        while let Some(frame) = self.connection.next_frame() {
            first.get_or_insert_with(|| frame.as_bytes()[4..].to_vec());
        }
        first
    }

    fn request(&mut self, command: Command, encode: impl FnOnce(&mut Writer<'_>)) -> Option<Vec<u8>> {
        let header = self.header(command);
        let mut message = Vec::new();
        let mut out = Writer::new(&mut message);
        header.encode(&mut out);
        encode(&mut out);
        self.send(message)
    }

    /// Negotiates 2.1, logs on as alice and connects to the share.
    fn log_on(&mut self) -> Option<()> {
        let negotiate = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities(0),
            client_guid: [7; 16],
            dialects: vec![Dialect::SMB_2_1],
            negotiate_context_list: Vec::new(),
        };
        self.request(Command::NEGOTIATE, |out| negotiate.encode(out))?;
        let credentials = Credentials { user: "alice".into(), domain: String::new(), nt_hash: nt_hash("secret") };
        let initiator = Initiator::new(Some(credentials), "FUZZ", "");
        let first = initiator.negotiate().to_vec();
        let challenge = self.session_setup(&first)?;
        let random = Random { client_challenge: [4; 8], session_key: [5; 16] };
        let (proof, _) = initiator.authenticate(&challenge, &random, 0).ok()?;
        self.session_setup(&proof)?;
        let path = utf16_bytes(r"\\server\share");
        let tree = TreeConnectRequest { flags: TreeConnectFlags(0), path: &path, tree_connect_contexts: Vec::new() };
        let response = self.request(Command::TREE_CONNECT, |out| tree.encode(out))?;
        let header = Header::decode(&response).ok()?;
        self.tree_id = header.tree_id()?;
        (header.status == Status::SUCCESS).then_some(())
    }

    fn session_setup(&mut self, token: &[u8]) -> Option<Vec<u8>> {
        let setup = SessionSetupRequest {
            flags: SessionSetupFlags(0),
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities(0),
            previous_session_id: 0,
            buffer: token,
        };
        let response = self.request(Command::SESSION_SETUP, |out| setup.encode(out))?;
        self.session_id = Header::decode(&response).ok()?.session_id;
        Some(SessionSetupResponse::decode(&response).ok()?.buffer.to_vec())
    }
}

fn poll(future: Pin<&mut (dyn Future<Output = ()> + Send)>) -> Poll<()> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Takes bytes off the front as a script of requests.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

thread_local! {
    /// The bodies of requests that opened something, so that later ones may name it.
    static OPENED: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
}

/// Drives a logged-on connection by `bytes`: each request is a command, a byte of flags, a length and a body; a body may
/// have the id of a file that was opened before put into it.
pub fn connection(bytes: &[u8]) {
    let mut client = Client::new();
    assert!(client.log_on().is_some(), "alice knows her password");
    OPENED.with_borrow_mut(Vec::clear);
    let mut script = Script(bytes);
    for _ in 0..64 {
        let Some(command) = script.byte() else { break };
        if command == 0xff {
            let length = script.byte().unwrap_or(0);
            client.send(script.take(usize::from(length)).to_vec());
            continue;
        }
        let Some(message) = compose(&mut client, command, &mut script) else { break };
        if let Some(response) = client.send(message) {
            remember(&response);
        }
        if client.connection.ended().is_some() {
            break;
        }
    }
    let mut closing = pin!(client.connection.close());
    // The end of a connection waits for nothing that is not in memory.
    for _ in 0..10_000 {
        if closing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        for mut waiting in std::mem::take(&mut client.waiting) {
            if poll(waiting.as_mut()).is_pending() {
                client.waiting.push_back(waiting);
            }
        }
    }
    panic!("the connection does not end");
}

/// One request, or a chain of two.
fn compose(client: &mut Client, command: u8, script: &mut Script<'_>) -> Option<Vec<u8>> {
    let flags = script.byte()?;
    let mut message = single(client, command, flags, script)?;
    if flags & 0x40 != 0 {
        let next = script.byte()?;
        message.resize(message.len().next_multiple_of(8), 0);
        let length = message.len() as u32;
        message[Header::NEXT_COMMAND_POSITION..][..4].copy_from_slice(&length.to_le_bytes());
        message.extend(single(client, next, flags | 0x80, script)?);
    }
    Some(message)
}

fn single(client: &mut Client, command: u8, flags: u8, script: &mut Script<'_>) -> Option<Vec<u8>> {
    let mut header = client.header(Command(u16::from(command) % 0x13));
    if flags & 0x80 != 0 {
        header.flags |= Flags::RELATED_OPERATIONS;
    }
    let length = script.byte()?;
    let mut message = Vec::new();
    header.encode(&mut Writer::new(&mut message));
    message.extend_from_slice(script.take(usize::from(length)));
    if flags & 0x3f != 0 {
        let at = Header::SIZE + usize::from(flags & 0x3f);
        let id = OPENED.with_borrow(|opened| opened.last().copied());
        if let (Some(id), Some(place)) = (id, message.get_mut(at..at + 16)) {
            place.copy_from_slice(&id);
        }
    }
    Some(message)
}

/// Keeps the `FileId` of a successful CREATE ([MS-SMB2] 2.2.14: at 64 of the body).
fn remember(response: &[u8]) {
    let created = Header::decode(response)
        .is_ok_and(|header| header.command == Command::CREATE && header.status == Status::SUCCESS);
    if let Some(id) = response.get(Header::SIZE + 64..Header::SIZE + 80).filter(|_| created) {
        OPENED.with_borrow_mut(|opened| opened.push(id.try_into().expect("sixteen bytes")));
    }
}
