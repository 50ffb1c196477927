//! A client that keeps several requests in flight, and looks at each of the server's messages.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use proto::auth::ntlm::{Credentials, nt_hash};
use proto::bytes::{Writer, utf16_bytes};
use proto::smb2::cancel::CancelRequest;
use proto::smb2::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::negotiate::{Capabilities, Dialect, NegotiateResponse, SecurityMode};
use proto::smb2::tree_connect::{TreeConnectFlags, TreeConnectRequest};
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;

use super::{ManualClock, PASSWORD, TestClient, TestServer, ntlm_logon};

/// A response or an unsolicited message. The responses to a chain are messages of their own.
pub struct Message(Vec<u8>);

impl Message {
    /// Returns the header.
    ///
    /// # Panics
    /// If the message has none.
    pub fn header(&self) -> Header {
        Header::decode(&self.0).expect("a well-formed response header")
    }

    /// Checks the status.
    ///
    /// # Panics
    /// If it is another one.
    #[track_caller]
    pub fn check(&self, status: Status) {
        assert_eq!(self.header().status, status);
    }

    /// Returns the header and the body.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A client that queues the server's messages until the test looks at them. It dereferences to the [`TestClient`] that
/// sends its requests.
pub struct PipelinedClient {
    client: TestClient,
    clock: ManualClock,
    received: VecDeque<Message>,
    /// The server's security buffer in NEGOTIATE.
    pub negotiate_token: Vec<u8>,
}

impl Deref for PipelinedClient {
    type Target = TestClient;

    fn deref(&self) -> &TestClient {
        &self.client
    }
}

impl DerefMut for PipelinedClient {
    fn deref_mut(&mut self) -> &mut TestClient {
        &mut self.client
    }
}

/// Pipelined clients, for whose logons the clock is advanced.
impl TestServer {
    /// Returns a client that has only negotiated.
    pub fn connect(&self) -> PipelinedClient {
        self.connect_as(Dialect::SMB_2_1, [7; 16])
    }

    /// Returns the client `guid`, which uses `dialect`, at most 3.0.
    pub fn connect_as(&self, dialect: Dialect, guid: [u8; 16]) -> PipelinedClient {
        let mut client = TestClient::new(self);
        (client.dialect, client.guid) = (dialect, guid);
        client.capabilities = Capabilities::PERSISTENT_HANDLES | Capabilities::ENCRYPTION;
        PipelinedClient::new(client, &self.clock)
    }

    /// Returns a client at this address that has only negotiated.
    pub fn connect_from(&self, remote: SocketAddr) -> PipelinedClient {
        PipelinedClient::new(TestClient::from_address(self, remote), &self.clock)
    }

    /// Returns the client `guid` with dialect 3.0 and the share connected.
    pub fn log_on_as(&self, user: &str, guid: [u8; 16]) -> PipelinedClient {
        let mut client = self.connect_as(Dialect::SMB_3_0, guid);
        client.log_on(user, PASSWORD, false, 0).check(Status::SUCCESS);
        client.tree_connect();
        client
    }

    /// Returns a client with the share connected; with `signs`, it requires signing.
    pub fn log_on(&self, user: &str, signs: bool) -> PipelinedClient {
        let mut client = self.connect();
        client.log_on(user, PASSWORD, signs, 0).check(Status::SUCCESS);
        client.tree_connect();
        client
    }
}

impl PipelinedClient {
    /// Negotiates. The server reads `clock`.
    fn new(mut client: TestClient, clock: &ManualClock) -> PipelinedClient {
        let response = client.negotiate(SecurityMode::SIGNING_ENABLED);
        let negotiate_token = NegotiateResponse::decode(&response).expect("a well-formed message").buffer.to_vec();
        PipelinedClient { client, clock: clock.clone(), received: VecDeque::new(), negotiate_token }
    }

    /// Cancels the request that was answered by `interim`.
    ///
    /// # Panics
    /// If the connection has ended.
    pub fn cancel(&mut self, interim: &Message) {
        let mut header = Header::request(Command::CANCEL, interim.header().message_id);
        header.session_id = self.session_id;
        let mut message = Vec::new();
        let mut out = Writer::new(&mut message);
        header.encode(&mut out);
        CancelRequest.encode(&mut out);
        assert!(self.send(&message), "the connection has ended");
    }

    /// Sends a frame. Returns `false` if it ended the connection.
    pub fn send(&mut self, frame: &[u8]) -> bool {
        self.client.post(frame);
        let accepted = self.connection.ended().is_none();
        self.turn();
        accepted
    }

