//! E1, E2, E3: held sessions, and the cost of each to the server (Miracle Linux, *Samba performance evaluation*).
//!
//! Opens a growing number of sessions, each logged on and connected to the share on its own connection, and reads the
//! server's memory and descriptors at each step. Then all sessions send an ECHO at the same time, and a sample of them
//! lists, writes and reads. If the server refuses further sessions, the held ones must still work.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use client::{Client, Open};
use proto::fscc::FileInformationClass;
use report::metric::Metric;
use report::record::{Axis, Case, Experiment, Figure, Point, Round};
use report::units;
use tokio::task::JoinSet;

use crate::ground;
use crate::load::{Done, Sample};
use crate::machine;
use crate::method::{Bench, Server, Turn};
use crate::random::Random;
use crate::summary::{self, then};

/// Directory in which sessions write, relative to the share.
const DIRECTORY: &str = "frevo-bench-sessions";
/// Number of concurrent logons.
const PARALLEL: usize = 8;
/// Number of sessions that are checked.
const SAMPLE: usize = 64;
/// Longest time the server gets to release the sessions of the previous turn.
const PATIENCE: Duration = Duration::from_secs(20);
/// The sessions are considered released when this many readings in a row show no decrease in descriptors.
const STILL: u32 = 3;

const PRIVATE: &str = "private memory, MiB";
const PROPORTIONAL: &str = "proportional memory, MiB";
const DESCRIPTORS: &str = "descriptors";
const PROCESSES: &str = "processes";
const SYSTEM: &str = "memory of the machine in use, MiB";
const HELD: &str = "sessions held";
const CLIENT: &str = "memory of this tool, MiB";

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Number of sessions at the end [default: 1000, quick 200]
    #[arg(long)]
    count: Option<usize>,
    /// Number of steps in which they are opened [default: 10, quick 4]
    #[arg(long)]
    steps: Option<usize>,
    /// Local addresses to connect from, separated by commas, used in turns [default: the system chooses]
    #[arg(long, value_delimiter = ',')]
    from: Vec<IpAddr>,
}

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let count = options.count.unwrap_or(bench.method.pick(1000, 200)).max(1);
    let steps = options.steps.unwrap_or(bench.method.pick(10, 4)).clamp(1, count);
    let sizes: Vec<usize> = (1..=steps).map(|step| count * step / steps).collect();
    let labels: Vec<String> = sizes.iter().map(|size| format!("{} sessions", units::count(*size as u64))).collect();
    let names: Vec<(&str, Option<f64>)> =
        labels.iter().zip(&sizes).map(|(label, size)| (label.as_str(), Some(*size as f64))).collect();
    bench.begin("sessions", steps);
    let refusals = RefCell::new(BTreeSet::new());
    let answers = RefCell::new(BTreeMap::new());
    let turn = async |server: &Server, turn: &Turn<'_>| {
        let before = settle(server).await?;
        let mut held = Vec::with_capacity(count);
        let mut refused = false;
        for (index, size) in sizes.iter().enumerate() {
            if refused {
                turn.leave_out(index)?;
                continue;
            }
            let growth = async {
                let (sample, refusal) = grow(server, &options.from, &mut held, *size, before).await?;
                refused = refusal.is_some();
                refusals.borrow_mut().extend(refusal);
                Ok(sample)
            };
            turn.measure_as(index, growth).await?;
        }
        let answered = Answers { sessions: held.len(), longest: answer_together(&mut held).await? };
        answers.borrow_mut().entry(server.name.clone()).or_insert(answered).add(answered);
        still_work(held, turn.seed).await
    };
    let passes = bench.method.pick(3, 1);
    let measure = async || bench.cold_cases(passes, &names, turn).await;
    let mut cases = ground::within(bench, DIRECTORY, measure).await?;
    cases.iter_mut().for_each(remove_refused_rounds);
    let mut remarks: Vec<String> = refusals.into_inner().into_iter().collect();
    remarks.extend(answers.into_inner().iter().map(|(name, answers)| answers.sentence(name)));
    Ok(experiment(bench, cases, count, steps, remarks))
}

/// The answers to requests of all held sessions at the same time.
#[derive(Clone, Copy)]
struct Answers {
    sessions: usize,
    longest: Duration,
}

impl Answers {
    /// Adds another turn.
    fn add(&mut self, other: Answers) {
        self.sessions = self.sessions.max(other.sessions);
        self.longest = self.longest.max(other.longest);
    }

    fn sentence(self, server: &str) -> String {
        let (sessions, time) = (units::count(self.sessions as u64), units::seconds(self.longest.as_secs_f64()));
        format!("{server}: {sessions} sessions sent an ECHO at the same time; the last answer came after {time}.")
    }
}

/// Sends an ECHO on each session at the same time. Returns the time until the last answer.
async fn answer_together(held: &mut Vec<Client>) -> Result<Duration> {
    let begin = Instant::now();
    let mut asked = JoinSet::new();
    for mut client in held.drain(..) {
        asked.spawn(async move { client.echo().await.map(|()| (client, begin.elapsed())) });
    }
    let mut longest = Duration::ZERO;
    while let Some(answered) = asked.join_next().await {
        let (client, time) = answered?.context("a held session no longer answers")?;
        longest = longest.max(time);
        held.push(client);
    }
    Ok(longest)
}

