//! Who watches which directory, and what happens there ([MS-FSA] 2.1.4.1): pure and synchronous.
//!
//! Directories are known by their absolute paths, so that a change made through one share is told to those who watch
//! through another whose directory holds it. A change costs a look-up for each directory above it, however many others
//! are watched, and nothing but the look at a counter while nobody watches. A path is the one that the server was led by: links make it another, and
//! changes made through such a path are told by the file system, where it can ([`crate::vfs::Vfs::watch`]).

mod guard;
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

pub(crate) use self::guard::{Checks, Guard};
use self::place::Place;
pub use self::report::Change;
pub(crate) use self::report::Unreported;
pub(crate) use self::watch::{Event, Terms, Told, Watch};

use crate::name;
use crate::vfs::{FileId, RelPath};

/// All watches of the server.
#[derive(Default)]
pub(crate) struct Watches {
    /// How many there are: what happens while there are none is told to nobody.
    count: AtomicUsize,
    /// By the absolute path of the directory.
    directories: RwLock<Place>,
    /// Those whose users' rights are to be checked.
    pub(crate) checks: Arc<Checks>,
}

/// The absolute path of `path` beneath `root`, without a slash at its end.
fn absolute(root: &Path, path: &RelPath) -> Vec<u8> {
    let root = root.as_os_str().as_bytes();
    let end = root.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let mut absolute = root[..end].to_vec();
    if !path.is_root() {
        absolute.push(b'/');
        absolute.extend_from_slice(path.as_bytes());
    }
    absolute
}

/// Where the last component of an absolute path begins, the slash before it left out.
fn parent_end(path: &[u8]) -> Option<usize> {
    path.iter().rposition(|&byte| byte == b'/')
}

/// A relative path, its components joined by `/`, in UTF-16LE as clients are shown it.
fn to_wire(path: &[u8]) -> Vec<u8> {
    let mut units = Vec::with_capacity(path.len());
    for (index, component) in path.split(|&byte| byte == b'/').enumerate() {
        if index > 0 {
            units.push(u16::from(b'\\'));
        }
        units.extend(name::to_wire(component));
    }
    units.iter().flat_map(|unit| unit.to_le_bytes()).collect()
}

/// Something that happened to a name in a directory.
struct Happening<'a> {
    action: FileAction,
    /// The absolute path.
    path: &'a [u8],
    /// What follows the path, for a stream: `:` and its name.
    stream: &'a str,
}

impl Watches {
    /// Whether nobody watches anything.
    pub(crate) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Adds a watch of the directory `path` beneath `root`.
    pub(crate) fn add(&self, root: &Path, path: &RelPath, terms: Terms) -> Arc<Watch> {
        let watch = Watch::new(terms);
        self.directories.write().make(&absolute(root, path)).watches.push(watch.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
        watch
    }

    /// Takes a watch out, whose directory is now at `path`: its handle was closed.
    pub(crate) fn remove(&self, root: &Path, path: &RelPath, watch: &Arc<Watch>) {
        watch.close();
        // A rename at this moment may have moved the watch already, or not yet.
        if self.directories.write().remove(&absolute(root, path), watch) {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The directory `file` at `path` is to be deleted: who watches it is told so and nothing more.
    fn doom(&self, path: &[u8], file: FileId) {
        for watch in self.directories.read().get(path).into_iter().flat_map(|place| &place.watches) {
            if watch.terms.file == file {
                watch.doom();
            }
        }
    }

    /// A directory was renamed: watches in it and below it move along.
    fn moved(&self, from: &[u8], to: &[u8]) {
        let mut directories = self.directories.write();
        if let Some(place) = directories.take(from) {
            directories.make(to).add(place);
        }
    }

    /// Tells what happened to names of one directory, at once for each watch.
    fn happened(&self, happenings: &[Happening<'_>], filter: CompletionFilter) {
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
                let events: Vec<_> = happenings.iter().map(|happening| happening.event(at + 1)).collect();
                let named = || happenings.iter().map(|happening| &happening.path[at + 1..]).zip(events.iter().cloned());
                wanting.for_each(|watch| watch.show(named()));
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
    /// Whether the name leads to another file now, or others may be allowed to know what is below.
    fn may_change_rights(&self, filter: CompletionFilter) -> bool {
        const RIGHTS: CompletionFilter = CompletionFilter(
            CompletionFilter::SECURITY.0 | CompletionFilter::ATTRIBUTES.0 | CompletionFilter::DIR_NAME.0,
        );
        self.stream.is_empty() && filter.intersects(RIGHTS)
    }

    /// The event for those who watch the directory whose names begin at `start`.
    fn event(&self, start: usize) -> Event {
        let mut name = to_wire(&self.path[start..]);
        name.extend(self.stream.encode_utf16().flat_map(u16::to_le_bytes));
        Event { action: self.action, name: name.into() }
    }
}

#[cfg(test)]
mod tests;
