//! Running the requests of one frame, one after the other, and collecting their responses ([MS-SMB2] 3.3.5.2.7).

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proto::bytes::Writer;
use proto::crypto::sign::SigningKey;
use proto::smb2::FileId;
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::negotiate::{Dialect, SigningAlgorithm};
use proto::status::Status;

use super::respond::Outgoing;
use super::{Connection, Negotiated, Pending, output};
use crate::accounting::{Charge, Full, Resource};
use crate::channel_sequence::Outstanding;
use crate::command::cancel;
use crate::dispatch;
use crate::error::{Disconnect, Error, Result};
use crate::open::Open;
use crate::security::storing;
use crate::session::{Channel, Session};
use crate::tree::{Disk, Tree};
use crate::yielding::yield_now;

/// The requests of one frame.
pub struct Chain {
    connection: Arc<Connection>,
    elements: Vec<Element>,
    /// The session that the frame was sealed for.
    sealed: Option<u64>,
}

/// What a chain may hold while it waits, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cost {
    /// Its requests.
    pub requests: usize,
    /// The longest of its responses.
    pub response: usize,
}

impl Cost {
    /// Both together.
    pub fn total(&self) -> usize {
        self.requests + self.response
    }
}

/// How much a chain has done since others could run.
#[derive(Default)]
struct Pace {
    requests: usize,
    bytes: usize,
}

/// A chain does so many requests, or answers so many bytes, and then lets others run.
const TURN_REQUESTS: usize = 16;
const TURN_BYTES: usize = 1024 * 1024;
/// How long a chain waits before it looks again whether the accounts have room for its next response, and how often it
/// looks before the request is refused.
const TRY_AGAIN: Duration = Duration::from_millis(20);
const TRIES: u32 = 500;

/// What pays for a long response; `None` for a short one.
type Room = std::result::Result<Option<Charge>, Full>;

impl Pace {
    /// One more request; whether it is time to let others run.
    fn is_up(&mut self, length: usize) -> bool {
        let up = self.requests >= TURN_REQUESTS || (self.requests > 0 && self.bytes + length > TURN_BYTES);
        if up {
            *self = Pace::default();
        }
        self.requests += 1;
        self.bytes += length;
        up
    }
}

/// One request of a chain: its header, and its bytes from the header on.
pub(super) struct Element {
    pub(super) header: Header,
    pub(super) message: BytesMut,
}

/// What a related request takes from the one before it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Related {
    session_id: u64,
    tree_id: u32,
    file_id: Option<FileId>,
    /// The request before worked on a session, or made one.
    has_session: bool,
    /// The request before worked on a tree connect, or made one.
    has_tree: bool,
    /// The error of the CREATE whose file the rest of the chain would work on.
    failure: Option<Status>,
}

/// One request on its way through the server.
pub(crate) struct Request<'a> {
    pub(crate) connection: &'a Arc<Connection>,
    pub(crate) header: &'a Header,
    /// The request from its header on.
    pub(crate) message: &'a Bytes,
    pub(crate) channel: Option<Arc<Channel>>,
    pub(crate) tree: Option<Arc<Tree>>,
    /// It came sealed.
    pub(crate) sealed: bool,
    related: Option<Related>,
    /// Nothing follows in its chain.
    last: bool,
}

/// Where a command puts its response.
pub(crate) struct Reply {
    pub(crate) outgoing: Outgoing,
    /// `SessionId` of the response, where it differs from the request's.
    pub(crate) session_id: Option<u64>,
    /// `TreeId` of the response, where it differs from the request's.
    pub(crate) tree_id: Option<u32>,
    /// The file that the request worked on, for related requests.
    pub(crate) file_id: Option<FileId>,
    /// The key to sign with, where it is not that of the request's channel: of a new session, of a channel being bound.
    pub(crate) sign_with: Option<Arc<SigningKey>>,
    /// What is to be done with the response's bytes.
    pub(crate) hash: Hash,
    /// The AsyncId, once an interim response was sent.
    pub(crate) async_id: Option<u64>,
    /// The request as its open counts it.
    outstanding: Option<Outstanding>,
    /// Why the connection ends once the response is sent.
    ends: Option<Disconnect>,
    /// The request's outcome will be asked for over another channel if its own is lost.
    pub(crate) survives: bool,
    /// The request as CANCEL finds it, once an interim response was sent.
    pending: Option<Arc<Pending>>,
}

/// Who wants the response's bytes for the preauthentication integrity hash of 3.1.1.
#[derive(Default)]
pub(crate) enum Hash {
    #[default]
    Nobody,
    /// NEGOTIATE: the connection settles on this once the response is composed.
    Connection(Box<Negotiated>),
    /// SESSION_SETUP that is not the last.
    Session(Arc<Channel>),
}

