//! Ten processes work concurrently on one directory and one file: four of the project's client, three of smbprotocol,
//! three of smbclient. Some are killed while they work. At the end the server must hold no resources and must have
//! stopped growing, and the number that they counted under a lock must be right.
//!
//! The case runs for a few seconds. `FREVO_HAMMER_SECONDS=600` makes it ten minutes.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::fixture::Fixture;
use crate::growth::Growth;
use crate::hammer::{COUNTER, DIRECTORY, noted};
use crate::suite::Case;
use test_environment::interrupt;

pub(super) const CASES: &[Case] = &[Case::new("hammer.ten_processes", ten_processes).frevo_only().alone()];

const OURS: usize = 4;
const PYTHON: usize = 3;
const SMBCLIENT: usize = 3;
/// Interval between kills of one of the processes that may be killed.
const KILL_EVERY: Duration = Duration::from_millis(700);

/// The processes of one run.
struct Crowd<'a> {
    fixture: &'a Fixture,
    end: Instant,
    notes: Vec<PathBuf>,
    children: Vec<(String, Child)>,
    killed: u64,
}

fn seconds() -> u64 {
    std::env::var("FREVO_HAMMER_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

fn ten_processes(fixture: &mut Fixture) -> Result<()> {
    let directory = fixture.share("files").join(DIRECTORY);
    fs::create_dir_all(&directory)?;
    fs::write(directory.join("counter"), 0u64.to_le_bytes())?;
    fixture.environment.people().give(&directory, &test_environment::ALICE)?;
    fixture.environment.people().give(&directory.join("counter"), &test_environment::ALICE)?;
    let end = Instant::now() + Duration::from_secs(seconds());
    let fixture: &Fixture = fixture;
    let mut crowd = Crowd { fixture, end, notes: Vec::new(), children: Vec::new(), killed: 0 };
    (0..OURS).try_for_each(|_| crowd.start_ours())?;
    (0..PYTHON).try_for_each(|_| crowd.start_python())?;
    let failed = AtomicBool::new(false);
    let mut growth = Growth::new(fixture.server.pid(), Duration::from_secs(seconds()));
    std::thread::scope(|scope| {
        for number in 0..SMBCLIENT {
            let failed = &failed;
            scope.spawn(move || {
                if let Err(error) = smbclient(fixture, number, end) {
                    eprintln!("smbclient: {error:#}");
                    failed.store(true, Ordering::Relaxed);
                }
            });
        }
        crowd.run(&mut growth)
    })?;
    ensure!(!failed.load(Ordering::Relaxed), "smbclient got no answer");
    crowd.finish()?;
    let counted = u64::from_le_bytes(fs::read(directory.join("counter"))?.try_into().ok().context("no number")?);
    let noted = noted(&crowd.notes)?;
    let killed = crowd.killed;
    ensure!(noted > 0, "no process counted");
    ensure!(
        (noted..=noted + killed).contains(&counted),
        "{counted} counted, {noted} noted, {killed} killed: {COUNTER}"
    );
    nothing_is_left(fixture)?;
    println!("    counted {counted}, killed {killed}");
    growth.judge()?;
    fs::remove_dir_all(directory)?;
    Ok(())
}

impl Crowd<'_> {
    fn left(&self) -> u64 {
        self.end.saturating_duration_since(Instant::now()).as_secs().max(1)
    }

    fn start_ours(&mut self) -> Result<()> {
        let number = self.notes.len();
        let notes = self.fixture.local("hammer").map(|path| path.with_file_name(format!("hammer-{number}")))?;
        // Not by its path, because a build may have replaced the file since this process was started.
        let mut command = Command::new("/proc/self/exe");
        command.args(["hammer", "--address", &self.fixture.server.address().to_string()]);
        command
            .args(["--seed", &(number + 1).to_string(), "--seconds", &self.left().to_string(), "--notes"])
            .arg(&notes);
        self.notes.push(notes);
        self.start("our client", command)
    }

    fn start_python(&mut self) -> Result<()> {
        let arguments = [self.children.len().to_string(), self.left().to_string()];
        let command = self.fixture.script_command("hammer.py", &[&arguments[0], &arguments[1]]);
        self.start("smbprotocol", command)
    }

    fn start(&mut self, what: &str, mut command: Command) -> Result<()> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        self.children.push((what.to_owned(), child.with_context(|| format!("cannot start {what}"))?));
        Ok(())
    }

    /// Kills one process after another and starts a replacement, while sampling the server.
    fn run(&mut self, growth: &mut Growth) -> Result<()> {
        let mut victim = 0;
        while Instant::now() + 3 * KILL_EVERY < self.end {
            interrupt::check()?;
            growth.look()?;
            std::thread::sleep(KILL_EVERY);
            victim = (victim + 1) % self.children.len();
            let (what, mut child) = self.children.remove(victim);
            if let Some(status) = child.try_wait()? {
                anyhow::bail!("{what} ended early with {status}");
            }
            child.kill()?;
            child.wait()?;
            self.killed += 1;
            if what == "smbprotocol" { self.start_python()? } else { self.start_ours()? }
        }
        Ok(())
    }

    /// Waits for all processes that were not killed, which must succeed.
    fn finish(&mut self) -> Result<()> {
        let late = self.end + Duration::from_secs(60);
        for (what, mut child) in self.children.drain(..) {
            let status = loop {
                if let Some(status) = child.try_wait()? {
                    break status;
                }
                if Instant::now() > late {
                    child.kill()?;
                    child.wait()?;
                    anyhow::bail!("{what} does not end; a request was not answered");
                }
                std::thread::sleep(Duration::from_millis(50));
            };
            ensure!(status.success(), "{what} ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs one smbclient after another.
fn smbclient(fixture: &Fixture, number: usize, end: Instant) -> Result<()> {
    let local = fixture.local(&format!("hammer smbclient {number}"))?;
    fs::write(local.join("sent"), vec![number as u8; 100_000])?;
    let lists =
        ["put sent a; ls; allinfo a", "get b got; rename b c -f; ls", "put sent d; del d; ls", "rename a b; get c got"];
    for list in lists.iter().cycle() {
        if Instant::now() > end {
            return Ok(());
        }
        let commands = format!("lcd {}; cd {DIRECTORY}; {list}", local.display());
        let text = fixture.smbclient().run(&commands)?.text;
        let lost = ["NT_STATUS_IO_TIMEOUT", "NT_STATUS_INTERNAL_ERROR", "NT_STATUS_CONNECTION"];
        ensure!(!lost.iter().any(|status| text.contains(status)), "{list}:\n{text}");
    }
    Ok(())
}

/// Checks that sessions, opens and locks are gone when all clients are.
fn nothing_is_left(fixture: &Fixture) -> Result<()> {
    let patience = Instant::now() + Duration::from_secs(10);
    loop {
        let mut command = Command::new(test_environment::frevo());
        command.args(["status", "--json", "-c"]).arg(fixture.server.conf());
        let output = fixture.environment.people().enter(&mut command).output().context("cannot start frevo status")?;
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).context("frevo status --json")?;
        let left: Vec<String> = ["sessions", "trees", "opens", "locks"]
            .iter()
            .filter(|kind| status[**kind].as_array().is_none_or(|list| !list.is_empty()))
            .map(|kind| format!("{kind}: {}", status[*kind]))
            .collect();
        if left.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < patience, "all clients are gone, but the server still holds {}", left.join(", "));
        std::thread::sleep(Duration::from_millis(200));
    }
}
