//! The task that looks for faults.

use std::sync::Arc;
use std::time::Duration;

use server::state::Server;
use tokio::runtime::Handle;
use tokio::time::MissedTickBehavior;

use super::probe::Probe;
use super::volumes::Volumes;
use super::{Fault, Health};
use crate::event_loops::EventLoops;

/// How often faults are looked for.
const PERIOD: Duration = Duration::from_millis(500);
/// After this time without an answer there is a fault, so that it is reported within 5 seconds.
const PATIENCE: Duration = Duration::from_millis(2_500);

/// Looks for faults until the server ends. Calls `changed` when faults begin or end.
pub(crate) async fn watch(server: Arc<Server>, loops: EventLoops, health: Arc<Health>, changed: impl Fn()) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut blocked, mut volumes) = (Loops::default(), Volumes::default());
    loop {
        ticks.tick().await;
        volumes.look(&server, PATIENCE);
        let (mut faults, file_systems) = volumes.found();
        faults.extend(blocked.look(loops.handles(), PATIENCE));
        faults.extend(of_gluster());
        if health.set(faults, file_systems) {
            changed();
        }
    }
}

/// Returns the volumes of GlusterFS whose calls fail or hang.
fn of_gluster() -> impl Iterator<Item = Fault> {
    let troubled = gluster::open_volumes().into_iter().filter(|it| it.failing_since.is_some() || it.hanging > 0);
    troubled.map(|it| Fault::GlusterUnavailable { volume: it.name })
}

/// The event loops, each with a question.
#[derive(Default)]
struct Loops(Vec<Probe<()>>);

impl Loops {
    /// Asks the loops that have answered again, and returns those that have not for too long.
    fn look<'a>(&mut self, loops: impl Iterator<Item = &'a Handle>, patience: Duration) -> Vec<Fault> {
        let ask = |on: &Handle| {
            // A loop that is blocked does not begin with it.
            let (probe, answer) = Probe::asked(|| ());
            on.spawn(async move { answer() });
            probe
        };
        let mut faults = Vec::new();
        for (number, handle) in loops.enumerate() {
            match self.0.get_mut(number) {
                Some(probe) if probe.take().is_none() => {
                    if probe.waits() >= patience {
                        faults.push(Fault::EventLoopBlocked { number });
                    }
                }
                Some(probe) => *probe = ask(handle),
                None => self.0.push(ask(handle)),
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// The loop `number` executes a task that ends when the sender is dropped.
    fn block(loops: &EventLoops, number: usize) -> mpsc::Sender<()> {
        let (sender, receiver) = mpsc::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let handle = loops.handles().nth(number).expect("a loop");
        handle.spawn(async move {
            let _ = begun.send(());
            let _ = receiver.recv();
        });
        begins.recv().expect("the task begins");
        sender
    }

    #[test]
    fn a_blocked_loop_is_a_fault_until_it_answers() {
        let loops = EventLoops::with_threads(2).expect("threads");
        let mut watched = Loops::default();
        const SHORT: Duration = Duration::from_millis(1);
        let until = |watched: &mut Loops, faults: &[Fault]| {
            while watched.look(loops.handles(), SHORT) != faults {
                std::thread::sleep(SHORT);
            }
        };
        until(&mut watched, &[]);
        let blocked = block(&loops, 1);
        until(&mut watched, &[Fault::EventLoopBlocked { number: 1 }]);
        assert!(watched.look(loops.handles(), Duration::from_secs(3600)).is_empty(), "it may still answer");
        drop(blocked);
        until(&mut watched, &[]);
    }
}