impl Chain {
    pub(super) fn new(connection: Arc<Connection>, elements: Vec<Element>, sealed: Option<u64>) -> Self {
        Chain { connection, elements, sealed }
    }

    /// What the chain may hold while it waits.
    pub fn cost(&self) -> Cost {
        let requests = self.elements.iter().map(|element| element.message.len() + size_of::<Element>()).sum();
        // Its responses are made one after the other.
        let longest = |element| output::longest(&self.connection, element);
        let response = self.elements.iter().map(longest).max().unwrap_or(0);
        Cost { requests, response }
    }

    /// Whether it has a CANCEL: what waits for that is to be run before the next chain, so that it is answered first, as
    /// from Windows servers.
    pub fn cancels(&self) -> bool {
        self.elements.iter().any(|element| element.header.command == Command::CANCEL)
    }

    /// Executes the requests in their order and puts the responses into the connection's outbox; then does what may wait
    /// until they are sent.
    pub async fn run(self) {
        let server = self.connection.server.clone();
        self.answer().await;
        storing::after_answer(&server.descriptors, &*server.world).await;
    }

    async fn answer(mut self) {
        let mut reply = Reply::new(&self.connection);
        let mut previous: Option<Related> = None;
        let mut elements = std::mem::take(&mut self.elements).into_iter();
        let mut pace = Pace::default();
        let mut unsent = Vec::new();
        while let Some(mut element) = elements.next() {
            if self.connection.ended().is_some() {
                return;
            }
            if element.header.command == Command::CANCEL {
                self.cancel(&mut element);
                continue;
            }
            let last = elements.len() == 0;
            let room = self.make_room(&element, &mut reply, &mut pace, &mut unsent).await;
            if self.connection.ended().is_some() {
                return;
            }
            previous = Some(self.run_one(element, previous, last, &room, &mut reply).await);
            unsent.extend(room.ok().flatten());
            if reply.ends.is_some() {
                break;
            }
        }
        self.send(&mut reply, &mut unsent);
        if let Some(reason) = reply.ends {
            self.connection.end(reason);
        }
    }

    /// Sends the responses made so far. The connection pays for them from now on, not what was charged for each.
    fn send(&self, reply: &mut Reply, charged: &mut Vec<Charge>) {
        reply.outgoing.send();
        self.hand_over(charged);
    }

    fn hand_over(&self, charged: &mut Vec<Charge>) {
        if !charged.is_empty() {
            self.connection.record_responses();
            charged.clear();
        }
    }

    /// Waits until there is room for the response to `element`, which may be long, and now and then lets others run.
    /// Answers what pays for a long response until it is queued. Where an account stays full, the request is refused.
    /// `unsent` pays for those of the frame under way.
    async fn make_room(&self, element: &Element, reply: &mut Reply, pace: &mut Pace, unsent: &mut Vec<Charge>) -> Room {
        let connection = &*self.connection;
        let length = output::longest(connection, element);
        reply.outgoing.limit_frame(length, connection.server.policy().limits.response_frame);
        if reply.outgoing.is_empty() {
            self.hand_over(unsent);
        }
        if pace.is_up(length) {
            yield_now().await;
        }
        connection.outbox.drained(connection.backlog_limit(), || connection.ended().is_some()).await;
        if length < output::LONG {
            return Ok(None);
        }
        let payer = connection.payer();
        for _ in 0..TRIES {
            match payer.charge(Resource::Responses, length) {
                Err(_) if connection.ended().is_none() => {
                    // Who waits holds nothing that another waits for.
                    self.send(reply, unsent);
                    connection.server.world.sleep(TRY_AGAIN).await;
                }
                answer => return answer.map(Some),
            }
        }
        payer.charge(Resource::Responses, length).map(Some)
    }

    /// CANCEL has no response, not even to say that its signature is missing or wrong.
    fn cancel(&self, element: &mut Element) {
        let header = element.header;
        let channel = self.connection.channel(header.session_id);
        let sealed = self.sealed.is_some();
        match dispatch::check_signature(channel.as_deref(), &header, &mut element.message, sealed) {
            Ok(()) => cancel::cancel(&self.connection, &header),
            Err(error) => tracing::debug!(%error, "CANCEL ignored"),
        }
    }

