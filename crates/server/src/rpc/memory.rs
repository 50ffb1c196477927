//! The memory of a pipe: received data, incomplete calls and unread responses.

use std::sync::Arc;

use crate::accounting::{Charge, Payer, Resource};
use crate::policy::limits::PIPE_MINIMUM_BYTES;

/// The charge for one pipe's memory.
pub(super) struct MemoryCharge(Charge);

impl MemoryCharge {
    /// Creates an empty charge.
    pub(super) fn nothing(payer: &Arc<Payer>) -> MemoryCharge {
        MemoryCharge(Charge::nothing(payer, Resource::PipeData))
    }

    /// Returns the payer.
    pub(super) fn payer(&self) -> &Arc<Payer> {
        self.0.payer()
    }

    /// Returns whether the pipe may hold `more` bytes.
    pub(super) fn may_take(&self, more: usize) -> bool {
        self.0.amount() + more <= PIPE_MINIMUM_BYTES || self.0.may_add(more)
    }

    /// Records that the pipe holds `bytes`.
    pub(super) fn set(&mut self, bytes: usize) {
        self.0.record(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::accounting::{Accounting, Bounds};

    #[test]
    fn pipes_share_the_memory_and_each_has_a_minimum() {
        let accounting = Accounting::new(&Bounds::of_memory(1 << 30).with(Resource::PipeData, 16 * 200_000));
        // Half of a sixteenth: 100,000.
        let payer = accounting.unauthenticated(IpAddr::from([192, 0, 2, 1]).into());
        let (mut one, other) = (MemoryCharge::nothing(&payer), MemoryCharge::nothing(&payer));
        one.set(90_000);
        assert!(one.may_take(10_000) && !one.may_take(10_001));
        assert!(other.may_take(10_000) && !other.may_take(10_001));
        one.set(110_000);
        assert!(other.may_take(PIPE_MINIMUM_BYTES) && !other.may_take(PIPE_MINIMUM_BYTES + 1) && !one.may_take(1));
        drop((one, other));
        assert_eq!(accounting.memory(), 0);
    }
}
