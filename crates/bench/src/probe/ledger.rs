//! Adds up the resource use of processes so that the sum never falls, although processes end between two readings.
//!
//! Each process has its own use and the use of its descendants that have ended. For the descendants there are two lower
//! bounds, and the greater one is taken:
//!
//! - The parent's `/proc/PID/stat` has the times of children that it waited for. They are complete, but truncated to
//!   clock ticks, and exclude children whose end the parent ignores.
//! - The last reading has the use of each ended process. It is exact, but excludes anything used afterwards.
//!
//! The sum is therefore exact while no process ends. Otherwise it is too small by less than a tick for each parent, for
//! user time and for system time.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Add, AddAssign};

use super::proc::Id;

/// Resource use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Spent {
    /// Processor time, in nanoseconds.
    pub(super) cpu: u64,
    /// The part of it in the kernel.
    pub(super) system: u64,
    /// Context switches. For ended processes the value is the one last seen, because the kernel does not report a later
    /// one.
    pub(super) switches: u64,
}

impl Spent {
    fn at_least(self, other: Spent) -> Spent {
        Spent {
            cpu: self.cpu.max(other.cpu),
            system: self.system.max(other.system),
            switches: self.switches.max(other.switches),
        }
    }

    /// Returns the difference to `earlier`.
    pub(super) fn since(self, earlier: Spent) -> Spent {
        Spent {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            system: self.system.saturating_sub(earlier.system),
            switches: self.switches.saturating_sub(earlier.switches),
        }
    }
}

impl Add for Spent {
    type Output = Spent;

    fn add(self, other: Spent) -> Spent {
        Spent {
            cpu: self.cpu + other.cpu,
            system: self.system + other.system,
            switches: self.switches + other.switches,
        }
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Spent) {
        *self = *self + other;
    }
}

/// The current state of a process. `reaped` must have been read before the `cpu` of any of its children, so that it
/// does not include a child that still exists then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ProcessState {
    pub(super) id: Id,
    /// Its parent, if the parent belongs to the server too.
    pub(super) parent: Option<Id>,
    /// Its own processor time, in nanoseconds.
    pub(super) cpu: u64,
    /// The part of it in the kernel.
    pub(super) system: u64,
    /// Context switches of each of its threads.
    pub(super) switches: BTreeMap<u32, u64>,
    /// The use of the children that it waited for.
    pub(super) reaped: Spent,
}

#[derive(Default)]
struct Member {
    parent: Option<Id>,
    cpu: u64,
    system: u64,
    /// Context switches of each thread.
    threads: BTreeMap<u32, u64>,
    /// Context switches of ended threads.
    past_switches: u64,
    /// The use of ended descendants.
    ended: Spent,
}

/// The resource use of a server's processes over all readings.
#[derive(Default)]
pub(super) struct Ledger {
    members: HashMap<Id, Member>,
    /// The use of ended processes whose parents are unknown or have ended too.
    orphaned: Spent,
}

impl Ledger {
    /// Returns whether a process existed at the last reading.
    pub(super) fn contains(&self, id: &Id) -> bool {
        self.members.contains_key(id)
    }

    /// Records the current processes and returns the use of all processes, including ended ones.
    pub(super) fn update(&mut self, seen: Vec<ProcessState>) -> Spent {
        let mut now: HashMap<Id, Member> = seen.iter().map(|it| (it.id, Member::default())).collect();
        for (id, gone) in self.members.iter().filter(|(id, _)| !now.contains_key(id)).collect::<Vec<_>>() {
            let heir = self.heir(*id, |id| now.contains_key(id)).and_then(|heir| now.get_mut(&heir));
            *heir.map_or(&mut self.orphaned, |heir| &mut heir.ended) += gone.spent();
        }
        let mut sum = self.orphaned;
        for seen in seen {
            let before = self.members.remove(&seen.id).unwrap_or_default();
            let Some(member) = now.get_mut(&seen.id) else { continue };
            member.take(before, seen);
            sum += member.spent();
        }
        self.members = now;
        sum
    }

    /// Returns the nearest ancestor that still exists.
    fn heir(&self, of: Id, is_there: impl Fn(&Id) -> bool) -> Option<Id> {
        let mut ancestor = self.members.get(&of)?.parent?;
        // A chain has at most as many links as there are processes. Parents from an earlier reading could form a cycle
        // only if the same pid and start time were used twice.
        for _ in 0..self.members.len() {
            if is_there(&ancestor) {
                return Some(ancestor);
            }
            ancestor = self.members.get(&ancestor)?.parent?;
        }
        None
    }
}

impl Member {
    fn spent(&self) -> Spent {
        let switches = self.past_switches + self.threads.values().sum::<u64>();
        Spent { cpu: self.cpu, system: self.system, switches } + self.ended
    }