    async fn run_one(
        &self,
        mut element: Element,
        previous: Option<Related>,
        last: bool,
        room: &Room,
        reply: &mut Reply,
    ) -> Related {
        let header = &element.header.clone();
        let wants_related = header.flags.contains(Flags::RELATED_OPERATIONS);
        let related = if wants_related { previous } else { None };
        let session_id = related.map_or(header.session_id, |related| related.session_id);
        let tree_id = related.map_or(header.tree_id().unwrap_or(0), |related| related.tree_id);
        let channel = self.connection.channel(session_id);
        let tree = channel.as_ref().and_then(|channel| channel.session.tree(tree_id));
        let sealed = self.sealed.is_some();
        let signature = dispatch::check_signature(channel.as_deref(), header, &mut element.message, sealed);
        let message = element.message.freeze();
        let request =
            Request { connection: &self.connection, header, message: &message, channel, tree, sealed, related, last };
        reply.begin();
        // 3.3.5.2.7.2: the first operation of a chain has nothing to be related to, and with it fails what follows.
        let orphan = wants_related && previous.is_none();
        let result = if orphan {
            Err(Error::because(Status::INVALID_PARAMETER, "first request of a chain is marked as related"))
        } else if let Err(error) = signature {
            reply.sign_with = request.foreign_key();
            if !sealed && !header.flags.contains(Flags::SIGNED) && header.command != Command::SESSION_SETUP {
                // 3.3.5.2.4 lets us: whoever strips signatures gets no second try. A logon is one.
                reply.ends = Some(Disconnect("unsigned where signing is required"));
            }
            Err(error)
        } else if let Err(full) = room {
            Err(full.clone().into())
        } else {
            dispatch::dispatch(&request, reply).await
        };
        let failure = match &result {
            Err(error) if header.command == Command::CREATE => Some(error.status),
            Ok(_) if header.command == Command::CREATE => None,
            _ => related.and_then(|related| related.failure),
        };
        let connects = header.command == Command::TREE_CONNECT;
        // What was missing once stays missing, unless it is made.
        let inherits = |has: fn(&Related) -> bool| !orphan && related.as_ref().is_none_or(has);
        let next = Related {
            session_id: reply.session_id.unwrap_or(session_id),
            tree_id: reply.tree_id.unwrap_or(tree_id),
            file_id: reply.file_id.or(related.and_then(|related| related.file_id)),
            has_session: (request.channel.is_some() && inherits(|related| related.has_session))
                || (reply.session_id.is_some() && result.is_ok()),
            has_tree: (request.tree.is_some() && !connects && inherits(|related| related.has_tree))
                || reply.tree_id.is_some(),
            failure,
        };
        reply.finish(&request, result);
        next
    }
}

