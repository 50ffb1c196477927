//! A server and its clients in one thread, without sockets, clock or runtime, for tests, simulation and fuzzing.
//!
//! Clients speak SMB 2.1 through [`Connection`] itself, so every byte takes the same path as in the daemon. The clock
//! advances when it is read, and random numbers come from a counter, so that runs with the same requests are identical.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::BytesMut;
use proto::auth::ntlm::{Credentials, Initiator, Random, nt_hash};
use proto::auth::pac::LogonInfo;
use proto::bytes::{Writer, utf16_bytes};
use proto::dtyp::{AccessMask, Guid, SecurityDescriptor, Sid};
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess};
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::negotiate::{Capabilities, Dialect, NegotiateRequest, SecurityMode};
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::tree_connect::{TreeConnectFlags, TreeConnectRequest};
use proto::smb2::{FileId, InfoType, SecurityInformation};
use proto::status::Status;

use crate::accounts::doubles::{Nobody, password_not_changed};
use crate::accounts::principals::{Principal, Realm, SidNameUse, UnixId};
use crate::accounts::{
    Account, AccountPolicy, Authenticator, DomainSid, IdMap, ListedAccount, ListedGroup, LogonOutcome, Netgroups,
    NotChanged, NtHash, Roster, Unavailable,
};
use crate::answer::Answer;
use crate::environment::Environment;
use crate::policy::{AclStyle, Policy, Share, StoredAcls};
use crate::state::connection::{Connection, Peer};
use crate::state::{Server, ServerParts, VolumeId, Volumes, directories_overlap};
use crate::tickets::ClientName;
use crate::vfs::memory::{Memory, Options};
use crate::vfs::{self, Identity, Kind, Metadata, Op, Time, Vfs};

/// The password of all test accounts.
pub const PASSWORD: &str = "secret";

/// A clock that advances when it is read, and a counter as the source of random numbers.
#[derive(Default)]
pub struct Still(AtomicU64);

impl Environment for Still {
    fn now(&self) -> Time {
        let tick = self.0.fetch_add(1, Ordering::Relaxed);
        Time { secs: 1_800_000_000 + i64::try_from(tick).unwrap_or(0), nanos: 0 }
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, _: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    fn random(&self, bytes: &mut [u8]) {
        let seed = self.0.fetch_add(1, Ordering::Relaxed);
        let dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        bytes.iter_mut().zip(dice.into_iter().cycle()).for_each(|(byte, dice)| *byte = dice);
    }
}

/// Accounts `alice` and `bob`, and the disabled account `carol`.
pub struct People;

impl Authenticator for People {
    fn find(&self, name: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        let known = NAMES.iter().zip(1000..).find(|(known, _)| name.eq_ignore_ascii_case(known));
        Answer::now(Ok(known.map(|(name, uid)| Account {
            name: (*name).to_string(),
            nt_hash: Some(NtHash(nt_hash(PASSWORD))),
            disabled: *name == "carol",
            locked: false,
            must_change: false,
            never_expires: *name == "bob",
            sid: self.domain().with_rid(uid),
            domain: None,
            expires: None,
            former_sids: Arc::new([]),
            full_name: String::new(),
            password_last_set: None,
            identity: Arc::new(Identity { uid, gid: uid, groups: Box::new([]) }),
            groups: Arc::new([]),
        })))
    }

    fn find_anew(&self, _: &str) -> Answer<Result<Option<Account>, Unavailable>> {
        Answer::now(Ok(None))
    }

