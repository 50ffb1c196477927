//! The thread that writes the events of one destination.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::audit::Queue;

use super::output::{Failed, Output};

/// How long the thread waits for events. It then only waits again.
const IDLE: Duration = Duration::from_secs(3600);
/// How long it lets events gather before it waits again, so that not every request has to wake it.
const GATHERING: Duration = Duration::from_millis(10);
/// How long it waits after a destination has failed, so that the attempts cost little.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the log says that a destination still fails.
const REMINDER: Duration = Duration::from_secs(60);

/// How long a destination may take for a batch before it counts as one that accepts nothing.
const HANGS: Duration = Duration::from_secs(10);

/// Since when a thread writes its batch. A destination may neither accept it nor fail.
#[derive(Default)]
pub(super) struct Writing(Mutex<Option<Attempt>>);

struct Attempt {
    since: Instant,
    /// The log has it.
    reported: bool,
}

impl Writing {
    fn begin(&self, since: Instant) {
        *self.0.lock() = Some(Attempt { since, reported: false });
    }

    /// Returns whether the log has the attempt.
    fn end(&self) -> bool {
        self.0.lock().take().is_some_and(|attempt| attempt.reported)
    }

    /// Returns whether the attempt takes too long.
    pub(super) fn hangs(&self, now: Instant) -> bool {
        self.0.lock().as_ref().is_some_and(|attempt| now.saturating_duration_since(attempt.since) > HANGS)
    }

    /// Returns whether the attempt takes too long, once.
    pub(super) fn is_to_be_reported(&self, now: Instant) -> bool {
        self.hangs(now) && self.0.lock().as_mut().is_some_and(|attempt| !std::mem::replace(&mut attempt.reported, true))
    }
}

/// Writes the events of the queue, for as long as the process exists.
pub(super) fn run(queue: &Queue, mut output: Output, writing: Arc<Writing>) {
    let mut losses = Losses { writing, ..Losses::default() };
    loop {
        step(queue, &mut output, &mut losses, IDLE, PAUSE);
        if queue.is_idle() {
            thread::sleep(GATHERING);
        }
    }
}

/// What the log does not have yet.
#[derive(Default)]
pub(super) struct Losses {
    /// The events that were lost since the destination last worked.
    lost: u64,
    /// When the log got the reason of a failure that lasts.
    reported: Option<Instant>,
    writing: Arc<Writing>,
}

/// Writes the next events. If the destination fails, they are tried again until it works. Meanwhile others fill the
/// queue. The log has the number of those that did not fit once the destination works again.
pub(super) fn step(queue: &Queue, output: &mut Output, losses: &mut Losses, idle: Duration, pause: Duration) {
    let batch = queue.next(idle);
    if batch.reopens {
        output.close();
    }
    losses.lost += batch.lost;
    if batch.events.is_empty() {
        return;
    }
    let (mut rest, mut unacceptable) = (&batch.events[..], 0);
    loop {
        losses.writing.begin(Instant::now());
        let written = output.write(rest, losses.lost);
        let was_slow = losses.writing.end();
        match written {
            Ok(lost) => {
                if was_slow {
                    tracing::warn!(destination = output.name(), "the destination accepts audit events again");
                }
                unacceptable += lost;
                break;
            }
            Err(failed) => {
                rest = rest.get(failed.done..).unwrap_or_default();
                unacceptable += failed.lost;
                report(queue, output, losses, &failed);
                if queue.pause(pause) || !matches!(output, Output::File(_)) {
                    output.close();
                }
            }
        }
    }
    queue.written(batch.events.len(), unacceptable);
    let destination = output.name();
    let lost = std::mem::take(&mut losses.lost) + unacceptable as u64;
    if losses.reported.take().is_some() {
        queue.stalls(false);
        tracing::warn!(destination, "the destination accepts audit events again");
    }
    if lost > 0 {
        tracing::error!(destination, lost, "audit events were lost");
    }
}

/// Logs a failure, and from time to time that it lasts.
fn report(queue: &Queue, output: &Output, losses: &mut Losses, failed: &Failed) {
    queue.stalls(true);
    if losses.reported.is_some_and(|last| last.elapsed() < REMINDER) {
        return;
    }
    losses.reported = Some(Instant::now());
    let numbers = queue.numbers();
    tracing::error!(
        destination = output.name(),
        error = %failed.why,
        waiting = numbers.waiting,
        lost = numbers.lost,
        "cannot write audit events; they wait and are tried again"
    );
}
