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
use std::ops;
use std::time::Duration;

use proto::dtyp::AccessMask;
use proto::status::Status;

use super::coverage::Coverage;
use crate::error::Result;
use crate::files::byte_lock::{Bounds, Lock, NotLocked, Owner, Range, Refused};
use crate::open::{FileOpen, Open};
use crate::server::Server;
use crate::vfs::{Errno, Kind, RangeChange, RangeLock};

/// The end of the bytes that the kernel can lock.
const END: u64 = 1 << 63;
/// Maximum number of system calls for one lock. Only a client that locks pieces first and then everything shared needs
/// several, and in each the kernel scans all of a file's locks.
const PIECES: usize = 256;
/// If a file has more locks, changes in the kernel are made by a worker thread, because the kernel scans all of them.
const FEW_LOCKS: usize = 64;
/// If more changes are made at once, they are made by a worker thread.
const FEW_CHANGES: usize = 4;
/// Ratio of the longest to the first pause between two attempts.
const LONGEST_PAUSE: u32 = 10;

/// The locks of an open that the kernel has. Locked during changes, so that the kernel's state matches after concurrent
/// ones.
#[derive(Default)]
pub(crate) struct Shown(tokio::sync::Mutex<Known>);

/// The exported locks of one open, and the bytes that they cover.
#[derive(Default)]
struct Known {
    /// The number of times that each lock is exported.
    times: HashMap<(Range, bool), u32>,
    /// The bytes that are locked at all, and those that are locked exclusively.
    locked: Coverage,
    exclusive: Coverage,
}

/// Maximum allocated memory per exported lock in bytes.
pub(crate) const BYTES_PER_LOCK: usize = 2 * size_of::<((Range, bool), u32)>() + 2 * Coverage::BYTES_PER_RANGE;

