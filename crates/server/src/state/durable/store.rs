//! Storage of persistent opens across restarts of the server ([MS-SMB2] 3.3.5.9.10, `Open.IsPersistent`): a trait that
//! the daemon implements.

use std::fmt;

use crate::answer::Answer;

/// Records by the persistent ids of their opens.
pub type Records = Vec<(u64, Vec<u8>)>;

/// Stores a record of each persistent open by its persistent id.
///
/// Changes take effect in the order of the calls, even if their answers arrive in another order.
pub trait Store: Send + Sync {
    /// Stores a record, replacing the one of this id. The record survives a crash once this has completed.
    fn put(&self, id: u64, record: Vec<u8>) -> Answer<Result<(), Failed>>;

    /// Removes the record of this id, if there is one. Durable on completion, like [`Store::put`].
    fn remove(&self, id: u64) -> Answer<Result<(), Failed>>;

    /// Returns all records.
    fn load(&self) -> Answer<Result<Records, Failed>>;
}

/// The error of a store operation, as text for the log.
#[derive(Clone, Debug)]
pub struct Failed(pub String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
