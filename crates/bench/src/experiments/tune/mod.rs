//! E9: the cost or gain of each configuration parameter (*Using Samba*, appendix B.2). One parameter is changed at a
//! time and compared with the unchanged configuration. [`socket`] is E8.
//!
//! The servers are started here, once for each variant in every round. A variant and the configuration that it is
//! compared with therefore run close together in time, and no state of the previous variant remains.

mod conf;
mod link;
mod parameters;
mod relay;
mod result;
pub mod socket;
mod start;
mod work;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use client::Window;
use report::record::{Experiment, ServerRecord};

use self::conf::{Scope, Setting};
use self::link::Link;
use self::parameters::{OBSOLETE, PARAMETERS, Parameter};
use self::result::{VariantResult, experiment};
use self::start::{Location, Started, Starter};
use self::work::{Sizes, Work};
use super::Asked;
use crate::cli::Common;
use crate::load;
use crate::method::{Bench, Turn, introduce};
use crate::target::{PASSWORD, Target};

/// The experiments of `tune`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Tune {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    asked: Asked<Options>,
}

#[derive(Subcommand, Debug)]
enum Part {
    /// Socket buffers and TCP_NODELAY over links with given bandwidth and delay (E8; needs root)
    Socket(Asked<socket::Options>),
}

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    #[command(flatten)]
    serve: Serve,
    /// Measure only these parameters, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Number of connections [default: 2]
    #[arg(long)]
    clients: Option<usize>,
    /// Size of each connection's large file, in MiB [default: 64, quick 16]
    #[arg(long)]
    size: Option<u64>,
}

/// The commands that start the servers.
#[derive(Args, Clone, Default, Debug)]
pub struct Serve {
    /// Command that starts the target; {conf} is the configuration file, {port} the port, which the file contains too
    /// [default: frevo serve --config {conf}]
    #[arg(long, value_name = "COMMAND", help_heading = "Servers")]
    serve: Option<String>,
    /// Command that starts the other server [default: smbd -F --no-process-group -s {conf}]
    #[arg(long, value_name = "COMMAND", help_heading = "Servers")]
    vs_serve: Option<String>,
}

impl Serve {
    fn starters<'a>(&self, bench: &'a Bench) -> Result<Vec<Starter<'a>>> {
        let starter = |server: &'a crate::method::Server| {
            let command = match (server.index, &self.serve, &self.vs_serve) {
                (0, Some(command), _) | (1.., _, Some(command)) => command.clone(),
                (0, None, _) => format!("{} serve --config {{conf}}", frevo()),
                _ => "smbd -F --no-process-group -s {conf}".to_owned(),
            };
            Starter::new(server, command)
        };
        bench.servers.iter().map(starter).collect()
    }
}

/// Returns the program `frevo` as a word of a command: in the directory of this program, else in `PATH`.
fn frevo() -> String {
    let beside = std::env::current_exe().map(|own| own.with_file_name("frevo")).ok();
    let beside = beside.filter(|program| program.is_file());
    beside.map_or_else(|| "frevo".to_owned(), |program| format!("'{}'", program.display()))
}

impl Tune {
    /// Returns the common options.
    pub fn common(&self) -> &Common {
        match &self.part {
            Some(Part::Socket(asked)) => &asked.common,
            None => &self.asked.common,
        }
    }

    fn serve(&self) -> &Serve {
        match &self.part {
            Some(Part::Socket(asked)) => &asked.own.serve,
            None => &self.asked.own.serve,
        }
    }

    /// Returns the facts about the servers with their unchanged configurations. Starts each once.
    pub async fn introduce(&self, bench: &Bench) -> Result<Vec<ServerRecord>> {
        if self.part.is_some() {
            // A missing requirement is reported now, not after the servers were started.
            Link::can_be_made()?;
        }
        let mut records = Vec::new();
        for starter in self.serve().starters(bench)? {
            let started = starter.start(&[], &Location::here()).await?;
            records.push(introduce(&started.server).await?);
        }
        Ok(records)
    }

    /// Runs the experiment.
    pub async fn run(&self, bench: &Bench) -> Result<Experiment> {
        match &self.part {
            Some(Part::Socket(asked)) => socket::run(bench, &asked.own).await,
            None => run(bench, &self.asked.own).await,
        }
    }
}

/// Returns the target that a configuration serves, if none is given: its first share, with the user of the environment.
pub(crate) fn target_of(conf: &Path) -> Result<Target> {
    let text = std::fs::read_to_string(conf).with_context(|| format!("cannot read {}", conf.display()))?;
    let share = conf::first_share(&text);
    let share = share.with_context(|| format!("{} has no share: give a server with --target", conf.display()))?;
    let user = std::env::var("USER").ok().filter(|name| !name.is_empty());
    let user = user.with_context(|| format!("no user to log on with: give --target, or set USER and {PASSWORD}"))?;
    let (domain, password, host) = (String::new(), None, "127.0.0.1".to_owned());
    Ok(Target { domain, user, password, host, port: 445, share: share.to_owned() })
}

