//! Options that [`crate::torture`] sets on a connection.

use std::sync::atomic::{AtomicBool, Ordering};

/// The options set on one connection.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) unacknowledged: AtomicBool,
    pub(crate) pads_reads: AtomicBool,
}

impl Hooks {
    /// Returns whether TCP acknowledgments are evaluated.
    pub(crate) fn acknowledges(&self) -> bool {
        !self.unacknowledged.load(Ordering::Relaxed)
    }
}
