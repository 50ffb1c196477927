//! Health: whether the event loops and the file systems of shares answer, and whether a file system is full.
//!
//! [`watch`] looks at them every second. A fault is logged when it begins and when it ends, is part of the text for
//! `systemctl status`, a metric, and in the answer of `frevo status --live` and `--ready`.

mod probe;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub(crate) use self::watch::watch;

/// What is wrong.
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
        /// The share for which it was opened.
        share: String,
    },
    /// The file system of a share answers with an error.
    FileSystemBroken {
        /// The share for which it was opened.
        share: String,
        /// The error of the operating system.
        error: String,
    },
    /// The file system of a share is full, or nearly.
    FileSystemFull {
        /// The share for which it was opened.
        share: String,
    },
}

impl Fault {
    /// The name of the fault in JSON and in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::EventLoopBlocked { .. } => "event_loop_blocked",
            Fault::FileSystemHangs { .. } => "file_system_hangs",
            Fault::FileSystemBroken { .. } => "file_system_broken",
            Fault::FileSystemFull { .. } => "file_system_full",
        }
    }

    /// The share that is affected; `None` if all are.
    pub fn share(&self) -> Option<&str> {
        match self {
            Fault::EventLoopBlocked { .. } => None,
            Fault::FileSystemHangs { share }
            | Fault::FileSystemBroken { share, .. }
            | Fault::FileSystemFull { share } => Some(share),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::EventLoopBlocked { number } => write!(f, "event loop {number} is blocked; restart the server"),
            Fault::FileSystemHangs { share } => {
                write!(f, "share {share}: its file system does not answer; check its server or its disk")
            }
            Fault::FileSystemBroken { share, error } => {
                write!(f, "share {share}: its file system fails: {error}; check its mount and its disk")
            }
            Fault::FileSystemFull { share } => write!(f, "share {share}: its file system is full; make space"),
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
}

impl FileSystem {
    /// Returns whether too little is left for users: 1 %, or 1 GiB if that is less.
    fn is_full(&self) -> bool {
        self.size > 0 && self.available < (self.size / 100).min(1 << 30)
    }
}

/// Maximum number of faults that are reported at a time.
const FAULTS: usize = 100;

/// What is known about the health of the server.
#[derive(Default)]
pub struct Health(Mutex<State>);

#[derive(Clone, Default)]
struct State {
    faults: Vec<Fault>,
    file_systems: BTreeMap<String, FileSystem>,
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
        let live = !faults.iter().any(|fault| matches!(fault, Fault::EventLoopBlocked { .. }));
        Report { live, ready: live && !stopping, faults }
    }

    /// Returns the current faults.
    pub fn faults(&self) -> Vec<Fault> {
        self.0.lock().faults.clone()
    }

    /// Returns the file systems of shares, up to `count`, by the name of the share.
    pub fn file_systems(&self, count: usize) -> Vec<(String, FileSystem)> {
        self.0.lock().file_systems.iter().take(count).map(|(share, it)| (share.clone(), *it)).collect()
    }

    /// Replaces the state. Logs the faults that begin and end. Returns whether there are any such.
    fn set(&self, mut faults: Vec<Fault>, file_systems: BTreeMap<String, FileSystem>) -> bool {
        faults.sort();
        faults.dedup();
        faults.truncate(FAULTS);
        let before = std::mem::replace(&mut *self.0.lock(), State { faults: faults.clone(), file_systems });
        for begun in faults.iter().filter(|it| !before.faults.contains(it)) {
            tracing::error!(fault = begun.name(), "{begun}");
        }
        for ended in before.faults.iter().filter(|it| !faults.contains(it)) {
            tracing::info!(fault = ended.name(), share = ended.share(), "the fault has ended: {ended}");
        }
        before.faults != faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_full_below_one_percent_or_one_gibibyte() {
        let of = |size, available| FileSystem { size, available, ..FileSystem::default() }.is_full();
        assert!(of(1 << 20, 0) && of(1 << 20, 10_484) && !of(1 << 20, 10_485));
        assert!(!of(20 << 40, 1 << 30) && of(20 << 40, (1 << 30) - 1));
        assert!(!of(0, 0), "a file system without a size");
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
