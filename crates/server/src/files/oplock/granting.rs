//! What is granted of an oplock or a lease that is asked for ([MS-FSA] 2.1.5.18, [MS-SMB2] 3.3.5.9).

use std::sync::Arc;

use proto::smb2::{LeaseState, OplockLevel};

use super::held::Held;
use super::{HANDLE, Holder, NOTHING, Oplocks, READ, WRITE, level, state};
use crate::files::lease::LeaseId;
use crate::vfs;

/// What else there is to be known for granting something.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// Nobody else has the file open, but to look at it.
    pub alone: bool,
    /// Several clients may cache the file for reading: `level2 oplocks`, and no range of it is locked.
    pub shared: bool,
    /// It is a directory: there is nothing to write, and oplocks are for files alone.
    pub directory: bool,
}

/// What is asked for with a lease ([MS-SMB2] 3.3.5.9.8, 3.3.5.9.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseAsked {
    /// Which lease.
    pub id: LeaseId,
    /// What the client would like to cache.
    pub state: LeaseState,
    /// The client's epoch; `None` in version 1.
    pub epoch: Option<u16>,
}

/// What was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseGranted {
    /// What the client may cache.
    pub state: LeaseState,
    /// A break is under way.
    pub breaking: bool,
    /// Counts the changes of state; `None` for a lease of version 1, which is what the first of its opens asked for.
    pub epoch: Option<u16>,
}

/// What others than an open cache.
struct Others {
    any: LeaseState,
    oplock: bool,
}

impl Oplocks {
    /// 2.1.5.18 with [MS-SMB2] 3.3.5.9 "Oplock Acquisition": what is granted of `asked`.
    pub(in crate::files) fn grant(
        &mut self,
        open: u64,
        asked: OplockLevel,
        circumstances: Circumstances,
        holder: Arc<dyn Holder>,
    ) -> OplockLevel {
        let others = self.others(open, None);
        let mut granted = state(asked);
        // Who keeps its handle for caching would have to be asked at each open of the other. Beside one who caches writing,
        // which an open that only looks at attributes leaves be, nothing can be cached.
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
            self.held.push(Held { lease: None, state: granted, breaking: None, epoch: None, opens, backing: None });
        }
        level(granted)
    }

    /// As [`Oplocks::grant`], with the kernel's lease behind it, which is given up where nothing or less is granted: an
    /// oplock that caches writing or none.
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

    /// [MS-SMB2] 3.3.5.9.8, 3.3.5.9.11: what is granted of a lease, or added to one that the client has.
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
            self.held.push(Held { lease: Some(asked.id), state: granted, breaking: None, epoch, opens, backing: None });
            return LeaseGranted { state: granted, breaking: false, epoch };
        };
        held.opens.push((open, holder));
        // A lease is never cut down by its own client's opens, and grows only by all that is asked for.
        let grows = granted == wanted && granted != held.state && granted.contains(held.state);
        if held.breaking.is_none() && grows {
            held.state = granted;
            held.epoch = held.epoch.map(|epoch| epoch.wrapping_add(1));
        }
        LeaseGranted { state: held.state, breaking: held.breaking.is_some(), epoch: held.epoch }
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
