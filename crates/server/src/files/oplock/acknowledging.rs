//! The end of a break, by an acknowledgment or by timeout.

use std::time::Duration;

use proto::smb2::{LeaseState, OplockLevel};
use proto::status::Status;

use super::Client;
use super::held_oplock::HeldOplock;
use super::{HANDLE, NOTHING, Oplocks, READ, level};
use crate::files::lease::LeaseId;

impl Oplocks {
    /// [MS-SMB2] 3.3.5.22.1 with [MS-FSA] 2.1.5.19: the holder acknowledges and keeps `level`. Returns the new level.
    pub(in crate::files) fn acknowledge(
        &mut self,
        open: u64,
        acknowledged: OplockLevel,
    ) -> Result<OplockLevel, Status> {
        // 2.1.5.19: the end of level II needs no acknowledgment.
        if let Some(index) = self.told.iter().position(|told| *told == open) {
            self.told.swap_remove(index);
            return Err(Status::INVALID_OPLOCK_PROTOCOL);
        }
        let of = |held: &&mut HeldOplock| held.lease.is_none() && held.is_of(open);
        let held = self.held.iter_mut().find(of).ok_or(Status::INVALID_DEVICE_STATE)?;
        let breaking = held.breaking.take().ok_or(Status::INVALID_DEVICE_STATE)?;
        let batch = held.state.contains(HANDLE);
        let (kept, result) = match acknowledged {
            OplockLevel::II => (breaking.requested, Ok(level(breaking.requested))),
            OplockLevel::NONE => (NOTHING, Ok(OplockLevel::NONE)),
            OplockLevel::EXCLUSIVE if batch => (NOTHING, Ok(OplockLevel::NONE)),
            OplockLevel::LEASE => (NOTHING, Err(Status::INVALID_PARAMETER)),
            _ => (NOTHING, Err(Status::INVALID_OPLOCK_PROTOCOL)),
        };
        held.state = kept;
        self.held.retain(|held| held.lease.is_some() || held.state != NOTHING);
        self.wake();
        result
    }

    /// Whether one of the opens that share the lease belongs to the user of `client`.
    pub(in crate::files) fn lease_is_of(&self, id: LeaseId, client: &Client<'_>) -> bool {
        let held = self.held.iter().find(|held| held.lease == Some(id));
        held.is_none_or(|held| held.opens.iter().any(|(_, holder)| holder.is_of(client)))
    }

    /// [MS-SMB2] 3.3.5.22.2: the holder of a lease acknowledges and keeps `kept`. Returns the new state.
    pub(in crate::files) fn acknowledge_lease(
        &mut self,
        id: LeaseId,
        kept: LeaseState,
        now: Duration,
    ) -> Result<LeaseState, Status> {
        let of = |held: &&mut HeldOplock| held.lease == Some(id);
        let held = self.held.iter_mut().find(of).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        let breaking = held.breaking.ok_or(Status::UNSUCCESSFUL)?;
        if !breaking.requested.contains(kept) {
            return Err(Status::REQUEST_NOT_ACCEPTED);
        }
        held.state = kept;
        held.breaking = None;
        if !breaking.required.contains(kept) {
            // Further breaks were requested meanwhile; they are combined into one. Read caching is removed last, so
            // that handles are closed before.
            let rest = if kept == READ { NOTHING } else { READ & kept };
            held.begin_break(breaking.required | rest, now);
            if let Some(again) = &mut held.breaking {
                again.required = breaking.required;
            }
        }
        if held.breaking.is_none() {
            self.wake();
        }
        Ok(kept)
    }

    /// [MS-SMB2] 3.3.6.1, 3.3.6.5: a holder that has not acknowledged in time loses its cache.
    pub(in crate::files) fn expire(&mut self, now: Duration) {
        let mut changed = false;
        self.held.retain_mut(|held| {
            let late = held.deadline().is_some_and(|deadline| deadline <= now);
            if late {
                held.state = NOTHING;
                held.breaking = None;
                changed = true;
            }
            !late || held.lease.is_some()
        });
        if changed {
            self.wake();
        }
    }
}
