//! Byte-range locks of open files ([MS-FSA] 2.1.5.8, 2.1.5.9). [`super::byte_lock`] implements the rules; this module
//! notifies waiting requests.

use std::collections::HashMap;

use tokio::sync::oneshot;

use super::Table;
use super::byte_lock::{ByteLocks, Lock, NotLocked, Owner, Range, Refused, WaiterId};
use crate::policy::limits::LockBounds;
use crate::vfs::FileId;

/// The locks of one file, and the waiting requests.
#[derive(Default)]
pub(super) struct Locks {
    ranges: ByteLocks,
    waiting: HashMap<WaiterId, oneshot::Sender<()>>,
    last_waiter: u64,
}

/// A request that waits for its lock.
pub struct LockWait {
    id: WaiterId,
    /// Ready when the lock is granted, or never will be because its open was closed.
    pub granted: oneshot::Receiver<()>,
}

impl Locks {
    /// Whether no range is locked or waited for.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Removes an open with its locks.
    pub(super) fn close(&mut self, open: u64) {
        if self.ranges.is_empty() {
            return;
        }
        let closed = self.ranges.close(open);
        for id in closed.abandoned {
            self.waiting.remove(&id);
        }
        self.grant(closed.granted);
    }

    fn grant(&mut self, granted: Vec<WaiterId>) {
        for id in granted {
            if let Some(sender) = self.waiting.remove(&id) {
                // A cancelled request finds its lock granted when it cancels.
                let _ = sender.send(());
            }
        }
    }
}

impl Table {
    /// Locks all of `locks`, or none.
    pub fn lock(&self, file: FileId, locks: &[Lock], bounds: LockBounds) -> Result<(), Refused> {
        self.with(file, |state| state.locks.ranges.lock(locks, bounds)).unwrap_or(Ok(()))
    }

    /// Locks a range. Returns what to wait for if another lock conflicts.
    pub fn lock_or_wait(&self, file: FileId, lock: Lock, bounds: LockBounds) -> Result<Option<LockWait>, Refused> {
        self.with(file, |state| {
            let locks = &mut state.locks;
            locks.last_waiter += 1;
            let id = WaiterId(locks.last_waiter);
            if locks.ranges.lock_or_wait(lock, id, bounds)? {
                return Ok(None);
            }
            let (sender, granted) = oneshot::channel();
            locks.waiting.insert(id, sender);
            Ok(Some(LockWait { id, granted }))
        })
        .unwrap_or(Ok(None))
    }

    /// Cancels a wait; `false` if the lock has been granted already.
    pub fn cancel_lock(&self, file: FileId, wait: &LockWait) -> bool {
        self.with(file, |state| {
            state.locks.waiting.remove(&wait.id);
            state.locks.ranges.cancel(wait.id)
        })
        .unwrap_or(true)
    }

    /// Unlocks exactly a range that `owner` has locked.
    pub fn unlock(&self, file: FileId, owner: Owner, range: Range) -> Result<(), NotLocked> {
        self.with(file, |state| {
            let granted = state.locks.ranges.unlock(owner, range)?;
            state.locks.grant(granted);
            Ok(())
        })
        .unwrap_or(Err(NotLocked))
    }

    /// Removes one lock equal to `lock`.
    pub fn unlock_one(&self, file: FileId, lock: &Lock) -> Result<(), NotLocked> {
        self.with(file, |state| {
            let granted = state.locks.ranges.unlock_one(lock)?;
            state.locks.grant(granted);
            Ok(())
        })
        .unwrap_or(Err(NotLocked))
    }

    /// Returns the locks of one open on a file.
    pub fn locks_of(&self, file: FileId, open: u64) -> Vec<Lock> {
        self.with(file, |state| state.locks.ranges.held_by(open)).unwrap_or_default()
    }

    /// Returns the lock that [`Table::unlock`] would remove.
    pub fn meant(&self, file: FileId, owner: Owner, range: Range) -> Option<Lock> {
        self.with(file, |state| state.locks.ranges.meant(owner, range)).flatten()
    }

