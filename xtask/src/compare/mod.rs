//! `cargo xtask compare`: Frevo and Debian's Samba side by side on this machine, on one file system, with the same shares
//! and accounts, for `frevo bench` to measure in turns.

mod hold;
mod pair;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use pair::Pair;

/// Options of the command.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only start both, say where they are, and wait for Ctrl-C
    #[arg(long, required = true)]
    hold: bool,
    /// Less of everything: to see that it works
    #[arg(long)]
    quick: bool,
    /// Directory on the file system to measure on [default: $TMPDIR or /var/tmp]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Accounts u00001, u00002, ... on both servers [default: 100, with --quick 20]
    #[arg(long)]
    users: Option<u32>,
}

impl Options {
    fn users(&self) -> u32 {
        self.users.unwrap_or(if self.quick { 20 } else { 100 })
    }

    fn dir(&self) -> PathBuf {
        let default = || std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        self.dir.clone().unwrap_or_else(default)
    }
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut pair = Pair::start(&options.dir(), options.users())?;
    if options.hold {
        hold::hold(&mut pair)?;
    }
    Ok(ExitCode::SUCCESS)
}
