//! Reconnection to durable opens ([MS-SMB2] 3.3.5.9.7, 3.3.5.9.12; for persistent ones also 3.3.5.9).

use std::sync::Arc;

use proto::dtyp::Guid;
use proto::smb2::create::{CreateAction, CreateRequest};
use proto::smb2::create_context::{CreateContext, DurableHandleFlags, Lease};
use proto::smb2::{FileId, LeaseState, OplockLevel};
use proto::status::Status;

use super::caching;
use super::contexts::Contexts;
use crate::command::close::close_unasked;
use crate::command::tree_connect::is_continuous;
use crate::error::{Error, Result};
use crate::files::oplock::{self, LeaseGranted};
use crate::name::{self, same};
use crate::request::Notifier;
use crate::request::{Reply, Request};
use crate::state::Server;
use crate::state::durable::{Reason, Terms};
use crate::state::open::channel_sequence::ChannelSequence;
use crate::state::open::{FileOpen, Open};
use crate::tree::Disk;
use crate::user::Owner;

/// Returns a detached open to its client.
pub(super) async fn reconnect(
    request: &Request<'_>,
    reply: &mut Reply,
    disk: &Disk,
    asked: &CreateRequest<'_>,
    contexts: &Contexts,
) -> Result<Status> {
    let reclaimed = find(request, disk, asked, contexts)?;
    give_back(request, reply, disk, contexts, reclaimed, false).await
}

/// Executes a replay of the CREATE that made the persistent open `id`, whose response was lost with the connection or
/// the server.
pub(super) async fn repeat(
    request: &Request<'_>,
    reply: &mut Reply,
    disk: &Disk,
    asked: &CreateRequest<'_>,
    contexts: &Contexts,
    id: u64,
) -> Result<Status> {
    let reclaimed = reclaim(request, disk, id, |_, terms, owner| {
        if !owner.is_some_and(|owner| owner.is(&terms.owner)) {
            return Err(Status::ACCESS_DENIED);
        }
        let is_it = terms.persistent.is_some_and(|made| {
            made.desired_access == asked.desired_access
                && made.create_options == asked.create_options.0
                && made.share_access == asked.share_access.0
        });
        if is_it { Ok(()) } else { Err(Status::CONTEXT_MISMATCH) }
    })?;
    give_back(request, reply, disk, contexts, reclaimed, true).await
}

