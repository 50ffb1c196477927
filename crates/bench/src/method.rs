//! How everything is measured, the same for all experiments (*Using Samba*, appendix B.2): a warm-up that does not
//! count, several rounds in which the servers take turns, odd rounds marked and not hidden, one seed for all choices.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use client::{Client, Options};
use indicatif::{ProgressBar, ProgressStyle};

use crate::load::{Pace, Sample, Until};
use crate::machine;
use crate::probe::{Processes, Syscalls};
use crate::record::{Case, Cost, Round, ServerRecord};
use crate::target::Target;

/// A round this far from the median of its case is odd, if it is also far beyond the usual spread.
const ODD: f64 = 0.2;
/// What is far beyond the usual spread: so many times the median distance from the median.
const FAR: f64 = 4.0;

/// A server under test.
pub struct Server {
    /// Its place among the servers, 0 for the target.
    pub index: usize,
    /// What it is called in tables and legends.
    pub name: String,
    /// Where it is.
    pub target: Target,
    /// How to talk to it.
    pub options: Options,
    /// The share's directory on this machine, when it is here and known.
    pub path: Option<PathBuf>,
    /// Its configuration file, when it is known.
    pub conf: Option<PathBuf>,
    /// Its processes, when they are on this machine.
    pub processes: Option<Processes>,
}

impl Server {
    /// A connection of its own, logged on and connected to the share.
    pub async fn connect(&self) -> Result<Client> {
        self.connect_with(&self.options).await
    }

    /// As [`Server::connect`], with other options.
    pub async fn connect_with(&self, options: &Options) -> Result<Client> {
        let Target { host, port, share, .. } = &self.target;
        let connected = Client::connect((host.as_str(), *port), host, share, options).await;
        connected.with_context(|| format!("cannot use {} ({})", self.target, self.name))
    }

    /// `count` connections.
    pub async fn connect_many(&self, count: usize) -> Result<Vec<Client>> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(self.connect().await?);
        }
        Ok(clients)
    }

    /// The share's directory on this machine; an error that says why it is needed when it is not known.
    pub fn path_for(&self, what_for: &str) -> Result<&PathBuf> {
        let flag = ["--share-path", "--vs-path"].get(self.index).unwrap_or(&"path= in --more");
        self.path.as_ref().with_context(|| format!("{what_for} needs the directory of {}: give {flag}", self.target))
    }
}

/// How it is measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Method {
    /// Rounds that count, of each case on each server.
    pub rounds: u32,
    /// How long a round lasts where time ends it.
    pub round: Duration,
    /// How long the warm-up lasts where time ends it.
    pub warm_up: Duration,
    /// Operations a second; without it, as fast as answers come.
    pub rate: Option<f64>,
    /// Whether failures are counted instead of ending the run.
    pub allow_errors: bool,
    /// Whether the server's system calls are counted, in a round of their own.
    pub syscalls: bool,
    /// Small sizes, for a look.
    pub quick: bool,
    /// What all random choices come from.
    pub seed: u64,
}

impl Method {
    /// `full`, or `quick` for a look.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// Everything an experiment needs.
pub struct Bench {
    /// How it is measured.
    pub method: Method,
    /// The target, and what it is compared with.
    pub servers: Vec<Server>,
    progress: ProgressBar,
}

impl Bench {
    /// Ready to measure.
    pub fn new(method: Method, servers: Vec<Server>) -> Bench {
        let progress = ProgressBar::no_length();
        let style = ProgressStyle::with_template("{prefix:>10} [{elapsed_precise}] {bar:30} {pos}/{len} {wide_msg}");
        progress.set_style(style.expect("the template is well-formed"));
        Bench { method, servers, progress }
    }

    /// What the servers are called, in order.
    pub fn names(&self) -> Vec<&str> {
        self.servers.iter().map(|server| server.name.as_str()).collect()
    }

    /// Begins an experiment of about `cases` cases: what the progress bar counts towards.
    pub fn begin(&self, experiment: &str, cases: usize) {
        self.begin_of(experiment, cases, self.servers.len());
    }

    /// As [`Bench::begin`], with so many parties.
    pub fn begin_of(&self, experiment: &str, cases: usize, parties: usize) {
        let turns = self.method.rounds as usize + 1 + usize::from(self.method.syscalls);
        self.progress.reset();
        self.progress.set_length((cases * parties * turns) as u64);
        self.progress.set_prefix(experiment.to_owned());
        self.progress.enable_steady_tick(Duration::from_millis(250));
    }

    /// Ends an experiment.
    pub fn end(&self) {
        self.progress.finish_and_clear();
    }

