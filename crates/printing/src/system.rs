//! The print system, as the server sees it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::RwLock;
use server::answer::Answer;
use server::policy::PrintPolicy;
use server::policy::printing::QueueSystem;
use server::printing::{NewJob, PrintError, PrintSystem, PrintUser, QueueInfo, Result};
use tokio::runtime::Handle;

use crate::cache::Cache;
use crate::commands::Commands;
use crate::cups::Cups;
use crate::{Helper, Printcap, Settings, printcap};

/// The print system of the host.
pub struct Printing(Arc<Inner>);

struct Inner {
    runtime: Handle,
    settings: RwLock<Settings>,
    /// `None` if the configuration had no commands when the server started.
    commands: Option<Arc<Commands>>,
    queues: Cache<Arc<[QueueInfo]>>,
    counts: Cache<usize>,
    last_job: AtomicU32,
}

impl Printing {
    /// Creates the print system, whose work runs on the current runtime. `helper` executes the commands of shares.
    ///
    /// # Errors
    /// The helper cannot be used.
    pub fn new(settings: Settings, helper: Option<Helper>) -> io::Result<Printing> {
        let runtime = Handle::current();
        let commands = helper.map(|helper| Commands::new(helper, &runtime)).transpose()?;
        Ok(Printing(Arc::new(Inner {
            runtime,
            settings: RwLock::new(settings),
            commands,
            queues: Cache::default(),
            counts: Cache::default(),
            last_job: AtomicU32::new(0),
        })))
    }

    /// Puts other settings into effect.
    pub fn configure(&self, settings: Settings) {
        *self.0.settings.write() = settings;
        self.0.queues.clear();
        self.0.counts.clear();
    }

    /// Runs a call on the runtime, also if nobody waits for it any more.
    fn run<T: Send + 'static>(&self, call: impl Future<Output = Result<T>> + Send + 'static) -> Answer<Result<T>> {
        let task = self.0.runtime.spawn(call);
        Answer::later(async move { task.await.unwrap_or_else(|error| Err(PrintError::Refused(error.to_string()))) })
    }
}

impl Inner {
    fn cups(&self) -> Cups {
        let settings = self.settings.read();
        Cups { address: settings.cups_server.clone(), limit: settings.cups_connection_timeout }
    }

    fn commands(&self) -> Result<&Commands> {
        let added = || {
            let why = "the share's print commands were added after the start of the server; restart the server";
            PrintError::Unavailable(why.to_owned())
        };
        self.commands.as_deref().ok_or_else(added)
    }

    async fn ask_for_queues(&self) -> Result<Arc<[QueueInfo]>> {
        let printcap_name = self.settings.read().printcap_name.clone();
        match printcap_name {
            Printcap::Cups => self.cups().queues().await.map(Arc::from),
            Printcap::File(path) => {
                let read = tokio::task::spawn_blocking(move || printcap::read(&path)).await;
                read.unwrap_or_else(|error| Err(PrintError::Unavailable(error.to_string()))).map(Arc::from)
            }
        }
    }

    async fn count_jobs(&self, queue: &PrintPolicy, user: &PrintUser) -> Result<usize> {
        tracing::debug!(queue = queue.queue, "asking the print system for the jobs of a queue");
        match &queue.system {
            QueueSystem::Cups { .. } => self.cups().job_count(&queue.queue).await,
            QueueSystem::Commands(commands) => self.commands()?.job_count(&queue.queue, commands, user).await,
        }
    }
}

/// Returns the name of a queue among the questions. Queues of different print systems may have the same name.
fn key(queue: &PrintPolicy) -> String {
    match &queue.system {
        QueueSystem::Cups { .. } => format!("cups {}", queue.queue),
        QueueSystem::Commands(commands) => {
            let list = commands.list.as_ref().map(|list| list.text()).unwrap_or_default();
            format!("{list} {}", queue.queue)
        }
    }
}

impl PrintSystem for Printing {
    fn queues(&self) -> Answer<Result<Arc<[QueueInfo]>>> {
        let inner = self.0.clone();
        self.run(async move {
            let time = inner.settings.read().printcap_cache_time;
            inner.queues.get("", time, inner.ask_for_queues()).await
        })
    }

    fn submit(&self, queue: &Arc<PrintPolicy>, job: NewJob) -> Answer<Result<()>> {
        let (inner, queue) = (self.0.clone(), queue.clone());
        self.run(async move {
            let number = inner.last_job.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            let submitted = match &queue.system {
                QueueSystem::Cups { options } => inner.cups().submit(&queue.queue, options, &job).await,
                QueueSystem::Commands(commands) => match inner.commands() {
                    Ok(helper) => helper.submit(&queue.queue, commands, &job, number).await,
                    Err(error) => Err(error),
                },
            };
            // The queue has changed.
            inner.counts.forget(&key(&queue));
            let NewJob { title, user, size, spool, .. } = job;
            if submitted.is_ok() {
                tracing::info!(queue = queue.queue, user = user.name, title, size, "a job was handed over");
            }
            spool.remove().await;
            submitted
        })
    }

    fn job_count(&self, queue: &Arc<PrintPolicy>, user: &PrintUser) -> Answer<Result<usize>> {
        let (inner, queue, user) = (self.0.clone(), queue.clone(), user.clone());
        self.run(async move {
            let time = inner.settings.read().lpq_cache_time;
            inner.counts.get(&key(&queue), time, inner.count_jobs(&queue, &user)).await
        })
    }
}
