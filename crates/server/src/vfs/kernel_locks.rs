//! Byte-range locks and leases that the kernel has for an open file.

use std::sync::Arc;

use super::{Errno, Result};

/// How a byte range of a file is locked for other processes and handles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RangeLock {
    /// Not locked.
    Free,
    /// No other process or handle may lock it exclusively.
    Shared,
    /// No other process or handle may lock it.
    Exclusive,
}

/// A change of the lock that other processes see on a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeChange {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// The lock that this handle holds on the whole range.
    pub before: RangeLock,
    /// The lock that it will hold.
    pub after: RangeLock,
}

impl RangeChange {
    /// Makes `changes` for an implementation of [`Node::lock`](super::Node::lock): calls `set` for each, and reverts
    /// them if one of them fails.
    pub fn make_all(changes: &[RangeChange], set: impl Fn(u64, u64, RangeLock) -> Result<()>) -> Result<()> {
        for (index, change) in changes.iter().enumerate() {
            match set(change.offset, change.length, change.after) {
                Ok(()) | Err(Errno::BADF | Errno::OPNOTSUPP) => {}
                Err(errno) => {
                    for made in changes[..index].iter().rev() {
                        // A weaker lock conflicts with no other lock; a failure leaves the stronger one.
                        let _ = set(made.offset, made.length, made.before);
                    }
                    return Err(errno);
                }
            }
        }
        Ok(())
    }
}

/// Callback for an open of a leased file. May be called from any thread, and more than once.
pub type LeaseCallback = Arc<dyn Fn() + Send + Sync>;

/// A lease on an open file. Dropping it gives the lease up.
pub trait Lease: Send + Sync {}
