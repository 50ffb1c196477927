//! Leases and advisory byte-range locks that the handles of one file hold against each other, as on Linux.

use crate::vfs::{Access, Errno, LeaseCallback, RangeLock, Result};

/// The leases and locks of one file.
#[derive(Default)]
pub(super) struct Kept {
    /// Handles with data access.
    data_opens: usize,
    lease: Option<(u64, LeaseCallback)>,
    locks: Vec<HeldLock>,
}

/// A locked range.
#[derive(Clone, Copy)]
struct HeldLock {
    handle: u64,
    first: u64,
    last: u64,
    exclusive: bool,
}

impl HeldLock {
    fn overlaps(&self, other: &HeldLock) -> bool {
        self.first <= other.last && self.last >= other.first
    }

    /// Returns the parts of the range outside `hole`.
    fn without(self, hole: &HeldLock) -> impl Iterator<Item = HeldLock> {
        let before = (self.first < hole.first).then(|| HeldLock { last: self.last.min(hole.first - 1), ..self });
        let behind = (self.last > hole.last).then(|| HeldLock { first: self.first.max(hole.last + 1), ..self });
        before.into_iter().chain(behind)
    }
}

fn reaches_data(access: Access) -> bool {
    access.read || access.write
}

impl Kept {
    pub(super) fn opened(&mut self, access: Access) {
        self.data_opens += usize::from(reaches_data(access));
    }

    pub(super) fn closed(&mut self, handle: u64, access: Access) {
        self.data_opens -= usize::from(reaches_data(access));
        self.locks.retain(|held| held.handle != handle);
        self.give_up(handle);
    }

    /// Returns the callback to notify of an open.
    pub(super) fn leased_to(&self) -> Option<LeaseCallback> {
        self.lease.as_ref().map(|(_, told)| LeaseCallback::clone(told))
    }

    pub(super) fn lease(&mut self, handle: u64, access: Access, told: LeaseCallback) -> Result<()> {
        if !reaches_data(access) {
            return Err(Errno::BADF);
        }
        if self.data_opens > 1 || self.lease.is_some() {
            return Err(Errno::AGAIN);
        }
        self.lease = Some((handle, told));
        Ok(())
    }

    pub(super) fn give_up(&mut self, handle: u64) {
        self.lease.take_if(|(holder, _)| *holder == handle);
    }

    pub(super) fn is_locked(&self, handle: u64, access: Access, bytes: &[u64]) -> Result<bool> {
        if !reaches_data(access) {
            return Err(Errno::BADF);
        }
        let has = |held: &HeldLock| bytes.iter().any(|byte| (held.first..=held.last).contains(byte));
        Ok(self.locks.iter().any(|held| held.handle != handle && has(held)))
    }

    pub(super) fn lock(
        &mut self,
        handle: u64,
        access: Access,
        offset: u64,
        length: u64,
        lock: RangeLock,
    ) -> Result<()> {
        let end = offset.checked_add(length).filter(|end| length > 0 && *end <= 1 << 63).ok_or(Errno::INVAL)?;
        let permitted = match lock {
            RangeLock::Free => true,
            RangeLock::Shared => access.read,
            RangeLock::Exclusive => access.write,
        };
        if !permitted {
            return Err(Errno::BADF);
        }
        let exclusive = lock == RangeLock::Exclusive;
        let new = HeldLock { handle, first: offset, last: end - 1, exclusive };
        let blocks = |held: &HeldLock| held.handle != handle && (exclusive || held.exclusive) && held.overlaps(&new);
        if lock != RangeLock::Free && self.locks.iter().any(blocks) {
            return Err(Errno::AGAIN);
        }
        let (own, others): (Vec<_>, Vec<_>) = self.locks.drain(..).partition(|held| held.handle == handle);
        self.locks = others;
        let apart = |held: HeldLock| if held.overlaps(&new) { held.without(&new).collect() } else { vec![held] };
        self.locks.extend(own.into_iter().flat_map(apart));
        if lock != RangeLock::Free {
            self.locks.push(new);
        }
        Ok(())
    }
}
