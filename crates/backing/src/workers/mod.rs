//! Worker threads for calls in which the kernel may wait: disk reads, throttled writes, reading whole directories.
//!
//! Each volume has its own pools, so one that hangs takes no thread from another. A pool grows with the work and
//! shrinks when idle. There are two lanes, so that a flood of flushes, each of which waits for the disk, cannot delay
//! reads. The jobs of one user occupy at most a quarter of a pool; further ones wait, and users take turns.
//!
//! A call may have a time limit, of its [`Op`] or of the volume. The caller gets `Errno::TIMEDOUT` when it passes,
//! although the thread is still in the call. That thread then *hangs*: it is no longer one of the pool's, nor of the
//! user's share, so that another takes its place, up to a maximum of threads in all. When the call returns, its result
//! is dropped on that thread, which then works for the pool again or ends if the pool is complete. A call whose limit
//! passes before it starts is not made.
//!
//! The thread of a call with a limit is replaced in the same way when the call has run for 100 ms, because a part of
//! the storage may hang and the user's other calls may be for other parts. The call may still end in time.

mod pool;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use server::answer::Answer;
use server::vfs::{Errno, Identity, Op, Result};
use tokio::sync::oneshot;

use crate::completion::{Completion, Slot, Tally};
use pool::{Pool, THREADS_OF_POOL};

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
/// Threads of a volume whose calls may hang, including the hanging ones, unless [`Settings`] have another number.
pub const THREADS_IN_ALL: usize = 64;

/// Sets the maximum number of threads of each pool whose [`Settings`] have none. Surplus threads end when they are
/// idle.
pub fn bound_threads(threads: usize) {
    THREADS_OF_POOL.store(threads, Ordering::Relaxed);
}

/// How a volume's calls are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Name of the threads, of which the kernel keeps 15 bytes.
    pub name: &'static str,
    /// Maximum number of threads of each lane; `None` for the one that [`bound_threads`] sets.
    pub threads: Option<usize>,
    /// Maximum number of threads of both lanes together, including hanging ones. Half of them are for each lane, and of
    /// these at most half for one user. `None` for twice the number without hanging ones.
    pub threads_in_all: Option<usize>,
    /// How long a call may take, including the time until a thread makes it; `None` for any time. A call whose [`Op`]
    /// has a shorter timeout may take that long.
    pub limit: Option<Duration>,
}

impl Default for Settings {
    /// Calls may take any time.
    fn default() -> Settings {
        Settings { name: "files", threads: None, threads_in_all: None, limit: None }
    }
}

impl Settings {
    /// Returns the settings of a volume whose calls may hang, and may take at most `limit`.
    pub fn limited(name: &'static str, limit: Duration) -> Settings {
        Settings { name, threads_in_all: Some(THREADS_IN_ALL), limit: Some(limit), ..Settings::default() }
    }
}

/// The user that a call is attributed to, and how long it may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// How long the call may take, unless the volume has a shorter limit.
    pub timeout: Option<Duration>,
}

impl From<u32> for Caller {
    fn from(uid: u32) -> Caller {
        Caller { uid, timeout: None }
    }
}

impl From<&Op> for Caller {
    fn from(op: &Op) -> Caller {
        Caller { uid: op.uid, timeout: op.timeout() }
    }
}

/// Numbers of one volume.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Numbers {
    /// Threads, including hanging ones.
    pub threads: usize,
    /// Calls that wait for a thread.
    pub waiting: usize,
    /// Calls whose limit has passed and that have not ended. Each that is not asynchronous occupies a thread.
    pub hanging: usize,
    /// Calls whose limit passed before they ended, since the volume was opened.
    pub timed_out: u64,
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
    settings: Settings,
    data: Arc<Pool>,
    slow: Arc<Pool>,
    tally: Arc<Tally>,
}

impl<I: ThreadIdentity> Workers<I> {
    /// Creates the pools of a volume, which have no threads yet.
    pub fn new(identity: I, settings: Settings) -> Workers<I> {
        let tally = Arc::default();
        let pool = || Pool::new(settings, Arc::clone(&tally));
        Workers { identity, settings, data: pool(), slow: pool(), tally }
    }

