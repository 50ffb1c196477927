//! The measurement method, the same for all experiments (*Using Samba*, appendix B.2): a warm-up that is not recorded,
//! several rounds in which the servers take turns, odd rounds that are marked but not hidden, and one seed for all
//! random choices.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use client::{Client, Options};
use indicatif::{ProgressBar, ProgressStyle};
use report::metric::{counts, median};
use report::record::{Case, Cost, Round, ServerRecord};

use crate::directory::Directory;
use crate::load::{Pace, Sample, Until};
use crate::machine;
use crate::probe::{Processes, Syscalls};
use crate::target::Target;

/// Relative distance from the median of its case from which a round is odd, if it is also far beyond the usual spread.
const ODD: f64 = 0.2;
/// Distance that is far beyond the usual spread, as a multiple of the median distance from the median.
const FAR: f64 = 4.0;

/// A server under test.
pub struct Server {
    /// Its index among the servers, 0 for the target.
    pub index: usize,
    /// Its name in tables and legends.
    pub name: String,
    /// Its address.
    pub target: Target,
    /// The client options for connecting to it.
    pub options: Options,
    /// The share's directory on this machine, if it is known.
    pub path: Option<PathBuf>,
    /// Its configuration file, if it is known.
    pub conf: Option<PathBuf>,
    /// Its processes, if they run on this machine.
    pub processes: Option<Processes>,
}

impl Server {
    /// Opens a new connection, logs on and connects to the share.
    pub async fn connect(&self) -> Result<Client> {
        self.connect_with(&self.options).await
    }

    /// Like [`Server::connect`], with other options.
    pub async fn connect_with(&self, options: &Options) -> Result<Client> {
        let Target { host, port, share, .. } = &self.target;
        let connected = Client::connect((host.as_str(), *port), host, share, options).await;
        connected.with_context(|| format!("cannot use {} ({})", self.target, self.name))
    }

    /// Opens another connection of the session of `first`.
    pub async fn bind(&self, first: &Client) -> Result<Client> {
        let Target { host, port, .. } = &self.target;
        let options = Options { multichannel: true, ..self.options.clone() };
        let bound = async {
            let addresses: Vec<_> = tokio::net::lookup_host((host.as_str(), *port)).await?.collect();
            first.bind(&addresses, host, &options).await
        };
        bound.await.with_context(|| {
            format!(
                "cannot add a connection to a session of {} ({}): check that it has multichannel (Samba and Frevo: \
                 'server multi channel support = yes')",
                self.target, self.name
            )
        })
    }

    /// Opens `count` connections.
    pub async fn connect_many(&self, count: usize) -> Result<Vec<Client>> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(self.connect().await?);
        }
        Ok(clients)
    }

    /// Returns the share's directory on this machine. If it is unknown, the error says why it is needed.
    pub fn path_for(&self, what_for: &str) -> Result<&PathBuf> {
        let flag = ["--share-path", "--vs-path"].get(self.index).unwrap_or(&"path= in --more");
        self.path.as_ref().with_context(|| format!("{what_for} needs the directory of {}: give {flag}", self.target))
    }
}

