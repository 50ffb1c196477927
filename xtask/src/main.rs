//! The project's own commands: `cargo xtask check`, `test`, `setup`, `torture`, `compare` and others. This file defines
//! them.

mod compare;
mod expected;
mod fuzz;
mod gluster;
mod guest;
mod hostile;
mod instructions;
mod package;
mod setup;
mod sharing;
mod source;
mod steps;
mod test;
mod torture;
mod unit_tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use test_environment::{Counts, Target, interrupt};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own commands", max_term_width = 120)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check formatting and lints and run unit tests: required for each commit
    Check,
    /// Verify the rules about the source: layers, unsafe code, limits, width, length, wording
    Source,
    /// Run everything: check, the release build, foreign programs, smbtorture, attacks, all experiments, brief fuzzing
    Test(test::Options),
    /// Build the Debian package, the rpm package and the container image, or test the first
    Package(package::Options),
    /// Install the programs that the tests need (as root), or list what is missing
    Setup {
        /// Purpose: tests of frevo or samba, compare, package, gluster, or guest
        #[arg(long, default_value = "frevo")]
        target: setup::Set,
    },
    /// Run foreign programs (smbclient, rpcclient, impacket, smbprotocol, rclone, smbj, libsmb2) against a server
    Foreign(Foreign),
    /// Measure Frevo and Samba alternately with frevo-bench
    Compare(compare::Options),
    /// Build Frevo in several ways (LTO, processors, PGO, allocators), and measure the servers alternately, as root
    BenchBuilds(compare::builds::Options),
    /// Measure how long rclone takes to copy files to Frevo and to Samba and back, as root
    Rclone(compare::rclone::Options),
    /// Measure how password guessing affects valid logons, on a running server
    Guess(::hostile::guess::Options),
    /// One client of the case hammer.crowd, in its own process
    #[command(hide = true)]
    Hammer(foreign::hammer::Options),
    /// Run attacks on a server, and measure their effect on another client
    #[command(after_help = hostile::RESULTS)]
    Hostile(hostile::Options),
    /// Run the fuzz targets, each for a limited time
    Fuzz(fuzz::Options),
    /// Count the instructions of some operations with valgrind, and compare them with budgets
    Instructions(instructions::Options),
    /// Count the cache lines that requests of two clients share, with valgrind, and compare them with budgets
    Sharing,
    /// Start GlusterFS servers in their own namespaces, as root, and run tests on them
    Gluster(gluster::Options),
    /// Run scripts in a virtual machine with Debian's kernel: its cifs client, file systems with quotas, as root
    Guest(guest::Options),
    /// Run Samba's smbtorture against a server, and compare the results with expected-failures/
    #[command(after_help = torture::RESULTS)]
    Torture(torture::Options),
}

#[derive(clap::Args)]
struct Foreign {
    /// Run only cases whose name contains this word
    filter: Option<String>,
    /// Server to test: frevo (target/release/frevo) or samba (Debian's smbd)
    #[arg(long, default_value = "frevo")]
    target: Target,
    /// Skip cases that take minutes
    #[arg(long)]
    quick: bool,
    /// Only print the names of the cases
    #[arg(long)]
    list: bool,
}

/// Returns the workspace's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn main() -> ExitCode {
    interrupt::watch();
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if interrupt::interrupted() { 130 } else { 2 })
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Check => Ok(last_line(&test::check()?)),
        Command::Source => Ok(end(source::check()?)),
        Command::Test(options) => {
            setup(Target::Frevo);
            Ok(last_line(&test::all(&options)?))
        }
        Command::Compare(options) => Ok(end(compare::run(&options)?)),
        Command::BenchBuilds(options) => Ok(end(compare::builds::run(&options)?)),
        Command::Rclone(options) => Ok(end(compare::rclone::run(&options)?)),
        Command::Guess(options) => {
            ::hostile::guess::run(&options)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Hammer(options) => {
            foreign::hammer::run(&options)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Hostile(options) if options.list => {
            hostile::list();
            Ok(ExitCode::SUCCESS)
        }
        Command::Hostile(options) => {
            if options.target == Target::Samba {
                setup(Target::Samba);
            }
            Ok(end(hostile::run(&options)?))
        }
        Command::Package(options) if options.check => {
            setup(setup::Set::Package);
            Ok(end(package::service::check()?))
        }
        Command::Package(options) => {
            package::run(&options)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Fuzz(options) => Ok(end(fuzz::run(&options)?)),
        Command::Instructions(options) => Ok(end(instructions::run(&options)?)),
        Command::Sharing => Ok(end(sharing::run()?)),
        Command::Gluster(options) => gluster::run(&options),
        Command::Setup { target } => {
            setup(target);
            Ok(ExitCode::SUCCESS)
        }
        Command::Foreign(options) if options.list => {
            foreign::suite::names().for_each(|name| println!("{name}"));
            Ok(ExitCode::SUCCESS)
        }
        Command::Foreign(Foreign { filter, target, quick, .. }) => {
            setup(target);
            let wanted = filter.as_ref().is_none_or(|word| foreign::suite::needs_tools(word));
            let tools = if wanted { Some(setup::client_libraries()?) } else { None };
            let python = setup::python();
            let options = foreign::suite::Options { target, filter, quick, python, tools };
            Ok(end(foreign::suite::run(&options, || ())?))
        }
        Command::Guest(options) if options.list => {
            guest::names()?.iter().for_each(|name| println!("{name}"));
            Ok(ExitCode::SUCCESS)
        }
        Command::Guest(options) => {
            setup(setup::Set::Guest);
            Ok(end(guest::run(&options)?))
        }
        Command::Torture(options) => {
            // The servers of a volume are in a network of their own, where nothing can be installed.
            if options.volume.is_none() {
                setup(options.target);
            }
            Ok(end(torture::run(&options)?))
        }
    }
}

/// Prints which tests failed and how to repeat each alone, and then the last line. Returns the exit status.
fn end(counts: Counts) -> ExitCode {
    counts.failed.iter().for_each(|failure| println!("FAILED {failure}"));
    last_line(&counts)
}

/// Prints the last line of a run and returns its exit status.
fn last_line(Counts { passed, failed }: &Counts) -> ExitCode {
    println!("{passed} passed, {} failed", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Installs what the tests need. Exits if that fails, because nothing else would work.
fn setup(set: impl Into<setup::Set>) {
    if let Err(error) = setup::run(set.into()) {
        eprintln!("{error:#}");
        std::process::exit(1);
    }
}