    /// Does `work` on a worker that acts as the user of `op`; `Errno::IO` if the work panicked or no thread could be
    /// started, and `Errno::TIMEDOUT` after the limit.
    pub fn later_as<T: Send + 'static>(
        &self,
        op: &Op,
        lane: Lane,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        let (identity, asserted) = (self.identity.clone(), Arc::clone(op.identity()));
        self.later(op, lane, move || identity.assume(&asserted).and_then(|()| work()))
    }

    /// Does `work`, which needs no identity or asserts it itself, on a worker; `Errno::IO` if the work panicked or no
    /// thread could be started, and `Errno::TIMEDOUT` after the limit.
    ///
    /// A result that comes later is dropped on the worker. What `work` captures may be dropped on another thread if the
    /// limit passes before it starts, so dropping that must not wait.
    pub fn later<T: Send + 'static>(
        &self,
        caller: impl Into<Caller>,
        lane: Lane,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Answer<Result<T>> {
        let (caller, pool) = (caller.into(), self.pool(lane));
        if let Some(limit) = self.limit(caller) {
            let (slot, answer) = Slot::new();
            let given = Arc::clone(&slot);
            Pool::submit_limited(pool, caller.uid, limit, slot, Box::new(move || given.give(work())));
            return answer;
        }
        let (answer, receiver) = oneshot::channel();
        // If sending fails, the caller no longer waits; the work is done nevertheless.
        Pool::submit(pool, caller.uid, Box::new(move || drop(answer.send(work()))));
        Answer::later(async move { receiver.await.unwrap_or(Err(Errno::IO)) })
    }

    /// Begins an asynchronous call, which occupies no worker. It ends when the first part is completed, or with
    /// `Errno::TIMEDOUT` after the limit.
    ///
    /// # Errors
    /// `Errno::TIMEDOUT` while as many asynchronous calls of the user hang as other calls may, because each keeps its
    /// memory and its open file.
    pub fn begin<T: Send + 'static>(&self, caller: impl Into<Caller>) -> Result<(Completion<T>, Answer<Result<T>>)> {
        let caller = caller.into();
        if self.tally.hanging_of(caller.uid) >= self.data.sizes().in_all_of_one_user {
            return Err(Errno::TIMEDOUT);
        }
        Ok(self.begin_always(caller))
    }

    /// Like [`Workers::begin`], whatever number of calls hang: for a call that ends others or gives up what they hold.
    pub fn begin_always<T: Send + 'static>(&self, caller: impl Into<Caller>) -> (Completion<T>, Answer<Result<T>>) {
        let caller = caller.into();
        Completion::begin(caller.uid, self.limit(caller), &self.tally)
    }

    /// Does `work` on a worker for the user `uid` without a result. It is done whatever time passes until then; the
    /// volume's limit is only for the time that it takes itself.
    pub fn submit(&self, uid: u32, lane: Lane, work: Job) {
        Pool::submit(self.pool(lane), uid, work);
    }

    /// Returns the current numbers.
    pub fn numbers(&self) -> Numbers {
        let (hanging, timed_out) = (self.tally.hanging(), self.tally.timed_out());
        let numbers = Numbers { threads: 0, waiting: 0, hanging, timed_out };
        [&self.data, &self.slow].into_iter().fold(numbers, |sum, pool| {
            let queue = pool.queue.lock();
            let threads = sum.threads + queue.threads + queue.hanging;
            let waiting = sum.waiting + queue.waiting();
            Numbers { threads, waiting, hanging: sum.hanging + queue.overdue(), ..sum }
        })
    }

    fn limit(&self, caller: Caller) -> Option<Duration> {
        caller.timeout.into_iter().chain(self.settings.limit).min()
    }

    fn pool(&self, lane: Lane) -> &Arc<Pool> {
        match lane {
            Lane::Data => &self.data,
            Lane::Slow => &self.slow,
        }
    }
}
