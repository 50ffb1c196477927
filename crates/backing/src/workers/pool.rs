//! The threads of a pool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use server::vfs::Errno;

use super::queue::{Expired, Limit, Queue, STALL, Sizes, Task};
use super::{Job, Settings, THREADS};
use crate::completion::{Slot, Tally};
use crate::deadlines::{Call, Deadline, Deadlines};

/// Maximum number of threads of all pools together.
pub(super) const ALL_THREADS: usize = 256;
/// How long a thread waits for work before it exits.
const IDLE: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(10) };

/// Current number of threads of all pools.
pub(super) static THREADS_NOW: AtomicUsize = AtomicUsize::new(0);
/// Maximum number of threads of one pool.
pub(super) static THREADS_OF_POOL: AtomicUsize = AtomicUsize::new(THREADS);

/// The threads of one lane of a volume.
pub(super) struct Pool {
    settings: Settings,
    pub(super) queue: Mutex<Queue>,
    tally: Arc<Tally>,
}

/// A job with a time limit.
struct LimitedJob<T> {
    pool: Arc<Pool>,
    user: u32,
    number: u64,
    slot: Arc<Slot<T>>,
    /// The part of the limit after the next call of [`LimitedJob::expire`].
    left: Mutex<Duration>,
}

impl<T: Send + 'static> Call for LimitedJob<T> {
    fn expire(&self) -> Option<Duration> {
        let mut left = self.left.lock();
        if !left.is_zero() {
            let next = Pool::stall(&self.pool, self.user, self.number).map_or(*left, |next| next.min(*left));
            *left -= next;
            return Some(next);
        }
        let expired = Pool::expire(&self.pool, self.user, self.number);
        if expired.is_some() {
            self.slot.give(Err(Errno::TIMEDOUT));
        }
        // A job that was waiting is dropped only now, because what it captured may take a while to drop.
        drop(expired);
        None
    }
}

impl Pool {
    pub(super) fn new(settings: Settings, tally: Arc<Tally>) -> Arc<Pool> {
        Arc::new(Pool { settings, queue: Mutex::default(), tally })
    }

    pub(super) fn sizes(&self) -> Sizes {
        let threads = self.settings.threads.unwrap_or_else(|| THREADS_OF_POOL.load(Ordering::Relaxed));
        Sizes::of(threads, self.settings.threads_in_all.map(|both_lanes| both_lanes / 2))
    }

    /// Does `job` for `user`. Its own limit is that of the volume, counted from its start.
    pub(super) fn submit(pool: &Arc<Pool>, user: u32, job: Job) {
        let limit = pool.settings.limit.map_or(Limit::None, Limit::OfRun);
        Pool::add(pool, user, limit, |_| job);
    }

