//! When data and write times reach the disk.

use std::time::Duration;

/// When data and write times reach the disk.
#[derive(Clone, Debug)]
pub struct SyncPolicy {
    /// `strict sync`: FLUSH writes to disk. If off, an acknowledged flush may be lost in a crash.
    pub strict_sync: bool,
    /// `sync always`: each write is on disk before its response.
    pub sync_always: bool,
    /// `smbd:writetimeupdatedelay`: how long a write does not change the write time reported to clients.
    pub write_time_delay: Duration,
    /// `strict allocate`: requested allocation sizes are reserved on disk.
    pub strict_allocate: bool,
}

impl Default for SyncPolicy {
    fn default() -> Self {
        SyncPolicy { strict_sync: true, sync_always: false, write_time_delay: Duration::ZERO, strict_allocate: false }
    }
}
