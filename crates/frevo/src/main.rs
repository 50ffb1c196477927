//! The program `frevo`: only the command line. Everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    frevo::cli::run(frevo::cli::parse())
}