/// A variant on a server: its index, the parameter, the value.
type Key = (usize, &'static str, &'static str);

/// The data for measuring the variants of all parameters.
struct Plan<'a> {
    starters: Vec<Starter<'a>>,
    sizes: Sizes,
    warm_up: Duration,
    round: Duration,
    /// The messages of servers about a parameter with a value.
    said: RefCell<BTreeMap<Key, Vec<String>>>,
    /// The reasons why variants cannot be measured.
    refused: RefCell<BTreeMap<Key, String>>,
}

async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let parameters = chosen(&options.only)?;
    let sizes = Sizes {
        clients: options.clients.unwrap_or(2).max(1),
        file: options.size.unwrap_or(bench.method.pick(64, 16)).max(1) << 20,
        entries: bench.method.pick(1000, 300),
        window: Window::default(),
    };
    let plan = Plan {
        starters: options.serve.starters(bench)?,
        sizes,
        // These are short, because there are about a hundred variants.
        warm_up: bench.method.warm_up * 2 / 5,
        round: bench.method.round / 5,
        said: RefCell::default(),
        refused: RefCell::default(),
    };
    let mut remarks = plan.obsolete().await?;
    bench.begin("tune", parameters.iter().map(|parameter| cases(parameter, bench).len()).sum());
    let place = Location::here();
    for starter in &plan.starters {
        bench.say(&format!("{}: creating files", starter.server().name));
        work::prepare(&starter.start(&[], &place).await?.server, sizes).await?;
    }
    let mut found = Vec::new();
    for parameter in parameters {
        found.extend(plan.parameter(bench, parameter).await?);
    }
    for starter in &plan.starters {
        work::clean(&starter.start(&[], &place).await?.server, sizes).await?;
    }
    remarks.extend(plan.remarks());
    let settings = vec![
        ("connections".to_owned(), sizes.clients.to_string()),
        ("large file per connection".to_owned(), format!("{} MiB", sizes.file >> 20)),
        ("files in the directory".to_owned(), sizes.entries.to_string()),
        ("round, seconds".to_owned(), plan.round.as_secs_f64().to_string()),
        ("warm-up after each start, seconds".to_owned(), plan.warm_up.as_secs_f64().to_string()),
    ];
    Ok(experiment(&bench.names(), found, settings, remarks))
}

fn chosen(only: &[String]) -> Result<Vec<&'static Parameter>> {
    if let Some(unknown) = only.iter().find(|name| !PARAMETERS.iter().any(|it| it.name == **name)) {
        let all: Vec<&str> = PARAMETERS.iter().map(|it| it.name).collect();
        bail!("'{unknown}' is not a parameter that can be tuned: use names from {}", all.join(", "));
    }
    Ok(PARAMETERS.iter().filter(|it| only.is_empty() || only.iter().any(|name| name == it.name)).collect())
}

/// A variant of a parameter with one kind of work. `None` is the unchanged configuration.
type Variant = (Option<&'static str>, Work);

fn values(parameter: &Parameter, bench: &Bench) -> Vec<Option<&'static str>> {
    let values = bench.method.pick(parameter.values, parameter.quick);
    if values.is_empty() { Vec::new() } else { std::iter::once(None).chain(values.iter().copied().map(Some)).collect() }
}

fn works(parameter: &Parameter, bench: &Bench) -> &'static [Work] {
    bench.method.pick(parameter.works, &parameter.works[..1])
}

fn cases(parameter: &Parameter, bench: &Bench) -> Vec<Variant> {
    let works = works(parameter, bench);
    values(parameter, bench).into_iter().flat_map(|value| works.iter().map(move |work| (value, *work))).collect()
}

