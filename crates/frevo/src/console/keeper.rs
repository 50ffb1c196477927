//! The process that keeps a console running while the server runs (`frevo:console`).
//!
//! It has the privileges with which the server was started, because the console needs them for PAM and for files, and
//! because the server itself cannot execute programs. It starts the console again when it ends, and stops it when the
//! server has ended, however that happened.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};

/// The pause before a console that has ended is started again: the first one, and the longest one.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A console that ran for this long was not wrong from the start.
const LASTING: Duration = Duration::from_secs(60);
/// How long a console may take to end before it is killed.
const STOP_TIME: Duration = Duration::from_secs(5);
/// How often the console is looked at.
const INTERVAL: Duration = Duration::from_millis(200);

/// The variables that the console gets: the time zone, where the state directory is, and where certificates are.
const PASSED: [&str; 6] = ["TZ", "FREVO_STATE_DIR", "XDG_STATE_HOME", "HOME", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Keeps a console running until it is dropped, or the process ends.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// The keeper notices that it is closed.
    _lifeline: OwnedFd,
}

impl Keeper {
    /// Starts the keeper for a server with this configuration and state directory. Must be called while the process has
    /// one thread, before it gives up privileges.
    ///
    /// # Errors
    /// The process cannot be created.
    pub(crate) fn start(config: Option<&Path>, state_dir: Option<&Path>) -> io::Result<Keeper> {
        let mut arguments = ["console", "--until-input-ends"].map(OsString::from).to_vec();
        for (option, path) in [("--config", config), ("--state-dir", state_dir)] {
            if let Some(path) = path {
                // The console has another working directory.
                arguments.extend([option.into(), std::path::absolute(path)?.into_os_string()]);
            }
        }
        let (theirs, lifeline) = pipe_with(PipeFlags::CLOEXEC)?;
        pam::process::fork(|| match keep(&arguments, theirs.as_fd()) {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("the console cannot be kept running: {error}");
                2
            }
        })?;
        Ok(Keeper { _lifeline: lifeline })
    }
}

/// Keeps the console of this program running in the forked process.
fn keep(arguments: &[OsString], lifeline: BorrowedFd<'_>) -> io::Result<()> {
    // Among the others are the sockets of the service manager, and the end of the pipe whose closing is waited for.
    pam::process::close_others(lifeline)?;
    pam::process::close_input()?;
    rustix::thread::set_name(c"frevo-keeper")?;
    // A service manager sends SIGTERM to all processes of a service. The server ends first.
    pam::process::survive_termination();
    run("/proc/self/exe".as_ref(), arguments, lifeline)
}

/// Runs until the other end of `lifeline` is closed.
fn run(program: &Path, arguments: &[OsString], lifeline: BorrowedFd<'_>) -> io::Result<()> {
    let mut pause = PAUSE;
    loop {
        let started = Instant::now();
        let why = match start(program, arguments, lifeline) {
            Ok(mut console) => {
                let Some(status) = watch(&mut console, lifeline)? else { return Ok(()) };
                status.to_string()
            }
            Err(error) => error.to_string(),
        };
        pause = if started.elapsed() >= LASTING { PAUSE } else { pause };
        eprintln!("the console has ended ({why}); it is started again in {} s", pause.as_secs());
        if has_ended(lifeline, pause)? {
            return Ok(());
        }
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

fn start(program: &Path, arguments: &[OsString], lifeline: BorrowedFd<'_>) -> io::Result<Child> {
    let mut command = Command::new(program);
    // The environment of the server has sockets of the service manager, and may have a password.
    command.args(arguments).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").current_dir("/");
    command.envs(PASSED.iter().filter_map(|name| Some((name, env::var_os(name)?))));
    // The console ends by itself when the server has ended, also if this process was killed.
    command.stdin(Stdio::from(lifeline.try_clone_to_owned()?)).spawn()
}

/// Waits until the console ends, and returns its status; `None` if the server has ended and the console was stopped.
fn watch(console: &mut Child, lifeline: BorrowedFd<'_>) -> io::Result<Option<std::process::ExitStatus>> {
    loop {
        if let Some(status) = console.try_wait()? {
            return Ok(Some(status));
        }
        if has_ended(lifeline, INTERVAL)? {
            let _ = kill_process(Pid::from_child(console), Signal::TERM);
            let end = Instant::now() + STOP_TIME;
            while console.try_wait()?.is_none() {
                if Instant::now() >= end {
                    console.kill()?;
                    console.wait()?;
                    break;
                }
                std::thread::sleep(INTERVAL / 10);
            }
            return Ok(None);
        }
    }
}

/// Returns whether the server ends within this time.
fn has_ended(lifeline: BorrowedFd<'_>, within: Duration) -> io::Result<bool> {
    let end = Instant::now() + within;
    loop {
        let rest = Timespec::try_from(end.saturating_duration_since(Instant::now())).ok();
        match poll(&mut [PollFd::from_borrowed_fd(lifeline, PollFlags::IN)], rest.as_ref()) {
            // A signal that is survived.
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done? > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Runs a script as the console until `is_enough`.
    fn kept(script: &str, is_enough: impl Fn(&Path) -> bool) {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("console");
        fs::write(&program, format!("#!/bin/sh\necho \"$$ $*\" >>\"$1\"\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let started = directory.path().join("started");
        let arguments = [started.clone().into_os_string(), "x".into()];
        let (theirs, lifeline) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        std::thread::scope(|scope| {
            let keeping = scope.spawn(|| run(&program, &arguments, theirs.as_fd()));
            while !is_enough(&started) {
                std::thread::sleep(Duration::from_millis(20));
            }
            drop(lifeline);
            keeping.join().unwrap().unwrap();
        });
        // No process of it is left.
        for line in fs::read_to_string(&started).unwrap().lines() {
            let number = line.split(' ').next().unwrap();
            let command = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&command).contains(&*program.to_string_lossy()), "{line} still runs");
        }
    }

    fn starts(path: &Path) -> usize {
        fs::read_to_string(path).map_or(0, |text| text.lines().filter(|line| line.ends_with(" x")).count())
    }

    #[test]
    fn a_console_that_ends_is_started_again() {
        kept("exit 3", |started| starts(started) >= 2);
    }

    #[test]
    fn the_console_ends_with_the_server() {
        kept("while :; do sleep 0.1; done", |started| starts(started) == 1);
    }

    #[test]
    fn a_console_that_ignores_the_signal_is_killed() {
        kept("trap '' TERM; while :; do sleep 0.1; done", |started| starts(started) == 1);
    }
}
