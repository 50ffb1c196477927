//! The server as smbtorture tests it: `frevo` with the controls by which the tests have a server misbehave. A program of
//! its own, so that nobody takes it for the other.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    frevo::cli::run(frevo::cli::Cli::parse())
}
