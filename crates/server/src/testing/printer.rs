//! A print system for tests that do not look at the jobs.

use std::sync::Arc;

use crate::answer::Answer;
use crate::policy::PrintPolicy;
use crate::printing::{Action, NewJob, PrintSystem, PrintUser, QueueInfo, QueueJobs, QueueState, Result};

/// A print system that takes all jobs, and has none.
pub struct TestPrinter;

impl PrintSystem for TestPrinter {
    fn queues(&self) -> Answer<Result<Arc<[QueueInfo]>>> {
        Answer::now(Ok(Arc::default()))
    }

    fn submit(&self, _: &Arc<PrintPolicy>, job: NewJob) -> Answer<Result<()>> {
        Answer::later(async move {
            job.spool.remove().await;
            Ok(())
        })
    }

    fn job_count(&self, _: &Arc<PrintPolicy>, _: &PrintUser) -> Answer<Result<usize>> {
        Answer::now(Ok(0))
    }

    fn jobs(&self, _: &Arc<PrintPolicy>, _: &PrintUser) -> Answer<Result<Arc<QueueJobs>>> {
        Answer::now(Ok(Arc::new(QueueJobs { state: QueueState::Idle, jobs: Vec::new() })))
    }

    fn control(&self, _: &Arc<PrintPolicy>, _: &PrintUser, _: Action) -> Answer<Result<()>> {
        Answer::now(Ok(()))
    }
}
