//! Oplocks backed by leases from the kernel, and opens that conflict with leases of local programs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use proto::smb2::OplockLevel;
use proto::status::Status;

use crate::error::{Error, Result};
use crate::files::oplock::Holder;
use crate::request::{Reply, Request};
use crate::state::Server;
use crate::state::connection::Cancelled;
use crate::state::open::FileOpen;
use crate::tree::Disk;
use crate::vfs::{Access, Errno, FileId, LeaseCallback, Node};

/// Grants an oplock backed by a lease from the kernel. Grants none if the kernel refuses the lease, for example because
/// the file has other opens. Level II is never granted, because no lease from the kernel can back it.
pub(crate) async fn grant_oplock(
    server: &Arc<Server>,
    disk: &Disk,
    file: &FileOpen,
    open: u64,
    asked: OplockLevel,
    holder: Arc<dyn Holder>,
) -> OplockLevel {
    let exclusive = matches!(asked, OplockLevel::EXCLUSIVE | OplockLevel::BATCH);
    if !exclusive || !disk.vfs.capabilities().leases {
        return OplockLevel::NONE;
    }
    let early = Arc::new(AtomicBool::new(false));
    let lease = match file.node.lease(&file.op, told(server, file.file, open, &early)).await {
        Ok(lease) => lease,
        // The handle has no data access, or the file has other opens.
        Err(Errno::BADF | Errno::AGAIN) => return OplockLevel::NONE,
        Err(errno) => {
            tracing::debug!(?errno, path = %*file.name.path.lock(), "no oplock granted, because the kernel grants no \
                                                                     lease");
            return OplockLevel::NONE;
        }
    };
    let granted = server.opens.files.grant_backed_oplock(file.file, open, asked, holder, lease);
    // A local program opened the file before the oplock was registered, so the oplock must be broken now.
    if early.load(Ordering::Acquire) {
        server.opened_locally(file.file, open);
    }
    granted
}

fn told(server: &Arc<Server>, file: FileId, open: u64, early: &Arc<AtomicBool>) -> LeaseCallback {
    let (server, early): (Weak<Server>, _) = (Arc::downgrade(server), Arc::clone(early));
    Arc::new(move || {
        early.store(true, Ordering::Release);
        if let Some(server) = server.upgrade() {
            server.opened_locally(file, open);
        }
    })
}

/// How long a client waits for a local program to release its lease: longer than the kernel allows the program
/// (`/proc/sys/fs/lease-break-time`, 45 seconds by default).
const LEASE_TIME: Duration = Duration::from_secs(90);
/// The first and the longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Waits until a file can be opened. A local program has a lease on it, and was notified of the break.
pub(crate) async fn wait_for_lease(
    request: &Request<'_>,
    reply: &mut Reply,
    disk: &Disk,
    node: &Arc<dyn Node>,
    wanted: Access,
) -> Result<()> {
    let environment = &request.connection.server.environment;
    let pending = reply.go_async(request)?;
    let until = environment.uptime() + LEASE_TIME;
    let mut pause = PAUSES.0;
    loop {
        pending.wait(environment.sleep(pause)).await.map_err(|Cancelled| Error::new(Status::CANCELLED))?;
        // The file descriptor is not kept, because the name may lead to another file after the wait.
        match node.open(&disk.op, wanted).await {
            Err(Errno::AGAIN) if environment.uptime() < until => pause = (pause * 2).min(PAUSES.1),
            Err(Errno::AGAIN) => {
                return Err(Error::because(
                    Status::SHARING_VIOLATION,
                    "a local program did not release its lease on the file",
                ));
            }
            _ => return Ok(()),
        }
    }
}
