//! The print system, as the server sees it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use server::accounting::Resource;
use server::answer::Answer;
use server::policy::PrintPolicy;
use server::policy::limits::LISTED_JOBS_MAX;
use server::policy::printing::QueueSystem;
use server::printing::{Action, NewJob, PrintError, PrintSystem, PrintUser, QueueInfo, QueueJobs, Result};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::cache::{Cache, Take};
use crate::commands::Commands;
use crate::cups::Cups;
use crate::cups::http::CHUNK;
use crate::reports::Reports;
use crate::turns::Turns;
use crate::{Helper, Printcap, Settings, printcap};

/// How many jobs are sent to CUPS at a time, and how many of them may be of one user. By default, CUPS has 100
/// connections for all programs.
const HANDOVERS: usize = 16;
const HANDOVERS_OF_USER: usize = 8;
/// How long a job waits until it is sent.
const HANDOVER_WAIT: Duration = Duration::from_secs(30);
/// How many questions CUPS is asked at a time.
const QUESTIONS: usize = 4;
/// How long CUPS may take for an answer. A client waits for it before it sends its job.
const QUESTION_TIME: Duration = Duration::from_secs(4);
/// How many lists of jobs are kept.
const LISTS: usize = 64;
/// How long the files of jobs may take to be removed when the server stops.
const REMOVAL_TIME: Duration = Duration::from_secs(2);

/// The print system of the host.
pub struct Printing(Arc<Inner>);

struct Inner {
    runtime: Handle,
    settings: RwLock<Settings>,
    /// `None` if the configuration had no commands when the server started.
    commands: Option<Arc<Commands>>,
    queues: Cache<Arc<[QueueInfo]>>,
    counts: Cache<usize>,
    jobs: Cache<Arc<QueueJobs>>,
    last_job: AtomicU32,
    handovers: Turns,
    questions: Semaphore,
    /// Permits to read `printcap name`.
    reading: Arc<Semaphore>,
    reports: Reports,
    /// The number of jobs that are being handed over, or wait for it.
    running: watch::Sender<usize>,
    /// The server stops, and no job is handed over any more.
    stopped: watch::Sender<bool>,
}

/// A job that is handed over, until this is dropped.
struct Handover(Arc<Inner>);

