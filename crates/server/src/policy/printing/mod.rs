//! Print shares (`printable = yes`), and `[printers]`, which makes a share of each queue of the print system.

mod command_line;

use std::fmt;
use std::sync::Arc;

pub use self::command_line::{CommandLine, PRINT_VARIABLES, WrongCommand};
use super::{Share, Template};
use crate::accounts::Unavailable;
use crate::answer::Answer;

/// How a share prints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrintPolicy {
    /// `printer name`: the queue; the name of the share if it is not set.
    pub queue: String,
    /// `printing`.
    pub system: QueueSystem,
    /// `printjob username`: the name of the user for the print system.
    pub user_name: Template,
    /// `min print space`, in bytes.
    pub min_space: u64,
    /// `max print jobs`: jobs in the queue, beyond which no other is accepted; 0 is no limit.
    pub max_jobs: usize,
    /// `max reported print jobs`: jobs that clients see; 0 is no limit.
    pub max_reported: usize,
}

/// What prints the jobs of a share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QueueSystem {
    /// `printing = cups`: a server that speaks IPP.
    Cups {
        /// `cups options`: names and values that are given with each job.
        options: Vec<(String, String)>,
    },
    /// The commands of `print command` and the like.
    Commands(Arc<QueueCommands>),
}

/// The commands of a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueCommands {
    /// `print command`.
    pub print: CommandLine,
    /// `lpq command`; without it, the jobs in the queue are not counted.
    pub list: Option<CommandLine>,
    /// `lprm command`.
    pub cancel: Option<CommandLine>,
    /// `lppause command`.
    pub hold: Option<CommandLine>,
    /// `lpresume command`.
    pub release: Option<CommandLine>,
    /// `queuepause command`.
    pub pause: Option<CommandLine>,
    /// `queueresume command`.
    pub resume: Option<CommandLine>,
    /// The form of the list of jobs.
    pub form: ListForm,
}

impl QueueCommands {
    /// Returns all commands.
    pub fn all(&self) -> impl Iterator<Item = &CommandLine> {
        let others = [&self.list, &self.cancel, &self.hold, &self.release, &self.pause, &self.resume];
        std::iter::once(&self.print).chain(others.into_iter().flatten())
    }
}

/// The form in which `lpq command` lists jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListForm {
    /// `printing = bsd` and `plp`: rank, owner, number, files, size.
    Bsd,
    /// `printing = lprng`: rank, owner and host, class, number, files, size, time.
    Lprng,
    /// `printing = sysv`: `QUEUE-NUMBER USER SIZE DATE`, as of `lpstat -o`.
    Sysv,
}

/// `[printers]`: a share for each queue, made from the section.
pub trait Printers: Send + Sync {
    /// Returns the share of a queue, which the caller knows to exist; `None` if the section has errors with this name.
    fn share_of(&self, queue: &str) -> Answer<Result<Option<Arc<Share>>, Unavailable>>;

    /// Returns the section itself, from which the entries of share lists are made.
    fn section(&self) -> &Share;
}

impl fmt::Debug for dyn Printers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Printers").field(self.section()).finish()
    }
}
