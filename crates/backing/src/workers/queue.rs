//! The jobs of a pool and their fair order, and its count of threads. Nothing here waits or locks.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Condvar;

use super::Job;

/// How long a task with a limit may run until another thread takes the place of its thread. The storage is then likely
/// to hang, and the user's other calls may be for parts of it that do not.
pub(super) const STALL: Duration = Duration::from_millis(100);

/// The numbers of threads of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    pub(super) threads: usize,
    /// Maximum number of threads that work for one user at a time.
    pub(super) of_one_user: usize,
    /// Threads that a pool may have even beyond the maximum of all pools. They are more than one user can occupy, so
    /// that neither other pools nor a single user can block the pool.
    pub(super) guaranteed: usize,
    /// Maximum number of threads, including hanging ones.
    pub(super) in_all: usize,
    /// Maximum number of threads, including hanging ones, of one user, so that others have threads beside a user whose
    /// calls hang.
    pub(super) in_all_of_one_user: usize,
}

impl Sizes {
    /// Returns the sizes of a pool of `threads`, which may have `in_all` together with hanging ones, or twice as many
    /// threads.
    pub(super) fn of(threads: usize, in_all: Option<usize>) -> Sizes {
        let in_all = in_all.unwrap_or(2 * threads).max(2);
        let threads = threads.clamp(2, in_all);
        let of_one_user = (threads / 4).max(1);
        let guaranteed = (threads / 3).max(of_one_user + 1);
        Sizes { threads, of_one_user, guaranteed, in_all, in_all_of_one_user: in_all / 2 }
    }
}

/// The time limit of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Limit {
    /// It may take any time.
    None,
    /// The limit includes the time in the queue. The job is not started after it.
    OfCall,
    /// The limit is counted from the start of the job, which must be done.
    OfRun(Duration),
}

/// A job and what is known about it.
pub(super) struct Task {
    /// Numbers of later tasks are larger.
    pub(super) number: u64,
    pub(super) user: u32,
    pub(super) limit: Limit,
    pub(super) job: Job,
}

/// What a task whose limit passed was doing.
pub(super) enum Expired {
    /// It was waiting, and is removed. Its job is not done.
    Waiting { _job: Job },
    /// It is running, and hangs from now on.
    Running,
}

#[derive(Default)]
pub(super) struct Queue {
    users: HashMap<u32, Line>,
    /// Users with a job that may start now, each listed once.
    turns: VecDeque<u32>,
    /// When the running tasks with a limit began, except stalled and hanging ones.
    limited: HashMap<u64, Instant>,
    /// Running tasks that count as hanging although their limit has not passed.
    stalled: HashSet<u64>,
    last_number: u64,
    /// Threads except hanging ones.
    pub(super) threads: usize,
    /// Threads in a call whose limit has passed, or that has stalled.
    pub(super) hanging: usize,
    /// Threads that were started or woken and have not taken a job since.
    pub(super) coming: usize,
    /// What wakes each thread that has nothing to do, in the order in which they began to wait.
    pub(super) idle: Vec<Arc<Condvar>>,
}

/// The jobs of one user. It exists while a job waits or runs.
#[derive(Default)]
struct Line {
    /// By number.
    waiting: VecDeque<Task>,
    running: usize,
    hanging: usize,
    has_turn: bool,
}

impl Line {
    /// Returns how many jobs of the user may run now.
    fn share(&self, sizes: Sizes) -> usize {
        sizes.of_one_user.min(sizes.in_all_of_one_user.saturating_sub(self.hanging))
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.running == 0 && self.hanging == 0 && !self.has_turn
    }
}

impl Queue {
    /// Returns a number for a task, which must be added before another number is taken.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Removes a thread that waited from the idle ones. Returns whether it still was one, which it is not once it was
    /// woken.
    pub(super) fn is_still_idle(&mut self, waits: &Arc<Condvar>) -> bool {
        let position = self.idle.iter().position(|idle| Arc::ptr_eq(idle, waits));
        position.map(|position| self.idle.remove(position)).is_some()
    }

    /// Returns the number of jobs that wait for a thread.
    pub(super) fn waiting(&self) -> usize {
        self.users.values().map(|line| line.waiting.len()).sum()
    }

    /// Returns whether a job may start now.
    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Adds a task and returns whether it may start now.
    pub(super) fn add(&mut self, task: Task, sizes: Sizes) -> bool {
        let user = task.user;
        let line = self.users.entry(user).or_default();
        line.waiting.push_back(task);
        let begins = line.running + line.waiting.len() <= line.share(sizes);
        self.give_turn(user, sizes);
        begins
    }

    /// Queues the user's next job to start, if there is one and the user is below the limit.
    fn give_turn(&mut self, user: u32, sizes: Sizes) {
        let Some(line) = self.users.get_mut(&user) else { return };
        if !line.has_turn && !line.waiting.is_empty() && line.running < line.share(sizes) {
            line.has_turn = true;
            self.turns.push_back(user);
        } else if line.is_empty() {
            self.users.remove(&user);
        }
    }

