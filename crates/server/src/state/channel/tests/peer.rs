//! An SMB 3 client for tests that signs requests and binds its session to further connections.

use std::sync::Arc;

use proto::auth::ntlm::{Credentials, Initiator, Random, nt_hash};
use proto::bytes::{Writer, utf16_bytes};
use proto::crypto::kdf::{Derivation, Key};
use proto::crypto::preauth::PreauthHash;
use proto::crypto::sign::SigningKey;
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::negotiate::{
    Capabilities, Dialect, HashAlgorithm, NegotiateRequest, PreauthIntegrityCapabilities, SecurityMode,
    SigningAlgorithm, SigningCapabilities,
};
use proto::smb2::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use proto::smb2::tree_connect::{TreeConnectFlags, TreeConnectRequest};
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;

use crate::state::Server;
use crate::state::connection::Connection;
use crate::testing::{PASSWORD, TestClient, status};

/// The client's state of a session.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) session_id: u64,
    pub(super) tree_id: u32,
    /// `Session.SigningKey`, if known.
    pub(super) key: Option<Arc<SigningKey>>,
}

/// A connection of a client, with at most one session.
pub(super) struct Peer {
    client: TestClient,
    dialect: Dialect,
    /// `Connection.PreauthIntegrityHashValue`.
    hash: PreauthHash,
    signing: SigningAlgorithm,
    /// `ChannelSequence` of requests.
    pub(super) sequence: u16,
    /// `Channel.SigningKey`, which signs requests.
    pub(super) key: Option<Arc<SigningKey>>,
}

impl Peer {
    /// Connects and negotiates `dialect`.
    pub(super) fn new(server: &Arc<Server>, dialect: Dialect) -> Peer {
        let signing =
            if dialect == Dialect::SMB_2_1 { SigningAlgorithm::HMAC_SHA256 } else { SigningAlgorithm::AES_CMAC };
        Peer::with_signing(server, dialect, signing)
    }

