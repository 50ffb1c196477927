//! The result of a run.

use std::fmt;

/// The number of passed tests, and the failures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of passed tests.
    pub passed: usize,
    /// The tests that failed.
    pub failed: Vec<Failure>,
}

/// A test that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The test's name, and the reason.
    pub what: String,
    /// The command that runs this test alone.
    pub repeat: Option<String>,
}

impl Counts {
    /// Returns counts with `passed` passed and no failures.
    pub fn passed(passed: usize) -> Counts {
        Counts { passed, failed: Vec::new() }
    }

    /// Returns counts with one failure.
    pub fn failed(what: impl Into<String>) -> Counts {
        Counts { passed: 0, failed: vec![Failure { what: what.into(), repeat: None }] }
    }

    /// Sets the command that runs the failed tests alone, for those that have none.
    #[must_use]
    pub fn repeated_by(mut self, command: &str) -> Counts {
        for failure in &mut self.failed {
            failure.repeat.get_or_insert_with(|| command.to_owned());
        }
        self
    }

    /// Adds the counts of another part.
    pub fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        match &self.repeat {
            Some(command) => write!(f, "\n    to repeat it alone: {command}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_most_specific_command() {
        let mut counts = Counts::failed("a.b: wrong").repeated_by("run a.b");
        counts.add(Counts::failed("a.c: wrong"));
        let failed = counts.repeated_by("run a").failed;
        assert_eq!(failed[0].to_string(), "a.b: wrong\n    to repeat it alone: run a.b");
        assert_eq!(failed[1].to_string(), "a.c: wrong\n    to repeat it alone: run a");
    }
}
