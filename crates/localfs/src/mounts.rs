//! Changes of the process's mount table. A directory of a local file system may later be covered by one whose calls
//! wait for another machine.
//!
//! One thread of the process waits for changes, which the kernel reports to a program that polls the table. A call
//! therefore learns of them without a system call.

use std::fs::File;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use backing::recent_paths::RecentPaths;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno as Raw;
use server::vfs::RelPath;

use crate::identity;

/// Number of changes so far.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// The value of [`CHANGES`] after the thread has ended.
const UNKNOWN: u64 = u64::MAX;

/// A state of the mount table, from one change to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Era(u64);

/// Returns the present state of the mount table; `None` if changes are not reported.
pub(crate) fn era() -> Option<Era> {
    static IS_WATCHED: OnceLock<bool> = OnceLock::new();
    let changes = CHANGES.load(Ordering::Acquire);
    (changes != UNKNOWN && *IS_WATCHED.get_or_init(|| matches!(identity::as_process(watch), Ok(Ok(())))))
        .then_some(Era(changes))
}

/// Starts the thread.
fn watch() -> io::Result<()> {
    let table = File::open("/proc/thread-self/mountinfo")?;
    std::thread::Builder::new().name("mounts".to_owned()).spawn(move || count(&table)).map(drop)
}

/// The main loop of the thread.
fn count(table: &File) {
    let mut queue = [PollFd::new(table, PollFlags::PRI)];
    loop {
        match poll(&mut queue, None) {
            Ok(_) if queue[0].revents().contains(PollFlags::PRI) => _ = CHANGES.fetch_add(1, Ordering::Release),
            Err(Raw::INTR) => {}
            Ok(_) | Err(_) => return CHANGES.store(UNKNOWN, Ordering::Release),
        }
    }
}

/// Paths that led to directories on the mount of a share's root. A path is forgotten with the next change of the mount
/// table. If such changes are not reported, no path is remembered.
pub(crate) struct Ways(RecentPaths);

impl Ways {
    pub(crate) fn new(paths: RecentPaths) -> Ways {
        Ways(paths)
    }

    /// Records a path that was found on the mount. `era` was the state of the mount table before.
    pub(crate) fn note(&self, era: Option<Era>, path: &RelPath) {
        if let Some(Era(era)) = era {
            self.0.note_path_in(era, path);
        }
    }

    /// Returns whether the path leads to a directory on the mount.
    pub(crate) fn contains(&self, path: &RelPath) -> bool {
        era().is_some_and(|Era(era)| self.0.contains_in(era, path))
    }
}
