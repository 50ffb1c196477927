//! Measures whether a server's memory stays bounded while clients access a growing number of files with their own ACLs:
//! those of the social network, 42 entries on average. No two files have equal ACLs, so everything that a server keeps
//! per file adds up.
//!
//! Every file is accessed once (opened, queried for its security descriptor, closed), in steps. The memory of the
//! server's processes is read after each step.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use proto::bytes::utf16_bytes;
use report::metric::Metric;
use report::record::{Axis, Case, Experiment, Table};
use report::units;
use tokio::task::JoinSet;

use super::ground::Ground;
use super::losses;
use super::security::access;
use super::sets::DataSet;
use crate::load::{Done, Sample};
use crate::method::{Bench, Server, Turn};
use crate::random::Random;
use crate::summary;

const DIRECTORY: &str = "frevo-bench-acl-memory";
/// Number of files in a directory.
const FILES: usize = 1000;
/// The longest ACL that a file gets.
const LONGEST: usize = 1000;
/// Number of connections.
const WORKERS: usize = 4;

/// The private memory of the processes.
const PRIVATE: Metric = Metric {
    name: "private memory",
    unit: "MiB",
    of: |round| Some(round.cost.as_ref()?.private as f64 / f64::from(1 << 20)),
    text: |value| units::bytes(value * f64::from(1 << 20)),
    more_is_better: false,
    ..Metric::RATE
};

/// The options of the experiment.
#[derive(Args, Clone, Default, Debug)]
pub struct Options {
    /// Number of files [default: 20000, quick 2000]
    #[arg(long)]
    files: Option<usize>,
    /// Number of steps at which memory is read
    #[arg(long, default_value_t = 10)]
    steps: usize,
}

/// Runs the experiment.
pub async fn run(bench: &Bench, options: &Options) -> Result<Experiment> {
    let files = options.files.unwrap_or(bench.method.pick(20_000, 2_000)).clamp(1, 100_000_000);
    // The default value of the options, used by `all`, has 0 steps.
    let steps = if options.steps == 0 { 10 } else { options.steps }.min(files);
    bench.begin_of("acl memory", steps, bench.servers.len());
    let mut grounds = Vec::new();
    let mut lists = losses::Files::of(&[]);
    for server in &bench.servers {
        let what_for = "acl memory creates files with POSIX ACLs in the file system, so it";
        let ground = Ground::make(server, DIRECTORY, what_for)?;
        let mut random = Random::new(bench.method.seed);
        let entries = DataSet::SocialNetwork.entries(files, ground.longest(LONGEST)?, &mut random);
        bench.say(&format!("{}: creating {files} files", server.name));
        fill(&ground, &entries)?;
        lists = losses::Files::of(&entries);
        grounds.push(ground);
    }
    let bounds: Vec<usize> = (0..=steps).map(|step| files * step / steps).collect();
    let names: Vec<String> = bounds[1..].iter().map(|bound| format!("{bound} files")).collect();
    let names: Vec<(&str, Option<f64>)> =
        names.iter().zip(&bounds[1..]).map(|(name, bound)| (name.as_str(), Some(*bound as f64))).collect();
    let turn = async |server: &Server, turn: &Turn<'_>| {
        for (case, bound) in bounds.windows(2).enumerate() {
            turn.measure_as(case, scan(server, bound[0], bound[1])).await?;
        }
        Ok(())
    };
    let cases = bench.cold_cases(1, &names, turn).await?;
    let settings = vec![
        ("files".to_owned(), files.to_string()),
        ("mean number of ACL entries".to_owned(), units::number(lists.mean)),
        ("longest ACL".to_owned(), lists.most.to_string()),
        ("connections".to_owned(), WORKERS.to_string()),
    ];
    Ok(experiment(&bench.names(), cases, settings))
}

fn fill(ground: &Ground, entries: &[usize]) -> Result<()> {
    for (file, entries) in entries.iter().enumerate() {
        if file % FILES == 0 {
            ground.directory(&(file / FILES).to_string())?;
        }
        let made = ground.file(&format!("{}/{file}", file / FILES), 0, *entries, file as u32)?;
        ensure!(made, "the file system accepted an ACL of {entries} entries before and now rejects it");
    }
    Ok(())
}

