//! Benchmarks of a share: `frevo-bench` as a process of its own, one at a time, with limits of time and size.
//!
//! It connects to the server as an account that the administrator names, and works in a directory of its own, which it
//! removes. It is not started if a directory of that name exists, because it would remove that.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// How long a benchmark may take, and then the removal of its files.
const LIMIT: Duration = Duration::from_secs(180);
const REMOVAL: Duration = Duration::from_secs(20);
/// How often the end of the process is looked for.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum bytes of a report, and of the messages of the program.
const REPORT: u64 = 256 * 1024;
const MESSAGES: u64 = 16 * 1024;
/// The variable in which the program finds the password, so that no list of processes shows it.
const PASSWORD: &str = "FREVO_BENCH_PASSWORD";

/// A kind of benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Large,
    Small,
}

impl Kind {
    pub(super) fn of(name: &str) -> Result<Kind> {
        match name {
            "large" => Ok(Kind::Large),
            "small" => Ok(Kind::Small),
            _ => bail!("only large and small files are measured"),
        }
    }

    /// The directory in which it works, in the share.
    pub(super) fn directory(self) -> &'static str {
        match self {
            Kind::Large => "frevo-bench-largefile",
            Kind::Small => "frevo-bench-smallfile",
        }
    }

    /// The experiment with its limits: 128 MiB, or 600 files of 16 KiB, by two connections.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Kind::Large => &["largefile", "--quick", "--clients", "2", "--size", "64", "--rounds", "3"],
            Kind::Small => {
                &["smallfile", "--quick", "--clients", "2", "--files", "300", "--size", "16", "--rounds", "3"]
            }
        }
    }
}

/// What is measured, and as which account.
#[derive(Clone, Debug)]
pub(super) struct Benchmark {
    pub(super) share: String,
    pub(super) kind: Kind,
    pub(super) user: String,
    pub(super) port: u16,
}

impl Benchmark {
    fn target(&self) -> String {
        format!("smb://{}@127.0.0.1:{}/{}", encoded(&self.user), self.port, encoded(&self.share))
    }
}

/// Percent-encodes all but letters and digits (RFC 3986 2.1).
fn encoded(text: &str) -> String {
    let each = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(each).collect()
}

struct Running {
    benchmark: Benchmark,
    since: Instant,
    /// `None` before it has begun and when it has ended.
    process: Option<Pid>,
    /// Whether the process was told to end.
    stopped: bool,
}

/// How the process has ended.
enum End {
    With(ExitStatus),
    /// When it was told to, because it took too long or was stopped.
    Late,
    Killed,
}

struct Report {
    benchmark: Benchmark,
    ended: i64,
    /// Why it failed.
    failure: Option<String>,
    text: String,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    last: Option<Report>,
}

/// The benchmark that runs, and the report of the last one.
#[derive(Clone, Default)]
pub(super) struct Benchmarks(Arc<Mutex<State>>);

impl Benchmarks {
    /// Starts a benchmark by `program`. `check` is called before, while no other can be started.
    ///
    /// # Errors
    /// The check fails, another benchmark runs, or the program cannot be started.
    pub(super) fn start(
        &self,
        program: &Path,
        benchmark: Benchmark,
        password: &str,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        {
            let mut state = self.0.lock();
            if let Some(running) = &state.running {
                bail!("a benchmark of [{}] runs; stop it or wait until it ends", running.benchmark.share);
            }
            let benchmark = benchmark.clone();
            state.running = Some(Running { benchmark, since: Instant::now(), process: None, stopped: false });
        }
        // The check may wait for the file system of the share.
        let started = check().and_then(|()| spawn(program, &benchmark, password));
        let mut state = self.0.lock();
        let child = started.inspect_err(|_| state.running = None)?;
        if let Some(running) = &mut state.running {
            let process = Pid::from_child(&child);
            running.process = Some(process);
            if running.stopped {
                let _ = kill_process(process, Signal::TERM);
            }
        }
        drop(state);
        let own = self.clone();
        // If no thread can be started, the process ends by itself and nobody reads its report.
        let waiting = thread::Builder::new().name("benchmark".into()).spawn(move || own.wait(child));
        waiting.map(drop).inspect_err(|_| self.0.lock().running = None).context("cannot start a thread")
    }

