//! Runs one test: smbtorture in a separate process with a time limit, then a health check of the server.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use test_environment::{ALICE, BOB, Health, interrupt};

use super::ground::{Ground, NAMED};
use super::list::{Route, Which};
use super::subunit;

/// The outcome of one test.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) name: String,
    /// smbtorture's result (`success`, `failure`, `error`, `skip`) or the runner's, see [`super::RESULTS`].
    pub(super) result: String,
    pub(super) seconds: f64,
    pub(super) reason: String,
}

impl Outcome {
    pub(super) fn new(name: &str, result: &str, seconds: f64, reason: &str) -> Outcome {
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        Outcome { name: name.to_owned(), result: result.to_owned(), seconds, reason }
    }
}

/// Runs one test on `ground`, and stores its output in the file `log`.
pub(super) fn one(ground: &mut Ground, test: &str, route: &Route, limit: Duration, log: &Path) -> Result<Outcome> {
    if let Some(why) = &route.skip {
        return Ok(Outcome::new(test, "notrun", 0.0, why));
    }
    if route.users && !ground.two_users() {
        return Ok(Outcome::new(test, "notrunnable", 0.0, "needs two UNIX users; run it as root"));
    }
    ground.clean()?;
    ground.prepare(&route.share)?;
    let port = ground.server(route.server)?.port();
    let mut command = smbtorture(ground, test, route, port);
    let log = Log::open(log, &command)?;
    let start = Instant::now();
    let status = wait(log.spawn(&mut command)?, limit)?;
    let seconds = start.elapsed().as_secs_f64();
    interrupt::check()?;
    let text = log.finish(status, seconds)?;
    let outcome = judge(test, &text, status, seconds, limit);
    Ok(match ground.look_after(route.server)? {
        Health::Well => outcome,
        Health::Gone => Outcome::new(test, "server-crash", seconds, &format!("{} {}", outcome.result, outcome.reason)),
        Health::Hung => Outcome::new(test, "server-hang", seconds, &format!("{} {}", outcome.result, outcome.reason)),
        Health::Panicked(line) => Outcome::new(test, "server-panic", seconds, &format!("{line}; {}", outcome.reason)),
    })
}

fn smbtorture(ground: &Ground, test: &str, route: &Route, port: u16) -> Command {
    let mut command = Command::new("smbtorture");
    command.arg("-s").arg(ground.client_conf());
    command.args(["-p", &port.to_string(), "--fullname", "--format=subunit", "--seed=1"]);
    command.arg("--basedir").arg(ground.work()).arg("--option=torture:progress=no");
    let host = match route.server {
        Which::Tickets => {
            ground.log_on_by_ticket(&mut command);
            NAMED
        }
        Which::Plain | Which::Strict | Which::Administrated => {
            command.args(["--use-kerberos=off", "-U", &ALICE.credentials()]);
            "127.0.0.1"
        }
    };
    if ground.two_users() {
        command.arg(format!("--option=torture:user2name={}", BOB.name));
        command.arg(format!("--option=torture:user2password={}", BOB.password));
    }
    command.args(&route.arguments).arg(format!("//{host}/{}", route.share)).arg(test);
    command.current_dir(ground.work()).stdin(Stdio::null()).process_group(0);
    command
}

/// The file that stores the output of a test.
struct Log {
    path: PathBuf,
    output: PathBuf,
}

impl Log {
    fn open(path: &Path, command: &Command) -> Result<Log> {
        fs::write(path, format!("{command:?}\n"))?;
        Ok(Log { output: path.with_extension("out"), path: path.to_owned() })
    }

    fn spawn(&self, command: &mut Command) -> Result<Child> {
        command.stdout(File::create(&self.output)?);
        command.stderr(File::options().append(true).open(&self.path)?);
        command.spawn().context("cannot start smbtorture")
    }

    /// Appends the standard output to the log and returns it.
    fn finish(&self, status: Option<ExitStatus>, seconds: f64) -> Result<String> {
        let text = String::from_utf8_lossy(&fs::read(&self.output)?).into_owned();
        fs::remove_file(&self.output)?;
        let ended = status.map_or("killed".to_owned(), |status| status.to_string());
        writeln!(File::options().append(true).open(&self.path)?, "\n--- {ended}, {seconds:.2} s ---\n{text}")?;
        Ok(text)
    }
}

/// Waits for the child's end. After `limit`, or if the run is interrupted, kills its process group and returns `None`.
fn wait(mut child: Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    while Instant::now() < end && !interrupt::interrupted() {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let group = -libc::pid_t::try_from(child.id())?;
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        // SAFETY: kill has no memory effects; the group was created for this child.
        unsafe { libc::kill(group, signal) };
        std::thread::sleep(Duration::from_millis(300));
    }
    child.wait()?;
    Ok(None)
}

/// Derives the outcome from smbtorture's output.
fn judge(test: &str, text: &str, status: Option<ExitStatus>, seconds: f64, limit: Duration) -> Outcome {
    let (results, unfinished) = subunit::read(text);
    if text.contains("Unknown torture operation") {
        return Outcome::new(test, "unknown", seconds, "smbtorture has no such test");
    }
    let Some(status) = status else {
        return Outcome::new(test, "timeout", seconds, &format!("killed after {} s", limit.as_secs()));
    };
    // A name that stands for several tests has the worst of their results.
    let worst = results.iter().find(|one| one.result != "success").or(results.first());
    match worst {
        Some(worst) if unfinished.is_none() => Outcome::new(test, &worst.result, seconds, &worst.reason),
        _ => Outcome::new(test, "crash", seconds, &format!("smbtorture reported no result ({status})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[track_caller]
    fn check(text: &str, status: Option<i32>, expected: &str) {
        let status = status.map(ExitStatus::from_raw);
        assert_eq!(judge("a", text, status, 1.0, Duration::from_secs(5)).result, expected);
    }

    #[test]
    fn outcomes_are_read() {
        check("test: a\nsuccess: a\n", Some(0), "success");
        check("test: a\nsuccess: a\ntest: b\nfailure: b [\nx\n]\n", Some(256), "failure");
        check("test: a\n", None, "timeout");
        check("test: a\n", Some(11), "crash");
        check("test: a\nsuccess: a\ntest: b\n", Some(11), "crash");
        check("", Some(0), "crash");
        check("Unknown torture operation 'a'\n", Some(256), "unknown");
    }
}
