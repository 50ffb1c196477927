//! The jobs of a queue, and changes of jobs and queues.

use server::policy::limits::LISTED_JOBS_MAX;
use server::printing::{Action, Job, JobState, PrintError, QueueJobs, QueueState, Result};

use super::ipp::{Group, Operation, Request, Syntax};
use super::{ADMINISTRATOR, Cups, uri};

/// The attributes of a job that are shown.
const OF_JOB: &[&str] =
    &["job-id", "job-name", "job-state", "job-k-octets", "job-originating-user-name", "time-at-creation"];

impl Cups {
    /// Returns what a queue does, and its jobs that are not completed.
    pub(crate) async fn jobs(&self, queue: &str) -> Result<QueueJobs> {
        let state = self.state(queue).await?;
        let request = Request::new(Operation::GetJobs)
            .text(Syntax::Uri, "printer-uri", &uri(queue))
            .text(Syntax::Name, "requesting-user-name", ADMINISTRATOR)
            .integer("limit", i32::try_from(LISTED_JOBS_MAX).unwrap_or(i32::MAX))
            .text(Syntax::Keyword, "which-jobs", "not-completed")
            .keywords("requested-attributes", OF_JOB);
        let response = self.call("/", request, true, None).await?;
        // CUPS sends them in the order in which they are printed.
        Ok(QueueJobs { state, jobs: response.jobs().filter_map(job).take(LISTED_JOBS_MAX).collect() })
    }

    async fn state(&self, queue: &str) -> Result<QueueState> {
        let request = Request::new(Operation::GetPrinterAttributes)
            .text(Syntax::Uri, "printer-uri", &uri(queue))
            .text(Syntax::Name, "requesting-user-name", ADMINISTRATOR)
            .keywords("requested-attributes", &["printer-state"]);
        let response = self.call("/", request, true, None).await?;
        // RFC 8011 section 5.4.11.
        let state = response.printers().next().and_then(|printer| printer.number("printer-state"));
        Ok(match state {
            Some(4) => QueueState::Printing,
            Some(5) => QueueState::Stopped,
            _ => QueueState::Idle,
        })
    }

    /// Changes a job in the name of its owner, or a queue as root.
    pub(crate) async fn control(&self, queue: &str, action: &Action) -> Result<()> {
        let (operation, path, job) = match action {
            Action::Cancel(job) => (Operation::CancelJob, "/jobs", Some(job)),
            Action::Hold(job) => (Operation::HoldJob, "/jobs", Some(job)),
            Action::Release(job) => (Operation::ReleaseJob, "/jobs", Some(job)),
            Action::Pause => (Operation::PausePrinter, "/admin/", None),
            Action::Resume => (Operation::ResumePrinter, "/admin/", None),
            Action::Purge => (Operation::PurgeJobs, "/admin/", None),
        };
        let request = Request::new(operation).text(Syntax::Uri, "printer-uri", &uri(queue));
        let request = match job {
            Some(job) => request.integer("job-id", i32::try_from(job.id).unwrap_or(0)).text(
                Syntax::Name,
                "requesting-user-name",
                &job.user,
            ),
            None => request.text(Syntax::Name, "requesting-user-name", ADMINISTRATOR),
        };
        match (self.call(path, request, job.is_none(), None).await, action) {
            // There is nothing to release.
            (Err(PrintError::Refused(_)), Action::Release(job)) if job.state != JobState::Held => Ok(()),
            (done, _) => done.map(drop),
        }
    }
}

fn job(group: &Group) -> Option<Job> {
    let id = u32::try_from(group.number("job-id")?).ok()?;
    // RFC 8011 section 5.3.7.
    let state = match group.number("job-state") {
        Some(4) => JobState::Held,
        Some(5) => JobState::Printing,
        _ => JobState::Queued,
    };
    Some(Job {
        id,
        user: group.text("job-originating-user-name").unwrap_or_default(),
        title: group.text("job-name").unwrap_or_default(),
        size: u64::try_from(group.number("job-k-octets").unwrap_or(0)).unwrap_or(0) * 1024,
        state,
        submitted: group.number("time-at-creation").unwrap_or(0).into(),
    })
}