    fn of_client(&self, _: &ClientName, _: Option<&LogonInfo>) -> Answer<Result<Option<Account>, Unavailable>> {
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

impl IdMap for People {
    fn id_of(&self, sid: &Sid) -> Answer<Result<Option<UnixId>, Unavailable>> {
        let rid = sid.rid().filter(|&rid| (1000..1003).contains(&rid) && *sid == self.domain().with_rid(rid));
        Answer::now(Ok(UnixId::in_sid(sid).or(rid.map(UnixId::User))))
    }

    fn sid_of(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>> {
        NOBODY.sid_of(id)
    }

    fn sids_of(&self, identity: &Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>> {
        NOBODY.sids_of(identity)
    }

    fn principal(&self, sid: &Sid) -> Answer<Result<Option<Principal>, Unavailable>> {
        Answer::now(Ok((1000..).zip(NAMES).map(|(rid, name)| person(rid, name)).find(|person| person.sid == *sid)))
    }

    fn named(&self, realm: Option<&str>, name: &str) -> Answer<Result<Option<Principal>, Unavailable>> {
        let known = |(_, known): &(u32, &str)| realm.is_none() && name.eq_ignore_ascii_case(known);
        Answer::now(Ok((1000..).zip(NAMES).find(known).map(|(rid, name)| person(rid, name))))
    }

    fn expect_sids(&self, sids: &[Sid]) -> Answer<()> {
        NOBODY.expect_sids(sids)
    }

    fn domain(&self) -> DomainSid {
        NOBODY.domain()
    }

    fn is_of_machine(&self, sid: &Sid) -> bool {
        NOBODY.is_of_machine(sid)
    }
}

impl Roster for People {
    fn users(&self, after: Option<&str>, most: usize) -> Answer<Result<Vec<ListedAccount>, Unavailable>> {
        let listed = |(rid, name): (u32, &str)| ListedAccount {
            name: name.to_owned(),
            sid: self.domain().with_rid(rid),
            full_name: String::new(),
            disabled: name == "carol",
            locked: false,
            never_expires: name == "bob",
        };
        let after = |(_, name): &(u32, &str)| after.is_none_or(|after| *name > after);
        Answer::now(Ok((1000..).zip(NAMES).filter(after).take(most).map(listed).collect()))
    }

    fn count_users(&self) -> Answer<Result<u32, Unavailable>> {
        Answer::now(Ok(NAMES.len() as u32))
    }

    fn groups(&self, after: Option<&Sid>, most: usize) -> Answer<Result<Vec<ListedGroup>, Unavailable>> {
        NOBODY.groups(after, most)
    }

    fn group(&self, sid: &Sid) -> Answer<Result<Option<ListedGroup>, Unavailable>> {
        NOBODY.group(sid)
    }

    fn members(&self, group: &Sid, most: usize) -> Answer<Result<Vec<Sid>, Unavailable>> {
        NOBODY.members(group, most)
    }
}

impl Netgroups for People {
    fn is_in_netgroup(&self, user: &str, group: &str) -> Answer<Result<bool, Unavailable>> {
        Answer::now(Ok(user.eq_ignore_ascii_case("alice") && group == "night-shift"))
    }
}

/// A host without accounts that has the machine SID of the test accounts.
const NOBODY: Nobody = Nobody(DomainSid([1, 2, 3]));

const NAMES: [&str; 3] = ["alice", "bob", "carol"];

fn person(rid: u32, name: &str) -> Principal {
    let sid = People.domain().with_rid(rid);
    Principal { sid, kind: SidNameUse::USER, realm: Realm::Server, name: name.to_owned() }
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

/// Returns a configuration with one writable share, `share`.
pub fn policy() -> Policy {
    let mut policy = Policy::default();
    let share = Share { read_only: false, create_mask: 0o666, ..Share::new("share", "/share") };
    policy.shares.insert("share".into(), Arc::new(share));
    policy
}

/// Returns the settings with which Samba stores security descriptors by default.
pub fn stored_acls() -> StoredAcls {
    StoredAcls {
        attribute: "security.NTACL".into(),
        ignore_system_acls: false,
        default_style: AclStyle::Posix,
        of_owner: None,
    }
}

/// Returns the metadata of a file with this kind, mode, owner and group that never changed.
pub fn metadata(kind: Kind, mode: u32, (uid, gid): (u32, u32)) -> Metadata {
    let time = Time::default();
    let (accessed, modified, changed, stamped, created) = (time, time, time, time, time);
    Metadata {
        id: vfs::FileId { device: 1, inode: 1, stream: 0 },
        kind,
        size: 0,
        allocated: 0,
        links: 1,
        mode,
        uid,
        gid,
        accessed,
        modified,
        changed,
        stamped,
        created,
        born: None,
        dos_attributes: None,
        compressed: false,
        no_descriptor: false,
    }
}

/// Returns the context for calls by root.
pub fn root() -> Op {
    crate::vfs::SERVER.clone()
}

/// Returns an in-memory file system that all users may write to.
pub fn memory(environment: Arc<dyn Environment>) -> Arc<dyn Vfs> {
    Arc::new(Memory::with_options(environment, Options { mode: 0o777, capacity: 16 << 20, ..Options::default() }))
}

/// Returns the parts of a server whose share is `volume`.
pub fn parts(environment: Arc<dyn Environment>, volume: Arc<dyn Vfs>) -> ServerParts {
    ServerParts::new(environment, Arc::new(People), Arc::new(OneVolume(volume)))
}

/// Returns a server with `policy`, whose share is `volume`.
pub fn server(policy: Policy, environment: Arc<dyn Environment>, volume: Arc<dyn Vfs>) -> Arc<Server> {
    Server::new(policy, Guid([9; 16]), parts(environment, volume))
}

/// Returns a server with [`policy`] and [`memory`].
pub fn plain_server() -> Arc<Server> {
    let environment: Arc<dyn Environment> = Arc::new(Still::default());
    server(policy(), environment.clone(), memory(environment))
}

/// Makes a server omit lease and oplock breaks. A simulation that does not detect this is useless.
pub fn forget_to_break(server: &Server) {
    server.opens.files.silent.store(true, Ordering::Relaxed);
}

/// Returns the number of files in the table of open files; 0 once everything is closed.
pub fn open_files(server: &Server) -> usize {
    server.opens.files.files()
}

/// Returns the number of leases.
pub fn lease_count(server: &Server) -> usize {
    server.opens.files.lease_count()
}

/// A client with its own connection.
pub struct Client {
    /// The server's end.
    pub connection: Arc<Connection>,
    /// The next MessageId.
    pub next_message: u64,
    /// The SessionId of every request.
    pub session_id: u64,
    /// The TreeId of every request.
    pub tree_id: u32,
    /// The dialect that the client offers.
    pub dialect: Dialect,
    /// `ClientGuid`.
    pub guid: [u8; 16],
    /// Chains that are waiting.
    waiting: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Client {
    /// Creates a client that has not sent anything yet.
    pub fn new(server: &Arc<Server>) -> Client {
        let address = ([127, 0, 0, 1], 445).into();
        let connection = Connection::new(server, Peer { remote: address, local: address });
        let (dialect, guid) = (Dialect::SMB_2_1, [7; 16]);
        Client { connection, next_message: 0, session_id: 0, tree_id: 0, dialect, guid, waiting: Vec::new() }
    }

    /// Creates a client that is logged on as `user` and connected to the share.
    ///
    /// # Panics
    /// If the server refuses the logon or the tree connect.
    pub fn logged_on(server: &Arc<Server>, user: &str) -> Client {
        Client::new(server).ready(user)
    }

    /// Logs this client on as `user` and connects it to the share.
    ///
    /// # Panics
    /// If the server refuses the logon or the tree connect.
    #[must_use]
    pub fn ready(mut self, user: &str) -> Client {
        let client = &mut self;
        client.negotiate(SecurityMode::SIGNING_ENABLED);
        assert_eq!(client.log_on(user, PASSWORD, 0), Status::SUCCESS, "{user} knows the password");
        assert_eq!(client.tree_connect("share"), Status::SUCCESS, "{user} may use the share");
        self
    }

    /// Returns a header for the next request and uses up its MessageId.
    pub fn header(&mut self, command: Command) -> Header {
        let mut header = Header::request(command, self.next_message).with_tree_id(self.tree_id);
        header.session_id = self.session_id;
        header.credits = 64;
        header.credit_charge = 1;
        self.next_message += 1;
        header
    }

    /// Encodes a complete request.
    pub fn compose(&mut self, command: Command, encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let header = self.header(command);
        let mut message = Vec::new();
        let mut out = Writer::new(&mut message);
        header.encode(&mut out);
        encode(&mut out);
        message
    }

    /// Passes a message to the server, runs it as far as possible, and returns the server's messages without the
    /// transport header.
    pub fn send(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
        self.post(message);
        self.proceed()
    }

    /// Passes a message to the server, which does not execute it before [`Client::proceed`].
    pub fn post(&mut self, message: &[u8]) {
        match self.connection.receive(BytesMut::from(message)) {
            Ok(Some(chain)) => self.waiting.push(Box::pin(chain.run())),
            Ok(None) => {}
            // As in the daemon.
            Err(reason) => self.connection.end(reason),
        }
    }

    /// Runs waiting chains as far as possible and returns the server's messages.
    pub fn proceed(&mut self) -> Vec<Vec<u8>> {
        let mut context = Context::from_waker(Waker::noop());
        // Twice, because a chain may wake one that was polled before it.
        for _ in 0..2 {
            self.waiting.retain_mut(|running| running.as_mut().poll(&mut context).is_pending());
        }
        std::iter::from_fn(|| self.connection.next_frame()).map(|frame| frame.as_bytes()[4..].to_vec()).collect()
    }

    /// Sends one request and returns its final response. Drives waiting chains for a bounded time.
    ///
    /// # Panics
    /// If there is no final response.
    pub fn request(&mut self, command: Command, encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let message = self.compose(command, encode);
        let mut frames = self.send(&message);
        for _ in 0..10_000 {
            let last = frames.iter().rev().find(|frame| status(frame) != Status::PENDING);
            if let Some(last) = last {
                return last.clone();
            }
            frames.extend(self.proceed());
        }
        panic!("{command:?} was not answered; the connection: {:?}", self.connection.ended());
    }

    /// Sends NEGOTIATE with the client's dialect.
    pub fn negotiate(&mut self, security_mode: SecurityMode) -> Vec<u8> {
        let negotiate = NegotiateRequest {
            security_mode,
            capabilities: Capabilities(0),
            client_guid: self.guid,
            dialects: vec![self.dialect],
            negotiate_context_list: Vec::new(),
        };
        self.request(Command::NEGOTIATE, |out| negotiate.encode(out))
    }

    /// Logs on; `previous` is the session that this one replaces.
    pub fn log_on(&mut self, user: &str, password: &str, previous: u64) -> Status {
        let credentials = Credentials { user: user.into(), domain: String::new(), nt_hash: nt_hash(password) };
        self.log_on_with(Some(credentials), previous)
    }

    /// Logs on anonymously.
    pub fn log_on_anonymously(&mut self) -> Status {
        self.log_on_with(None, 0)
    }

    fn log_on_with(&mut self, credentials: Option<Credentials>, previous: u64) -> Status {
        self.session_id = 0;
        let initiator = Initiator::new(credentials, "RIG", "");
        let response = self.session_setup(initiator.negotiate(), previous);
        self.session_id = Header::decode(&response).map_or(0, |header| header.session_id);
        let Ok(challenge) = SessionSetupResponse::decode(&response) else { return status(&response) };
        let random = Random { client_challenge: [4; 8], session_key: [5; 16] };
        let Ok((proof, _)) = initiator.authenticate(challenge.buffer, &random, 0) else { return status(&response) };
        status(&self.session_setup(&proof, previous))
    }

    fn session_setup(&mut self, token: &[u8], previous_session_id: u64) -> Vec<u8> {
        let setup = SessionSetupRequest {
            flags: SessionSetupFlags(0),
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities(0),
            previous_session_id,
            buffer: token,
        };
        self.request(Command::SESSION_SETUP, |out| setup.encode(out))
    }

    /// Connects to a share and uses it for the following requests.
    pub fn tree_connect(&mut self, share: &str) -> Status {
        let path = utf16_bytes(&format!(r"\\server\{share}"));
        let tree = TreeConnectRequest { flags: TreeConnectFlags(0), path: &path, tree_connect_contexts: Vec::new() };
        let response = self.request(Command::TREE_CONNECT, |out| tree.encode(out));
        self.tree_id = Header::decode(&response).ok().and_then(|header| header.tree_id()).unwrap_or(0);
        status(&response)
    }

    /// Opens an existing file, directory or pipe.
    ///
    /// # Panics
    /// If the server refuses.
    #[track_caller]
    pub fn open(&mut self, path: &str, access: AccessMask) -> FileId {
        let path = utf16_bytes(path);
        let create = CreateRequest {
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: access.0,
            share_access: ShareAccess(7),
            create_disposition: CreateDisposition::OPEN,
            name: &path,
            ..CreateRequest::default()
        };
        let response = self.request(Command::CREATE, |out| create.encode(out));
        assert_eq!(status(&response), Status::SUCCESS);
        CreateResponse::decode(&response).expect("a well-formed message").file_id
    }

    /// Closes an open.
    ///
    /// # Panics
    /// If the server has no such open.
    #[track_caller]
    pub fn close(&mut self, file_id: FileId) {
        let close = CloseRequest { flags: CloseFlags::NONE, file_id };
        assert_eq!(status(&self.request(Command::CLOSE, |out| close.encode(out))), Status::SUCCESS);
    }

    /// Returns the requested parts of an open file's security descriptor.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn security(&mut self, file_id: FileId, parts: SecurityInformation) -> SecurityDescriptor {
        let query = QueryInfoRequest {
            info_type: InfoType::SECURITY,
            output_buffer_length: 65_536,
            additional_information: parts.0,
            file_id,
            ..QueryInfoRequest::default()
        };
        let response = self.request(Command::QUERY_INFO, |out| query.encode(out));
        assert_eq!(status(&response), Status::SUCCESS, "the parts {parts:?}");
        let answer = QueryInfoResponse::decode(&response).expect("a well-formed message");
        SecurityDescriptor::decode(answer.buffer).expect("a well-formed message")
    }

    /// Sets parts of the security descriptor of an open file.
    pub fn set_security(
        &mut self,
        file_id: FileId,
        parts: SecurityInformation,
        descriptor: &SecurityDescriptor,
    ) -> Status {
        let buffer = descriptor.to_bytes();
        let request = set_security(file_id, parts, &buffer);
        status(&self.request(Command::SET_INFO, |out| request.encode(out)))
    }

    /// Disconnects the transport; the server ends the sessions that used only this connection.
    ///
    /// # Panics
    /// If that waits for anything outside memory.
    pub fn disconnect(mut self) {
        let connection = self.connection.clone();
        let mut closing = pin!(connection.close());
        for _ in 0..10_000 {
            self.proceed();
            if closing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                return;
            }
        }
        panic!("the connection does not end");
    }
}

/// Returns a SET_INFO request for parts of a security descriptor.
pub fn set_security(file_id: FileId, parts: SecurityInformation, buffer: &[u8]) -> SetInfoRequest<'_> {
    SetInfoRequest {
        info_type: InfoType::SECURITY,
        file_info_class: 0,
        additional_information: parts.0,
        file_id,
        buffer,
    }
}

/// Joins requests to a compound chain; with `related`, all but the first have the related flag.
pub fn chain(requests: &[Vec<u8>], related: bool) -> Vec<u8> {
    let mut chain: Vec<u8> = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let start = chain.len();
        chain.extend_from_slice(request);
        if index > 0 && related {
            chain[start + Header::FLAGS_POSITION] |= Flags::RELATED_OPERATIONS.0 as u8;
        }
        if index + 1 < requests.len() {
            chain.resize(chain.len().next_multiple_of(8), 0);
            let next = (chain.len() - start) as u32;
            chain[start + Header::NEXT_COMMAND_POSITION..][..4].copy_from_slice(&next.to_le_bytes());
        }
    }
    chain
}

/// Returns the status of a response.
///
/// # Panics
/// If it has no header.
pub fn status(response: &[u8]) -> Status {
    Header::decode(response).expect("a response has a header").status
}