    /// Lets the server continue with waiting requests.
    pub fn turn(&mut self) {
        for frame in self.client.proceed() {
            let mut rest = &frame[..];
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

    /// Returns the next message from the server, if there is one.
    pub fn try_receive(&mut self) -> Option<Message> {
        self.turn();
        self.received.pop_front()
    }

    /// Returns the next message from the server.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn receive(&mut self) -> Message {
        self.try_receive().expect("a message from the server")
    }

    /// Checks that no message was received.
    ///
    /// # Panics
    /// If one was received.
    #[track_caller]
    pub fn silent(&mut self) {
        self.turn();
        assert!(self.received.is_empty(), "{} messages", self.received.len());
    }

    /// Sends a request and returns the next message.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn request(&mut self, command: Command, encode: impl FnOnce(&mut Writer<'_>)) -> Message {
        let message = self.compose(command, encode);
        assert!(self.send(&message), "the connection has ended");
        self.receive()
    }

    /// Logs on or reauthenticates, and returns the server's last response.
    #[track_caller]
    pub fn log_on(&mut self, user: &str, password: &str, signs: bool, previous: u64) -> Message {
        let credentials = Credentials { user: user.into(), domain: String::new(), nt_hash: nt_hash(password) };
        self.log_on_with(Some(credentials), signs, previous)
    }

    /// Logs on anonymously and returns the server's last response.
    #[track_caller]
    pub fn log_on_anonymously(&mut self) -> Message {
        self.log_on_with(None, false, 0)
    }

    #[track_caller]
    fn log_on_with(&mut self, credentials: Option<Credentials>, signs: bool, previous: u64) -> Message {
        let (last, session_key) = ntlm_logon(credentials, |token| {
            let response = self.session_setup(token, signs, previous);
            self.session_id = response.header().session_id;
            response.0
        });
        let last = Message(last);
        if let Some(key) = session_key.filter(|_| last.header().status == Status::SUCCESS && !self.has_keys()) {
            self.set_session_key(&key);
            self.signs = signs;
        }
        last
    }

    /// Sends a token and returns the next message, for which the clock is advanced if the server delays a refusal.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn session_setup(&mut self, token: &[u8], signs: bool, previous_session_id: u64) -> Message {
        let required = if signs { SecurityMode::SIGNING_REQUIRED } else { SecurityMode(0) };
        let mode = SecurityMode::SIGNING_ENABLED | required;
        let message = self.compose_session_setup(token, mode, previous_session_id);
        assert!(self.send(&message), "the connection has ended");
        if self.received.is_empty() {
            self.clock.advance(Duration::from_secs(2));
        }
        self.receive()
    }

    /// Connects to the share `name` and returns the response.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn connect_to(&mut self, name: &str) -> Message {
        let path = utf16_bytes(&format!(r"\\server\{name}"));
        let tree = TreeConnectRequest { flags: TreeConnectFlags(0), path: &path, tree_connect_contexts: Vec::new() };
        let response = self.request(Command::TREE_CONNECT, |out| tree.encode(out));
        self.tree_id = response.header().tree_id().expect("not asynchronous");
        response
    }

    /// Connects to the share `share`.
    ///
    /// # Panics
    /// If the server refuses.
    #[track_caller]
    pub fn tree_connect(&mut self) {
        self.connect_to("share").check(Status::SUCCESS);
    }

    /// Builds a CREATE of `name` with all rights and sharing modes.
    pub fn create(&mut self, name: &str, disposition: CreateDisposition, oplock: OplockLevel, flags: Flags) -> Vec<u8> {
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
        self.compose_with(Command::CREATE, flags, |out| create.encode(out))
    }

    /// Opens or creates `name`.
    ///
    /// # Panics
    /// If the server refuses.
    #[track_caller]
    pub fn open(&mut self, name: &str, oplock: OplockLevel) -> (FileId, OplockLevel) {
        let create = self.create(name, CreateDisposition::OPEN_IF, oplock, Flags(0));
        assert!(self.send(&create), "the connection has ended");
        opened(&self.receive())
    }
}

/// Returns the result of a successful CREATE.
///
/// # Panics
/// If it is not successful.
#[track_caller]
pub fn opened(message: &Message) -> (FileId, OplockLevel) {
    message.check(Status::SUCCESS);
    let response = CreateResponse::decode(message.bytes()).expect("a well-formed message");
    (response.file_id, response.oplock_level)
}
