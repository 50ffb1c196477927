//! What local programs and clients know of each other: oplocks that the kernel's lease stands behind
//! (`kernel oplocks`), and byte-range locks that local programs meet (`posix locking`).
//!
//! Left out: share modes (`kernel share modes`). Linux has no call left by which a program could say what it shares.

mod coverage;
pub(crate) mod locks;
mod oplocks;

pub(crate) use oplocks::{Awaited, grant_oplock, wait_for_lease};
