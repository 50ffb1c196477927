//! `frevo reload`: has a running server read its configuration again, and shows the result.
//!
//! Exit status: 0 the configuration is in force, and shares with errors are named; 1 it has errors in `[global]`, so
//! that the previous one is in force, or no server runs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use smbconf::location::locate;

use crate::admin::Client;
use crate::admin::message::ServerRequest;
use accounts::state_dir::StateDir;

/// Has the running server read its configuration again, like SIGHUP, and shows the result
#[derive(clap::Args, Debug)]
pub struct ReloadArgs {
    /// State directory of the server
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Configuration file that specifies the state directory if --state-dir is not given
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &ReloadArgs) -> Result<ExitCode> {
    let path = locate(args.state_dir.as_deref(), args.config.as_deref())?;
    let client = StateDir::open(&path)?.map(|state| Client::connect(&state)).transpose()?.flatten();
    let Some(mut client) = client else { bail!("no server runs with the state directory {}", path.display()) };
    let result: String = client.ask(&ServerRequest::Reload {})?;
    println!("{result}");
    Ok(ExitCode::SUCCESS)
}