impl Plan<'_> {
    async fn parameter(&self, bench: &Bench, parameter: &'static Parameter) -> Result<Vec<VariantResult>> {
        let variants = cases(parameter, bench);
        if variants.is_empty() {
            return Ok(Vec::new());
        }
        let title = |(value, work): &Variant| match value {
            Some(value) => format!("{} = {value}: {}", parameter.name, work.name()),
            None => format!("{} unchanged: {}", parameter.name, work.name()),
        };
        let titles: Vec<String> = variants.iter().map(title).collect();
        let names: Vec<(&str, Option<f64>)> = titles.iter().map(|title| (title.as_str(), None)).collect();
        let works = works(parameter, bench);
        let rounds = bench.method.rounds.min(bench.method.pick(u32::MAX, 2));
        let turn = async |server: &crate::method::Server, turn: &Turn<'_>| {
            let mut order: Vec<_> = values(parameter, bench).into_iter().enumerate().collect();
            if turn.number.is_multiple_of(2) {
                order.reverse();
            }
            for (index, value) in order {
                self.variant(server.index, parameter, value, works, index * works.len(), turn).await?;
            }
            Ok(())
        };
        let measured = bench.cold_cases(rounds, &names, turn).await?;
        let baseline = measured[..works.len()].to_vec();
        let mut found = Vec::new();
        for (index, ((value, work), case)) in variants.into_iter().zip(measured).enumerate() {
            let baseline = baseline[index % works.len()].clone();
            let refused = |server| Some(self.refused.borrow().get(&(server, parameter.name, value?))?.clone());
            let refused = (0..self.starters.len()).map(refused).collect();
            let said = |server| value.is_some_and(|it| self.said.borrow().contains_key(&(server, parameter.name, it)));
            let said = (0..self.starters.len()).map(said).collect();
            found.push(VariantResult { parameter, value, work, case, baseline, refused, said });
        }
        Ok(found)
    }

    /// Starts a variant once and measures its works, of which the first is the turn's case `first`.
    async fn variant(
        &self,
        server: usize,
        parameter: &'static Parameter,
        value: Option<&'static str>,
        works: &[Work],
        first: usize,
        turn: &Turn<'_>,
    ) -> Result<()> {
        let key = (server, parameter.name, value.unwrap_or_default());
        let leave_out = || (first..first + works.len()).try_for_each(|case| turn.leave_out(case));
        if self.refused.borrow().contains_key(&key) {
            return leave_out();
        }
        let settings: Vec<Setting<'_>> =
            value.map(|value| (parameter.scope, parameter.name, value)).into_iter().collect();
        let started = match self.starters[server].start(&settings, &Location::here()).await {
            Ok(started) => started,
            Err(error) if value.is_some() => {
                self.refused.borrow_mut().insert(key, format!("{error:#}"));
                return leave_out();
            }
            Err(error) => return Err(error),
        };
        for (case, work) in (first..).zip(works) {
            let done = self.work(&started, *work, case, turn).await;
            // The first round shows whether the variant works at all. Only the unchanged configuration must work.
            if let (Err(error), Some(_), 1) = (&done, value, turn.number) {
                self.refused.borrow_mut().insert(key, format!("{error:#}"));
                return (case..first + works.len()).try_for_each(|case| turn.leave_out(case));
            }
            done.with_context(|| format!("{} = {}", parameter.name, value.unwrap_or("unchanged")))?;
        }
        let said = started.stop(parameter.name);
        if value.is_some() && !said.is_empty() {
            self.said.borrow_mut().insert(key, said);
        }
        Ok(())
    }

    async fn work(&self, started: &Started, work: Work, case: usize, turn: &Turn<'_>) -> Result<()> {
        let hands = work::hands(&started.server, work, self.sizes, turn.seed).await?;
        let pace = |time| load::Pace { until: load::Until::Time(time), ..turn.pace() };
        let (_, hands) = load::run(hands, pace(self.warm_up)).await?;
        let measured = async { Ok(load::run(hands, pace(self.round)).await?.0) };
        turn.measure_of(case, started.server.processes.as_ref(), measured).await
    }

    /// Returns what the servers report about parameters that no longer have an effect.
    async fn obsolete(&self) -> Result<Vec<String>> {
        let mut remarks: Vec<String> = OBSOLETE
            .iter()
            .map(|(name, _, instead)| format!("`{name}` has no effect in SMB 2 and 3. Its replacement: {instead}."))
            .collect();
        let settings: Vec<Setting<'_>> =
            OBSOLETE.iter().map(|(name, value, _)| (Scope::Global, *name, *value)).collect();
        for starter in &self.starters {
            let name = &starter.server().name;
            match starter.start(&settings, &Location::here()).await {
                Err(error) => remarks.push(format!("{name} does not start with these parameters: {error:#}.")),
                Ok(started) => {
                    for said in OBSOLETE.iter().flat_map(|(parameter, ..)| started.about(parameter)) {
                        remarks.push(format!("{name} reports: {said}"));
                    }
                }
            }
        }
        Ok(remarks)
    }

    fn remarks(&self) -> Vec<String> {
        let name = |server: usize| &self.starters[server].server().name;
        let mut remarks = Vec::new();
        for ((server, parameter, value), said) in self.said.borrow().iter() {
            for line in said {
                remarks.push(format!("{} on `{parameter} = {value}`: {line}", name(*server)));
            }
        }
        for ((server, parameter, value), why) in self.refused.borrow().iter() {
            remarks.push(format!("{} cannot be measured with `{parameter} = {value}`: {why}", name(*server)));
        }
        remarks
    }
}
