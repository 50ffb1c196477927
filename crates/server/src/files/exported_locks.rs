//! The locks of an open that are exported to the kernel (`posix locking`), as the kernel represents them: one lock per
//! byte, the strongest of the open.

use std::collections::HashMap;
use std::ops;

use super::byte_lock::{Lock, Range, Refused};
use super::coverage::Coverage;
use crate::vfs::{RangeChange, RangeLock};

/// The end of the bytes that the kernel can lock.
pub(crate) const END: u64 = 1 << 63;

/// Maximum number of system calls for one lock. Only a client that locks pieces first and then everything shared needs
/// several, and in each the kernel scans all of a file's locks.
const PIECES: usize = 256;

/// The locks of an open that the kernel has. Locked during changes, so that the kernel's state matches after concurrent
/// ones.
#[derive(Default)]
pub(crate) struct ExportedLocks(pub(crate) tokio::sync::Mutex<Exported>);

/// The exported locks of one open, and the bytes that they cover.
#[derive(Default)]
pub(crate) struct Exported {
    /// The number of times that each lock is exported.
    times: HashMap<(Range, bool), u32>,
    /// The bytes that are locked at all, and those that are locked exclusively.
    locked: Coverage,
    exclusive: Coverage,
}

impl Exported {
    /// Whether no lock is exported.
    pub(crate) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Returns how often a lock is exported.
    pub(crate) fn times(&self, lock: &Lock) -> u32 {
        self.times.get(&(lock.range, lock.exclusive)).copied().unwrap_or(0)
    }

    /// Adds a lock that the kernel has as `kind`, and appends the resulting changes.
    pub(crate) fn add(&mut self, lock: &Lock, kind: RangeLock, changes: &mut Vec<RangeChange>) -> Result<(), Refused> {
        let bytes = bytes(lock).filter(|_| kind != RangeLock::Free);
        if let Some(bytes) = &bytes {
            let before = changes.len();
            let weaker = self.weaker(bytes.clone(), kind).take(PIECES + 1);
            changes.extend(weaker.map(|(bytes, before)| change(&bytes, before, kind)));
            if changes.len() - before > PIECES {
                return Err(Refused::TooMany);
            }
            self.cover(kind, |coverage| coverage.add(bytes));
        }
        *self.times.entry((lock.range, lock.exclusive)).or_default() += 1;
        Ok(())
    }

    /// Removes a lock, and appends the resulting changes.
    pub(crate) fn remove(&mut self, lock: &Lock, kind: RangeLock, changes: &mut Vec<RangeChange>) {
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

/// Returns the bytes of a lock that the kernel can lock.
fn bytes(lock: &Lock) -> Option<ops::Range<u64>> {
    let (start, length) = (lock.range.offset(), lock.range.length());
    let end = start.saturating_add(length).min(END);
    (start < end).then_some(start..end)
}

fn change(bytes: &ops::Range<u64>, before: RangeLock, after: RangeLock) -> RangeChange {
    RangeChange { offset: bytes.start, length: bytes.end - bytes.start, before, after }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::files::byte_lock::Owner;

    fn lock(offset: u64, length: u64, exclusive: bool) -> Lock {
        let range = Range::new(offset, length).expect("a range");
        Lock { owner: Owner { open: 1, key: 0 }, range, exclusive }
    }

    /// Returns the kind for a handle with read and write access.
    fn both(lock: &Lock) -> RangeLock {
        if lock.exclusive { RangeLock::Exclusive } else { RangeLock::Shared }
    }

    fn known(locks: &[Lock]) -> Exported {
        let mut known = Exported::default();
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
    fn changes_to_the_locks_in_the_kernel() {
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