    /// `self.ended` holds the use of descendants that ended since `before`.
    fn take(&mut self, before: Member, seen: ProcessState) {
        self.ended = (self.ended + before.ended).at_least(seen.reaped);
        let has_ended = |(thread, count): &(&u32, &u64)| seen.switches.get(thread).is_none_or(|now| now < count);
        let ended: u64 = before.threads.iter().filter(has_ended).map(|(_, count)| count).sum();
        self.past_switches = before.past_switches + ended;
        self.parent = seen.parent;
        self.cpu = seen.cpu.max(before.cpu);
        self.system = seen.system.max(before.system);
        self.threads = seen.switches;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(pid: u32) -> Id {
        Id { pid, started: 1 }
    }

    /// A process with one thread, and as many switches as nanoseconds.
    fn seen(pid: u32, parent: u32, cpu: u64, reaped: u64) -> ProcessState {
        let parent = (parent > 0).then_some(id(parent));
        let reaped = Spent { cpu: reaped, system: reaped, switches: 0 };
        ProcessState { id: id(pid), parent, cpu, system: cpu, switches: [(pid, cpu)].into(), reaped }
    }

    /// Processes as (pid, parent, own time, time of reaped children), and the expected sums of processor time and
    /// context switches.
    type Reading<'a> = (&'a [(u32, u32, u64, u64)], u64, u64);

    fn check(readings: &[Reading<'_>]) {
        let mut ledger = Ledger::default();
        for (number, (processes, cpu, switches)) in readings.iter().enumerate() {
            let seen = processes.iter().map(|(pid, parent, cpu, reaped)| seen(*pid, *parent, *cpu, *reaped)).collect();
            let expected = Spent { cpu: *cpu, system: *cpu, switches: *switches };
            assert_eq!(ledger.update(seen), expected, "reading {number} of {readings:?}");
        }
    }

    #[test]
    fn time_of_ended_processes_is_kept() {
        // A child not yet in the parent's ticks; one that is in them, with more time; a parent that ignores the end of
        // its children.
        check(&[(&[(1, 0, 50, 0), (2, 1, 7, 0)], 57, 57), (&[(1, 0, 50, 0)], 57, 57), (&[(1, 0, 51, 0)], 58, 58)]);
        check(&[(&[(1, 0, 50, 0), (2, 1, 7, 0)], 57, 57), (&[(1, 0, 50, 10)], 60, 57)]);
        // A child that was never seen, then one that was seen, whose end is not enough for the next tick.
        check(&[
            (&[(1, 0, 50, 0)], 50, 50),
            (&[(1, 0, 50, 100)], 150, 50),
            (&[(1, 0, 50, 100), (3, 1, 7, 0)], 157, 57),
            (&[(1, 0, 50, 100)], 157, 57),
            (&[(1, 0, 50, 110)], 160, 57),
        ]);
        // A whole branch ends: child and grandchild.
        check(&[
            (&[(1, 0, 50, 0), (2, 1, 7, 10), (3, 2, 5, 0)], 72, 62),
            (&[(1, 0, 50, 20)], 72, 62),
            (&[(1, 0, 50, 30)], 80, 62),
        ]);
        // The first process ends, and the process that it forked remains, without a known parent.
        check(&[(&[(1, 0, 50, 10), (2, 1, 7, 0)], 67, 57), (&[(2, 0, 8, 0)], 68, 58), (&[], 68, 58)]);
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let mut ledger = Ledger::default();
        ledger.update(vec![seen(1, 0, 50, 0), seen(2, 1, 7, 0)]);
        let again = ProcessState { id: Id { pid: 2, started: 9 }, ..seen(2, 1, 3, 0) };
        assert_eq!(ledger.update(vec![seen(1, 0, 50, 0), again]).cpu, 60);
        assert!(ledger.contains(&Id { pid: 2, started: 9 }) && !ledger.contains(&id(2)));
    }

    #[test]
    fn switches_of_ended_threads_are_kept() {
        let mut ledger = Ledger::default();
        let mut check = |threads: &[(u32, u64)], expected| {
            let seen = ProcessState { switches: threads.iter().copied().collect(), ..seen(1, 0, 0, 0) };
            assert_eq!(ledger.update(vec![seen]).switches, expected, "{threads:?}");
        };
        check(&[(1, 10), (2, 5)], 15);
        check(&[(1, 11), (3, 1)], 17);
        check(&[(1, 11)], 17);
        // Thread number 3 is reused by another thread.
        check(&[(1, 11), (3, 4)], 21);
        check(&[(1, 11), (3, 1)], 22);
    }
}
