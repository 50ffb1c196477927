//! `frevo bench`: runs the program `frevo-bench`, so that the server's program does not contain the load generator.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

/// The program's name.
const PROGRAM: &str = "frevo-bench";

/// Measure any SMB server and draw the results (runs the program frevo-bench)
#[derive(Args, Debug)]
#[command(disable_help_flag = true, disable_version_flag = true)]
pub struct BenchArgs {
    /// Arguments of frevo-bench
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Replaces this process by `frevo-bench`: the one in the directory of this program, else the one in `PATH`. Input,
/// output, signals and exit status are therefore those of `frevo-bench`.
///
/// # Errors
///
/// There is no such program, or it cannot be started.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let program = program()?;
    // Returns only if the program cannot be started.
    let error = Command::new(&program).args(&args.arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

/// Returns the path of `frevo-bench`.
///
/// # Errors
///
/// There is no such program.
pub(crate) fn program() -> Result<PathBuf> {
    let beside = std::env::current_exe().map(|own| own.with_file_name(PROGRAM)).unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(beside.clone()).chain(std::env::split_paths(&path).map(|place| place.join(PROGRAM)));
    let found = all.into_iter().find(|path| path.is_absolute() && path.is_file());
    found.with_context(|| {
        format!(
            "{PROGRAM} is not installed: {} and PATH do not have it; build it with `cargo build --release -p bench` in \
             Frevo's source, and copy target/release/{PROGRAM} there",
            beside.parent().unwrap_or(Path::new("the directory of frevo")).display()
        )
    })
}
