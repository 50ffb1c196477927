//! Requests and grants of durable and persistent handles ([MS-SMB2] 3.3.5.9.6, 3.3.5.9.10). Reconnection is in
//! `reconnect`.

use std::sync::Arc;
use std::time::Duration;

use proto::dtyp::{AccessMask, Guid};
use proto::smb2::create::{CreateAction, CreateRequest};
use proto::smb2::create_context::{
    CreateContext, DurableHandleFlags, DurableHandleReconnect, DurableHandleReconnectV2, DurableHandleRequest,
    DurableHandleRequestV2, name,
};
use proto::status::Status;

use crate::command::tree_connect::is_continuous;
use crate::error::{Error, Result};
use crate::request::Request;
use crate::state::durable::{
    self, Claim, DURABLE_TIME, DURABLE_TIME_V2, MAX_DURABLE_TIME_V2, Persistent, Reason, Terms,
};
use crate::state::open::{FileOpen, Open};
use crate::tree::Disk;
use crate::user::Owner;
use crate::vfs::Kind;

/// A request's contexts for durable handles.
#[derive(Default)]
pub(super) struct RequestedDurability {
    requests: bool,
    pub(super) reconnects: Option<DurableHandleReconnect>,
    requests_v2: Option<DurableHandleRequestV2>,
    pub(super) reconnects_v2: Option<DurableHandleReconnectV2>,
}

impl RequestedDurability {
    /// Decodes a context if it is for durable handles.
    pub(super) fn take(&mut self, context: &CreateContext<'_>) -> Result<()> {
        match &*context.name {
            name::DURABLE_HANDLE_REQUEST => {
                DurableHandleRequest::decode(&context.data)?;
                self.requests = true;
            }
            name::DURABLE_HANDLE_RECONNECT => {
                self.reconnects = Some(DurableHandleReconnect::decode(&context.data)?);
            }
            name::DURABLE_HANDLE_REQUEST_V2 => {
                self.requests_v2 = Some(DurableHandleRequestV2::decode(&context.data)?);
            }
            name::DURABLE_HANDLE_RECONNECT_V2 => {
                self.reconnects_v2 = Some(DurableHandleReconnectV2::decode(&context.data)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks the combination of contexts (3.3.5.9.6, .7, .10, .12): one of version 2 excludes all others.
    pub(super) fn check(&self) -> Result<()> {
        let first = usize::from(self.requests) + usize::from(self.reconnects.is_some());
        let second = usize::from(self.requests_v2.is_some()) + usize::from(self.reconnects_v2.is_some());
        if second > 0 && first + second > 1 {
            return Err(Error::because(
                Status::INVALID_PARAMETER,
                "create contexts for both versions of durable handles",
            ));
        }
        Ok(())
    }

    /// Returns whether the client requests reconnection to a handle.
    pub(super) fn reconnects(&self) -> bool {
        self.reconnects.is_some() || self.reconnects_v2.is_some()
    }

    /// Returns the CreateGuid that identifies the request; `None` if the client did not choose one.
    pub(super) fn create_guid(&self) -> Option<Guid> {
        self.requests_v2.map(|asked| Guid(asked.create_guid)).filter(|guid| *guid != Guid::default())
    }

    /// Returns whether a persistent open is requested and available.
    pub(super) fn wants_persistent(&self, request: &Request<'_>, disk: &Disk) -> bool {
        let asks = |asked: DurableHandleRequestV2| asked.flags.contains(DurableHandleFlags::PERSISTENT);
        self.requests_v2.is_some_and(asks) && is_continuous(request, disk)
    }

    /// Makes a new open durable or persistent if requested and possible; returns the response context.
    pub(super) async fn grant(
        &self,
        request: &Request<'_>,
        open: &Arc<Open>,
        disk: &Disk,
        create: &CreateRequest<'_>,
        action: CreateAction,
    ) -> Result<Option<CreateContext<'static>>> {
        if !self.requests && self.requests_v2.is_none() {
            return Ok(None);
        }
        let Some(file) = open.file().filter(|file| file.kind == Kind::File && disk.share.handles.durable_handles)
        else {
            return Ok(None);
        };
        let Some(owner) = request.session()?.user().and_then(|user| Owner::of(&user)) else { return Ok(None) };
        let (timeout, create_guid) = match &self.requests_v2 {
            Some(asked) => (timeout_v2(asked.timeout), Some(Guid(asked.create_guid))),
            None => (DURABLE_TIME, None),
        };
        let terms = Terms { reason: Reason::Durable, timeout, owner, create_guid, persistent: None };
        // Streams have no file id that would identify them after a restart, and the record has no POSIX semantics.
        if file.file.stream == 0 && !file.posix && self.wants_persistent(request, disk) {
            let persistent = Persistent {
                desired_access: create.desired_access,
                create_options: create.create_options.0,
                share_access: create.share_access.0,
                action,
                born: file.node.metadata(&file.op).await?.born,
                restored: false,
            };
            if persist(request, open, file, Terms { persistent: Some(persistent), ..terms.clone() }).await {
                return Ok(file.durability.terms().map(|terms| terms.response()));
            }
        }
        let server = &request.connection.server;
        if !server.opens.files.holds_handle_caching(file.file, open.persistent_id) {
            return Ok(None);
        }
        let response = terms.response();
        file.durability.set(terms);
        Ok(Some(response))
    }
}

/// Makes an open persistent; returns `false` if its record cannot be written.
async fn persist(request: &Request<'_>, open: &Arc<Open>, file: &FileOpen, terms: Terms) -> bool {
    let server = &request.connection.server;
    file.durability.set(Terms { reason: Reason::Persistent, ..terms });
    server.opens.durable.add_persistent(open);
    let saved = durable::save(server, open).await.is_ok();
    if !saved {
        server.opens.durable.forget_persistent(open.persistent_id);
        file.durability.clear();
    }
    saved
}

/// Records a completed CREATE. If its open has access to data, the CREATE can be replayed from now on
/// (`Open.IsReplayEligible`).
pub(super) fn remember(request: &Request<'_>, claim: Option<Claim>, open: &Arc<Open>, action: CreateAction) {
    const DATA: u32 = AccessMask::FILE_READ_DATA.0
        | AccessMask::FILE_EXECUTE.0
        | AccessMask::FILE_WRITE_DATA.0
        | AccessMask::FILE_APPEND_DATA.0
        | AccessMask::DELETE.0;
    let eligible = open.granted.0 & DATA != 0 && open.file().is_some_and(|file| file.kind == Kind::File);
    if let (Some(claim), Ok(session)) = (claim.filter(|_| eligible), request.session()) {
        claim.done(open, action, session.user().and_then(|user| Owner::of(&user)));
    }
}

/// Returns the timeout for the milliseconds that a client requests (3.3.5.9.10).
fn timeout_v2(asked: u32) -> Duration {
    match asked {
        0 => DURABLE_TIME_V2,
        asked => Duration::from_millis(asked.into()).min(MAX_DURABLE_TIME_V2),
    }
}
