//! Changes that this process makes itself. The kernel reports them like all others, but the server notifies its
//! listeners of them itself.
//!
//! A change is noted before it is made. The kernel queues its event before the system call returns. Once all events
//! have been read that were queued when the change was complete, the note is obsolete. Names are noted by their
//! absolute paths, which begin with the share's path as given. The server identifies watchers by the same paths, so
//! that it reports the changes that are suppressed here. Content is noted by file and share.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::vfs::{FileId, RelPath};

/// Number of notes that triggers a search for old ones.
const MANY: usize = 4096;
/// Maximum lifetime of a note. The kernel's queue is read much more often than this while it has events.
const STALE: Duration = Duration::from_secs(1);

/// A change that this process makes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Deed {
    /// A name appears at this absolute path.
    Added(Vec<u8>),
    /// A name vanishes.
    Removed(Vec<u8>),
    /// The content or the attributes of a file of the share at this path change.
    File(FileId, PathBuf),
}

struct Note {
    /// Number of calls in progress.
    running: usize,
    /// When the last one completed.
    done: Instant,
}

#[derive(Default)]
struct Notes {
    by_deed: HashMap<Deed, Note>,
    look_at: usize,
}

static NOTES: LazyLock<Mutex<Notes>> = LazyLock::new(Mutex::default);
/// Watches of names, and those that also request content or attributes. Without any, nothing is noted.
static WATCHES: AtomicUsize = AtomicUsize::new(0);
static CURIOUS: AtomicUsize = AtomicUsize::new(0);

/// Updates the counters when a watch begins or ends.
pub(super) fn count_watch(begins: bool, curious: bool) {
    let count = |counter: &AtomicUsize| match begins {
        true => counter.fetch_add(1, Ordering::SeqCst),
        false => counter.fetch_sub(1, Ordering::SeqCst),
    };
    count(&WATCHES);
    if curious {
        count(&CURIOUS);
    }
}

/// Changes in progress. They are complete when this is dropped.
pub(crate) struct Doing(Vec<Deed>);

/// Notes the changes of names below `root` in `deeds`: paths, and whether the name appears.
pub(crate) fn names(root: &Path, deeds: &[(&RelPath, bool)]) -> Option<Doing> {
    if WATCHES.load(Ordering::SeqCst) == 0 {
        return None;
    }
    let deed = |&(path, appears): &(&RelPath, bool)| {
        let path = absolute(root.as_os_str().as_bytes(), path);
        if appears { Deed::Added(path) } else { Deed::Removed(path) }
    };
    Some(begin(deeds.iter().map(deed).collect()))
}

/// Notes a change of a file of the share `root`.
pub(crate) fn file(root: &Path, file: FileId) -> Option<Doing> {
    let deed = || Deed::File(FileId { stream: 0, ..file }, root.to_path_buf());
    is_curious().then(|| begin(vec![deed()]))
}

/// Whether [`file`] notes anything now.
pub(crate) fn is_curious() -> bool {
    CURIOUS.load(Ordering::SeqCst) > 0
}

/// Returns the absolute path of `path` below `root`.
pub(super) fn absolute(root: &[u8], path: &RelPath) -> Vec<u8> {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    [root, b"/", path.as_bytes()].concat()
}

fn begin(deeds: Vec<Deed>) -> Doing {
    let now = Instant::now();
    let mut notes = NOTES.lock();
    for deed in &deeds {
        notes.by_deed.entry(deed.clone()).or_insert(Note { running: 0, done: now }).running += 1;
    }
    if notes.by_deed.len() > notes.look_at.max(MANY) {
        notes.by_deed.retain(|_, note| note.serves(now));
        notes.look_at = notes.by_deed.len() * 2;
    }
    Doing(deeds)
}

impl Note {
    fn serves(&self, now: Instant) -> bool {
        self.running > 0 || now.duration_since(self.done) < STALE
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        let mut notes = NOTES.lock();
        for deed in &self.0 {
            if let Some(note) = notes.by_deed.get_mut(deed) {
                note.running -= 1;
                note.done = Instant::now();
            }
        }
    }
}

/// Returns whether the process has just made that change itself.
pub(super) fn did(deed: &Deed) -> bool {
    NOTES.lock().by_deed.contains_key(deed)
}

/// Returns whether the process has just changed any file of the share `root`.
pub(super) fn did_any_file(root: &Path) -> bool {
    NOTES.lock().by_deed.keys().any(|deed| matches!(deed, Deed::File(_, of) if of == root))
}

/// Discards obsolete notes before the kernel's events are read.
pub(super) fn forget_stale() {
    let now = Instant::now();
    NOTES.lock().by_deed.retain(|_, note| note.serves(now));
}

/// Discards the notes whose events have all been read, given that the queue was read as of `moment`.
pub(super) fn forget_done_by(moment: Instant) {
    NOTES.lock().by_deed.retain(|_, note| note.running > 0 || note.done > moment);
}
