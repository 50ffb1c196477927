//! What `user.DOSATTRIB` said, kept for as long as the inode has not changed.
//!
//! Keyed by device and inode, checked by ctime, so that a change by anybody is seen. Kernel time stamps may be as coarse
//! as 10 ms: an answer about a file that changed that recently is not kept.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use server::vfs::xattr::DosAttributes;
use server::vfs::{FileId, Metadata, Time};

/// How many files are remembered, in [`SHARDS`] parts.
const CAPACITY: usize = 65_536;
const SHARDS: usize = 16;
/// A change may hide behind a time stamp this young.
const COARSE: Duration = Duration::from_millis(20);

/// What each file said, and the ctime that it had then.
type Kept = HashMap<FileId, (Time, Option<DosAttributes>)>;

pub(crate) struct Cache {
    shards: [Mutex<Kept>; SHARDS],
}

impl Default for Cache {
    fn default() -> Self {
        Cache { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Cache {
    /// The stored attributes of the file that `plain` describes, from memory or by `read`.
    pub(crate) fn dos_attributes(
        &self,
        plain: &Metadata,
        read: impl FnOnce() -> Option<DosAttributes>,
    ) -> Option<DosAttributes> {
        let shard = &self.shards[plain.id.inode as usize % SHARDS];
        if let Some((changed, kept)) = shard.lock().get(&plain.id)
            && *changed == plain.changed
        {
            return *kept;
        }
        let found = read();
        if is_settled(plain.changed) {
            let mut shard = shard.lock();
            // Forgetting everything is crude, but needs no bookkeeping while things go well.
            if shard.len() >= CAPACITY / SHARDS {
                shard.clear();
            }
            shard.insert(plain.id, (plain.changed, found));
        }
        found
    }
}

/// Whether a time stamp is old enough that a later change would have another one.
pub(crate) fn is_settled(time: Time) -> bool {
    let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) else { return false };
    let then = Duration::new(u64::try_from(time.secs).unwrap_or(0), time.nanos);
    now.checked_sub(then).is_some_and(|age| age > COARSE)
}
