//! E6: a recorded NetBench run, replayed by any number of clients as fast as answers arrive (Miracle Linux, *Samba
//! performance evaluation*, 2002, with Samba 2.2.4).
//!
//! Each client has its own connection and directory. A time-limited round continues the load where the previous round
//! ended. After the first 640 lines, which fill the disk, every 3,550 lines do much the same, so the beginning is
//! replayed before anything is measured. With `--passes` each round is the whole load, this many times. That is for
//! counting requests rather than for comparing servers, because it takes minutes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use report::metric::Metric;
use report::record::{Axis, Case, Experiment, Table};
use report::units;

use crate::load::{self, Pace, Sample, Until};
use crate::method::{Bench, Server, Turn};
use crate::netbench::kind::Kind;
use crate::netbench::load::{DEBIAN, Load};
use crate::netbench::plan::Plan;
use crate::netbench::replay::{Replay, Times, add_times};
use crate::netbench::{BASE, clean_up, set_up};
use crate::summary::{self, then};

/// Number of lines that are replayed before measuring: those that fill the disk, and one repetition of those that
/// follow.
const LEAD: u64 = 4200;

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Numbers of clients, separated by commas, measured one after another [default: 8, quick 4]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    clients: Vec<u16>,
    /// The recorded run [default: /usr/share/dbench/client.txt, of Debian's package dbench]
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,
    /// Use only this many lines from the start of the recorded run
    #[arg(long)]
    lines: Option<usize>,
    /// Replay the whole run this many times in every round, instead of for a fixed time
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    passes: Option<u64>,
}

impl Options {
    /// Reads the requested load.
    fn load(&self) -> Result<Load> {
        let load = Load::read(self.load.as_deref().unwrap_or(DEBIAN.as_ref()))?;
        Ok(match self.lines {
            Some(lines) => load.head(lines),
            None => load,
        })
    }
}

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let load = options.load()?;
    let plan = Arc::new(Plan::new(&load)?);
    let default = vec![bench.method.pick(8, 4)];
    let clients = if options.clients.is_empty() { &default } else { &options.clients };
    bench.begin("netbench", clients.len());
    let mut cases = Vec::new();
    let mut times = Vec::new();
    for count in clients {
        let (case, timed) = measure(bench, options, &load, &plan, *count).await?;
        cases.push(case);
        times.push(timed);
    }
    Ok(experiment(bench, settings(options, &load, clients), cases, &times))
}

/// Measures one number of clients. Also returns the times of each operation on each server.
async fn measure(
    bench: &Bench,
    options: &Options,
    load: &Load,
    plan: &Arc<Plan>,
    clients: u16,
) -> Result<(Case, Vec<Times>)> {
    let lead = plan.lines().min(LEAD);
    let mut held = Vec::new();
    for server in &bench.servers {
        bench.say(&format!("{}: preparing {clients} clients", server.name));
        let mut replays = set_up(server, plan, &load.name, usize::from(clients), bench.method.seed).await?;
        if options.passes.is_none() {
            (_, replays) = load::run(replays, pace(Until::Operations(lead), bench.method.seed)).await?;
        }
        held.push(RefCell::new((replays, Times::new())));
    }
    let turn = async |server: &Server, turn: &Turn<'_>| {
        let (idle, mut times) = held[server.index].take();
        let lines = options.passes.map(|passes| passes * plan.lines());
        let mut replays = Vec::new();
        turn.measure(async {
            let (sample, used) = replay(idle, turn, lines).await?;
            replays = used;
            Ok(sample)
        })
        .await?;
        for replay in &mut replays {
            let timed = replay.take_times();
            if !turn.warms_up() && !turn.traces {
                add_times(&mut times, timed);
            }
            if options.passes.is_some() {
                replay.finish().await?;
            }
        }
        held[server.index].replace((replays, times));
        Ok(())
    };
    let name = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
    let case = bench.case(&name, Some(f64::from(clients)), turn).await?;
    let mut times = Vec::new();
    for (server, held) in bench.servers.iter().zip(held) {
        let (replays, timed) = held.into_inner();
        times.push(timed);
        clean_up(server, replays).await?;
    }
    Ok((case, times))
}

/// The clients count errors themselves, because they continue after an error.
fn pace(until: Until, seed: u64) -> Pace {
    Pace { until, rate: None, allow_errors: false, seed }
}

/// Replays `lines` lines, or as many as the turn's time allows.
async fn replay(mut replays: Vec<Replay>, turn: &Turn<'_>, lines: Option<u64>) -> Result<(Sample, Vec<Replay>)> {
    let Pace { until, allow_errors, rate, seed } = turn.pace();
    for replay in &mut replays {
        (replay.tolerant, replay.errors) = (allow_errors, 0);
    }
    let until = lines.map_or(until, Until::Operations);
    let (mut sample, replays) = load::run(replays, Pace { rate, ..pace(until, seed) }).await?;
    sample.errors = replays.iter().map(|replay| replay.errors).sum();
    sample.operations = sample.operations.saturating_sub(sample.errors);
    Ok((sample, replays))
}

