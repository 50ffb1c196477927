//! Searches for opens below a directory that is to be renamed. They look at all opens of the server, so they yield.

use std::time::Duration;

use super::Table;
use super::oplock::Wait;
use super::table::File;
use crate::vfs::{FileId, RelPath};
use crate::yielding::Work;

/// Number of opens that are looked at for a unit of work.
const OPENS_PER_UNIT: usize = 8;

impl Table {
    /// Called before a rename of the directory `path` of `volume`. `Some`, with the file, if a client that caches its
    /// handle of a file below the directory must close it first.
    pub async fn names_beneath_change(&self, volume: u64, path: &RelPath, now: Duration) -> Option<(FileId, Wait)> {
        self.search(|file, state| {
            let mut names = state.opens.iter().map(|entry| &entry.name);
            let beneath = names.any(|name| name.volume == volume && name.path.lock().is_beneath(path));
            // No open has this number.
            let nobody = 0;
            let wait = beneath.then(|| state.oplocks.change_name(nobody, None, true, now));
            Some((file, wait.flatten()?))
        })
        .await
    }

    /// Whether any file below the directory `path` of `volume` is open, or closed and being deleted; with `not_posix`,
    /// opens with POSIX semantics do not count.
    pub async fn is_open_beneath(&self, volume: u64, path: &RelPath, not_posix: bool) -> bool {
        self.search(|_, state| {
            let opens = state.opens.iter().filter(|entry| !(not_posix && entry.posix)).map(|entry| &entry.name);
            let mut names = opens.chain(state.doom.iter().map(|doom| &doom.name));
            names.any(|name| name.volume == volume && name.path.lock().is_beneath(path)).then_some(())
        })
        .await
        .is_some()
    }

    /// Returns whether a file below the directory `path` of the volume is deleted with its last open.
    pub async fn is_deleted_beneath(&self, volume: u64, path: &RelPath) -> bool {
        self.search(|_, state| {
            if !state.delete_pending && state.doom.is_none() {
                return None;
            }
            let doomed = state.doom.iter().map(|doom| &doom.name);
            let mut names = state.opens.iter().map(|entry| &entry.name).chain(doomed);
            names.any(|name| name.volume == volume && name.path.lock().is_beneath(path)).then_some(())
        })
        .await
        .is_some()
    }

    /// Returns the first result of `look` for an open file. Files may be opened and closed meanwhile.
    async fn search<T>(&self, mut look: impl FnMut(FileId, &mut File) -> Option<T>) -> Option<T> {
        let mut work = Work::new();
        for shard in &self.shards {
            let mut opens = 0;
            for (file, state) in shard.lock().iter_mut() {
                opens += state.opens.len();
                if let Some(found) = look(*file, state) {
                    return Some(found);
                }
            }
            work.spend(u32::try_from(1 + opens / OPENS_PER_UNIT).unwrap_or(u32::MAX)).await;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Waker};

    use parking_lot::Mutex;
    use proto::dtyp::AccessMask;
    use proto::smb2::create::ShareAccess;

    use super::*;
    use crate::answer::block_on;
    use crate::files::{OpenName, ShareMode};

    fn path(path: &str) -> RelPath {
        crate::testing::volume::path(path)
    }

    #[test]
    fn a_search_among_many_opens_lets_others_run() {
        let table = Table::default();
        let mode = ShareMode { access: AccessMask(0), share: ShareAccess(7) };
        for inode in 0..10_000 {
            let name = Arc::new(OpenName { volume: 1, path: Mutex::new(path(&format!("open/{inode}"))) });
            table.add_for_test(FileId { device: 1, inode, stream: 0 }, inode, mode, &name);
        }
        let other = path("other");
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(table.is_open_beneath(1, &other, false)).poll(&mut context).is_pending());
        assert!(pin!(table.is_deleted_beneath(1, &other)).poll(&mut context).is_pending());
        assert!(pin!(table.names_beneath_change(1, &other, Duration::ZERO)).poll(&mut context).is_pending());
        assert!(
            !block_on(table.is_open_beneath(1, &other, false))
                && !block_on(table.is_open_beneath(2, &path("open"), false))
        );
        assert!(block_on(table.is_open_beneath(1, &path("open"), false)));
    }
}