    /// Waits for the end of the process, and keeps its report.
    fn wait(&self, mut child: Child) {
        let report = child.stdout.take().map(|output| read(output, REPORT));
        let messages = child.stderr.take().map(|output| read(output, MESSAGES));
        let ended = self.ended(&mut child);
        let text =
            |reading: Option<thread::JoinHandle<String>>| reading.and_then(|it| it.join().ok()).unwrap_or_default();
        let (report, messages) = (text(report), text(messages));
        let mut state = self.0.lock();
        let Some(Running { benchmark, stopped, .. }) = state.running.take() else { return };
        let said = |why: String| Some(format!("{why}\n{}", messages.trim()));
        let failure = match ended {
            Ok(End::Killed) => {
                said("it did not end when it was told to; its directory may still be in the share".into())
            }
            Ok(_) if stopped => Some("it was stopped".to_owned()),
            Ok(End::Late) => said(format!("it took longer than {} seconds", LIMIT.as_secs())),
            Ok(End::With(status)) if status.success() => None,
            Ok(End::With(_)) => said("frevo-bench failed".into()),
            Err(why) => said(why.to_string()),
        };
        state.last = Some(Report { benchmark, ended: super::administration::now(), failure, text: report });
    }

    fn ended(&self, child: &mut Child) -> io::Result<End> {
        let limit = Instant::now() + LIMIT;
        let mut end = None;
        loop {
            let ended = {
                let mut state = self.0.lock();
                let ended = child.try_wait()?;
                // Its number may be that of another process from now on.
                if let (Some(_), Some(running)) = (ended, state.running.as_mut()) {
                    running.process = None;
                }
                ended
            };
            if let Some(status) = ended {
                return Ok(if end.is_none() { End::With(status) } else { End::Late });
            }
            let now = Instant::now();
            match end {
                None if now >= limit => {
                    end = Some(now + REMOVAL);
                    let _ = kill_process(Pid::from_child(child), Signal::TERM);
                }
                Some(end) if now >= end => {
                    if let Some(running) = &mut self.0.lock().running {
                        running.process = None;
                    }
                    child.kill()?;
                    child.wait()?;
                    return Ok(End::Killed);
                }
                _ => {}
            }
            if end.is_none() && self.0.lock().running.as_ref().is_some_and(|running| running.stopped) {
                end = Some(now + REMOVAL);
            }
            thread::sleep(PAUSE);
        }
    }

    /// Stops the benchmark that runs. It removes its files.
    ///
    /// # Errors
    /// None runs.
    pub(super) fn stop(&self) -> Result<()> {
        let mut state = self.0.lock();
        let running = state.running.as_mut().context("no benchmark runs")?;
        running.stopped = true;
        running
            .process
            .map_or(Ok(()), |process| kill_process(process, Signal::TERM))
            .context("cannot stop the benchmark")
    }

    /// Returns what the page shows.
    pub(super) fn json(&self) -> Value {
        let state = self.0.lock();
        let named = |benchmark: &Benchmark| {
            let kind = if benchmark.kind == Kind::Large { "large" } else { "small" };
            json!({ "share": benchmark.share, "kind": kind, "user": benchmark.user })
        };
        let running = state.running.as_ref().map(|running| {
            let mut shown = named(&running.benchmark);
            shown["seconds"] = json!(running.since.elapsed().as_secs());
            shown
        });
        let last = state.last.as_ref().map(|report| {
            let mut shown = named(&report.benchmark);
            shown["ended"] = json!(report.ended);
            shown["failure"] = json!(report.failure);
            shown["text"] = json!(report.text);
            shown
        });
        json!({ "running": running, "last": last })
    }
}