/// Attaches the open to the client's session and responds. `repeats`: the response is that of the original CREATE.
async fn give_back(
    request: &Request<'_>,
    reply: &mut Reply,
    disk: &Disk,
    contexts: &Contexts,
    open: Arc<Open>,
    repeats: bool,
) -> Result<Status> {
    let server = &request.connection.server;
    let file = open.file().ok_or(Error::because(Status::OBJECT_NAME_NOT_FOUND, "a pipe has no durable handle"))?;
    let file_id = FileId { persistent: open.persistent_id, volatile: open.volatile_id };
    let notifier = Notifier::new(request.connection, request.session()?, disk.encrypt_data, file_id);
    let (known, now) = (known_lease(file, contexts), server.environment.uptime());
    let granted = server.opens.files.change_holder(file.file, open.persistent_id, notifier.clone(), known, now);
    let terms = file.durability.terms();
    let durable = terms.as_ref().is_some_and(|terms| terms.reason == Reason::Durable);
    // An earlier break could not be sent, and a later one is sent to the client.
    let is_held = granted.is_some_and(|it| it.state.contains(LeaseState::HANDLE_CACHING) && !it.breaking);
    if durable && !is_held {
        close_unasked(server, &open).await;
        return Err(Error::because(Status::OBJECT_NAME_NOT_FOUND, "the durable open's oplock was broken"));
    }
    reply.outgoing.grants(notifier);
    // Those of the connection that was lost must not replace what the client writes now.
    file.changes_have_ended(server).await;
    let metadata = match file.node.metadata(&file.op).await {
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
    server.opens.creations.moved(file, &open);
    server.opens.instances.add(&open);
    if file.durability.is_persistent() {
        server.opens.durable.add_persistent(&open);
    }
    let mut answer = contexts.answer(&metadata, None, request.hides_ids(disk));
    let (level, lease) = cached(file, granted);
    answer.extend(lease);
    let made = terms.as_ref().and_then(|terms| terms.persistent).filter(|_| repeats);
    answer.extend(terms.filter(|_| repeats).map(|terms| terms.response()));
    let action = made.map_or(CreateAction::OPENED, |made| made.action);
    super::respond(reply, disk, &open, &metadata, action, level, answer)
}

/// Returns the oplock or lease for the response.
fn cached(file: &FileOpen, granted: Option<LeaseGranted>) -> (OplockLevel, Option<CreateContext<'static>>) {
    let Some(lease) = &file.lease else {
        return (oplock::level(granted.map_or(LeaseState::NONE, |granted| granted.state)), None);
    };
    (OplockLevel::LEASE, granted.map(|granted| caching::context(lease, &granted)))
}

/// Returns the state and the epoch of the lease that the client knows, after a restart of the server.
fn known_lease(file: &FileOpen, contexts: &Contexts) -> Option<(LeaseState, u16)> {
    match contexts.lease {
        _ if !file.durability.take_restored() => None,
        Some(Lease::V2(asked)) => Some((asked.lease_state, asked.epoch)),
        _ => None,
    }
}

/// Finds the open that a reconnect context identifies.
fn find(request: &Request<'_>, disk: &Disk, create: &CreateRequest<'_>, contexts: &Contexts) -> Result<Arc<Open>> {
    let durable = &request.connection.server.opens.durable;
    let client_guid = request.connection.negotiated().map(|negotiated| negotiated.client_guid);
    let asked = &contexts.durable;
    let (file_id, create_guid, flags) = match (&asked.reconnects_v2, &asked.reconnects) {
        (Some(asked), _) => (asked.file_id, Some(Guid(asked.create_guid)), asked.flags),
        (None, Some(asked)) => (asked.file_id, None, DurableHandleFlags::NONE),
        (None, None) => return Err(Error::new(Status::INVALID_PARAMETER)),
    };
    let persistent = flags.contains(DurableHandleFlags::PERSISTENT);
    let by_guid = || durable.persistent_by(create_guid?).map(|(id, _)| id);
    let id = match file_id.persistent {
        id if !persistent || !is_continuous(request, disk) || durable.is_detached(id) => id,
        id => by_guid().unwrap_or(id),
    };
    reclaim(request, disk, id, |file, terms, owner| {
        // An open of version 1 has no CreateGuid, which a version 2 client sends as zeros.
        let made_by = terms.create_guid.unwrap_or_default();
        if create_guid.is_some_and(|asked| asked != made_by) {
            return Err(Status::OBJECT_NAME_NOT_FOUND);
        }
        match (terms.reason == Reason::Persistent, persistent) {
            (true, false) => return Err(Status::OBJECT_NAME_NOT_FOUND),
            (false, true) => return Err(Status::INVALID_PARAMETER),
            _ => {}
        }
        check_lease(file, disk, create, contexts.lease, client_guid)?;
        if !owner.is_some_and(|owner| owner.is(&terms.owner)) {
            return Err(Status::ACCESS_DENIED);
        }
        Ok(())
    })
}

/// Takes the open `id` for the request's session, unless `check` fails.
fn reclaim(
    request: &Request<'_>,
    disk: &Disk,
    id: u64,
    check: impl FnOnce(&FileOpen, &Terms, Option<&Owner>) -> std::result::Result<(), Status>,
) -> Result<Arc<Open>> {
    let server = &request.connection.server;
    let session = request.session()?;
    let owner = session.user().and_then(|user| Owner::of(&user));
    if session.open_count() >= server.policy().limits.opens_per_session {
        return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "too many opens"));
    }
    let detached = server.opens.durable.reclaim(id, |open, terms| {
        let file = open.file().ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        let same_share = open.tree.share_name().eq_ignore_ascii_case(&disk.share.name);
        if !same_share || file.name.volume != disk.volume {
            return Err(Status::OBJECT_NAME_NOT_FOUND);
        }
        check(file, terms, owner.as_ref())
    })?;
    let sequence = ChannelSequence::new(request.header.channel_sequence());
    let open = detached.reclaimed(server.next_id(), session.id, request.tree()?.clone(), sequence, &session.payer());
    open.map(Arc::new).ok_or(Error::new(Status::OBJECT_NAME_NOT_FOUND))
}

/// Checks that the client names the lease of its open, and thus the file.
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
        // The versions need not be the same, because Windows servers did not compare them for a long time (notes <338>,
        // <351>).
        (Some(_), Some(Lease::V1(lease))) => lease.lease_key,
        (Some(_), Some(Lease::V2(lease))) => lease.lease_key,
    };
    let is_held = file.lease.is_some_and(|lease| Some(lease.id.client) == client && lease.id.key == key);
    if !is_held {
        return Err(Status::OBJECT_NAME_NOT_FOUND);
    }
    let parsed = match file.posix {
        true => name::parse_posix(create.name),
        false => disk.share.names.characters.parse(create.name),
    };
    let named = parsed.map_err(|_| Status::INVALID_PARAMETER)?;
    let path = file.name.path.lock();
    let is_meant = match disk.share.names.case_sensitive {
        _ if file.posix => *path == named.path || Some(&*path) == name::meant(&named.path).as_ref(),
        true => *path == disk.share.names.asked(named.path),
        false => same(path.as_bytes(), named.path.as_bytes()),
    };
    if is_meant { Ok(()) } else { Err(Status::INVALID_PARAMETER) }
}

/// Detaches the open again after a failed reconnect, so that the client may retry.
async fn keep(server: &Server, open: &Arc<Open>) {
    if !server.opens.durable.detach(server, open) {
        close_unasked(server, open).await;
    }
}
