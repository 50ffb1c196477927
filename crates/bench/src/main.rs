//! The program `frevo-bench`: only the command line. Everything else is in the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    bench::cli::run(bench::cli::Cli::parse())
}
