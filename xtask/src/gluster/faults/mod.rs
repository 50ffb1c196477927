//! `cargo xtask gluster faults`: what clients of Frevo see while parts of GlusterFS fail.
//!
//! Each case has servers of its own. It runs in their namespaces in another process of this program, which starts Frevo
//! there, does damage, and compares the answers to a client with what the FUSE mount and the bricks show. A case prints
//! what it measured. Times depend on the machine, so only generous limits are asserted.

mod bricks;
mod client;
mod crash;
mod daemons;
mod fixture;
mod library;
mod load;
mod others;
mod storage;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use test_environment::Counts;

use super::servers::{ServersOfRun, finish};
use super::{BrickFileSystem, Volume, Wanted};
use crate::steps::{self, Step};

/// Options of `cargo xtask gluster faults`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run only cases whose name contains this word; a whole name runs that case alone
    filter: Option<String>,
    /// Only print the names of the cases
    #[arg(long)]
    list: bool,
    /// Number of rounds of cases that repeat a crash
    #[arg(long, default_value_t = 20)]
    rounds: u32,
}

/// Options of the process in the namespaces.
#[derive(clap::Args)]
pub(crate) struct Inside {
    name: String,
    #[arg(long)]
    rounds: u32,
}

/// A case.
struct Case {
    name: &'static str,
    /// The volumes that its servers have.
    volumes: &'static [&'static str],
    bricks_fs: BrickFileSystem,
    /// The source of a library that all programs of the case load first.
    preloads: Option<&'static str>,
    run: fn(&Given<'_>) -> Result<()>,
}

impl Case {
    const fn new(name: &'static str, volumes: &'static [&'static str], run: fn(&Given<'_>) -> Result<()>) -> Case {
        Case { name, volumes, bricks_fs: BrickFileSystem::Xfs, preloads: None, run }
    }
}

/// What a case is given.
struct Given<'a> {
    /// The directory of the GlusterFS servers.
    dir: &'a Path,
    /// How often a crash is repeated.
    rounds: u32,
}

/// Returns all cases.
fn cases() -> impl Iterator<Item = &'static Case> {
    [bricks::CASES, daemons::CASES, crash::CASES, storage::CASES, others::CASES, library::CASES].into_iter().flatten()
}

/// Returns the cases that are selected.
fn selected(filter: Option<&str>) -> Vec<&'static Case> {
    let whole: Vec<_> = cases().filter(|case| Some(case.name) == filter).collect();
    let has_word = |case: &&Case| filter.is_none_or(|word| case.name.contains(word));
    if whole.is_empty() { cases().filter(has_word).collect() } else { whole }
}

/// Runs the selected cases, each on servers that are started for it.
pub(super) fn run(options: &Options) -> Result<Counts> {
    let cases = selected(options.filter.as_deref());
    ensure!(!cases.is_empty(), "no case has this word in its name; --list prints the names");
    if options.list {
        cases.iter().for_each(|case| println!("{}", case.name));
        return Ok(Counts::default());
    }
    let steps = cases.into_iter().map(|case| {
        let repeat = format!("cargo xtask gluster faults {}", case.name);
        Step::new(case.name, repeat, || on_servers(case, options.rounds))
    });
    steps::run(steps.collect())
}

/// Starts servers and runs the case in their namespaces.
fn on_servers(case: &Case, rounds: u32) -> Result<Counts> {
    let volumes = case.volumes.iter().map(|name| name.parse::<Volume>()).collect::<Result<_>>()?;
    let servers = ServersOfRun::start(&Wanted { volumes, bricks_fs: case.bricks_fs })?;
    let mut command = servers.command(super::own_program()?);
    command.args(["gluster", "--dir"]).arg(servers.dir());
    command.args(["fault", case.name, "--rounds", &rounds.to_string()]);
    if let Some(source) = case.preloads {
        command.env("LD_PRELOAD", library::compile(servers.dir(), "preloaded", source)?);
    }
    Ok(match finish(&mut command)? {
        status if status.success() => Counts::passed(1),
        status => Counts::failed(format!("{status}")),
    })
}

/// Runs a case in the namespaces. `dir` is the directory of the GlusterFS servers.
pub(super) fn inside(dir: &Path, options: &Inside) -> Result<()> {
    let case = cases().find(|case| case.name == options.name).context("no case has this name")?;
    (case.run)(&Given { dir, rounds: options.rounds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_has_a_name_of_its_own_and_volumes_that_exist() {
        let mut names: Vec<_> = cases().map(|case| case.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for case in cases() {
            assert!(case.volumes.iter().all(|name| name.parse::<Volume>().is_ok()), "{}", case.name);
        }
    }

    #[test]
    fn a_whole_name_selects_one_case() {
        for case in cases() {
            let names: Vec<_> = selected(Some(case.name)).iter().map(|case| case.name).collect();
            assert_eq!(names, [case.name]);
        }
        assert!(selected(Some("no such case")).is_empty());
        assert_eq!(selected(None).len(), cases().count());
    }
}
