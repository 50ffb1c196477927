//! The changes of directories that a back end knows of, as the [`ChangeQueue`] of its name indexes.
//!
//! The back end logs each change of its own before the call that made it returns. Changes by others reach the log as
//! the storage allows ([`Coherence`]).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::vfs::FileId;

use crate::name_index::{ChangeQueue, Event, Name};

/// Maximum number of logged changes. If there are more, nothing has searched the directories for long, and it is
/// cheaper to read them again.
const MOST_CHANGES: usize = 65_536;

/// How a back end learns of changes that others make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coherence {
    /// Nobody else changes the files.
    Own,
    /// The storage reports them, and the back end passes them to its caches.
    Callback {
        /// How long the storage reports changes of a file after it was last asked for it.
        valid: Duration,
    },
    /// Not at all. What was read is valid for a time.
    Timestamp {
        /// That time.
        valid: Duration,
    },
}

impl Coherence {
    /// Returns how long something that was read may be cached, if a time is what limits that.
    pub fn lifetime(self) -> Option<Duration> {
        match self {
            Coherence::Own => None,
            Coherence::Callback { valid } | Coherence::Timestamp { valid } => Some(valid),
        }
    }
}

enum Change {
    Added(FileId, Name),
    Removed(FileId, Name),
    Attributes(FileId),
    Ended(FileId),
    Lost,
}

#[derive(Default)]
struct Log {
    changes: VecDeque<Change>,
    /// When each watched directory was watched. Changes of other directories are not logged.
    watched: HashMap<FileId, Instant>,
}

impl Log {
    fn push(&mut self, directory: FileId, change: impl FnOnce() -> Change) {
        if !self.watched.contains_key(&directory) {
            return;
        }
        if self.changes.len() >= MOST_CHANGES {
            self.lose();
            return;
        }
        self.changes.push_back(change());
    }

    fn lose(&mut self) {
        self.changes.clear();
        self.watched.clear();
        self.changes.push_back(Change::Lost);
    }
}

/// The log of one volume, to which the back end adds changes.
#[derive(Clone, Default)]
pub struct ChangeLog(Arc<Mutex<Log>>);

impl ChangeLog {
    /// Logs that a name was created in the directory, or moved into it.
    pub fn added(&self, directory: FileId, name: &[u8]) {
        self.0.lock().push(directory, || Change::Added(directory, name.into()));
    }

    /// Logs that a name was removed from the directory, or moved out of it.
    pub fn removed(&self, directory: FileId, name: &[u8]) {
        self.0.lock().push(directory, || Change::Removed(directory, name.into()));
    }

    /// Logs that the directory's own permissions or attributes changed.
    pub fn attributes(&self, directory: FileId) {
        self.0.lock().push(directory, || Change::Attributes(directory));
    }

    /// Logs that others changed the directory, or may have changed it, in an unknown way.
    pub fn unknown(&self, directory: FileId) {
        let mut log = self.0.lock();
        log.push(directory, || Change::Ended(directory));
        log.watched.remove(&directory);
    }

    /// Logs that others may have changed any directory.
    pub fn lost(&self) {
        self.0.lock().lose();
    }

    /// Returns the queue for the name indexes. There is one for a log.
    pub fn queue(&self, coherence: Coherence) -> LoggedChanges {
        LoggedChanges { log: self.clone(), lifetime: coherence.lifetime() }
    }
}

/// The queue of a [`ChangeLog`]. A directory that is not read again within the lifetime of cached data is no longer
/// watched.
pub struct LoggedChanges {
    log: ChangeLog,
    lifetime: Option<Duration>,
}

impl LoggedChanges {
    /// Starts to watch a directory.
    pub fn watch(&mut self, directory: FileId) -> FileId {
        self.log.0.lock().watched.insert(directory, Instant::now());
        directory
    }
}

impl ChangeQueue for LoggedChanges {
    type Watch = FileId;

    fn drain(&mut self, each: &mut dyn FnMut(Event<'_, FileId>)) {
        let (changes, expired) = {
            let mut log = self.log.0.lock();
            let mut expired = Vec::new();
            if let Some(lifetime) = self.lifetime {
                log.watched.retain(|directory, since| {
                    let is_valid = since.elapsed() < lifetime;
                    if !is_valid {
                        expired.push(*directory);
                    }
                    is_valid
                });
            }
            (std::mem::take(&mut log.changes), expired)
        };
        for change in &changes {
            each(match change {
                Change::Added(directory, name) => Event::Added(*directory, name),
                Change::Removed(directory, name) => Event::Removed(*directory, name),
                Change::Attributes(directory) => Event::Attributes(*directory),
                Change::Ended(directory) => Event::Ended(*directory),
                Change::Lost => Event::Lost,
            });
        }
        for directory in expired {
            each(Event::Ended(directory));
        }
    }

    fn unwatch(&mut self, directory: FileId) {
        self.log.0.lock().watched.remove(&directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: FileId = FileId { device: 1, inode: 2, stream: 0 };
    const OTHER: FileId = FileId { device: 1, inode: 3, stream: 0 };

    fn drained(queue: &mut LoggedChanges) -> Vec<String> {
        let mut events = Vec::new();
        queue.drain(&mut |event| {
            events.push(match event {
                Event::Added(_, name) => format!("+{}", String::from_utf8_lossy(name)),
                Event::Removed(_, name) => format!("-{}", String::from_utf8_lossy(name)),
                Event::Attributes(_) => "attributes".to_owned(),
                Event::Ended(_) => "ended".to_owned(),
                Event::Lost => "lost".to_owned(),
            });
        });
        events
    }

    #[test]
    fn changes_of_watched_directories_are_queued_in_their_order() {
        let log = ChangeLog::default();
        let mut queue = log.queue(Coherence::Own);
        log.added(DIRECTORY, b"before");
        queue.watch(DIRECTORY);
        log.added(DIRECTORY, b"a");
        log.added(OTHER, b"elsewhere");
        log.removed(DIRECTORY, b"a");
        log.attributes(DIRECTORY);
        assert_eq!(drained(&mut queue), ["+a", "-a", "attributes"]);
        log.unknown(DIRECTORY);
        log.added(DIRECTORY, b"b");
        assert_eq!(drained(&mut queue), ["ended"]);
        assert_eq!(drained(&mut queue), [""; 0]);
    }

    #[test]
    fn too_many_changes_are_lost_changes() {
        let log = ChangeLog::default();
        let mut queue = log.queue(Coherence::Callback { valid: Duration::from_secs(600) });
        queue.watch(DIRECTORY);
        for _ in 0..=MOST_CHANGES {
            log.added(DIRECTORY, b"a");
        }
        log.added(DIRECTORY, b"a");
        assert_eq!(drained(&mut queue), ["lost"]);
    }

    #[test]
    fn a_watch_ends_with_the_lifetime_of_what_was_read() {
        let log = ChangeLog::default();
        let mut queue = log.queue(Coherence::Timestamp { valid: Duration::ZERO });
        queue.watch(DIRECTORY);
        log.added(DIRECTORY, b"a");
        assert_eq!(drained(&mut queue), ["+a", "ended"]);
        let mut queue = log.queue(Coherence::Timestamp { valid: Duration::from_secs(3600) });
        queue.watch(DIRECTORY);
        assert_eq!(drained(&mut queue), [""; 0]);
    }
}