impl Request<'_> {
    /// The key of a session that this connection is no channel of, where the request is signed with it: the refusal is
    /// signed with it too, so that the client believes it.
    pub(crate) fn foreign_key(&self) -> Option<Arc<SigningKey>> {
        if !self.header.flags.contains(Flags::SIGNED) || self.connection.channel(self.header.session_id).is_some() {
            return None;
        }
        let session = self.connection.server.session(self.header.session_id)?;
        // AES-GMAC gives its key away to who sees two messages signed under one MessageId. A stranger must not get the
        // second of them by sending once more what it has seen on the session's own connection.
        if session.terms.signing == SigningAlgorithm::AES_GMAC
            && self.header.command != Command::SESSION_SETUP
            && !self.connection.is_authenticated_as(&session)
        {
            return None;
        }
        let key = session.keys()?.signing.clone()?;
        key.verify(&mut self.message.to_vec()).then_some(key)
    }

    /// The session, which `dispatch` has checked.
    pub(crate) fn session(&self) -> Result<&Arc<Session>> {
        self.check_related(|related| related.has_session)?;
        self.channel.as_ref().map(|channel| &channel.session).ok_or(Error::new(Status::USER_SESSION_DELETED))
    }

    /// The tree connect, which `dispatch` has checked.
    pub(crate) fn tree(&self) -> Result<&Arc<Tree>> {
        self.check_related(|related| related.has_tree)?;
        self.tree.as_ref().ok_or(Error::new(Status::NETWORK_NAME_DELETED))
    }

    /// 3.3.5.2.7.2: what the request before it did not have, a related request cannot take from it.
    fn check_related(&self, has: impl Fn(&Related) -> bool) -> Result<()> {
        match &self.related {
            Some(related) if !has(related) => {
                Err(Error::because(Status::INVALID_PARAMETER, "the request before it has no session or tree connect"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a request that waits for as long as its client likes while others wait behind it in its chain
    /// (3.3.5.2.7 lets a server do so, and <266> with this status).
    pub(crate) fn check_last(&self) -> Result<()> {
        if self.last {
            return Ok(());
        }
        Err(Error::because(Status::INTERNAL_ERROR, "not the last of its chain, and may wait for ever"))
    }

    /// The directory share behind the tree connect.
    pub(crate) fn disk(&self) -> Result<&Disk> {
        self.tree()?.disk().ok_or(Error::new(Status::INVALID_DEVICE_REQUEST))
    }

    /// The error that a related request inherits from the CREATE before it.
    pub(crate) fn inherited_failure(&self) -> Option<Status> {
        self.related.and_then(|related| related.failure)
    }

    /// The open that the request names, if it is this request's turn to use it, or for a related request the one of the request before it.
    pub(crate) fn open(&self, named: FileId, reply: &mut Reply) -> Result<Arc<Open>> {
        let file_id = match self.related {
            Some(related) => related.file_id.ok_or(Error::new(Status::INVALID_HANDLE))?,
            None => named,
        };
        reply.file_id = Some(file_id);
        let open = self.session()?.open(file_id.persistent, file_id.volatile).ok_or(Error::new(Status::FILE_CLOSED))?;
        if self.tree.as_ref().is_some_and(|tree| tree.id != open.tree.id) {
            return Err(Error::because(Status::FILE_CLOSED, "the open belongs to another tree connect"));
        }
        // 3.3.5.2.10, once for each request.
        let counted = reply.outstanding.as_ref().is_some_and(|outstanding| outstanding.is_on(&open));
        if !counted && self.connection.dialect().0 >= Dialect::SMB_3_0.0 {
            reply.outstanding = Outstanding::begin(&open, self.header)?;
        }
        if let Some(id) = open.file().and_then(|file| file.durability.take_creation()) {
            self.connection.server.creations.forget(id);
        }
        Ok(open)
    }

    /// Checks `CreditCharge` against the larger of what was sent and what is asked for (3.3.5.2.5). `payload` counts
    /// bytes.
    pub(crate) fn check_charge(&self, payload: usize) -> Result<()> {
        let multi_credit = self.connection.negotiated().is_some_and(|negotiated| negotiated.multi_credit);
        let needed = payload.saturating_sub(1) / 65536 + 1;
        if multi_credit && needed > usize::from(self.header.credit_charge.max(1)) {
            return Err(Error::because(Status::INVALID_PARAMETER, "CreditCharge below the payload's size"));
        }
        Ok(())
    }
}

impl Reply {
    fn new(connection: &Arc<Connection>) -> Reply {
        Reply {
            outgoing: Outgoing::new(connection.clone()),
            session_id: None,
            tree_id: None,
            file_id: None,
            sign_with: None,
            hash: Hash::Nobody,
            async_id: None,
            outstanding: None,
            ends: None,
            survives: false,
            pending: None,
        }
    }

    /// Sends a response that no SMB2 request asked for: the answer to SMB1's NEGOTIATE.
    pub(crate) fn unasked(connection: &Arc<Connection>, header: &Header, compose: impl FnOnce(&mut Reply)) {
        let mut reply = Reply::new(connection);
        reply.begin();
        compose(&mut reply);
        let message = Bytes::new();
        let request = Request {
            connection,
            header,
            message: &message,
            channel: None,
            tree: None,
            sealed: false,
            related: None,
            last: true,
        };
        reply.finish(&request, Ok(Status::SUCCESS));
        reply.outgoing.send();
    }

    fn begin(&mut self) {
        self.outgoing.begin();
        self.session_id = None;
        self.tree_id = None;
        self.file_id = None;
        self.sign_with = None;
        self.hash = Hash::Nobody;
        self.async_id = None;
        self.survives = false;
        self.pending = None;
    }

    /// Where the body goes: position 64, behind the header.
    pub(crate) fn body(&mut self) -> Writer<'_> {
        self.outgoing.body()
    }

    /// Sends what the chain has answered so far and an interim response for this request, which from now on can be
    /// cancelled. To be called before each wait of unknown length (3.3.4.2); only the first sends anything.
    pub(crate) fn go_async(&mut self, request: &Request<'_>) -> Result<Arc<Pending>> {
        if let Some(pending) = &self.pending {
            return Ok(pending.clone());
        }
        let limit = request.connection.server.policy().limits.pending_per_connection;
        let session = request.channel.as_ref().map_or(0, |channel| channel.session.id);
        let (id, pending) = {
            let mut state = request.connection.state.lock();
            state
                .pending
                .add(request.header.message_id, session, limit)
                .ok_or(Error::new(Status::INSUFFICIENT_RESOURCES))?
        };
        if let (true, Some(channel)) = (self.survives, &request.channel) {
            pending.survive_in(&channel.session);
        }
        self.async_id = Some(id);
        self.outgoing.send_interim(request, id);
        self.pending = Some(pending.clone());
        Ok(pending)
    }

    fn finish(&mut self, request: &Request<'_>, result: Result<Status>) {
        self.outstanding = None;
        if let Some(id) = self.async_id {
            request.connection.state.lock().pending.remove(id);
        }
        let hash = std::mem::take(&mut self.hash);
        let status = match result {
            Ok(status) => status,
            Err(error) => {
                tracing::debug!(command = request.header.command.0, %error, "refused");
                self.outgoing.replace_body_by_error(&error);
                error.status
            }
        };
        self.outgoing.finish(
            request,
            self.async_id,
            status,
            self.session_id,
            self.tree_id,
            self.sign_with.take(),
            hash,
        );
    }
}
