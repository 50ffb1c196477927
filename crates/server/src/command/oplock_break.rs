//! Oplock and lease breaks on the wire ([MS-SMB2] 3.3.5.22): waiting for them, and their acknowledgment. Notifications
//! are in `request`, and the rules in `files::oplock`.

use std::task::Poll;

use proto::smb2::FileId;
use proto::smb2::oplock_break::{LeaseBreak, OplockBreak, OplockBreakAcknowledgment, OplockBreakResponse};
use proto::status::Status;
use tokio::sync::oneshot::error::TryRecvError;

use crate::command::close::close_ended;
use crate::error::{Error, Result};
use crate::files::LeaseId;
use crate::files::oplock::{Client, Wait};
use crate::request::{Reply, Request};
use crate::state::connection::Cancelled;
use crate::vfs;

/// Waits until the holder of an oplock on `file` has acknowledged the break, or the timeout has expired.
pub(crate) async fn wait(request: &Request<'_>, reply: &mut Reply, file: vfs::FileId, wait: Wait) -> Result<()> {
    let server = &request.connection.server;
    // The holder may be an open whose client has disconnected; then no acknowledgment is needed.
    close_ended(server).await;
    let mut wait = wait;
    if wait.changed.try_recv() != Err(TryRecvError::Empty) {
        return Ok(());
    }
    let pending = reply.go_async(request)?;
    let mut time_up = server.environment.sleep(wait.deadline.saturating_sub(server.environment.uptime()));
    let mut changed = wait.changed;
    let event = std::future::poll_fn(|context| {
        if std::pin::Pin::new(&mut changed).poll(context).is_ready() {
            return Poll::Ready(());
        }
        time_up.as_mut().poll(context)
    });
    pending.wait(event).await.map_err(|Cancelled| Error::new(Status::CANCELLED))?;
    server.opens.files.expire_oplocks(file, server.environment.uptime());
    Ok(())
}

/// Executes an oplock or lease break acknowledgment.
pub(crate) fn acknowledge(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let oplock = match OplockBreakAcknowledgment::decode(request.message)? {
        OplockBreakAcknowledgment::Oplock(oplock) => oplock,
        OplockBreakAcknowledgment::Lease(lease) => return acknowledge_lease(request, lease, reply),
    };
    let open = request.open(oplock.file_id, reply)?;
    let file = open.file().ok_or(Error::because(Status::INVALID_DEVICE_STATE, "a pipe has no oplock"))?;
    let files = &request.connection.server.opens.files;
    let oplock_level = files.acknowledge_oplock(file.file, open.persistent_id, oplock.oplock_level)?;
    let file_id = FileId { persistent: open.persistent_id, volatile: open.volatile_id };
    OplockBreakResponse::Oplock(OplockBreak { oplock_level, file_id }).encode(&mut reply.body());
    Ok(Status::SUCCESS)
}

/// Executes a lease break acknowledgment (3.3.5.22.2).
fn acknowledge_lease(request: &Request<'_>, lease: LeaseBreak, reply: &mut Reply) -> Result<Status> {
    let negotiated = request.connection.negotiated().ok_or(Error::new(Status::INVALID_PARAMETER))?;
    let server = &request.connection.server;
    let id = LeaseId { client: negotiated.client_guid, key: lease.lease_key };
    let session = request.session()?;
    let user = session.user();
    let client = Client { session_id: session.id, user: user.as_deref() };
    let lease_state =
        server.opens.files.acknowledge_lease(id, &client, lease.lease_state, server.environment.uptime())?;
    OplockBreakResponse::Lease(LeaseBreak { lease_key: lease.lease_key, lease_state }).encode(&mut reply.body());
    Ok(Status::SUCCESS)
}