    /// Takes the next task to run.
    pub(super) fn take(&mut self, sizes: Sizes) -> Option<Task> {
        while let Some(user) = self.turns.pop_front() {
            let Some(line) = self.users.get_mut(&user) else { continue };
            line.has_turn = false;
            // The limits of waiting tasks may have passed, and of running ones, so that the user's share is smaller.
            let next = if line.running < line.share(sizes) { line.waiting.pop_front() } else { None };
            line.running += usize::from(next.is_some());
            self.give_turn(user, sizes);
            if let Some(task) = next {
                if task.limit != Limit::None {
                    self.limited.insert(task.number, Instant::now());
                }
                return Some(task);
            }
        }
        None
    }

    /// Records that a task of `user` ended in time.
    pub(super) fn done(&mut self, user: u32, sizes: Sizes) {
        if let Some(line) = self.users.get_mut(&user) {
            line.running -= 1;
        }
        self.give_turn(user, sizes);
    }

    /// Records that a limited task ended. Returns whether it had been hanging.
    pub(super) fn had_hung(&mut self, number: u64) -> bool {
        self.stalled.remove(&number);
        self.limited.remove(&number).is_none()
    }

    /// Returns the number of tasks that run although their limit has passed.
    pub(super) fn overdue(&self) -> usize {
        self.hanging - self.stalled.len()
    }

    /// Counts a task as hanging if it has been running for long. Returns when to ask again if it has not.
    pub(super) fn stall(&mut self, user: u32, number: u64, sizes: Sizes) -> Option<Duration> {
        match self.limited.get(&number) {
            Some(began) => {
                let more = STALL.saturating_sub(began.elapsed());
                if !more.is_zero() {
                    return Some(more);
                }
                self.limited.remove(&number);
                self.stalled.insert(number);
                self.hang(user, sizes);
                None
            }
            None => {
                let line = self.users.get(&user)?;
                line.waiting.binary_search_by_key(&number, |task| task.number).ok().map(|_| STALL)
            }
        }
    }

    /// Counts a running task as hanging.
    fn hang(&mut self, user: u32, sizes: Sizes) {
        if let Some(line) = self.users.get_mut(&user) {
            line.running -= 1;
            line.hanging += 1;
        }
        self.threads -= 1;
        self.hanging += 1;
        self.give_turn(user, sizes);
    }

    /// Records that the limit of a task passed; `None` if the task has ended.
    pub(super) fn expire(&mut self, user: u32, number: u64, sizes: Sizes) -> Option<Expired> {
        if self.stalled.remove(&number) {
            return Some(Expired::Running);
        }
        if self.limited.remove(&number).is_some() {
            self.hang(user, sizes);
            return Some(Expired::Running);
        }
        let line = self.users.get_mut(&user)?;
        let at = line.waiting.binary_search_by_key(&number, |task| task.number).ok()?;
        let removed = line.waiting.remove(at)?;
        self.give_turn(user, sizes);
        Some(Expired::Waiting { _job: removed.job })
    }

    /// Records that a hanging task of `user` ended. Returns whether its thread is needed. Otherwise the thread must
    /// end.
    pub(super) fn returned(&mut self, user: u32, sizes: Sizes) -> bool {
        if let Some(line) = self.users.get_mut(&user) {
            line.hanging -= 1;
        }
        self.give_turn(user, sizes);
        self.hanging -= 1;
        let joins = self.threads < sizes.threads;
        self.threads += usize::from(joins);
        joins
    }

