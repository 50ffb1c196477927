//! The result of a run.

/// The number of passed tests, and the failures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of passed tests.
    pub passed: usize,
    /// One text per failure: the name, and below it the reason.
    pub failed: Vec<String>,
}

impl Counts {
    /// Returns counts with `passed` passed and no failures.
    pub fn passed(passed: usize) -> Counts {
        Counts { passed, failed: Vec::new() }
    }

    /// Returns counts with one failure.
    pub fn failed(what: impl Into<String>) -> Counts {
        Counts { passed: 0, failed: vec![what.into()] }
    }

    /// Adds the counts of another part.
    pub fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
    }
}
