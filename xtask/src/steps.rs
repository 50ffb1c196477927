//! The steps of `cargo xtask check` and `test`: headings, times, and what passed and failed.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use foreign::bed::interrupt;

/// Counts over all steps.
#[derive(Default)]
pub(crate) struct Tally {
    passed: usize,
    failed: usize,
    /// Step, its counts, seconds.
    steps: Vec<(&'static str, usize, usize, f64)>,
}

impl Tally {
    /// Runs a step under its heading. A step that cannot be done counts as one failure.
    pub(crate) fn step(&mut self, name: &'static str, run: impl FnOnce() -> Result<(usize, usize)>) -> Result<bool> {
        interrupt::check()?;
        println!("\n== {name}");
        let start = Instant::now();
        let (passed, failed) = run().unwrap_or_else(|error| {
            println!("error: {error:#}");
            (0, 1)
        });
        interrupt::check()?;
        let seconds = start.elapsed().as_secs_f64();
        println!("== {name}: {passed} passed, {failed} failed, {seconds:.0} s");
        self.passed += passed;
        self.failed += failed;
        self.steps.push((name, passed, failed, seconds));
        Ok(failed == 0)
    }

    /// The table of the steps; the counts of all.
    pub(crate) fn finish(self) -> (usize, usize) {
        println!();
        for (name, passed, failed, seconds) in &self.steps {
            println!("{name:<24} {passed:>6} passed {failed:>4} failed {seconds:>6.0} s");
        }
        (self.passed, self.failed)
    }
}

/// Cargo in the workspace's folder.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(crate::root()).stdin(Stdio::null());
    command
}

/// A command that is right when it ends with status 0: one passed or one failed.
pub(crate) fn succeeds(mut command: Command) -> Result<(usize, usize)> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    Ok(if status.success() { (1, 0) } else { (0, 1) })
}

/// Runs `cargo test` and sums the counts that its programs print; a program that dies before it prints them, or does not
/// compile, is one failure.
pub(crate) fn unit_tests(filter: Option<&str>) -> Result<(usize, usize)> {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--quiet", "--"]);
    command.args(filter).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo")?;
    let output = BufReader::new(child.stdout.take().context("no output of cargo")?);
    let (mut passed, mut failed) = (0, 0);
    // What a test program printed is of interest only when one of its tests failed.
    let mut said = String::new();
    for line in output.lines() {
        let line = line?;
        said.push_str(&line);
        said.push('\n');
        if let Some((p, f)) = counts(&line) {
            passed += p;
            failed += f;
            let text = std::mem::take(&mut said);
            if f > 0 {
                println!("{text}");
            }
        }
    }
    print!("{said}");
    let success = child.wait()?.success();
    Ok((passed, if success { failed } else { failed.max(1) }))
}

/// The counts in `test result: ok. 3 passed; 0 failed; ...`.
fn counts(line: &str) -> Option<(usize, usize)> {
    let (_, rest) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |word: &str| rest.split("; ").find_map(|part| part.strip_suffix(word)?.trim().parse().ok());
    Some((number("passed")?, number("failed")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_test_programs() {
        for (line, expected) in [
            (
                "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
                Some((12, 0)),
            ),
            ("test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out", Some((3, 2))),
            ("running 3 tests", None),
            ("test result: what", None),
        ] {
            assert_eq!(counts(line), expected, "{line}");
        }
    }

    #[test]
    fn a_step_that_cannot_be_done_is_a_failure() {
        let mut tally = Tally::default();
        assert!(tally.step("a", || Ok((3, 0))).unwrap());
        assert!(!tally.step("b", || anyhow::bail!("no")).unwrap());
        assert_eq!(tally.finish(), (3, 1));
    }
}
