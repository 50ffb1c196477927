//! `frevo serve DIR` without any configuration: its output is sufficient to connect.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::ALICE;

pub(super) const CASES: &[Case] = &[
    Case::new("first_run.serve_a_directory", serve_a_directory).frevo_only(),
    Case::new("first_run.without_root", without_root).needs_root().frevo_only(),
];

/// A running `frevo serve` on a directory, and the file with its output.
struct Started {
    child: Child,
    printed: PathBuf,
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Started {
    /// Starts the server. `command` runs the program given by its following arguments.
    fn start(fixture: &Fixture, mut command: Command, dir: &Path, state: &Path) -> Result<Started> {
        let printed = fixture.local("first run output")?.join("printed");
        command.arg(test_environment::frevo()).arg("serve").arg(dir).args([
            "--port",
            "0",
            "--bind",
            "127.0.0.1",
            "--state-dir",
        ]);
        command.arg(state).stdin(Stdio::null()).stdout(File::create(&printed)?);
        command.stderr(File::options().append(true).open(&printed)?);
        let child = fixture.environment.people().enter(&mut command).spawn().context("cannot start frevo")?;
        Ok(Started { child, printed })
    }

    /// Waits for a line of the welcome text that begins with this word, and returns the rest of the line.
    fn line(&mut self, word: &str) -> Result<String> {
        let end = Instant::now() + Duration::from_secs(15);
        loop {
            let text = self.text()?;
            // The last line of the welcome text is there, and so are all others.
            let found = text.lines().find_map(|line| line.trim().strip_prefix(word));
            if let Some(rest) = found.filter(|_| text.contains("More accounts:")) {
                return Ok(rest.trim().to_owned());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("frevo ended with {status}:\n{text}");
            }
            ensure!(Instant::now() < end, "no line {word:?} in\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn text(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.printed)?)
    }

    /// Runs the printed line in a shell, with the password where smbclient looks for it.
    fn paste(&mut self, fixture: &Fixture, password: &str, commands: &str) -> Result<String> {
        let line = self.line("smbclient")?;
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{line} -s \"$CONF\" -c \"$COMMANDS\"")]).stdin(Stdio::null());
        shell.env("PASSWD", password).env("COMMANDS", commands);
        shell.env("CONF", fixture.environment.dir().join("client/smb.conf"));
        let output = shell.output().context("cannot start a shell")?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        ensure!(output.status.success() && !said.contains("NT_STATUS_"), "{line}:\n{said}");
        Ok(said)
    }

    fn password(&mut self) -> Result<String> {
        let line = self.line("Password")?;
        Ok(line.split_whitespace().next().unwrap_or_default().to_owned())
    }
}

fn serve_a_directory(fixture: &mut Fixture) -> Result<()> {
    let dir = fixture.environment.make_dir("data/my files", &ALICE, 0o777)?;
    fs::write(dir.join("greeting"), "welcome")?;
    let state = fixture.local("first state")?;
    let start = || Started::start(fixture, Command::new("env"), &dir, &state);
    let mut first = start()?;
    let password = first.password()?;
    ensure!(first.paste(fixture, &password, "get greeting -")?.contains("welcome"), "the file is not readable");
    ensure!(first.paste(fixture, "wrong", "ls").is_err(), "a wrong password is accepted");
    drop(first);
    // On the second start the account exists. Its password is not shown again but still works.
    let mut second = start()?;
    ensure!(second.line("Password")?.starts_with("the one you have"), "{}", second.text()?);
    second.paste(fixture, &password, "ls greeting")?;
    Ok(())
}

/// Without root, alice's files belong to her, and files that she may not read remain unreadable.
fn without_root(fixture: &mut Fixture) -> Result<()> {
    let dir = fixture.environment.make_dir("data/hers", &ALICE, 0o700)?;
    let state = fixture.local("her state")?;
    fixture.environment.people().give(&state, &ALICE)?;
    let root_only = dir.join("root only");
    fs::write(&root_only, "nobody else")?;
    fs::set_permissions(&root_only, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let mut command = Command::new("setpriv");
    let id = ALICE.id;
    command.args([format!("--reuid={id}"), format!("--regid={id}"), "--clear-groups".into()]);
    let mut server = Started::start(fixture, command, &dir, &state)?;
    let password = server.password()?;
    let said = server.text()?;
    ensure!(said.contains("Not running as root") && said.contains(ALICE.name), "{said}");
    server.paste(fixture, &password, "mkdir made; ls")?;
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(dir.join("made"))?);
    ensure!(owner == ALICE.id, "alice's directory belongs to {owner}");
    let refused =
        server.paste(fixture, &password, "get \"root only\" -").err().context("alice reads a file of root")?;
    ensure!(refused.to_string().contains("NT_STATUS_ACCESS_DENIED"), "{refused}");
    Ok(())
}
