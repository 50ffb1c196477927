//! Health: whether the event loops and the file systems of shares answer, and whether a file system is full.
//!
//! [`watch`] looks at them twice a second: at the loops itself, at file systems on threads that may hang ([`probe`]),
//! and at GlusterFS through what its calls have experienced. A fault is logged when it begins and when it ends, is part
//! of the text for `systemctl status`, a metric, and in the answer of `frevo status --live` and `--ready`.

mod probe;
mod volumes;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use server::vfs::{FileSystemState, WorkerNumbers};

pub(crate) use self::watch::watch;

/// What is wrong. A share is the first one by name of those with the same file system.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// An event loop does not execute tasks: the clients on it get no responses.
    EventLoopBlocked {
        /// Its number, from 0.
        number: usize,
    },
    /// The file system of a share does not answer.
    FileSystemHangs {
        /// The share.
        share: String,
    },
    /// The file system of a share answers with an error.
    FileSystemBroken {
        /// The share.
        share: String,
        /// The error of the operating system.
        error: String,
    },
    /// The file system of a share has become read-only.
    FileSystemReadOnly {
        /// The share.
        share: String,
    },
    /// The file system of a share is full, or nearly.
    FileSystemFull {
        /// The share.
        share: String,
    },
    /// Calls to a volume of GlusterFS fail or hang.
    GlusterUnavailable {
        /// The volume.
        volume: String,
    },
}

impl Fault {
    /// The name of the fault in JSON and in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::EventLoopBlocked { .. } => "event_loop_blocked",
            Fault::FileSystemHangs { .. } => "file_system_hangs",
            Fault::FileSystemBroken { .. } => "file_system_broken",
            Fault::FileSystemReadOnly { .. } => "file_system_read_only",
            Fault::FileSystemFull { .. } => "file_system_full",
            Fault::GlusterUnavailable { .. } => "gluster_unavailable",
        }
    }

    /// The share or volume that is affected; `None` if all are.
    pub fn subject(&self) -> Option<&str> {
        match self {
            Fault::EventLoopBlocked { .. } => None,
            Fault::FileSystemHangs { share }
            | Fault::FileSystemBroken { share, .. }
            | Fault::FileSystemReadOnly { share }
            | Fault::FileSystemFull { share } => Some(share),
            Fault::GlusterUnavailable { volume } => Some(volume),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::EventLoopBlocked { number } => {
                write!(f, "event loop {number} is blocked; check the local disks, otherwise restart the server")
            }
            Fault::FileSystemHangs { share } => {
                write!(f, "share {share}: its file system does not answer; check its server or its disk")
            }
            Fault::FileSystemBroken { share, error } => {
                write!(f, "share {share}: its file system fails: {error}; check its path, its mount and its disk")
            }
            Fault::FileSystemReadOnly { share } => {
                write!(f, "share {share}: its file system has become read-only; look for errors in the kernel's log")
            }
            Fault::FileSystemFull { share } => write!(f, "share {share}: its file system is full; make space"),
            Fault::GlusterUnavailable { volume } => {
                write!(f, "GlusterFS volume {volume}: calls fail or hang; check its bricks and the network")
            }
        }
    }
}

/// The space of a share's file system, and how fast it answers.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct FileSystem {
    /// Size in bytes.
    pub size: u64,
    /// Bytes that users may still fill.
    pub available: u64,
    /// The time of the last answer.
    pub took: Duration,
    /// The threads that make its calls.
    pub workers: Option<WorkerNumbers>,
}

impl FileSystem {
    fn of(state: &FileSystemState, took: Duration) -> FileSystem {
        FileSystem { size: state.size, available: state.available, took, workers: None }
    }

    /// Returns whether too little is left for users: 1 %, or 1 GiB if that is less. A file system that `was_full` needs
    /// twice as much.
    fn is_full(&self, was_full: bool) -> bool {
        let least = (self.size / 100).min(1 << 30) * if was_full { 2 } else { 1 };
        self.size > 0 && self.available < least
    }
}

