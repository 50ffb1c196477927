//! The commands that list and change the jobs of a queue.

use std::time::Duration;

use server::policy::limits::LISTED_JOBS_MAX;
use server::policy::printing::QueueCommands;
use server::printing::{Action, PrintError, PrintUser, QueueJobs, QueueState, Result};

use tokio::time::timeout;

use crate::commands::Commands;
use crate::listing;

/// How long deleting all jobs of a queue may take.
const PURGE_TIME: Duration = Duration::from_secs(60);

impl Commands {
    /// Returns the jobs of a queue. What it does is not known.
    pub(crate) async fn jobs(&self, queue: &str, commands: &QueueCommands, user: &PrintUser) -> Result<QueueJobs> {
        let jobs = match &commands.list {
            Some(list) => {
                let output = self.ask(list, user, vec![('p', queue.to_owned())]).await?;
                listing::parse(commands.form, queue, &output, LISTED_JOBS_MAX)
            }
            None => Vec::new(),
        };
        Ok(QueueJobs { state: QueueState::Idle, jobs })
    }

    /// Deletes all jobs, one after another, for which there is no command. A job that has ended meanwhile cannot be
    /// deleted, so the list decides whether all are gone.
    async fn purge(&self, queue: &str, commands: &QueueCommands, user: &PrintUser) -> Result<()> {
        if commands.list.is_none() {
            return Err(PrintError::Refused("the queue has no `lpq command`".to_owned()));
        }
        let all = async {
            let mut failed = None;
            for job in self.jobs(queue, commands, user).await?.jobs {
                let done = Box::pin(self.control(queue, commands, &Action::Cancel(job), user)).await;
                failed = failed.or(done.err());
            }
            match (self.jobs(queue, commands, user).await?.jobs.is_empty(), failed) {
                (true, _) => Ok(()),
                (false, Some(why)) => Err(why),
                (false, None) => Err(PrintError::Refused("some jobs are still in the queue; try again".to_owned())),
            }
        };
        let late = |_| Err(PrintError::Unavailable("deleting the jobs takes too long; try again".to_owned()));
        timeout(PURGE_TIME, all).await.unwrap_or_else(late)
    }

    /// Changes a job or a queue.
    pub(crate) async fn control(
        &self,
        queue: &str,
        commands: &QueueCommands,
        action: &Action,
        user: &PrintUser,
    ) -> Result<()> {
        let (command, name, job) = match action {
            Action::Cancel(job) => (&commands.cancel, "lprm command", Some(job)),
            Action::Hold(job) => (&commands.hold, "lppause command", Some(job)),
            Action::Release(job) => (&commands.release, "lpresume command", Some(job)),
            Action::Pause => (&commands.pause, "queuepause command", None),
            Action::Resume => (&commands.resume, "queueresume command", None),
            Action::Purge => return self.purge(queue, commands, user).await,
        };
        let missing = || PrintError::Refused(format!("the queue has no `{name}`"));
        let command = command.as_ref().ok_or_else(missing)?;
        let mut values = vec![('p', queue.to_owned())];
        values.extend(job.map(|job| ('j', job.id.to_string())));
        self.ask(command, user, values).await.map(drop)
    }
}
