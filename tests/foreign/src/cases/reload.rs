//! The configuration is reloaded while fifty clients copy files.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, Server};

pub(super) const CASES: &[Case] = &[Case::new("reload.fifty_copying_sessions", fifty_copying_sessions).frevo_only()];

const SESSIONS: usize = 50;
const RELOADS: usize = 20;
/// The reloads of configurations with an error: one in `[global]`, one in the share that the clients use.
const ERROR_IN_GLOBAL: usize = 8;
const ERROR_IN_SHARE: usize = 13;
/// Size of a file that is copied.
const SIZE: usize = 200_000;
/// How long a step may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const TEMPLATE: &str =
    "[global]\n@TARGET@\n\tserver string = 0\n[files]\n\tpath = @DIR@/data/copied\n\tread only = no\n";

/// The input and output of a client that copies files to the server and back until `stop` is set.
struct Copier {
    number: usize,
    input: ChildStdin,
    /// smbclient shows each copy there.
    errors: BufReader<ChildStderr>,
    dir: PathBuf,
}

/// The processes of the clients.
struct Clients(Vec<Child>);

impl Clients {
    fn kill(&mut self) {
        self.0.iter_mut().for_each(|child| drop(child.kill()));
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.kill();
        self.0.iter_mut().for_each(|child| drop(child.wait()));
    }
}

/// The rounds of copying that each client has completed, and whether to stop.
struct Progress {
    rounds: Vec<AtomicUsize>,
    stop: AtomicBool,
}

fn fifty_copying_sessions(fixture: &mut Fixture) -> Result<()> {
    let shared = fixture.environment.make_dir("data/copied", &ALICE, 0o777)?;
    let local = fixture.local("reload")?;
    let server = fixture.environment.start("reload", TEMPLATE)?;
    let progress =
        Progress { rounds: (0..SESSIONS).map(|_| AtomicUsize::new(0)).collect(), stop: AtomicBool::new(false) };
    let (mut clients, mut copiers) = (Clients(Vec::new()), Vec::new());
    for number in 0..SESSIONS {
        let (child, copier) = Copier::start(fixture, &server, &local, number)?;
        clients.0.push(child);
        copiers.push(copier);
    }
    let pids = server.pids();
    let (copied, reloaded) = thread::scope(|scope| {
        let copying: Vec<_> = copiers.into_iter().map(|copier| scope.spawn(|| copier.run(&progress))).collect();
        let reloaded = reload(fixture, &server, &progress);
        progress.stop.store(true, Ordering::Release);
        if reloaded.is_err() {
            // A client that waits for an answer does not see that it should stop.
            clients.kill();
        }
        let ended = copying.into_iter().map(|client| client.join().map_err(|_| anyhow!("a thread panicked"))?);
        (ended.collect::<Result<Vec<_>>>(), reloaded)
    });
    // The error of a client is the cause of the other.
    copied?;
    reloaded?;
    for (number, child) in clients.0.iter_mut().enumerate() {
        let said = fs::read_to_string(local.join(number.to_string()).join("output"))?;
        let status = child.wait()?;
        ensure!(status.success() && !said.contains("NT_STATUS_"), "session {number} ended with {status}: {said}");
    }
    ensure!(server.pids() == pids, "the server is another process");
    let rounds: Vec<usize> = progress.rounds.iter().map(|count| count.load(Ordering::Acquire)).collect();
    for (number, rounds) in rounds.iter().enumerate() {
        let stored = fs::read(shared.join(format!("s{number}")))?;
        ensure!(stored == content(number, *rounds), "the last file of session {number} is not what it sent");
    }
    println!("  {SESSIONS} sessions copied {} files during {RELOADS} reloads", 2 * rounds.iter().sum::<usize>());
    fs::remove_dir_all(shared)?;
    Ok(fs::remove_dir_all(local)?)
}

/// Reloads the configuration, each time after every client has copied files under the one before.
fn reload(fixture: &Fixture, server: &Server, progress: &Progress) -> Result<()> {
    let valid = fs::read_to_string(server.conf())?;
    let log = server.conf().with_file_name("log").join("output");
    for number in 1..=RELOADS {
        progress.wait_for_a_round()?;
        let logged = fs::read_to_string(&log)?.len();
        fs::write(server.conf(), configuration(&valid, number))?;
        // By the command and by the signal in turns.
        let said = if number.is_multiple_of(2) { by_command(server)? } else { String::new() };
        if said.is_empty() {
            server.signal(libc::SIGHUP);
        }
        let expected = match number {
            ERROR_IN_GLOBAL => "the previous one remains in effect",
            ERROR_IN_SHARE => "with their previous versions, because of errors: [files]",
            _ => "configuration reloaded",
        };
        ensure!(said.is_empty() || said.contains(expected), "`frevo reload` says {said:?} instead of {expected:?}");
        wait_until(&format!("the log contains {expected:?}"), || {
            Ok(fs::read_to_string(&log)?[logged..].contains(expected))
        })?;
        // The share of the previous configuration is gone, and that of this one exists.
        let (present, absent) = if number == ERROR_IN_GLOBAL { (number - 1, number) } else { (number, number - 1) };
        let smbclient = |share: &str| fixture.smbclient().server(server).share(share).run("ls");
        smbclient(&format!("added{present}"))?.fine()?;
        if absent > 0 {
            smbclient(&format!("added{absent}"))?.refused_with("NT_STATUS_BAD_NETWORK_NAME")?;
        }
    }
    progress.wait_for_a_round()
}