    /// Does `job`, whose result goes to `slot`, and ends the call after `limit`.
    pub(super) fn submit_limited<T: Send + 'static>(
        pool: &Arc<Pool>,
        user: u32,
        limit: Duration,
        slot: Arc<Slot<T>>,
        job: Job,
    ) {
        Pool::add(pool, user, Limit::OfCall, |number| {
            let deadline = Pool::watch(pool, user, number, limit, slot);
            Box::new(move || {
                job();
                drop(deadline);
            })
        });
    }

    fn watch<T: Send + 'static>(
        pool: &Arc<Pool>,
        user: u32,
        number: u64,
        limit: Duration,
        slot: Arc<Slot<T>>,
    ) -> Deadline {
        let first = limit.min(STALL);
        let call = LimitedJob { pool: Arc::clone(pool), user, number, slot, left: Mutex::new(limit - first) };
        Deadlines::of_process().watch(first, Arc::new(call))
    }

    /// Adds the job that `job` returns for its number. The queue is locked meanwhile, so that a limit that passes at
    /// once finds the task.
    fn add(pool: &Arc<Pool>, user: u32, limit: Limit, job: impl FnOnce(u64) -> Job) {
        let mut queue = pool.queue.lock();
        let number = queue.next_number();
        let task = Task { number, user, limit, job: job(number) };
        if queue.add(task, pool.sizes()) && pool.takes_a_thread(&mut queue) {
            drop(queue);
            Pool::start(pool);
        }
    }

    /// Has another thread take the place of one that has long been in a task. Returns when to try again if the task has
    /// not been running for long.
    fn stall(pool: &Arc<Pool>, user: u32, number: u64) -> Option<Duration> {
        let mut queue = pool.queue.lock();
        let next = queue.stall(user, number, pool.sizes());
        let starts = next.is_none() && pool.continues(&mut queue);
        drop(queue);
        if starts {
            Pool::start(pool);
        }
        next
    }

    /// Records that the limit of a task has passed. If a thread hangs in it, another takes its place.
    fn expire(pool: &Arc<Pool>, user: u32, number: u64) -> Option<Expired> {
        let mut queue = pool.queue.lock();
        let expired = queue.expire(user, number, pool.sizes())?;
        pool.tally.count_timeout();
        let starts = pool.continues(&mut queue);
        drop(queue);
        if starts {
            Pool::start(pool);
        }
        Some(expired)
    }

    /// Like [`Pool::takes_a_thread`], if a job may start and no thread is coming for it.
    fn continues(&self, queue: &mut Queue) -> bool {
        queue.has_turns() && queue.coming == 0 && self.takes_a_thread(queue)
    }

    /// Wakes a thread for a job. Returns whether one must be started instead, which is already included in the count.
    fn takes_a_thread(&self, queue: &mut Queue) -> bool {
        // The last one that went idle has the most in the processor caches, and the others may end.
        let woken = queue.idle.pop();
        let wakes = woken.is_some();
        if let Some(waits) = woken {
            waits.notify_one();
        }
        let sizes = self.sizes();
        let has_space = queue.threads < sizes.threads && queue.threads + queue.hanging < sizes.in_all;
        let starts = !wakes && has_space && {
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
        let spawned = std::thread::Builder::new().name(pool.settings.name.to_owned()).spawn(move || serving.serve());
        if let Err(error) = spawned {
            tracing::warn!(%error, "cannot start a worker thread for file operations: the system's thread limit is \
                                    reached; raise it");
            let mut queue = pool.queue.lock();
            queue.coming -= 1;
            queue.threads -= 1;
            THREADS_NOW.fetch_sub(1, Ordering::Relaxed);
            // If there are other threads, the jobs wait their turn; without any they would wait forever.
            let stranded = if queue.threads == 0 { queue.clear() } else { Vec::new() };
            drop(queue);
            drop(stranded);
        }
    }

    /// The main loop of a thread.
    fn serve(self: Arc<Self>) {
        let waits = Arc::new(Condvar::new());
        let mut queue = self.queue.lock();
        queue.coming -= 1;
        loop {
            if let Some(task) = queue.take(self.sizes()) {
                let starts = self.continues(&mut queue);
                drop(queue);
                if starts {
                    Pool::start(&self);
                }
                let Task { number, user, limit, job } = task;
                match limit {
                    Limit::OfRun(limit) => {
                        let _deadline = Pool::watch(&self, user, number, limit, Arc::new(Slot::<()>::default()));
                        run(job);
                    }
                    Limit::None | Limit::OfCall => run(job),
                }
                queue = self.queue.lock();
                if limit == Limit::None || !queue.had_hung(number) {
                    queue.done(user, self.sizes());
                } else if !queue.returned(user, self.sizes()) {
                    break;
                }
                continue;
            }
            queue.idle.push(Arc::clone(&waits));
            waits.wait_for(&mut queue, IDLE);
            if !queue.is_still_idle(&waits) {
                // It was woken for a job.
                queue.coming -= 1;
            } else if !queue.has_turns() {
                queue.threads -= 1;
                break;
            }
        }
        THREADS_NOW.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs a job. A panic is a bug of this crate; it costs the job's answer but not the thread.
fn run(job: Job) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a file operation panicked");
    }
}
