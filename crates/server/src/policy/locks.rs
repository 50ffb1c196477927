//! Byte-range locks.

/// Byte-range locks.
#[derive(Clone, Debug)]
pub struct LockPolicy {
    /// `locking`: if off, every lock is granted and none is checked.
    pub locking: bool,
    /// `strict locking`: reads and writes check the locks of other opens.
    pub strict_locking: bool,
    /// `posix locking`: locks of clients and local programs conflict with each other.
    pub posix_locking: bool,
    /// `blocking locks`: a client may wait for a lock.
    pub blocking_locks: bool,
}

impl Default for LockPolicy {
    fn default() -> Self {
        LockPolicy { locking: true, strict_locking: true, posix_locking: true, blocking_locks: true }
    }
}
