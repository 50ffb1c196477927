//! The task that looks at the event loops and at the file systems of shares.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use server::state::{OpenVolume, Server, VolumeId};
use server::vfs::{self, Space};
use tokio::runtime::Handle;
use tokio::time::MissedTickBehavior;

use super::probe::Probe;
use super::{Fault, FileSystem, Health};
use crate::event_loops::EventLoops;

/// How often faults are looked for.
const PERIOD: Duration = Duration::from_secs(1);
/// After this time without an answer there is a fault, so that it is reported within 5 seconds.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum number of file systems that are asked in a period. More are asked in turns.
const ASKED: usize = 256;

/// Looks for faults until the server ends. Calls `changed` when faults begin or end.
pub(crate) async fn watch(server: Arc<Server>, loops: EventLoops, health: Arc<Health>, changed: impl Fn()) {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut blocked, mut volumes) = (Loops::default(), Volumes::default());
    loop {
        ticks.tick().await;
        let mut faults = blocked.look(loops.handles(), PATIENCE);
        let (of_volumes, file_systems) = volumes.look(server.open_volumes(), PATIENCE);
        faults.extend(of_volumes);
        if health.set(faults, file_systems) {
            changed();
        }
    }
}

/// The event loops, each with a question.
#[derive(Default)]
struct Loops(Vec<Probe<()>>);

impl Loops {
    /// Asks the loops that have answered again, and returns those that have not for too long.
    fn look<'a>(&mut self, loops: impl Iterator<Item = &'a Handle>, patience: Duration) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (number, handle) in loops.enumerate() {
            match self.0.get_mut(number) {
                Some(probe) if probe.take().is_none() => {
                    if probe.waits() >= patience {
                        faults.push(Fault::EventLoopBlocked { number });
                    }
                }
                Some(probe) => *probe = Probe::ask(handle, async {}),
                None => self.0.push(Probe::ask(handle, async {})),
            }
        }
        faults
    }
}

/// The volumes of shares, and what is known about each.
#[derive(Default)]
struct Volumes {
    known: HashMap<VolumeId, Volume>,
    /// The number of the current look.
    look: u64,
}

struct Volume {
    /// The question, and the look in which it was asked.
    probe: Option<Probe<vfs::Result<Space>>>,
    asked: u64,
    /// Since when the volume has been being opened.
    opening: Option<Instant>,
    last: Option<vfs::Result<FileSystem>>,
    /// The last look in which the volume was open.
    seen: u64,
}

impl Volumes {
    /// Takes the answers of volumes, asks those that have waited longest for their turn, and returns the faults.
    fn look(&mut self, open: Vec<OpenVolume>, patience: Duration) -> (Vec<Fault>, BTreeMap<String, FileSystem>) {
        self.look += 1;
        let (mut faults, mut file_systems, mut idle) = (Vec::new(), BTreeMap::new(), Vec::new());
        for volume in open {
            let share = volume.share.to_string();
            let known = self.known.entry(volume.id.clone()).or_insert_with(Volume::new);
            known.seen = self.look;
            known.update(volume.is_being_opened());
            match known.fault(&share, patience) {
                Some(fault) => faults.push(fault),
                None => file_systems.extend(known.last.and_then(Result::ok).map(|it| (share, it))),
            }
            if known.probe.is_none() && !volume.is_being_opened() {
                idle.push((known.asked, volume));
            }
        }
        self.known.retain(|_, volume| volume.seen == self.look);
        idle.sort_by_key(|(asked, _)| *asked);
        for (_, volume) in idle.into_iter().take(ASKED) {
            if let Some(known) = self.known.get_mut(&volume.id) {
                known.asked = self.look;
                known.probe = Some(Probe::ask(&Handle::current(), volume.space()));
            }
        }
        (faults, file_systems)
    }
}

impl Volume {
    fn new() -> Volume {
        Volume { probe: None, asked: 0, opening: None, last: None, seen: 0 }
    }

    /// Takes the answer to the question, if there is one.
    fn update(&mut self, opening: bool) {
        self.opening = opening.then(|| self.opening.unwrap_or_else(Instant::now));
        if let Some((said, took)) = self.probe.as_ref().and_then(Probe::take) {
            self.probe = None;
            self.last = Some(said.map(|space| file_system(&space, took)));
        }
    }

    fn fault(&self, share: &str, patience: Duration) -> Option<Fault> {
        let share = share.to_owned();
        let waits = self.probe.as_ref().map(Probe::waits).max(self.opening.map(|since| since.elapsed()));
        match &self.last {
            _ if waits.is_some_and(|time| time >= patience) => Some(Fault::FileSystemHangs { share }),
            Some(Err(errno)) => {
                let error = std::io::Error::from_raw_os_error(errno.0).to_string();
                Some(Fault::FileSystemBroken { share, error })
            }
            Some(Ok(it)) if it.is_full() => Some(Fault::FileSystemFull { share }),
            _ => None,
        }
    }
}

fn file_system(space: &Space, took: Duration) -> FileSystem {
    let bytes = |blocks: u64| blocks.saturating_mul(u64::from(space.block_size));
    FileSystem { size: bytes(space.blocks), available: bytes(space.available), took }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const NOW: Duration = Duration::ZERO;

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
        let until = |watched: &mut Loops, faults: &[Fault]| {
            while watched.look(loops.handles(), NOW) != faults {
                std::thread::yield_now();
            }
        };
        until(&mut watched, &[]);
        let blocked = block(&loops, 1);
        until(&mut watched, &[Fault::EventLoopBlocked { number: 1 }]);
        drop(blocked);
        until(&mut watched, &[]);
    }

    #[tokio::test]
    async fn the_state_of_a_volume_follows_its_answers() {
        let share = || "s".to_owned();
        let mut volume = Volume::new();
        assert_eq!(volume.fault("s", NOW), None, "not asked yet");
        volume.update(true);
        assert_eq!(volume.fault("s", NOW), Some(Fault::FileSystemHangs { share: share() }), "being opened");
        volume.update(false);
        assert_eq!(volume.fault("s", NOW), None);
        volume.probe = Some(Probe::ask(&Handle::current(), std::future::pending()));
        volume.update(false);
        assert_eq!(volume.fault("s", NOW), Some(Fault::FileSystemHangs { share: share() }));
        assert_eq!(volume.fault("s", Duration::MAX), None, "it may still answer");
        let space = Space { block_size: 4096, blocks: 1000, free: 1000, available: 1000, id: 1 };
        for (said, expected) in [
            (Ok(space), None),
            (Ok(Space { available: 9, ..space }), Some(Fault::FileSystemFull { share: share() })),
            (Err(vfs::Errno::IO), {
                let error = "Input/output error (os error 5)".to_owned();
                Some(Fault::FileSystemBroken { share: share(), error })
            }),
        ] {
            volume.probe = Some(Probe::ask(&Handle::current(), std::future::ready(said)));
            while volume.probe.is_some() {
                tokio::task::yield_now().await;
                volume.update(false);
            }
            assert_eq!(volume.fault("s", NOW), expected);
        }
    }
}
