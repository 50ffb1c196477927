//! Byte-range locks of clients as local programs meet them, and theirs as clients do (`posix locking`): each lock that a
//! client gets is an advisory lock of its handle in the kernel, too (fcntl(2), open file description locks).
//!
//! The rules among clients stay with `files::byte_lock`; the kernel is asked only about what local programs have locked.
//! Reads and writes look at the locks of clients alone: those of local programs are advisory.
//!
//! An open may lock a range shared within one that it has locked exclusively, and take back either; the kernel knows one
//! lock for each byte. So what it is told of a byte is the strongest lock that the open has there, and only where that
//! changes. What the kernel has no words for is not shown: empty ranges, bytes from 2^63 on, an exclusive lock of a handle
//! that may not write (shown as shared), and a shared one of a handle that may not read.

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

/// Behind the last byte that the kernel can lock.
const END: u64 = 1 << 63;
/// The most calls that one lock may take: only who locks pieces first and then everything shared needs several, and the
/// kernel looks through all of a file's locks in each.
const PIECES: usize = 256;
/// With more locks than these on the file, the kernel changes them on a worker: it looks through all of them.
const FEW_LOCKS: usize = 64;
/// More changes than these at once are made on a worker.
const FEW_CHANGES: usize = 4;
/// How much longer than the first the last pause between two tries for a lock is.
const LONGEST_PAUSE: u32 = 10;

/// What the kernel is told of the locks of an open. Whoever changes that holds it meanwhile, so that what the kernel is
/// told last is what holds.
#[derive(Default)]
pub(crate) struct Shown(tokio::sync::Mutex<Known>);

/// The locks of one open that are shown, and the bytes that they cover.
#[derive(Default)]
struct Known {
    /// How often each lock is shown.
    times: HashMap<(Range, bool), u32>,
    /// What is locked at all, and what is locked exclusively.
    locked: Coverage,
    exclusive: Coverage,
}

/// Bytes of memory that a lock takes at the most for being shown, as they are allocated.
pub(crate) const BYTES_PER_LOCK: usize = 2 * size_of::<((Range, bool), u32)>() + 2 * Coverage::BYTES_PER_RANGE;

/// Whether the locks of an open are shown at all.
fn are_shown(open: &Open, file: &FileOpen) -> bool {
    let wanted = open.tree.disk().is_some_and(|disk| disk.share.posix_locking);
    wanted && file.kind == Kind::File && file.file.stream == 0
}

/// The pause between two tries for a lock that a local program has, longer each time.
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

/// Locks all of `locks`, which are of `open`, or none.
pub(crate) async fn lock(server: &Server, open: &Open, file: &FileOpen, locks: &[Lock], bounds: Bounds) -> Result<()> {
    server.files.lock(file.file, locks, bounds)?;
    if show(server, open, file, locks).await? { Ok(()) } else { Err(Refused::Conflict.into()) }
}

/// Shows locks that an open has got just now. `false` where a local program has something in the way: then they are taken
/// back.
pub(crate) async fn show(server: &Server, open: &Open, file: &FileOpen, locks: &[Lock]) -> Result<bool> {
    if !are_shown(open, file) {
        return Ok(true);
    }
    let mut known = file.shown.0.lock().await;
    let (mut added, mut changes) = (Vec::new(), Vec::new());
    // One may have been unlocked meanwhile.
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
        // It may have ended with its open meanwhile.
        let _ = server.files.unlock_one(file.file, lock);
    }
    if error.status == Status::LOCK_NOT_GRANTED { Ok(false) } else { Err(error) }
}

/// Makes changes in the kernel, on a worker where they may take it long.
async fn tell(server: &Server, file: &FileOpen, changes: Vec<RangeChange>) -> std::result::Result<(), Errno> {
    if changes.is_empty() {
        return Ok(());
    }
    let many = changes.len() > FEW_CHANGES || server.files.lock_count(file.file) > FEW_LOCKS;
    file.node.lock_ranges(changes, many).await
}

/// Unlocks ranges one after another, for local programs first: whoever of the clients waits for one must not find it
/// locked still. Ends at the first that is not locked.
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
        // The exclusive one goes first.
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
        tracing::warn!(%errno, path = %*file.name.path.lock(), "a lock stays in local programs' way until its file is closed");
    }
    let all = ended.len() == ranges.len();
    // Its locks may have ended with the open meanwhile.
    let unlocked = ended.iter().try_for_each(|lock| server.files.unlock_one(file.file, lock));
    unlocked.and(if all { Ok(()) } else { Err(NotLocked) })
}

/// An open is about to be closed: its locks are gone for local programs before clients that wait for them try.
pub(crate) async fn close(server: &Server, file: &FileOpen) {
    let mut known = file.shown.0.lock().await;
    if std::mem::take(&mut *known).times.is_empty() {
        return;
    }
    let everything = RangeChange { offset: 0, length: END, before: RangeLock::Exclusive, after: RangeLock::Free };
    if let Err(errno) = tell(server, file, vec![everything]).await {
        tracing::warn!(%errno, path = %*file.name.path.lock(), "locks stay in local programs' way until their file is closed");
    }
}

impl Known {
    fn times(&self, lock: &Lock) -> u32 {
        self.times.get(&(lock.range, lock.exclusive)).copied().unwrap_or(0)
    }

    /// A lock more, of which the kernel is told `kind`: adds what changes there.
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

    /// A lock less.
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

    /// The parts of `bytes` where the locks are weaker than `kind`, and what they are.
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

/// What the kernel is told of a lock.
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

/// The bytes of a lock as the kernel can have them.
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

    /// Of a handle that may do both.
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
        // What the kernel cannot lock.
        check(&[], lock(5, 0, true), &[]);
        check(&[], lock(END, 5, true), &[]);
        check(&[], lock(0, u64::MAX, true), &[(0, END, Free)]);
        check(&[lock(END - 1, 5, false)], lock(END - 2, 9, false), &[(END - 2, 1, Free)]);
    }

    proptest! {
        /// Byte by byte, the kernel has the strongest lock.
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
