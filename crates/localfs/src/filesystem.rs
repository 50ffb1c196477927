//! The file systems that shares lie on: one for each mount, with its own pace, its own threads, and what it turned out not
//! to do. Another one mounted beneath a share counts as itself, and no call to it is made where it may not wait.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use rustix::fs::Statx;
use server::answer::Answer;
use server::vfs::Result;

use crate::file::Abilities;
use crate::pace::Pace;
use crate::worker::{Lane, Workers};

/// File systems that are told apart. Those beyond it share one, so that there are not more threads than for so many.
const FILE_SYSTEMS: usize = 256;

/// Types of file systems of this kernel, as the table of mounts names them: those of [`crate::root::is_local`].
const LOCAL: [&str; 10] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "f2fs", "zfs", "bcachefs", "overlay"];

/// One file system.
pub(crate) struct FileSystem {
    /// The number of its mount.
    pub(crate) mount: u64,
    /// Whether it is one of this machine, which answers from its caches at once.
    local: bool,
    pace: Pace,
    pub(crate) abilities: Abilities,
    pub(crate) workers: Workers,
}

/// By mount. A mount's number is given to no other while something on it is open, and whoever keeps a file system has
/// something on it open.
static KNOWN: LazyLock<Mutex<HashMap<u64, Weak<FileSystem>>>> = LazyLock::new(Mutex::default);

/// What stands for those that are too many, by whether they are of this machine.
static OTHERS: LazyLock<[Arc<FileSystem>; 2]> =
    LazyLock::new(|| [false, true].map(|local| Arc::new(FileSystem::new(0, local))));

impl FileSystem {
    /// The one that what `stat` tells of lies on.
    pub(crate) fn of(stat: &Statx) -> Arc<FileSystem> {
        FileSystem::find(stat, || is_local(stat.stx_mnt_id))
    }

    /// The same where somebody has asked it what it is.
    pub(crate) fn of_root(stat: &Statx, local: bool) -> Arc<FileSystem> {
        FileSystem::find(stat, || local)
    }

    fn find(stat: &Statx, local: impl FnOnce() -> bool) -> Arc<FileSystem> {
        let mut known = KNOWN.lock();
        if let Some(found) = known.get(&stat.stx_mnt_id).and_then(Weak::upgrade) {
            return found;
        }
        known.retain(|_, known| known.strong_count() > 0);
        let local = local();
        if known.len() >= FILE_SYSTEMS {
            return Arc::clone(&OTHERS[usize::from(local)]);
        }
        let new = Arc::new(FileSystem::new(stat.stx_mnt_id, local));
        known.insert(stat.stx_mnt_id, Arc::downgrade(&new));
        new
    }

    fn new(mount: u64, local: bool) -> FileSystem {
        let (pace, abilities, workers) = Default::default();
        FileSystem { mount, local, pace, abilities, workers }
    }

    /// Whether it is one of this machine, which answers from its caches at once.
    pub(crate) fn is_local(&self) -> bool {
        self.local
    }

    /// Whether it takes changes quickly now.
    pub(crate) fn is_quick(&self) -> bool {
        self.local && self.pace.is_quick()
    }

    /// Makes a change, noting how long it takes.
    pub(crate) fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        self.pace.timed(work)
    }

    /// Does `work` on one of its threads, for the user `uid`.
    pub(crate) fn later<T: Send + 'static>(
        &self,
        uid: u32,
        lane: Lane,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        self.workers.later(uid, lane, work)
    }
}

/// Whether the mount is of a file system of this machine, by the kernel's table of mounts: asking the file system itself
/// could wait.
fn is_local(mount: u64) -> bool {
    let read = || std::fs::read_to_string("/proc/thread-self/mountinfo");
    let Ok(Ok(table)) = crate::identity::as_process(read) else { return false };
    kind_of(&table, mount).is_some_and(|kind| LOCAL.contains(&kind))
}

/// The type of the file system of a mount, in a table of the form of proc_pid_mountinfo(5).
fn kind_of(table: &str, mount: u64) -> Option<&str> {
    let number = mount.to_string();
    let line = table.lines().find(|line| line.split(' ').next() == Some(&number))?;
    line.split_once(" - ")?.1.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_of_the_type_that_the_table_says() {
        let table = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                     122 22 0:40 / /mnt/with\\040space rw - fuse.sshfs host: rw\n23 22 0:5 / /proc rw - proc proc rw\n";
        assert_eq!(
            [22, 122, 23, 2].map(|mount| kind_of(table, mount)),
            [Some("ext4"), Some("fuse.sshfs"), Some("proc"), None]
        );
    }

    #[test]
    fn one_mount_is_one_file_system() {
        let stat = |path: &str| crate::root::stat(std::fs::File::open(path).expect("it is there")).expect("it is open");
        let proc = FileSystem::of(&stat("/proc"));
        assert!(Arc::ptr_eq(&proc, &FileSystem::of(&stat("/proc/self"))) && !proc.is_local());
        assert!(!Arc::ptr_eq(&proc, &FileSystem::of(&stat("/"))));
    }
}
