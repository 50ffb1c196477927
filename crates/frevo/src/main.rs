//! `frevo`, the program: the command line, and nothing else. Its parts are the library beside it.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    frevo::cli::run(frevo::cli::Cli::parse())
}
