//! The byte-range locks of one stream ([MS-FSA] 2.1.4.10, 2.1.5.8, 2.1.5.9; [MS-SMB2] 3.3.5.14).
//!
//! Pure: a request that must wait is a number that the caller chose, and every change answers with the numbers of the
//! requests that are granted by it. Waiting requests are granted in the order in which they came, as far as the locks
//! that are held let them; one that cannot be granted does not hold up those behind it, and a new request need not
//! queue behind a waiting one with which it would conflict.
//!
//! Left to the caller: the sequence numbers of [MS-SMB2] 3.3.5.14, the breaking of oplocks, and POSIX locks.

use std::collections::VecDeque;

/// A range of bytes, checked not to reach beyond the last offset that 64 bits have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
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

    /// The last byte; for an empty range the byte before the first, as the specification computes it.
    fn last(&self) -> u64 {
        self.offset.wrapping_add(self.length).wrapping_sub(1)
    }

    /// An empty range overlaps what it lies strictly inside of; the one at 0 overlaps nothing.
    fn overlaps(&self, other: &Range) -> bool {
        let nowhere = |range: &Range| range.offset == 0 && range.length == 0;
        !nowhere(self) && !nowhere(other) && self.offset <= other.last() && self.last() >= other.offset
    }
}

/// Whose lock it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    /// The open, by a number that no other open of the stream has.
    pub open: u64,
    /// The lock key; 0 for all locks of SMB 2.
    pub key: u32,
}

/// A lock that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    /// Who asks.
    pub owner: Owner,
    /// What is to be locked.
    pub range: Range,
    /// Exclusive rather than shared.
    pub exclusive: bool,
}

/// A request that waits, by the number that its caller gave it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WaiterId(pub u64);

/// Why a lock was not granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// STATUS_LOCK_NOT_GRANTED: another lock is in the way.
    Conflict,
    /// STATUS_INSUFFICIENT_RESOURCES: the open has as many locks and waiting requests as it may have.
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

/// All locks of one stream.
#[derive(Clone, Debug, Default)]
pub struct ByteLocks {
    held: Vec<Lock>,
    waiting: VecDeque<(WaiterId, Lock)>,
}

impl ByteLocks {
    /// Whether there is neither a lock nor anybody waiting for one.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    /// All locks that are held.
    pub fn held(&self) -> &[Lock] {
        &self.held
    }

    /// How many locks `open` has.
    pub fn held_by(&self, open: u64) -> usize {
        self.held.iter().filter(|lock| lock.owner.open == open).count()
    }

    /// Locks all of `locks`, which have one open, or none of them; `limit` is how many locks and waiting requests the
    /// open may have. An array's elements are checked against each other, too.
    pub fn lock(&mut self, locks: &[Lock], limit: usize) -> Result<(), Refused> {
        let before = self.held.len();
        let Some(first) = locks.first() else { return Ok(()) };
        if self.count(first.owner.open).saturating_add(locks.len()) > limit {
            return Err(Refused::TooMany);
        }
        for lock in locks {
            if self.is_blocked(lock) {
                // What this call has locked was never seen by anybody else, so nobody waits for it.
                self.held.truncate(before);
                return Err(Refused::Conflict);
            }
            self.held.push(*lock);
        }
        Ok(())
    }

    /// Locks `lock`, or queues it as `waiter`. Answers whether it was granted at once.
    pub fn lock_or_wait(&mut self, lock: Lock, waiter: WaiterId, limit: usize) -> Result<bool, Refused> {
        match self.lock(&[lock], limit) {
            Ok(()) => Ok(true),
            Err(Refused::Conflict) => {
                self.waiting.push_back((waiter, lock));
                Ok(false)
            }
            Err(refused) => Err(refused),
        }
    }

    /// Removes the lock that `owner` has on exactly `range`: an exclusive one before a shared one. Answers who is
    /// granted a lock by that.
    pub fn unlock(&mut self, owner: Owner, range: Range) -> Result<Vec<WaiterId>, NotLocked> {
        let is_meant = |lock: &Lock| lock.owner == owner && lock.range == range;
        let exclusive = self.held.iter().position(|lock| is_meant(lock) && lock.exclusive);
        let index = exclusive.or_else(|| self.held.iter().rposition(is_meant)).ok_or(NotLocked)?;
        self.held.remove(index);
        Ok(self.grant())
    }

