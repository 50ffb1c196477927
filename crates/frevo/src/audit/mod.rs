//! The destinations of audit events (`vfs objects = full_audit`, `log level = auth_audit:3`): syslog, the journal, the
//! log, and files.
//!
//! Each destination has a queue and a thread of its own, so that one that blocks delays neither requests nor other
//! destinations. The thread exists from the first tree connect that needs it. Threads of the server act for a user at
//! times, so it first becomes the process.

mod fields;
mod journal;
mod json;
mod output;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::audit::{Destinations, Queue, QueueNumbers};
use server::policy::audit::Destination;

use self::output::Output;

/// The socket of the syslog daemon or the journal.
const SYSLOG: &str = "/dev/log";

/// The socket of the journal for its own protocol.
const JOURNAL: &str = "/run/systemd/journal/socket";

/// The queues of the destinations in use.
pub(crate) struct Audits {
    syslog: PathBuf,
    journal: PathBuf,
    queues: Mutex<HashMap<Destination, Arc<Queue>>>,
}

impl Audits {
    /// Creates the destinations of this host.
    pub(crate) fn new() -> Audits {
        Audits::with_sockets(Path::new(SYSLOG), Path::new(JOURNAL))
    }

    fn with_sockets(syslog: &Path, journal: &Path) -> Audits {
        Audits { syslog: syslog.to_owned(), journal: journal.to_owned(), queues: Mutex::default() }
    }

    /// Has the files opened again by their names, as after logrotate has renamed them.
    pub(crate) fn reopen(&self) {
        self.queues.lock().values().for_each(|queue| queue.reopen());
    }

    /// Waits until the events are written, but not longer than `time`. The log has the number of those that are not.
    pub(crate) fn drain(&self, time: Duration) {
        let end = Instant::now() + time;
        let queues: Vec<_> = self.queues.lock().iter().map(|(to, queue)| (name(to), Arc::clone(queue))).collect();
        while Instant::now() < end && queues.iter().any(|(_, queue)| !queue.is_idle()) {
            thread::sleep(Duration::from_millis(10));
        }
        for (destination, queue) in queues.iter().filter(|(_, queue)| !queue.is_idle()) {
            let lost = queue.numbers().waiting;
            tracing::error!(destination, lost, "the server stops before its audit events are written");
        }
    }

    fn output(&self, destination: &Destination) -> Output {
        match destination {
            Destination::Syslog => Output::syslog(&self.syslog),
            Destination::Journal => Output::journal(&self.journal),
            Destination::Log => Output::Log { json: false },
            Destination::JsonLog => Output::Log { json: true },
            Destination::File(path) => Output::file(path, true),
            Destination::Lines(path) => Output::file(path, false),
        }
    }
}

/// Returns the name of a destination in metrics and in the log.
fn name(destination: &Destination) -> String {
    match destination {
        Destination::Syslog => "syslog".to_owned(),
        Destination::Journal => "journal".to_owned(),
        Destination::Log => "log".to_owned(),
        Destination::JsonLog => "log (JSON)".to_owned(),
        Destination::File(path) | Destination::Lines(path) => path.display().to_string(),
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
            Err(error) => tracing::error!(%error, "audit events are lost: the thread cannot act as the process"),
        };
        if let Err(error) = thread::Builder::new().name("audit".to_owned()).spawn(write) {
            tracing::error!(%error, "audit events are lost: cannot start a thread");
        }
        queues.insert(destination.clone(), Arc::clone(&queue));
        queue
    }

    fn numbers(&self) -> Vec<(String, QueueNumbers)> {
        self.queues.lock().iter().map(|(destination, queue)| (name(destination), queue.numbers())).collect()
    }
}

#[cfg(test)]
mod tests;