fn settings(options: &Options, load: &Load, clients: &[u16]) -> Vec<(String, String)> {
    let counts: Vec<String> = clients.iter().map(u16::to_string).collect();
    let round = match options.passes {
        Some(passes) => format!("{passes} x all lines"),
        None => format!("fixed time, after {} unmeasured lines", LEAD.min(load.lines.len() as u64)),
    };
    [
        ("load", format!("{}, {} lines", load.name, units::count(load.lines.len() as u64))),
        ("clients", counts.join(", ")),
        ("round", round),
        ("directory", BASE.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

fn experiment(bench: &Bench, settings: Vec<(String, String)>, cases: Vec<Case>, times: &[Vec<Times>]) -> Experiment {
    let names = bench.names();
    let mut figure = if cases.len() > 1 {
        let axis = Axis { label: "clients".into(), ..Axis::default() };
        summary::lines("NetBench", axis, &cases, &names, Metric::THROUGHPUT)
    } else {
        summary::bars("NetBench", &cases, &names, Metric::THROUGHPUT)
    };
    // Measured with one client, at log level 0.
    let place = if cases.len() > 1 { 1.0 } else { 0.0 };
    figure.series.push(then("Samba 2.2 (study), 1 client", &[(place, THEN)]));
    let metrics = [&[Metric::THROUGHPUT][..], &Metric::OPERATIONS].concat();
    let mut tables = summary::comparisons("NetBench", &cases, &names, &metrics);
    if let [case] = &cases[..] {
        tables = together(&format!("NetBench, {}", case.name), tables);
    }
    let timed = cases.iter().zip(times);
    tables.extend(timed.map(|(case, times)| by_operation(&case.name, times, &names)));
    Experiment {
        name: "netbench".into(),
        title: "How fast is a recorded NetBench run served?".into(),
        study: "Miracle Linux 2002, Samba 2.2: one client at full speed, 69.4 Mbit/s at 8 % processor time, and 52.2 \
                Mbit/s at 24 % with log level 5, whatever the compiler."
            .into(),
        settings,
        remarks: remarks(&cases, &names),
        tables,
        figures: vec![figure],
        cases,
    }
}

/// The result of the study, in MiB/s.
const THEN: f64 = 69.4e6 / 8.0 / 1_048_576.0;

/// Returns the throughput in the units of dbench, and the cost of generating the load.
fn remarks(cases: &[Case], names: &[&str]) -> Vec<String> {
    let mut remarks = Vec::new();
    for (index, name) in names.iter().enumerate() {
        for case in cases {
            let rounds = case.servers.get(index).map_or(&[][..], Vec::as_slice);
            if let Some(rate) = Metric::THROUGHPUT.median(rounds) {
                let megabytes = rate * 1_048_576.0 / 1e6;
                remarks.push(format!("{name}, {}: {megabytes:.1} MB/s in the units of dbench.", case.name));
            }
        }
        remarks.extend(summary::client_share(cases, index, name));
    }
    remarks
}

/// Merges tables of one row each into one table.
fn together(title: &str, tables: Vec<Table>) -> Vec<Table> {
    let Some(first) = tables.first() else { return tables };
    let mut head = first.head.clone();
    head[0] = String::new();
    let row = |table: &Table| {
        let cells = table.rows.iter().flat_map(|row| row.iter().skip(1));
        table.head.iter().take(1).chain(cells).cloned().collect()
    };
    vec![Table { title: title.to_owned(), head, rows: tables.iter().map(row).collect() }]
}

/// Returns a table of the times of each operation, with the servers side by side.
fn by_operation(case: &str, times: &[Times], names: &[&str]) -> Table {
    let mut head = vec!["operation".to_owned()];
    for name in names {
        head.extend([format!("{name}: lines"), format!("{name}: median"), format!("{name}: 99th percentile")]);
    }
    let any = |kind: &Kind| times.iter().any(|times| times.contains_key(kind));
    let row = |kind: Kind| {
        let mut row = vec![kind.name().to_owned()];
        for times in times {
            row.extend(cells(times, kind));
        }
        row
    };
    Table {
        title: format!("NetBench, {case}: time of an operation"),
        head,
        rows: Kind::ALL.into_iter().filter(any).map(row).collect(),
    }
}

fn cells(times: &BTreeMap<Kind, hdrhistogram::Histogram<u64>>, kind: Kind) -> [String; 3] {
    let Some(histogram) = times.get(&kind) else { return [units::NOTHING; 3].map(str::to_owned) };
    let time = |quantile: f64| units::seconds(histogram.value_at_quantile(quantile) as f64 / 1e9);
    [units::count(histogram.len()), time(0.5), time(0.99)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&[&str]]) -> Table {
        let text = |row: &&[&str]| row.iter().map(|cell| (*cell).to_owned()).collect();
        let mut rows = rows.iter().map(text).collect::<Vec<Vec<String>>>();
        let head = rows.remove(0);
        Table { title: "t".into(), head, rows }
    }

    #[test]
    fn tables_of_one_row_are_merged() {
        let throughput = table(&[&["throughput", "frevo", "samba"], &["8 clients", "20 MiB/s", "10 MiB/s"]]);
        let latency = table(&[&["latency", "frevo", "samba"], &["8 clients", "1 ms", "2 ms"]]);
        let rows: [&[&str]; 3] =
            [&["", "frevo", "samba"], &["throughput", "20 MiB/s", "10 MiB/s"], &["latency", "1 ms", "2 ms"]];
        assert_eq!(together("t", vec![throughput, latency]), [table(&rows)]);
        assert_eq!(together("t", Vec::new()), []);
    }
}