/// Maximum number of faults that are reported at a time, and that a look writes to the log.
const FAULTS: usize = 100;
/// After this time without a look, the health is not known.
const OUTDATED: Duration = Duration::from_secs(10);

/// What is known about the health of the server.
#[derive(Default)]
pub struct Health(Mutex<State>);

#[derive(Default)]
struct State {
    faults: Vec<Fault>,
    file_systems: BTreeMap<String, FileSystem>,
    /// The time of the last look.
    looked: Option<Instant>,
}

/// The answer to `frevo status --live` and `--ready`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Report {
    /// All event loops answer.
    pub live: bool,
    /// Clients can connect and are served.
    pub ready: bool,
    /// What is wrong. Faults of single shares do not make the server less ready.
    pub faults: Vec<Fault>,
}

impl Health {
    /// Returns the report; `stopping` if the server no longer accepts clients.
    pub fn report(&self, stopping: bool) -> Report {
        let faults = self.faults();
        let looks = self.0.lock().looked.is_none_or(|at| at.elapsed() < OUTDATED);
        let live = looks && !faults.iter().any(|fault| matches!(fault, Fault::EventLoopBlocked { .. }));
        Report { live, ready: live && !stopping, faults }
    }

    /// Returns the current faults, the most serious first, and at most [`FAULTS`].
    pub fn faults(&self) -> Vec<Fault> {
        self.0.lock().faults.iter().take(FAULTS).cloned().collect()
    }

    /// Returns the file systems of shares, up to `count`, by the name of the share.
    pub fn file_systems(&self, count: usize) -> Vec<(String, FileSystem)> {
        self.0.lock().file_systems.iter().take(count).map(|(share, it)| (share.clone(), *it)).collect()
    }

    /// Replaces the state. Logs the faults that begin and end. Returns whether there are any such.
    fn set(&self, mut faults: Vec<Fault>, file_systems: BTreeMap<String, FileSystem>) -> bool {
        faults.sort();
        faults.dedup();
        let state = State { faults: faults.clone(), file_systems, looked: Some(Instant::now()) };
        let before = std::mem::replace(&mut *self.0.lock(), state).faults;
        let new = |of: &[Fault], than: &[Fault]| {
            of.iter().filter(|it| than.binary_search(it).is_err()).take(FAULTS).cloned().collect::<Vec<_>>()
        };
        for begun in new(&faults, &before) {
            tracing::error!(fault = begun.name(), "{begun}");
        }
        for ended in new(&before, &faults) {
            tracing::info!(fault = ended.name(), of = ended.subject(), "a fault has ended");
        }
        before != faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_full_below_one_percent_or_one_gibibyte() {
        let of = |size, available| FileSystem { size, available, ..FileSystem::default() }.is_full(false);
        assert!(of(1 << 20, 0) && of(1 << 20, 10_484) && !of(1 << 20, 10_485));
        assert!(!of(20 << 40, 1 << 30) && of(20 << 40, (1 << 30) - 1));
        assert!(!of(0, 0), "a file system without a size");
        let still = |available| FileSystem { size: 1000, available, ..FileSystem::default() }.is_full(true);
        assert!(still(19) && !still(20));
    }

    #[test]
    fn only_blocked_loops_make_the_server_not_live() {
        let health = Health::default();
        let full = Fault::FileSystemFull { share: "a".into() };
        assert!(health.set(vec![full.clone(), full.clone()], BTreeMap::new()));
        assert!(!health.set(vec![full.clone()], BTreeMap::new()), "nothing new");
        assert_eq!(health.report(false), Report { live: true, ready: true, faults: vec![full] });
        assert!(!health.report(true).ready, "stopping");
        assert!(health.set(vec![Fault::EventLoopBlocked { number: 1 }], BTreeMap::new()));
        let report = health.report(false);
        assert!(!report.live && !report.ready);
        assert!(health.set(Vec::new(), BTreeMap::new()) && health.report(false).live);
    }
}
