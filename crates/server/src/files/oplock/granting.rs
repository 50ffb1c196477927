//! The part of a requested oplock or lease that is granted ([MS-FSA] 2.1.5.18, [MS-SMB2] 3.3.5.9).

use std::sync::Arc;

use proto::smb2::{LeaseState, OplockLevel};

use super::held_oplock::HeldOplock;
use super::{HANDLE, Holder, NOTHING, Oplocks, READ, WRITE, level, state};
use crate::files::lease::LeaseId;
use crate::vfs;

/// Further conditions of a grant.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// The file has no other opens, except for attributes.
    pub alone: bool,
    /// Several clients may cache the file for reading: `level2 oplocks` is set, and no range is locked.
    pub shared: bool,
    /// It is a directory. Write caching and oplocks do not apply.
    pub directory: bool,
}

/// A requested lease ([MS-SMB2] 3.3.5.9.8, 3.3.5.9.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseAsked {
    /// The lease.
    pub id: LeaseId,
    /// The requested state.
    pub state: LeaseState,
    /// The client's epoch; `None` in version 1.
    pub epoch: Option<u16>,
}

/// A granted lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseGranted {
    /// The granted state.
    pub state: LeaseState,
    /// A break is in progress.
    pub breaking: bool,
    /// Number of state changes; `None` for a lease of version 1, as determined by its first open.
    pub epoch: Option<u16>,
}

/// The caches of other opens.
struct Others {
    any: LeaseState,
    oplock: bool,
}

impl Oplocks {
    /// 2.1.5.18 with [MS-SMB2] 3.3.5.9 "Oplock Acquisition": grants `asked` or a lower level.
    pub(in crate::files) fn grant(
        &mut self,
        open: u64,
        asked: OplockLevel,
        circumstances: Circumstances,
        holder: Arc<dyn Holder>,
    ) -> OplockLevel {
        let others = self.others(open, None);
        let mut granted = state(asked);
        // A holder with handle caching would get a break on each open by the other client. Next to a holder with write
        // caching, which an open for attributes does not break, nothing can be cached.
        if others.any.intersects(HANDLE | WRITE) || circumstances.directory {
            return OplockLevel::NONE;
        }
        if !circumstances.alone || others.any != NOTHING {
            granted = granted & READ;
        }
        if !granted.contains(WRITE) && !circumstances.shared {
            return OplockLevel::NONE;
        }
        if granted != NOTHING {
            let opens = vec![(open, holder)];
            self.held.push(HeldOplock {
                lease: None,
                state: granted,
                breaking: None,
                epoch: None,
                opens,
                backing: None,
            });
        }
        level(granted)
    }

    /// As [`Oplocks::grant`], backed by a lease from the kernel. That is released if less or nothing is granted: an
    /// oplock with write caching, or none.
    pub(in crate::files) fn grant_backed(
        &mut self,
        open: u64,
        asked: OplockLevel,
        circumstances: Circumstances,
        holder: Arc<dyn Holder>,
        backing: Box<dyn vfs::Lease>,
    ) -> OplockLevel {
        let granted = self.grant(open, asked, Circumstances { shared: false, ..circumstances }, holder);
        if granted != OplockLevel::NONE
            && let Some(held) = self.held.last_mut()
        {
            held.backing = Some(backing);
        }
        granted
    }

    /// [MS-SMB2] 3.3.5.9.8, 3.3.5.9.11: grants a lease, or upgrades one that the client has.
    pub(in crate::files) fn grant_lease(
        &mut self,
        open: u64,
        asked: LeaseAsked,
        circumstances: Circumstances,
        holder: Arc<dyn Holder>,
    ) -> LeaseGranted {
        let others = self.others(open, Some(asked.id));
        let possible = if circumstances.directory { READ | HANDLE } else { READ | HANDLE | WRITE };
        let wanted = asked.state & possible;
        let mut granted = wanted;
        if !circumstances.alone || others.any != NOTHING {
            granted = granted.without(WRITE);
        }
        if others.oplock {
            granted = granted.without(HANDLE);
        }
        if others.any.intersects(WRITE)
            || !granted.contains(READ)
            || (!granted.contains(WRITE) && !circumstances.shared)
        {
            granted = NOTHING;
        }
        let Some(held) = self.held.iter_mut().find(|held| held.lease == Some(asked.id)) else {
            let epoch = asked.epoch.map(|epoch| epoch.wrapping_add(1));
            let opens = vec![(open, holder)];
            self.held.push(HeldOplock {
                lease: Some(asked.id),
                state: granted,
                breaking: None,
                epoch,
                opens,
                backing: None,
            });
            return LeaseGranted { state: granted, breaking: false, epoch };
        };
        held.opens.push((open, holder));
        // A lease is never downgraded by opens of its own client, and is upgraded only to the full requested state.
        let grows = granted == wanted && granted != held.state && granted.contains(held.state);
        if held.breaking.is_none() && grows {
            held.state = granted;
            held.epoch = held.epoch.map(|epoch| epoch.wrapping_add(1));
        }
        held.granted()
    }

    fn others(&self, open: u64, lease: Option<LeaseId>) -> Others {
        let mut others = Others { any: NOTHING, oplock: false };
        for held in self.held.iter().filter(|held| !held.is(lease) && !held.is_of(open)) {
            others.any |= held.state;
            others.oplock |= held.lease.is_none();
        }
        others
    }
}