/// Removes rounds in which the server refused further sessions before the number of the case was reached.
fn remove_refused_rounds(case: &mut Case) {
    for rounds in &mut case.servers {
        rounds.retain(|round| round.figures.get(HELD).copied() == case.x);
    }
}

/// Waits until the server has released everything of an earlier turn. Returns the memory of the machine in use at that
/// time, in bytes.
async fn settle(server: &Server) -> Result<u64> {
    let begin = Instant::now();
    if let Some(processes) = &server.processes {
        let mut last = processes.descriptors()?;
        let mut still = 0;
        while begin.elapsed() < PATIENCE && still < STILL {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = processes.descriptors()?;
            still = if now < last { 0 } else { still + 1 };
            last = now;
        }
    }
    machine::memory_in_use()
}

/// Opens sessions until `size` are held or the server refuses further ones, and measures their cost. Also returns a
/// sentence about a refusal.
async fn grow(
    server: &Server,
    from: &[IpAddr],
    held: &mut Vec<Client>,
    size: usize,
    before: u64,
) -> Result<(Sample, Option<String>)> {
    let mut sample = Sample::default();
    let begin = Instant::now();
    let mut logons = JoinSet::new();
    let mut wanted = size.saturating_sub(held.len());
    let mut refusal = None;
    loop {
        while wanted > 0 && logons.len() < PARALLEL {
            let source = wanted.checked_rem(from.len()).map(|number| from[number]);
            wanted -= 1;
            logons.spawn(log_on(server.target.clone(), client::Options { source, ..server.options.clone() }));
        }
        let Some(logon) = logons.join_next().await else { break };
        match logon? {
            Ok((client, time)) => {
                sample.count(Done::one(0), time);
                held.push(client);
            }
            // A server may have limits, but it must report them.
            Err(error) if refuses(&error) && !held.is_empty() => {
                wanted = 0;
                refusal = Some(error);
            }
            Err(error) => {
                return Err(error).with_context(|| format!("session {} of {}", held.len() + 1, server.target));
            }
        }
    }
    let held = held.len();
    let refusal = refusal.map(|error| format!("{} refused more than {held} sessions: {error}.", server.name));
    sample.seconds = begin.elapsed().as_secs_f64();
    let figures = &mut sample.figures;
    const MIB: f64 = 1_048_576.0;
    if let Some(processes) = &server.processes {
        let reading = processes.read()?;
        figures.insert(PRIVATE.into(), reading.private() as f64 / MIB);
        figures.insert(PROPORTIONAL.into(), reading.proportional() as f64 / MIB);
        figures.insert(DESCRIPTORS.into(), reading.descriptors() as f64);
        figures.insert(PROCESSES.into(), reading.processes() as f64);
        figures.insert(SYSTEM.into(), (machine::memory_in_use()? as f64 - before as f64) / MIB);
    }
    figures.insert(CLIENT.into(), machine::own_memory()? as f64 / MIB);
    figures.insert(HELD.into(), held as f64);
    Ok((sample, refusal))
}

async fn log_on(target: crate::target::Target, options: client::Options) -> client::Result<(Client, Duration)> {
    let begin = Instant::now();
    // An idle session needs few credits.
    let options = client::Options { credits: 16, ..options };
    let address = (target.host.as_str(), target.port);
    let mut client = Client::connect(address, &target.host, &target.share, &options).await?;
    client.rest();
    Ok((client, begin.elapsed()))
}

/// Returns whether the server refused, with a status or by closing the connection.
fn refuses(error: &client::Error) -> bool {
    error.status().is_some() || matches!(error, client::Error::Closed)
}

/// Lists, writes and reads with a sample of the sessions, then drops all sessions.
async fn still_work(mut held: Vec<Client>, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    for _ in 0..SAMPLE.min(held.len()) {
        let number = random.below(held.len() as u64);
        let client = &mut held[number as usize];
        let works = use_session(client, number).await;
        works.with_context(|| format!("held session {number} no longer works"))?;
    }
    Ok(())
}

async fn use_session(client: &mut Client, number: u64) -> Result<()> {
    let root = client.open(&Open::directory("")).await?;
    let class = FileInformationClass::ID_BOTH_DIRECTORY.0;
    ensure!(client.query_directory(root, class, "*", 65536).await?.is_some(), "the listing of the share is empty");
    client.close(root).await?;
    let path = format!(r"{DIRECTORY}\{number}");
    let text = format!("session {number}").into_bytes();
    let file = client.open(&Open::file(&path)).await?;
    client.write(file, 0, &text).await?;
    ensure!(client.read(file, 0, 1024).await? == text, "the data read differs from the data written");
    client.close(file).await?;
    Ok(client.delete(&path).await?)
}

fn figure_of(name: &'static str, unit: &'static str, of: fn(&Round) -> Option<f64>) -> Metric {
    Metric { name, unit, of, text: units::number, more_is_better: false, traced: false }
}

