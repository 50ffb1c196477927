//! `cargo xtask fuzz`: builds the fuzz targets with coverage instrumentation on stable Rust, and runs each for a
//! limited time.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};
use test_environment::{Counts, interrupt};

use crate::steps::cargo;

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only this target
    target: Option<String>,
    /// Duration of each target in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Only print the names of the targets
    #[arg(long)]
    list: bool,
}

/// Compiler flags for libFuzzer. The sanitizer passes exist on stable Rust; only the option to enable them does not.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";
/// With an explicit target triple, build scripts and macros are not instrumented.
const TRIPLE: &str =
    if cfg!(target_arch = "aarch64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };
/// Limits of memory, in MiB, and time for one input, in seconds. A target that exceeds one of them has failed.
const MEMORY: u32 = 2048;
const INPUT_TIME: u32 = 10;

fn folder() -> PathBuf {
    crate::root().join("fuzz")
}

/// Returns the names of the targets: one file each.
fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder().join("fuzz_targets")).context("fuzz/fuzz_targets")? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

impl Options {
    /// Returns the options for all targets.
    pub(crate) fn brief(seconds: u32) -> Options {
        Options { target: None, seconds, list: false }
    }
}

/// Builds and runs the targets. Returns counts of targets.
pub(crate) fn run(options: &Options) -> Result<Counts> {
    let mut names = targets()?;
    if let Some(target) = &options.target {
        names.retain(|name| name == target);
        if names.is_empty() {
            bail!("there is no fuzz target {target}; `cargo xtask fuzz --list` lists them");
        }
    }
    if options.list {
        names.iter().for_each(|name| println!("{name}"));
        return Ok(Counts::default());
    }
    ensure!(build_command().status().context("cannot start cargo")?.success(), "the fuzz targets do not build");
    fuzz_all(&names, options.seconds)
}

/// Returns the command that builds the targets.
pub(crate) fn build_command() -> Command {
    let mut command = cargo(&["build", "--quiet", "--release", "--bins", "--target", TRIPLE]);
    command.current_dir(folder()).env("RUSTFLAGS", FLAGS);
    command
}

/// Runs the targets, as many at once as there are processors.
fn fuzz_all(names: &[String], seconds: u32) -> Result<Counts> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut counts = Counts::default();
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            interrupt::check()?;
            let repeat = format!("cargo xtask fuzz {name} --seconds {seconds}");
            let done = if fuzz(name, seconds) { Counts::passed(1) } else { Counts::failed(name).repeated_by(&repeat) };
            counts.add(done);
        }
        anyhow::Ok(counts)
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..processors.min(names.len())).map(|_| scope.spawn(worker)).collect();
        let mut all = Counts::default();
        for worker in workers {
            all.add(worker.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??);
        }
        Ok(all)
    })
}

/// Runs a target. Returns whether it ran to the end of its time without failure.
fn fuzz(name: &str, seconds: u32) -> bool {
    let corpus = folder().join("corpus").join(name);
    let artifacts = folder().join("artifacts").join(name);
    if std::fs::create_dir_all(&corpus).and(std::fs::create_dir_all(&artifacts)).is_err() {
        eprintln!("{name}: cannot create {} and {}", corpus.display(), artifacts.display());
        return false;
    }
    let output = Command::new(folder().join("target").join(TRIPLE).join("release").join(name))
        .arg(&corpus)
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-rss_limit_mb={MEMORY}"))
        .arg(format!("-timeout={INPUT_TIME}"))
        .args(["-max_len=65536", "-print_final_stats=1"])
        .output();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let stat = |name: &str| {
                let line = said.lines().find_map(|line| line.strip_prefix(&format!("stat::{name}:")));
                line.map_or("?".to_string(), |value| value.trim().to_string())
            };
            let verdict = if output.status.success() { "ok" } else { "FAILED" };
            println!(
                "{name:<12} {verdict:<7} {:>10} executions, {:>5} MiB at most",
                stat("number_of_executed_units"),
                stat("peak_rss_mb")
            );
            if !output.status.success() {
                let tail: Vec<_> = said.lines().rev().take(40).collect();
                tail.iter().rev().for_each(|line| eprintln!("    {line}"));
                eprintln!(
                    "    the input is in {}; once the bug is fixed, move it to fuzz/regressions/{name}/",
                    artifacts.display()
                );
            }
            output.status.success()
        }
        Err(error) => {
            eprintln!("{name}: {error}");
            false
        }
    }
}