impl Handover {
    fn new(inner: &Arc<Inner>) -> Handover {
        inner.running.send_modify(|count| *count += 1);
        Handover(inner.clone())
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        self.0.running.send_modify(|count| *count -= 1);
    }
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
            jobs: Cache::keeping(LISTS),
            last_job: AtomicU32::new(0),
            handovers: Turns::new(HANDOVERS, HANDOVERS_OF_USER),
            questions: Semaphore::new(QUESTIONS),
            reading: Arc::new(Semaphore::new(1)),
            reports: Reports::default(),
            running: watch::Sender::new(0),
            stopped: watch::Sender::new(false),
        })))
    }

    /// Puts settings into effect, and has the queues listed again.
    pub fn configure(&self, settings: Settings) {
        self.0.queues.clear();
        if std::mem::replace(&mut *self.0.settings.write(), settings.clone()) != settings {
            self.0.counts.clear();
            self.0.jobs.clear();
        }
    }

    /// Waits for the jobs that are being handed over. Those that take longer than `time` are given up, and their files
    /// are removed.
    pub async fn stop(&self, time: Duration) {
        let mut running = self.0.running.subscribe();
        if timeout(time, running.wait_for(|count| *count == 0)).await.is_ok() {
            return;
        }
        let jobs = *running.borrow_and_update();
        tracing::warn!(jobs, "the server stops before these print jobs are handed over; their clients get an error");
        self.0.stopped.send_replace(true);
        let _ = timeout(REMOVAL_TIME, running.wait_for(|count| *count == 0)).await;
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
            let why = "the share's print commands were not in smb.conf when the server started; restart the server";
            PrintError::Unavailable(why.to_owned())
        };
        self.commands.as_deref().ok_or_else(added)
    }

    /// Asks CUPS, for a limited time and with few others.
    async fn ask_cups<T>(&self, cups: &Cups, question: impl Future<Output = Result<T>>) -> Result<T> {
        let asked = async {
            let _turn = self.questions.acquire().await;
            question.await
        };
        timeout(QUESTION_TIME, asked).await.unwrap_or_else(|_| Err(cups.late()))
    }

    async fn ask_for_queues(self: Arc<Self>) -> Result<Arc<[QueueInfo]>> {
        let printcap_name = self.settings.read().printcap_name.clone();
        let queues = match printcap_name {
            Printcap::Cups => {
                let cups = self.cups();
                self.ask_cups(&cups, cups.queues()).await.map(Arc::from)
            }
            Printcap::File(path) => {
                let why = format!("{} (`printcap name`) is not read in time; correct its file system", path.display());
                let late = PrintError::Unavailable(why);
                // One that hangs must not be joined by others, each of which takes a thread.
                let Ok(only) = self.reading.clone().try_acquire_owned() else { return Err(late) };
                let read = tokio::task::spawn_blocking(move || {
                    let queues = printcap::read(&path);
                    drop(only);
                    queues
                });
                match timeout(QUESTION_TIME, read).await {
                    Ok(Ok(queues)) => queues.map(Arc::from),
                    Ok(Err(error)) => Err(PrintError::Unavailable(error.to_string())),
                    Err(_) => Err(late),
                }
            }
        };
        self.reports.note("the printers of the host are not known", &queues);
        queues
    }

    /// Forgets what is known about a queue that a user has changed. Others see the change after `lpq cache time`.
    fn changed(&self, queue: &PrintPolicy, user: &PrintUser) {
        self.counts.forget(&key(queue, user));
        self.jobs.forget(&key_of_jobs(queue, user));
    }

    async fn list_jobs(self: Arc<Self>, queue: Arc<PrintPolicy>, user: PrintUser) -> Result<Arc<QueueJobs>> {
        let jobs = match &queue.system {
            QueueSystem::Cups { .. } => {
                let cups = self.cups();
                self.ask_cups(&cups, cups.jobs(&queue.queue)).await
            }
            QueueSystem::Commands(commands) => self.commands()?.jobs(&queue.queue, commands, &user).await,
        };
        self.reports.note(&format!("the jobs of the queue {} are not known", queue.queue), &jobs);
        jobs.map(Arc::new)
    }

    async fn count_jobs(self: Arc<Self>, queue: Arc<PrintPolicy>, user: PrintUser) -> Result<usize> {
        tracing::debug!(queue = queue.queue, "asking the print system for the jobs of a queue");
        let count = match &queue.system {
            QueueSystem::Cups { .. } => {
                let most = if queue.max_jobs == 0 { LISTED_JOBS_MAX } else { queue.max_jobs };
                let cups = self.cups();
                self.ask_cups(&cups, cups.job_count(&queue.queue, most)).await
            }
            QueueSystem::Commands(commands) => match self.commands() {
                Ok(helper) => helper.job_count(&queue.queue, commands, &user).await,
                Err(error) => Err(error),
            },
        };
        self.reports.note(&format!("the jobs of the queue {} are not known", queue.queue), &count);
        count
    }

    /// Hands a job over.
    async fn hand_over(&self, queue: &PrintPolicy, job: &NewJob) -> Result<()> {
        let number = self.last_job.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        match &queue.system {
            QueueSystem::Cups { options } => {
                let busy = || {
                    let seconds = HANDOVER_WAIT.as_secs();
                    PrintError::Unavailable(format!("CUPS did not take over other jobs for {seconds} seconds"))
                };
                let uid = job.user.op.identity().uid;
                let _turn = self.handovers.take(uid, HANDOVER_WAIT).await.ok_or_else(busy)?;
                let payer = job.spool.charges.first().map(|charge| charge.payer().clone());
                let buffer = payer.map(|payer| payer.charge(Resource::PrintData, CHUNK)).transpose();
                let _buffer = buffer.map_err(|full| PrintError::Unavailable(full.to_string()))?;
                self.cups().submit(&queue.queue, options, job).await
            }
            QueueSystem::Commands(commands) => self.commands()?.submit(&queue.queue, commands, job, number).await,
        }
    }
}

