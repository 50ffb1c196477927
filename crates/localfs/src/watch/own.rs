//! What this process is changing itself: the kernel tells of it like of anybody's changes, and nobody wants to hear it
//! twice.
//!
//! A change is noted before it is made. The kernel queues what it tells before the call that made it returns, so once
//! everything is read that was queued when the change was done, the note has served. Names are noted by their absolute
//! paths, beginning with the share's as it was given: the server knows those who watch by them, too, so that what is not
//! told here is told there. Content is noted by file and share.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use server::vfs::{FileId, RelPath};

/// Notes that are kept before old ones are looked for.
const MANY: usize = 4096;
/// How long a note can serve at the longest: the kernel's queue is read far more often where there is anything in it.
const STALE: Duration = Duration::from_secs(1);

/// Something that this process does.
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
    /// How many calls are under way.
    running: usize,
    /// When the last one was done.
    done: Instant,
}

#[derive(Default)]
struct Notes {
    by_deed: HashMap<Deed, Note>,
    look_at: usize,
}

static NOTES: LazyLock<Mutex<Notes>> = LazyLock::new(Mutex::default);
/// Watches that want names, and of those the ones that want content or attributes: without any, nothing is noted.
static WATCHES: AtomicUsize = AtomicUsize::new(0);
static CURIOUS: AtomicUsize = AtomicUsize::new(0);

/// A watch begins or ends.
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

/// Changes under way; they are done when this is dropped.
pub(crate) struct Doing(Vec<Deed>);

/// Notes that the names of `root` change that `deeds` says: paths, and whether they appear.
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

/// Notes that a file of the share `root` changes.
pub(crate) fn file(root: &Path, file: FileId) -> Option<Doing> {
    let deed = || Deed::File(FileId { stream: 0, ..file }, root.to_path_buf());
    is_curious().then(|| begin(vec![deed()]))
}

/// Whether [`file`] notes anything now.
pub(crate) fn is_curious() -> bool {
    CURIOUS.load(Ordering::SeqCst) > 0
}

/// The absolute path of `path` beneath `root`.
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

/// Whether the process did that itself just now.
pub(super) fn did(deed: &Deed) -> bool {
    NOTES.lock().by_deed.contains_key(deed)
}

/// Whether the process changed any file of the share `root` just now.
pub(super) fn did_any_file(root: &Path) -> bool {
    NOTES.lock().by_deed.keys().any(|deed| matches!(deed, Deed::File(_, of) if of == root))
}

/// Forgets what cannot serve, before what the kernel tells is read.
pub(super) fn forget_stale() {
    let now = Instant::now();
    NOTES.lock().by_deed.retain(|_, note| note.serves(now));
}

/// Forgets what has served: all that the kernel had to tell at `moment` is read.
pub(super) fn forget_done_by(moment: Instant) {
    NOTES.lock().by_deed.retain(|_, note| note.running > 0 || note.done > moment);
}