/// Reloads the configuration with `frevo reload`. Returns what the command says.
fn by_command(server: &Server) -> Result<String> {
    let output = Command::new(test_environment::frevo()).args(["reload", "-c"]).arg(server.conf()).output()?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Returns the configuration of this number: a share of its own, other parameters, and perhaps an error.
fn configuration(valid: &str, number: usize) -> String {
    let text = valid.replace("server string = 0", &format!("server string = {number}"));
    let path = valid.lines().find_map(|line| line.trim().strip_prefix("path = ")).unwrap_or_default();
    let mask = if number.is_multiple_of(2) { "0700" } else { "0755" };
    let error = match number {
        ERROR_IN_GLOBAL => "[global]\n\thosts allow = 10.0.0.0/99\n",
        ERROR_IN_SHARE => "[files]\n\tread only = perhaps\n",
        _ => "",
    };
    format!(
        "{text}\tcomment = {number}\n\tcreate mask = {mask}\n[added{number}]\n\tpath = {path}\n\
         {error}"
    )
}

impl Progress {
    /// Waits until each client has completed a round that began after now.
    fn wait_for_a_round(&self) -> Result<()> {
        let rounds = || self.rounds.iter().map(|count| count.load(Ordering::Acquire));
        // The round that is under way began before.
        let wanted: Vec<usize> = rounds().map(|count| count + 2).collect();
        wait_until("each session has copied files", || {
            ensure!(!self.stop.load(Ordering::Acquire), "a session has ended");
            Ok(rounds().zip(&wanted).all(|(count, wanted)| count >= *wanted))
        })
    }
}

impl Copier {
    fn start(fixture: &Fixture, server: &Server, local: &Path, number: usize) -> Result<(Child, Copier)> {
        let dir = local.join(number.to_string());
        fs::create_dir(&dir)?;
        let mut command = fixture.program("smbclient", server, &ALICE.credentials());
        command.arg("//127.0.0.1/files").current_dir(&dir);
        command.stdin(Stdio::piped()).stdout(fs::File::create(dir.join("output"))?).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start smbclient")?;
        let input = child.stdin.take().context("no standard input")?;
        let errors = BufReader::new(child.stderr.take().context("no standard error")?);
        Ok((child, Copier { number, input, errors, dir }))
    }

    /// Copies until `stop` is set. Every error of the client is an error.
    fn run(mut self, progress: &Progress) -> Result<()> {
        let mut round = 0;
        while round == 0 || !progress.stop.load(Ordering::Acquire) {
            round += 1;
            if let Err(error) = self.round(round) {
                progress.stop.store(true, Ordering::Release);
                let said = fs::read_to_string(self.dir.join("output")).unwrap_or_default();
                return Err(error.context(format!("session {}, round {round}: {said}", self.number)));
            }
            progress.rounds[self.number].store(round, Ordering::Release);
        }
        Ok(writeln!(self.input, "exit")?)
    }

    /// Copies a file to the server and back.
    fn round(&mut self, round: usize) -> Result<()> {
        let (content, name) = (content(self.number, round), format!("s{}", self.number));
        fs::write(self.dir.join("sent"), &content)?;
        self.command(&format!("put sent {name}"), "putting file")?;
        self.command(&format!("get {name} back"), "getting file")?;
        ensure!(fs::read(self.dir.join("back"))? == content, "the file has another content than was sent");
        Ok(fs::remove_file(self.dir.join("back"))?)
    }

    /// Gives smbclient a command, and waits for the line that it shows at the end. smbclient would not see a second
    /// command that it reads together with the first one.
    fn command(&mut self, command: &str, shown: &str) -> Result<()> {
        writeln!(self.input, "{command}")?;
        let mut line = String::new();
        self.errors.read_line(&mut line)?;
        ensure!(line.starts_with(shown), "{command}: {line}");
        Ok(())
    }
}

/// Returns the content of a file, which no other session and round has.
fn content(number: usize, round: usize) -> Vec<u8> {
    format!("session {number} round {round} ").into_bytes().into_iter().cycle().take(SIZE).collect()
}

fn wait_until(what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !done()? {
        if Instant::now() > end {
            bail!("not after {PATIENCE:?}: {what}");
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
