//! Threads for what may make the kernel wait: reads from disk, writes that are throttled, directories read whole.
//!
//! A small pool that grows with the work and shrinks when idle. Two lanes, so that a flood of flushes, each of which
//! waits for the disk, cannot keep reads from being served.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use server::answer::Answer;
use server::vfs::{Errno, Result};
use tokio::sync::oneshot;

/// Which threads do the work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lane {
    /// Reading, writing, looking up: waits for a disk access or two.
    Data,
    /// Flushing and freeing: may wait for seconds.
    Slow,
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads of one lane. Enough to keep a disk array busy; more would only wait.
const THREADS: usize = 24;
/// How long a thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Pool {
    queue: Mutex<Queue>,
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static DATA: LazyLock<Pool> = LazyLock::new(Pool::default);
static SLOW: LazyLock<Pool> = LazyLock::new(Pool::default);

/// Does `work` on a worker.
pub(crate) fn later<T: Send + 'static>(
    lane: Lane,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Answer<Result<T>> {
    later_or(lane, work, || Err(Errno::IO))
}

/// Does `work` on a worker; `lost` is the answer where the work panicked.
pub(crate) fn later_or<T: Send + 'static>(
    lane: Lane,
    work: impl FnOnce() -> T + Send + 'static,
    lost: impl FnOnce() -> T + Send + 'static,
) -> Answer<T> {
    let (answer, receiver) = oneshot::channel();
    // Nobody waits any more where sending fails; the work is done all the same.
    submit(lane, Box::new(move || drop(answer.send(work()))));
    Answer::later(async move { receiver.await.unwrap_or_else(|_| lost()) })
}

/// Does `work` on a worker, with nobody waiting for it.
pub(crate) fn submit(lane: Lane, work: Job) {
    let pool: &'static Pool = match lane {
        Lane::Data => &DATA,
        Lane::Slow => &SLOW,
    };
    let mut queue = pool.queue.lock();
    queue.jobs.push_back(work);
    if queue.idle >= queue.jobs.len() {
        pool.work.notify_one();
        return;
    }
    if queue.threads == THREADS {
        return;
    }
    queue.threads += 1;
    drop(queue);
    let spawned = std::thread::Builder::new().name("files".to_owned()).spawn(move || serve(pool));
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread for file work");
        let mut queue = pool.queue.lock();
        queue.threads -= 1;
        // With other threads the job waits its turn; without any it would wait forever.
        let stranded = if queue.threads == 0 { queue.jobs.pop_front() } else { None };
        drop(queue);
        if let Some(job) = stranded {
            run(job);
        }
    }
}

/// A thread's life.
fn serve(pool: &'static Pool) {
    let mut queue = pool.queue.lock();
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            drop(queue);
            run(job);
            queue = pool.queue.lock();
            continue;
        }
        queue.idle += 1;
        let waited = pool.work.wait_for(&mut queue, IDLE);
        queue.idle -= 1;
        if waited.timed_out() && queue.jobs.is_empty() {
            queue.threads -= 1;
            return;
        }
    }
}

/// A job that panics is a bug of this crate; it costs its answer, not the thread.
fn run(job: Job) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a file operation panicked");
    }
}

#[cfg(test)]
mod tests {
    use server::answer::block_on;

    use super::*;

    #[test]
    fn work_is_done_and_panics_cost_one_answer() {
        for lane in [Lane::Data, Lane::Slow] {
            let answers: Vec<_> = (0..200).map(|number| later(lane, move || Ok(number))).collect();
            let done: Vec<_> = answers.into_iter().map(|answer| block_on(answer)).collect();
            assert_eq!(done, (0..200).map(Ok).collect::<Vec<_>>());
            assert_eq!(block_on(later::<()>(lane, || panic!("on purpose"))), Err(Errno::IO));
            assert_eq!(block_on(later(lane, || Ok(7))), Ok(7));
        }
    }
}
