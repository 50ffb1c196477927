//! The byte-range locks of one stream ([MS-FSA] 2.1.4.10, 2.1.5.8, 2.1.5.9; [MS-SMB2] 3.3.5.14).
//!
//! Pure: a waiting request is identified by a number that the caller chose, and each change returns the numbers of the
//! requests that it grants. Waiting requests are granted in the order of their arrival as far as the held locks permit.
//! A request that cannot be granted does not block later ones, and a new request need not queue behind a waiting one
//! that it conflicts with.
//!
//! Held locks are in two trees, ordered by their first bytes. Each node stores the largest last byte below it
//! ([`reach`]), so testing whether any lock overlaps a range takes logarithmic time. A waiting request is parked at one
//! lock that conflicts with it, and reconsidered when that lock is removed.
//!
//! The caller implements the sequence numbers of [MS-SMB2] 3.3.5.14, oplock breaks, and POSIX locks.

use crate::number_hash::NumberMap;
use crate::policy::limits::LockBounds;
use std::collections::{BTreeSet, HashMap};

use super::tree::Tree;

mod reach;
#[cfg(test)]
mod tests;

/// A range of bytes that does not extend beyond the last 64-bit offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Range {
    offset: u64,
    length: u64,
}

impl Range {
    /// Creates the range of `length` bytes from `offset`; `None` (STATUS_INVALID_LOCK_RANGE) if it extends too far.
    pub fn new(offset: u64, length: u64) -> Option<Range> {
        let reaches_too_far = length != 0 && offset.checked_add(length - 1).is_none();
        (!reaches_too_far).then_some(Range { offset, length })
    }

    /// First byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the last byte. For an empty range this is the byte before the first, as the specification computes it,
    /// and `None` for the empty range at 0, which overlaps nothing. An empty range overlaps a range if it lies strictly
    /// inside it.
    fn last(&self) -> Option<u64> {
        (self.offset > 0 || self.length > 0).then(|| self.offset.wrapping_add(self.length).wrapping_sub(1))
    }
}

/// The owner of a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner {
    /// The open, by a number that is unique among the opens of the stream.
    pub open: u64,
    /// The lock key; 0 for all locks of SMB 2.
    pub key: u32,
}

/// A requested lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lock {
    /// The requester.
    pub owner: Owner,
    /// The range to be locked.
    pub range: Range,
    /// Exclusive rather than shared.
    pub exclusive: bool,
}

/// Identifies a waiting request, by a number that the caller chose. Later requests for the same file have higher
/// numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WaiterId(pub u64);

/// The reason why a lock was not granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// STATUS_LOCK_NOT_GRANTED: another lock conflicts.
    Conflict,
    /// STATUS_INSUFFICIENT_RESOURCES: the open or the file has reached its limit of locks or waiting requests.
    TooMany,
}

/// STATUS_RANGE_NOT_LOCKED: the open has no lock of exactly that range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotLocked;

/// Result of closing an open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Closed {
    /// Requests of other opens that are granted now, in the order of their arrival.
    pub granted: Vec<WaiterId>,
    /// Requests of the closed open, which will never be granted.
    pub abandoned: Vec<WaiterId>,
}

/// All locks of one stream.
#[derive(Clone, Debug, Default)]
pub struct ByteLocks {
    exclusive: HeldLocks,
    shared: HeldLocks,
    /// The locks and waiting requests of each open.
    opens: NumberMap<u64, OpenLocks>,
    waiting: HashMap<WaiterId, WaitingLock>,
    /// The waiting requests, by a lock that conflicts with them.
    parked: HashMap<Lock, BTreeSet<WaiterId>>,
    /// Number of held locks.
    count: usize,
}

/// Locks of one kind, each with the number of times it is held.
type HeldLocks = Tree<(Range, Owner), u32>;

#[derive(Clone, Debug, Default)]
struct OpenLocks {
    /// Number of its locks.
    count: usize,
    /// Its distinct locks, with the key of their owner.
    held: BTreeSet<(Range, u32, bool)>,
    waiting: BTreeSet<WaiterId>,
}

#[derive(Clone, Copy, Debug)]
struct WaitingLock {
    lock: Lock,
    /// The lock that it is parked at.
    at: Lock,
}

impl ByteLocks {
    /// Whether there are no locks and no waiting requests.
    pub fn is_empty(&self) -> bool {
        self.opens.is_empty()
    }

    /// Returns all held locks.
    pub fn held(&self) -> Vec<Lock> {
        let of = |held: &HeldLocks, exclusive| {
            let locks = held.iter().map(|(&(range, owner), &count)| (Lock { owner, range, exclusive }, count));
            locks.flat_map(|(lock, count)| std::iter::repeat_n(lock, count as usize)).collect::<Vec<_>>()
        };
        [of(&self.exclusive, true), of(&self.shared, false)].concat()
    }

