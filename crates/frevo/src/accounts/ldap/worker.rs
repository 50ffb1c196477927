//! Where a directory's connections live.
//!
//! In a server, among its own tasks: whoever logs on writes his question himself, and the thread that reads the answer is
//! mostly the one that goes on with the logon, so no thread waits for another. `frevo user` has no such tasks; there it is
//! a thread of its own.

use std::future::{Future, poll_fn};
use std::pin::pin;

use anyhow::{Context, Result};
use server::accounts::Unavailable;
use server::answer::Answer;
use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::oneshot;

/// The place; what is under way on a thread of its own ends when this is dropped.
pub(super) struct Worker {
    handle: Handle,
    pub(super) thread: Option<oneshot::Sender<()>>,
}

/// An answer that can say that there will be none.
pub(super) trait Ended {
    fn ended() -> Self;
}

impl Ended for () {
    fn ended() {}
}

impl<T> Ended for Result<T, Unavailable> {
    fn ended() -> Self {
        Err(Unavailable("the LDAP thread has ended".into()))
    }
}

impl Worker {
    pub(super) fn start() -> Result<Worker> {
        match Handle::try_current() {
            Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => Ok(Worker { handle, thread: None }),
            // Whoever blocks the only thread of a runtime would wait for himself.
            _ => Worker::with_thread(),
        }
    }

    fn with_thread() -> Result<Worker> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            // A thread begins with the identity of the one that started it.
            .on_thread_start(|| localfs::identity::as_process(|| ()).expect("a process may become what it is"))
            .build()
            .context("starting the LDAP thread")?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            localfs::identity::as_process(|| ()).expect("a process may become what it is");
            _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("ldap".into()).spawn(run).context("starting the LDAP thread")?;
        Ok(Worker { handle, thread: Some(stop) })
    }

    /// Does it there, without anybody who waits.
    pub(super) fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Does it there, as a part of whoever waits where that is the same place.
    pub(super) fn answer<T: Ended + Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Answer<T> {
        if self.thread.is_none() {
            return Answer::later(work);
        }
        let done = self.handle.spawn(work);
        Answer::later(async move { done.await.unwrap_or_else(|_| T::ended()) })
    }

    /// Does it there and blocks until it is done.
    pub(super) fn wait<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let (done, wait) = oneshot::channel();
        self.handle.spawn(async move { _ = done.send(work.await) });
        wait.blocking_recv().context("the LDAP tasks have ended")?
    }
}

/// Does `work` with the identity of the process, on threads that may have a user's: for what opens files or sockets by
/// their paths.
pub(super) async fn as_process<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut work = pin!(work);
    poll_fn(|context| match localfs::identity::as_process(|| work.as_mut().poll(context)) {
        Ok(polled) => polled,
        Err(error) => std::task::Poll::Ready(Err(error).context("acting as the process itself")),
    })
    .await
}
