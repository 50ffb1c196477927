//! The thread on which a directory's connections live.
//!
//! Logons come from the server's threads, `frevo user` from a thread without a runtime: both hand over what is to be done
//! and wait, one for a future, the other by blocking.

use std::future::Future;

use anyhow::{Context, Result};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The thread; it ends when this is dropped.
pub(super) struct Worker {
    handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl Worker {
    pub(super) fn start() -> Result<Worker> {
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
        Ok(Worker { handle, _stop: stop })
    }

    /// Does it there.
    pub(super) fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.handle.spawn(work)
    }

    /// Does it there and blocks until it is done.
    pub(super) fn wait<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let (done, wait) = oneshot::channel();
        self.handle.spawn(async move { _ = done.send(work.await) });
        wait.blocking_recv().context("the LDAP thread has ended")?
    }
}
