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
use self::writer::Writing;

/// The socket of the syslog daemon or the journal.
const SYSLOG: &str = "/dev/log";

/// The socket of the journal for its own protocol.
const JOURNAL: &str = "/run/systemd/journal/socket";

/// How often destinations are checked for one that hangs.
const WATCHING: Duration = Duration::from_secs(10);

type Queues = HashMap<Destination, (Arc<Queue>, Arc<Writing>)>;

/// The queues of the destinations in use.
pub(crate) struct Audits {
    syslog: PathBuf,
    journal: PathBuf,
    queues: Mutex<Queues>,
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
        self.queues.lock().values().for_each(|(queue, _)| queue.reopen());
    }

    /// Has the log name destinations that hang, until the task is aborted.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(WATCHING);
        loop {
            ticks.tick().await;
            self.report_hanging(Instant::now());
        }
    }

    /// Returns the number of destinations that hang and that the log did not have yet.
    fn report_hanging(&self, now: Instant) -> usize {
        let hanging: Vec<_> = {
            let queues = self.queues.lock();
            let hanging = queues.iter().filter(|(_, (_, writing))| writing.is_to_be_reported(now));
            hanging.map(|(destination, (queue, _))| (name(destination), queue.numbers().waiting)).collect()
        };
        // The log may wait for the same disk.
        for (destination, waiting) in &hanging {
            tracing::error!(destination, waiting, "the destination neither accepts audit events nor fails");
        }
        hanging.len()
    }

    /// Waits until the events are written, but not longer than `time`. The log has the number of those that are not.
    pub(crate) fn drain(&self, time: Duration) {
        let end = Instant::now() + time;
        let queues: Vec<_> = self.queues.lock().iter().map(|(to, (queue, _))| (name(to), Arc::clone(queue))).collect();
        while Instant::now() < end && queues.iter().any(|(_, queue)| !queue.is_idle()) {
            thread::sleep(Duration::from_millis(10));
        }
        for (destination, queue) in queues.iter().filter(|(_, queue)| !queue.is_idle()) {
            let numbers = queue.numbers();
            let (lost, lost_before) = (numbers.waiting, numbers.lost);
            tracing::error!(destination, lost, lost_before, "the server stops before its audit events are written");
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
        if let Some((queue, _)) = queues.get(destination) {
            return Arc::clone(queue);
        }
        let (queue, writing) = (Arc::<Queue>::default(), Arc::<Writing>::default());
        let (lines, output, attempt) = (Arc::clone(&queue), self.output(destination), Arc::clone(&writing));
        let write = move || match localfs::identity::as_process(|| ()) {
            Ok(()) => writer::run(&lines, output, attempt),
            Err(error) => tracing::error!(%error, "audit events are lost: the thread cannot act as the process"),
        };
        if let Err(error) = thread::Builder::new().name("audit".to_owned()).spawn(write) {
            tracing::error!(%error, "audit events are lost: cannot start a thread");
            // The next use of the destination tries it again.
            return queue;
        }
        queues.insert(destination.clone(), (Arc::clone(&queue), writing));
        queue
    }

    fn numbers(&self) -> Vec<(String, QueueNumbers)> {
        let (now, queues) = (Instant::now(), self.queues.lock());
        let numbers = queues.iter().map(|(destination, (queue, writing))| {
            let numbers = queue.numbers();
            (name(destination), QueueNumbers { stalled: numbers.stalled || writing.hangs(now), ..numbers })
        });
        numbers.collect()
    }
}

#[cfg(test)]
mod tests;
