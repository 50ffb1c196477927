//! Watches of directories, and the changes reported to them ([MS-FSA] 2.1.4.1). Synchronous, except for the access
//! checks in `access_check`.
//!
//! Directories are identified by their absolute paths, so that a change made through one share is reported to watches
//! through another share that contains the file. A change costs a lookup for each directory above it, however many
//! others are watched, and only the check of a counter while there are no watches. The path is the one by which the
//! server reached the file. Through symbolic links it may be a different one; changes made through such a path are
//! reported by the file system if it can ([`Node::watch`](crate::vfs::Node::watch)).

mod access_check;
mod local;
mod place;
mod report;
mod watch;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use proto::fscc::FileAction;
use proto::smb2::change_notify::CompletionFilter;

pub(crate) use self::access_check::{AccessCheck, AccessChecks};
use self::place::DirectoryNode;
pub use self::report::Change;
pub(crate) use self::report::{STREAM, Unreported, name_of};
pub(crate) use self::watch::{Event, NotifyResult, Terms, Watch};

use crate::name::CharacterMap;
use crate::vfs::{FileId, RelPath};

/// All watches of the server.
#[derive(Default)]
pub(crate) struct Watches {
    /// Number of watches. Without any, changes are not reported.
    count: AtomicUsize,
    /// By the absolute path of the directory.
    directories: RwLock<DirectoryNode>,
    /// Watches that wait for access checks.
    pub(crate) checks: Arc<AccessChecks>,
}

/// Returns the absolute path of `path` below `root`, without a trailing slash. The first component names the storage: a
/// root in another one than this host's is relative ([`Share::location`](crate::policy::Share::location)).
pub(crate) fn absolute(root: &Path, path: &RelPath) -> Vec<u8> {
    let root = root.as_os_str().as_bytes();
    let end = root.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    // A watch of this host's `/` must not see the changes in volumes.
    let storage: &[u8] = if root.starts_with(b"/") { b"/." } else { b"/" };
    let mut absolute = [storage, &root[..end]].concat();
    if !path.is_root() {
        absolute.push(b'/');
        absolute.extend_from_slice(path.as_bytes());
    }
    absolute
}

/// Returns the end of the parent directory in a path, which is the position of the last slash.
fn parent_end(path: &[u8]) -> Option<usize> {
    path.iter().rposition(|&byte| byte == b'/')
}

/// Converts a relative path, with components separated by `/`, to the UTF-16LE form sent to clients.
fn to_wire(path: &[u8], characters: &CharacterMap) -> Vec<u8> {
    let mut units = Vec::with_capacity(path.len());
    for (index, component) in path.split(|&byte| byte == b'/').enumerate() {
        if index > 0 {
            units.push(u16::from(b'\\'));
        }
        units.extend(characters.to_wire(component));
    }
    units.iter().flat_map(|unit| unit.to_le_bytes()).collect()
}

/// A change of a name in a directory.
pub(crate) struct Happening<'a> {
    pub(crate) action: FileAction,
    /// The absolute path.
    pub(crate) path: &'a [u8],
    /// Suffix of the path for a stream: `:` and its name.
    pub(crate) stream: &'a str,
}

impl Watches {
    /// Whether there are no watches.
    pub(crate) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Adds a watch of the directory `path` below `root`.
    pub(crate) fn add(&self, root: &Path, path: &RelPath, terms: Terms) -> Arc<Watch> {
        let watch = Watch::new(terms);
        self.directories.write().make(&absolute(root, path)).watches.push(watch.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
        watch
    }

    /// Removes a watch of a closed handle, whose directory is now at `path`.
    pub(crate) fn remove(&self, root: &Path, path: &RelPath, watch: &Arc<Watch>) {
        watch.close();
        // A concurrent rename may or may not have moved the watch.
        if self.directories.write().remove(&absolute(root, path), watch) {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Notifies the watches of the directory `file` at `path` that it is to be deleted. They get no further events.
    pub(crate) fn doom(&self, path: &[u8], file: FileId) {
        for watch in self.directories.read().get(path).into_iter().flat_map(|place| &place.watches) {
            if watch.terms.file == file {
                watch.doom();
            }
        }
    }

    /// Moves the watches of a renamed directory and below it.
    pub(crate) fn moved(&self, from: &[u8], to: &[u8]) {
        let mut directories = self.directories.write();
        if let Some(place) = directories.take(from) {
            directories.make(to).add(place);
        }
    }

    /// Reports changes of names of one directory, as one group to each watch.
    pub(crate) fn happened(&self, happenings: &[Happening<'_>], filter: CompletionFilter) {
        let Some(path) = happenings.first().map(|first| first.path) else { return };
        let Some(parent) = parent_end(path) else { return };
        let directories = self.directories.read();
        let (mut place, mut at) = (Some(&*directories), 0);
        while let Some(watched) = place {
            let watches = &watched.watches;
            for watch in watches.iter().filter(|watch| watch.terms.tree) {
                let changed = happenings.iter().filter(|it| it.may_change_rights(filter));
                changed.for_each(|happening| watch.forget(&happening.path[at + 1..]));
            }
            let wants =
                |watch: &&Arc<Watch>| watch.terms.filter.intersects(filter) && (watch.terms.tree || at == parent);
            let mut wanting = watches.iter().filter(wants).peekable();
            if wanting.peek().is_some() {
                let events = |characters: &CharacterMap| -> Vec<_> {
                    happenings.iter().map(|happening| happening.event(at + 1, characters)).collect()
                };
                let plain = events(&CharacterMap::default());
                for watch in wanting {
                    let characters = &watch.terms.characters;
                    let events = if characters.is_empty() { plain.clone() } else { events(characters) };
                    watch.show(happenings.iter().map(|happening| &happening.path[at + 1..]).zip(events));
                }
            }
            if at >= parent {
                return;
            }
            let end = path[at + 1..].iter().position(|&byte| byte == b'/').map_or(path.len(), |length| at + 1 + length);
            place = watched.below(&path[at + 1..end]);
            at = end;
        }
    }
}

impl Happening<'_> {
    /// Whether the name leads to another file now, or the rights to list directories below it may have changed.
    fn may_change_rights(&self, filter: CompletionFilter) -> bool {
        const RIGHTS: CompletionFilter = CompletionFilter(
            CompletionFilter::SECURITY.0 | CompletionFilter::ATTRIBUTES.0 | CompletionFilter::DIR_NAME.0,
        );
        self.stream.is_empty() && filter.intersects(RIGHTS)
    }

    /// Returns the event for watches of the directory whose names begin at `start`.
    fn event(&self, start: usize, characters: &CharacterMap) -> Event {
        let mut name = to_wire(&self.path[start..], characters);
        let stream = self.stream.strip_prefix(':').map(|stream| format!(":{}", characters.show(stream)));
        name.extend(stream.iter().flat_map(|stream| stream.encode_utf16()).flat_map(u16::to_le_bytes));
        Event { action: self.action, name: name.into() }
    }
}

#[cfg(test)]
mod tests;
