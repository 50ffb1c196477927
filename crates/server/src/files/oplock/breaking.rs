//! What an operation breaks of the caches of others ([MS-FSA] 2.1.4.12).

use std::time::Duration;

use super::held::Held;
use super::{HANDLE, NOTHING, Opening, Oplocks, READ, WRITE, Wait};
use crate::files::lease::LeaseId;

impl Oplocks {
    /// [MS-FSA] 2.1.4.12, cases OPEN and OPEN_BREAK_H: breaks what an open breaks. `Some` where that must be waited for.
    /// `violation`: share modes of others forbid the open. A client that caches its handle may have closed the file long
    /// ago, so it is asked; what else is cached does not matter then, as the open fails.
    pub(in crate::files) fn open(&mut self, opening: Opening, violation: bool) -> Option<Wait> {
        let awaited = if violation { HANDLE } else { WRITE };
        let mut deadline = None;
        for held in &mut self.held {
            if held.is(opening.lease) || held.ignores(opening.touch) {
                continue;
            }
            // As Windows does, though [MS-FSA] 2.1.5.1.2 does not say so.
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
            // An exclusive oplock whose handle nobody keeps back does not help against a violation.
            if to == held.state || (violation && !waits) {
                continue;
            }
            if held.lease.is_none() && !waits {
                // Level II goes without a question, below.
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

    /// Level II ends; nobody need acknowledge.
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

    /// Leases by which others than `by` read end.
    fn end_leases(&mut self, by: Option<LeaseId>, now: Duration) {
        for held in &mut self.held {
            if held.lease.is_some() && !held.is(by) && held.state.contains(READ) {
                held.take_back(NOTHING, now);
            }
        }
    }

    /// The content changes, or a range is locked (2.1.4.12, cases WRITE and LOCK_CONTROL): nobody else's copy stays valid.
    /// Level II ends for the writer as well, a lease does not. Nobody is waited for.
    pub(in crate::files) fn write(&mut self, lease: Option<LeaseId>, now: Duration) {
        if self.held.is_empty() {
            return;
        }
        self.end_level_two();
        self.end_leases(lease, now);
    }

    /// Something in this directory changes (2.1.4.12 with PARENT_OBJECT). `by`: the lease under which the change is made.
    pub(in crate::files) fn directory_changes(&mut self, by: Option<LeaseId>, now: Duration) {
        self.end_leases(by, now);
    }

    /// A rename, a deletion or another security descriptor (2.1.4.12, case SET_INFORMATION): who keeps the file open only
    /// to be quick closes it. `renames`: a batch oplock ends with it.
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

    /// A local program opens the file. Answers by when the oplock of `open` is over.
    pub(in crate::files) fn open_locally(&mut self, open: u64, now: Duration) -> Option<Duration> {
        let of = |held: &&mut Held| held.backing.is_some() && held.is_of(open);
        let held = self.held.iter_mut().find(of)?;
        held.take_back(NOTHING, now);
        held.deadline()
    }
}
