//! Samba's client programs, for use in cases.

use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};

use crate::fixture::Fixture;
use test_environment::{ALICE, Person, Server};

/// A call of smbclient: server, share, credentials and options.
pub(crate) struct Smbclient<'a> {
    fixture: &'a Fixture,
    server: &'a Server,
    share: &'a str,
    credentials: String,
    options: Vec<String>,
}

/// The output of a program, including errors, and whether it succeeded.
pub(crate) struct ProgramOutput {
    pub(crate) text: String,
    pub(crate) success: bool,
}

impl ProgramOutput {
    fn new(output: Output) -> ProgramOutput {
        let text = [output.stdout, output.stderr].concat();
        ProgramOutput { text: String::from_utf8_lossy(&text).into_owned(), success: output.status.success() }
    }

    /// Checks that it succeeded without any NTSTATUS error. Returns the output.
    pub(crate) fn fine(self) -> Result<String> {
        ensure!(self.success && !self.text.contains("NT_STATUS_"), "expected success, got:\n{}", self.text);
        Ok(self.text)
    }

    /// Checks that the output contains this status.
    pub(crate) fn refused_with(self, status: &str) -> Result<()> {
        ensure!(self.text.contains(status), "expected {status}, got:\n{}", self.text);
        Ok(())
    }

    /// Checks that it succeeded and that the output contains this text.
    pub(crate) fn says(self, what: &str) -> Result<()> {
        let text = self.fine()?;
        ensure!(text.contains(what), "expected {what:?}, got:\n{text}");
        Ok(())
    }
}

impl Fixture {
    /// Prepares smbclient as alice on the share `files`.
    pub(crate) fn smbclient(&self) -> Smbclient<'_> {
        let credentials = ALICE.credentials();
        Smbclient { fixture: self, server: &self.server, share: "files", credentials, options: Vec::new() }
    }

    /// Runs rpcclient as alice.
    pub(crate) fn rpcclient(&self, commands: &str) -> Result<ProgramOutput> {
        let mut command = self.program("rpcclient", &self.server, &ALICE.credentials());
        let output = command.args(["127.0.0.1", "-c", commands]).output().context("cannot start rpcclient")?;
        Ok(ProgramOutput::new(output))
    }

    /// Returns the command of one of Samba's programs for the server, with these credentials.
    pub(crate) fn program(&self, name: &str, server: &Server, credentials: &str) -> Command {
        let mut command = Command::new(name);
        command.arg("-s").arg(self.environment.dir().join("client/smb.conf"));
        command.args(["-p", &server.port().to_string(), "-U", credentials]).stdin(Stdio::null());
        command
    }
}

impl<'a> Smbclient<'a> {
    pub(crate) fn share(mut self, share: &'a str) -> Self {
        self.share = share;
        self
    }

    pub(crate) fn user(mut self, person: &Person) -> Self {
        self.credentials = person.credentials();
        self
    }

    pub(crate) fn credentials(mut self, credentials: &str) -> Self {
        self.credentials = credentials.to_owned();
        self
    }

    pub(crate) fn server(mut self, server: &'a Server) -> Self {
        self.server = server;
        self
    }

    pub(crate) fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|option| (*option).to_owned()));
        self
    }

    /// Restricts the call to exactly this dialect, with smbclient's name for it.
    pub(crate) fn dialect(self, dialect: &str) -> Self {
        let minimum = format!("--option=client min protocol={dialect}");
        self.options(&["-m", dialect, &minimum])
    }

    /// Returns the command line that runs `commands`, separated by semicolons.
    pub(crate) fn command(&self, commands: &str) -> Command {
        let mut command = self.fixture.program("smbclient", self.server, &self.credentials);
        command.args(&self.options).arg(format!("//127.0.0.1/{}", self.share)).args(["-c", commands]);
        command
    }

    /// Returns the command line that reads commands from its standard input, and stays connected.
    pub(crate) fn interactive(&self) -> Command {
        let mut command = self.fixture.program("smbclient", self.server, &self.credentials);
        command.args(&self.options).arg(format!("//127.0.0.1/{}", self.share)).stdin(Stdio::piped());
        command
    }

    /// Runs the commands to their end.
    pub(crate) fn run(self, commands: &str) -> Result<ProgramOutput> {
        Ok(ProgramOutput::new(self.command(commands).output().context("cannot start smbclient")?))
    }

    /// Runs `smbclient -L`, which lists the shares.
    pub(crate) fn list_shares(self) -> Result<ProgramOutput> {
        let mut command = self.fixture.program("smbclient", self.server, &self.credentials);
        let output = command.args(&self.options).args(["-L", "127.0.0.1"]).output();
        Ok(ProgramOutput::new(output.context("cannot start smbclient")?))
    }
}