    /// Removes one lock that is exactly `lock`. Answers who is granted a lock by that.
    pub fn unlock_one(&mut self, lock: &Lock) -> Result<Vec<WaiterId>, NotLocked> {
        let index = self.held.iter().rposition(|held| held == lock).ok_or(NotLocked)?;
        self.held.remove(index);
        Ok(self.grant())
    }

    /// Forgets a request that waits; `false` where there is none (it may have been granted already).
    pub fn cancel(&mut self, waiter: WaiterId) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(id, _)| *id != waiter);
        self.waiting.len() != before
    }

    /// Removes all locks and waiting requests of `open`.
    pub fn close(&mut self, open: u64) -> Closed {
        let mut abandoned = Vec::new();
        self.waiting.retain(|(id, lock)| {
            let stays = lock.owner.open != open;
            if !stays {
                abandoned.push(*id);
            }
            stays
        });
        let before = self.held.len();
        self.held.retain(|lock| lock.owner.open != open);
        let granted = if self.held.len() == before { Vec::new() } else { self.grant() };
        Closed { granted, abandoned }
    }

    /// Whether `owner` may read `range`: no other owner has it locked exclusively.
    pub fn permits_read(&self, owner: Owner, range: Range) -> bool {
        let blocks = |lock: &Lock| lock.exclusive && lock.owner != owner;
        !self.held.iter().any(|lock| blocks(lock) && lock.range.overlaps(&range))
    }

    /// Whether `owner` may write `range`: no other owner has it locked exclusively, and nobody, not even `owner`
    /// itself, has it locked shared.
    pub fn permits_write(&self, owner: Owner, range: Range) -> bool {
        let blocks = |lock: &Lock| !lock.exclusive || lock.owner != owner;
        !self.held.iter().any(|lock| blocks(lock) && lock.range.overlaps(&range))
    }

    /// Locks held and asked for by `open`.
    fn count(&self, open: u64) -> usize {
        self.held_by(open) + self.waiting.iter().filter(|(_, lock)| lock.owner.open == open).count()
    }

    /// Whether a lock that is held is in the way of a new one: any that overlaps where one of the two is exclusive, but
    /// for a shared lock within an exclusive one of the same owner.
    fn is_blocked(&self, new: &Lock) -> bool {
        let blocks = |held: &Lock| new.exclusive || held.exclusive && held.owner != new.owner;
        self.held.iter().any(|held| blocks(held) && held.range.overlaps(&new.range))
    }

    /// Grants what can be granted, oldest first.
    fn grant(&mut self) -> Vec<WaiterId> {
        let mut granted = Vec::new();
        for (id, lock) in std::mem::take(&mut self.waiting) {
            if self.is_blocked(&lock) {
                self.waiting.push_back((id, lock));
            } else {
                self.held.push(lock);
                granted.push(id);
            }
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 64;

    fn owner(open: u64) -> Owner {
        Owner { open, key: 0 }
    }

    fn range(offset: u64, length: u64) -> Range {
        Range::new(offset, length).expect("a valid range")
    }

    fn lock(open: u64, offset: u64, length: u64, exclusive: bool) -> Lock {
        Lock { owner: owner(open), range: range(offset, length), exclusive }
    }

    fn shared(open: u64, offset: u64, length: u64) -> Lock {
        lock(open, offset, length, false)
    }

    fn exclusive(open: u64, offset: u64, length: u64) -> Lock {
        lock(open, offset, length, true)
    }

    #[test]
    fn ranges_end_at_the_last_offset() {
        for (offset, length, valid) in [
            (0, 0, true),
            (u64::MAX, 0, true),
            (u64::MAX, 1, true),
            (u64::MAX, 2, false),
            (0, u64::MAX, true),
            (1, u64::MAX, true),
            (2, u64::MAX, false),
        ] {
            assert_eq!(Range::new(offset, length).is_some(), valid, "{offset} + {length}");
        }
    }

    #[test]
    fn conflicts() {
        let cases = [
            (shared(1, 0, 10), shared(2, 5, 10), true),
            (shared(1, 0, 10), exclusive(2, 5, 10), false),
            (exclusive(1, 0, 10), shared(2, 5, 10), false),
            (exclusive(1, 0, 10), shared(2, 10, 10), true),
            // The same owner: exclusive locks do not stack, a shared one may lie within an exclusive one.
            (exclusive(1, 0, 10), exclusive(1, 5, 1), false),
            (exclusive(1, 0, 10), shared(1, 5, 1), true),
            (shared(1, 0, 10), exclusive(1, 5, 1), false),
            // Empty ranges conflict strictly inside another, never at its edges, never at 0.
            (exclusive(1, 10, 10), exclusive(2, 15, 0), false),
            (exclusive(1, 10, 10), exclusive(2, 10, 0), true),
            (exclusive(1, 10, 10), exclusive(2, 20, 0), true),
            (exclusive(1, 15, 0), exclusive(2, 10, 10), false),
            (exclusive(1, 15, 0), exclusive(2, 15, 0), true),
            (exclusive(1, 0, 0), exclusive(2, 0, 10), true),
            (exclusive(1, 0, 10), exclusive(2, 0, 0), true),
            // The ends of the offsets.
            (exclusive(1, u64::MAX, 1), shared(2, 1, u64::MAX), false),
            (exclusive(1, u64::MAX, 1), shared(2, 0, u64::MAX), true),
            (exclusive(1, u64::MAX, 0), exclusive(2, u64::MAX - 1, 2), false),
        ];
        for (held, asked, granted) in cases {
            let mut locks = ByteLocks::default();
            assert_eq!(locks.lock(&[held], LIMIT), Ok(()));
            let expected = if granted { Ok(()) } else { Err(Refused::Conflict) };
            assert_eq!(locks.lock(&[asked], LIMIT), expected, "{held:?} then {asked:?}");
        }
    }

    #[test]
    fn keys_tell_owners_apart() {
        let mut locks = ByteLocks::default();
        let (one, two) = (Owner { open: 1, key: 1 }, Owner { open: 1, key: 2 });
        assert_eq!(locks.lock(&[Lock { owner: one, ..exclusive(1, 0, 10) }], LIMIT), Ok(()));
        assert!(locks.permits_write(one, range(0, 5)) && !locks.permits_read(two, range(0, 5)));
        assert_eq!(locks.unlock(two, range(0, 10)), Err(NotLocked));
        assert_eq!(locks.close(1), Closed::default());
        assert!(locks.is_empty());
    }

    #[test]
    fn reads_and_writes() {
        let mut locks = ByteLocks::default();
        assert_eq!(locks.lock(&[shared(1, 0, 10), exclusive(1, 10, 10)], LIMIT), Ok(()));
        // open, offset, may read, may write
        for (open, offset, read, write) in [
            (1, 0, true, false),
            (2, 0, true, false),
            (1, 10, true, true),
            (2, 10, false, false),
            (2, 20, true, true),
            (1, 9, true, false),
        ] {
            let range = range(offset, 2);
            assert_eq!(locks.permits_read(owner(open), range), read, "{open} reads at {offset}");
            assert_eq!(locks.permits_write(owner(open), range), write, "{open} writes at {offset}");
        }
        assert!(locks.permits_write(owner(2), range(0, 0)), "nothing is written");
    }

    #[test]
    fn an_array_is_locked_whole_or_not_at_all() {
        let mut locks = ByteLocks::default();
        assert_eq!(locks.lock(&[exclusive(2, 50, 1)], LIMIT), Ok(()));
        let array = [exclusive(1, 0, 10), shared(1, 20, 10), exclusive(1, 45, 10)];
        assert_eq!(locks.lock(&array, LIMIT), Err(Refused::Conflict));
        assert_eq!(locks.held_by(1), 0);
        assert_eq!(locks.lock(&[exclusive(1, 0, 10), exclusive(1, 5, 1)], LIMIT), Err(Refused::Conflict));
        assert_eq!(locks.lock(&array[..2], LIMIT), Ok(()));
        assert_eq!((locks.held_by(1), locks.lock(&[], LIMIT)), (2, Ok(())));
    }

    #[test]
    fn unlocking_needs_the_exact_range_and_owner() {
        let mut locks = ByteLocks::default();
        assert_eq!(locks.lock(&[exclusive(1, 0, 10), shared(1, 0, 10)], LIMIT), Ok(()));
        for (open, offset, length) in [(1, 0, 9), (1, 1, 9), (2, 0, 10)] {
            assert_eq!(locks.unlock(owner(open), range(offset, length)), Err(NotLocked));
        }
        assert_eq!(locks.unlock(owner(1), range(0, 10)), Ok(vec![]), "the exclusive one goes first");
        assert!(locks.permits_read(owner(2), range(0, 10)) && !locks.permits_write(owner(2), range(0, 10)));
        assert_eq!(locks.unlock(owner(1), range(0, 10)), Ok(vec![]));
        assert_eq!(locks.unlock(owner(1), range(0, 10)), Err(NotLocked));
        assert_eq!(locks.lock(&[exclusive(1, 0, 0)], LIMIT), Ok(()));
        assert_eq!(locks.unlock(owner(1), range(0, 0)), Ok(vec![]));
        assert_eq!(locks.lock(&[exclusive(1, 0, 10), shared(1, 0, 10)], LIMIT), Ok(()));
        assert_eq!(locks.unlock_one(&shared(1, 0, 10)), Ok(vec![]));
        assert_eq!(locks.unlock_one(&shared(1, 0, 10)), Err(NotLocked));
        assert_eq!(locks.held(), [exclusive(1, 0, 10)]);
    }

    #[test]
    fn waiting_requests_are_granted_in_turn() {
        let mut locks = ByteLocks::default();
        assert_eq!(locks.lock_or_wait(exclusive(1, 0, 10), WaiterId(1), LIMIT), Ok(true));
        for (open, asked) in [(2, shared(2, 0, 5)), (3, exclusive(3, 0, 10)), (4, shared(4, 0, 10))] {
            assert_eq!(locks.lock_or_wait(asked, WaiterId(open), LIMIT), Ok(false));
        }
        assert_eq!(locks.unlock(owner(1), range(0, 10)), Ok(vec![WaiterId(2), WaiterId(4)]));
        assert_eq!(locks.close(2), Closed::default());
        let closed = Closed { granted: vec![WaiterId(3)], abandoned: vec![] };
        assert_eq!(locks.close(4), closed);
        assert_eq!(locks.lock_or_wait(exclusive(5, 0, 1), WaiterId(5), LIMIT), Ok(false));
        assert!(locks.cancel(WaiterId(5)) && !locks.cancel(WaiterId(5)));
        assert_eq!(locks.lock_or_wait(exclusive(5, 0, 1), WaiterId(6), LIMIT), Ok(false));
        assert_eq!(locks.close(5), Closed { granted: vec![], abandoned: vec![WaiterId(6)] });
    }

    #[test]
    fn an_open_has_only_so_many() {
        let mut locks = ByteLocks::default();
        assert_eq!(locks.lock(&[shared(1, 0, 1), shared(1, 1, 1)], 1), Err(Refused::TooMany));
        assert_eq!(locks.lock(&[exclusive(1, 0, 1), exclusive(1, 1, 1)], 2), Ok(()));
        assert_eq!(locks.lock_or_wait(shared(1, 5, 1), WaiterId(1), 2), Err(Refused::TooMany));
        assert_eq!(locks.lock_or_wait(shared(2, 0, 1), WaiterId(2), 1), Ok(false));
        assert_eq!(locks.lock(&[shared(2, 9, 1)], 1), Err(Refused::TooMany), "waiting counts");
    }

    #[derive(Clone, Debug)]
    enum Step {
        Lock(Lock),
        Wait(Lock),
        Unlock(usize),
        Cancel(u64),
        Close(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let lock = || {
            (0..3u64, 0..12u64, 1..6u64, any::<bool>())
                .prop_map(|(open, offset, length, is_exclusive)| lock(open, offset, length, is_exclusive))
        };
        prop_oneof![
            lock().prop_map(Step::Lock),
            lock().prop_map(Step::Wait),
            (0..20usize).prop_map(Step::Unlock),
            (0..40u64).prop_map(Step::Cancel),
            (0..3u64).prop_map(Step::Close),
        ]
    }

    /// The same, byte by byte: which opens hold each byte, and how.
    #[derive(Default)]
    struct Model {
        held: Vec<Lock>,
        waiting: Vec<(u64, Lock)>,
    }

    impl Model {
        fn blocked(&self, new: &Lock) -> bool {
            (0..20u64).any(|byte| {
                let covers = |lock: &Lock| (lock.range.offset..lock.range.offset + lock.range.length).contains(&byte);
                covers(new)
                    && self.held.iter().filter(|held| covers(held)).any(|held| match (held.exclusive, new.exclusive) {
                        (false, false) => false,
                        (true, false) => held.owner != new.owner,
                        (_, true) => true,
                    })
            })
        }

        /// Grants from the front, one at a time, beginning anew after each.
        fn grant(&mut self) -> Vec<WaiterId> {
            let mut granted = Vec::new();
            while let Some(index) = self.waiting.iter().position(|(_, lock)| !self.blocked(lock)) {
                let (id, lock) = self.waiting.remove(index);
                self.held.push(lock);
                granted.push(WaiterId(id));
            }
            granted
        }
    }

    proptest! {
        #[test]
        fn the_table_agrees_with_a_model_byte_by_byte(steps in proptest::collection::vec(step(), 0..40)) {
            let (mut table, mut model) = (ByteLocks::default(), Model::default());
            for (number, step) in steps.into_iter().enumerate() {
                let number = number as u64;
                match step {
                    Step::Lock(lock) => {
                        let free = !model.blocked(&lock);
                        prop_assert_eq!(table.lock(&[lock], LIMIT).is_ok(), free);
                        model.held.extend(free.then_some(lock));
                    }
                    Step::Wait(lock) => {
                        let free = !model.blocked(&lock);
                        prop_assert_eq!(table.lock_or_wait(lock, WaiterId(number), LIMIT), Ok(free));
                        if free { model.held.push(lock) } else { model.waiting.push((number, lock)) }
                    }
                    Step::Unlock(index) if index < model.held.len() => {
                        let Lock { owner, range, .. } = model.held[index];
                        let meant = |lock: &Lock| lock.owner == owner && lock.range == range;
                        let first = model.held.iter().position(|lock| meant(lock) && lock.exclusive);
                        model.held.remove(first.unwrap_or(index));
                        prop_assert_eq!(table.unlock(owner, range), Ok(model.grant()));
                    }
                    Step::Unlock(_) => prop_assert_eq!(table.unlock(owner(9), range(0, 1)), Err(NotLocked)),
                    Step::Cancel(id) => {
                        let waits = model.waiting.iter().any(|(waiting, _)| *waiting == id);
                        model.waiting.retain(|(waiting, _)| *waiting != id);
                        prop_assert_eq!(table.cancel(WaiterId(id)), waits);
                    }
                    Step::Close(open) => {
                        let gone = model.waiting.iter().filter(|(_, lock)| lock.owner.open == open);
                        let abandoned = gone.map(|(id, _)| WaiterId(*id)).collect();
                        model.waiting.retain(|(_, lock)| lock.owner.open != open);
                        model.held.retain(|lock| lock.owner.open != open);
                        prop_assert_eq!(table.close(open), Closed { granted: model.grant(), abandoned });
                    }
                }
                prop_assert_eq!(table.is_empty(), model.held.is_empty() && model.waiting.is_empty());
                for (open, byte) in (0..3).flat_map(|open| (0..20).map(move |byte| (open, byte))) {
                    let probe = |exclusive| lock(open, byte, 1, exclusive);
                    prop_assert_eq!(table.permits_read(owner(open), range(byte, 1)), !model.blocked(&probe(false)));
                    let own = |held: &Lock| held.owner.open == open && held.exclusive;
                    let others: Vec<Lock> = model.held.iter().filter(|held| !own(held)).copied().collect();
                    let writable = !Model { held: others, waiting: Vec::new() }.blocked(&probe(true));
                    prop_assert_eq!(table.permits_write(owner(open), range(byte, 1)), writable);
                }
            }
        }
    }
}
