//! `cargo xtask torture`: runs the tests of Samba's own suite, smbtorture 4.17, individually against a server.
//!
//! Each worker has its own server and directories, so a test that brings down a server does not affect others. As root,
//! each worker also has its own network, and all share a file system created for the run ([`place`]). Results are
//! compared with `expected-failures/` (Frevo) or with `xtask/torture/samba417-baseline.tsv` (Samba).

mod ground;
mod list;
pub(crate) mod place;
mod report;
mod run;
mod subunit;
mod volume;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use test_environment::{Counts, OtherBuild, Target, interrupt};

use crate::steps::{cargo, succeeds};

pub(crate) use place::FileSystem;

use ground::Ground;
use place::WorkerFileSystem;
use run::Outcome;
use volume::Volume;

/// Explanation of the results.
pub(crate) const RESULTS: &str = "\
Results: success, failure, error and skip as reported by smbtorture, and the runner's own:
  timeout       not finished within the time limit, killed
  crash         smbtorture itself died, or reported no result
  server-crash  the server's process ended, or its port is no longer open
  server-hang   the server accepts connections but does not answer NEGOTIATE
  server-panic  the server answers, but its log contains a panic
  flaky         different results (--repeat)
  notrun        excluded by xtask/torture/map.txt or map-gluster.txt, which has the reason
  notrunnable   needs two UNIX users, and therefore root
  unknown       smbtorture has no such test

Exit status: 0 all as expected; 1 a test failed that is not in expected-failures/, or one passed that is listed there,
or one could not run; 2 the run was not possible; 130 interrupted.";

/// Number of concurrent tests. It exceeds the number of processors of a small machine because most tests usually wait.
pub(crate) const JOBS: usize = 8;
/// Seconds until a test is killed. The longest test that Samba passes takes 80.
pub(crate) const TIMEOUT: u64 = 180;
/// The server under test, in `crates/frevo/src/bin`.
const PROGRAM: &str = "frevo-torture";
/// The default list: all tests of SMB 2 and 3.
pub(crate) const LIST: &str = "smb2";
/// The list of the tests of named pipes.
pub(crate) const RPC_LIST: &str = "rpc";
/// The list of the tests of Macs, streams and ACLs.
pub(crate) const VFS_LIST: &str = "vfs";
/// Tests that took longer with Samba are skipped in a quick run.
const QUICK_SECONDS: f64 = 15.0;

/// Options of the command.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Server to test: frevo (target/release/frevo-torture) or samba (Debian's smbd)
    #[arg(long, default_value = "frevo")]
    pub(crate) target: Target,
    /// A list in xtask/torture (smb2: SMB 2 and 3; rpc: named pipes; vfs: Macs) or a file with one test per line
    #[arg(long, default_value = LIST)]
    pub(crate) tests: String,
    /// Run only tests that match the glob; may be given more than once
    #[arg(long)]
    pub(crate) filter: Vec<String>,
    /// Number of concurrent tests, each with its own server
    #[arg(long, default_value_t = JOBS)]
    pub(crate) jobs: usize,
    /// File system of the shares [default: xfs if it can be created, which needs root; else tmp]
    #[arg(long)]
    pub(crate) fs: Option<FileSystem>,
    /// File for the table [default: target/torture/TARGET-LIST.tsv]
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Seconds until a test is killed
    #[arg(long, default_value_t = TIMEOUT)]
    pub(crate) timeout: u64,
    /// Number of runs of each test
    #[arg(long, default_value_t = 1)]
    pub(crate) repeat: usize,
    /// Skip tests that take long
    #[arg(long)]
    pub(crate) quick: bool,
    /// Update expected-failures/ to match this run; new lines fail until they have an explanation
    #[arg(long)]
    pub(crate) update: bool,
    /// GlusterFS volume with the shares, on the servers in whose namespaces this process is
    #[arg(long, hide = true, conflicts_with_all = ["update", "fs", "target"])]
    pub(crate) volume: Option<Volume>,
}

/// Runs the tests. Returns how many passed, and which outcomes were unexpected.
pub(crate) fn run(options: &Options) -> Result<Counts> {
    // Uses a separate thread, so that the namespaces that it creates do not affect later steps.
    let run = || run_here(options);
    std::thread::scope(|scope| scope.spawn(run).join().map_err(|_| anyhow::anyhow!("the runner panicked"))?)
}

fn run_here(options: &Options) -> Result<Counts> {
    let _build = match options.target {
        Target::Frevo => Some(build()?),
        Target::Samba => None,
    };
    let (path, mut tests) = list::tests(&options.tests)?;
    let stem = path.file_stem().context("the list has no name")?.to_string_lossy().into_owned();
    let place_name = options.volume.as_ref().map_or_else(String::new, |volume| format!("-{}", volume.name));
    let name = format!("{}-{stem}{place_name}", options.target.name());
    let folder = crate::root().join("target/torture");
    let out = options.out.clone().unwrap_or_else(|| folder.join(format!("{name}.tsv")));
    let (baseline, last) = (list::baseline()?, list::last(&out));
    let seconds = |test: &String| {
        let seen = [last.get(test), baseline.get(test)].into_iter().flatten().next();
        seen.map_or(1.0, |(_, seconds)| *seconds)
    };
    tests.retain(|test| options.filter.is_empty() || options.filter.iter().any(|glob| list::matches(glob, test)));
    tests.retain(|test| !options.quick || baseline.get(test).is_none_or(|(_, seconds)| *seconds <= QUICK_SECONDS));
    if tests.is_empty() {
        println!("no test of {} matches", path.display());
        return Ok(Counts::default());
    }
    // The longest tests run first, so that none of them is left for the end.
    tests.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    let logs = folder.join(format!("{name}.logs"));
    fs::create_dir_all(&logs)?;
    let place = match &options.volume {
        None => WorkerFileSystem::make(options.fs)?,
        Some(volume) => WorkerFileSystem::in_volume(volume.clone())?,
    };
    println!("file system of the shares: {}", place.says());
    let outcomes = run_all(options, &tests, &logs, &place);
    let (outcomes, ()) = (outcomes?, place.end()?);
    let report = report::Report::new(options, outcomes)?;
    report.write(&out)?;
    print!("{}", report.text());
    println!("table: {}  output of each test: {}", out.display(), logs.display());
    if options.update && options.target == Target::Frevo {
        report.update(&stem)?;
    }
    Ok(report.counts())
}

