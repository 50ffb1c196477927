//! Where persistent opens are kept while the server is not there ([MS-SMB2] 3.3.5.9.10, `Open.IsPersistent`): a trait that
//! the daemon fills.

use std::fmt;

use crate::answer::Answer;

/// Records by the persistent ids of their opens.
pub type Records = Vec<(u64, Vec<u8>)>;

/// Keeps a record of each persistent open by its persistent id.
///
/// Changes take effect in the order in which they are asked for, whenever their answers come.
pub trait Store: Send + Sync {
    /// Keeps a record, in place of the one of this id that there may be. Safe from a crash once it is answered.
    fn put(&self, id: u64, record: Vec<u8>) -> Answer<Result<(), Failed>>;

    /// Forgets the record of this id, if there is one. Answered as [`Store::put`] is.
    fn remove(&self, id: u64) -> Answer<Result<(), Failed>>;

    /// All records.
    fn load(&self) -> Answer<Result<Records, Failed>>;
}

/// The store could not do it; the text says what and why, for the log.
#[derive(Clone, Debug)]
pub struct Failed(pub String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
