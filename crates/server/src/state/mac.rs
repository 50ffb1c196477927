//! The extensions of macOS that were negotiated in a session. A Mac negotiates them once, and then expects them on all
//! shares and on all channels of the session.

use std::sync::atomic::{AtomicBool, Ordering};

/// What was negotiated.
#[derive(Default)]
pub(crate) struct Mac {
    negotiated: AtomicBool,
    lists_attributes: AtomicBool,
}

impl Mac {
    /// Records the result of a negotiation. What was negotiated stays so.
    pub(crate) fn negotiate(&self, lists_attributes: bool) {
        self.negotiated.store(true, Ordering::Relaxed);
        if lists_attributes {
            self.lists_attributes.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the client is a Mac that has negotiated extensions.
    pub(crate) fn is_negotiated(&self) -> bool {
        self.negotiated.load(Ordering::Relaxed)
    }

    /// Whether entries of listings have Finder info.
    pub(crate) fn lists_attributes(&self) -> bool {
        self.lists_attributes.load(Ordering::Relaxed)
    }
}
