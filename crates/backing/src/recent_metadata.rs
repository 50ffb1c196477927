//! The metadata that was read a moment ago. The server asks for that of one file several times while it serves a few
//! requests, and each time the storage would have to be asked on another thread.
//!
//! The back end reports each of its own changes when it is complete, and those that the storage reports. What was read
//! before such a change is never returned after it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::vfs::{FileId, Metadata};

use crate::hits::{HitNumbers, Hits};
use crate::moments::{Moment, Moments};

/// How long metadata is valid. A back end that learns of changes by time adds this to the time that it declares.
pub const LIFETIME: Duration = Duration::from_secs(1);

/// Maximum number of files. If there are more, all are discarded.
const FILES: usize = 1024;

#[derive(Default)]
struct State {
    files: HashMap<FileId, (Metadata, Instant)>,
    moments: Moments,
}

/// The recently read metadata of one volume.
#[derive(Default)]
pub struct RecentMetadata {
    state: Mutex<State>,
    hits: Hits,
}

impl RecentMetadata {
    /// Returns the present moment, for [`RecentMetadata::put`].
    pub fn now(&self) -> Moment {
        self.state.lock().moments.now()
    }

    /// Records metadata that was read after `since`, unless the file may have changed meanwhile, or later metadata is
    /// known.
    pub fn put(&self, since: Moment, metadata: Metadata) {
        let mut state = self.state.lock();
        let is_newer = |(_, read): &(Metadata, Instant)| *read > since.at;
        if state.moments.has_changed(metadata.id, since) || state.files.get(&metadata.id).is_some_and(is_newer) {
            return;
        }
        if state.files.len() >= FILES {
            state.files.clear();
        }
        state.files.insert(metadata.id, (metadata, since.at));
    }

    /// Returns the metadata of a file if it was read a moment ago.
    pub fn get(&self, file: FileId) -> Option<Metadata> {
        let state = self.state.lock();
        let found = state.files.get(&file).filter(|(_, read)| read.elapsed() < LIFETIME);
        self.hits.count(found.map(|(metadata, _)| *metadata))
    }

    /// Returns how often [`RecentMetadata::get`] had an answer.
    pub fn hits(&self) -> HitNumbers {
        self.hits.numbers()
    }

    /// Forgets a file, because it has changed.
    pub fn forget(&self, file: FileId) {
        let mut state = self.state.lock();
        state.moments.change(file);
        state.files.remove(&file);
    }

    /// Forgets all files.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.moments.change_all();
        state.files.clear();
    }
}

#[cfg(test)]
mod tests {
    use server::vfs::xattr::DosAttributes;
    use server::vfs::{Kind, Time};

    use super::*;
    use crate::metadata::Stat;

    fn file(inode: u64, size: u64) -> Metadata {
        let time = Time { secs: 1, nanos: 2 };
        let stat = Stat {
            id: FileId { device: 1, inode, stream: 0 },
            kind: Kind::File,
            size,
            allocated: 0,
            links: 1,
            mode: 0o644,
            uid: 0,
            gid: 0,
            accessed: time,
            modified: time,
            changed: time,
            born: None,
            compressed: false,
            is_mounted: false,
            special: None,
        };
        stat.metadata(DosAttributes::default())
    }

    fn size(recent: &RecentMetadata, inode: u64) -> Option<u64> {
        recent.get(file(inode, 0).id).map(|metadata| metadata.size)
    }

    #[test]
    fn what_was_read_before_a_change_is_not_returned_after_it() {
        let recent = RecentMetadata::default();
        recent.put(recent.now(), file(1, 10));
        recent.put(recent.now(), file(2, 20));
        assert_eq!((size(&recent, 1), size(&recent, 2)), (Some(10), Some(20)));
        let before = recent.now();
        recent.forget(file(1, 0).id);
        assert_eq!((size(&recent, 1), size(&recent, 2)), (None, Some(20)));
        recent.put(before, file(1, 10));
        recent.put(before, file(2, 21));
        assert_eq!((size(&recent, 1), size(&recent, 2)), (None, Some(21)), "another file may be recorded");
        recent.put(recent.now(), file(1, 11));
        assert_eq!(size(&recent, 1), Some(11));
        let before = recent.now();
        recent.clear();
        recent.put(before, file(2, 20));
        assert_eq!((size(&recent, 1), size(&recent, 2)), (None, None));
    }

    #[test]
    fn what_was_read_later_is_kept() {
        let recent = RecentMetadata::default();
        let earlier = recent.now();
        let mut later = recent.now();
        later.at += Duration::from_millis(1);
        recent.put(later, file(1, 20));
        recent.put(earlier, file(1, 10));
        assert_eq!(size(&recent, 1), Some(20));
        recent.put(later, file(1, 30));
        assert_eq!(size(&recent, 1), Some(30));
    }

    #[test]
    fn metadata_is_valid_for_a_moment() {
        let recent = RecentMetadata::default();
        recent.put(recent.now(), file(1, 10));
        recent.state.lock().files.values_mut().for_each(|(_, read)| *read -= LIFETIME);
        assert_eq!(size(&recent, 1), None);
    }

    #[test]
    fn the_number_of_files_is_bounded() {
        let recent = RecentMetadata::default();
        (0..3 * FILES as u64).for_each(|inode| recent.put(recent.now(), file(inode, 0)));
        assert!(recent.state.lock().files.len() <= FILES);
    }
}
