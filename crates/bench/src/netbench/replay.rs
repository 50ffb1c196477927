//! One client of a replay: sends the requests of the plan and checks every answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::{Client, Response};
use hdrhistogram::Histogram;
use proto::smb2::FileId;
use proto::smb2::create::CreateResponse;
use proto::smb2::header::Command;
use proto::smb2::query_directory::QueryDirectoryResponse;
use proto::smb2::read::ReadResponse;
use proto::smb2::write::{WriteRequest, WriteResponse};
use proto::status::Status;

use super::kind::Kind;
use super::load::TextId;
use super::plan::{Action, Answer, Chain, Message, Names, Plan, Slot, Step};
use super::request;
use crate::load::{Done, Worker};
use crate::random::Random;

/// The times of operations in nanoseconds, with a resolution of a hundredth.
pub type Times = BTreeMap<Kind, Histogram<u64>>;

/// A client with its position in the load. Its operations are the load's lines.
pub struct Replay {
    client: Client,
    plan: Arc<Plan>,
    names: Names,
    number: usize,
    /// The load's name, for messages.
    load: Arc<str>,
    open: Vec<Option<(FileId, Option<TextId>)>>,
    next: usize,
    payload: Vec<u8>,
    /// Whether an unexpected answer is counted instead of ending the run.
    pub tolerant: bool,
    /// Number of unexpected answers.
    pub errors: u64,
    times: Times,
}

/// The result of a chain.
#[derive(Default)]
struct Outcome {
    /// The status of the first message that failed.
    status: Status,
    file: Option<FileId>,
    /// Bytes moved, or entries listed.
    amount: u32,
}

impl Replay {
    /// Creates client `number`, counted from 1, positioned before the first line. Its files are in `base`, where the
    /// directories that all clients share must already exist. The data that it writes is derived from `seed`.
    pub fn new(client: Client, plan: Arc<Plan>, load: &str, base: &str, number: usize, seed: u64) -> Replay {
        let mut random = Random::new(seed.wrapping_add(number as u64));
        let words = plan.longest_write().div_ceil(8);
        let payload = (0..words).flat_map(|_| random.bits().to_le_bytes()).collect();
        Replay {
            client,
            names: Names::new(&plan, base, number),
            number,
            load: load.into(),
            open: vec![None; usize::from(plan.slots)],
            plan,
            next: 0,
            payload,
            tolerant: false,
            errors: 0,
            times: Times::new(),
        }
    }

    /// Returns the times recorded since the last call.
    pub fn take_times(&mut self) -> Times {
        std::mem::take(&mut self.times)
    }

    /// Closes and deletes what the lines left, and continues at the first line. All lines must have been replayed.
    pub async fn finish(&mut self) -> Result<()> {
        ensure!(self.next == self.plan.steps.len(), "the load was not replayed to its end");
        for index in 0..self.plan.tail.len() {
            let step = self.plan.tail[index];
            self.act(&step).await?;
        }
        self.next = 0;
        Ok(())
    }

    /// Replays all lines once, including the cleanup after the last one.
    pub async fn pass(&mut self) -> Result<()> {
        for _ in 0..self.plan.lines() {
            self.step().await?;
        }
        self.finish().await
    }

    /// Ends the connection. The server closes open files.
    pub async fn log_off(self) -> Result<()> {
        Ok(self.client.log_off().await?)
    }

    /// Performs a step and returns the number of bytes read or written.
    async fn act(&mut self, step: &Step) -> Result<u64> {
        let chain = match &step.action {
            Action::Chain(chain) => chain,
            Action::Pause(time) => {
                tokio::time::sleep(*time).await;
                return Ok(0);
            }
        };
        let on = match chain.slot {
            None => None,
            Some(slot) => match self.open.get(usize::from(slot.0)).copied().flatten() {
                Some(open) => Some(open),
                // The open failed before, and that was already counted.
                None if self.tolerant => return self.count_error(),
                None => bail!("{}: the file is not open", self.located(step)),
            },
        };
        let path = self.path(chain, on);
        let outcome = match self.exchange(chain, on.map(|(id, _)| id)).await {
            Ok(outcome) => outcome,
            Err(error) => return Err(error.context(self.located(step))),
        };
        let wrong = wrong(chain, &outcome);
        if let (Some(slot), Some(file)) = (chain.keep, outcome.file) {
            self.put(slot, Some((file, path)));
        }
        if let (Some(slot), Some(Message::Close)) = (chain.slot, self.plan.messages(chain).first()) {
            self.put(slot, None);
        }
        match wrong {
            None if matches!(chain.answer, Answer::Bytes(_)) => Ok(u64::from(outcome.amount)),
            None => Ok(0),
            Some(_) if self.tolerant => self.count_error(),
            Some(wrong) => {
                let path = path.map_or("the share", |path| self.names.text(path));
                bail!("{}: {path}: {wrong}", self.located(step))
            }
        }
    }

    /// Returns the position of a step in the load, for messages.
    fn located(&self, step: &Step) -> String {
        format!("{}:{}: {} of client {}", self.load, step.line, step.kind.name(), self.number)
    }

    fn count_error(&mut self) -> Result<u64> {
        self.errors += 1;
        Ok(0)
    }

    fn put(&mut self, slot: Slot, open: Option<(FileId, Option<TextId>)>) {
        if let Some(place) = self.open.get_mut(usize::from(slot.0)) {
            *place = open;
        }
    }