/// Whether the locks of an open are exported.
fn are_shown(open: &Open, file: &FileOpen) -> bool {
    let wanted = open.tree.disk().is_some_and(|disk| disk.share.posix_locking);
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
pub(crate) async fn lock(server: &Server, open: &Open, file: &FileOpen, locks: &[Lock], bounds: Bounds) -> Result<()> {
    server.files.lock(file.file, locks, bounds)?;
    if show(server, open, file, locks).await? { Ok(()) } else { Err(Refused::Conflict.into()) }
}

/// Exports locks that an open has just got. Returns `false`, and removes the locks, if one of a local program
/// conflicts.
pub(crate) async fn show(server: &Server, open: &Open, file: &FileOpen, locks: &[Lock]) -> Result<bool> {
    if !are_shown(open, file) {
        return Ok(true);
    }
    let mut known = file.shown.0.lock().await;
    let (mut added, mut changes) = (Vec::new(), Vec::new());
    // A lock may have been removed meanwhile.
    let is_held = |known: &Known, lock: &Lock| server.files.times_locked(file.file, lock) > known.times(lock);
    let locked: Vec<_> = locks.iter().filter(|lock| is_held(&known, lock)).collect();
    let mut shown = Ok(());
    for &lock in &locked {
        shown = known.add(lock, kind(open, lock), &mut changes);
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
    for lock in added.iter().rev() {
        known.remove(lock, kind(open, lock), &mut Vec::new());
    }
    for lock in locked {
        // The lock may have ended with its open meanwhile.
        let _ = server.files.unlock_one(file.file, lock);
    }
    if error.status == Status::LOCK_NOT_GRANTED { Ok(false) } else { Err(error) }
}

/// Applies changes in the kernel, by a worker thread if they may take long.
async fn tell(server: &Server, file: &FileOpen, changes: Vec<RangeChange>) -> std::result::Result<(), Errno> {
    if changes.is_empty() {
        return Ok(());
    }
    let many = changes.len() > FEW_CHANGES || server.files.lock_count(file.file) > FEW_LOCKS;
    file.node.lock_ranges(changes, many).await
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
        return ranges.iter().try_for_each(|range| server.files.unlock(file.file, owner, *range));
    }
    let mut known = file.shown.0.lock().await;
    let (mut gone, mut changes, mut ended) = (HashMap::<Lock, u32>::new(), Vec::new(), Vec::new());
    for &range in ranges {
        // An exclusive lock is removed first.
        let left = |lock: &Lock| {
            let times = server.files.times_locked(file.file, lock);
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
            "a lock stays in local programs' way until its file is closed"
        );
    }
    let all = ended.len() == ranges.len();
    // The locks may have ended with the open meanwhile.
    let unlocked = ended.iter().try_for_each(|lock| server.files.unlock_one(file.file, lock));
    unlocked.and(if all { Ok(()) } else { Err(NotLocked) })
}

/// Called before an open is closed. Removes its locks from the kernel before waiting clients try to get them.
pub(crate) async fn close(server: &Server, file: &FileOpen) {
    let mut known = file.shown.0.lock().await;
    if std::mem::take(&mut *known).times.is_empty() {
        return;
    }
    let everything = RangeChange { offset: 0, length: END, before: RangeLock::Exclusive, after: RangeLock::Free };
    if let Err(errno) = tell(server, file, vec![everything]).await {
        tracing::warn!(
            %errno,
            path = %*file.name.path.lock(),
            "locks stay in local programs' way until their file is closed"
        );
    }
}

impl Known {
    fn times(&self, lock: &Lock) -> u32 {
        self.times.get(&(lock.range, lock.exclusive)).copied().unwrap_or(0)
    }

    /// Adds a lock that the kernel has as `kind`, and appends the resulting changes.
    fn add(&mut self, lock: &Lock, kind: RangeLock, changes: &mut Vec<RangeChange>) -> Result<()> {
        let bytes = bytes(lock).filter(|_| kind != RangeLock::Free);
        if let Some(bytes) = &bytes {
            let before = changes.len();
            let weaker = self.weaker(bytes.clone(), kind).take(PIECES + 1);
            changes.extend(weaker.map(|(bytes, before)| change(&bytes, before, kind)));
            if changes.len() - before > PIECES {
                return Err(Refused::TooMany.into());
            }
            self.cover(kind, |coverage| coverage.add(bytes));
        }
        *self.times.entry((lock.range, lock.exclusive)).or_default() += 1;
        Ok(())
    }

    /// Removes a lock, and appends the resulting changes.
    fn remove(&mut self, lock: &Lock, kind: RangeLock, changes: &mut Vec<RangeChange>) {
        if let Some(times) = self.times.get_mut(&(lock.range, lock.exclusive)) {
            *times -= 1;
            if *times == 0 {
                self.times.remove(&(lock.range, lock.exclusive));
            }
        }
        if let Some(bytes) = bytes(lock).filter(|_| kind != RangeLock::Free) {
            self.cover(kind, |coverage| coverage.remove(&bytes));
            changes.extend(self.weaker(bytes, kind).map(|(bytes, after)| change(&bytes, kind, after)));
        }
    }

    fn cover(&mut self, kind: RangeLock, alter: impl Fn(&mut Coverage)) {
        alter(&mut self.locked);
        if kind == RangeLock::Exclusive {
            alter(&mut self.exclusive);
        }
    }

    /// Returns the parts of `bytes` where existing locks are weaker than `kind`, with those locks.
    fn weaker(&self, bytes: ops::Range<u64>, kind: RangeLock) -> impl Iterator<Item = (ops::Range<u64>, RangeLock)> {
        let stronger = if kind == RangeLock::Exclusive { &self.exclusive } else { &self.locked };
        let parts = stronger.parts(bytes).filter(|(_, is_covered)| !is_covered);
        parts
            .flat_map(|(part, _)| self.locked.parts(part))
            .map(|(part, is_locked)| (part, if is_locked { RangeLock::Shared } else { RangeLock::Free }))
    }
}

fn change(bytes: &ops::Range<u64>, before: RangeLock, after: RangeLock) -> RangeChange {
    RangeChange { offset: bytes.start, length: bytes.end - bytes.start, before, after }
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

/// Returns the bytes of a lock that the kernel can lock.
fn bytes(lock: &Lock) -> Option<ops::Range<u64>> {
    let (start, length) = (lock.range.offset(), lock.range.length());
    let end = start.saturating_add(length).min(END);
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lock(offset: u64, length: u64, exclusive: bool) -> Lock {
        let range = Range::new(offset, length).expect("a range");
        Lock { owner: Owner { open: 1, key: 0 }, range, exclusive }
    }

    /// Returns the kind for a handle with read and write access.
    fn both(lock: &Lock) -> RangeLock {
        if lock.exclusive { RangeLock::Exclusive } else { RangeLock::Shared }
    }

    fn known(locks: &[Lock]) -> Known {
        let mut known = Known::default();
        for lock in locks {
            known.add(lock, both(lock), &mut Vec::new()).expect("few pieces");
        }
        known
    }

    #[track_caller]
    fn check(others: &[Lock], lock: Lock, expected: &[(u64, u64, RangeLock)]) {
        let (mut known, mut added, mut removed) = (known(others), Vec::new(), Vec::new());
        known.add(&lock, both(&lock), &mut added).expect("few pieces");
        let pieces: Vec<_> = added.iter().map(|it| (it.offset, it.length, it.before)).collect();
        assert_eq!(pieces, expected);
        known.remove(&lock, both(&lock), &mut removed);
        let back = |change: &RangeChange| RangeChange { before: change.after, after: change.before, ..*change };
        assert_eq!(removed, added.iter().map(back).collect::<Vec<_>>());
    }

    #[test]
    fn a_lock_over_thousands_of_pieces_is_refused_and_leaves_nothing() {
        let pieces: Vec<_> = (0..1_000).map(|number| lock(number * 2, 1, false)).collect();
        let mut known = known(&pieces);
        let everything = lock(0, 2_000, false);
        assert!(known.add(&everything, RangeLock::Shared, &mut Vec::new()).is_err());
        assert_eq!(known.times(&everything), 0);
        check(&pieces, lock(0, 100, false), &(0..50).map(|it| (it * 2 + 1, 1, RangeLock::Free)).collect::<Vec<_>>());
    }

    #[test]
    fn what_changes_in_the_kernel() {
        use RangeLock::{Free, Shared};
        check(&[], lock(5, 10, false), &[(5, 10, Free)]);
        check(&[lock(0, 20, true)], lock(5, 10, false), &[]);
        check(&[lock(5, 10, false)], lock(5, 10, false), &[]);
        check(&[lock(5, 10, false)], lock(0, 20, false), &[(0, 5, Free), (15, 5, Free)]);
        check(&[lock(0, 10, false), lock(3, 2, false)], lock(0, 12, true), &[(0, 10, Shared), (10, 2, Free)]);
        check(&[lock(0, 3, true), lock(2, 4, false)], lock(0, 10, false), &[(6, 4, Free)]);
        // Ranges that the kernel cannot lock.
        check(&[], lock(5, 0, true), &[]);
        check(&[], lock(END, 5, true), &[]);
        check(&[], lock(0, u64::MAX, true), &[(0, END, Free)]);
        check(&[lock(END - 1, 5, false)], lock(END - 2, 9, false), &[(END - 2, 1, Free)]);
    }

    proptest! {
        /// For each byte, the kernel has the strongest lock.
        #[test]
        fn the_kernel_has_the_strongest_lock_of_each_byte(
            locks in prop::collection::vec((0..20u64, 0..8u64, any::<bool>()), 1..8)
        ) {
            let locks: Vec<_> = locks.into_iter().map(|(offset, length, kind)| lock(offset, length, kind)).collect();
            let (last, others) = locks.split_last().expect("one at least");
            let strongest = |locks: &[Lock], byte: u64| {
                let covers = |lock: &&Lock| bytes(lock).is_some_and(|bytes| bytes.contains(&byte));
                locks.iter().filter(covers).map(both).max().unwrap_or(RangeLock::Free)
            };
            let mut kernel: Vec<_> = (0..40).map(|byte| strongest(others, byte)).collect();
            let before = kernel.clone();
            let (mut known, mut pieces) = (known(others), Vec::new());
            prop_assert!(known.add(last, both(last), &mut pieces).is_ok());
            for piece in &pieces {
                kernel[piece.offset as usize..(piece.offset + piece.length) as usize].fill(piece.after);
            }
            prop_assert_eq!(&kernel, &(0..40).map(|byte| strongest(&locks, byte)).collect::<Vec<_>>());
            pieces.clear();
            known.remove(last, both(last), &mut pieces);
            for piece in &pieces {
                kernel[piece.offset as usize..(piece.offset + piece.length) as usize].fill(piece.after);
            }
            prop_assert_eq!(kernel, before);
        }
    }
}
