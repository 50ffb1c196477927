//! One oplock or lease, and its break in progress.

use std::sync::Arc;
use std::time::Duration;

use proto::smb2::LeaseState;

use super::{ACKNOWLEDGMENT_TIME, Break, HANDLE, Holder, LeaseBreak, NOTHING, Touch, WRITE, level};
use crate::files::lease::LeaseId;
use crate::vfs;

/// The cache of one client, or of one open.
pub(super) struct HeldOplock {
    /// The lease; `None` for an oplock.
    pub(super) lease: Option<LeaseId>,
    pub(super) state: LeaseState,
    pub(super) breaking: Option<Breaking>,
    /// Number of state changes, in version 2 of leases.
    pub(super) epoch: Option<u16>,
    /// The opens that share it, the oldest first; one for an oplock.
    pub(super) opens: Vec<(u64, Arc<dyn Holder>)>,
    /// The kernel's lease that backs an oplock, so that it is also broken for local programs.
    pub(super) backing: Option<Box<dyn vfs::Lease>>,
}

/// A break that is not acknowledged yet.
#[derive(Clone, Copy)]
pub(super) struct Breaking {
    /// The state that the holder was told to keep.
    pub(super) requested: LeaseState,
    /// The state that later operations require.
    pub(super) required: LeaseState,
    pub(super) deadline: Duration,
}

impl HeldOplock {
    pub(super) fn is(&self, lease: Option<LeaseId>) -> bool {
        lease.is_some() && self.lease == lease
    }

    /// Whether `open` shares the oplock or lease.
    pub(super) fn is_of(&self, open: u64) -> bool {
        self.opens.iter().any(|(id, _)| *id == open)
    }

    /// Whether an operation with this extent leaves the cache intact.
    pub(super) fn ignores(&self, touch: Touch) -> bool {
        touch == Touch::Attributes || (touch == Touch::Security && self.lease.is_some())
    }

    /// Notifies the first holder that is reachable.
    pub(super) fn tell(&self, to: LeaseState, acknowledge: bool) -> bool {
        let what = match self.lease {
            None => Break::Oplock(level(to)),
            Some(id) => {
                let (from, epoch) = (self.state, self.epoch.unwrap_or(0));
                Break::Lease(LeaseBreak { id, from, to, epoch, acknowledge })
            }
        };
        let told = self.opens.iter().any(|(_, holder)| holder.broken(what));
        // All of them are called, without short-circuiting.
        told || self.opens.iter().filter(|(_, holder)| holder.unreachable(what)).count() > 0
    }

    /// Reduces the cache to `to`: at once for read caching alone, otherwise after the holder has written back and
    /// acknowledged.
    pub(super) fn take_back(&mut self, to: LeaseState, now: Duration) {
        // Read caching alone cannot be backed, because the kernel does not report writes by local programs that have
        // the file open.
        let to = if self.backing.is_some() { NOTHING } else { to };
        if let Some(breaking) = &mut self.breaking {
            breaking.required = breaking.required & to;
            return;
        }
        self.epoch = self.epoch.map(|epoch| epoch.wrapping_add(1));
        self.begin_break(to, now);
    }

    pub(super) fn begin_break(&mut self, to: LeaseState, now: Duration) {
        let acknowledge = self.state.intersects(WRITE | HANDLE);
        let told = self.tell(to, acknowledge);
        if acknowledge {
            // If no holder was notified, there will be no acknowledgment.
            let deadline = if told { now + ACKNOWLEDGMENT_TIME } else { now };
            self.breaking = Some(Breaking { requested: to, required: to, deadline });
        } else {
            self.state = to;
        }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.breaking.map(|breaking| breaking.deadline)
    }
}
