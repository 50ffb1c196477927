//! What a run came to.

/// How many passed, and what failed: the name, and below it why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many passed.
    pub passed: usize,
    /// One text for each failure, fit for the end of a long output, where it is read first.
    pub failed: Vec<String>,
}

impl Counts {
    /// So many passed, and nothing failed.
    pub fn passed(passed: usize) -> Counts {
        Counts { passed, failed: Vec::new() }
    }

    /// One failure.
    pub fn failed(what: impl Into<String>) -> Counts {
        Counts { passed: 0, failed: vec![what.into()] }
    }

    /// Adds those of another part.
    pub fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
    }
}
