//! `frevo acl`: the access control lists of files, as Windows sees them and as they are stored.
//!
//! Exit status: 0 done, 1 refused or failed, 2 wrong usage.

pub(crate) mod calibrate;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Works on the access control lists of files
#[derive(Args, Debug)]
pub struct AclArgs {
    #[command(subcommand)]
    command: AclCommand,
}

#[derive(Subcommand, Debug)]
enum AclCommand {
    Calibrate(calibrate::CalibrateArgs),
}

/// Runs the command.
pub fn run(args: AclArgs) -> Result<ExitCode> {
    match args.command {
        AclCommand::Calibrate(args) => calibrate::run(&args),
    }
}