/// Returns the name of a question about the jobs in a queue. Queues of different print systems may have the same name,
/// and the answer of a command with variables of the session is that of its user.
fn key(queue: &PrintPolicy, user: &PrintUser) -> String {
    match &queue.system {
        QueueSystem::Cups { .. } => format!("cups {}", queue.queue),
        QueueSystem::Commands(commands) => {
            let Some(list) = &commands.list else { return format!("none {}", queue.queue) };
            let own: Vec<_> = user.values.iter().filter(|(letter, _)| list.has(*letter)).collect();
            let uid = (!own.is_empty()).then(|| user.op.identity().uid);
            format!("{} {} {uid:?} {own:?}", list.text(), queue.queue)
        }
    }
}

/// Returns the name of the question for the jobs themselves. What a command lists may depend on the user that executes
/// it.
fn key_of_jobs(queue: &PrintPolicy, user: &PrintUser) -> String {
    match &queue.system {
        QueueSystem::Cups { .. } => key(queue, user),
        QueueSystem::Commands(_) => format!("{} {}", user.op.identity().uid, key(queue, user)),
    }
}

impl PrintSystem for Printing {
    fn queues(&self) -> Answer<Result<Arc<[QueueInfo]>>> {
        let inner = self.0.clone();
        self.run(async move {
            let time = inner.settings.read().printcap_cache_time;
            inner.queues.get("", time, Take::LastGood, inner.clone().ask_for_queues()).await
        })
    }

    fn submit(&self, queue: &Arc<PrintPolicy>, job: NewJob) -> Answer<Result<()>> {
        let (inner, queue) = (self.0.clone(), queue.clone());
        let handover = Handover::new(&inner);
        self.run(async move {
            let _handover = handover;
            let mut stopped = inner.stopped.subscribe();
            let submitted = tokio::select! {
                biased;
                submitted = inner.hand_over(&queue, &job) => submitted,
                _ = stopped.wait_for(|stopped| *stopped) => {
                    Err(PrintError::Unavailable("the server stops; print again".to_owned()))
                }
            };
            let key = key(&queue, &job.user);
            match &submitted {
                Ok(()) => inner.counts.change(&key, |count| *count = count.saturating_add(1)),
                // CUPS may have the job nevertheless.
                Err(_) => inner.counts.forget(&key),
            }
            inner.reports.note(&format!("cannot print on the queue {}", queue.queue), &submitted);
            inner.jobs.forget(&key_of_jobs(&queue, &job.user));
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
            let (key, time) = (key(&queue, &user), inner.settings.read().lpq_cache_time);
            let ask = || {
                let question = inner.clone().count_jobs(queue.clone(), user.clone());
                inner.counts.get(&key, time, Take::Recent, question)
            };
            let count = ask().await?;
            // Jobs that were handed over since the last question may be printed by now.
            if count >= queue.max_jobs && inner.counts.is_estimated(&key) {
                inner.counts.forget(&key);
                return ask().await;
            }
            Ok(count)
        })
    }

    fn jobs(&self, queue: &Arc<PrintPolicy>, user: &PrintUser) -> Answer<Result<Arc<QueueJobs>>> {
        let (inner, queue, user) = (self.0.clone(), queue.clone(), user.clone());
        self.run(async move {
            let time = inner.settings.read().lpq_cache_time;
            let key = key_of_jobs(&queue, &user);
            inner.jobs.get(&key, time, Take::Recent, inner.clone().list_jobs(queue, user)).await
        })
    }

    fn control(&self, queue: &Arc<PrintPolicy>, user: &PrintUser, action: Action) -> Answer<Result<()>> {
        let (inner, queue, user) = (self.0.clone(), queue.clone(), user.clone());
        self.run(async move {
            let done = match &queue.system {
                QueueSystem::Cups { .. } => {
                    let cups = inner.cups();
                    inner.ask_cups(&cups, cups.control(&queue.queue, &action)).await
                }
                QueueSystem::Commands(commands) => {
                    inner.commands()?.control(&queue.queue, commands, &action, &user).await
                }
            };
            inner.reports.note(&format!("cannot change the queue {}", queue.queue), &done);
            inner.changed(&queue, &user);
            done
        })
    }
}
