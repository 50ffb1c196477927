//! Worker threads for calls in which the kernel may wait: disk reads, throttled writes, reading whole directories.
//!
//! Each volume has its own pools, so one that hangs takes no thread from another. A pool grows with the work and
//! shrinks when idle. There are two lanes, so that a flood of flushes, each of which waits for the disk, cannot delay
//! reads. The jobs of one user occupy at most a quarter of a pool; further ones wait, and users take turns.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use server::answer::Answer;
use server::vfs::{Errno, Identity, Result};
use tokio::sync::oneshot;

/// Selects the threads that do the work.
#[derive(Clone, Copy, Debug)]
pub enum Lane {
    /// Reading, writing, looking up: waits for a disk access or two.
    Data,
    /// Flushing and freeing: may wait for seconds.
    Slow,
}

/// The user that the server's own work is attributed to.
pub const SERVER: u32 = 0;

/// Work for a worker.
pub type Job = Box<dyn FnOnce() + Send>;

/// Threads of one pool unless [`bound_threads`] sets another number: enough to keep a disk array busy. More would only
/// wait.
pub const THREADS: usize = 48;
/// Maximum number of threads of all pools together.
const ALL_THREADS: usize = 256;
/// How long a thread waits for work before it exits.
const IDLE: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(10) };

/// Current number of threads of all pools.
static THREADS_NOW: AtomicUsize = AtomicUsize::new(0);
/// Maximum number of threads of one pool.
static THREADS_OF_POOL: AtomicUsize = AtomicUsize::new(THREADS);

/// Sets the maximum number of threads of each pool of the process. Surplus threads end when they are idle.
pub fn bound_threads(threads: usize) {
    THREADS_OF_POOL.store(threads, Ordering::Relaxed);
}

/// The numbers of threads of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sizes {
    threads: usize,
    /// Maximum number of threads that work for one user at a time.
    of_one_user: usize,
    /// Threads that a pool may have even beyond [`ALL_THREADS`]. They are more than one user can occupy, so that
    /// neither other pools nor a single user can block the pool.
    guaranteed: usize,
}

impl Sizes {
    fn of(threads: usize) -> Sizes {
        let threads = threads.max(2);
        let of_one_user = (threads / 4).max(1);
        Sizes { threads, of_one_user, guaranteed: (threads / 3).max(of_one_user + 1) }
    }

    fn now() -> Sizes {
        Sizes::of(THREADS_OF_POOL.load(Ordering::Relaxed))
    }
}

/// Asserts the identity of a user on a thread.
pub trait ThreadIdentity: Clone + Send + Sync + 'static {
    /// Makes the thread act as `user` from now on.
    ///
    /// # Errors
    /// The thread could not switch. It must not act on behalf of any user.
    fn assume(&self, user: &Arc<Identity>) -> Result<()>;
}

/// For storage whose threads have no identity, because each of its calls is told the user.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoThreadIdentity;

impl ThreadIdentity for NoThreadIdentity {
    fn assume(&self, _: &Arc<Identity>) -> Result<()> {
        Ok(())
    }
}

/// The pools of one volume. `I` asserts the identities of users on their threads.
pub struct Workers<I> {
    identity: I,
    data: Arc<Pool>,
    slow: Arc<Pool>,
}

#[derive(Default)]
struct Pool {
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    users: HashMap<u32, Line>,
    /// Users with a job that may start now, each listed once.
    turns: VecDeque<u32>,
    threads: usize,
    /// Threads that were started or woken and have not taken a job since.
    coming: usize,
}

/// The jobs of one user. It exists while a job waits or runs.
#[derive(Default)]
struct Line {
    waiting: VecDeque<Job>,
    running: usize,
    has_turn: bool,
}

impl<I: ThreadIdentity> Workers<I> {
    /// Creates the pools of a volume, which have no threads yet.
    pub fn new(identity: I) -> Workers<I> {
        let (data, slow) = Default::default();
        Workers { identity, data, slow }
    }

