//! `frevo acl`: the access control lists of files, as Windows shows them and as they are stored.
//!
//! Exit status: 0 success, 1 refused or failed, 2 wrong usage.

pub(crate) mod calibrate;
mod convert;
mod diff;
pub(crate) mod files;
mod names;
pub(crate) mod place;
mod set;
mod share;
mod show;
mod words;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

/// Shows and changes the access control lists of files
#[derive(Args, Debug)]
pub struct AclArgs {
    #[command(subcommand)]
    command: AclCommand,
}

#[derive(Subcommand, Debug)]
enum AclCommand {
    Calibrate(calibrate::CalibrateArgs),
    Show(show::ShowArgs),
    Set(set::SetArgs),
    Diff(diff::DiffArgs),
    Convert(convert::ConvertArgs),
    Share(share::ShareArgs),
}

/// Runs the command.
pub fn run(args: AclArgs) -> Result<ExitCode> {
    match args.command {
        AclCommand::Share(args) => share::run(args),
        AclCommand::Calibrate(args) => calibrate::run(&args),
        AclCommand::Show(args) => run_to_end(show::run(args)),
        AclCommand::Set(args) => run_to_end(set::run(args)),
        AclCommand::Diff(args) => run_to_end(diff::run(args)),
        AclCommand::Convert(args) => {
            convert::step_back();
            run_to_end(convert::run(args))
        }
    }
}

/// Sets `stop` on SIGINT or SIGTERM.
async fn stop_at_signals(stop: Arc<AtomicBool>) {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    stop.store(true, Ordering::Relaxed);
}

/// Runs `command` on this thread. Another thread handles signals.
fn run_to_end(command: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.context("cannot start threads")?.block_on(command)
}
