//! The load generator `bare`, which says each step of its work and waits until this program has counted operations or
//! emptied caches.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use test_environment::{ALICE, interrupt};

use super::bench::Subject;

/// A step that the load generator is about to do, or has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The subject has no connections. Its caches are to be emptied.
    Renew,
    /// The phase begins.
    Begin,
    /// The phase has ended.
    End,
    /// The directories of the turn are removed.
    Removed,
}

/// What the load generator says.
pub(super) struct Said<'a> {
    pub(super) step: Step,
    /// The name of the phase, or [`TREE`].
    pub(super) phase: &'a str,
    /// The number of the turn; 0 is the warm-up.
    pub(super) round: u32,
    pub(super) subject: Subject,
}

/// The name of the phases in which the directories of the files are created and removed.
pub(super) const TREE: &str = "tree";

/// Returns a command that runs `program`, the load generator, in the directory `share` of a volume as alice. `dir` is
/// the directory of the GlusterFS servers.
pub(super) fn command(program: &Path, dir: &Path, volume: &str, share: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["--server", "127.0.0.1", "--volume", volume, "--path", share, "--steps"]);
    command.arg("--user").arg(ALICE.id.to_string()).arg("--log").arg(dir.join("log/bare.log"));
    command
}

/// Returns the option that has the server of a subject take turns.
pub(super) fn in_turns(subject: Subject, address: SocketAddr, share: &str) -> [String; 2] {
    let (user, password) = (ALICE.name, ALICE.password);
    ["--smb".to_owned(), format!("{}=smb://{user}:{password}@{address}/{share}", subject.name())]
}

/// Runs the load generator to its end, and calls `accompany` at each step.
pub(super) fn run(mut command: Command, mut accompany: impl FnMut(&Said<'_>) -> Result<()>) -> Result<()> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut load = Load(child.with_context(|| format!("cannot start {}", command.get_program().display()))?);
    let (stdin, stdout) = (load.0.stdin.take(), load.0.stdout.take());
    let (mut stdin, stdout) = stdin.zip(stdout).context("the load generator has no pipes")?;
    for line in BufReader::new(stdout).lines() {
        interrupt::check()?;
        let line = line?;
        let Some(said) = read(&line).with_context(|| format!("an unknown step: {line}"))? else { continue };
        accompany(&said).with_context(|| line.clone())?;
        writeln!(stdin)?;
    }
    let status = load.0.wait()?;
    ensure!(status.success(), "the load generator ended with {status}");
    Ok(())
}

/// Reads a line of the load generator. Other lines than steps are tables for people.
fn read(line: &str) -> Result<Option<Said<'_>>> {
    let words: Vec<_> = line.split_whitespace().collect();
    let ["step", step, phase, round, party] = words[..] else { return Ok(None) };
    let step = match step {
        "renew" => Step::Renew,
        "begin" => Step::Begin,
        "end" => Step::End,
        "removed" => Step::Removed,
        _ => anyhow::bail!("{step} is not a step"),
    };
    let subject = Subject::named(party).with_context(|| format!("{party} is not a subject"))?;
    Ok(Some(Said { step, phase, round: round.parse()?, subject }))
}

/// The load generator's process, which ends with this value.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