    /// Returns the path of a chain, for messages.
    fn path(&self, chain: &Chain, on: Option<(FileId, Option<TextId>)>) -> Option<TextId> {
        match self.plan.messages(chain).first() {
            Some(Message::Create { path, .. }) => *path,
            _ => on.and_then(|(_, path)| path),
        }
    }

    async fn exchange(&mut self, chain: &Chain, on: Option<FileId>) -> Result<Outcome> {
        let Replay { client, plan, names, payload, .. } = self;
        let messages = plan.messages(chain);
        let mut outcome = Outcome::default();
        let Some(file) = on else {
            let mut sent = client.chain();
            for message in messages {
                sent = request::append(sent, message, names)?;
            }
            sent.each(|index, response| outcome.take(messages.get(index as usize), response)).await?;
            return Ok(outcome);
        };
        let message = messages.first().context("the chain has no message")?;
        if let Message::Write { offset, length } = message {
            let data = payload.get(..*length as usize).context("the write is longer than the prepared data")?;
            client.send_write(0, &WriteRequest::new(file, *offset, data)).await?;
        } else {
            request::queue(client, message, file, names)?;
            client.flush().await?;
        }
        let response = client.next().await?;
        outcome.take(Some(message), &response)?;
        Ok(outcome)
    }
}

impl Worker for Replay {
    async fn step(&mut self) -> Result<Done> {
        if self.next == self.plan.steps.len() {
            self.finish().await?;
        }
        let (begin, errors) = (Instant::now(), self.errors);
        let mut bytes = 0;
        loop {
            let step = *self.plan.steps.get(self.next).context("the load is empty")?;
            self.next += 1;
            bytes += self.act(&step).await?;
            if step.last {
                // A line that failed in several steps is counted as one error.
                self.errors = self.errors.min(errors + 1);
                self.time(step.kind, begin.elapsed());
                return Ok(Done::one(bytes));
            }
        }
    }
}

impl Replay {
    fn time(&mut self, kind: Kind, time: Duration) {
        let times = self.times.entry(kind).or_insert_with(histogram);
        times.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
    }
}

/// Adds times to other times.
pub fn add_times(to: &mut Times, times: Times) {
    for (kind, more) in times {
        to.entry(kind).or_insert_with(histogram).add(more).expect("all histograms have the same bounds");
    }
}

/// Creates a histogram for times up to a minute.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("the bounds are in order")
}

impl Outcome {
    fn take(&mut self, message: Option<&Message>, response: &Response<'_>) -> client::Result<()> {
        if response.succeeded().is_err() {
            if self.status == Status::SUCCESS {
                self.status = response.header.status;
            }
            return Ok(());
        }
        match response.header.command {
            Command::CREATE => self.file = Some(CreateResponse::decode(response.message)?.file_id),
            Command::READ => self.amount = ReadResponse::decode(response.message)?.buffer.len() as u32,
            Command::WRITE => self.amount = WriteResponse::decode(response.message)?.count,
            Command::QUERY_DIRECTORY => {
                let Some(Message::QueryDirectory { class, .. }) = message else { return Ok(()) };
                let listed = QueryDirectoryResponse::decode(response.message)?.buffer;
                self.amount = request::entries(*class, listed)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Describes how an outcome differs from what the chain expects.
fn wrong(chain: &Chain, outcome: &Outcome) -> Option<String> {
    if outcome.status != chain.expect {
        return Some(format!("expected {}, got {}", chain.expect, outcome.status));
    }
    if outcome.status != Status::SUCCESS {
        return None;
    }
    let (expected, what) = match chain.answer {
        Answer::Any => return None,
        Answer::Bytes(bytes) => (bytes, "bytes"),
        Answer::Entries(entries) => (entries, "entries"),
    };
    (expected != outcome.amount).then(|| format!("expected {expected} {what}, got {}", outcome.amount))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netbench::load::Load;

    /// Checks the description of this outcome for the last line of a load.
    fn check(line: &str, status: Status, amount: u32, expect: Option<&str>) {
        let before = r#"NTCreateX "\clients\client1\F" 0x40 0x2 1 NT_STATUS_OK"#;
        let plan = Plan::new(&Load::parse("t", &format!("{before}\n{line}")).unwrap()).unwrap();
        let Some(Step { action: Action::Chain(chain), .. }) = plan.steps.get(1) else { panic!("no request: {line}") };
        let outcome = Outcome { status, file: None, amount };
        assert_eq!(wrong(chain, &outcome).as_deref(), expect, "{line}");
    }

    #[test]
    fn an_answer_that_differs_from_the_load_is_wrong() {
        let read = "ReadX 1 0 100 60 NT_STATUS_OK";
        check(read, Status::SUCCESS, 60, None);
        check(read, Status::SUCCESS, 100, Some("expected 60 bytes, got 100"));
        let refused = "expected STATUS_SUCCESS (0x00000000), got STATUS_END_OF_FILE (0xC0000011)";
        check(read, Status::END_OF_FILE, 0, Some(refused));
        let find = |entries, status| format!(r#"FIND_FIRST "\clients\client1\*" 260 1366 {entries} {status}"#);
        check(&find(3, "NT_STATUS_OK"), Status::SUCCESS, 3, None);
        check(&find(3, "NT_STATUS_OK"), Status::SUCCESS, 4, Some("expected 3 entries, got 4"));
        check(&find(0, "NT_STATUS_NO_SUCH_FILE"), Status::NO_SUCH_FILE, 0, None);
        let found = "expected STATUS_NO_SUCH_FILE (0xC000000F), got STATUS_SUCCESS (0x00000000)";
        check(&find(0, "NT_STATUS_NO_SUCH_FILE"), Status::SUCCESS, 1, Some(found));
    }
}
