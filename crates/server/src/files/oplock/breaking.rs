//! The oplocks and leases that an operation breaks ([MS-FSA] 2.1.4.12).

use std::time::Duration;

use super::held_oplock::HeldOplock;
use super::{HANDLE, NOTHING, Opening, Oplocks, READ, WRITE, Wait};
use crate::files::lease::LeaseId;

impl Oplocks {
    /// [MS-FSA] 2.1.4.12, cases OPEN and OPEN_BREAK_H: breaks what an open breaks. `Some` if the open must wait.
    /// `violation`: the open violates share modes. A client with handle caching may have closed the file in the
    /// application already, so its handle cache is broken. Other caches do not matter then because the open fails.
    pub(in crate::files) fn open(&mut self, opening: Opening, violation: bool) -> Option<Wait> {
        let awaited = if violation { HANDLE } else { WRITE };
        let mut deadline = None;
        for held in &mut self.held {
            if held.is(opening.lease) || held.ignores(opening.touch) {
                continue;
            }
            // As Windows does, although [MS-FSA] 2.1.5.1.2 does not say so.
            let closes = opening.deletes && held.lease.is_some();
            let awaited = if closes { awaited | HANDLE } else { awaited };
            let waits = held.state.intersects(awaited);
            let mut to = held.state.without(awaited);
            if opening.overwrites && !violation {
                to = NOTHING;
            }
            if held.lease.is_none() {
                to = to & READ;
            }
            // Breaking an exclusive oplock without handle caching does not resolve a violation.
            if to == held.state || (violation && !waits) {
                continue;
            }
            if held.lease.is_none() && !waits {
                // Level II is broken without an acknowledgment, below.
                continue;
            }
            held.take_back(to, opening.now);
            if waits {
                deadline = deadline.max(held.deadline());
            }
        }
        if opening.overwrites && !violation {
            self.end_level_two();
        }
        Some(self.wait(deadline?))
    }

    /// Ends level II oplocks, without acknowledgments.
    fn end_level_two(&mut self) {
        let told = &mut self.told;
        self.held.retain_mut(|held| {
            let ends = held.lease.is_none() && held.state == READ && held.breaking.is_none();
            if ends {
                held.tell(NOTHING, false);
                told.extend(held.opens.iter().map(|(open, _)| *open));
            }
            !ends
        });
    }

    /// Breaks all leases with read caching except `by`.
    fn end_leases(&mut self, by: Option<LeaseId>, now: Duration) {
        for held in &mut self.held {
            if held.lease.is_some() && !held.is(by) && held.state.contains(READ) {
                held.take_back(NOTHING, now);
            }
        }
    }

    /// Breaks caches because the content changes or a range is locked (2.1.4.12, cases WRITE and LOCK_CONTROL). Level
    /// II also ends for the writer, but the writer's lease does not. There is nothing to wait for.
    pub(in crate::files) fn write(&mut self, lease: Option<LeaseId>, now: Duration) {
        if self.held.is_empty() {
            return;
        }
        self.end_level_two();
        self.end_leases(lease, now);
    }

    /// Breaks leases because the content of this directory changes (2.1.4.12 with PARENT_OBJECT). `by`: the lease under
    /// which the change is made.
    pub(in crate::files) fn directory_changes(&mut self, by: Option<LeaseId>, now: Duration) {
        self.end_leases(by, now);
    }

    /// Breaks handle caching because of a rename, a deletion or a new security descriptor (2.1.4.12, case
    /// SET_INFORMATION). `renames`: a batch oplock ends with it.
    pub(in crate::files) fn change_name(
        &mut self,
        open: u64,
        lease: Option<LeaseId>,
        renames: bool,
        now: Duration,
    ) -> Option<Wait> {
        let mut deadline = None;
        for held in &mut self.held {
            let own = held.is(lease) || held.is_of(open);
            if own || !held.state.contains(HANDLE) {
                continue;
            }
            match held.lease {
                Some(_) => held.take_back(held.state.without(HANDLE), now),
                None if renames => held.take_back(NOTHING, now),
                None => continue,
            }
            deadline = deadline.max(held.deadline());
        }
        Some(self.wait(deadline?))
    }

    /// Breaks the oplock of `open` because a local program opens the file. Returns the deadline.
    pub(in crate::files) fn open_locally(&mut self, open: u64, now: Duration) -> Option<Duration> {
        let of = |held: &&mut HeldOplock| held.backing.is_some() && held.is_of(open);
        let held = self.held.iter_mut().find(of)?;
        held.take_back(NOTHING, now);
        held.deadline()
    }
}
