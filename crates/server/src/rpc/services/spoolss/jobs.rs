//! The jobs of a queue ([MS-RPRN] 3.1.4.3).

use proto::rpc::enumeration::error;
use proto::rpc::ndr::ContextHandle;
use proto::rpc::spoolss::{self, EnumJobs, GetJob, GetPrinter, Infos, SetJob, SystemTime, job_control, rights, values};

use super::Answer;
use super::handles::{self, Opened};
use super::printers::{self, PROCESSOR, RAW, full_name};
use crate::printing::{Action, Job, JobState};
use crate::rpc::interface::Call;
use crate::yielding::Work;

/// The levels of a job.
const LEVELS: std::ops::RangeInclusive<u32> = 1..=4;

/// Returns the jobs that clients see: the first `max reported print jobs`.
fn reported<'a>(opened: &Opened, jobs: &'a [Job]) -> &'a [Job] {
    match opened.printer.queue.max_reported {
        0 => jobs,
        most => &jobs[..most.min(jobs.len())],
    }
}

/// Writes the job at a position of a queue as a structure of a level in [`LEVELS`].
fn encode(opened: &Opened, jobs: &[Job], at: usize, level: u32, out: &mut Infos) {
    let job = &jobs[at];
    let printer = full_name(&opened.server, &opened.printer.spool.share.name);
    let status = match job.state {
        JobState::Queued => 0,
        JobState::Held => values::JOB_STATUS_PAUSED,
        JobState::Printing => values::JOB_STATUS_PRINTING,
    };
    let position = u32::try_from(at + 1).unwrap_or(u32::MAX);
    out.begin();
    out.numbers(&[job.id]);
    match level {
        1 => {
            for text in [&*printer, &opened.server, &job.user, &job.title, RAW, ""] {
                out.text(text);
            }
            // The priority, the position, and no pages, which are not counted.
            out.numbers(&[status, 1, position, 0, 0]);
            out.time(SystemTime::from_unix(job.submitted));
        }
        3 => out.numbers(&[jobs.get(at + 1).map_or(0, |next| next.id), 0]),
        _ => {
            for text in [&*printer, &opened.server, &job.user, &job.title, &job.user, RAW, PROCESSOR, "", ""] {
                out.text(text);
            }
            // No DEVMODE.
            out.numbers(&[0]);
            out.text("");
            // No security descriptor.
            out.numbers(&[0, status, 1, position, 0, 0, 0, job.size as u32]);
            out.time(SystemTime::from_unix(job.submitted));
            out.numbers(&[0, 0]);
            if level == 4 {
                out.numbers(&[(job.size >> 32) as u32]);
            }
        }
    }
}

/// RpcEnumJobs.
pub(super) async fn enumerate(call: &Call<'_>, asked: EnumJobs) -> Vec<u8> {
    Answer::list(asked.buffer, list(call, &asked).await)
}

async fn list(call: &Call<'_>, asked: &EnumJobs) -> Result<Answer, u32> {
    let opened = handles::printer(call, &asked.handle)?;
    let mut answer = Answer::new(call, asked.buffer)?;
    if !LEVELS.contains(&asked.level) {
        return Err(error::INVALID_LEVEL);
    }
    let queue = printers::queue(call, &opened).await?;
    let jobs = reported(&opened, &queue.jobs);
    let mut work = Work::new();
    for at in (0..jobs.len()).skip(asked.first as usize).take(asked.count as usize) {
        work.spend(1).await;
        encode(&opened, jobs, at, asked.level, &mut answer.infos);
    }
    Ok(answer)
}

/// RpcGetJob.
pub(super) async fn get(call: &Call<'_>, asked: GetJob) -> Vec<u8> {
    Answer::one(asked.buffer, describe(call, &asked).await)
}

async fn describe(call: &Call<'_>, asked: &GetJob) -> Result<Answer, u32> {
    let opened = handles::printer(call, &asked.handle)?;
    let mut answer = Answer::new(call, asked.buffer)?;
    if !LEVELS.contains(&asked.level) {
        return Err(error::INVALID_LEVEL);
    }
    let queue = printers::queue(call, &opened).await?;
    let at = queue.jobs.iter().position(|job| job.id == asked.id).ok_or(error::INVALID_PARAMETER)?;
    encode(&opened, &queue.jobs, at, asked.level, &mut answer.infos);
    Ok(answer)
}

/// RpcSetJob: users hold, release and delete their own jobs, administrators all.
pub(super) async fn set(call: &Call<'_>, asked: SetJob) -> Vec<u8> {
    spoolss::status_response(change(call, &asked).await.err().unwrap_or(error::SUCCESS))
}

async fn change(call: &Call<'_>, asked: &SetJob) -> Result<(), u32> {
    let opened = handles::printer(call, &asked.handle)?;
    let queue = printers::queue(call, &opened).await?;
    let job = queue.jobs.iter().find(|job| job.id == asked.id).ok_or(error::INVALID_PARAMETER)?;
    // Other programs choose the titles that a command lists, and may pretend to be another entry.
    let is_unique = queue.jobs.iter().filter(|job| job.id == asked.id).count() == 1;
    let is_own = call.has_account() && is_unique && job.user == opened.printer.user.name;
    if !is_own && !opened.has(rights::PRINTER_ACCESS_ADMINISTER) && !call.is_administrator().await {
        return Err(error::ACCESS_DENIED);
    }
    let action = match asked.command {
        Some(job_control::PAUSE) => Action::Hold(job.clone()),
        // A job that is not printed yet cannot be restarted in another way.
        Some(job_control::RESUME | job_control::RESTART) => Action::Release(job.clone()),
        Some(job_control::CANCEL | job_control::DELETE) => Action::Cancel(job.clone()),
        Some(_) => return Err(error::INVALID_PARAMETER),
        None => return Err(error::NOT_SUPPORTED),
    };
    printers::control(call, &opened, action).await
}

/// RpcAddJob, by which a client would write a file of this host. As in Samba, it is for local printers only.
pub(super) async fn add(call: &Call<'_>, asked: GetPrinter) -> Vec<u8> {
    let found = handles::printer(call, &asked.handle).and(Err(error::INVALID_PARAMETER));
    Answer::one(asked.buffer, found)
}

/// RpcScheduleJob, for a job of RpcAddJob.
pub(super) async fn schedule(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    spoolss::status_response(handles::printer(call, &handle).err().unwrap_or(error::INVALID_PARAMETER))
}