    /// Returns the locks of `open` in an order in which it could lock them again: exclusive locks before the shared
    /// ones that may lie within them.
    pub fn held_by(&self, open: u64) -> Vec<Lock> {
        let equal = |lock: Lock| std::iter::repeat_n(lock, self.times(&lock) as usize);
        let mut locks: Vec<_> = self.different_of(open).into_iter().flat_map(equal).collect();
        locks.sort_by_key(|lock| !lock.exclusive);
        locks
    }

    /// Returns the number of times that exactly `lock` is held.
    pub fn times(&self, lock: &Lock) -> u32 {
        self.kind(lock.exclusive).get(&(lock.range, lock.owner)).copied().unwrap_or(0)
    }

    /// Returns the number of held locks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of locks held by one open.
    pub fn count_of(&self, open: u64) -> usize {
        self.opens.get(&open).map_or(0, OpenLocks::total)
    }

    /// Locks all of `locks`, which belong to one open, or none of them. The elements are also checked against each
    /// other.
    pub fn lock(&mut self, locks: &[Lock], bounds: LockBounds) -> Result<(), Refused> {
        let Some(first) = locks.first() else { return Ok(()) };
        let of_open = self.opens.get(&first.owner.open).map_or(0, OpenLocks::total);
        if of_open.saturating_add(locks.len()) > bounds.per_open
            || self.count.saturating_add(locks.len()) > bounds.per_file
        {
            return Err(Refused::TooMany);
        }
        for (index, lock) in locks.iter().enumerate() {
            if self.in_the_way(lock).is_some() {
                // No other open has seen the locks of this call, so no request waits for them.
                locks[..index].iter().for_each(|lock| self.release(lock));
                return Err(Refused::Conflict);
            }
            self.hold(lock);
        }
        Ok(())
    }

    /// Locks `lock`, or queues it as `waiter`. Returns whether it was granted at once.
    pub fn lock_or_wait(&mut self, lock: Lock, waiter: WaiterId, bounds: LockBounds) -> Result<bool, Refused> {
        let Err(refused) = self.lock(&[lock], bounds) else { return Ok(true) };
        let at = self.in_the_way(&lock).filter(|_| refused == Refused::Conflict).ok_or(refused)?;
        if self.waiting.len() >= bounds.waiting {
            return Err(Refused::TooMany);
        }
        self.park(waiter, WaitingLock { lock, at });
        self.opens.entry(lock.owner.open).or_default().waiting.insert(waiter);
        Ok(false)
    }

    /// Removes the lock of `owner` on exactly `range`, an exclusive one before a shared one. Returns the requests that
    /// are granted by this.
    pub fn unlock(&mut self, owner: Owner, range: Range) -> Result<Vec<WaiterId>, NotLocked> {
        let lock = self.meant(owner, range).ok_or(NotLocked)?;
        self.unlock_one(&lock)
    }

    /// Returns the lock that [`ByteLocks::unlock`] would remove.
    pub fn meant(&self, owner: Owner, range: Range) -> Option<Lock> {
        let locks = [true, false].map(|exclusive| Lock { owner, range, exclusive });
        locks.into_iter().find(|lock| self.times(lock) > 0)
    }

    /// Removes one lock equal to `lock`. Returns the requests that are granted by this.
    pub fn unlock_one(&mut self, lock: &Lock) -> Result<Vec<WaiterId>, NotLocked> {
        if self.times(lock) == 0 {
            return Err(NotLocked);
        }
        self.release(lock);
        let woken = self.woken(lock);
        Ok(self.grant(woken))
    }

    /// Removes a waiting request; `false` if there is none, for example because it has been granted.
    pub fn cancel(&mut self, waiter: WaiterId) -> bool {
        let Some(WaitingLock { lock, at }) = self.waiting.remove(&waiter) else { return false };
        if let Some(parked) = self.parked.get_mut(&at) {
            parked.remove(&waiter);
            if parked.is_empty() {
                self.parked.remove(&at);
            }
        }
        self.alter_open(lock.owner.open, |open| _ = open.waiting.remove(&waiter));
        true
    }

    /// Removes all locks and waiting requests of `open`.
    pub fn close(&mut self, open: u64) -> Closed {
        let abandoned: Vec<_> = self.opens.get(&open).into_iter().flat_map(|it| it.waiting.iter().copied()).collect();
        for waiter in &abandoned {
            self.cancel(*waiter);
        }
        let mut woken = BTreeSet::new();
        for lock in self.different_of(open) {
            while self.times(&lock) > 0 {
                self.release(&lock);
            }
            woken.append(&mut self.woken(&lock));
        }
        Closed { granted: self.grant(woken), abandoned }
    }

