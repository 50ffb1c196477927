//! The byte-range locks of one stream ([MS-FSA] 2.1.4.10, 2.1.5.8, 2.1.5.9; [MS-SMB2] 3.3.5.14).
//!
//! Pure: a request that must wait is a number that the caller chose, and every change answers with the numbers of the
//! requests that are granted by it. Waiting requests are granted in the order in which they came, as far as the locks
//! that are held let them; one that cannot be granted does not hold up those behind it, and a new request need not
//! queue behind a waiting one with which it would conflict.
//!
//! Held locks are in two trees, by their first bytes, which know the furthest byte below each node ([`reach`]): whether
//! anything overlaps a range takes logarithmic time. A request that waits is parked at one lock that is in its way, and
//! looked at again when that one is gone.
//!
//! Left to the caller: the sequence numbers of [MS-SMB2] 3.3.5.14, the breaking of oplocks, and POSIX locks.

use std::collections::{BTreeSet, HashMap};

use super::tree::Tree;

mod reach;
#[cfg(test)]
mod tests;

/// A range of bytes, checked not to reach beyond the last offset that 64 bits have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Range {
    offset: u64,
    length: u64,
}

impl Range {
    /// `length` bytes from `offset`; `None` (STATUS_INVALID_LOCK_RANGE) where they reach too far.
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

    /// The last byte; for an empty range the byte before the first, as the specification computes it. `None` for the
    /// empty range at 0, which overlaps nothing. An empty range overlaps what it lies strictly inside of.
    fn last(&self) -> Option<u64> {
        (self.offset > 0 || self.length > 0).then(|| self.offset.wrapping_add(self.length).wrapping_sub(1))
    }
}

/// Whose lock it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner {
    /// The open, by a number that no other open of the stream has.
    pub open: u64,
    /// The lock key; 0 for all locks of SMB 2.
    pub key: u32,
}

/// A lock that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lock {
    /// Who asks.
    pub owner: Owner,
    /// What is to be locked.
    pub range: Range,
    /// Exclusive rather than shared.
    pub exclusive: bool,
}

/// A request that waits, by the number that its caller gave it: a later request of the same file has a higher one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WaiterId(pub u64);

/// Why a lock was not granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// STATUS_LOCK_NOT_GRANTED: another lock is in the way.
    Conflict,
    /// STATUS_INSUFFICIENT_RESOURCES: the open or the file has as many locks or waiting requests as it may have.
    TooMany,
}

/// STATUS_RANGE_NOT_LOCKED: the open has no lock of exactly that range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotLocked;

/// What closing an open did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Closed {
    /// Requests of other opens that are granted now, in the order in which they came.
    pub granted: Vec<WaiterId>,
    /// Requests of the closed open, which will never be granted.
    pub abandoned: Vec<WaiterId>,
}

/// How many locks and waiting requests there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Locks and waiting requests of one open.
    pub per_open: usize,
    /// Locks of one file.
    pub per_file: usize,
    /// Waiting requests of one file.
    pub waiting: usize,
}

/// All locks of one stream.
#[derive(Clone, Debug, Default)]
pub struct ByteLocks {
    exclusive: Held,
    shared: Held,
    /// What each open has and waits for.
    opens: HashMap<u64, OpenLocks>,
    waiting: HashMap<WaiterId, Waiting>,
    /// The waiting requests, by a lock that is in their way.
    parked: HashMap<Lock, BTreeSet<WaiterId>>,
    /// How many locks are held.
    count: usize,
}

/// Locks of one kind, each with the number of times that it is held.
type Held = Tree<(Range, Owner), u32>;

#[derive(Clone, Debug, Default)]
struct OpenLocks {
    /// How many locks it has.
    count: usize,
    /// Those locks, equal ones once, with the key of their owner.
    held: BTreeSet<(Range, u32, bool)>,
    waiting: BTreeSet<WaiterId>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    lock: Lock,
    /// The lock that it is parked at.
    at: Lock,
}