/// The settings of a measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Method {
    /// Number of measured rounds, for each case on each server.
    pub rounds: u32,
    /// Duration of a time-limited round.
    pub round: Duration,
    /// Duration of a time-limited warm-up.
    pub warm_up: Duration,
    /// Operations per second. `None` means as fast as answers arrive.
    pub rate: Option<f64>,
    /// Whether failures are counted instead of ending the run.
    pub allow_errors: bool,
    /// Whether the server's system calls are counted, in a separate round.
    pub syscalls: bool,
    /// Whether small sizes are used, for a quick look.
    pub quick: bool,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Method {
    /// Returns `quick` in a quick run, otherwise `full`.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// The environment of an experiment.
pub struct Bench {
    /// The settings of the measurement.
    pub method: Method,
    /// The target, followed by the servers that it is compared with.
    pub servers: Vec<Server>,
    /// The directories of this machine that take turns with the servers. Only some experiments can measure them.
    pub directories: Vec<Directory>,
    progress: ProgressBar,
}

impl Bench {
    /// Creates the environment, with an empty progress bar.
    pub fn new(method: Method, servers: Vec<Server>, directories: Vec<Directory>) -> Bench {
        let progress = ProgressBar::no_length();
        let style = ProgressStyle::with_template("{prefix:>10} [{elapsed_precise}] {bar:30} {pos}/{len} {wide_msg}");
        progress.set_style(style.expect("the template is well-formed"));
        Bench { method, servers, directories, progress }
    }

    /// Returns the names of the servers and the directories, in order.
    pub fn names(&self) -> Vec<&str> {
        self.parties().iter().map(|party| party.name).collect()
    }

    /// Starts the progress bar for an experiment of about `cases` cases.
    pub fn begin(&self, experiment: &str, cases: usize) {
        self.begin_of(experiment, cases, self.parties().len());
    }

    /// Like [`Bench::begin`], for the given number of parties.
    pub fn begin_of(&self, experiment: &str, cases: usize, parties: usize) {
        let turns = self.method.rounds as usize + 1 + usize::from(self.method.syscalls);
        self.progress.reset();
        self.progress.set_length((cases * parties * turns) as u64);
        self.progress.set_prefix(experiment.to_owned());
        self.progress.enable_steady_tick(Duration::from_millis(250));
    }

    /// Ends the experiment's progress bar.
    pub fn end(&self) {
        self.progress.finish_and_clear();
    }

    /// Shows the current activity in the progress bar.
    pub fn say(&self, what: &str) {
        self.progress.set_message(what.to_owned());
    }

    /// Runs a step outside the measurement and shows it in the progress bar. An error names the step and the server.
    pub async fn beside<T>(&self, server: &Server, what: &str, doing: impl Future<Output = Result<T>>) -> Result<T> {
        self.say(&format!("{}: {what}", server.name));
        doing.await.with_context(|| format!("{what}, {} ({})", server.name, server.target))
    }

    /// Prints a line above the progress bar.
    pub fn print(&self, line: &str) {
        self.progress.suspend(|| eprintln!("{line}"));
    }

    /// Measures one case on all servers in turns. `run` performs a turn and calls [`Turn::measure`] once, around the
    /// measured part.
    pub async fn case(
        &self,
        name: &str,
        x: Option<f64>,
        run: impl AsyncFn(&Server, &Turn<'_>) -> Result<()>,
    ) -> Result<Case> {
        let mut cases = self.cases(&[(name, x)], run).await?;
        Ok(cases.remove(0))
    }

    /// Measures several cases that belong to one turn, such as creating files and then deleting them. `run` performs a
    /// turn and calls [`Turn::measure_as`] once for each case, with the case's index.
    pub async fn cases(
        &self,
        names: &[(&str, Option<f64>)],
        run: impl AsyncFn(&Server, &Turn<'_>) -> Result<()>,
    ) -> Result<Vec<Case>> {
        let last = self.method.rounds + u32::from(self.method.syscalls);
        self.turns(0..=last, names, &self.parties(), async |index, turn| run(&self.servers[index], turn).await).await
    }

    /// Like [`Bench::cases`], for operations that take too long for a warm-up: at most `rounds` turns of each server,
    /// all of which are recorded.
    pub async fn cold_cases(
        &self,
        rounds: u32,
        names: &[(&str, Option<f64>)],
        run: impl AsyncFn(&Server, &Turn<'_>) -> Result<()>,
    ) -> Result<Vec<Case>> {
        let numbers = 1..=rounds.min(self.method.rounds);
        self.turns(numbers, names, &self.parties(), async |index, turn| run(&self.servers[index], turn).await).await
    }

    /// Like [`Bench::cases`], for parties other than the servers under test. `run` gets an index into `parties`. A case
    /// has the rounds of each party, in the order of `parties`.
    pub async fn cases_of(
        &self,
        names: &[(&str, Option<f64>)],
        parties: &[Party<'_>],
        run: impl AsyncFn(usize, &Turn<'_>) -> Result<()>,
    ) -> Result<Vec<Case>> {
        let last = self.method.rounds + u32::from(self.method.syscalls);
        self.turns(0..=last, names, parties, run).await
    }

    /// Returns the servers under test as parties, followed by the directories.
    pub fn parties(&self) -> Vec<Party<'_>> {
        let mut parties: Vec<Party<'_>> = Vec::new();
        for Server { name, target, processes, .. } in &self.servers {
            let group = parties.len();
            parties.push(Party { name, target: Some(target), processes: processes.as_ref(), group });
        }
        for directory in &self.directories {
            let (name, group) = (&directory.name, parties.len());
            parties.push(Party { name, target: Some(directory), processes: None, group });
        }
        parties
    }

    async fn turns(
        &self,
        numbers: RangeInclusive<u32>,
        names: &[(&str, Option<f64>)],
        parties: &[Party<'_>],
        run: impl AsyncFn(usize, &Turn<'_>) -> Result<()>,
    ) -> Result<Vec<Case>> {
        let rounds = vec![Vec::new(); parties.len()];
        let case = |(name, x): &(&str, Option<f64>)| Case {
            name: (*name).to_owned(),
            x: *x,
            servers: rounds.clone(),
            ..Case::default()
        };
        let mut cases: Vec<Case> = names.iter().map(case).collect();
        for number in numbers {
            for index in order(parties, number) {
                let turn = Turn::new(self, parties[index], number, names.len());
                if turn.traces && parties[index].processes.is_none() {
                    continue;
                }
                run(index, &turn).await.with_context(|| turn.title(names))?;
                let measured = turn.rounds.into_inner();
                for ((case, round), (name, _)) in cases.iter_mut().zip(measured).zip(names) {
                    match round {
                        Slot::Open => bail!("the turn measured nothing for {name}"),
                        Slot::Measured(round) if number > 0 => case.servers[index].push(*round),
                        Slot::Measured(_) | Slot::LeftOut => {}
                    }
                }
                self.progress.inc(names.len() as u64);
            }
        }
        cases.iter_mut().flat_map(|case| &mut case.servers).for_each(|rounds| mark_odd(rounds));
        Ok(cases)
    }
}

/// The state of a case within a turn.
enum Slot {
    Open,
    Measured(Box<Round>),
    LeftOut,
}

/// A participant that takes turns with others.
#[derive(Clone, Copy)]
pub struct Party<'a> {
    /// Its name.
    pub name: &'a str,
    /// The address of an SMB server, or the path of a directory.
    pub target: Option<&'a dyn Display>,
    /// The processes whose resource use is measured, if they run on this machine.
    pub processes: Option<&'a Processes>,
    /// Parties of the same group take adjacent turns, so that they run under similar conditions of the machine.
    pub group: usize,
}

/// Returns the order in which `parties` take their turns in a round. Each turn is affected by the state in which the
/// previous one left the machine. Therefore the members of a group rotate by one position every second round, and every
/// other round runs in reverse.
fn order(parties: &[Party<'_>], number: u32) -> Vec<usize> {
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, party) in parties.iter().enumerate() {
        groups.entry(party.group).or_default().push(index);
    }
    let mut order: Vec<usize> = groups
        .into_values()
        .flat_map(|mut group| {
            let first = number as usize / 2 % group.len();
            group.rotate_left(first);
            group
        })
        .collect();
    if number % 2 == 1 {
        order.reverse();
    }
    order
}

/// One turn of a party.
pub struct Turn<'a> {
    bench: &'a Bench,
    party: Party<'a>,
    /// The number of the round; 0 is the warm-up.
    pub number: u32,
    /// Seed for the random choices of this turn, the same for all servers.
    pub seed: u64,
    /// Whether system calls are counted. Such a turn is slow, and its times are ignored.
    pub traces: bool,
    rounds: RefCell<Vec<Slot>>,
    measured: Cell<usize>,
    /// The case that is currently measured.
    current: Cell<Option<usize>>,
}

impl<'a> Turn<'a> {
    fn new(bench: &'a Bench, party: Party<'a>, number: u32, cases: usize) -> Turn<'a> {
        let seed = bench.method.seed.wrapping_add(u64::from(number).wrapping_mul(0x1_0000_0001));
        let traces = number > bench.method.rounds;
        let rounds = RefCell::new((0..cases).map(|_| Slot::Open).collect());
        Turn { bench, party, number, seed, traces, rounds, measured: Cell::new(0), current: Cell::new(None) }
    }

    fn title(&self, names: &[(&str, Option<f64>)]) -> String {
        let what = names.get(self.current.get().unwrap_or(self.measured.get())).map_or("cleaning up", |(name, _)| name);
        match self.party.target {
            Some(target) => format!("{what}, {} ({target})", self.party.name),
            None => format!("{what}, {}", self.party.name),
        }
    }

    /// Returns whether this turn is the warm-up.
    pub fn warms_up(&self) -> bool {
        self.number == 0
    }

    /// Returns the load settings of this turn, for a time-limited load.
    pub fn pace(&self) -> Pace {
        let Method { round, warm_up, rate, allow_errors, .. } = self.bench.method;
        let time = if self.warms_up() { warm_up } else { round };
        Pace { until: Until::Time(time), rate, allow_errors, seed: self.seed }
    }

    /// Measures the only case of this turn; see [`Turn::measure_as`].
    pub async fn measure(&self, what: impl Future<Output = Result<Sample>>) -> Result<()> {
        self.measure_as(0, what).await
    }

    /// Measures a case of this turn: the resources that the server and this tool use while `what` runs, and the sample
    /// that `what` returns. Errors are fatal unless they are allowed.
    pub async fn measure_as(&self, case: usize, what: impl Future<Output = Result<Sample>>) -> Result<()> {
        self.measure_of(case, self.party.processes, what).await
    }

    /// Like [`Turn::measure_as`], with the processes of a server that was started for this turn.
    pub async fn measure_of(
        &self,
        case: usize,
        processes: Option<&Processes>,
        what: impl Future<Output = Result<Sample>>,
    ) -> Result<()> {
        self.say(case);
        self.current.set(Some(case));
        let tracer = if self.traces { processes.map(Syscalls::attach).transpose()? } else { None };
        // Memory and descriptors are needed only at the end, and reading them takes a while.
        let before = processes.map(Processes::read_cpu).transpose()?;
        let client_before = machine::client_cpu();
        let sample = what.await?;
        let client_cpu = machine::client_cpu() - client_before;
        let mut cost: Option<Cost> =
            processes.map(Processes::read).transpose()?.zip(before).map(|(after, before)| after.since(&before));
        if let (Some(tracer), Some(cost)) = (tracer, &mut cost) {
            cost.calls = Some(tracer.finish()?);
        }
        ensure!(
            sample.errors == 0 || self.bench.method.allow_errors,
            "{} operations failed: add --allow-errors to count failures",
            sample.errors
        );
        if let Some(failure) = &sample.failure {
            let name = self.party.name;
            self.bench.print(&format!("{name}: {} operations failed; the first error was: {failure}", sample.errors));
        }
        let (latency, histogram) = (sample.latency(), sample.histogram());
        let Sample { seconds, operations, bytes, errors, figures, .. } = sample;
        let round =
            Round { seconds, operations, bytes, errors, odd: false, latency, histogram, cost, client_cpu, figures };
        self.fill(case, Slot::Measured(Box::new(round)))
    }

    /// Skips a case that this server cannot run. It must be skipped in every turn or in none.
    pub fn leave_out(&self, case: usize) -> Result<()> {
        self.fill(case, Slot::LeftOut)
    }

    fn fill(&self, case: usize, with: Slot) -> Result<()> {
        let mut rounds = self.rounds.borrow_mut();
        let slot = rounds.get_mut(case).context("the turn does not have this case")?;
        ensure!(matches!(slot, Slot::Open), "a case was measured twice in a turn");
        *slot = with;
        self.measured.set(self.measured.get() + 1);
        self.current.set(None);
        Ok(())
    }

    fn say(&self, case: usize) {
        let what = match self.number {
            0 => "warm-up".to_owned(),
            _ if self.traces => "system calls".to_owned(),
            number => format!("round {number}/{}", self.bench.method.rounds),
        };
        self.bench.say(&format!("{} {what}, part {}", self.party.name, case + 1));
    }
}

/// Returns the speed of a round, by which rounds are compared.
fn speed(round: &Round) -> f64 {
    let amount = if round.operations > 0 { round.operations } else { round.bytes };
    amount as f64 / round.seconds.max(1e-9)
}

fn mark_odd(rounds: &mut [Round]) {
    let speeds = || rounds.iter().filter(|round| counts(round)).map(speed);
    let Some(middle) = median(speeds()) else { return };
    let spread = median(speeds().map(|it| (it - middle).abs())).unwrap_or_default();
    for round in rounds.iter_mut().filter(|round| counts(round)) {
        let distance = (speed(round) - middle).abs();
        round.odd = distance > ODD * middle && distance > FAR * spread;
    }
}

/// Returns the facts about a server that are known before measuring. Connects to it once.
pub async fn introduce(server: &Server) -> Result<ServerRecord> {
    let mut client = server.connect().await?;
    client.echo().await.with_context(|| format!("{} does not answer an ECHO", server.target))?;
    let agreed = client.agreed();
    let protection = match client.protected() {
        (_, true) => format!("encrypted with {:?}", agreed.cipher.unwrap_or_default()),
        (true, false) => format!("signed with {:?}", agreed.signing),
        (false, false) => "neither signed nor encrypted".to_owned(),
    };
    let protocol = format!("{:?}, {protection}", agreed.dialect);
    client.log_off().await?;
    let first = server.processes.as_ref().and_then(|it| it.pids().first().copied());
    Ok(ServerRecord {
        name: server.name.clone(),
        target: server.target.to_string(),
        protocol,
        version: first.and_then(machine::version_of),
        file_system: server.path.as_deref().and_then(report::machine::file_system_of),
        configuration: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_far_from_the_others_are_marked_as_odd() {
        let check = |speeds: &[u64], expected: &[bool]| {
            let round = |operations: &u64| Round { seconds: 1.0, operations: *operations, ..Round::default() };
            let mut rounds: Vec<Round> = speeds.iter().map(round).collect();
            mark_odd(&mut rounds);
            assert_eq!(rounds.iter().map(|round| round.odd).collect::<Vec<_>>(), expected, "{speeds:?}");
        };
        check(&[100, 101, 99, 60, 100], &[false, false, false, true, false]);
        check(&[100, 101, 99, 90, 100], &[false; 5]);
        check(&[100, 150, 50, 120, 80], &[false; 5]);
        check(&[100], &[false]);
        check(&[], &[]);
    }

    #[test]
    fn each_member_of_a_group_is_first_in_turn() {
        let party = |group| Party { name: "", target: None, processes: None, group };
        let two = [party(0), party(1)];
        assert_eq!([0, 1, 2].map(|number| order(&two, number)), [[0, 1], [1, 0], [0, 1]]);
        let groups = [0, 1, 0, 1, 0].map(party);
        let expected = [[0, 2, 4, 1, 3], [3, 1, 4, 2, 0], [2, 4, 0, 3, 1], [1, 3, 0, 4, 2], [4, 0, 2, 1, 3]];
        assert_eq!([0, 1, 2, 3, 4].map(|number| order(&groups, number)), expected);
    }
}
