//! The server for smbtorture: `frevo` with the controls that let the tests make a server misbehave. It is a separate
//! program so that it is never used as the real server.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    frevo::cli::run(frevo::cli::Cli::parse())
}
