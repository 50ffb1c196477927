//! `cargo xtask check` (required for each commit) and `cargo xtask test` (everything).

use std::cell::RefCell;
use std::process::Command;

use anyhow::Result;
use test_environment::{Counts, Target};

use crate::steps::{self, Meanwhile, Step, cargo, succeeds};
use crate::{compare, fuzz, gluster, hostile, instructions, setup, sharing, source, torture, unit_tests};

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only tests of every kind whose name contains this word; skips formatting, lints and fuzzing
    filter: Option<String>,
    /// Skip the tests that take long: gigabyte files, thousands of files, slow torture tests
    #[arg(long)]
    quick: bool,
}

/// The arguments of cargo for the tests of the controls for smbtorture, which need a feature.
const CONTROLS: [&str; 8] = ["test", "--quiet", "-p", "server", "--features", "torture", "--test", "torture_controls"];

/// Runs formatting checks, lints and unit tests.
pub(crate) fn check() -> Result<Counts> {
    let mut all = style();
    all.push(unit_tests(None));
    steps::run(all)
}

fn style<'a>() -> Vec<Step<'a>> {
    let formatting = ["fmt", "--all", "--check"];
    let lints = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    vec![
        Step::new("formatting", "cargo fmt --all --check", move || succeeds(cargo(&formatting))),
        Step::new("rules about the source", "cargo xtask source", source::check),
        Step::new("lints", "cargo clippy --workspace --all-targets", move || succeeds(cargo(&lints))),
    ]
}

fn unit_tests(filter: Option<&str>) -> Step<'_> {
    Step::new("unit tests", "cargo test --workspace", move || unit_tests::run(filter))
}

/// Runs everything. Without a release build, the remaining steps cannot run.
pub(crate) fn all(options: &Options) -> Result<Counts> {
    let filter = options.filter.as_deref();
    let whole = filter.is_none();
    // While a build of the tests has work for one processor, the other builds for the release.
    let builds = RefCell::new(Some(Meanwhile::start(vec![release_build()])));
    let built = || builds.take().map_or(Ok(()), Meanwhile::finish);
    let mut all = if whole { style() } else { Vec::new() };
    all.push(unit_tests(filter));
    let release = || built().and_then(|()| succeeds(release_build()));
    all.push(Step::new("release build", "cargo build --release --package frevo --package bench", release).required());
    all.push(Step::new("foreign programs", "cargo xtask foreign", || {
        foreign(options, || drop(builds.replace(Some(Meanwhile::start(later_builds(whole))))))
    }));
    let controls = Step::new("controls for smbtorture", format!("cargo {}", CONTROLS.join(" ")), || {
        built().and_then(|()| succeeds(cargo(&CONTROLS)))
    });
    all.push(controls);
    all.push(Step::new("smbtorture", "cargo xtask torture", || torture::run(&torture_options(options, torture::LIST))));
    let rpc = || torture::run(&torture_options(options, torture::RPC_LIST));
    all.push(Step::new("smbtorture on named pipes", "cargo xtask torture --tests rpc", rpc));
    let mac = || torture::run(&torture_options(options, torture::VFS_LIST));
    all.push(Step::new("smbtorture on streams and as a Mac", "cargo xtask torture --tests vfs", mac));
    let volumes = Step::new("volumes of GlusterFS", "cargo xtask gluster test", || gluster::test(filter));
    all.push(volumes);
    if whole {
        let command = "cargo xtask instructions";
        let counting = || instructions::run(&instructions::Options::default());
        all.push(Step::new("budgets of instructions", command, counting));
        all.push(Step::new("cache lines that clients share", "cargo xtask sharing", sharing::run));
        let brief = || hostile::run(&hostile::Options::brief());
        all.push(Step::new("attacks, briefly", "cargo xtask hostile --ci", brief));
        let samba = "cargo xtask foreign --target samba --quick";
        all.push(Step::new("the client against Samba", samba, client_against_samba));
        let experiments = "cargo xtask compare --quick";
        all.push(Step::new("every experiment on both servers, briefly", experiments, compare::run_briefly));
        let seconds = if options.quick { 2 } else { 10 };
        let fuzzing = move || fuzz::run(&fuzz::Options::brief(seconds));
        all.push(Step::new("fuzzing, briefly", "cargo xtask fuzz", fuzzing));
    }
    steps::run(all)
}

/// Returns the command that builds the server under test.
fn release_build() -> Command {
    cargo(&["build", "--quiet", "--release", "--package", "frevo", "--package", "bench"])
}

/// Returns the commands that build what the steps after the foreign programs need.
fn later_builds(whole: bool) -> Vec<Command> {
    let mut builds = vec![torture::build_command(), cargo(&[&CONTROLS[..], &["--no-run"]].concat())];
    builds.extend(whole.then(instructions::build_command));
    builds.extend(whole.then(sharing::build_command));
    builds.extend(whole.then(fuzz::build_command));
    builds
}

fn foreign(options: &Options, idle_no_more: impl FnOnce()) -> Result<Counts> {
    let options = foreign::suite::Options {
        target: Target::Frevo,
        filter: options.filter.clone(),
        quick: options.quick,
        python: setup::python(),
        tools: None,
    };
    foreign::suite::run(&options, idle_no_more)
}

/// Runs the cases that need Samba as the server: its own counters of a replayed run, and a Kerberos realm.
fn client_against_samba() -> Result<Counts> {
    setup::run(setup::Set::Samba)?;
    let mut counts = Counts::default();
    for filter in ["netbench", "kerberos"] {
        let options = foreign::suite::Options {
            target: Target::Samba,
            filter: Some(filter.into()),
            quick: true,
            python: setup::python(),
            tools: None,
        };
        counts.add(foreign::suite::run(&options, || ())?);
    }
    Ok(counts)
}

/// Returns options with all torture tests of a list, or those that match the filter.
fn torture_options(options: &Options, list: &str) -> torture::Options {
    torture::Options {
        target: Target::Frevo,
        tests: list.into(),
        fs: None,
        filter: options.filter.iter().map(|filter| format!("*{filter}*")).collect(),
        jobs: torture::JOBS,
        out: None,
        timeout: torture::TIMEOUT,
        volume: None,
        repeat: 1,
        quick: options.quick,
        update: false,
    }
}
