//! Documents that clients print through the pipe `spoolss`: the same files as those of [`print`](super::print).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::dtyp::AccessMask;
use proto::status::Status;

use super::{audit, print, tree_connect};
use crate::accounting::{Charge, Resource};
use crate::error::{Error, Result};
use crate::named_pipe::Spool;
use crate::policy::Share;
use crate::printing::SpoolFile;
use crate::request::{Reply, Request};
use crate::tree::Printer;

/// Returns whether the user of the request may connect to a share, and print there.
pub(super) async fn may_connect(request: &Request<'_>, share: &Share) -> bool {
    let Some(user) = request.session().ok().and_then(|session| session.user()) else { return false };
    let server = &request.connection.server;
    let Ok(token) = server.token_of(&user).await else { return false };
    let may_print = |rights: AccessMask| rights.contains(AccessMask::FILE_WRITE_DATA);
    server.share_rights(share, &token).is_ok_and(may_print)
        && tree_connect::check_sealing(request, share).is_ok()
        && tree_connect::admit(request, share, &user).await.is_ok()
}

/// Connects to a print share.
pub(super) async fn connect(request: &Request<'_>, name: &str) -> Result<Printer> {
    let session = request.session()?;
    let user = session.user().ok_or(Error::new(Status::USER_SESSION_DELETED))?;
    let disk = tree_connect::connect(request, name, &user).await?;
    if disk.share.printing.is_none() {
        return Err(Error::because(Status::BAD_NETWORK_NAME, "the share is not a printer"));
    }
    // The client may write the document with other requests, so the whole session must be encrypted.
    if disk.encrypt_data && !session.encrypt_data.load(Ordering::Relaxed) {
        return Err(Error::because(
            Status::ACCESS_DENIED,
            "the session is not encrypted, but the share requires encryption",
        ));
    }
    if !disk.share_rights.contains(AccessMask::FILE_WRITE_DATA) {
        return Err(Error::because(Status::ACCESS_DENIED, "the ACL of the share does not let the user print"));
    }
    print::connect(request, disk, &user)
}

/// Begins a document.
pub(super) async fn begin(request: &Request<'_>, reply: &mut Reply, printer: &Printer) -> Result<Arc<Spool>> {
    let payer = request.session()?.payer();
    let charges = vec![
        // As an open, the document keeps a file descriptor.
        payer.charge(Resource::Opens, 1)?,
        payer.charge(Resource::PrintJobs, 1)?,
        Charge::nothing(&payer, Resource::SpoolSpace),
    ];
    // The file must get its pipe, which removes it, although the client may vanish meanwhile.
    reply.survives = true;
    let counted = print::check_queue(request, reply, printer).await?;
    reply.go_async(request)?;
    request.connection.server.jobs.clean(&printer.spool).await;
    let (mut spool, _) = print::make(&request.connection.server, &printer.spool, charges).await?;
    spool.counted = counted;
    Ok(Arc::new(Spool::new(Some(spool))))
}

/// Appends data to a document. A document of which a part is missing is not printed.
pub(super) async fn write(request: &Request<'_>, spool: &Spool, data: Vec<u8>) -> Result<()> {
    let mut document = spool.lock().await;
    let spool = document.as_mut().ok_or(Error::new(Status::FILE_CLOSED))?;
    let written = append(request, spool, data).await;
    if let (Err(_), Some(spool)) = (&written, written.is_err().then(|| document.take()).flatten()) {
        spool.remove().await;
    }
    written
}

async fn append(request: &Request<'_>, spool: &mut SpoolFile, data: Vec<u8>) -> Result<()> {
    let offset = spool.node.metadata(&spool.op).await?.size;
    let end = offset.checked_add(data.len() as u64).ok_or(Error::new(Status::INVALID_PARAMETER))?;
    print::charge(request, spool, end)?;
    Ok(spool.node.write(&spool.op, offset, bytes::Bytes::from(data).into(), false).await?)
}

/// Hands a document over to the print system.
pub(super) async fn submit(
    request: &Request<'_>,
    reply: &mut Reply,
    printer: &Printer,
    title: &str,
    spool: &Spool,
) -> Result<()> {
    reply.survives = true;
    reply.go_async(request)?;
    let spool = spool.lock().await.take().ok_or(Error::new(Status::FILE_CLOSED))?;
    let size = match spool.node.metadata(&spool.op).await {
        Ok(metadata) => metadata.size,
        Err(errno) => {
            spool.remove().await;
            return Err(errno.into());
        }
    };
    audit::document_opened(&printer.spool, title);
    let done = print::hand_over(request, reply, printer, title, spool, size).await;
    let status = done.as_ref().map_or_else(|error| error.status, |()| Status::SUCCESS);
    audit::job_closed(&printer.spool, title, status);
    done
}

/// Removes a document that was not completed.
pub(super) async fn discard(spool: &Spool) {
    if let Some(spool) = spool.lock().await.take() {
        tracing::info!("a document is discarded because its client did not complete it");
        spool.remove().await;
    }
}