fn metrics() -> [Metric; 5] {
    [
        figure_of("private memory", "MiB", |round| round.figures.get(PRIVATE).copied()),
        figure_of("proportional memory", "MiB", |round| round.figures.get(PROPORTIONAL).copied()),
        figure_of("memory of the machine", "MiB", |round| round.figures.get(SYSTEM).copied()),
        figure_of("descriptors", "", |round| round.figures.get(DESCRIPTORS).copied()),
        figure_of("processes", "", |round| round.figures.get(PROCESSES).copied()),
    ]
}

fn experiment(bench: &Bench, cases: Vec<Case>, count: usize, steps: usize, mut remarks: Vec<String>) -> Experiment {
    let names = bench.names();
    let axis = || Axis { label: "sessions".into(), ..Axis::default() };
    let [private, proportional, system, descriptors, processes] = metrics();
    let mut memory = summary::lines("Memory", axis(), &cases, &names, private);
    let study = |of: fn(f64) -> f64| -> Vec<(f64, f64)> {
        cases.iter().filter_map(|case| case.x.map(|x| (x, of(x)))).collect()
    };
    memory.series.push(then("Samba 2.2, 2002", &study(|clients| 1.1 + 290.0 * clients / 1024.0)));
    let mut held = summary::lines("Descriptors", axis(), &cases, &names, descriptors);
    held.series.push(then("Samba 2.2, 2002", &study(|clients| 23.0 * clients)));
    for (index, name) in names.iter().enumerate() {
        remarks.extend(formula(name, &memory, &held, index));
    }
    remarks.extend(client_memory(&cases));
    let shown = [Metric::RATE, private, proportional, system, descriptors, processes, Metric::CPU_PER_OPERATION];
    Experiment {
        name: "sessions".into(),
        title: "What does each held session cost the server?".into(),
        study:
            "Miracle Linux 2002, Samba 2.2: 1.1 MB for the idle daemons and 290 KB a session, so MB = 30 + 1.1 + 290 * \
                clients / 1024 with the system's 30; 21 to 23 descriptors a session; no more than 3,000 sessions."
                .into(),
        settings: vec![
            ("sessions at the end".into(), count.to_string()),
            ("steps".into(), steps.to_string()),
            ("concurrent logons".into(), PARALLEL.to_string()),
        ],
        tables: summary::comparisons("Sessions", &cases, &names, &shown),
        figures: vec![memory, held],
        remarks,
        cases,
    }
}

/// Returns the study's formula with the measured values of a server.
fn formula(name: &str, memory: &Figure, descriptors: &Figure, server: usize) -> Option<String> {
    let points =
        |figure: &Figure| figure.series.iter().find(|it| it.server == Some(server)).map(|it| it.points.clone());
    let (idle, each) = fit(&points(memory)?)?;
    let (idle_fds, each_fds) = fit(&points(descriptors)?)?;
    Some(format!(
        "{name}: MB = {idle:.1} + {:.1} * sessions / 1024; descriptors = {idle_fds:.0} + {each_fds:.2} * sessions.",
        each * 1024.0
    ))
}

/// Fits a least-squares line through `points` and returns its value at 0 and its slope.
fn fit(points: &[Point]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let (mean_x, mean_y) =
        (points.iter().map(|it| it.x).sum::<f64>() / count, points.iter().map(|it| it.y).sum::<f64>() / count);
    let spread: f64 = points.iter().map(|it| (it.x - mean_x).powi(2)).sum();
    let slope = points.iter().map(|it| (it.x - mean_x) * (it.y - mean_y)).sum::<f64>() / spread;
    slope.is_finite().then_some((mean_y - slope * mean_x, slope))
}

/// Returns a sentence about the memory that this tool needs for the sessions.
fn client_memory(cases: &[Case]) -> Option<String> {
    let last = cases.iter().rfind(|case| case.servers.iter().any(|rounds| !rounds.is_empty()))?;
    let used = last.servers.iter().flatten().filter_map(|round| round.figures.get(CLIENT)).copied().fold(0.0, f64::max);
    Some(format!("{}: this tool itself used {} of memory.", last.name, units::bytes(used * 1_048_576.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_round_is_not_counted() {
        let round = |held: f64| Round { figures: [(HELD.to_owned(), held)].into(), ..Round::default() };
        let servers = vec![vec![round(150.0), round(100.0)], vec![]];
        let mut case = Case { name: "150 sessions".into(), x: Some(150.0), servers, ..Case::default() };
        remove_refused_rounds(&mut case);
        assert_eq!(case.servers, [vec![round(150.0)], vec![]]);
    }

    #[test]
    fn a_line_is_fitted() {
        let point = |x: f64| Point { x, y: 7.0 + 0.25 * x, ..Point::default() };
        let (idle, each) = fit(&[point(10.0), point(20.0), point(40.0)]).unwrap();
        assert!((idle - 7.0).abs() < 1e-9 && (each - 0.25).abs() < 1e-9, "{idle} {each}");
        assert_eq!(fit(&[point(10.0)]), None, "one point has no slope");
        assert_eq!(fit(&[]), None);
    }
}
