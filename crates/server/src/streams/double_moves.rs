//! Keeps an AppleDouble file from being taken for that of no file while its file is renamed: the file gets its new name
//! first, and the AppleDouble file follows.

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// File systems share that many locks, so that one that hangs delays few others.
const LOCKS: usize = 64;

/// The locks of file systems.
pub(crate) struct DoubleMoves([RwLock<()>; LOCKS]);

impl Default for DoubleMoves {
    fn default() -> DoubleMoves {
        DoubleMoves(std::array::from_fn(|_| RwLock::new(())))
    }
}

/// A rename or deletion of a file; ends on drop.
pub(crate) struct Moving<'a>(#[expect(dead_code, reason = "a guard")] RwLockReadGuard<'a, ()>);

/// A removal of an AppleDouble file; ends on drop.
pub(crate) struct Removing<'a>(#[expect(dead_code, reason = "a guard")] RwLockWriteGuard<'a, ()>);

impl DoubleMoves {
    fn lock(&self, device: u64) -> &RwLock<()> {
        // The low bits of a device are its minor number, and the next ones its major number.
        &self.0[(device ^ device >> 8) as usize % LOCKS]
    }

    /// Starts a rename or deletion, after the removal of one AppleDouble file if that is in progress.
    pub(crate) async fn start(&self, device: u64) -> Moving<'_> {
        Moving(self.lock(device).read().await)
    }

    /// Starts a removal; `None` if a rename or deletion is in progress. It is not waited for, because those after it
    /// would wait too.
    pub(crate) fn remove(&self, device: u64) -> Option<Removing<'_>> {
        self.lock(device).try_write().ok().map(Removing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::block_on;

    #[test]
    fn nothing_is_removed_during_a_rename() {
        let moves = DoubleMoves::default();
        let renames = [block_on(moves.start(5)), block_on(moves.start(5))];
        assert!(moves.remove(5).is_none());
        assert!(moves.remove(6).is_some());
        drop(renames);
        assert!(moves.remove(5).is_some());
    }
}
