use proptest::prelude::*;

use super::*;
use crate::files::tree::steps;

const LIMIT: LockBounds = open_limit(64);

const fn open_limit(per_open: usize) -> LockBounds {
    LockBounds { per_open, per_file: 1_000, waiting: 100 }
}

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
fn keys_distinguish_owners() {
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
    assert!(locks.permits_write(owner(2), range(0, 0)), "no request writes");
}

#[test]
fn an_array_is_locked_entirely_or_not_at_all() {
    let mut locks = ByteLocks::default();
    assert_eq!(locks.lock(&[exclusive(2, 50, 1)], LIMIT), Ok(()));
    let array = [exclusive(1, 0, 10), shared(1, 20, 10), exclusive(1, 45, 10)];
    assert_eq!(locks.lock(&array, LIMIT), Err(Refused::Conflict));
    assert_eq!(locks.held_by(1), []);
    assert_eq!(locks.lock(&[exclusive(1, 0, 10), exclusive(1, 5, 1)], LIMIT), Err(Refused::Conflict));
    assert_eq!(locks.lock(&array[..2], LIMIT), Ok(()));
    assert_eq!((locks.held_by(1).len(), locks.lock(&[], LIMIT)), (2, Ok(())));
}

#[test]
fn unlocking_needs_the_exact_range_and_owner() {
    let mut locks = ByteLocks::default();
    assert_eq!(locks.lock(&[exclusive(1, 0, 10), shared(1, 0, 10)], LIMIT), Ok(()));
    for (open, offset, length) in [(1, 0, 9), (1, 1, 9), (2, 0, 10)] {
        assert_eq!(locks.unlock(owner(open), range(offset, length)), Err(NotLocked));
    }
    assert_eq!(locks.unlock(owner(1), range(0, 10)), Ok(vec![]), "the exclusive lock is granted first");
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
fn the_locks_of_an_open_are_bounded() {
    let mut locks = ByteLocks::default();
    let (one, two) = (open_limit(1), open_limit(2));
    assert_eq!(locks.lock(&[shared(1, 0, 1), shared(1, 1, 1)], one), Err(Refused::TooMany));
    assert_eq!(locks.lock(&[exclusive(1, 0, 1), exclusive(1, 1, 1)], two), Ok(()));
    assert_eq!(locks.lock_or_wait(shared(1, 5, 1), WaiterId(1), two), Err(Refused::TooMany));
    assert_eq!(locks.lock_or_wait(shared(2, 0, 1), WaiterId(2), one), Ok(false));
    assert_eq!(locks.lock(&[shared(2, 9, 1)], one), Err(Refused::TooMany), "waiting requests are counted");
}

#[test]
fn the_locks_of_a_file_are_bounded() {
    let mut locks = ByteLocks::default();
    let bounds = LockBounds { per_open: 9, per_file: 3, waiting: 1 };
    assert_eq!(locks.lock(&[exclusive(1, 0, 1), exclusive(1, 1, 1)], bounds), Ok(()));
    assert_eq!(locks.lock(&[shared(2, 2, 1), shared(2, 3, 1)], bounds), Err(Refused::TooMany));
    assert_eq!(locks.lock(&[shared(2, 2, 1)], bounds), Ok(()));
    assert_eq!(locks.lock_or_wait(shared(3, 9, 1), WaiterId(1), bounds), Err(Refused::TooMany));
    assert_eq!(locks.unlock(owner(2), range(2, 1)), Ok(vec![]));
    assert_eq!(locks.lock_or_wait(shared(3, 0, 1), WaiterId(2), bounds), Ok(false));
    assert_eq!(locks.lock_or_wait(shared(4, 0, 1), WaiterId(3), bounds), Err(Refused::TooMany), "waiting requests");
    assert_eq!((locks.close(1), locks.count()), (Closed { granted: vec![WaiterId(2)], abandoned: vec![] }, 1));
}

/// Many handles lock thousands of ranges, in the worst order for a list and in another one.
#[test]
fn the_cost_of_a_request_hardly_grows_with_the_locks_of_the_file() {
    const LOCKS: u64 = 16_384;
    const ENOUGH: usize = 200;
    let all = LockBounds { per_open: 256, per_file: 16_384, waiting: 1_024 };
    for mix in [1, 7_919] {
        for kind in [true, false] {
            let mut locks = ByteLocks::default();
            let nth = |number: u64| lock(number % 100, number * mix % LOCKS * 4, if kind { 2 } else { 1_000 }, kind);
            let check = |what: &str, (done, steps): (bool, usize)| {
                assert!(done && steps < ENOUGH, "{what}: {done}, {steps} steps");
            };
            for number in 0..LOCKS {
                check("lock", steps::of(|| locks.lock(&[nth(number)], all).is_ok()));
            }
            let middle = LOCKS * 2;
            check("conflict", steps::of(|| locks.lock(&[exclusive(200, middle + 1, 5)], all) == Err(Refused::TooMany)));
            check("unlock", steps::of(|| locks.unlock(nth(5).owner, nth(5).range).is_ok()));
            check(
                "conflict",
                steps::of(|| locks.lock(&[exclusive(200, middle + 1, 5)], all) == Err(Refused::Conflict)),
            );
            check("read", steps::of(|| locks.permits_read(owner(200), range(middle, 4)) != kind));
            check("write", steps::of(|| !locks.permits_write(owner(200), range(middle, 4))));
            check("write", steps::of(|| locks.permits_write(owner(200), range(u64::MAX - 9, 4))));
            let own = nth(7);
            check("own", steps::of(|| locks.permits_read(own.owner, own.range) == (!kind || own.range.length < 4)));
            for number in 8..LOCKS {
                let Lock { owner, range, .. } = nth(number);
                check("unlock", steps::of(|| locks.unlock(owner, range).is_ok()));
            }
        }
    }
}

/// All locks of one owner lie in the range that it reads, so a linear search would visit each.
#[test]
fn own_locks_are_not_examined_one_by_one() {
    let mut locks = ByteLocks::default();
    let all = LockBounds { per_open: 16_384, per_file: 16_384, waiting: 1_024 };
    let own: Vec<_> = (0..8_192).map(|number| exclusive(1, number * 2, 1)).collect();
    assert_eq!(locks.lock(&own, all), Ok(()));
    assert_eq!(locks.lock(&[exclusive(2, 8_193, 1)], all), Ok(()));
    let (free, steps) = steps::of(|| locks.permits_read(owner(1), range(0, 8_193)));
    assert!(free && steps < 100, "{steps}");
    let (free, steps) = steps::of(|| locks.permits_read(owner(1), range(0, 20_000)));
    assert!(!free && steps < 100, "{steps}");
}

/// A release visits only the requests that wait for the released lock.
#[test]
fn waiting_requests_do_not_examine_all_locks_at_each_release() {
    let mut locks = ByteLocks::default();
    let all = LockBounds { per_open: 8_192, per_file: 16_384, waiting: 1_024 };
    for number in 0..8_000 {
        assert_eq!(locks.lock(&[exclusive(number % 2, number * 2, 1)], all), Ok(()));
    }
    for number in 0..1_000 {
        assert_eq!(locks.lock_or_wait(exclusive(9, number * 2, 1), WaiterId(number), all), Ok(false));
    }
    let (granted, steps) = steps::of(|| locks.unlock(owner(0), range(14_000, 1)));
    assert!(granted == Ok(vec![]) && steps < 200, "{steps}");
    let (granted, steps) = steps::of(|| locks.unlock(owner(0), range(400, 1)));
    assert!(granted == Ok(vec![WaiterId(200)]) && steps < 200, "{steps}");
    let (cancelled, steps) = steps::of(|| locks.cancel(WaiterId(201)));
    assert!(cancelled && steps < 200, "{steps}");
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
        (0..3u64, 0..12u64, 0..6u64, any::<bool>())
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

/// A reference implementation as a list that is searched linearly.
#[derive(Default)]
struct Model {
    held: Vec<Lock>,
    waiting: Vec<(u64, Lock)>,
}

/// The rule of [MS-FSA] 2.1.4.10 for two ranges, byte by byte if both have any.
fn overlap(one: &Range, two: &Range) -> bool {
    let (one_end, two_end) = (one.offset + one.length, two.offset + two.length);
    match (one.length, two.length) {
        (0, 0) => false,
        (0, _) => two.offset < one.offset && one.offset < two_end,
        (_, 0) => one.offset < two.offset && two.offset < one_end,
        _ => (one.offset..one_end).any(|byte| (two.offset..two_end).contains(&byte)),
    }
}

impl Model {
    fn blocked(&self, new: &Lock) -> bool {
        let blocks = |held: &Lock| match (held.exclusive, new.exclusive) {
            (false, false) => false,
            (true, false) => held.owner != new.owner,
            (_, true) => true,
        };
        self.held.iter().any(|held| blocks(held) && overlap(&held.range, &new.range))
    }

    /// Grants from the front, one at a time, restarting after each.
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
    fn the_trees_agree_with_a_linear_model(steps in proptest::collection::vec(step(), 0..80)) {
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
            let order = |lock: &Lock| (lock.owner, lock.range, lock.exclusive);
            let (mut held, mut expected) = (table.held(), model.held.clone());
            held.sort_by_key(order);
            expected.sort_by_key(order);
            prop_assert_eq!(&held, &expected);
            prop_assert_eq!(table.count(), expected.len());
            expected.retain(|lock| lock.owner.open == 1);
            let mut of_one = table.held_by(1);
            prop_assert_eq!(ByteLocks::default().lock(&of_one, LIMIT), Ok(()), "as for a restored open");
            of_one.sort_by_key(order);
            prop_assert_eq!(of_one, expected);
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
