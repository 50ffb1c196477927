//! The steps of `cargo xtask check` and `test`: headings, durations and results.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use test_environment::{Counts, interrupt};

/// Counts over all steps.
#[derive(Default)]
pub(crate) struct Tally {
    counts: Counts,
    /// Name of a step, passed, failed, seconds.
    steps: Vec<(&'static str, usize, usize, f64)>,
}

impl Tally {
    /// Runs a step under its heading. A step that cannot be run is one failure.
    pub(crate) fn step(&mut self, name: &'static str, run: impl FnOnce() -> Result<Counts>) -> Result<bool> {
        interrupt::check()?;
        println!("\n== {name}");
        let start = Instant::now();
        let Counts { passed, failed } = run().unwrap_or_else(|error| {
            println!("error: {error:#}");
            Counts::failed(format!("{error:#}"))
        });
        interrupt::check()?;
        let seconds = start.elapsed().as_secs_f64();
        let failures = failed.len();
        println!("== {name}: {passed} passed, {failures} failed, {seconds:.0} s");
        self.counts.add(Counts { passed, failed: failed.iter().map(|what| format!("{name}: {what}")).collect() });
        self.steps.push((name, passed, failures, seconds));
        Ok(failures == 0)
    }

    /// Prints all failures again, because only the end of a long output may be kept, then a table of the steps. Returns
    /// the total counts.
    pub(crate) fn finish(self) -> Counts {
        println!();
        for what in &self.counts.failed {
            println!("FAILED {what}\n");
        }
        for (name, passed, failed, seconds) in &self.steps {
            println!("{name:<24} {passed:>6} passed {failed:>4} failed {seconds:>6.0} s");
        }
        self.counts
    }
}

/// Returns a cargo command that runs in the workspace's folder.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(crate::root()).stdin(Stdio::null());
    command
}

/// Runs a command. Exit status 0 is one passed, any other is one failed.
pub(crate) fn succeeds(mut command: Command) -> Result<Counts> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    Ok(if status.success() { Counts::passed(1) } else { Counts::failed(format!("{command:?}: {status}")) })
}

/// Runs `cargo test` and adds up the counts printed by its programs. A program that dies before printing them, or does
/// not compile, is one failure.
pub(crate) fn unit_tests(filter: Option<&str>) -> Result<Counts> {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--quiet", "--"]);
    command.args(filter).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo")?;
    let output = BufReader::new(child.stdout.take().context("cargo has no standard output")?);
    let mut counts = Counts::default();
    // The output of a test program is shown only if one of its tests failed.
    let mut said = String::new();
    for line in output.lines() {
        let line = line?;
        said.push_str(&line);
        said.push('\n');
        if let Some((passed, failed)) = counted(&line) {
            let text = std::mem::take(&mut said);
            if failed > 0 {
                println!("{text}");
            }
            counts.add(Counts { passed, failed: failures(&text, failed) });
        }
    }
    print!("{said}");
    let status = child.wait()?;
    if !status.success() && counts.failed.is_empty() {
        counts.add(Counts::failed(format!("{command:?}: {status}")));
    }
    Ok(counts)
}

/// Parses the counts in `test result: ok. 3 passed; 0 failed; ...`.
fn counted(line: &str) -> Option<(usize, usize)> {
    let (_, rest) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |word: &str| rest.split("; ").find_map(|part| part.strip_suffix(word)?.trim().parse().ok());
    Some((number("passed")?, number("failed")?))
}

/// Returns the `failed` names that a test program lists at its end.
fn failures(said: &str, failed: usize) -> Vec<String> {
    let listed = said.rsplit_once("failures:\n").map_or("", |(_, list)| list);
    let names = listed.lines().filter_map(|line| line.strip_prefix("    "));
    names.chain(std::iter::repeat("a test without a name")).take(failed).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_test_programs_are_read() {
        for (line, expected) in [
            (
                "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
                Some((12, 0)),
            ),
            ("test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out", Some((3, 2))),
            ("running 3 tests", None),
            ("test result: what", None),
        ] {
            assert_eq!(counted(line), expected, "{line}");
        }
    }

    #[test]
    fn names_of_failed_tests_are_read() {
        let said =
            "failures:\n\n---- a::b stdout ----\npanicked\n\n\nfailures:\n    a::b\n    a::c\n\ntest result: FAILED.";
        assert_eq!(failures(said, 2), ["a::b", "a::c"]);
        assert_eq!(failures("", 1), ["a test without a name"]);
        assert_eq!(failures("test result: ok.", 0), [""; 0]);
    }

    #[test]
    fn a_step_with_an_error_is_a_failure() {
        let mut tally = Tally::default();
        assert!(tally.step("a", || Ok(Counts::passed(3))).unwrap());
        assert!(!tally.step("b", || anyhow::bail!("no")).unwrap());
        assert_eq!(tally.finish(), Counts { passed: 3, failed: vec!["b: no".into()] });
    }
}
