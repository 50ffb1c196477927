//! A running server: configuration, accounts, process, log, and its end.

mod frevo;
mod samba;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

pub use frevo::OtherBuild;

use super::crowd::{Crowd, Member};
use super::probe::{self, Answer};
use super::{People, ReservedPort, Target, TestEnvironment, interrupt, template};

/// Time limit for the start of a server, also on a busy machine.
const START: Duration = Duration::from_secs(30);
/// Time limit for a clean stop before the process is killed.
const STOP: Duration = Duration::from_secs(15);
/// Environment variable that marks every process of a server, including those that it forked.
const MARK: &str = "FREVO_TEST_SERVER";
/// Texts that indicate a crash in a log: a Rust panic, Samba's own messages, a sanitizer.
const ALARMS: [&str; 4] = ["panicked at", "INTERNAL ERROR:", "PANIC (pid", "ERROR: AddressSanitizer"];

/// The health of a server after a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answers, and its log contains no crash.
    Well,
    /// Its process has ended or its port is closed.
    Gone,
    /// It accepts connections but does not answer.
    Hung,
    /// It answers, but its log contains this line about a crash.
    Panicked(String),
}

/// A server that runs until it is dropped.
pub struct Server {
    target: Target,
    people: People,
    dir: PathBuf,
    conf: PathBuf,
    port: ReservedPort,
    child: Child,
    read: HashMap<PathBuf, u64>,
}

impl Server {
    pub(super) fn start(
        environment: &TestEnvironment,
        name: &str,
        template: &str,
        port: ReservedPort,
    ) -> Result<Server> {
        let dir = environment.dir().join(name);
        Server::start_with_accounts(environment, name, template, port, &|conf| {
            match environment.target() {
                Target::Samba => samba::add_accounts(environment.people(), conf)?,
                Target::Frevo => frevo::add_accounts(environment.people(), conf)?,
            }
            import(
                environment.target(),
                environment.people(),
                &environment.people().crowd()?.members(Crowd(0)),
                &dir,
                conf,
            )
        })
    }

