//! Executes the requests of one frame in order and collects their responses ([MS-SMB2] 3.3.5.2.7).

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use proto::smb2::header::{Command, Flags, Header};
use proto::status::Status;
use smallvec::SmallVec;

use super::execution::runner_size;
use super::output;
use crate::accounting::{Charge, Full, Resource};
use crate::command::cancel;
use crate::dispatch;
use crate::error::{Disconnect, Error};
use crate::request::arrival::{Arrival, Rest};
use crate::request::{Related, Reply, Request};
use crate::security::write_back;
use crate::state::connection::Connection;
use crate::yielding::yield_now;

/// The requests of one frame.
pub struct Chain {
    connection: Arc<Connection>,
    elements: Elements,
    /// The session that the frame was encrypted for.
    sealed: Option<u64>,
}

/// The memory that a chain may hold while it waits, in bytes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Cost {
    /// The size of its requests, and of the state of their execution.
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

/// The requests of a chain, which usually has one.
pub(super) type Elements = SmallVec<[Element; 1]>;

/// One request of a chain: its header, and its bytes including the header.
pub(super) struct Element {
    pub(super) header: Header,
    pub(super) message: BytesMut,
    /// The data that `message` does not have.
    pub(super) rest: Option<Rest>,
}

impl Chain {
    pub(super) fn new(connection: Arc<Connection>, elements: Elements, sealed: Option<u64>) -> Self {
        Chain { connection, elements, sealed }
    }

    /// Lets the data of the last request arrive while it is executed.
    pub(super) fn follow(&mut self, rest: Rest) {
        if let Some(last) = self.elements.last_mut() {
            last.rest = Some(rest);
        }
    }

    /// Returns the memory that the chain may hold while it waits.
    pub fn cost(&self) -> Cost {
        let parts = |element: &Element| element.rest.as_ref().map_or(0, |_| Arrival::MEMORY);
        let size = |element: &Element| element.message.len() + size_of::<Element>() + parts(element);
        let requests = runner_size() + self.elements.iter().map(size).sum::<usize>();
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
    pub(super) async fn run(self) {
        // Not the server's counter, which all processors would write.
        let connection = self.connection.clone();
        self.answer().await;
        let server = &connection.server;
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
            let space = self.make_room(&element, &mut reply, &mut pace, &mut unsent).await;
            if self.connection.ended().is_some() {
                return;
            }
            let began = self.connection.server.environment.uptime();
            previous = Some(self.run_one(element, previous, last, &space, &mut reply, began).await);
            unsent.extend(space.ok().flatten());
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

    /// Executes CANCEL, which has no response. If its signature is missing or wrong, it is ignored.
    fn cancel(&self, element: &mut Element) {
        let header = element.header;
        let channel = self.connection.channel(header.session_id);
        // A related CANCEL may name another session.
        let sealed = self.sealed == Some(header.session_id);
        match dispatch::check_signature(channel.as_deref(), &header, &mut element.message, sealed) {
            Ok(()) => cancel::cancel(&self.connection, &header),
            Err(error) => tracing::debug!(%error, "CANCEL ignored"),
        }
    }

    /// Counts a request that is complete.
    fn count(&self, request: &Request<'_>, failed: bool, began: Duration) {
        let server = &self.connection.server;
        let now = server.environment.uptime();
        let (command, took) = (request.header.command, now.saturating_sub(began));
        server.metrics.request(command, took, failed);
        if let Some(channel) = &request.channel {
            channel.session.count_request();
        }
        if let Some(disk) = request.tree.as_ref().and_then(|tree| tree.disk()) {
            // The answer to a CHANGE_NOTIFY waits for a change, so its time says nothing about the server.
            let took = if command == Command::CHANGE_NOTIFY { Duration::ZERO } else { took };
            disk.counters.request(took, failed);
        }
    }

    async fn run_one(
        &self,
        mut element: Element,
        previous: Option<Related>,
        last: bool,
        space: &Room,
        reply: &mut Reply,
        began: Duration,
    ) -> Related {
        let header = &element.header.clone();
        let wants_related = header.flags.contains(Flags::RELATED_OPERATIONS);
        let related = if wants_related { previous } else { None };
        let session_id = related.map_or(header.session_id, |related| related.session_id);
        let tree_id = related.map_or(header.tree_id().unwrap_or(0), |related| related.tree_id);
        let channel = self.connection.channel(session_id);
        let tree = channel.as_ref().and_then(|channel| channel.session.tree(tree_id));
        // A related request may have inherited another session.
        let sealed = self.sealed == Some(session_id);
        let signature = dispatch::check_signature(channel.as_deref(), header, &mut element.message, sealed);
        let message = element.message.freeze();
        let rest = element.rest.as_ref();
        let connection = &self.connection;
        let request = Request { connection, header, message: &message, channel, tree, sealed, related, last, rest };
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
        } else if let Err(full) = space {
            Err(full.clone().into())
        } else {
            dispatch::dispatch(&request, reply).await
        };
        // The response to a request that is refused early follows its data, too.
        let lost = match rest {
            Some(rest) => rest.discard().await.err(),
            None => None,
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
        self.count(&request, result.is_err(), began);
        if let Some(reason) = lost {
            // As if the request had never arrived, there is no response.
            self.connection.end(reason);
            return next;
        }
        reply.finish(&request, result);
        next
    }
}
