//! Adds up what processes spend so that the sum never falls, although processes end between two readings.
//!
//! Each process counts with what it spent itself and with what its descendants had spent that ended. For the latter there
//! are two lower bounds, and the greater one counts: what the parent's `/proc/PID/stat` says of children that it waited for
//! (complete, but cut off to clock ticks, and without children whose end the parent ignores), and what the ended ones had
//! spent when they were last seen (exact, but without what they spent afterwards). So the sum is exact while no process
//! ends, and otherwise too small by less than a tick for each parent, for user and system time each.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Add, AddAssign};

use super::proc::Id;

/// What was spent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Spent {
    /// Processor time, nanoseconds.
    pub(super) cpu: u64,
    /// Of it in the kernel.
    pub(super) system: u64,
    /// Context switches; nobody tells those of ended processes, so they are what was last seen.
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

    /// What was spent since `earlier`.
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

/// A process as it is now. `reaped` must have been read before `cpu` of any of its children: a child that is still there
/// then is not in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) id: Id,
    /// Its parent, if that belongs to the server too.
    pub(super) parent: Option<Id>,
    /// What it spent itself, nanoseconds.
    pub(super) cpu: u64,
    /// Of it in the kernel.
    pub(super) system: u64,
    /// Context switches of each of its threads.
    pub(super) switches: BTreeMap<u32, u64>,
    /// What it waited for.
    pub(super) reaped: Spent,
}

#[derive(Default)]
struct Member {
    parent: Option<Id>,
    cpu: u64,
    system: u64,
    /// Context switches of each thread.
    threads: BTreeMap<u32, u64>,
    /// Context switches of threads that have ended.
    past_switches: u64,
    /// What descendants spent that have ended.
    ended: Spent,
}

/// The accounts of a server.
#[derive(Default)]
pub(super) struct Ledger {
    members: HashMap<Id, Member>,
    /// Of processes that ended and whose parents are unknown or have ended too.
    orphaned: Spent,
}

impl Ledger {
    /// Whether a process was there at the last reading.
    pub(super) fn knows(&self, id: &Id) -> bool {
        self.members.contains_key(id)
    }

    /// Takes in who is there now, and tells what all have spent, the ended ones too.
    pub(super) fn update(&mut self, seen: Vec<Seen>) -> Spent {
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

    /// The nearest ancestor that is still there.
    fn heir(&self, of: Id, is_there: impl Fn(&Id) -> bool) -> Option<Id> {
        let mut ancestor = self.members.get(&of)?.parent?;
        // No chain is longer than all of them; parents of an earlier reading could form a ring only if a number and its
        // start were given out twice.
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

    /// `self.ended` holds the descendants that ended since `before`.
    fn take(&mut self, before: Member, seen: Seen) {
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
    fn seen(pid: u32, parent: u32, cpu: u64, reaped: u64) -> Seen {
        let parent = (parent > 0).then_some(id(parent));
        let reaped = Spent { cpu: reaped, system: reaped, switches: 0 };
        Seen { id: id(pid), parent, cpu, system: cpu, switches: [(pid, cpu)].into(), reaped }
    }

    /// Processes with their parents, what they spent and what they waited for, and the sums of processor
    /// time and context switches that are expected.
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
    fn what_ended_is_not_lost() {
        // Not yet in the parent's ticks; in them with more; a parent that ignores how its children end.
        check(&[(&[(1, 0, 50, 0), (2, 1, 7, 0)], 57, 57), (&[(1, 0, 50, 0)], 57, 57), (&[(1, 0, 51, 0)], 58, 58)]);
        check(&[(&[(1, 0, 50, 0), (2, 1, 7, 0)], 57, 57), (&[(1, 0, 50, 10)], 60, 57)]);
        // A child that was never seen; then one that was, whose end is not enough for the next tick.
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
        // The first process ends, and what it forked stays, without a parent that is known.
        check(&[(&[(1, 0, 50, 10), (2, 1, 7, 0)], 67, 57), (&[(2, 0, 8, 0)], 68, 58), (&[], 68, 58)]);
    }

    #[test]
    fn a_number_that_is_given_out_again_is_another_process() {
        let mut ledger = Ledger::default();
        ledger.update(vec![seen(1, 0, 50, 0), seen(2, 1, 7, 0)]);
        let again = Seen { id: Id { pid: 2, started: 9 }, ..seen(2, 1, 3, 0) };
        assert_eq!(ledger.update(vec![seen(1, 0, 50, 0), again]).cpu, 60);
        assert!(ledger.knows(&Id { pid: 2, started: 9 }) && !ledger.knows(&id(2)));
    }

    #[test]
    fn threads_that_end_leave_their_switches() {
        let mut ledger = Ledger::default();
        let mut check = |threads: &[(u32, u64)], expected| {
            let seen = Seen { switches: threads.iter().copied().collect(), ..seen(1, 0, 0, 0) };
            assert_eq!(ledger.update(vec![seen]).switches, expected, "{threads:?}");
        };
        check(&[(1, 10), (2, 5)], 15);
        check(&[(1, 11), (3, 1)], 17);
        check(&[(1, 11)], 17);
        // Number 3 again, for another thread.
        check(&[(1, 11), (3, 4)], 21);
        check(&[(1, 11), (3, 1)], 22);
    }
}