    /// Does `work` on a worker that acts as `user`; `Errno::IO` if the work panicked or no thread could be started.
    pub fn later_as<T: Send + 'static>(
        &self,
        user: &Arc<Identity>,
        lane: Lane,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        let (identity, asserted) = (self.identity.clone(), Arc::clone(user));
        self.later(user.uid, lane, move || identity.assume(&asserted).and_then(|()| work()))
    }

    /// Does `work`, which needs no identity or asserts it itself, for the user `uid` on a worker; `Errno::IO` if the
    /// work panicked or no thread could be started.
    pub fn later<T: Send + 'static>(
        &self,
        uid: u32,
        lane: Lane,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        let (answer, receiver) = oneshot::channel();
        // If sending fails, the caller no longer waits; the work is done nevertheless.
        self.submit(uid, lane, Box::new(move || drop(answer.send(work()))));
        Answer::later(async move { receiver.await.unwrap_or(Err(Errno::IO)) })
    }

    /// Does `work` on a worker for the user `uid` without a result.
    pub fn submit(&self, uid: u32, lane: Lane, work: Job) {
        let pool = match lane {
            Lane::Data => &self.data,
            Lane::Slow => &self.slow,
        };
        Pool::submit(pool, uid, work);
    }

    #[cfg(test)]
    fn threads(&self, lane: Lane) -> usize {
        match lane {
            Lane::Data => self.data.queue.lock().threads,
            Lane::Slow => self.slow.queue.lock().threads,
        }
    }
}

impl Pool {
    fn submit(pool: &Arc<Pool>, user: u32, job: Job) {
        let mut queue = pool.queue.lock();
        if queue.add(user, job) && pool.takes_a_thread(&mut queue) {
            drop(queue);
            Pool::start(pool);
        }
    }

    /// Wakes a thread for a job. Returns whether one must be started instead, which is already included in the count.
    fn takes_a_thread(&self, queue: &mut Queue) -> bool {
        let wakes = self.work.notify_one();
        let sizes = Sizes::now();
        let starts = !wakes && queue.threads < sizes.threads && {
            let others = THREADS_NOW.fetch_add(1, Ordering::Relaxed);
            let may = queue.threads < sizes.guaranteed || others < ALL_THREADS;
            if !may {
                THREADS_NOW.fetch_sub(1, Ordering::Relaxed);
            }
            may
        };
        queue.threads += usize::from(starts);
        queue.coming += usize::from(starts || wakes);
        starts
    }

    fn start(pool: &Arc<Pool>) {
        let serving = Arc::clone(pool);
        let spawned = std::thread::Builder::new().name("files".to_owned()).spawn(move || serving.serve());
        if let Err(error) = spawned {
            tracing::warn!(%error, "cannot start a worker thread for file operations: the system's thread limit is \
                                    reached; raise it");
            let mut queue = pool.queue.lock();
            queue.coming -= 1;
            queue.ends();
            // If there are other threads, the jobs wait their turn; without any they would wait forever.
            let stranded = if queue.threads == 0 { std::mem::take(&mut *queue) } else { Queue::default() };
            drop(queue);
            drop(stranded);
        }
    }

    /// The main loop of a thread.
    fn serve(self: Arc<Self>) {
        let mut queue = self.queue.lock();
        queue.coming -= 1;
        loop {
            if let Some((user, job)) = queue.take() {
                let starts = !queue.turns.is_empty() && queue.coming == 0 && self.takes_a_thread(&mut queue);
                drop(queue);
                if starts {
                    Pool::start(&self);
                }
                run(job);
                queue = self.queue.lock();
                queue.done(user);
                continue;
            }
            let timed_out = self.work.wait_for(&mut queue, IDLE).timed_out();
            queue.coming -= usize::from(!timed_out);
            if timed_out && queue.turns.is_empty() {
                queue.ends();
                return;
            }
        }
    }
}

impl Queue {
    /// Adds a job and returns whether it may start now.
    fn add(&mut self, user: u32, job: Job) -> bool {
        let line = self.users.entry(user).or_default();
        line.waiting.push_back(job);
        let begins = line.running + line.waiting.len() <= Sizes::now().of_one_user;
        self.give_turn(user);
        begins
    }

    /// Queues the user's next job to start, if there is one and the user is below the limit.
    fn give_turn(&mut self, user: u32) {
        let Some(line) = self.users.get_mut(&user) else { return };
        if !line.has_turn && !line.waiting.is_empty() && line.running < Sizes::now().of_one_user {
            line.has_turn = true;
            self.turns.push_back(user);
        }
    }

