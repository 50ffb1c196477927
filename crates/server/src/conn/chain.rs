//! Executes the requests of one frame in order and collects their responses ([MS-SMB2] 3.3.5.2.7).

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
use crate::command::cancel;
use crate::dispatch;
use crate::error::{Disconnect, Error, Result};
use crate::open::Open;
use crate::open::channel_sequence::Outstanding;
use crate::security::write_back;
use crate::session::{Channel, Session};
use crate::tree::{Disk, Tree};
use crate::yielding::yield_now;

/// The requests of one frame.
pub struct Chain {
    connection: Arc<Connection>,
    elements: Vec<Element>,
    /// The session that the frame was encrypted for.
    sealed: Option<u64>,
}

/// The memory that a chain may hold while it waits, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cost {
    /// The size of its requests.
    pub requests: usize,
    /// The size of the longest response.
    pub response: usize,
}

impl Cost {
    /// Returns the sum.
    pub fn total(&self) -> usize {
        self.requests + self.response
    }
}

/// The work of a chain since it last yielded.
#[derive(Default)]
struct Pace {
    requests: usize,
    bytes: usize,
}

/// Requests and response bytes after which a chain yields.
const TURN_REQUESTS: usize = 16;
const TURN_BYTES: usize = 1024 * 1024;
/// The interval at which a chain checks again whether the accounts have capacity for its next response, and the number
/// of checks before the request is refused.
const TRY_AGAIN: Duration = Duration::from_millis(20);
const TRIES: u32 = 500;

/// The charge for a long response; `None` for a short one.
type Room = std::result::Result<Option<Charge>, Full>;

impl Pace {
    /// Adds one request; returns whether it is time to yield.
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

/// One request of a chain: its header, and its bytes including the header.
pub(super) struct Element {
    pub(super) header: Header,
    pub(super) message: BytesMut,
}

/// The context that a related request inherits from the preceding one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Related {
    session_id: u64,
    tree_id: u32,
    file_id: Option<FileId>,
    /// The preceding request used or created a session.
    has_session: bool,
    /// The preceding request used or created a tree connect.
    has_tree: bool,
    /// The error of the CREATE whose file the rest of the chain would use.
    failure: Option<Status>,
}

/// A request that is being executed.
pub(crate) struct Request<'a> {
    pub(crate) connection: &'a Arc<Connection>,
    pub(crate) header: &'a Header,
    /// The bytes of the request, including its header.
    pub(crate) message: &'a Bytes,
    pub(crate) channel: Option<Arc<Channel>>,
    pub(crate) tree: Option<Arc<Tree>>,
    /// The request was encrypted.
    pub(crate) sealed: bool,
    related: Option<Related>,
    /// This is the last request of its chain.
    last: bool,
}

/// The response under construction.
pub(crate) struct Reply {
    pub(crate) outgoing: Outgoing,
    /// `SessionId` of the response, if it differs from the request's.
    pub(crate) session_id: Option<u64>,
    /// `TreeId` of the response, if it differs from the request's.
    pub(crate) tree_id: Option<u32>,
    /// The file that the request used, for related requests.
    pub(crate) file_id: Option<FileId>,
    /// The signing key, if it is not that of the request's channel: that of a new session, or of a channel being bound.
    pub(crate) sign_with: Option<Arc<SigningKey>>,
    /// The use of the response's bytes for the preauthentication hash.
    pub(crate) hash: Hash,
    /// The AsyncId, if an interim response was sent.
    pub(crate) async_id: Option<u64>,
    /// The request as counted by its open.
    outstanding: Option<Outstanding>,
    /// The reason to end the connection after the response is sent.
    ends: Option<Disconnect>,
    /// The request continues if its channel is lost, because the client will ask for its result over another channel.
    pub(crate) survives: bool,
    /// The entry that CANCEL finds, if an interim response was sent.
    pending: Option<Arc<Pending>>,
}

/// The preauthentication integrity hash of 3.1.1 that the response is part of.
#[derive(Default)]
pub(crate) enum Hash {
    #[default]
    Nobody,
    /// NEGOTIATE: the connection stores this result once the response is composed.
    Connection(Box<Negotiated>),
    /// SESSION_SETUP except for the final response.
    Session(Arc<Channel>),
}

impl Chain {
    pub(super) fn new(connection: Arc<Connection>, elements: Vec<Element>, sealed: Option<u64>) -> Self {
        Chain { connection, elements, sealed }
    }

    /// Returns the memory that the chain may hold while it waits.
    pub fn cost(&self) -> Cost {
        let requests = self.elements.iter().map(|element| element.message.len() + size_of::<Element>()).sum();
        // Only the longest one, because responses are created one after the other.
        let longest = |element| output::longest(&self.connection, element);
        let response = self.elements.iter().map(longest).max().unwrap_or(0);
        Cost { requests, response }
    }

    /// Returns whether the chain contains a CANCEL. Requests that it cancels must be run before the next chain, so that
    /// they are answered first, as by Windows servers.
    pub fn cancels(&self) -> bool {
        self.elements.iter().any(|element| element.header.command == Command::CANCEL)
    }

