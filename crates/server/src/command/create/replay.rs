//! CREATE requests that a client repeats because it has not received the response ([MS-SMB2] 3.3.5.9 "Create Context
//! Validation", 3.3.5.9.10).

use std::sync::Arc;

use proto::smb2::OplockLevel;
use proto::smb2::create::CreateRequest;
use proto::smb2::create_context::CreateContext;
use proto::smb2::header::Flags;
use proto::smb2::negotiate::Dialect;
use proto::status::Status;

use super::caching;
use super::contexts::Contexts;
use crate::error::{Error, Result};
use crate::request::{Reply, Request};
use crate::security::access;
use crate::state::durable::{Claim, Creation, CreationId, Standing};
use crate::state::open::{FileOpen, Open};
use crate::tree::Disk;
use crate::user::Owner;

/// How to proceed with a CREATE.
pub(super) enum Turn {
    /// Execute it; with a claim if replays of it will be recognized.
    Execute(Option<Claim>),
    /// It was executed before; repeat the response.
    Repeat(Arc<Open>, Creation),
    /// It was executed before; reclaim the persistent open with this id, which has lost its client.
    Reclaim(u64),
}

/// Determines whether the CREATE was executed before.
pub(super) fn turn(request: &Request<'_>, disk: &Disk, contexts: &Contexts) -> Result<Turn> {
    let Some(create) = contexts.durable.create_guid() else { return Ok(Turn::Execute(None)) };
    let Some(negotiated) = request.connection.negotiated() else { return Ok(Turn::Execute(None)) };
    if negotiated.dialect.0 < Dialect::SMB_3_0.0 {
        return Ok(Turn::Execute(None));
    }
    let server = &request.connection.server;
    let replays = request.header.flags.contains(Flags::REPLAY_OPERATION);
    let persistent = replays && contexts.durable.wants_persistent(request, disk);
    let known = server.opens.durable.persistent_by(create).filter(|_| persistent);
    if let Some((id, true)) = known {
        return Ok(Turn::Reclaim(id));
    }
    let id = CreationId { client: negotiated.client_guid, create };
    let (open, creation) = match server.opens.creations.begin(server, id) {
        Standing::New(_) if known.is_some() => {
            return Err(Error::because(Status::FILE_NOT_AVAILABLE, "the persistent open still has a connected client"));
        }
        Standing::New(claim) => return Ok(Turn::Execute(Some(claim))),
        // As Samba responds; Windows executes it a second time.
        Standing::UnderWay => {
            return Err(Error::because(
                Status::FILE_NOT_AVAILABLE,
                "the CREATE that this request replays is still in progress",
            ));
        }
        Standing::Done(open, creation) => (open, creation),
    };
    if !replays {
        return Err(Error::because(Status::DUPLICATE_OBJECTID, "another CREATE used this CreateGuid"));
    }
    let user = request.session()?.user();
    let owner = user.and_then(|user| Owner::of(&user));
    let key = |file: &FileOpen| file.lease.map(|lease| lease.id.key);
    let same = owner.zip(creation.owner.as_ref()).is_some_and(|(owner, first)| owner.is(first));
    if !same || open.file().and_then(key) != contexts.lease_key() {
        return Err(Error::because(Status::ACCESS_DENIED, "the request differs from the CREATE that it replays"));
    }
    if request.session()?.open(open.persistent_id, open.volatile_id).is_none() {
        return Err(Error::because(Status::DUPLICATE_OBJECTID, "a CREATE of another session used this CreateGuid"));
    }
    Ok(Turn::Repeat(open, creation))
}

/// Repeats the response of the original CREATE.
pub(super) async fn repeat(
    request: &Request<'_>,
    reply: &mut Reply,
    disk: &Disk,
    asked: &CreateRequest<'_>,
    contexts: &Contexts,
    open: &Arc<Open>,
    creation: &Creation,
) -> Result<Status> {
    let file = open.file().ok_or(Error::because(Status::INTERNAL_ERROR, "the open is not a file"))?;
    let metadata = file.node.metadata(&file.op).await?;
    let maximal = match contexts.query_maximal_access {
        true => {
            let path = file.name.path.lock().clone();
            let maximal = access::maximal(disk, &path, &file.node, &metadata).await;
            Some(maximal.map_err(|error| error.status))
        }
        false => None,
    };
    let mut answer = contexts.answer(&metadata, maximal, request.hides_ids(disk));
    let (level, lease) = cached(request, file, asked);
    answer.extend(lease);
    let handle = level == OplockLevel::LEASE || level == OplockLevel::BATCH;
    answer.extend(file.durability.terms().filter(|_| handle).map(|terms| terms.response()));
    super::respond(reply, disk, open, &metadata, creation.action, level, answer)
}

/// Returns the oplock or lease for the response: the lease in its present state, or the oplock level that this request
/// asks for, as Windows does.
fn cached(
    request: &Request<'_>,
    file: &FileOpen,
    asked: &CreateRequest<'_>,
) -> (OplockLevel, Option<CreateContext<'static>>) {
    let Some(lease) = &file.lease else { return (asked.requested_oplock_level, None) };
    let granted = request.connection.server.opens.files.lease(file.file, lease.id);
    (OplockLevel::LEASE, granted.map(|granted| caching::context(lease, &granted)))
}
