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

use std::time::Duration;

use proto::dtyp::AccessMask;

use crate::error::Result;
use crate::files::byte_lock::{Lock, NotLocked, Owner, Range, Refused};
use crate::open::{FileOpen, Open};
use crate::server::Server;
use crate::vfs::{Errno, Kind, RangeLock};

/// Behind the last byte that the kernel can lock.
const END: u64 = 1 << 63;
/// The most calls that one lock may take: only who locks pieces first and then everything shared needs several, and the
/// kernel looks through all of a file's locks in each.
const PIECES: usize = 256;
/// How much longer than the first the last pause between two tries for a lock is.
const LONGEST_PAUSE: u32 = 10;

/// Whether any lock of an open is shown. Whoever changes that holds it meanwhile, so that what the kernel is told last
/// is what holds.
#[derive(Default)]
pub(crate) struct Shown(tokio::sync::Mutex<bool>);

/// A range that is to become something else in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    offset: u64,
    length: u64,
    /// What it is by the other locks of the open.
    without: RangeLock,
}

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
pub(crate) async fn lock(server: &Server, open: &Open, file: &FileOpen, locks: &[Lock], limit: usize) -> Result<()> {
    server.files.lock(file.file, locks, limit)?;
    if show(server, open, file, locks).await? { Ok(()) } else { Err(Refused::Conflict.into()) }
}

/// Shows locks that an open has got just now. `false` where a local program has something in the way: then they are taken
/// back.
pub(crate) async fn show(server: &Server, open: &Open, file: &FileOpen, locks: &[Lock]) -> Result<bool> {
    if !are_shown(open, file) {
        return Ok(true);
    }
    let mut any = file.shown.0.lock().await;
    let mut held = server.files.locks_of(file.file, open.persistent_id);
    for lock in locks {
        remove(&mut held, lock);
    }
    let shown = show_all(open, file, locks, held).await;
    if !matches!(shown, Ok(true)) {
        for lock in locks {
            // It may have ended with its open meanwhile.
            let _ = server.files.unlock_one(file.file, lock);
        }
    }
    *any |= matches!(shown, Ok(true));
    shown
}

/// Shows `locks` one after another beside those that are `held` already; nothing of them where one cannot be.
async fn show_all(open: &Open, file: &FileOpen, locks: &[Lock], mut held: Vec<Lock>) -> Result<bool> {
    let mut done = Vec::new();
    for lock in locks {
        let kind = kind(open, lock);
        let pieces = weaker(&held, lock, |lock| self::kind(open, lock));
        if pieces.len() > PIECES {
            hide_all(file, &done).await;
            return Err(Refused::TooMany.into());
        }
        for piece in pieces {
            match set(file, &piece, kind).await {
                Ok(()) => done.push(piece),
                Err(errno) => {
                    hide_all(file, &done).await;
                    return if errno == Errno::AGAIN { Ok(false) } else { Err(errno.into()) };
                }
            }
        }
        held.push(*lock);
    }
    Ok(true)
}

/// Gives back what was shown, the last first.
async fn hide_all(file: &FileOpen, pieces: &[Piece]) {
    for piece in pieces.iter().rev() {
        if let Err(errno) = set(file, piece, piece.without).await {
            tracing::warn!(%errno, path = %*file.name.path.lock(), "a lock stays in local programs' way until its file is closed");
        }
    }
}

async fn set(file: &FileOpen, piece: &Piece, kind: RangeLock) -> std::result::Result<(), Errno> {
    match file.node.lock_range(piece.offset, piece.length, kind).await {
        // The handle has less access than its open was granted, or the file system has no locks.
        Err(Errno::BADF | Errno::OPNOTSUPP) => Ok(()),
        done => done,
    }
}

