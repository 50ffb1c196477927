//! Security descriptors of files that a request names by share and path ([MS-SRVS] 3.1.4.27, 3.1.4.28).
//!
//! Each operation is a tree connect, an open and a QUERY_INFO or SET_INFO of the same user, with the same checks.
//! Neither the tree connect nor the open gets an id, so no other request can use them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::dtyp::AccessMask;
use proto::smb2::change_notify::CompletionFilter;
use proto::smb2::query_info::QueryInfoRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{FileId, InfoType, SecurityInformation};
use proto::status::Status;

use super::create::WithinRequest;
use super::{audit, audit_room, create, tree_connect};
use crate::audit::Reservation;
use crate::error::{Error, Result};
use crate::files::notify::Change;
use crate::information::security;
use crate::named_pipe::SharedFile;
use crate::request::{Reply, Request};
use crate::tree::{Tree, TreeKind};

/// Returns these parts of the descriptor, encoded.
pub(super) async fn query(
    request: &Request<'_>,
    reply: &mut Reply,
    file: SharedFile<'_>,
    parts: SecurityInformation,
) -> Result<Vec<u8>> {
    let rights = security::needed_to_ask(security::known_parts(parts.0));
    let (opened, _room) = open(request, reply, file, rights, None).await?;
    let asked = QueryInfoRequest { additional_information: parts.0, ..QueryInfoRequest::default() };
    let answer = match opened.disk() {
        Ok(disk) => security::query(&asked, opened.granted(), &opened.file, disk, false).await,
        Err(error) => Err(error),
    };
    opened.close(&request.connection.server).await;
    Ok(answer?.bytes)
}

/// Sets these parts of the descriptor.
pub(super) async fn set(
    request: &Request<'_>,
    reply: &mut Reply,
    file: SharedFile<'_>,
    parts: SecurityInformation,
    descriptor: &[u8],
) -> Result<()> {
    let rights = security::needed_to_set(security::known_parts(parts.0));
    let (opened, _room) = open(request, reply, file, rights, Some(descriptor)).await?;
    let asked = SetInfoRequest {
        info_type: InfoType::SECURITY,
        file_info_class: 0,
        additional_information: parts.0,
        file_id: FileId::default(),
        buffer: descriptor,
    };
    let done = change(request, &asked, &opened).await;
    opened.close(&request.connection.server).await;
    done.map(drop)
}

async fn change(request: &Request<'_>, asked: &SetInfoRequest<'_>, opened: &WithinRequest) -> Result<Status> {
    let (server, disk) = (&request.connection.server, opened.disk()?);
    if disk.read_only {
        return Err(disk.refusal());
    }
    let audited = audit::Change::begin(disk, &opened.file);
    let done = security::set(asked, opened.granted(), &opened.file, disk, server.environment.now(), false).await;
    let done = done.map(|()| Status::SUCCESS);
    if let Some(audited) = audited {
        audited.end(asked, &done);
    }
    if done.is_ok() {
        security::changed(&opened.file, disk).await;
        server.file_changed(disk, &opened.file, Change::modified(CompletionFilter::SECURITY));
    }
    done
}

/// Opens the file for the user of the request, with these rights. The events of the open, and of the change to
/// `descriptor`, have the room that is returned.
async fn open(
    request: &Request<'_>,
    reply: &mut Reply,
    file: SharedFile<'_>,
    rights: AccessMask,
    descriptor: Option<&[u8]>,
) -> Result<(WithinRequest, Option<Reservation>)> {
    let session = request.session()?;
    let user = session.user().ok_or(Error::new(Status::USER_SESSION_DELETED))?;
    let disk = tree_connect::connect(request, file.share, &user).await?;
    if disk.share.printing.is_some() {
        return Err(Error::because(Status::NOT_SUPPORTED, "a print share has no files"));
    }
    // The caller may read the answer with another request, so the whole session must be encrypted.
    if disk.encrypt_data && !session.encrypt_data.load(Ordering::Relaxed) {
        return Err(Error::because(
            Status::ACCESS_DENIED,
            "the session is not encrypted, but the share requires encryption",
        ));
    }
    let room = audit_room::admit_within(&disk, file.name, descriptor)?;
    let tree = Arc::new(Tree {
        id: 0,
        created: request.connection.server.environment.now(),
        maximal_access: disk.share_rights,
        kind: TreeKind::Disk(Box::new(disk)),
    });
    // A query of no part needs no right, but an open has at least one.
    let rights = if rights == AccessMask::NONE { AccessMask::FILE_READ_ATTRIBUTES } else { rights };
    Ok((create::open_within(request, reply, tree, file.name, rights).await?, room))
}