/// Accesses each of these files once.
async fn scan(server: &Server, from: usize, to: usize) -> Result<Sample> {
    let mut tasks = JoinSet::new();
    let begin = Instant::now();
    for worker in 0..WORKERS {
        let mut client = server.connect().await?;
        tasks.spawn(async move {
            let mut sample = Sample::default();
            for file in (from + worker..to).step_by(WORKERS) {
                let path = format!(r"{DIRECTORY}\{}\{file}", file / FILES);
                let start = Instant::now();
                access(&mut client, &utf16_bytes(&path)).await.with_context(|| path)?;
                sample.count(Done::one(0), start.elapsed());
            }
            anyhow::Ok(sample)
        });
    }
    let mut sample = Sample::default();
    while let Some(ended) = tasks.join_next().await {
        sample.merge(ended??);
    }
    sample.seconds = begin.elapsed().as_secs_f64();
    Ok(sample)
}

fn experiment(names: &[&str], cases: Vec<Case>, settings: Vec<(String, String)>) -> Experiment {
    let axis = Axis { label: "files accessed".into(), ..Axis::default() };
    let remarks = (0..names.len()).filter_map(|server| growth(names[server], &cases, server)).collect();
    Experiment {
        name: "acl memory".into(),
        title: "Does a server's memory grow with the number of files whose ACLs it has read?".into(),
        study: "Hitachi and Osaka University, \"Concurrent use of POSIX ACL and rich ACL\" (2011) has a cache of \
                converted ACLs, and does not state its memory use."
            .into(),
        settings,
        figures: vec![summary::lines("Private memory", axis, &cases, names, PRIVATE)],
        tables: vec![table(names, &cases)],
        remarks,
        cases,
    }
}

fn table(names: &[&str], cases: &[Case]) -> Table {
    let head = |name: &&str| [name.to_string(), "accesses".to_owned(), "99 % of them within".to_owned()];
    let row = |case: &Case| {
        let text = |metric: Metric, server: usize| {
            let value = case.servers.get(server).and_then(|rounds| metric.median(rounds));
            value.map_or(units::NOTHING.to_owned(), metric.text)
        };
        let cells = (0..names.len()).flat_map(|server| [PRIVATE, Metric::RATE, Metric::P99].map(|it| text(it, server)));
        std::iter::once(case.name.clone()).chain(cells).collect()
    };
    Table {
        title: "Private memory by number of files accessed".into(),
        head: std::iter::once("accessed".to_owned()).chain(names.iter().flat_map(head)).collect(),
        rows: cases.iter().map(row).collect(),
    }
}

/// Returns a sentence about the memory per file in the second half, when bounded caches are full.
fn growth(name: &str, cases: &[Case], server: usize) -> Option<String> {
    let at = |case: &Case| Some((case.x?, PRIVATE.median(case.servers.get(server)?)?));
    let (middle, last) = (at(cases.get(cases.len().checked_sub(1)? / 2)?)?, at(cases.last()?)?);
    let files = last.0 - middle.0;
    let grown = (last.1 - middle.1) * f64::from(1 << 20);
    (files > 0.0).then(|| {
        format!(
            "{name}: from {} to {} files, its memory changed by {}, {} per file.",
            units::number(middle.0),
            units::number(last.0),
            units::bytes(grown),
            units::bytes(grown / files)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::record::{Cost, Round};

    #[test]
    fn growth_is_measured_in_the_second_half() {
        let case = |files: f64, private: u64| {
            let cost = Some(Cost { private, ..Cost::default() });
            let rounds = vec![Round { cost, operations: 10, seconds: 1.0, ..Round::default() }];
            Case { name: format!("{files} files"), x: Some(files), servers: vec![rounds], ..Case::default() }
        };
        let cases = vec![case(10.0, 1 << 20), case(20.0, 8 << 20), case(30.0, 8 << 20), case(40.0, (8 << 20) + 2000)];
        let experiment = experiment(&["frevo"], cases, Vec::new());
        assert_eq!(experiment.tables[0].rows[1][1], "8 MiB");
        assert_eq!(experiment.figures[0].series[0].points.len(), 4);
        assert!(experiment.remarks[0].ends_with("changed by 1.95 KiB, 100 B per file."), "{:?}", experiment.remarks);
    }
}