    /// Whether `owner` may read `range`: no other owner has an exclusive lock on it.
    pub fn permits_read(&self, owner: Owner, range: Range) -> bool {
        reach::first(&self.exclusive, range, Some(owner)).is_none()
    }

    /// Whether `owner` may write `range`: no other owner has an exclusive lock on it, and no owner, not even `owner`
    /// itself, has a shared lock on it.
    pub fn permits_write(&self, owner: Owner, range: Range) -> bool {
        self.permits_read(owner, range) && reach::first(&self.shared, range, None).is_none()
    }

    /// Returns a lock that conflicts with a new one. Locks conflict if they overlap and one of them is exclusive,
    /// except for a shared lock within an exclusive one of the same owner.
    fn in_the_way(&self, new: &Lock) -> Option<Lock> {
        let lock = |exclusive| move |(range, owner)| Lock { owner, range, exclusive };
        if !new.exclusive {
            return reach::first(&self.exclusive, new.range, Some(new.owner)).map(lock(true));
        }
        let exclusive = reach::first(&self.exclusive, new.range, None).map(lock(true));
        exclusive.or_else(|| reach::first(&self.shared, new.range, None).map(lock(false)))
    }

    fn kind(&self, exclusive: bool) -> &HeldLocks {
        if exclusive { &self.exclusive } else { &self.shared }
    }

    fn kind_mut(&mut self, exclusive: bool) -> &mut HeldLocks {
        if exclusive { &mut self.exclusive } else { &mut self.shared }
    }

    /// Returns the distinct locks of `open`.
    fn different_of(&self, open: u64) -> Vec<Lock> {
        let lock =
            |&(range, key, exclusive): &(Range, u32, bool)| Lock { owner: Owner { open, key }, range, exclusive };
        self.opens.get(&open).into_iter().flat_map(|it| it.held.iter().map(lock)).collect()
    }

    fn hold(&mut self, lock: &Lock) {
        let &Lock { owner, range, exclusive } = lock;
        self.kind_mut(exclusive).change((range, owner), |times| Some(times.unwrap_or(0) + 1));
        self.count += 1;
        let open = self.opens.entry(owner.open).or_default();
        open.count += 1;
        open.held.insert((range, owner.key, exclusive));
    }

    /// Removes one held lock.
    fn release(&mut self, lock: &Lock) {
        let &Lock { owner, range, exclusive } = lock;
        self.kind_mut(exclusive)
            .change((range, owner), |times| times.map(|times| times - 1).filter(|times| *times > 0));
        self.count -= 1;
        let is_last = self.times(lock) == 0;
        self.alter_open(owner.open, |open| {
            open.count -= 1;
            if is_last {
                open.held.remove(&(range, owner.key, exclusive));
            }
        });
    }

    fn alter_open(&mut self, number: u64, alter: impl FnOnce(&mut OpenLocks)) {
        let Some(open) = self.opens.get_mut(&number) else { return };
        alter(open);
        if open.total() == 0 {
            self.opens.remove(&number);
        }
    }

    fn park(&mut self, waiter: WaiterId, waiting: WaitingLock) {
        self.parked.entry(waiting.at).or_default().insert(waiter);
        self.waiting.insert(waiter, waiting);
    }

    /// Returns the requests parked at a lock that is no longer held.
    fn woken(&mut self, lock: &Lock) -> BTreeSet<WaiterId> {
        if self.times(lock) > 0 { BTreeSet::new() } else { self.parked.remove(lock).unwrap_or_default() }
    }

    /// Grants the woken requests that can be granted, oldest first. All other requests still conflict with a lock.
    fn grant(&mut self, woken: BTreeSet<WaiterId>) -> Vec<WaiterId> {
        let mut granted = Vec::new();
        for waiter in woken {
            let Some(&WaitingLock { lock, .. }) = self.waiting.get(&waiter) else { continue };
            if let Some(at) = self.in_the_way(&lock) {
                self.park(waiter, WaitingLock { lock, at });
                continue;
            }
            self.hold(&lock);
            self.waiting.remove(&waiter);
            self.alter_open(lock.owner.open, |open| _ = open.waiting.remove(&waiter));
            granted.push(waiter);
        }
        granted
    }
}

impl OpenLocks {
    /// Returns the number of its locks and waiting requests.
    fn total(&self) -> usize {
        self.count + self.waiting.len()
    }
}
