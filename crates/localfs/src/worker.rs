//! Threads for what would keep an I/O thread waiting: reads from disk, flushes.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use server::answer::Answer;

/// How many operations may wait for disks at the same time.
const THREADS: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    queue: Sender<Job>,
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| {
        let (queue, jobs) = channel::<Job>();
        let jobs = Arc::new(Mutex::new(jobs));
        for number in 0..THREADS {
            let jobs = jobs.clone();
            let spawned = std::thread::Builder::new().name(format!("localfs-{number}")).spawn(move || work(&jobs));
            if let Err(error) = spawned {
                tracing::error!(%error, "cannot start a worker thread");
            }
        }
        Pool { queue }
    })
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        // The lock is held while waiting, so the threads take turns at the queue.
        let job = jobs.lock().recv();
        match job {
            // A panic in a job must not cost a thread; its asker sees the dropped sender.
            Ok(job) => drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job))),
            Err(_) => return,
        }
    }
}

/// Runs `job` on a worker thread. `lost` is the answer should the job panic.
pub(crate) fn run<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
    lost: impl FnOnce() -> T + Send + 'static,
) -> Answer<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // The receiver may be gone: a client that disconnected does not wait.
    let sent = pool().queue.send(Box::new(move || drop(sender.send(job()))));
    debug_assert!(sent.is_ok(), "worker threads live as long as the process");
    Answer::later(async move { receiver.await.unwrap_or_else(|_| lost()) })
}
