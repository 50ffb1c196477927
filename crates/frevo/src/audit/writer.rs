//! The thread that writes the lines of one destination.

use std::thread;
use std::time::Duration;

use server::audit::Queue;

use super::output::Output;

/// How long the thread waits for lines. It then only waits again.
const IDLE: Duration = Duration::from_secs(3600);
/// How long it lets lines gather before it waits again, so that not every request has to wake it.
const GATHERING: Duration = Duration::from_millis(10);
/// How long it waits after a destination has failed, so that the attempts cost little.
const PAUSE: Duration = Duration::from_secs(1);

/// Writes the lines of the queue, for as long as the process exists.
pub(super) fn run(queue: &Queue, mut output: Output) {
    let mut losses = Losses::default();
    loop {
        step(queue, &mut output, &mut losses, IDLE, PAUSE);
        if queue.is_idle() {
            thread::sleep(GATHERING);
        }
    }
}

/// The lines that are lost since the destination last worked.
#[derive(Default)]
pub(super) struct Losses {
    lost: u64,
    /// The log already has the reason.
    is_reported: bool,
}

/// Writes the next lines. Lines that are lost are counted, and the log has their number once the destination works
/// again.
pub(super) fn step(queue: &Queue, output: &mut Output, losses: &mut Losses, idle: Duration, pause: Duration) {
    let batch = queue.next(idle);
    if batch.reopens {
        output.close();
    }
    losses.lost += batch.lost;
    if batch.records.is_empty() {
        queue.written();
        return;
    }
    let destination = output.name();
    match output.write(&batch.records, losses.lost) {
        Ok(()) if losses.lost > 0 => {
            tracing::error!(destination, lost = losses.lost, "audit lines were lost; the destination works again");
            *losses = Losses::default();
        }
        Ok(()) => losses.is_reported = false,
        Err(failed) => {
            losses.lost += failed.lost as u64;
            if !std::mem::replace(&mut losses.is_reported, true) {
                tracing::error!(destination, error = %failed.why, "cannot write audit lines, which are lost");
            }
            output.close();
            thread::sleep(pause);
        }
    }
    queue.written();
}
