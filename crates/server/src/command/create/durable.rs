//! Durable handles: asked for, granted, and claimed back ([MS-SMB2] 3.3.5.9.6, 3.3.5.9.7, 3.3.5.9.10, 3.3.5.9.12).

use std::sync::Arc;
use std::time::Duration;

use proto::dtyp::{AccessMask, Guid};
use proto::smb2::create::{CreateAction, CreateRequest};
use proto::smb2::create_context::{
    CreateContext, DurableHandleReconnect, DurableHandleReconnectV2, DurableHandleRequest, DurableHandleRequestV2,
    Lease, name,
};
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;

use super::caching;
use super::contexts::Contexts;
use crate::channel_sequence::ChannelSequence;
use crate::command::close::close_open;
use crate::command::oplock_break::Notifier;
use crate::conn::{Reply, Request};
use crate::durable::{Claim, DURABLE_TIME, DURABLE_TIME_V2, MAX_DURABLE_TIME_V2, Owner, Reason, Terms};
use crate::error::{Error, Result};
use crate::files::oplock::{self, Break};
use crate::name::same;
use crate::open::{FileOpen, Open};
use crate::server::Server;
use crate::tree::Disk;
use crate::vfs::Kind;

/// What a request's contexts say of durable handles.
#[derive(Default)]
pub(super) struct Asked {
    requests: bool,
    reconnects: Option<DurableHandleReconnect>,
    requests_v2: Option<DurableHandleRequestV2>,
    reconnects_v2: Option<DurableHandleReconnectV2>,
}

impl Asked {
    /// Reads a context, if it is about durable handles.
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

    /// 3.3.5.9.6, .7, .10, .12: a context of the second version suffers no other.
    pub(super) fn check(&self) -> Result<()> {
        let first = usize::from(self.requests) + usize::from(self.reconnects.is_some());
        let second = usize::from(self.requests_v2.is_some()) + usize::from(self.reconnects_v2.is_some());
        if second > 0 && first + second > 1 {
            return Err(Error::because(Status::INVALID_PARAMETER, "contexts for durable handles of both versions"));
        }
        Ok(())
    }

    /// Whether the client wants a handle back that it had before.
    pub(super) fn reconnects(&self) -> bool {
        self.reconnects.is_some() || self.reconnects_v2.is_some()
    }

    /// What tells the request from others; `None` where its client chose nothing.
    pub(super) fn create_guid(&self) -> Option<Guid> {
        self.requests_v2.map(|asked| Guid(asked.create_guid)).filter(|guid| *guid != Guid::default())
    }

