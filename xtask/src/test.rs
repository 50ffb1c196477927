//! `cargo xtask check` (required for each commit) and `cargo xtask test` (everything).

use anyhow::Result;
use test_environment::{Counts, Target};

use crate::steps::{self, Tally, cargo, succeeds};
use crate::{compare, hostile, setup, source, torture};

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only tests of every kind whose name contains this word; skips formatting, lints and fuzzing
    filter: Option<String>,
    /// Skip the tests that take long: gigabyte files, thousands of files, slow torture tests
    #[arg(long)]
    quick: bool,
}

/// Runs formatting checks, lints and unit tests.
pub(crate) fn check() -> Result<Counts> {
    let mut tally = Tally::default();
    style(&mut tally)?;
    tally.step("unit tests", || steps::unit_tests(None))?;
    Ok(tally.finish())
}

fn style(tally: &mut Tally) -> Result<()> {
    tally.step("formatting", || succeeds(cargo(&["fmt", "--all", "--check"])))?;
    let clippy = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    tally.step("rules about the source", source::check)?;
    tally.step("lints", || succeeds(cargo(&clippy)))?;
    Ok(())
}

/// Runs everything. Without a release build, the remaining steps cannot run.
pub(crate) fn all(options: &Options) -> Result<Counts> {
    let mut tally = Tally::default();
    let filter = options.filter.as_deref();
    if filter.is_none() {
        style(&mut tally)?;
    }
    tally.step("unit tests", || steps::unit_tests(filter))?;
    let build = || succeeds(cargo(&["build", "--quiet", "--release", "--package", "frevo", "--package", "bench"]));
    if !tally.step("release build", build)? {
        return Ok(tally.finish());
    }
    tally.step("foreign programs", || foreign(options))?;
    tally.step("controls for smbtorture", || {
        let controls = ["test", "--quiet", "-p", "server", "--features", "torture", "--test", "torture_controls"];
        succeeds(cargo(&controls))
    })?;
    tally.step("smbtorture", || torture::run(&torture_options(options)))?;
    if filter.is_none() {
        tally.step("attacks, briefly", || hostile::run(&hostile::Options::brief()))?;
        tally.step("the client against Samba", client_against_samba)?;
        tally.step("every experiment on both servers, briefly", compare::run_briefly)?;
    }
    if filter.is_none() && crate::root().join("fuzz/Cargo.toml").exists() {
        let seconds = if options.quick { "2" } else { "10" };
        tally.step("fuzzing, briefly", || succeeds(cargo(&["xtask", "fuzz", "--seconds", seconds])))?;
    }
    Ok(tally.finish())
}

fn foreign(options: &Options) -> Result<Counts> {
    foreign::suite::run(&foreign::suite::Options {
        target: Target::Frevo,
        filter: options.filter.clone(),
        quick: options.quick,
        python: setup::python(),
        tools: None,
    })
}

/// Runs the cases that need Samba as the server: its own counters of a replayed run, and a Kerberos realm.
fn client_against_samba() -> Result<Counts> {
    setup::run(setup::Set::Samba)?;
    let mut counts = Counts::default();
    for filter in ["netbench", "kerberos"] {
        counts.add(foreign::suite::run(&foreign::suite::Options {
            target: Target::Samba,
            filter: Some(filter.into()),
            quick: true,
            python: setup::python(),
            tools: None,
        })?);
    }
    Ok(counts)
}

/// Returns options with all torture tests, or those that match the filter.
fn torture_options(options: &Options) -> torture::Options {
    torture::Options {
        target: Target::Frevo,
        tests: torture::LIST.into(),
        fs: None,
        filter: options.filter.iter().map(|filter| format!("*{filter}*")).collect(),
        jobs: torture::JOBS,
        out: None,
        timeout: torture::TIMEOUT,
        repeat: 1,
        quick: options.quick,
        update: false,
    }
}
