//! The help for `frevo serve` without anything to serve.

use std::process::ExitCode;

use clap::{Args, Command};

use super::ServeArgs;

/// Shows how `frevo serve` is used. Returns the exit status of wrong usage.
pub(super) fn nothing_to_serve() -> ExitCode {
    let help = ServeArgs::augment_args(Command::new("frevo serve")).render_help();
    eprintln!(
        "frevo: there is no configuration, neither /etc/frevo/smb.conf nor /etc/samba/smb.conf; specify a directory to \
         share (frevo serve DIR), --share NAME=PATH or -c FILE\n\n{help}"
    );
    ExitCode::from(2)
}