impl ByteLocks {
    /// Whether there is neither a lock nor anybody waiting for one.
    pub fn is_empty(&self) -> bool {
        self.opens.is_empty()
    }

    /// All locks that are held.
    pub fn held(&self) -> Vec<Lock> {
        let of = |held: &Held, exclusive| {
            let locks = held.iter().map(|(&(range, owner), &count)| (Lock { owner, range, exclusive }, count));
            locks.flat_map(|(lock, count)| std::iter::repeat_n(lock, count as usize)).collect::<Vec<_>>()
        };
        [of(&self.exclusive, true), of(&self.shared, false)].concat()
    }

    /// The locks of `open`, in an order in which it could lock them again: shared ones after the exclusive ones that they
    /// may lie in.
    pub fn held_by(&self, open: u64) -> Vec<Lock> {
        let equal = |lock: Lock| std::iter::repeat_n(lock, self.times(&lock) as usize);
        let mut locks: Vec<_> = self.different_of(open).into_iter().flat_map(equal).collect();
        locks.sort_by_key(|lock| !lock.exclusive);
        locks
    }

    /// How often exactly `lock` is held.
    pub fn times(&self, lock: &Lock) -> u32 {
        self.kind(lock.exclusive).get(&(lock.range, lock.owner)).copied().unwrap_or(0)
    }

    /// How many locks are held.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many locks one open holds.
    pub fn count_of(&self, open: u64) -> usize {
        self.opens.get(&open).map_or(0, OpenLocks::total)
    }

    /// Bytes of memory that all of it takes, as they are allocated.
    pub fn bytes(&self) -> usize {
        let different = self.exclusive.len() + self.shared.len();
        let index =
            different * 2 * size_of::<(Range, u32, bool)>() + self.opens.capacity() * size_of::<(u64, OpenLocks)>();
        let waiting = self.waiting.capacity() * size_of::<(WaiterId, Waiting)>() + self.waiting.len() * PARKED;
        let parked = self.parked.capacity() * size_of::<(Lock, BTreeSet<WaiterId>)>();
        self.exclusive.bytes() + self.shared.bytes() + index + waiting + parked
    }

    /// Locks all of `locks`, which have one open, or none of them. An array's elements are checked against each other,
    /// too.
    pub fn lock(&mut self, locks: &[Lock], bounds: Bounds) -> Result<(), Refused> {
        let Some(first) = locks.first() else { return Ok(()) };
        let of_open = self.opens.get(&first.owner.open).map_or(0, OpenLocks::total);
        if of_open.saturating_add(locks.len()) > bounds.per_open
            || self.count.saturating_add(locks.len()) > bounds.per_file
        {
            return Err(Refused::TooMany);
        }
        for (index, lock) in locks.iter().enumerate() {
            if self.in_the_way(lock).is_some() {
                // What this call has locked was never seen by anybody else, so nobody waits for it.
                locks[..index].iter().for_each(|lock| self.release(lock));
                return Err(Refused::Conflict);
            }
            self.hold(lock);
        }
        Ok(())
    }

    /// Locks `lock`, or queues it as `waiter`. Answers whether it was granted at once.
    pub fn lock_or_wait(&mut self, lock: Lock, waiter: WaiterId, bounds: Bounds) -> Result<bool, Refused> {
        let Err(refused) = self.lock(&[lock], bounds) else { return Ok(true) };
        let at = self.in_the_way(&lock).filter(|_| refused == Refused::Conflict).ok_or(refused)?;
        if self.waiting.len() >= bounds.waiting {
            return Err(Refused::TooMany);
        }
        self.park(waiter, Waiting { lock, at });
        self.opens.entry(lock.owner.open).or_default().waiting.insert(waiter);
        Ok(false)
    }