    /// Removes all waiting tasks.
    pub(super) fn clear(&mut self) -> Vec<Task> {
        self.turns.clear();
        let mut waiting = Vec::new();
        self.users.retain(|_, line| {
            line.has_turn = false;
            waiting.extend(line.waiting.drain(..));
            !line.is_empty()
        });
        waiting
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use proptest::prelude::*;

    use super::*;
    use crate::workers::THREADS;

    impl Queue {
        /// Returns whether nothing waits or runs.
        pub(in crate::workers) fn is_empty(&self) -> bool {
            self.users.is_empty() && self.turns.is_empty() && self.limited.is_empty() && self.stalled.is_empty()
        }

        fn add_job(&mut self, user: u32, limit: Limit, job: Job) -> u64 {
            let number = self.next_number();
            self.add(Task { number, user, limit, job }, SIZES);
            number
        }

        /// Verifies that users and the queue of turns agree.
        fn check(&self) {
            let mut listed: Vec<_> = self.turns.iter().collect();
            listed.sort_unstable();
            listed.dedup();
            assert_eq!(listed.len(), self.turns.len(), "a user has two turns");
            assert_eq!(self.hanging, self.users.values().map(|line| line.hanging).sum::<usize>());
            for (user, line) in &self.users {
                assert!(!line.is_empty());
                assert!(line.running <= SIZES.of_one_user, "{}", line.running);
                assert_eq!(line.has_turn, listed.contains(&user));
                let may_start = !line.waiting.is_empty() && line.running < line.share(SIZES);
                assert!(line.has_turn || !may_start, "{user} waits for ever");
            }
        }
    }

    const SIZES: Sizes = Sizes { threads: 48, of_one_user: 12, guaranteed: 16, in_all: 32, in_all_of_one_user: 16 };

    #[test]
    fn a_user_occupies_a_quarter_and_fewer_threads_than_a_pool_always_has() {
        assert_eq!(Sizes::of(THREADS, None), Sizes { in_all: 96, in_all_of_one_user: 48, ..SIZES });
        let few = Sizes { threads: 32, of_one_user: 8, guaranteed: 10, in_all: 32, in_all_of_one_user: 16 };
        assert_eq!(Sizes::of(THREADS, Some(32)), few);
        for (threads, in_all) in (0..300).flat_map(|threads| [(threads, None), (threads, Some(threads / 7))]) {
            let Sizes { threads, of_one_user, guaranteed, in_all, in_all_of_one_user } = Sizes::of(threads, in_all);
            assert!((1..guaranteed).contains(&of_one_user) && guaranteed <= threads, "{threads}");
            assert!(of_one_user <= in_all_of_one_user && in_all_of_one_user < in_all, "{threads}");
            assert!(threads <= in_all, "{threads}");
        }
    }

    #[test]
    fn users_take_turns() {
        let mut queue = Queue::default();
        let (sender, done) = mpsc::channel();
        for (uid, count) in [(1, 30), (2, 3), (3, 1)] {
            for _ in 0..count {
                let sender = sender.clone();
                queue.add_job(uid, Limit::None, Box::new(move || sender.send(uid).expect("the test receives")));
            }
        }
        while let Some(task) = queue.take(SIZES) {
            (task.job)();
        }
        let order: Vec<u32> = done.try_iter().collect();
        assert_eq!(order[..6], [1, 2, 3, 1, 2, 1]);
        let first = order.iter().filter(|&&uid| uid == 1).count();
        assert_eq!(first, SIZES.of_one_user, "the other jobs wait until one is done");
        queue.done(1, SIZES);
        assert!(queue.take(SIZES).is_some_and(|task| task.user == 1));
        assert!(queue.take(SIZES).is_none());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(u32, bool),
        Take,
        /// Ends a running task.
        End(prop::sample::Index),
        /// The limit of a task passes, which may have ended.
        Expire(prop::sample::Index),
        /// A task, which may have ended, has been running for long.
        Stall(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1..4u32, any::<bool>()).prop_map(|(user, limited)| Step::Add(user, limited)),
            3 => Just(Step::Take),
            2 => any::<prop::sample::Index>().prop_map(Step::End),
            2 => any::<prop::sample::Index>().prop_map(Step::Expire),
            2 => any::<prop::sample::Index>().prop_map(Step::Stall),
        ]
    }

    /// Ends a task that runs or hangs, as a thread does.
    fn end(queue: &mut Queue, task: &Task) {
        if task.limit == Limit::None || !queue.had_hung(task.number) {
            queue.done(task.user, SIZES);
        } else {
            queue.returned(task.user, SIZES);
        }
    }

    proptest! {
        #[test]
        fn users_keep_their_turns_and_shares_whatever_expires(steps in prop::collection::vec(step(), 0..200)) {
            // As many threads as there are steps.
            let mut queue = Queue { threads: 200, ..Queue::default() };
            let (mut running, mut limited) = (Vec::<Task>::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Add(user, true) => {
                        limited.push((user, queue.add_job(user, Limit::OfCall, Box::new(|| ()))));
                    }
                    Step::Add(user, false) => {
                        queue.add_job(user, Limit::None, Box::new(|| ()));
                    }
                    Step::Take => running.extend(queue.take(SIZES)),
                    Step::End(index) if !running.is_empty() => {
                        end(&mut queue, &running.swap_remove(index.index(running.len())));
                    }
                    Step::Expire(index) if !limited.is_empty() => {
                        let (user, number) = limited[index.index(limited.len())];
                        queue.expire(user, number, SIZES);
                    }
                    Step::Stall(index) if !limited.is_empty() => {
                        let (user, number) = limited[index.index(limited.len())];
                        if let Some(began) = queue.limited.get_mut(&number) {
                            *began -= STALL;
                        }
                        queue.stall(user, number, SIZES);
                    }
                    Step::End(_) | Step::Expire(_) | Step::Stall(_) => {}
                }
                queue.check();
            }
            // Without further limits that pass, everything is done.
            loop {
                running.extend(queue.take(SIZES));
                let Some(task) = running.pop() else { break };
                end(&mut queue, &task);
                queue.check();
            }
            assert!(queue.is_empty());
            assert_eq!(queue.hanging, 0);
        }
    }
}
