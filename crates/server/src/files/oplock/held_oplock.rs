//! One oplock or lease, and its break in progress.

use std::sync::Arc;
use std::time::Duration;

use proto::smb2::LeaseState;

use super::{ACKNOWLEDGMENT_TIME, Break, HANDLE, Holder, LeaseBreak, LeaseGranted, NOTHING, Touch, WRITE, level};
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
    /// The latest deadline. A client that reclaims its open again and again does not delay the break any longer.
    latest: Duration,
    /// The open whose holder was notified; `None` if the client is notified when it reclaims its open.
    told: Option<u64>,
}

/// The outcome of a notification.
pub(super) enum Told {
    /// The holder of this open was notified.
    By(u64),
    /// The client is notified when it reclaims its open.
    Later,
    /// No holder was notified, and none will be.
    Nobody,
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

    /// Returns what is held.
    pub(super) fn granted(&self) -> LeaseGranted {
        LeaseGranted { state: self.state, breaking: self.breaking.is_some(), epoch: self.epoch }
    }

    fn notification(&self, to: LeaseState, acknowledge: bool) -> Break {
        let Some(id) = self.lease else { return Break::Oplock(level(to)) };
        let (from, epoch) = (self.state, self.epoch.unwrap_or(0));
        Break::Lease(LeaseBreak { id, from, to, epoch, acknowledge })
    }

    /// Notifies the first holder that is reachable.
    pub(super) fn tell(&self, to: LeaseState, acknowledge: bool) -> Told {
        let what = self.notification(to, acknowledge);
        if let Some((open, _)) = self.opens.iter().find(|(_, holder)| holder.broken(what)) {
            return Told::By(*open);
        }
        // All of them are called, without short-circuiting.
        let returning = self.opens.iter().filter(|(_, holder)| holder.unreachable()).count();
        if returning > 0 { Told::Later } else { Told::Nobody }
    }

    /// Continues the epoch after a restart of the server, which may have lost a later one ([MS-SMB2], note <353>): from
    /// the client's last epoch, plus one if `state`, which the client has, is not what it still has.
    pub(super) fn resume_epoch(&mut self, state: LeaseState, epoch: u16) {
        let is_same = state == self.state && state.contains(WRITE);
        let epoch = epoch.wrapping_add(u16::from(!is_same));
        // Half of the numbers are ahead.
        if let Some(known) = self.epoch.as_mut().filter(|known| epoch.wrapping_sub(**known) < 0x8000) {
            *known = epoch;
        }
    }

    /// Replaces the holder of an open whose client has lost the connection. The client is notified of a break in
    /// progress, even if it was before, because the notification may be lost. If it was notified through another open
    /// of the lease, and has not lost that connection, it is not notified again. A break that has ended is not
    /// repeated: the client learns the state from the response.
    pub(super) fn change_holder(&mut self, open: u64, holder: Arc<dyn Holder>, now: Duration) {
        let mut opens = self.opens.iter_mut();
        if let Some(entry) = opens.find(|(id, _)| *id == open) {
            entry.1 = holder.clone();
        }
        let Some(breaking) = &mut self.breaking else { return };
        let told = breaking.told.filter(|told| *told != open);
        if self.opens.iter().any(|(id, other)| Some(*id) == told && other.is_connected()) {
            return;
        }
        // The kernel does not give a local program's open more time.
        if self.backing.is_none() {
            breaking.deadline = (now + ACKNOWLEDGMENT_TIME).min(breaking.latest);
        }
        breaking.told = Some(open);
        let to = breaking.requested;
        // A client ignores a notification with the epoch of the response ([MS-SMB2] 3.2.5.19.2).
        self.epoch = self.epoch.map(|epoch| epoch.wrapping_add(1));
        holder.broken(self.notification(to, true));
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
            let (deadline, told) = match told {
                Told::By(open) => (now + ACKNOWLEDGMENT_TIME, Some(open)),
                Told::Later => (now + ACKNOWLEDGMENT_TIME, None),
                // There will be no acknowledgment.
                Told::Nobody => (now, None),
            };
            let latest = now + 2 * ACKNOWLEDGMENT_TIME;
            self.breaking = Some(Breaking { requested: to, required: to, deadline, latest, told });
        } else {
            self.state = to;
        }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.breaking.map(|breaking| breaking.deadline)
    }
}
