//! The commands that list and change the jobs of a queue.

use server::policy::limits::LISTED_JOBS_MAX;
use server::policy::printing::QueueCommands;
use server::printing::{Action, PrintError, PrintUser, QueueJobs, QueueState, Result};

use crate::commands::Commands;
use crate::listing;

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
            Action::Purge => {
                // There is no command for all jobs. Their number is bounded by the list.
                for job in self.jobs(queue, commands, user).await?.jobs {
                    Box::pin(self.control(queue, commands, &Action::Cancel(job), user)).await?;
                }
                return Ok(());
            }
        };
        let missing = || PrintError::Refused(format!("the queue has no `{name}`"));
        let command = command.as_ref().ok_or_else(missing)?;
        let mut values = vec![('p', queue.to_owned())];
        values.extend(job.map(|job| ('j', job.id.to_string())));
        self.ask(command, user, values).await.map(drop)
    }
}
