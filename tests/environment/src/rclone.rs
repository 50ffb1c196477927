//! rclone with one remote, the server under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::ALICE;

/// The settings of rclone for one server.
pub struct Rclone {
    port: u16,
    /// alice's password in the format of rclone's configuration.
    password: String,
    conf: PathBuf,
    cache: PathBuf,
}

impl Rclone {
    /// The name of the remote, which is followed by `:SHARE/PATH`.
    pub const REMOTE: &'static str = "bed";

    /// Creates the settings for a server on this port of 127.0.0.1. rclone's own files are below `dir`.
    pub fn new(dir: &Path, port: u16) -> Result<Rclone> {
        let output = Command::new("rclone").args(["obscure", ALICE.password]).output();
        let output = output.context("cannot start rclone; install it with cargo xtask setup")?;
        ensure!(output.status.success(), "rclone obscure: {}", String::from_utf8_lossy(&output.stderr));
        let conf = dir.join("rclone.conf");
        fs::write(&conf, "").with_context(|| format!("cannot write {}", conf.display()))?;
        let password = String::from_utf8(output.stdout)?.trim().to_owned();
        Ok(Rclone { port, password, conf, cache: dir.join("rclone-cache") })
    }

    /// Returns the command with these arguments. The remote is defined in its environment; the user's own configuration
    /// is not read.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("rclone");
        command.args(arguments).env("RCLONE_CONFIG", &self.conf).env("RCLONE_CACHE_DIR", &self.cache);
        let parameters = [
            ("TYPE", "smb"),
            ("HOST", "127.0.0.1"),
            ("PORT", &self.port.to_string()),
            ("USER", ALICE.name),
            ("PASS", &self.password),
        ];
        for (name, value) in parameters {
            command.env(format!("RCLONE_CONFIG_{}_{name}", Self::REMOTE.to_uppercase()), value);
        }
        // Failures are reported and not retried.
        command.env("RCLONE_RETRIES", "1").env("RCLONE_LOW_LEVEL_RETRIES", "1");
        command
    }
}
