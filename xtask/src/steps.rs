//! The steps of `cargo xtask check` and `test`: headings, durations and results.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use test_environment::{Counts, Failure, interrupt};

/// A step: its name, the command that runs it alone, and what it does.
pub(crate) struct Step<'a> {
    name: &'static str,
    repeat: String,
    required: bool,
    run: Box<dyn FnOnce() -> Result<Counts> + 'a>,
}

impl<'a> Step<'a> {
    /// Creates a step. `repeat` is the command that runs it alone.
    pub(crate) fn new(
        name: &'static str,
        repeat: impl Into<String>,
        run: impl FnOnce() -> Result<Counts> + 'a,
    ) -> Step<'a> {
        Step { name, repeat: repeat.into(), required: false, run: Box::new(run) }
    }

    /// Makes the steps after this one depend on it: they do not run if it fails.
    pub(crate) fn required(self) -> Step<'a> {
        Step { required: true, ..self }
    }

    /// Runs the step. If that is not possible, it is one failure.
    fn run(self) -> Counts {
        let failed = |error: anyhow::Error| {
            println!("error: {error:#}");
            Counts::failed(format!("{error:#}"))
        };
        (self.run)().unwrap_or_else(failed).repeated_by(&self.repeat)
    }
}

/// Runs the steps in sequence. At the end of each step, and again at the end of all because only the end of a long
/// output may be kept, it prints which tests failed and how to repeat each alone.
pub(crate) fn run(steps: Vec<Step<'_>>) -> Result<Counts> {
    let (start, total) = (Instant::now(), steps.len());
    let mut all = Counts::default();
    let mut table = Vec::new();
    for (number, step) in (1..).zip(steps) {
        interrupt::check()?;
        let (name, required, begun) = (step.name, step.required, Instant::now());
        println!("\n== step {number} of {total}: {name} (after {})", minutes(start.elapsed()));
        let Counts { passed, failed } = step.run();
        interrupt::check()?;
        let (failures, seconds) = (failed.len(), begun.elapsed().as_secs_f64());
        failed.iter().for_each(|failure| println!("FAILED {failure}"));
        println!("== {name}: {passed} passed, {failures} failed, {seconds:.0} s");
        let named = |failure: Failure| Failure { what: format!("{name}: {}", failure.what), ..failure };
        all.add(Counts { passed, failed: failed.into_iter().map(named).collect() });
        table.push(format!("{name:<40} {passed:>6} passed {failures:>4} failed {seconds:>6.0} s"));
        if required && failures > 0 {
            table.push(format!("the other {} steps need this one and did not run", total - number));
            break;
        }
    }
    println!();
    all.failed.iter().for_each(|failure| println!("FAILED {failure}\n"));
    table.iter().for_each(|line| println!("{line}"));
    println!("all steps took {}", minutes(start.elapsed()));
    Ok(all)
}

/// Commands that run at the lowest priority beside the steps, one after the other.
///
/// The result of a command is ignored, because the step that needs it runs it again.
pub(crate) struct Meanwhile {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Meanwhile {
    /// Starts the first command.
    pub(crate) fn start(commands: Vec<Command>) -> Meanwhile {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            for command in commands {
                let Ok(mut child) = at_lowest_priority(&command).spawn() else { return };
                while matches!(child.try_wait(), Ok(None)) {
                    if stopped.load(Ordering::SeqCst) {
                        return end(child);
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        });
        Meanwhile { stop, thread: Some(thread) }
    }

    /// Waits until all commands have ended, or until the run is interrupted.
    pub(crate) fn finish(self) -> Result<()> {
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            interrupt::check()?;
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

/// Ends the command that is running, and does not start another.
impl Drop for Meanwhile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Kills a child and the processes that it started, which are its process group.
fn end(mut child: Child) {
    // An error means that the group is empty.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let _ = child.wait();
}

/// Returns the command run by nice(1), without output.
fn at_lowest_priority(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        value.map(|value| nice.env(name, value));
    }
    nice.current_dir(command.get_current_dir().unwrap_or(&crate::root()));
    nice.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    nice
}

/// Returns a duration as `minutes:seconds`.
fn minutes(time: Duration) -> String {
    format!("{}:{:02} min", time.as_secs() / 60, time.as_secs() % 60)
}

/// Returns a cargo command that runs in the workspace's folder.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(crate::root()).stdin(Stdio::null());
    command
}

/// Runs a command. Exit status 0 is one passed, any other is one failed, which the same command repeats.
pub(crate) fn succeeds(mut command: Command) -> Result<Counts> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if status.success() {
        return Ok(Counts::passed(1));
    }
    let line = line(&command);
    Ok(Counts::failed(format!("{line}: {status}")).repeated_by(&line))
}

/// Returns a command as it is typed, with the program's name instead of its path.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = [program].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_a_step_says_how_to_repeat_it() {
        let counts = run(vec![
            Step::new("a", "cargo a", || Ok(Counts::passed(3))),
            Step::new("b", "cargo b", || anyhow::bail!("no")),
            Step::new("c", "cargo c", || Ok(Counts::failed("x: wrong").repeated_by("cargo c x"))),
        ]);
        let failed = [("b: no", "cargo b"), ("c: x: wrong", "cargo c x")];
        let failed = failed.map(|(what, repeat)| Failure { what: what.into(), repeat: Some(repeat.into()) });
        assert_eq!(counts.unwrap(), Counts { passed: 3, failed: failed.into() });
    }

    #[test]
    fn nothing_runs_after_a_required_step_that_fails() {
        let counts = run(vec![
            Step::new("build", "cargo build", || Ok(Counts::failed("wrong"))).required(),
            Step::new("test", "cargo test", || panic!("it needs the build")),
        ]);
        assert_eq!(counts.unwrap().failed.len(), 1);
    }

    #[test]
    fn a_command_in_the_background_ends_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).current_dir(folder.path());
            command
        };
        let meanwhile = Meanwhile::start(vec![shell("exit 1"), shell("nice > priority; sleep 1000 | sleep 1000")]);
        let priority = || std::fs::read_to_string(folder.path().join("priority")).unwrap_or_default();
        while priority() != "19\n" {
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(meanwhile);
        Meanwhile::start(vec![shell("nice > again")]).finish().unwrap();
        assert!(folder.path().join("again").exists());
    }

    #[test]
    fn a_command_that_fails_is_the_one_that_repeats_it() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "false"]);
        assert_eq!(succeeds(command).unwrap().failed[0].repeat.as_deref(), Some("sh -c false"));
    }
}
