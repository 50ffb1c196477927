//! The print system of the host, which the daemon supplies: its queues, and the jobs that clients send.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Waker};

use parking_lot::Mutex;

use proto::status::Status;

use crate::accounting::Charge;
use crate::answer::Answer;
use crate::error::Error;
use crate::policy::PrintPolicy;
use crate::vfs::{FileId, Kind, Node, Op, RelPath, Vfs};

/// The result of a call of the print system.
pub type Result<T> = std::result::Result<T, PrintError>;

/// The print system. Every call has a time limit of its own, and calls that are repeated are answered from a cache.
pub trait PrintSystem: Send + Sync {
    /// Returns the queues that the print system has.
    fn queues(&self) -> Answer<Result<Arc<[QueueInfo]>>>;

    /// Hands a job over and removes its file, whatever the result. The job is handed over even if the result is not
    /// waited for.
    fn submit(&self, queue: &Arc<PrintPolicy>, job: NewJob) -> Answer<Result<()>>;

    /// Returns the number of jobs in a queue. `user` asks.
    fn job_count(&self, queue: &Arc<PrintPolicy>, user: &PrintUser) -> Answer<Result<usize>>;

    /// Returns what a queue does and its jobs, in their order. `user` asks.
    fn jobs(&self, queue: &Arc<PrintPolicy>, user: &PrintUser) -> Answer<Result<Arc<QueueJobs>>>;

    /// Changes a job or a queue. The caller has checked that the user may do so.
    fn control(&self, queue: &Arc<PrintPolicy>, user: &PrintUser, action: Action) -> Answer<Result<()>>;
}

/// A queue of the print system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueInfo {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// The location.
    pub location: String,
}

/// The user of a request to the print system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrintUser {
    /// The name of the user for the print system.
    pub name: String,
    /// The context whose UNIX user executes commands.
    pub op: Op,
    /// The values of the variables of commands that depend on the session, by their letters.
    pub values: Vec<(char, String)>,
}

/// A job to print.
pub struct NewJob {
    /// The title, as the client chose it.
    pub title: String,
    /// The owner.
    pub user: PrintUser,
    /// The address or name of the client.
    pub client: String,
    /// The data.
    pub spool: SpoolFile,
    /// The size of the data in bytes.
    pub size: u64,
}

/// The file of a job that is not handed over yet.
pub struct SpoolFile {
    /// The file, open for reading and writing.
    pub node: Arc<dyn Node>,
    /// The context of its user.
    pub op: Op,
    /// The absolute path.
    pub path: PathBuf,
    /// The file system and the name there; `None` once the file is removed.
    pub place: Option<(Arc<dyn Vfs>, RelPath)>,
    /// The number of the file.
    pub id: FileId,
    /// What it takes of the limits.
    pub charges: Vec<Charge>,
    /// Its place among the jobs of the queue, unless these are not counted.
    pub counted: Option<Counted>,
}

impl SpoolFile {
    /// Removes the file.
    pub async fn remove(mut self) {
        let Some((vfs, name)) = self.place.take() else { return };
        if let Err(errno) = vfs.unlink(&self.op, &name, self.id, Kind::File).await {
            tracing::error!(path = %self.path.display(), ?errno, "cannot remove the file of a print job; remove it");
        }
        let _ = self.node.close(&self.op).await;
    }
}

impl Drop for SpoolFile {
    /// Removes the file of a job that nobody finishes any more, because the server stops.
    fn drop(&mut self) {
        let Some((vfs, name)) = self.place.take() else { return };
        let mut removal = std::pin::pin!(vfs.unlink(&self.op, &name, self.id, Kind::File));
        // The file system goes on without a caller that waits.
        let _ = removal.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
}

/// The numbers of jobs that clients are sending, by queue. The print system does not know these jobs yet.
#[derive(Clone, Default, Debug)]
pub struct SentJobs(Arc<Mutex<HashMap<String, OfUsers>>>);

/// The numbers of jobs that are being sent to one queue, by user.
type OfUsers = HashMap<String, usize>;

/// A job that is being sent to a queue, until this is dropped.
#[derive(Debug)]
pub struct Counted {
    sent: SentJobs,
    queue: String,
    user: String,
}

impl SentJobs {
    /// Counts another job of a user for a queue, in which `waiting` jobs are already. `None` if there would be more
    /// than `most`, or if the user already sends half of the jobs that there is room for. Others can print
    /// although a user does not end their jobs.
    pub fn add(&self, queue: &str, user: &str, waiting: usize, most: usize) -> Option<Counted> {
        let room = most.saturating_sub(waiting);
        let mut sent = self.0.lock();
        let of_users = sent.get(queue);
        let all: usize = of_users.map_or(0, |users| users.values().sum());
        let own = of_users.and_then(|users| users.get(user)).copied().unwrap_or(0);
        if all >= room || own >= room.div_ceil(2) {
            return None;
        }
        *sent.entry(queue.to_owned()).or_default().entry(user.to_owned()).or_default() += 1;
        Some(Counted { sent: self.clone(), queue: queue.to_owned(), user: user.to_owned() })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut sent = self.sent.0.lock();
        let Some(users) = sent.get_mut(&self.queue) else { return };
        if let Some(count) = users.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                users.remove(&self.user);
            }
        }
        if users.is_empty() {
            sent.remove(&self.queue);
        }
    }
}

/// What a queue does, and its jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueJobs {
    /// What it does.
    pub state: QueueState,
    /// The jobs that are not completed.
    pub jobs: Vec<Job>,
}

/// What a queue does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueState {
    /// It waits for jobs, or it is not known what it does.
    Idle,
    /// It prints.
    Printing,
    /// It is stopped; jobs wait.
    Stopped,
}

/// A job in a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// The number in the print system.
    pub id: u32,
    /// The owner's name.
    pub user: String,
    /// The title.
    pub title: String,
    /// The size in bytes.
    pub size: u64,
    /// What happens to it.
    pub state: JobState,
    /// When it was submitted, in seconds since 1970; 0 if it is not known.
    pub submitted: i64,
}

/// What happens to a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobState {
    /// It waits.
    Queued,
    /// A user has held it.
    Held,
    /// It is printed.
    Printing,
}

/// A change of a job or a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// A job is deleted.
    Cancel(Job),
    /// A job is held.
    Hold(Job),
    /// A held job is released.
    Release(Job),
    /// The queue stops printing.
    Pause,
    /// The queue prints again.
    Resume,
    /// All jobs are deleted.
    Purge,
}

/// Why the print system has not done something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PrintError {
    /// It does not answer; the text says what to do.
    Unavailable(String),
    /// It has no such queue.
    NoQueue(String),
    /// It does not permit this.
    NotPermitted(String),
    /// It cannot do this, or has refused it for another reason.
    Refused(String),
}

impl fmt::Display for PrintError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (PrintError::Unavailable(why)
        | PrintError::NoQueue(why)
        | PrintError::NotPermitted(why)
        | PrintError::Refused(why)) = self;
        out.write_str(why)
    }
}

impl From<PrintError> for Error {
    fn from(error: PrintError) -> Error {
        let status = match &error {
            PrintError::Unavailable(_) => Status::DEVICE_NOT_READY,
            PrintError::NoQueue(_) => Status::OBJECT_NAME_NOT_FOUND,
            PrintError::NotPermitted(_) => Status::ACCESS_DENIED,
            PrintError::Refused(_) => Status::UNEXPECTED_IO_ERROR,
        };
        Error::because(status, error.to_string())
    }
}
