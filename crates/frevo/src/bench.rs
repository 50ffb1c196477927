//! `frevo bench`: runs the program `frevo-bench`, so that the server's program does not contain the load generator.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
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
    let beside = std::env::current_exe().map(|own| own.with_file_name(PROGRAM)).unwrap_or_default();
    let program = if beside.is_file() { beside.clone() } else { PathBuf::from(PROGRAM) };
    // Returns only if the program cannot be started. A name without a slash is looked up in `PATH`.
    let error = Command::new(&program).args(&args.arguments).exec();
    if error.kind() == std::io::ErrorKind::NotFound && program == Path::new(PROGRAM) {
        bail!(
            "{PROGRAM} is not installed: {} and PATH do not have it; build it with `cargo build --release -p bench` in \
             Frevo's source, and copy target/release/{PROGRAM} there",
            beside.parent().unwrap_or(Path::new("the directory of frevo")).display()
        );
    }
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
