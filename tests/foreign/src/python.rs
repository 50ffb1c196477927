//! The Python scripts in `tests/foreign/python`, each of which is a client that ends with status 0 on success.
//!
//! A script that pauses prints a word on a separate line and reads a line before it continues.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::fixture::Fixture;
use test_environment::ALICE;

/// A running script.
pub(crate) struct Script {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Fixture {
    pub(crate) fn script_command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.python);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(name)).args(arguments);
        command.env("SERVER_PORT", self.server.port().to_string());
        command.env("SERVER_USER", ALICE.name).env("SERVER_PASSWORD", ALICE.password);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Runs a script to its end, and returns its output.
    pub(crate) fn script(&self, name: &str, arguments: &[&str]) -> Result<String> {
        let output = self.script_command(name, arguments).stdin(Stdio::null()).output();
        let output = output.context("cannot start Python")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "{name}: {}\n{text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(text)
    }

    /// Starts a script that pauses.
    pub(crate) fn start_script(&self, name: &str, arguments: &[&str]) -> Result<Script> {
        Script::start(self.script_command(name, arguments))
    }
}

impl Script {
    /// Starts the command of a script that pauses.
    pub(crate) fn start(mut command: Command) -> Result<Script> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start Python")?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Script { child, input, output })
    }

    /// Waits until the script prints this word.
    pub(crate) fn wait_for(&mut self, word: &str) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(line.trim() == word, "the script should print {word:?} but printed {line:?}");
        Ok(())
    }

    /// Sends the script a line.
    pub(crate) fn send(&mut self, line: &str) -> Result<()> {
        Ok(writeln!(self.input, "{line}")?)
    }

    /// Lets the script continue.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        Ok(self.input.write_all(b"\n")?)
    }

    /// Waits for the script's end, which must be successful.
    pub(crate) fn end(mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "the script ended with {status}");
        Ok(())
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
