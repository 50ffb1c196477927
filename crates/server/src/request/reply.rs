//! The response to a request.

use std::sync::Arc;

use bytes::Bytes;
use proto::bytes::Writer;
use proto::crypto::sign::SigningKey;
use proto::smb2::FileId;
use proto::smb2::header::Header;
use proto::status::Status;

use super::Request;
use super::outgoing::Outgoing;
use crate::error::{Disconnect, Error, Result};
use crate::state::connection::{Connection, Negotiated, Pending};
use crate::state::open::Open;
use crate::state::open::channel_sequence::Outstanding;
use crate::state::session::Channel;

/// The response under construction.
pub(crate) struct Reply {
    pub(crate) outgoing: Outgoing,
    /// `SessionId` of the response, if it differs from the request's.
    pub(crate) session_id: Option<u64>,
    /// `TreeId` of the response, if it differs from the request's.
    pub(crate) tree_id: Option<u32>,
    /// The file that the request used, for related requests.
    pub(crate) file_id: Option<FileId>,
    /// The open that the request used, if its share has an audit. It may be closed before the request is complete.
    pub(crate) audited: Option<Arc<Open>>,
    /// The bytes that the request has read, written or copied.
    pub(crate) moved: u64,
    /// The signing key, if it is not that of the request's channel: that of a new session, or of a channel being bound.
    pub(crate) sign_with: Option<Arc<SigningKey>>,
    /// The use of the response's bytes for the preauthentication hash.
    pub(crate) hash: Hash,
    /// The AsyncId, if an interim response was sent.
    pub(crate) async_id: Option<u64>,
    /// The request as counted by its open.
    pub(crate) outstanding: Option<Outstanding>,
    /// The reason to end the connection after the response is sent.
    pub(crate) ends: Option<Disconnect>,
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

impl Reply {
    /// Creates an empty response for `connection`.
    pub(crate) fn new(connection: &Arc<Connection>) -> Reply {
        Reply {
            outgoing: Outgoing::new(connection.clone()),
            session_id: None,
            tree_id: None,
            file_id: None,
            audited: None,
            moved: 0,
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
            rest: None,
        };
        reply.finish(&request, Ok(Status::SUCCESS));
        reply.outgoing.send();
    }

    /// Begins the response to the next request of the chain.
    pub(crate) fn begin(&mut self) {
        self.outgoing.begin();
        self.session_id = None;
        self.tree_id = None;
        self.file_id = None;
        self.audited = None;
        self.moved = 0;
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

    /// Completes the response to `request` with its result.
    pub(crate) fn finish(&mut self, request: &Request<'_>, result: Result<Status>) {
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