    /// Removes the lock that `owner` has on exactly `range`: an exclusive one before a shared one. Answers who is
    /// granted a lock by that.
    pub fn unlock(&mut self, owner: Owner, range: Range) -> Result<Vec<WaiterId>, NotLocked> {
        let lock = self.meant(owner, range).ok_or(NotLocked)?;
        self.unlock_one(&lock)
    }

    /// The lock that [`ByteLocks::unlock`] removes.
    pub fn meant(&self, owner: Owner, range: Range) -> Option<Lock> {
        let locks = [true, false].map(|exclusive| Lock { owner, range, exclusive });
        locks.into_iter().find(|lock| self.times(lock) > 0)
    }

    /// Removes one lock that is exactly `lock`. Answers who is granted a lock by that.
    pub fn unlock_one(&mut self, lock: &Lock) -> Result<Vec<WaiterId>, NotLocked> {
        if self.times(lock) == 0 {
            return Err(NotLocked);
        }
        self.release(lock);
        let woken = self.woken(lock);
        Ok(self.grant(woken))
    }

    /// Forgets a request that waits; `false` where there is none (it may have been granted already).
    pub fn cancel(&mut self, waiter: WaiterId) -> bool {
        let Some(Waiting { lock, at }) = self.waiting.remove(&waiter) else { return false };
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

    /// Whether `owner` may read `range`: no other owner has it locked exclusively.
    pub fn permits_read(&self, owner: Owner, range: Range) -> bool {
        reach::first(&self.exclusive, range, Some(owner)).is_none()
    }

    /// Whether `owner` may write `range`: no other owner has it locked exclusively, and nobody, not even `owner`
    /// itself, has it locked shared.
    pub fn permits_write(&self, owner: Owner, range: Range) -> bool {
        self.permits_read(owner, range) && reach::first(&self.shared, range, None).is_none()
    }

    /// A lock that is in the way of a new one: any that overlaps where one of the two is exclusive, but for a shared lock
    /// within an exclusive one of the same owner.
    fn in_the_way(&self, new: &Lock) -> Option<Lock> {
        let lock = |exclusive| move |(range, owner)| Lock { owner, range, exclusive };
        if !new.exclusive {
            return reach::first(&self.exclusive, new.range, Some(new.owner)).map(lock(true));
        }
        let exclusive = reach::first(&self.exclusive, new.range, None).map(lock(true));
        exclusive.or_else(|| reach::first(&self.shared, new.range, None).map(lock(false)))
    }

    fn kind(&self, exclusive: bool) -> &Held {
        if exclusive { &self.exclusive } else { &self.shared }
    }

    fn kind_mut(&mut self, exclusive: bool) -> &mut Held {
        if exclusive { &mut self.exclusive } else { &mut self.shared }
    }

    /// The locks of `open`, equal ones once.
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

    /// Takes one lock out that is held.
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

    fn park(&mut self, waiter: WaiterId, waiting: Waiting) {
        self.parked.entry(waiting.at).or_default().insert(waiter);
        self.waiting.insert(waiter, waiting);
    }

    /// The requests that are parked at a lock, where it is held no more.
    fn woken(&mut self, lock: &Lock) -> BTreeSet<WaiterId> {
        if self.times(lock) > 0 { BTreeSet::new() } else { self.parked.remove(lock).unwrap_or_default() }
    }

    /// Grants what can be granted of the requests that were woken, oldest first. All others still have a lock in their way.
    fn grant(&mut self, woken: BTreeSet<WaiterId>) -> Vec<WaiterId> {
        let mut granted = Vec::new();
        for waiter in woken {
            let Some(&Waiting { lock, .. }) = self.waiting.get(&waiter) else { continue };
            if let Some(at) = self.in_the_way(&lock) {
                self.park(waiter, Waiting { lock, at });
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

/// Bytes that a waiting request takes in the sets of those who wait.
const PARKED: usize = 2 * 2 * size_of::<WaiterId>();

impl OpenLocks {
    /// Its locks and waiting requests.
    fn total(&self) -> usize {
        self.count + self.waiting.len()
    }
}