    fn take(&mut self) -> Option<(u32, Job)> {
        let user = self.turns.pop_front()?;
        let line = self.users.get_mut(&user)?;
        line.has_turn = false;
        let job = line.waiting.pop_front()?;
        line.running += 1;
        self.give_turn(user);
        Some((user, job))
    }

    fn done(&mut self, user: u32) {
        let Some(line) = self.users.get_mut(&user) else { return };
        line.running -= 1;
        if line.running == 0 && line.waiting.is_empty() {
            self.users.remove(&user);
        } else {
            self.give_turn(user);
        }
    }

    /// Records that a thread exits.
    fn ends(&mut self) {
        self.threads -= 1;
        THREADS_NOW.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs a job. A panic is a bug of this crate; it costs the job's answer but not the thread.
fn run(job: Job) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a file operation panicked");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use server::answer::block_on;

    use super::*;

    const OF_ONE_USER: usize = 12;
    const GUARANTEED: usize = 16;

    #[test]
    fn a_user_occupies_a_quarter_and_fewer_threads_than_a_pool_always_has() {
        let expected = Sizes { threads: THREADS, of_one_user: OF_ONE_USER, guaranteed: GUARANTEED };
        assert_eq!(Sizes::of(THREADS), expected);
        for threads in 0..300 {
            let Sizes { threads, of_one_user, guaranteed } = Sizes::of(threads);
            assert!((1..guaranteed).contains(&of_one_user) && guaranteed <= threads, "{threads}");
        }
    }

    /// Jobs that block until this is dropped, and a count of the running ones.
    struct Blocked {
        running: Arc<AtomicUsize>,
        let_go: Arc<Mutex<()>>,
    }

    impl Blocked {
        fn submit(&self, workers: &Workers<NoThreadIdentity>, uid: u32, lane: Lane) {
            let (running, let_go) = (Arc::clone(&self.running), Arc::clone(&self.let_go));
            let job = move || {
                running.fetch_add(1, Ordering::SeqCst);
                drop(let_go.lock());
                running.fetch_sub(1, Ordering::SeqCst);
            };
            workers.submit(uid, lane, Box::new(job));
        }

        #[track_caller]
        fn wait_for(&self, count: usize) {
            for _ in 0..6000 {
                if self.running.load(Ordering::SeqCst) == count {
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            panic!("{} jobs run, not {count}", self.running.load(Ordering::SeqCst));
        }
    }

    /// Runs `check` while jobs can be blocked, then releases them.
    fn while_blocked(check: impl FnOnce(&Blocked)) {
        let blocked = Blocked { running: Arc::default(), let_go: Arc::default() };
        let let_go = Arc::clone(&blocked.let_go);
        let held = let_go.lock();
        check(&blocked);
        drop(held);
        blocked.wait_for(0);
    }

    #[test]
    fn work_is_done_and_a_panic_fails_only_its_own_job() {
        let (workers, who) = (Workers::new(NoThreadIdentity), 1);
        for lane in [Lane::Data, Lane::Slow] {
            let answers: Vec<_> = (0..200).map(|number| workers.later(who, lane, move || Ok(number))).collect();
            let done: Vec<_> = answers.into_iter().map(|answer| block_on(answer)).collect();
            assert_eq!(done, (0..200).map(Ok).collect::<Vec<_>>());
            for _ in 0..2 * THREADS {
                assert_eq!(block_on(workers.later::<()>(who, lane, || panic!("intended panic"))), Err(Errno::IO));
            }
            assert_eq!(block_on(workers.later(who, lane, || Ok(7))), Ok(7));
        }
    }

    #[test]
    fn one_user_gets_a_quarter_and_others_the_remainder() {
        let workers = Workers::new(NoThreadIdentity);
        while_blocked(|blocked| {
            for _ in 0..1000 {
                blocked.submit(&workers, 1, Lane::Data);
            }
            blocked.wait_for(OF_ONE_USER);
            // The others' jobs complete immediately, however many jobs of the first user wait.
            for uid in 2..10 {
                assert_eq!(block_on(workers.later(uid, Lane::Data, move || Ok(uid))), Ok(uid));
            }
            for uid in [2, 3] {
                (0..1000).for_each(|_| blocked.submit(&workers, uid, Lane::Data));
            }
            if workers.threads(Lane::Data) == THREADS {
                blocked.wait_for(3 * OF_ONE_USER);
            }
            // The other lane has its own threads.
            assert_eq!(block_on(workers.later(1, Lane::Slow, || Ok(1))), Ok(1));
            assert!(workers.threads(Lane::Data) <= THREADS);
        });
        assert_eq!(workers.data.queue.lock().users.values().map(|line| line.waiting.len()).sum::<usize>(), 0);
    }

    #[test]
    fn a_hanging_file_system_uses_no_threads_of_others() {
        let (hangs, works): (Vec<Workers<NoThreadIdentity>>, _) =
            ((0..8).map(|_| Workers::new(NoThreadIdentity)).collect(), Workers::new(NoThreadIdentity));
        while_blocked(|blocked| {
            for workers in &hangs {
                for uid in 0..8 {
                    (0..100).for_each(|_| blocked.submit(workers, uid, Lane::Data));
                }
            }
            let threads: usize = hangs.iter().map(|workers| workers.threads(Lane::Data)).sum();
            assert!(threads >= GUARANTEED * hangs.len());
            blocked.wait_for(threads);
            for number in 0..100 {
                assert_eq!(block_on(works.later(1, Lane::Data, move || Ok(number))), Ok(number));
            }
            assert!(THREADS_NOW.load(Ordering::Relaxed) <= ALL_THREADS + GUARANTEED * 2 * (hangs.len() + 8));
        });
    }

    #[test]
    fn users_take_turns() {
        let mut queue = Queue::default();
        let (sender, done) = mpsc::channel();
        for (uid, count) in [(1, 30), (2, 3), (3, 1)] {
            for _ in 0..count {
                let sender = sender.clone();
                queue.add(
                    uid,
                    Box::new(move || {
                        let _ = sender.send(uid);
                    }),
                );
            }
        }
        while let Some((_, job)) = queue.take() {
            job();
        }
        let order: Vec<u32> = done.try_iter().collect();
        assert_eq!(order[..6], [1, 2, 3, 1, 2, 1]);
        assert_eq!(order.iter().filter(|&&uid| uid == 1).count(), OF_ONE_USER, "the other jobs wait until one is done");
        queue.done(1);
        assert!(queue.take().is_some_and(|(uid, _)| uid == 1));
        assert!(queue.take().is_none());
    }

    /// Switches to any user but 2, and keeps a list of them.
    #[derive(Clone, Default)]
    struct Recorded(Arc<Mutex<Vec<u32>>>);

    impl ThreadIdentity for Recorded {
        fn assume(&self, user: &Arc<Identity>) -> Result<()> {
            self.0.lock().push(user.uid);
            if user.uid == 2 { Err(Errno::PERM) } else { Ok(()) }
        }
    }

    #[test]
    fn work_for_a_user_starts_once_the_thread_acts_as_the_user() {
        let identity = Recorded::default();
        let workers = Workers::new(identity.clone());
        let user = |uid| Arc::new(Identity { uid, gid: 1, groups: Box::default() });
        let users = Arc::clone(&identity.0);
        let seen = block_on(workers.later_as(&user(1), Lane::Data, move || Ok(users.lock().clone())));
        assert_eq!(seen, Ok(vec![1]));
        assert_eq!(block_on(workers.later(3, Lane::Data, || Ok(()))), Ok(()), "nothing is asserted");
        let failed = block_on(workers.later_as::<()>(&user(2), Lane::Slow, || panic!("acts as another user")));
        assert_eq!(failed, Err(Errno::PERM));
        assert_eq!(*identity.0.lock(), [1, 2]);
    }

    #[test]
    fn idle_threads_end() {
        let workers = Workers::new(NoThreadIdentity);
        block_on(workers.later(1, Lane::Data, || Ok(()))).expect("the job is done");
        let pool = Arc::downgrade(&workers.data);
        drop(workers);
        // The thread holds the last reference to the pool.
        for _ in 0..6000 {
            if pool.strong_count() == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the thread does not end");
    }
}