    /// Executes the requests in order and puts the responses into the connection's outbox. Then does the work that can
    /// wait until they are sent.
    pub async fn run(self) {
        let server = self.connection.server.clone();
        self.answer().await;
        write_back::after_answer(&server.descriptors, &*server.environment).await;
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

    /// Sends the finished responses. Their individual charges are replaced by the connection's charge for queued
    /// responses.
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

    /// Waits until there is capacity for the response to `element`, which may be long, and yields now and then. Returns
    /// the charge for a long response, held until it is queued. If an account stays full, the request is refused.
    /// `unsent` has the charges for the finished responses of the current frame.
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
                    // While waiting, the chain must not hold charges that another chain may wait for.
                    self.send(reply, unsent);
                    connection.server.environment.sleep(TRY_AGAIN).await;
                }
                answer => return answer.map(Some),
            }
        }
        payer.charge(Resource::Responses, length).map(Some)
    }

    /// Executes CANCEL, which has no response, even if its signature is missing or wrong.
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
        // 3.3.5.2.7.2: the first request of a chain cannot be related; if it is marked so, the requests that inherit
        // from it fail too.
        let orphan = wants_related && previous.is_none();
        let result = if orphan {
            Err(Error::because(Status::INVALID_PARAMETER, "the first request of a chain is marked as related"))
        } else if let Err(error) = signature {
            reply.sign_with = request.foreign_key();
            if !sealed && !header.flags.contains(Flags::SIGNED) && header.command != Command::SESSION_SETUP {
                // 3.3.5.2.4 permits this: an attacker that strips signatures gets no second attempt. An unsigned logon
                // may be repeated.
                reply.ends = Some(Disconnect("the request is not signed, but signing is required"));
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
        // A session or tree connect that was missing once stays missing, unless the request creates it.
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
    /// Returns the signing key of a session that has no channel on this connection, if the request is signed. The error
    /// response is then signed with it, so that the client can verify it.
    pub(crate) fn foreign_key(&self) -> Option<Arc<SigningKey>> {
        if !self.header.flags.contains(Flags::SIGNED) || self.connection.channel(self.header.session_id).is_some() {
            return None;
        }
        let session = self.connection.server.session(self.header.session_id)?;
        // AES-GMAC reveals its key to an observer of two messages signed under one MessageId. An attacker must not
        // obtain the second one by replaying a request captured on the session's own connection.
        if session.terms.signing == SigningAlgorithm::AES_GMAC
            && self.header.command != Command::SESSION_SETUP
            && !self.connection.is_authenticated_as(&session)
        {
            return None;
        }
        let key = session.keys()?.signing.clone()?;
        key.verify(&mut self.message.to_vec()).then_some(key)
    }

    /// Returns the session, which `dispatch` has checked.
    pub(crate) fn session(&self) -> Result<&Arc<Session>> {
        self.check_related(|related| related.has_session)?;
        self.channel.as_ref().map(|channel| &channel.session).ok_or(Error::new(Status::USER_SESSION_DELETED))
    }

    /// Returns the tree connect, which `dispatch` has checked.
    pub(crate) fn tree(&self) -> Result<&Arc<Tree>> {
        self.check_related(|related| related.has_tree)?;
        self.tree.as_ref().ok_or(Error::new(Status::NETWORK_NAME_DELETED))
    }

    /// 3.3.5.2.7.2: a related request cannot inherit what the preceding request did not have.
    fn check_related(&self, has: impl Fn(&Related) -> bool) -> Result<()> {
        match &self.related {
            Some(related) if !has(related) => {
                Err(Error::because(Status::INVALID_PARAMETER, "the preceding request has no session or tree connect"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a request that may wait indefinitely while others wait behind it in its chain (allowed by 3.3.5.2.7;
    /// <266> with this status).
    pub(crate) fn check_last(&self) -> Result<()> {
        if self.last {
            return Ok(());
        }
        Err(Error::because(
            Status::INTERNAL_ERROR,
            "a request that can wait indefinitely must be the last of its chain",
        ))
    }

    /// Returns the directory share of the tree connect.
    pub(crate) fn disk(&self) -> Result<&Disk> {
        self.tree()?.disk().ok_or(Error::new(Status::INVALID_DEVICE_REQUEST))
    }

    /// Returns the error that a related request inherits from the preceding CREATE.
    pub(crate) fn inherited_failure(&self) -> Option<Status> {
        self.related.and_then(|related| related.failure)
    }

    /// Returns the open for `named`, or for a related request the open of the preceding request. Fails if the channel
    /// sequence of the request is stale.
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
        // 3.3.5.2.10, once per request.
        let counted = reply.outstanding.as_ref().is_some_and(|outstanding| outstanding.is_on(&open));
        if !counted && self.connection.dialect().0 >= Dialect::SMB_3_0.0 {
            reply.outstanding = Outstanding::begin(&open, self.header)?;
        }
        if let Some(id) = open.file().and_then(|file| file.durability.take_creation()) {
            self.connection.server.creations.forget(id);
        }
        Ok(open)
    }

    /// Checks `CreditCharge` against `payload`, the larger of the sizes sent and requested in bytes (3.3.5.2.5).
    pub(crate) fn check_charge(&self, payload: usize) -> Result<()> {
        let multi_credit = self.connection.negotiated().is_some_and(|negotiated| negotiated.multi_credit);
        let needed = payload.saturating_sub(1) / 65536 + 1;
        if multi_credit && needed > usize::from(self.header.credit_charge.max(1)) {
            return Err(Error::because(Status::INVALID_PARAMETER, "CreditCharge is too small for the payload size"));
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

    /// Sends a response to SMB1's NEGOTIATE, which is not an SMB2 request.
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

    /// Returns a writer for the body, at offset 64 after the header.
    pub(crate) fn body(&mut self) -> Writer<'_> {
        self.outgoing.body()
    }

    /// Sends the finished responses of the chain and an interim response for this request, which can be cancelled from
    /// now on. Call it before each wait of unknown length (3.3.4.2). Only the first call sends anything.
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
