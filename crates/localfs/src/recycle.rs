//! Moves of deleted files to a recycle bin. The directories of the bin stay open, so that a move needs one system call
//! more than a removal: the one that verifies that the path of the directory still leads there.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backing::Wait;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, RenameFlags};
use server::vfs::{Errno, FileId, Identity, Kind, RelPath, Replace, Result, SymlinkPolicy};

use crate::changes::rename_without_flags;
use crate::metadata::kind;
use crate::root::{Root, id, stat, stat_name};
use crate::watch::own;
use crate::{Share, errno, identity};

/// Maximum number of directories that one share keeps open.
const PER_SHARE: usize = 16;
/// Maximum number of directories that all shares keep open, because each takes a file descriptor.
const IN_ALL: usize = 256;

/// Number of directories that all shares keep open.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The directories of a share that received deleted files recently, the latest last.
#[derive(Default)]
pub(crate) struct Bins(Mutex<VecDeque<Arc<Bin>>>);

/// A directory, reached without following a link.
struct Bin {
    path: RelPath,
    id: FileId,
    fd: OwnedFd,
}

impl Bin {
    fn open(root: &Root, path: &RelPath) -> Result<(Arc<Bin>, bool)> {
        let fd = root.open_directory(path, SymlinkPolicy::NONE, Wait::Allowed)?;
        let found = stat(&fd)?;
        OPEN.fetch_add(1, Ordering::Relaxed);
        Ok((Arc::new(Bin { path: path.clone(), id: id(&found), fd }), root.is_home(&found)))
    }
}

impl Drop for Bin {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Bins {
    /// Returns the directory `path`. One that is open is used again if its path still leads to it.
    fn directory(&self, root: &Root, path: &RelPath) -> Result<Arc<Bin>> {
        let known = {
            let mut bins = self.0.lock();
            let at = bins.iter().position(|bin| bin.path == *path);
            at.and_then(|at| bins.remove(at))
        };
        let (bin, is_home) = match known.filter(|bin| root.still_leads_to(path, bin.id)) {
            Some(bin) => (bin, true),
            None => Bin::open(root, path)?,
        };
        if is_home {
            let mut bins = self.0.lock();
            while bins.len() >= PER_SHARE || (!bins.is_empty() && OPEN.load(Ordering::Relaxed) > IN_ALL) {
                bins.pop_front();
            }
            if OPEN.load(Ordering::Relaxed) <= IN_ALL && bins.iter().all(|other| other.path != *path) {
                bins.push_back(Arc::clone(&bin));
            }
        }
        Ok(bin)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl Share {
    pub(crate) fn recycle(
        &self,
        who: &Arc<Identity>,
        from: &RelPath,
        file: FileId,
        to: &RelPath,
        replace: Replace,
    ) -> Result<()> {
        let _own = own::names(self.root.path(), &[(from, false), (to, true)]);
        identity::assume(who)?;
        let (source, old) = self.root.parent(from)?;
        let here = self.named(&source, old, from, file)?;
        if kind(&here) == Kind::Directory {
            return Err(Errno::ISDIR);
        }
        let (Some(directory), Some(new)) = (to.parent(), to.name()) else { return Err(Errno::BUSY) };
        let target = self.bins.directory(&self.root, &directory)?;
        let moved = rustix::fs::renameat_with(&source, old, &target.fd, new, RenameFlags::NOREPLACE).map_err(errno);
        match moved {
            Ok(()) => {}
            Err(Errno::EXIST) if replace != Replace::Nothing => {
                let replaced = stat_name(&target.fd, new)?;
                if !replace.admits(id(&replaced)) {
                    return Err(Errno::EXIST);
                }
                // With two names of one file, the kernel would leave both.
                if id(&replaced) == id(&here) {
                    return rustix::fs::unlinkat(&source, old, AtFlags::empty()).map_err(errno);
                }
                rustix::fs::renameat(&source, old, &target.fd, new).map_err(errno)?;
                self.cache.forget(id(&replaced));
            }
            Err(Errno::INVAL) => rename_without_flags(&source, old, &target.fd, new)?,
            Err(error) => return Err(error),
        }
        self.unsynced.note(id(&here));
        Ok(())
    }
}
