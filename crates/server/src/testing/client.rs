//! A client that waits for the response to each request.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::BytesMut;
use proto::auth::ntlm::{Credentials, Initiator, Random, nt_hash};
use proto::bytes::{Writer, utf16_bytes};
use proto::crypto::kdf::{Derivation, Key, KeyLength};
use proto::crypto::preauth::PreauthHash;
use proto::crypto::seal::SealingKey;
use proto::crypto::sign::SigningKey;
use proto::dtyp::{AccessMask, SecurityDescriptor};
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{CreateDisposition, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess};
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::negotiate::{
    Capabilities, CipherId, Dialect, HashAlgorithm, NegotiateContext, NegotiateRequest, PreauthIntegrityCapabilities,
    SecurityMode, SigningAlgorithm,
};
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::transform::TransformHeader;
use proto::smb2::tree_connect::{TreeConnectFlags, TreeConnectRequest};
use proto::smb2::{FileId, InfoType, SecurityInformation};
use proto::status::Status;

use super::{PASSWORD, volume};
use crate::frame::{Arrival, Execution, Start};
use crate::state::Server;
use crate::state::connection::{Connection, Peer};

/// A client with its own connection. It speaks SMB 2.1 unless the test changes the dialect before NEGOTIATE.
pub struct TestClient {
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
    /// Negotiate contexts that the client sends on 3.1.1 besides that for preauthentication integrity.
    pub contexts: Vec<NegotiateContext<'static>>,
    /// The capabilities that the client announces.
    pub capabilities: Capabilities,
    /// Whether requests are signed, once there is a key.
    pub signs: bool,
    /// Whether requests are encrypted instead of signed.
    pub seals: bool,
    /// Whether other threads may complete requests, so that polling alone is not enough.
    pub waits_for_threads: bool,
    signing_key: Option<SigningKey>,
    sealing: Option<Sealing>,
    /// The hash of the messages before there are keys, on 3.1.1.
    preauth: PreauthHash,
    /// Chains that are waiting.
    waiting: Vec<Execution>,
}

/// The keys for encryption with dialect 3.0.
struct Sealing {
    to_server: SealingKey,
    to_client: SealingKey,
    nonce: u64,
}

impl TestClient {
    /// Creates a client that has not sent anything yet.
    pub fn new(server: &Arc<Server>) -> TestClient {
        TestClient::from_address(server, ([127, 0, 0, 1], 445).into())
    }

    /// Creates a client at this address that has not sent anything yet.
    pub fn from_address(server: &Arc<Server>, remote: SocketAddr) -> TestClient {
        let local = ([127, 0, 0, 1], 445).into();
        TestClient {
            connection: Connection::new(server, Peer { remote, local }),
            next_message: 0,
            session_id: 0,
            tree_id: 0,
            dialect: Dialect::SMB_2_1,
            guid: [7; 16],
            contexts: Vec::new(),
            capabilities: Capabilities(0),
            signs: false,
            seals: false,
            waits_for_threads: false,
            signing_key: None,
            sealing: None,
            preauth: PreauthHash::new(),
            waiting: Vec::new(),
        }
    }

    /// Creates a client that is logged on as `user` and connected to the share.
    ///
    /// # Panics
    /// If the server refuses the logon or the tree connect.
    pub fn logged_on(server: &Arc<Server>, user: &str) -> TestClient {
        TestClient::new(server).ready(user)
    }

