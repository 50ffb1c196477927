//! LOCK ([MS-SMB2] 3.3.5.14): byte-range locks.

use std::sync::atomic::Ordering;

use proto::smb2::lock::{LockElement, LockFlags, LockRequest, LockResponse};
use proto::smb2::negotiate::{Capabilities, Dialect};
use proto::status::Status;

use crate::error::{Error, Result};
use crate::files::byte_lock::{Lock, Owner, Range, Refused};
use crate::local::locks;
use crate::policy::limits::LockBounds;
use crate::request::{Reply, Request};
use crate::state::connection::Cancelled;
use crate::state::durable;
use crate::state::open::{FileOpen, Open};
use crate::state::session::Phase;
use crate::vfs::Kind;

pub(crate) async fn lock(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = LockRequest::decode(request.message)?;
    let open = request.open(asked.file_id, reply)?;
    let file = open.file().filter(|file| file.kind == Kind::File).ok_or(Error::new(Status::INVALID_PARAMETER))?;
    let Some(first) = asked.locks.first() else {
        return Err(Error::because(Status::INVALID_PARAMETER, "the request has no ranges"));
    };
    if asked.locks.len() > request.connection.server.policy().limits.ranges_per_lock {
        return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "too many ranges in one request"));
    }
    let (index, number) = (asked.lock_sequence_index(), asked.lock_sequence_number());
    let sequences = Some(&file.durability.lock_sequences).filter(|_| has_sequence(request, file));
    if sequences.is_some_and(|sequences| sequences.is_repeated(index, number)) {
        LockResponse.encode(&mut reply.body());
        return Ok(Status::SUCCESS);
    }
    // Deviates from [MS-SMB2] 3.3.5.2.9, which permits LOCK after the credentials have expired: like Windows servers,
    // only unlocking is permitted. Tests require this.
    let unlocks = first.flags.contains(LockFlags::UNLOCK);
    if !unlocks && request.session()?.phase() == Phase::Expired {
        return Err(Error::new(Status::NETWORK_SESSION_EXPIRED));
    }
    let server = &request.connection.server;
    let done = if unlocks {
        unlock_all(request, &asked.locks, &open, file).await
    } else {
        file.charge_locks(server, &open, asked.locks.len())?;
        lock_all(request, reply, &asked.locks, &open, file).await
    };
    // Cannot fail, because it charges only for existing locks.
    let _ = file.charge_locks(server, &open, 0);
    done?;
    if let Some(sequences) = sequences {
        sequences.executed(index, number);
    }
    if let Err(error) = durable::save(&request.connection.server, &open).await {
        if let Some(sequences) = sequences {
            sequences.forget(index);
        }
        if !unlocks {
            take_back(request, &asked.locks, &open, file).await;
        }
        return Err(error);
    }
    LockResponse.encode(&mut reply.body());
    Ok(Status::SUCCESS)
}

/// Releases locks of a persistent open whose response is an error, because the client does not consider the ranges
/// locked.
async fn take_back(request: &Request<'_>, elements: &[LockElement], open: &Open, file: &FileOpen) {
    let ranges: Vec<_> = elements.iter().filter_map(|element| range(element).ok()).collect();
    // The locks may already be gone if the open was closed meanwhile.
    let _ = locks::unlock(&request.connection.server, open, file, owner(open), &ranges).await;
}

/// Returns whether lock sequence numbers are checked to detect repeated requests (3.3.5.14). Index 0 means that the
/// client does not use them.
fn has_sequence(request: &Request<'_>, file: &FileOpen) -> bool {
    let Some(negotiated) = request.connection.negotiated() else { return false };
    let several = negotiated.server_capabilities.contains(Capabilities::MULTI_CHANNEL);
    let known = negotiated.dialect != Dialect::SMB_2_0_2 && request.connection.server.policy().lock_sequence_checking;
    known && (several || file.durability.is_kept())
}

fn range(element: &LockElement) -> Result<Range> {
    Range::new(element.offset, element.length).ok_or(Error::new(Status::INVALID_LOCK_RANGE))
}

/// All locks of an SMB 2 open have the same key.
fn owner(open: &Open) -> Owner {
    Owner { open: open.persistent_id, key: 0 }
}

/// Unlocks ranges in order (3.3.5.14.1). If an element fails, the ranges before it stay unlocked.
async fn unlock_all(request: &Request<'_>, elements: &[LockElement], open: &Open, file: &FileOpen) -> Result<()> {
    let (mut ranges, mut wrong) = (Vec::new(), None);
    for element in elements {
        let not_unlock = || Error::because(Status::INVALID_PARAMETER, "other flags mixed with UNLOCK");
        let checked = if element.flags == LockFlags::UNLOCK { range(element) } else { Err(not_unlock()) };
        match checked {
            Ok(range) => ranges.push(range),
            Err(error) => {
                wrong = Some(error);
                break;
            }
        }
    }
    if open.policy().is_none_or(|share| share.locks.locking) {
        let unlocked = locks::unlock(&request.connection.server, open, file, owner(open), &ranges).await;
        unlocked.map_err(|_| Error::new(Status::RANGE_NOT_LOCKED))?;
    }
    wrong.map_or(Ok(()), Err)
}