    /// Same as `start` with accounts created by `prepare`, which is given the configuration file.
    pub(super) fn start_with_accounts(
        environment: &TestEnvironment,
        name: &str,
        template: &str,
        port: ReservedPort,
        prepare: &dyn Fn(&Path) -> Result<()>,
    ) -> Result<Server> {
        let dir = environment.dir().join(name);
        fs::create_dir_all(dir.join("log"))?;
        let own = match environment.target() {
            Target::Samba => samba::globals(&dir, port.number())?,
            Target::Frevo => frevo::globals(&dir, port.number()),
        };
        let conf = dir.join("smb.conf");
        fs::write(
            &conf,
            template::fill(template, environment.target(), &environment.dir().display().to_string(), &own),
        )?;
        prepare(&conf)?;
        let child = spawn(environment.target(), environment.people(), &dir, &conf)?;
        let people = environment.people().clone();
        let mut server = Server { target: environment.target(), people, dir, conf, port, child, read: HashMap::new() };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    fn wait_until_it_answers(&mut self) -> Result<()> {
        let end = Instant::now() + START;
        loop {
            interrupt::check()?;
            if probe::ask(self.address(), Duration::from_secs(2)) == Answer::Replied {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at once ({status}):\n{}", self.target.name(), self.log_tail());
            }
            if Instant::now() > end {
                bail!("{} does not answer after {START:?}:\n{}", self.target.name(), self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port()).into()
    }

    /// Returns the server program.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Returns the port on which it listens.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the id of the process that was started.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the ids of all its processes: the one that was started, and those that it forked.
    pub fn pids(&self) -> Vec<u32> {
        marked(&self.dir)
    }

    /// Returns the command that starts it, with `conf` in place of the configuration file.
    pub fn command_line(&self, conf: &str) -> String {
        let command = command(self.target, &self.dir, Path::new(conf));
        let words = [command.get_program()].into_iter().chain(command.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the path of its configuration file.
    pub fn conf(&self) -> &Path {
        &self.conf
    }

    /// Returns its health. A panic is reported only once, by the first call after it.
    pub fn health(&mut self) -> Result<Health> {
        if self.child.try_wait()?.is_some() {
            return Ok(Health::Gone);
        }
        match probe::wait(self.address(), Duration::from_secs(10)) {
            Answer::Refused => return Ok(Health::Gone),
            Answer::Silent => return Ok(Health::Hung),
            Answer::Replied => {}
        }
        Ok(self.new_alarm()?.map_or(Health::Well, Health::Panicked))
    }

    /// Kills what is left of it and starts it again with the same port and the same state.
    pub fn restart(&mut self) -> Result<()> {
        self.kill();
        self.child = spawn(self.target, &self.people, &self.dir, &self.conf)?;
        self.wait_until_it_answers()
    }

    /// Stops it with SIGTERM, and kills what does not end. [`Server::restart`] starts it again.
    pub fn stop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(libc::SIGTERM);
            let _ = self.wait(STOP);
        }
        self.kill();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: libc::c_int) {
        send(self.child.id(), signal);
    }

    /// Waits for its end, at most `patience`. Returns `None` if it is still running.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() > end {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn kill(&mut self) {
        for pid in marked(&self.dir) {
            send(pid, libc::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn log_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir.join("log")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
    }

    /// Returns the first line about a crash that was logged since the last call.
    fn new_alarm(&mut self) -> Result<Option<String>> {
        let mut alarm = None;
        for path in self.log_files() {
            let mut file = File::open(&path)?;
            let read = self.read.entry(path).or_default();
            file.seek(SeekFrom::Start(*read))?;
            let mut bytes = Vec::new();
            *read += u64::try_from(file.read_to_end(&mut bytes)?)?;
            let text = String::from_utf8_lossy(&bytes);
            let line = text.lines().find(|line| ALARMS.iter().any(|word| line.contains(word)));
            alarm = alarm.or(line.map(|line| line.trim().to_owned()));
        }
        Ok(alarm)
    }

    /// Returns the last lines of its logs.
    pub fn log_tail(&self) -> String {
        let mut out = String::new();
        for path in self.log_files() {
            let bytes = fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().collect();
            for line in &lines[lines.len().saturating_sub(15)..] {
                out.push_str("  | ");
                out.push_str(line);
                out.push('\n');
            }
        }
        out
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Creates accounts for further members of the crowd, in the configuration of the server in `dir`, which may be
/// running.
pub(super) fn import(target: Target, people: &People, crowd: &[Member], dir: &Path, conf: &Path) -> Result<()> {
    match target {
        _ if crowd.is_empty() => Ok(()),
        Target::Samba => samba::import(people, crowd, dir, conf),
        Target::Frevo => frevo::import(people, crowd, conf),
    }
}

fn command(target: Target, dir: &Path, conf: &Path) -> Command {
    match target {
        Target::Samba => samba::command(conf),
        Target::Frevo => frevo::command(dir, conf),
    }
}

fn spawn(target: Target, people: &People, dir: &Path, conf: &Path) -> Result<Child> {
    let mut command = command(target, dir, conf);
    let log = File::options().create(true).append(true).open(dir.join("log/output"))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.env(MARK, dir).process_group(0);
    let realm = dir.join("krb5.conf");
    if realm.exists() {
        command.env("KRB5_CONFIG", realm);
    }
    people.enter(&mut command);
    // SAFETY: between fork and exec the closure makes one system call.
    unsafe { command.pre_exec(end_with_parent) };
    command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))
}

/// If the process that starts a server is killed, its destructors do not run. Therefore the kernel then signals the
/// server to stop.
pub(super) fn end_with_parent() -> std::io::Result<()> {
    // SAFETY: prctl with PR_SET_PDEATHSIG reads one integer.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn send(pid: u32, signal: libc::c_int) {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return };
    // SAFETY: kill has no memory effects; the process was started by this environment.
    unsafe { libc::kill(pid, signal) };
}

/// Returns the processes whose environment contains the mark of the server in `dir`.
fn marked(dir: &Path) -> Vec<u32> {
    let mark = format!("{MARK}={}", dir.display());
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            pids.push(pid);
        }
    }
    pids
}

/// Returns the path of the Frevo under test: that in the environment variable `FREVO`, else the release build of this
/// workspace.
pub fn frevo() -> PathBuf {
    frevo::program()
}

/// Runs a program to its end with `input` on its standard input. Fails if the program fails.
pub(super) fn run(command: &mut Command, input: &str) -> Result<()> {
    let name = format!("{:?}", command.get_program());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    // A program that ends early reports the reason itself.
    let written = child.stdin.take().context("no standard input")?.write_all(input.as_bytes());
    let out = child.wait_with_output()?;
    let said = [out.stdout, out.stderr].concat();
    anyhow::ensure!(out.status.success(), "{name} failed ({}): {}", out.status, String::from_utf8_lossy(&said));
    Ok(written?)
}
