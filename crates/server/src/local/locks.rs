//! Exchange of byte-range locks between clients and local programs (`posix locking`): each lock of a client is also an
//! advisory lock of its handle in the kernel (fcntl(2), open file description locks), and conflicts with those of local
//! programs.
//!
//! `files::byte_lock` implements the rules among clients; the kernel is only needed for locks of local programs. Reads
//! and writes check only the locks of clients, because those of local programs are advisory.
//!
//! An open may place a shared lock within its own exclusive one and remove either, while the kernel has a single lock
//! per byte. The kernel is therefore given the strongest lock of the open on each byte, when that changes. Locks that
//! the kernel cannot represent are not exported or are weakened: empty ranges, bytes from 2^63 on, an exclusive lock of
//! a handle without write access (exported as shared), and a shared one of a handle without read access.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proto::dtyp::AccessMask;
use proto::status::Status;

use super::netatalk;
use crate::error::{Error, Result};
use crate::files::byte_lock::{Lock, NotLocked, Owner, Range, Refused};
use crate::files::exported_locks::{END, Exported};
use crate::policy::limits::LockBounds;
use crate::state::Server;
use crate::state::open::{FileOpen, Open};
use crate::vfs::{Errno, Kind, RangeChange, RangeLock};

/// If a file has more locks, changes in the kernel are made by a worker thread, because the kernel scans all of them.
const FEW_LOCKS: usize = 64;
/// If more changes are made at once, they are made by a worker thread.
const FEW_CHANGES: usize = 4;
/// Ratio of the longest to the first pause between two attempts.
const LONGEST_PAUSE: u32 = 10;

/// Whether the locks of an open are exported.
fn are_shown(open: &Open, file: &FileOpen) -> bool {
    let wanted = open.tree.disk().is_some_and(|disk| disk.share.locks.posix_locking && disk.vfs.capabilities().locks);
    wanted && file.kind == Kind::File && file.file.stream == 0
}

/// The increasing pauses between attempts to get a lock that a local program holds.
pub(crate) struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    pub(crate) fn new(server: &Server) -> Pauses {
        let first = server.policy().lock_spin_time;
        Pauses { next: first, longest: first * LONGEST_PAUSE }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }
}

/// Locks all of `locks`, which belong to `open`, or none.
pub(crate) async fn lock(
    server: &Server,
    open: &Open,
    file: &FileOpen,
    locks: &[Lock],
    bounds: LockBounds,
) -> Result<()> {
    server.opens.files.lock(file.file, locks, bounds)?;
    if show(server, open, file, locks).await? { Ok(()) } else { Err(Refused::Conflict.into()) }
}

/// Exports locks that an open has just got. Returns `false`, and removes the locks, if one of a local program
/// conflicts. Also removes them if the open was closed meanwhile.
pub(crate) async fn show(server: &Server, open: &Open, file: &FileOpen, locks: &[Lock]) -> Result<bool> {
    // Set before the close releases the open's locks. If it has already done so, nobody else releases these.
    if file.closed.load(Ordering::Acquire) {
        for lock in locks {
            // The close may have released it.
            let _ = server.opens.files.unlock_one(file.file, lock);
        }
        return Err(Error::because(Status::RANGE_NOT_LOCKED, "the handle was closed meanwhile"));
    }
    if !are_shown(open, file) {
        return Ok(true);
    }
    let mut known = file.exported_locks.0.lock().await;
    let (mut added, mut changes) = (Vec::new(), Vec::new());
    // A lock may have been removed meanwhile.
    let is_held = |known: &Exported, lock: &Lock| server.opens.files.times_locked(file.file, lock) > known.times(lock);
    let locked: Vec<_> = locks.iter().filter(|lock| is_held(&known, lock)).collect();
    let mut shown = Ok(());
    for &lock in &locked {
        shown = known.add(lock, kind(open, lock), &mut changes).map_err(Error::from);
        if shown.is_err() {
            break;
        }
        added.push(*lock);
    }
    if shown.is_ok() {
        shown = tell(server, file, changes).await.map_err(|errno| match errno {
            Errno::AGAIN => Refused::Conflict.into(),
            errno => errno.into(),
        });
    }
    let Err(error) = shown else { return Ok(true) };
    netatalk::renew(open, file, locks.iter().map(|lock| lock.range)).await;
    for lock in added.iter().rev() {
        known.remove(lock, kind(open, lock), &mut Vec::new());
    }
    for lock in locked {
        // The lock may have ended with its open meanwhile.
        let _ = server.opens.files.unlock_one(file.file, lock);
    }
    if error.status == Status::LOCK_NOT_GRANTED { Ok(false) } else { Err(error) }
}

/// Applies changes in the kernel, by a worker thread if they may take long.
async fn tell(server: &Server, file: &FileOpen, changes: Vec<RangeChange>) -> std::result::Result<(), Errno> {
    if changes.is_empty() {
        return Ok(());
    }
    let many = changes.len() > FEW_CHANGES || server.opens.files.lock_count(file.file) > FEW_LOCKS;
    file.node.lock(&file.op, changes, many).await
}