/// Unlocks a range, for local programs first: whoever of the clients waits for it must not find it locked still.
pub(crate) async fn unlock(
    server: &Server,
    open: &Open,
    file: &FileOpen,
    owner: Owner,
    range: Range,
) -> std::result::Result<(), NotLocked> {
    if !are_shown(open, file) {
        return server.files.unlock(file.file, owner, range);
    }
    let _turn = file.shown.0.lock().await;
    let mut held = server.files.locks_of(file.file, open.persistent_id);
    let lock = |exclusive| Lock { owner, range, exclusive };
    // The exclusive one goes first.
    if let Some(gone) = [true, false].map(lock).into_iter().find(|lock| held.contains(lock)) {
        remove(&mut held, &gone);
        hide_all(file, &weaker(&held, &gone, |lock| kind(open, lock))).await;
    }
    server.files.unlock(file.file, owner, range)
}

/// An open is about to be closed: its locks are gone for local programs before clients that wait for them try.
pub(crate) async fn close(file: &FileOpen) {
    let mut any = file.shown.0.lock().await;
    if std::mem::take(&mut *any) {
        hide_all(file, &[Piece { offset: 0, length: END, without: RangeLock::Free }]).await;
    }
}

/// Takes one lock like `lock` out.
fn remove(held: &mut Vec<Lock>, lock: &Lock) {
    if let Some(index) = held.iter().position(|held| held == lock) {
        held.swap_remove(index);
    }
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

/// The bytes of a lock as the kernel can have them: the first and the one behind the last.
fn bytes(lock: &Lock) -> Option<(u64, u64)> {
    let (start, length) = (lock.range.offset(), lock.range.length());
    let end = start.saturating_add(length).min(END);
    (start < end).then_some((start, end))
}

/// The parts of `lock` where the other locks of its open are weaker than it.
fn weaker(others: &[Lock], lock: &Lock, kind: impl Fn(&Lock) -> RangeLock) -> Vec<Piece> {
    let Some((start, end)) = bytes(lock) else { return Vec::new() };
    let strongest = kind(lock);
    let mut edges = vec![(start, RangeLock::Free, 0), (end, RangeLock::Free, 0)];
    for other in others {
        if let Some((from, to)) = bytes(other)
            && from < end
            && to > start
        {
            edges.push((from.max(start), kind(other), 1));
            edges.push((to.min(end), kind(other), -1));
        }
    }
    edges.sort_unstable_by_key(|(at, ..)| *at);
    let (mut shared, mut exclusive) = (0, 0);
    let mut pieces: Vec<Piece> = Vec::new();
    for (edge, next) in edges.iter().zip(edges.iter().skip(1)) {
        let (offset, of, change) = *edge;
        match of {
            RangeLock::Free => {}
            RangeLock::Shared => shared += change,
            RangeLock::Exclusive => exclusive += change,
        }
        let without = match (exclusive, shared) {
            (0, 0) => RangeLock::Free,
            (0, _) => RangeLock::Shared,
            _ => RangeLock::Exclusive,
        };
        if next.0 == offset || without >= strongest {
            continue;
        }
        match pieces.last_mut() {
            Some(last) if last.without == without && last.offset + last.length == offset => {
                last.length += next.0 - offset;
            }
            _ => pieces.push(Piece { offset, length: next.0 - offset, without }),
        }
    }
    pieces
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

    #[track_caller]
    fn check(others: &[Lock], lock: Lock, expected: &[(u64, u64, RangeLock)]) {
        let pieces: Vec<_> = weaker(others, &lock, both).iter().map(|it| (it.offset, it.length, it.without)).collect();
        assert_eq!(pieces, expected);
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
                let covers = |lock: &&Lock| bytes(lock).is_some_and(|(from, to)| (from..to).contains(&byte));
                locks.iter().filter(covers).map(both).max().unwrap_or(RangeLock::Free)
            };
            let mut kernel: Vec<_> = (0..40).map(|byte| strongest(others, byte)).collect();
            let before = kernel.clone();
            let pieces = weaker(others, last, both);
            for piece in &pieces {
                kernel[piece.offset as usize..(piece.offset + piece.length) as usize].fill(both(last));
            }
            prop_assert_eq!(&kernel, &(0..40).map(|byte| strongest(&locks, byte)).collect::<Vec<_>>());
            for piece in &pieces {
                kernel[piece.offset as usize..(piece.offset + piece.length) as usize].fill(piece.without);
            }
            prop_assert_eq!(kernel, before);
        }
    }
}
