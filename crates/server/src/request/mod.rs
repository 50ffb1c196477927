//! A request as commands see it, the response that they compose, and notifications. `frame` executes the requests of a
//! frame.

pub(crate) mod arrival;
mod notifier;
mod outgoing;
mod reply;
pub(crate) mod variables;

use std::sync::Arc;

use bytes::Bytes;
use proto::crypto::sign::SigningKey;
use proto::smb2::FileId;
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::negotiate::{Dialect, SigningAlgorithm};
use proto::status::Status;

use self::arrival::Rest;
pub(crate) use self::notifier::Notifier;
pub(crate) use self::reply::{Hash, Reply};
use crate::error::{Error, Result};
use crate::state::connection::Connection;
use crate::state::open::Open;
use crate::state::open::channel_sequence::Outstanding;
use crate::state::session::{Channel, Session};
use crate::tree::{Disk, Tree};

/// The context that a related request inherits from the preceding one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Related {
    pub(crate) session_id: u64,
    pub(crate) tree_id: u32,
    pub(crate) file_id: Option<FileId>,
    /// The preceding request used or created a session.
    pub(crate) has_session: bool,
    /// The preceding request used or created a tree connect.
    pub(crate) has_tree: bool,
    /// The error of the CREATE whose file the rest of the chain would use.
    pub(crate) failure: Option<Status>,
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
    pub(crate) related: Option<Related>,
    /// This is the last request of its chain.
    pub(crate) last: bool,
    /// The data of a WRITE that arrives while it is executed; `message` does not have it.
    pub(crate) rest: Option<&'a Rest>,
}

impl Request<'_> {
    /// Returns the signing key of a session that has no channel on this connection, if the request is signed. The error
    /// response is then signed with it, so that the client can verify it.
    pub(crate) fn foreign_key(&self) -> Option<Arc<SigningKey>> {
        if !self.header.flags.contains(Flags::SIGNED) || self.connection.channel(self.header.session_id).is_some() {
            return None;
        }
        let session = self.connection.server.sessions.get(self.header.session_id)?;
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

    /// Whether the client is a Mac that sees the UNIX mode in security descriptors and sets it there
    /// (`fruit:nfs_aces`).
    pub(crate) fn shows_mode_to_mac(&self) -> bool {
        self.is_of_mac() && self.connection.server.policy().mac.nfs_aces
    }

    /// Whether the client is a Mac that has negotiated extensions in the session.
    pub(crate) fn is_of_mac(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.session.mac.is_negotiated())
    }

    /// Whether the client is a Mac to which ids of files on disk are not told (`fruit:zero_file_id`).
    pub(crate) fn hides_ids(&self, disk: &Disk) -> bool {
        self.is_of_mac() && disk.share.mac.as_ref().is_some_and(|mac| mac.zero_file_id)
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
        if open.tree.disk().is_some_and(|disk| disk.audit.is_some()) {
            reply.audited = Some(open.clone());
        }
        // 3.3.5.2.10, once per request.
        let counted = reply.outstanding.as_ref().is_some_and(|outstanding| outstanding.is_on(&open));
        if !counted && self.connection.dialect().0 >= Dialect::SMB_3_0.0 {
            reply.outstanding = Outstanding::begin(&open, self.header)?;
        }
        if let Some(id) = open.file().and_then(|file| file.durability.take_creation()) {
            self.connection.server.opens.creations.forget(id);
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