/// Unlocks ranges in order, first in the kernel, so that a client that waits for a range can lock it there. Stops at
/// the first range that is not locked.
pub(crate) async fn unlock(
    server: &Server,
    open: &Open,
    file: &FileOpen,
    owner: Owner,
    ranges: &[Range],
) -> std::result::Result<(), NotLocked> {
    if !are_shown(open, file) {
        return ranges.iter().try_for_each(|range| server.opens.files.unlock(file.file, owner, *range));
    }
    let mut known = file.exported_locks.0.lock().await;
    let (mut gone, mut changes, mut ended) = (HashMap::<Lock, u32>::new(), Vec::new(), Vec::new());
    for &range in ranges {
        // An exclusive lock is removed first.
        let left = |lock: &Lock| {
            let times = server.opens.files.times_locked(file.file, lock);
            times.saturating_sub(gone.get(lock).copied().unwrap_or(0))
        };
        let locks = [true, false].map(|exclusive| Lock { owner, range, exclusive });
        let Some((lock, left)) = locks.map(|lock| (lock, left(&lock))).into_iter().find(|(_, left)| *left > 0) else {
            break;
        };
        if known.times(&lock) >= left {
            known.remove(&lock, kind(open, &lock), &mut changes);
        }
        *gone.entry(lock).or_default() += 1;
        ended.push(lock);
    }
    if let Err(errno) = tell(server, file, changes).await {
        tracing::warn!(
            %errno,
            path = %*file.name.path.lock(),
            "cannot release a lock in the kernel: local programs remain blocked until the file is closed"
        );
    }
    netatalk::renew(open, file, ended.iter().map(|lock| lock.range)).await;
    let all = ended.len() == ranges.len();
    // The locks may have ended with the open meanwhile.
    let unlocked = ended.iter().try_for_each(|lock| server.opens.files.unlock_one(file.file, lock));
    unlocked.and(if all { Ok(()) } else { Err(NotLocked) })
}

/// Called before an open is closed. Removes its locks from the kernel before waiting clients try to get them.
pub(crate) async fn close(server: &Server, file: &FileOpen) {
    let mut known = file.exported_locks.0.lock().await;
    if std::mem::take(&mut *known).is_empty() {
        return;
    }
    let everything = RangeChange { offset: 0, length: END, before: RangeLock::Exclusive, after: RangeLock::Free };
    if let Err(errno) = tell(server, file, vec![everything]).await {
        tracing::warn!(
            %errno,
            path = %*file.name.path.lock(),
            "cannot release locks in the kernel: local programs remain blocked until the file is closed"
        );
    }
}

/// Returns the kind of lock in the kernel.
fn kind(open: &Open, lock: &Lock) -> RangeLock {
    const READING: u32 = AccessMask::FILE_READ_DATA.0 | AccessMask::FILE_EXECUTE.0;
    const WRITING: u32 = AccessMask::FILE_WRITE_DATA.0 | AccessMask::FILE_APPEND_DATA.0;
    let may = |rights| open.granted.0 & rights != 0;
    match lock.exclusive {
        true if may(WRITING) => RangeLock::Exclusive,
        _ if may(READING) => RangeLock::Shared,
        _ => RangeLock::Free,
    }
}

#[cfg(test)]
mod tests {
    use proto::smb2::OplockLevel;
    use proto::smb2::close::{CloseFlags, CloseRequest};
    use proto::smb2::header::Command;

    use super::*;
    use crate::answer::block_on;
    use crate::testing::TestServer;

    #[test]
    fn a_lock_of_an_open_that_was_closed_meanwhile_is_released() {
        for posix_locking in [true, false] {
            let server = TestServer::builder().share(|share| share.locks.posix_locking = posix_locking).start();
            let mut client = server.log_on("alice", false);
            let (ours, _) = client.open("file", OplockLevel::NONE);
            client.open("file", OplockLevel::NONE);
            let session = server.sessions.get(client.session_id).expect("logged on");
            let open = session.open(ours.persistent, ours.volatile).expect("not closed yet");
            let file = open.file().expect("a file");
            // A LOCK has found the open when another request of the client closes it.
            let close = CloseRequest { flags: CloseFlags(0), file_id: ours };
            client.request(Command::CLOSE, |out| close.encode(out)).check(Status::SUCCESS);
            let owner = Owner { open: ours.persistent, key: 0 };
            let lock = Lock { owner, range: Range::new(0, 10).expect("a range"), exclusive: true };
            let bounds = server.policy().limits.locks();
            let locked = block_on(super::lock(&server, &open, file, &[lock], bounds));
            assert_eq!(locked.map_err(|error| error.status), Err(Status::RANGE_NOT_LOCKED));
            assert_eq!(server.opens.files.lock_count(file.file), 0, "another open of the file remains");
        }
    }
}