    /// Logs this client on as `user` and connects it to the share.
    ///
    /// # Panics
    /// If the server refuses the logon or the tree connect.
    #[must_use]
    pub fn ready(mut self, user: &str) -> TestClient {
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

    /// Encodes a complete request, signed if the client signs.
    pub fn compose(&mut self, command: Command, encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        self.compose_with(command, Flags(0), encode)
    }

    /// Encodes a complete request with these flags, signed if the client signs.
    pub fn compose_with(&mut self, command: Command, flags: Flags, encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut header = self.header(command);
        header.flags |= flags;
        let key = self.signing_key.as_ref().filter(|_| self.signs && !self.seals);
        if key.is_some() {
            header.flags |= Flags::SIGNED;
        }
        let mut message = Vec::new();
        let mut out = Writer::new(&mut message);
        header.encode(&mut out);
        encode(&mut out);
        if let Some(key) = key {
            key.sign(&mut message);
        }
        message
    }

    /// Passes a message to the server, runs it as far as possible, and returns the server's messages without the
    /// transport header.
    pub fn send(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
        self.post(message);
        self.proceed()
    }

    /// Passes a message to the server, which does not execute it before [`TestClient::proceed`].
    pub fn post(&mut self, message: &[u8]) {
        let frame = self.seal(message);
        match self.connection.receive(BytesMut::from(&frame[..])) {
            Ok(Some(chain)) => self.waiting.push(chain.execute()),
            Ok(None) => {}
            // As in the daemon.
            Err(reason) => self.connection.end(reason),
        }
    }

    /// Passes the beginning of a WRITE, whose data the test passes in parts. Returns `None` if the server wants the
    /// whole message.
    pub fn post_start(&mut self, message: &[u8]) -> Option<Arrival> {
        let Start::Data { needed } = self.connection.start_of(message, message.len()) else { return None };
        match self.connection.receive_start(BytesMut::from(&message[..needed]), message.len()) {
            Ok((chain, arrival)) => {
                self.waiting.push(chain.execute());
                Some(arrival)
            }
            Err(reason) => {
                self.connection.end(reason);
                None
            }
        }
    }

    /// Returns the frame for a message, encrypted if the client encrypts.
    fn seal(&mut self, message: &[u8]) -> Vec<u8> {
        let Some(sealing) = self.sealing.as_mut().filter(|_| self.seals) else { return message.to_vec() };
        let mut frame = [&[0; TransformHeader::SIZE][..], message].concat();
        sealing.nonce += 1;
        sealing.to_server.seal(self.session_id, sealing.nonce, &mut frame);
        frame
    }

    /// Runs waiting chains as far as possible and returns the server's messages.
    pub fn proceed(&mut self) -> Vec<Vec<u8>> {
        let mut context = Context::from_waker(Waker::noop());
        // Twice, because a chain may wake one that was polled before it. Again, because the storage answers then.
        for round in 0..10_000 {
            if round >= 2 && !volume::take_called() {
                break;
            }
            self.waiting.retain_mut(|running| pin!(running).poll(&mut context).is_pending());
        }
        let frames = std::iter::from_fn(|| self.connection.next_frame());
        frames.map(|frame| self.unseal(frame.into_bytes().expect("whole data").split_off(4))).collect()
    }

    /// Returns the message in a frame.
    fn unseal(&self, mut frame: Vec<u8>) -> Vec<u8> {
        match &self.sealing {
            Some(sealing) if frame.starts_with(b"\xfdSMB") => {
                sealing.to_client.open(&mut frame).expect("a frame that is encrypted with the key").to_vec()
            }
            _ => frame,
        }
    }

    /// Returns whether the server has not finished a request.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends one request and returns its final response. Drives waiting chains for a bounded time.
    ///
    /// # Panics
    /// If there is no final response.
    pub fn request(&mut self, command: Command, encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let message = self.compose(command, encode);
        self.exchange(command, &message)
    }

    fn exchange(&mut self, command: Command, message: &[u8]) -> Vec<u8> {
        let hashes =
            self.dialect == Dialect::SMB_3_1_1 && matches!(command, Command::NEGOTIATE | Command::SESSION_SETUP);
        if hashes {
            self.preauth.update(message);
        }
        let frames = self.send(message);
        let response = self.finish(frames).unwrap_or_else(|| {
            panic!("{command:?} was not answered; the connection: {:?}", self.connection.ended());
        });
        // The keys exist before the last response of a logon.
        if hashes && (command == Command::NEGOTIATE || status(&response) != Status::SUCCESS) {
            self.preauth.update(&response);
        }
        response
    }

    /// Drives waiting chains for a bounded time until there is a final response, which may be one of `frames`.
    pub fn finish(&mut self, mut frames: Vec<Vec<u8>>) -> Option<Vec<u8>> {
        for _ in 0..10_000 {
            let last = frames.iter().rev().find(|frame| status(frame) != Status::PENDING);
            if let Some(last) = last {
                return Some(last.clone());
            }
            if self.waits_for_threads {
                std::thread::sleep(Duration::from_millis(1));
            }
            frames.extend(self.proceed());
        }
        None
    }

    /// Sends NEGOTIATE with the client's dialect.
    pub fn negotiate(&mut self, security_mode: SecurityMode) -> Vec<u8> {
        let mut contexts = Vec::new();
        if self.dialect == Dialect::SMB_3_1_1 {
            let hash_algorithms = vec![HashAlgorithm::SHA_512];
            contexts.push(PreauthIntegrityCapabilities { hash_algorithms, salt: [9; 32].to_vec().into() }.to_context());
            contexts.extend(self.contexts.iter().cloned());
        }
        let negotiate = NegotiateRequest {
            security_mode,
            capabilities: self.capabilities,
            client_guid: self.guid,
            dialects: vec![self.dialect],
            negotiate_context_list: contexts,
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
        let (response, session_key) = ntlm_logon(credentials, |token| {
            let message = self.compose_session_setup(token, SecurityMode::SIGNING_ENABLED, previous);
            let response = self.exchange(Command::SESSION_SETUP, &message);
            self.session_id = Header::decode(&response).map_or(0, |header| header.session_id);
            response
        });
        if let Some(key) = session_key.filter(|_| status(&response) == Status::SUCCESS) {
            self.set_session_key(&key);
        }
        status(&response)
    }

    /// Encodes a SESSION_SETUP request; `previous_session_id` is the session that this one replaces.
    pub fn compose_session_setup(&mut self, token: &[u8], mode: SecurityMode, previous_session_id: u64) -> Vec<u8> {
        let setup = SessionSetupRequest {
            flags: SessionSetupFlags(0),
            security_mode: mode,
            capabilities: Capabilities(0),
            previous_session_id,
            buffer: token,
        };
        self.compose(Command::SESSION_SETUP, |out| setup.encode(out))
    }

    /// Derives the keys of a new session ([MS-SMB2] 3.2.5.3.1). On 3.1.1 requests are signed from then on, because the
    /// server requires it of TREE_CONNECT.
    pub(super) fn set_session_key(&mut self, session_key: &[u8; 16]) {
        let hash = *self.preauth.value();
        let derivation = match self.dialect {
            Dialect::SMB_3_1_1 => Derivation::Smb311(&hash),
            _ => Derivation::Smb30,
        };
        self.signs |= self.dialect == Dialect::SMB_3_1_1;
        let key = Key::from_session_key(session_key);
        if self.dialect.0 < Dialect::SMB_3_0.0 {
            self.signing_key = SigningKey::new(SigningAlgorithm::HMAC_SHA256, key.as_bytes()).ok();
            return;
        }
        self.signing_key = SigningKey::new(SigningAlgorithm::AES_CMAC, derivation.signing_key(&key).as_bytes()).ok();
        let of = |key: Key| SealingKey::new(CipherId::AES_128_CCM, key.as_bytes()).expect("a key of 16 bytes");
        self.sealing = Some(Sealing {
            to_server: of(derivation.client_to_server_key(session_key, KeyLength::Bits128)),
            to_client: of(derivation.server_to_client_key(session_key, KeyLength::Bits128)),
            nonce: 0,
        });
    }

    /// Returns whether a logon has set keys.
    pub(super) fn has_keys(&self) -> bool {
        self.signing_key.is_some()
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

/// Performs an NTLM logon, anonymously without credentials. `exchange` sends a token and returns the response. Returns
/// the last response, and the session key if both tokens were sent.
pub fn ntlm_logon(
    credentials: Option<Credentials>,
    mut exchange: impl FnMut(&[u8]) -> Vec<u8>,
) -> (Vec<u8>, Option<[u8; 16]>) {
    let initiator = Initiator::new(credentials, "TEST", "");
    let first = exchange(initiator.negotiate());
    let Ok(challenge) = SessionSetupResponse::decode(&first) else { return (first, None) };
    let random = Random { client_challenge: [4; 8], session_key: [5; 16] };
    match initiator.authenticate(challenge.buffer, &random, 0) {
        Ok((proof, session)) => (exchange(&proof), Some(session.key().0)),
        Err(_) => (first, None),
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
