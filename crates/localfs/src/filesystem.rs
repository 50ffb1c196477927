//! The file systems of the shares. Each mount has its own threads, and a record of unsupported
//! operations. A file system mounted below a share is separate, and no thread that may not wait makes calls to it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};

use backing::executor::Executor;
use backing::workers::Settings;
use parking_lot::Mutex;
use rustix::fs::Statx;

use crate::file::Abilities;
use crate::identity::KernelIdentity;
use crate::quota::QuotaCache;

/// Maximum number of separate file systems. Those beyond it share one entry, which limits the number of threads.
const FILE_SYSTEMS: usize = 256;

/// Types of file systems of this kernel, as named in the mount table: those of [`crate::root::is_local`].
const LOCAL: [&str; 10] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "f2fs", "zfs", "bcachefs", "overlay"];

/// One file system.
pub(crate) struct FileSystem {
    /// The ID of its mount.
    pub(crate) mount: u64,
    pub(crate) abilities: Abilities,
    /// Makes calls at once if the file system is local to this machine.
    pub(crate) executor: Executor<KernelIdentity>,
    /// Which quotas it has.
    pub(crate) quotas: QuotaCache,
}

/// File systems by mount ID. A mount ID is not reused while something on the mount is open, and every holder of a file
/// system has something on it open.
static KNOWN: LazyLock<Mutex<HashMap<u64, Weak<FileSystem>>>> = LazyLock::new(Mutex::default);

/// Stand-ins for file systems beyond the maximum, by whether they are local.
static OTHERS: LazyLock<[Arc<FileSystem>; 2]> =
    LazyLock::new(|| [false, true].map(|local| Arc::new(FileSystem::new(0, local))));

impl FileSystem {
    /// Returns the file system of the file described by `stat`.
    pub(crate) fn of(stat: &Statx) -> Arc<FileSystem> {
        FileSystem::find(stat, || is_local(stat.stx_mnt_id))
    }

    /// Like [`FileSystem::of`], if it is already known whether it is local.
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
        let executor = Executor::new(local, KernelIdentity, Settings::default());
        FileSystem { mount, abilities: Abilities::default(), executor, quotas: QuotaCache::default() }
    }

    /// Returns whether the file system is local to this machine, so that it answers from its caches at once.
    pub(crate) fn is_local(&self) -> bool {
        self.executor.is_immediate()
    }
}

/// Returns whether the mount is of a local file system according to the kernel's mount table. A call to the file system
/// itself could wait.
fn is_local(mount: u64) -> bool {
    let read = || std::fs::read_to_string("/proc/thread-self/mountinfo");
    let Ok(Ok(table)) = crate::identity::as_process(read) else { return false };
    kind_of(&table, mount).is_some_and(|kind| LOCAL.contains(&kind))
}

/// Returns the file system type of a mount in a table in the format of proc_pid_mountinfo(5).
fn kind_of(table: &str, mount: u64) -> Option<&str> {
    let number = mount.to_string();
    let line = table.lines().find(|line| line.split(' ').next() == Some(&number))?;
    line.split_once(" - ")?.1.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_table_gives_the_type_of_a_mount() {
        let table = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                     122 22 0:40 / /mnt/with\\040space rw - fuse.sshfs host: rw\n23 22 0:5 / /proc rw - proc proc rw\n";
        assert_eq!(
            [22, 122, 23, 2].map(|mount| kind_of(table, mount)),
            [Some("ext4"), Some("fuse.sshfs"), Some("proc"), None]
        );
    }

    #[test]
    fn one_mount_is_one_file_system() {
        let stat =
            |path: &str| crate::root::stat(std::fs::File::open(path).expect("it exists")).expect("the file is open");
        let proc = FileSystem::of(&stat("/proc"));
        assert!(Arc::ptr_eq(&proc, &FileSystem::of(&stat("/proc/self"))) && !proc.is_local());
        assert!(!Arc::ptr_eq(&proc, &FileSystem::of(&stat("/"))));
    }
}