    /// Connects and negotiates `dialect` and, on 3.1.1, the signing algorithm.
    pub(super) fn with_signing(server: &Arc<Server>, dialect: Dialect, signing: SigningAlgorithm) -> Peer {
        let mut peer = Peer {
            signing,
            client: TestClient::new(server),
            dialect,
            hash: PreauthHash::new(),
            sequence: 0,
            key: None,
        };
        let sha_512 =
            PreauthIntegrityCapabilities { hash_algorithms: vec![HashAlgorithm::SHA_512], salt: vec![1].into() };
        let signing = SigningCapabilities { signing_algorithms: vec![signing] };
        let contexts = match dialect {
            Dialect::SMB_3_1_1 => vec![sha_512.to_context(), signing.to_context()],
            _ => Vec::new(),
        };
        let negotiate = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::MULTI_CHANNEL,
            client_guid: [7; 16],
            dialects: vec![dialect],
            negotiate_context_list: contexts,
        };
        let message = peer.compose(Command::NEGOTIATE, None, |out| negotiate.encode(out));
        let response = peer.exchange(&message);
        assert_eq!(status(&response), Status::SUCCESS);
        peer.hash.update(&message);
        peer.hash.update(&response);
        peer
    }

    /// Connects, logs on, and connects to the share.
    pub(super) fn logged_on(server: &Arc<Server>, dialect: Dialect, user: &str) -> Peer {
        let mut peer = Peer::new(server, dialect);
        assert_eq!(peer.log_on(user, PASSWORD), Status::SUCCESS);
        let path = utf16_bytes(r"\\server\share");
        let tree = TreeConnectRequest { flags: TreeConnectFlags(0), path: &path, tree_connect_contexts: Vec::new() };
        let response = peer.request(Command::TREE_CONNECT, |out| tree.encode(out));
        assert_eq!(status(&response), Status::SUCCESS);
        peer.client.tree_id = Header::decode(&response).ok().and_then(|header| header.tree_id()).expect("a tree");
        peer
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.client.connection
    }

    /// Returns the session, provided that it was established on this connection.
    pub(super) fn session(&self) -> Known {
        Known { session_id: self.client.session_id, tree_id: self.client.tree_id, key: self.key.clone() }
    }

    /// Establishes a new session.
    pub(super) fn log_on(&mut self, user: &str, password: &str) -> Status {
        self.client.session_id = 0;
        self.authenticate(user, password, SessionSetupFlags(0), None)
    }

    /// Reauthenticates the session.
    pub(super) fn log_on_again(&mut self, user: &str, password: &str, key: Option<&SigningKey>) -> Status {
        self.authenticate(user, password, SessionSetupFlags(0), key)
    }

    /// Uses the ids of a session in further requests, without being part of it.
    pub(super) fn pretend(&mut self, session: &Known) {
        self.client.session_id = session.session_id;
        self.client.tree_id = session.tree_id;
    }

    /// Binds a session to this connection. Each request is signed with the key, if it is known.
    pub(super) fn bind(&mut self, session: &Known, user: &str, password: &str) -> Status {
        self.pretend(session);
        self.authenticate(user, password, SessionSetupFlags::BINDING, session.key.as_deref())
    }

    /// Sends the first token of a binding.
    pub(super) fn begin_to_bind(&mut self, session: &Known) -> Status {
        self.pretend(session);
        let initiator = Initiator::new(None, "RIG", "");
        status(&self.set_up(initiator.negotiate(), SessionSetupFlags::BINDING, session.key.as_deref()).1)
    }

    /// Binds the session of `first`, alice's, which was established on that connection, to a new connection.
    pub(super) fn channel_of(server: &Arc<Server>, first: &Peer) -> Peer {
        let mut peer = Peer::new(server, first.dialect);
        assert_eq!(peer.bind(&first.session(), "alice", PASSWORD), Status::SUCCESS);
        peer
    }

    fn authenticate(
        &mut self,
        user: &str,
        password: &str,
        flags: SessionSetupFlags,
        sign_with: Option<&SigningKey>,
    ) -> Status {
        let credentials = Credentials { user: user.into(), domain: String::new(), nt_hash: nt_hash(password) };
        let initiator = Initiator::new(Some(credentials), "RIG", "");
        let mut hash = self.hash.clone();
        let first = self.set_up(initiator.negotiate(), flags, sign_with);
        hash.update(&first.0);
        hash.update(&first.1);
        if status(&first.1) != Status::MORE_PROCESSING_REQUIRED {
            return status(&first.1);
        }
        let challenge = SessionSetupResponse::decode(&first.1).expect("a challenge");
        check_signature(&first.1, sign_with);
        self.client.session_id = Header::decode(&first.1).expect("a header").session_id;
        // Each channel has its own session key, so that a mix-up would be detected.
        let random = Random { client_challenge: [4; 8], session_key: [self.client.connection.id as u8; 16] };
        let (proof, session) =
            initiator.authenticate(challenge.buffer, &random, 0).expect("an NTLM response to an NTLM message");
        let last = self.set_up(&proof, flags, sign_with);
        hash.update(&last.0);
        if status(&last.1) == Status::SUCCESS {
            let session_key = Key::from_session_key(&session.key().0);
            let key = match self.dialect {
                Dialect::SMB_2_1 => session_key,
                Dialect::SMB_3_1_1 => Derivation::Smb311(hash.value()).signing_key(&session_key),
                _ => Derivation::Smb30.signing_key(&session_key),
            };
            let key = SigningKey::new(self.signing, key.as_bytes()).expect("a key of 16 bytes");
            check_signature(&last.1, Some(&key));
            self.key = Some(Arc::new(key));
        }
        status(&last.1)
    }

    /// Returns the request and its response.
    fn set_up(&mut self, token: &[u8], flags: SessionSetupFlags, sign_with: Option<&SigningKey>) -> (Vec<u8>, Vec<u8>) {
        let setup = SessionSetupRequest {
            flags,
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities(0),
            previous_session_id: 0,
            buffer: token,
        };
        let message = self.compose(Command::SESSION_SETUP, sign_with, |out| setup.encode(out));
        let response = self.exchange(&message);
        (message, response)
    }

    /// Sends a request signed on the channel, and returns the response.
    pub(super) fn request(&mut self, command: Command, encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let key = self.key.clone();
        let message = self.compose(command, key.as_deref(), encode);
        self.exchange(&message)
    }

    pub(super) fn compose(
        &mut self,
        command: Command,
        sign_with: Option<&SigningKey>,
        encode: impl FnOnce(&mut Writer<'_>),
    ) -> Vec<u8> {
        let mut header = self.client.header(command).with_channel_sequence(self.sequence);
        if sign_with.is_some() {
            header.flags |= Flags::SIGNED;
        }
        let mut message = Vec::new();
        let mut out = Writer::new(&mut message);
        header.encode(&mut out);
        encode(&mut out);
        if let Some(key) = sign_with {
            key.sign(&mut message);
        }
        message
    }

    /// Sends a message, and returns the server's messages so far.
    pub(super) fn send(&mut self, message: &[u8]) -> Vec<Vec<u8>> {
        self.client.send(message)
    }

    /// Sends a message, and returns the first response that is neither interim nor unsolicited.
    pub(super) fn exchange(&mut self, message: &[u8]) -> Vec<u8> {
        let mut frames = self.client.send(message);
        for _ in 0..1_000 {
            let is_answer = |frame: &&Vec<u8>| {
                let header = Header::decode(frame).expect("a header");
                header.status != Status::PENDING && header.message_id != Header::UNSOLICITED
            };
            if let Some(answer) = frames.iter().find(is_answer) {
                return answer.clone();
            }
            frames = self.client.proceed();
        }
        panic!("no answer; the connection: {:?}", self.client.connection.ended());
    }

    /// Opens or creates `name`.
    pub(super) fn create(&mut self, name: &str, oplock: OplockLevel) -> Result<FileId, Status> {
        let message = self.compose_create(name, oplock);
        let response = self.exchange(&message);
        CreateResponse::decode(&response).map(|created| created.file_id).map_err(|_| status(&response))
    }

    /// Sends the request without waiting.
    pub(super) fn begin_to_create(&mut self, name: &str, oplock: OplockLevel) {
        let message = self.compose_create(name, oplock);
        self.client.send(&message);
    }

    fn compose_create(&mut self, name: &str, oplock: OplockLevel) -> Vec<u8> {
        let name = utf16_bytes(name);
        let create = CreateRequest {
            requested_oplock_level: oplock,
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: 0x001f_01ff,
            share_access: ShareAccess(7),
            create_disposition: CreateDisposition::OPEN_IF,
            create_options: CreateOptions(0),
            name: &name,
            ..CreateRequest::default()
        };
        let key = self.key.clone();
        self.compose(Command::CREATE, key.as_deref(), |out| create.encode(out))
    }

    /// Returns the messages that the server has sent since.
    pub(super) fn messages(&mut self) -> Vec<Vec<u8>> {
        self.client.proceed()
    }

    /// Closes the transport connection.
    pub(super) fn disconnect(self) {
        self.client.disconnect();
    }
}

fn check_signature(message: &[u8], key: Option<&SigningKey>) {
    if let Some(key) = key {
        assert!(key.verify(&mut message.to_vec()), "not signed with this key");
    }
}