fn spawn(program: &Path, benchmark: &Benchmark, password: &str) -> Result<Child> {
    let child = Command::new(program)
        .args(benchmark.kind.arguments())
        .args(["--target", &benchmark.target(), "--name", &benchmark.share])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env(PASSWORD, password)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    child.with_context(|| format!("cannot start {}", program.display()))
}

/// Reads an output in a thread of its own. What exceeds the limit is dropped.
fn read(output: impl Read + Send + 'static, limit: u64) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let (mut bytes, mut output) = (Vec::new(), output);
        let _ = output.by_ref().take(limit).read_to_end(&mut bytes);
        let _ = io::copy(&mut output, &mut io::sink());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn benchmark() -> Benchmark {
        Benchmark { share: "a b".into(), kind: Kind::Small, user: "ann@x".into(), port: 4450 }
    }

    fn program(directory: &Path, text: &str) -> std::path::PathBuf {
        let path = directory.join("bench");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Starts a program that may still be open for writing in a process that another test has just forked.
    fn start(benchmarks: &Benchmarks, program: &Path) {
        while let Err(error) = benchmarks.start(program, benchmark(), "secret", || Ok(())) {
            assert!(format!("{error:#}").contains("busy"), "{error:#}");
            thread::sleep(PAUSE);
        }
    }

    fn report(benchmarks: &Benchmarks) -> Value {
        loop {
            let shown = benchmarks.json();
            if shown["running"].is_null() {
                return shown["last"].clone();
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn the_report_is_kept_and_the_password_is_not_an_argument() {
        let directory = tempfile::tempdir().unwrap();
        let benchmarks = Benchmarks::default();
        let text = format!("echo \"$@ and ${PASSWORD}\"; echo message >&2; head -c 1000000 /dev/zero | tr '\\0' x");
        start(&benchmarks, &program(directory.path(), &text));
        let report = report(&benchmarks);
        let text = report["text"].as_str().unwrap();
        let (arguments, _) = text.split_once(" and secret\n").expect(text);
        assert!(arguments.contains("--target smb://ann%40x@127.0.0.1:4450/a%20b"), "{arguments}");
        assert!(!arguments.contains("secret") && text.len() == REPORT as usize && report["failure"].is_null());
    }

    #[test]
    fn one_runs_at_a_time_and_can_be_stopped() {
        let directory = tempfile::tempdir().unwrap();
        let benchmarks = Benchmarks::default();
        assert!(benchmarks.stop().is_err());
        let program = program(directory.path(), "exec sleep 600");
        start(&benchmarks, &program);
        let again = benchmarks.start(&program, benchmark(), "", || Ok(())).unwrap_err();
        assert!(again.to_string().contains("[a b] runs"), "{again}");
        benchmarks.stop().unwrap();
        assert_eq!(report(&benchmarks)["failure"], "it was stopped");
        let checked = benchmarks.start(&program, benchmark(), "", || bail!("the directory exists")).unwrap_err();
        assert_eq!(checked.to_string(), "the directory exists");
        assert!(benchmarks.json()["running"].is_null());
    }

    #[test]
    fn a_failure_has_the_message_of_the_program() {
        let directory = tempfile::tempdir().unwrap();
        let benchmarks = Benchmarks::default();
        start(&benchmarks, &program(directory.path(), "echo 'LOGON_FAILURE for ann' >&2; exit 1"));
        let failure = report(&benchmarks)["failure"].as_str().unwrap().to_owned();
        assert!(failure.contains("LOGON_FAILURE for ann"), "{failure}");
        let missing = benchmarks.start(Path::new("/no/such/program"), benchmark(), "", || Ok(())).unwrap_err();
        assert!(missing.to_string().contains("/no/such/program"), "{missing}");
    }
}