    /// Returns the number of times that exactly `lock` is held on a file.
    pub fn times_locked(&self, file: FileId, lock: &Lock) -> u32 {
        self.with(file, |state| state.locks.ranges.times(lock)).unwrap_or(0)
    }

    /// Returns the number of locks held on a file.
    pub fn lock_count(&self, file: FileId) -> usize {
        self.with(file, |state| state.locks.ranges.count()).unwrap_or(0)
    }

    /// Returns the number of locks that one open holds on a file.
    pub fn lock_count_of(&self, file: FileId, open: u64) -> usize {
        self.with(file, |state| state.locks.ranges.count_of(open)).unwrap_or(0)
    }

    /// Whether locks permit `open` to read `length` bytes.
    pub fn permits_read(&self, file: FileId, open: u64, offset: u64, length: u64) -> bool {
        self.permits(file, open, offset, length, ByteLocks::permits_read)
    }

    /// Whether locks permit `open` to write `length` bytes.
    pub fn permits_write(&self, file: FileId, open: u64, offset: u64, length: u64) -> bool {
        self.permits(file, open, offset, length, ByteLocks::permits_write)
    }

    /// Reading or writing zero bytes is always permitted ([MS-FSA] 2.1.5.3, 2.1.5.4).
    fn permits(
        &self,
        file: FileId,
        open: u64,
        offset: u64,
        length: u64,
        asks: impl Fn(&ByteLocks, Owner, Range) -> bool,
    ) -> bool {
        let Some(range) = Range::new(offset, length).filter(|_| length > 0) else { return true };
        self.with(file, |state| asks(&state.locks.ranges, Owner { open, key: 0 }, range)).unwrap_or(true)
    }

    /// Returns the locks held on a file, for status.
    pub fn locks(&self, file: FileId) -> Vec<Lock> {
        self.with(file, |state| state.locks.ranges.held()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proto::dtyp::AccessMask;
    use proto::smb2::create::ShareAccess;

    use super::*;
    use crate::files::{OpenName, ShareMode};
    use crate::vfs::RelPath;

    const BOUNDS: LockBounds = LockBounds { per_open: 9, per_file: 9, waiting: 9 };
    const FILE: FileId = FileId { device: 1, inode: 2, stream: 0 };

    fn lock(open: u64) -> Lock {
        Lock { owner: Owner { open, key: 0 }, range: Range::new(0, 10).expect("a range"), exclusive: true }
    }

    fn table() -> Table {
        let table = Table::default();
        for open in [1, 2] {
            let mode = ShareMode { access: AccessMask::FILE_ALL_ACCESS, share: ShareAccess(7) };
            let name = Arc::new(OpenName { volume: 1, path: parking_lot::Mutex::new(RelPath::root()) });
            table.add_for_test(FILE, open, mode, &name);
        }
        table
    }

    #[test]
    fn a_waiting_lock_is_granted_by_unlocking_and_by_closing() {
        for close in [false, true] {
            let table = table();
            table.lock(FILE, &[lock(1)], BOUNDS).expect("the first");
            assert!(!table.permits_read(FILE, 2, 9, 1) && table.permits_read(FILE, 2, 9, 0));
            let mut wait = table.lock_or_wait(FILE, lock(2), BOUNDS).expect("the lock must wait").expect("a conflict");
            assert!(wait.granted.try_recv().is_err());
            if close {
                table.close(FILE, 1, false);
            } else {
                table.unlock(FILE, lock(1).owner, lock(1).range).expect("locked");
            }
            assert_eq!(wait.granted.try_recv(), Ok(()));
            assert!(!table.cancel_lock(FILE, &wait), "granted already");
            assert_eq!(table.locks(FILE), [lock(2)]);
        }
    }

    #[test]
    fn a_cancelled_wait_is_never_granted() {
        let table = table();
        table.lock(FILE, &[lock(1)], BOUNDS).expect("the first");
        let wait = table.lock_or_wait(FILE, lock(2), BOUNDS).expect("the lock must wait").expect("a conflict");
        assert!(table.cancel_lock(FILE, &wait));
        table.unlock(FILE, lock(1).owner, lock(1).range).expect("locked");
        assert_eq!(table.locks(FILE), []);
    }
}
