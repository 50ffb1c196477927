//! Interaction of clients with local programs: oplocks backed by leases from the kernel (`kernel oplocks`), and
//! byte-range locks shared with local programs (`posix locking`), and share modes shared with Netatalk.
//!
//! Share modes (`kernel share modes`) are not supported, because Linux no longer has a system call for them.

pub(crate) mod locks;
pub(crate) mod netatalk;
mod oplocks;

pub(crate) use oplocks::{grant_oplock, wait_for_lease};
