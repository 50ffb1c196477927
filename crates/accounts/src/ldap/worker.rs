//! The execution context of a directory's connections.
//!
//! In a server, they are tasks of its runtime: the task of a logon writes its query itself, and the thread that reads
//! the answer usually continues the logon, so threads do not wait for each other. `frevo user` has no such runtime and
//! uses a separate thread.

use std::future::{Future, poll_fn};
use std::pin::pin;

use anyhow::{Context, Result};
use server::accounts::Unavailable;
use server::answer::Answer;
use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::oneshot;

/// The execution context. If it is a separate thread, its work ends when this is dropped.
pub(super) struct Worker {
    handle: Handle,
    pub(super) thread: Option<oneshot::Sender<()>>,
}

/// An answer type with a value for "there will be no answer".
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
            // On a single-threaded runtime, blocking its only thread would deadlock.
            _ => Worker::with_thread(),
        }
    }

    fn with_thread() -> Result<Worker> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            // A new thread inherits the identity of its creator.
            .on_thread_start(|| localfs::identity::as_process(|| ()).expect("a switch to the process identity"))
            .build()
            .context("cannot start the LDAP thread")?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            localfs::identity::as_process(|| ()).expect("a switch to the process identity");
            _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("ldap".into()).spawn(run).context("cannot start the LDAP thread")?;
        Ok(Worker { handle, thread: Some(stop) })
    }

    /// Runs `work` there without waiting for it.
    pub(super) fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Runs `work` there, or as a part of the caller's task if that has the same runtime.
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

    /// Runs `work` there and blocks until it is done.
    pub(super) fn wait<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let (done, wait) = oneshot::channel();
        self.handle.spawn(async move { _ = done.send(work.await) });
        wait.blocking_recv().context("the LDAP tasks have ended")?
    }
}

/// Polls `work` with the identity of the process, on threads that may have a user's. It is needed to open files or
/// sockets by path.
pub(super) async fn as_process<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut work = pin!(work);
    poll_fn(|context| match localfs::identity::as_process(|| work.as_mut().poll(context)) {
        Ok(polled) => polled,
        Err(error) => std::task::Poll::Ready(Err(error).context("cannot switch to the process's identity")),
    })
    .await
}
