//! The command line: the subcommands and the functions that run them.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::acl::{self, AclArgs};
use crate::bench::{self, BenchArgs};
use crate::check::{self, CheckArgs};
use crate::close::{self, CloseArgs};
use crate::console::{self, ConsoleArgs, VerifyArgs};
use crate::group::{self, GroupArgs};
use crate::help::{self, HelpArgs};
use crate::join::{self, JoinArgs};
use crate::manual::{self, CompletionsArgs, ManArgs};
use crate::migrate::{self, MigrateArgs};
use crate::reload::{self, ReloadArgs};
use crate::serve::{self, ServeArgs};
use crate::share::{self, ShareArgs};
use crate::snapshot::{self, SnapshotArgs};
use crate::status::{self, StatusArgs};
use crate::tune::{self, TuneArgs};
use crate::user::{self, UserArgs};
use crate::version;

/// A file server for SMB 2 and 3
#[derive(Parser, Debug)]
#[command(name = "frevo", version = version::LONG, propagate_version = true)]
#[command(subcommand_required = true, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Serve(ServeArgs),
    Check(CheckArgs),
    User(UserArgs),
    Group(GroupArgs),
    Share(ShareArgs),
    Join(JoinArgs),
    Migrate(MigrateArgs),
    Status(StatusArgs),
    Close(CloseArgs),
    Reload(ReloadArgs),
    Console(ConsoleArgs),
    Acl(AclArgs),
    Snapshot(SnapshotArgs),
    Tune(TuneArgs),
    Bench(BenchArgs),
    Help(HelpArgs),
    #[command(hide = true, name = "verify-password")]
    VerifyPassword(VerifyArgs),
    #[command(hide = true)]
    Man(ManArgs),
    #[command(hide = true)]
    Completions(CompletionsArgs),
}

/// Parses the command line of this process. A wrong one ends the process.
pub fn parse() -> Cli {
    Cli::parse_from(help::moved_to_front(std::env::args_os().collect(), &Cli::command()))
}

/// Runs the command of `cli`. An error is printed to standard error and results in exit status 1.
pub fn run(cli: Cli) -> ExitCode {
    let done = match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Check(args) => check::run(&args),
        Command::User(args) => user::run(args),
        Command::Group(args) => group::run(args),
        Command::Share(args) => share::run(args),
        Command::Join(args) => join::run(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Close(args) => close::run(args),
        Command::Reload(args) => reload::run(&args),
        Command::Console(args) => console::run(args),
        Command::VerifyPassword(args) => console::verify(&args),
        Command::Acl(args) => acl::run(args),
        Command::Snapshot(args) => snapshot::run(args),
        Command::Tune(args) => tune::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Help(args) => help::run(&args, Cli::command()),
        Command::Man(args) => manual::run(&args, Cli::command()),
        Command::Completions(args) => manual::complete(&args, Cli::command()),
    };
    done.unwrap_or_else(|error| {
        eprintln!("frevo: {error:#}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