/// Locks ranges (3.3.5.14.2).
async fn lock_all(
    request: &Request<'_>,
    reply: &mut Reply,
    elements: &[LockElement],
    open: &Open,
    file: &FileOpen,
) -> Result<()> {
    let locks = elements.iter().map(|element| wanted(element, open)).collect::<Result<Vec<_>>>()?;
    let waits = elements.iter().any(|element| !element.flags.contains(LockFlags::FAIL_IMMEDIATELY));
    if waits && locks.len() > 1 {
        return Err(Error::because(Status::INVALID_PARAMETER, "several ranges without FAIL_IMMEDIATELY"));
    }
    let server = &request.connection.server;
    let share = open.policy();
    if share.is_some_and(|share| !share.locks.locking) {
        return Ok(());
    }
    let bounds = server.policy().limits.locks();
    // [MS-FSA] 2.1.4.12, LOCK_CONTROL: clients must no longer read from their caches.
    file.end_caches(server);
    match &*locks {
        [lock] if waits && share.is_none_or(|share| share.locks.blocking_locks) => {
            wait(request, reply, *lock, bounds, open, file).await
        }
        locks => locks::lock(server, open, file, locks, bounds).await,
    }
}

fn wanted(element: &LockElement, open: &Open) -> Result<Lock> {
    let exclusive = match LockFlags(element.flags.0 & !LockFlags::FAIL_IMMEDIATELY.0) {
        LockFlags::SHARED_LOCK => false,
        LockFlags::EXCLUSIVE_LOCK => true,
        _ => return Err(Error::because(Status::INVALID_PARAMETER, "invalid lock flags")),
    };
    Ok(Lock { owner: owner(open), range: range(element)?, exclusive })
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::new(match refused {
            Refused::Conflict => Status::LOCK_NOT_GRANTED,
            Refused::TooMany => Status::INSUFFICIENT_RESOURCES,
        })
    }
}

/// Locks a range; waits while it is locked by others.
async fn wait(
    request: &Request<'_>,
    reply: &mut Reply,
    lock: Lock,
    bounds: LockBounds,
    open: &Open,
    file: &FileOpen,
) -> Result<()> {
    let server = &request.connection.server;
    let mut pauses = locks::Pauses::new(server);
    loop {
        wait_for_clients(request, reply, lock, bounds, file).await?;
        if locks::show(server, open, file, &[lock]).await? {
            return Ok(());
        }
        // There is no notification for locks of local programs, so they are polled.
        until(request, reply, file, server.environment.sleep(pauses.next())).await?;
    }
}

/// Locks a range as soon as no other client has it locked.
async fn wait_for_clients(
    request: &Request<'_>,
    reply: &mut Reply,
    lock: Lock,
    bounds: LockBounds,
    file: &FileOpen,
) -> Result<()> {
    let files = &request.connection.server.opens.files;
    let Some(mut wait) = files.lock_or_wait(file.file, lock, bounds)? else { return Ok(()) };
    match until(request, reply, file, &mut wait.granted).await {
        Ok(Ok(())) => Ok(()),
        ended => {
            abandon(request, &wait, lock, file);
            Err(ended.err().unwrap_or_else(|| given_up(file)))
        }
    }
}

/// Waits for `event`, unless the request is cancelled or the open is closed first.
async fn until<T>(
    request: &Request<'_>,
    reply: &mut Reply,
    file: &FileOpen,
    event: impl Future<Output = T>,
) -> Result<T> {
    let pending = reply.go_async(request)?;
    file.waiting.lock().push(pending.clone());
    let waited = match file.closed.load(Ordering::Acquire) {
        true => Err(Cancelled),
        false => pending.wait(event).await,
    };
    file.waiting.lock().retain(|waiting| !std::sync::Arc::ptr_eq(waiting, &pending));
    waited.map_err(|Cancelled| given_up(file))
}

/// Returns the error for a wait that was cancelled, or whose open was closed.
fn given_up(file: &FileOpen) -> Error {
    let closed = file.closed.load(Ordering::Acquire);
    Error::new(if closed { Status::RANGE_NOT_LOCKED } else { Status::CANCELLED })
}

/// Stops waiting, and releases the lock if it was granted at the same moment.
fn abandon(request: &Request<'_>, wait: &crate::files::LockWait, lock: Lock, file: &FileOpen) {
    let files = &request.connection.server.opens.files;
    if !files.cancel_lock(file.file, wait) {
        let _ = files.unlock(file.file, lock.owner, lock.range);
    }
}
