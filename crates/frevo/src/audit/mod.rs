//! The destinations of audit lines (`vfs objects = full_audit`): syslog or the journal, the log, and JSON files.
//!
//! Each destination has a queue and a thread of its own, so that one that blocks delays neither requests nor other
//! destinations. The thread exists from the first tree connect that needs it. Threads of the server act for a user at
//! times, so it first becomes the process.

mod json;
mod output;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::audit::{Destinations, Queue};
use server::policy::audit::Destination;

use self::output::Output;

/// The socket of the syslog daemon or the journal.
const SYSLOG: &str = "/dev/log";

/// The queues of the destinations in use.
pub(crate) struct Audits {
    syslog: PathBuf,
    queues: Mutex<HashMap<Destination, Arc<Queue>>>,
}

impl Audits {
    /// Creates the destinations of this host.
    pub(crate) fn new() -> Audits {
        Audits::with_syslog(Path::new(SYSLOG))
    }

    fn with_syslog(socket: &Path) -> Audits {
        Audits { syslog: socket.to_owned(), queues: Mutex::default() }
    }

    /// Has the files opened again by their names, as after logrotate has renamed them.
    pub(crate) fn reopen(&self) {
        self.queues.lock().values().for_each(|queue| queue.reopen());
    }

    /// Waits until the lines are written, but not longer than `time`.
    pub(crate) fn drain(&self, time: Duration) {
        let end = Instant::now() + time;
        let queues: Vec<_> = self.queues.lock().values().cloned().collect();
        while Instant::now() < end && queues.iter().any(|queue| !queue.is_idle()) {
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn output(&self, destination: &Destination) -> Output {
        match destination {
            Destination::Syslog => Output::Syslog { socket: None, path: self.syslog.clone() },
            Destination::Log => Output::Log,
            Destination::File(path) => Output::File { file: None, path: path.clone() },
        }
    }
}

impl Default for Audits {
    fn default() -> Self {
        Self::new()
    }
}

impl Destinations for Audits {
    fn queue(&self, destination: &Destination) -> Arc<Queue> {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get(destination) {
            return Arc::clone(queue);
        }
        let queue = Arc::<Queue>::default();
        let (lines, output) = (Arc::clone(&queue), self.output(destination));
        let write = move || match localfs::identity::as_process(|| ()) {
            Ok(()) => writer::run(&lines, output),
            Err(error) => tracing::error!(%error, "audit lines are lost: the thread cannot act as the process"),
        };
        if let Err(error) = thread::Builder::new().name("audit".to_owned()).spawn(write) {
            tracing::error!(%error, "audit lines are lost: cannot start a thread");
        }
        queues.insert(destination.clone(), Arc::clone(&queue));
        queue
    }
}

#[cfg(test)]
mod tests;