    /// Makes a new open durable, where that was asked for and can be; the context that says so.
    pub(super) fn grant(&self, request: &Request<'_>, open: &Open, disk: &Disk) -> Option<CreateContext<'static>> {
        let file = open.file()?;
        let server = &request.connection.server;
        let owner = Owner::of(&*request.session().ok()?.user()?)?;
        if !disk.share.durable_handles || file.kind != Kind::File {
            return None;
        }
        if !(self.requests || self.requests_v2.is_some())
            || !server.files.holds_handle_caching(file.file, open.persistent_id)
        {
            return None;
        }
        let (timeout, create_guid) = match &self.requests_v2 {
            Some(asked) => (timeout_v2(asked.timeout), Some(Guid(asked.create_guid))),
            None => (DURABLE_TIME, None),
        };
        let terms = Terms { reason: Reason::Durable, timeout, owner, create_guid };
        let response = terms.response();
        file.durability.set(terms);
        Some(response)
    }
}

/// The CREATE is executed; where its open has to do with data, it can be repeated from now on (`Open.IsReplayEligible`).
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

/// 3.3.5.9.10: milliseconds that a client asks for, and what it gets.
fn timeout_v2(asked: u32) -> Duration {
    match asked {
        0 => DURABLE_TIME_V2,
        asked => Duration::from_millis(asked.into()).min(MAX_DURABLE_TIME_V2),
    }
}

/// Gives a client back an open that outlived its session (3.3.5.9.7, 3.3.5.9.12).
pub(super) async fn reconnect(
    request: &Request<'_>,
    reply: &mut Reply,
    disk: &Disk,
    asked: &CreateRequest<'_>,
    contexts: &Contexts,
) -> Result<Status> {
    let server = &request.connection.server;
    let (open, missed) = reclaim(request, disk, asked, contexts)?;
    let file = open.file().ok_or(Error::because(Status::OBJECT_NAME_NOT_FOUND, "a pipe is never durable"))?;
    let file_id = FileId { persistent: open.persistent_id, volatile: open.volatile_id };
    let notifier = Notifier::new(request.connection, request.session()?, disk.encrypt_data, file_id);
    notifier.catch_up(missed);
    server.files.change_holder(file.file, open.persistent_id, notifier.clone());
    reply.outgoing.grants(notifier);
    // Looked at only now: a break that came before found nobody to tell, one that comes later finds the client.
    let durable = file.durability.terms().is_some_and(|terms| terms.reason == Reason::Durable);
    let broken = durable && !server.files.holds_handle_caching(file.file, open.persistent_id);
    if broken {
        close_open(server, &open).await;
        return Err(Error::because(Status::OBJECT_NAME_NOT_FOUND, "the durable open's oplock was broken"));
    }
    let metadata = match file.node.metadata().await {
        Ok(metadata) => metadata,
        Err(errno) => {
            keep(server, &open).await;
            return Err(errno.into());
        }
    };
    if let Err(open) = request.session()?.add_open(open.clone()) {
        keep(server, &open).await;
        return Err(Error::because(Status::USER_SESSION_DELETED, "the session ended during the reconnect"));
    }
    server.creations.moved(file, &open);
    server.instances.add(&open);
    let mut answer = contexts.answer(file, None);
    let level = match &file.lease {
        Some(lease) => {
            answer.extend(server.files.lease(file.file, lease.id).map(|granted| caching::context(lease, &granted)));
            OplockLevel::LEASE
        }
        None => oplock::level(server.files.caches(file.file, open.persistent_id)),
    };
    super::respond(reply, disk, &open, &metadata, CreateAction::OPENED, level, answer)
}

/// Finds the open, checks that it may be had, and makes it one of the request's session.
fn reclaim(
    request: &Request<'_>,
    disk: &Disk,
    create: &CreateRequest<'_>,
    contexts: &Contexts,
) -> Result<(Arc<Open>, Vec<Break>)> {
    let server = &request.connection.server;
    let session = request.session()?;
    let asked = &contexts.durable;
    let (file_id, create_guid) = match (&asked.reconnects_v2, &asked.reconnects) {
        (Some(asked), _) => (asked.file_id, Some(Guid(asked.create_guid))),
        (None, Some(asked)) => (asked.file_id, None),
        (None, None) => return Err(Error::new(Status::INVALID_PARAMETER)),
    };
    let owner = session.user().and_then(|user| Owner::of(&user));
    let opens = session.open_count();
    if opens >= server.policy().limits.opens_per_session {
        return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "too many opens"));
    }
    let client_guid = request.connection.negotiated().map(|negotiated| negotiated.client_guid);
    let (detached, missed) = server.durable.reclaim(file_id.persistent, |open, terms| {
        let file = open.file().ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        let same_share = open.tree.share_name().eq_ignore_ascii_case(&disk.share.name);
        // One of the first version has none, which is all zeros to a client of the second.
        let made_by = terms.create_guid.unwrap_or_default();
        let same_create = create_guid.is_none_or(|asked| asked == made_by);
        if !same_share || file.name.volume != disk.volume || !same_create {
            return Err(Status::OBJECT_NAME_NOT_FOUND);
        }
        check_lease(file, disk, create, contexts.lease, client_guid)?;
        if owner.as_ref() != Some(&terms.owner) {
            return Err(Status::ACCESS_DENIED);
        }
        Ok(())
    })?;
    let sequence = ChannelSequence::new(request.header.channel_sequence());
    let open = detached.reclaimed(server.next_id(), session.id, request.tree()?.clone(), sequence);
    let open = open.map(Arc::new).ok_or(Error::new(Status::OBJECT_NAME_NOT_FOUND))?;
    Ok((open, missed))
}

/// A client names the lease of its open, and with it the file.
fn check_lease(
    file: &FileOpen,
    disk: &Disk,
    create: &CreateRequest<'_>,
    named: Option<Lease>,
    client: Option<Guid>,
) -> std::result::Result<(), Status> {
    let key = match (&file.lease, named) {
        (None, None) => return Ok(()),
        (None, Some(_)) | (Some(_), None) => return Err(Status::OBJECT_NAME_NOT_FOUND),
        // The versions need not be the same: Windows servers did not compare them for long (notes <338>, <351>).
        (Some(_), Some(Lease::V1(lease))) => lease.lease_key,
        (Some(_), Some(Lease::V2(lease))) => lease.lease_key,
    };
    let is_held = file.lease.is_some_and(|lease| Some(lease.id.client) == client && lease.id.key == key);
    if !is_held {
        return Err(Status::OBJECT_NAME_NOT_FOUND);
    }
    let named = crate::name::parse(create.name).map_err(|_| Status::INVALID_PARAMETER)?;
    let path = file.name.path.lock();
    let is_meant = match disk.share.case_sensitive {
        true => *path == named.path,
        false => same(path.as_bytes(), named.path.as_bytes()),
    };
    if is_meant { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
}

/// The client could not get its open now; it may try again.
async fn keep(server: &Server, open: &Arc<Open>) {
    if !server.durable.detach(server, open) {
        close_open(server, open).await;
    }
}
