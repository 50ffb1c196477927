//! The response to a call that lists entries. It is built in parts between which other tasks run, and its memory is
//! charged while it grows.

use proto::rpc::enumeration::{Entry, Enumeration, Full, Request};

use super::interface::Call;
use super::memory::MemoryCharge;
use crate::yielding::Work;

/// Bytes by which a response grows before its charge is renewed.
const STEP: usize = 64 * 1024;

/// A response that entries are offered to, one after another.
pub(super) struct Listing {
    entries: Enumeration,
    work: Work,
    memory: MemoryCharge,
    charged: usize,
}

impl Listing {
    /// Creates a response without entries.
    pub(super) fn new(request: Request, call: &Call<'_>) -> Listing {
        let memory = MemoryCharge::nothing(call.payer);
        Listing { entries: Enumeration::new(request), work: Work::new(), memory, charged: STEP }
    }

    /// Passes the next entry. Returns whether it must be added. `matches` is whether the qualifiers of the call include
    /// it.
    pub(super) async fn offer(&mut self, matches: bool) -> bool {
        self.work.spend(1).await;
        self.offer_now(matches)
    }

    /// As [`Listing::offer`], in a loop that yields itself.
    pub(super) fn offer_now(&mut self, matches: bool) -> bool {
        self.entries.offer(matches)
    }

    /// Adds the entry that was offered, if it fits.
    pub(super) fn add(&mut self, entry: &impl Entry) {
        if self.entries.length() >= self.charged {
            // The next entries, and the copy that is made at the end.
            if !self.memory.may_take(2 * STEP) {
                return self.entries.stop(Full::Memory);
            }
            self.charged += STEP;
            self.memory.set(2 * self.charged);
        }
        self.entries.add(entry);
    }

    /// Returns the results of the call.
    pub(super) fn finish(self) -> Vec<u8> {
        self.entries.finish()
    }
}