/// Builds the server with the controls for smbtorture, unless `FREVO` specifies the program.
fn build() -> Result<OtherBuild> {
    if std::env::var_os("FREVO").is_none() {
        println!("building {PROGRAM}");
        ensure!(succeeds(build_command())?.failed.is_empty(), "{PROGRAM} does not build");
    }
    Ok(OtherBuild::new(crate::root().join("target/release").join(PROGRAM)))
}

/// Returns the command that builds the server under test.
pub(crate) fn build_command() -> Command {
    cargo(&["build", "--quiet", "--release", "-p", "frevo", "--features", "torture", "--bin", PROGRAM])
}

/// Tests still to be run, with the number of the run.
type Queue<'a> = Mutex<VecDeque<(&'a str, usize)>>;

/// Returns the file name for the output of one run of a test.
fn log_name(test: &str, run: usize) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = test.chars().map(safe).collect();
    if run == 1 { format!("{name}.log") } else { format!("{name}.{run}.log") }
}

fn run_all(options: &Options, tests: &[String], logs: &Path, place: &WorkerFileSystem) -> Result<Vec<Outcome>> {
    let times = |test| (1..=options.repeat.max(1)).map(move |run| (test, run));
    let queue: Queue<'_> = Mutex::new(tests.iter().map(String::as_str).flat_map(times).collect());
    let total = queue.lock().map_or(0, |queue| queue.len());
    let bar = progress(total);
    let worker = || work(options, &queue, logs, place, &bar);
    let outcomes = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs.clamp(1, total.max(1))).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().map_err(|_| anyhow::anyhow!("a worker of the runner panicked"))??);
        }
        anyhow::Ok(all)
    });
    bar.finish_and_clear();
    Ok(merge(outcomes?))
}

/// Runs tests from the queue until it is empty.
fn work(
    options: &Options,
    queue: &Queue<'_>,
    logs: &Path,
    place: &WorkerFileSystem,
    bar: &ProgressBar,
) -> Result<Vec<Outcome>> {
    let stop_others = |error: anyhow::Error| {
        queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
        error
    };
    let has_smb_port = options.volume.is_none() || options.jobs == 1;
    let mut ground = Ground::lay(options.target, place, has_smb_port).map_err(stop_others)?;
    let map = list::Map::load(&ground.data(), options.volume.is_some()).map_err(stop_others)?;
    let mut outcomes = Vec::new();
    loop {
        let Some((test, run)) = queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop_front() else {
            break;
        };
        interrupt::check().map_err(stop_others)?;
        bar.set_message(test.to_owned());
        let limit = Duration::from_secs(options.timeout);
        let log = logs.join(log_name(test, run));
        let outcome = run::one(&mut ground, test, &map.route(test), limit, &log);
        let outcome = outcome.with_context(|| format!("cannot run {test}")).map_err(stop_others)?;
        if !["success", "notrun"].contains(&outcome.result.as_str()) {
            bar.suspend(|| println!("{:<52} {:<12} {:7.2} s", outcome.name, outcome.result, outcome.seconds));
        }
        bar.inc(1);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Merges runs of the same test into one outcome.
fn merge(outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let mut by_name: BTreeMap<String, Vec<Outcome>> = BTreeMap::new();
    for outcome in outcomes {
        by_name.entry(outcome.name.clone()).or_default().push(outcome);
    }
    let one = |(name, runs): (String, Vec<Outcome>)| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for run in &runs {
            *counts.entry(&run.result).or_default() += 1;
        }
        let seconds = runs.iter().map(|run| run.seconds).fold(0.0, f64::max);
        let worst = runs.iter().find(|run| run.result != "success").unwrap_or(&runs[0]);
        match counts.len() {
            1 => Outcome::new(&name, &worst.result, seconds, &worst.reason),
            _ => Outcome::new(&name, "flaky", seconds, &format!("{counts:?} {}", worst.reason)),
        }
    };
    by_name.into_iter().map(one).collect()
}

fn progress(total: usize) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(total).unwrap_or(u64::MAX));
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_results_are_flaky() {
        let outcome = |result: &str| Outcome::new("a", result, 1.0, "");
        let merged = |results: &[&str]| merge(results.iter().map(|result| outcome(result)).collect())[0].result.clone();
        assert_eq!(merged(&["success", "success"]), "success");
        assert_eq!(merged(&["failure", "failure"]), "failure");
        assert_eq!(merged(&["success", "failure"]), "flaky");
    }
}