    /// Says what is going on.
    pub fn say(&self, what: &str) {
        self.progress.set_message(what.to_owned());
    }

    /// Does what comes before or after measuring, says so, and names the server where it fails.
    pub async fn beside<T>(&self, server: &Server, what: &str, doing: impl Future<Output = Result<T>>) -> Result<T> {
        self.say(&format!("{}: {what}", server.name));
        doing.await.with_context(|| format!("{what}, {} ({})", server.name, server.target))
    }

    /// Prints a line above the progress bar.
    pub fn print(&self, line: &str) {
        self.progress.suspend(|| eprintln!("{line}"));
    }

    /// Measures one case on all servers in turns; `run` does a turn and calls [`Turn::measure`] once, around what counts.
    pub async fn case(
        &self,
        name: &str,
        x: Option<f64>,
        run: impl AsyncFn(&Server, &Turn<'_>) -> Result<()>,
    ) -> Result<Case> {
        let mut cases = self.cases(&[(name, x)], run).await?;
        Ok(cases.remove(0))
    }

    /// Measures several cases that belong to one turn, such as making files and then deleting them; `run` does a turn and
    /// calls [`Turn::measure_as`] once for each case, with its index.
    pub async fn cases(
        &self,
        names: &[(&str, Option<f64>)],
        run: impl AsyncFn(&Server, &Turn<'_>) -> Result<()>,
    ) -> Result<Vec<Case>> {
        let last = self.method.rounds + u32::from(self.method.syscalls);
        self.turns(0..=last, names, &self.parties(), async |index, turn| run(&self.servers[index], turn).await).await
    }

    /// As [`Bench::cases`], for what takes too long to be warmed up: `rounds` turns of each server, all of which count.
    pub async fn cold_cases(
        &self,
        rounds: u32,
        names: &[(&str, Option<f64>)],
        run: impl AsyncFn(&Server, &Turn<'_>) -> Result<()>,
    ) -> Result<Vec<Case>> {
        let numbers = 1..=rounds.min(self.method.rounds);
        self.turns(numbers, names, &self.parties(), async |index, turn| run(&self.servers[index], turn).await).await
    }

    /// As [`Bench::cases`], with others than the servers under test: `run` is given an index into `parties`, and a case has
    /// the rounds of each party, in their order.
    pub async fn cases_of(
        &self,
        names: &[(&str, Option<f64>)],
        parties: &[Party<'_>],
        run: impl AsyncFn(usize, &Turn<'_>) -> Result<()>,
    ) -> Result<Vec<Case>> {
        let last = self.method.rounds + u32::from(self.method.syscalls);
        self.turns(0..=last, names, parties, run).await
    }

    /// The servers under test.
    pub fn parties(&self) -> Vec<Party<'_>> {
        let party = |server| {
            let Server { index, name, target, processes, .. }: &Server = server;
            Party { name, target: Some(target), processes: processes.as_ref(), group: *index }
        };
        self.servers.iter().map(party).collect()
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
                        Slot::Open => bail!("nothing was measured of {name}"),
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

/// What became of a case in a turn.
enum Slot {
    Open,
    Measured(Box<Round>),
    LeftOut,
}

/// Who takes turns with others: what it is called, and whose spending is counted.
#[derive(Clone, Copy)]
pub struct Party<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Where it is, when it is an SMB server.
    pub target: Option<&'a Target>,
    /// Its processes, when they are on this machine.
    pub processes: Option<&'a Processes>,
    /// Those of one group take their turns next to each other, so that they meet the machine in the same mood.
    pub group: usize,
}

/// The order in which `parties` take their turns in a round. Who goes first has the machine as the others left it: so the
/// groups, and those of a group, begin in another place in each round, and go the other way in every second one.
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

/// One turn of a server.
pub struct Turn<'a> {
    bench: &'a Bench,
    party: Party<'a>,
    /// 0 for the warm-up.
    pub number: u32,
    /// For the random choices of this turn: the same for all servers.
    pub seed: u64,
    /// Whether system calls are counted: slow, and its times count for nothing.
    pub traces: bool,
    rounds: RefCell<Vec<Slot>>,
    measured: Cell<usize>,
    /// The case that is being measured.
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

    /// Whether this turn is the warm-up.
    pub fn warms_up(&self) -> bool {
        self.number == 0
    }

    /// How load is put on in this turn, where time ends it.
    pub fn pace(&self) -> Pace {
        let Method { round, warm_up, rate, allow_errors, .. } = self.bench.method;
        let time = if self.warms_up() { warm_up } else { round };
        Pace { until: Until::Time(time), rate, allow_errors, seed: self.seed }
    }

    /// Measures the one case of this turn; see [`Turn::measure_as`].
    pub async fn measure(&self, what: impl Future<Output = Result<Sample>>) -> Result<()> {
        self.measure_as(0, what).await
    }

    /// Measures a case of this turn: what the server and this tool spend while `what` runs, and what `what` counted. Errors
    /// are fatal unless they were allowed.
    pub async fn measure_as(&self, case: usize, what: impl Future<Output = Result<Sample>>) -> Result<()> {
        self.measure_of(case, self.party.processes, what).await
    }

    /// As [`Turn::measure_as`], with the processes of a server that was started for this turn.
    pub async fn measure_of(
        &self,
        case: usize,
        processes: Option<&Processes>,
        what: impl Future<Output = Result<Sample>>,
    ) -> Result<()> {
        self.say(case);
        self.current.set(Some(case));
        let tracer = if self.traces { processes.map(Syscalls::attach).transpose()? } else { None };
        // What they hold counts at the end alone, and takes a while to find out.
        let before = processes.map(Processes::read_cpu).transpose()?;
        let client_before = machine::client_cpu();
        let sample = what.await?;
        let client_cpu = machine::client_cpu() - client_before;
        let mut cost: Option<Cost> =
            processes.map(Processes::read).transpose()?.zip(before).map(|(after, before)| after.since(&before));
        if let (Some(tracer), Some(cost)) = (tracer, &mut cost) {
            cost.calls = Some(tracer.finish()?);
        }
        ensure!(sample.errors == 0 || self.bench.method.allow_errors, "{} operations failed", sample.errors);
        if let Some(failure) = &sample.failure {
            let name = self.party.name;
            self.bench.print(&format!("{name}: {} operations failed, the first one so: {failure}", sample.errors));
        }
        let (latency, histogram) = (sample.latency(), sample.histogram());
        let Sample { seconds, operations, bytes, errors, figures, .. } = sample;
        let round =
            Round { seconds, operations, bytes, errors, odd: false, latency, histogram, cost, client_cpu, figures };
        self.fill(case, Slot::Measured(Box::new(round)))
    }

    /// Leaves out a case of this turn, which this server cannot run; in every turn or in none.
    pub fn leave_out(&self, case: usize) -> Result<()> {
        self.fill(case, Slot::LeftOut)
    }

    fn fill(&self, case: usize, with: Slot) -> Result<()> {
        let mut rounds = self.rounds.borrow_mut();
        let slot = rounds.get_mut(case).context("a case that the turn does not have")?;
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

/// What a round is judged by: how fast it was.
fn speed(round: &Round) -> f64 {
    let amount = if round.operations > 0 { round.operations } else { round.bytes };
    amount as f64 / round.seconds.max(1e-9)
}

/// Whether the round's times count: not while system calls were counted.
pub(crate) fn counts(round: &Round) -> bool {
    round.cost.as_ref().is_none_or(|cost| cost.calls.is_none())
}

/// The middle of `values`; `None` when there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
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

/// What is known of a server before anything is measured; connects to it once.
pub async fn introduce(server: &Server) -> Result<ServerRecord> {
    let mut client = server.connect().await?;
    client.echo().await.with_context(|| format!("{} answers no ECHO", server.target))?;
    let agreed = client.agreed();
    let protection = match client.protected() {
        (_, true) => format!("sealed with {:?}", agreed.cipher.unwrap_or_default()),
        (true, false) => format!("signed with {:?}", agreed.signing),
        (false, false) => "neither signed nor sealed".to_owned(),
    };
    let protocol = format!("{:?}, {protection}", agreed.dialect);
    client.log_off().await?;
    let first = server.processes.as_ref().and_then(|it| it.pids().first().copied());
    Ok(ServerRecord {
        name: server.name.clone(),
        target: server.target.to_string(),
        protocol,
        version: first.and_then(machine::version_of),
        file_system: server.path.as_deref().and_then(machine::file_system_of),
        configuration: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_rounds_are_far_from_the_others() {
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
    fn each_of_a_group_goes_first() {
        let party = |group| Party { name: "", target: None, processes: None, group };
        let two = [party(0), party(1)];
        assert_eq!([0, 1, 2].map(|number| order(&two, number)), [[0, 1], [1, 0], [0, 1]]);
        let groups = [0, 1, 0, 1, 0].map(party);
        let expected = [[0, 2, 4, 1, 3], [3, 1, 4, 2, 0], [2, 4, 0, 3, 1], [1, 3, 0, 4, 2], [4, 0, 2, 1, 3]];
        assert_eq!([0, 1, 2, 3, 4].map(|number| order(&groups, number)), expected);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([]), None);
    }
}
