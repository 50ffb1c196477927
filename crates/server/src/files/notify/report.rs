//! What commands call when they have changed something, and what that is to those who watch ([MS-FSA] 2.1.4.1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use proto::fscc::FileAction;
use proto::smb2::change_notify::CompletionFilter;

use super::{Happening, absolute};
use crate::open::FileOpen;
use crate::server::Server;
use crate::streams;
use crate::tree::Disk;
use crate::vfs::{Kind, RelPath};

/// A change of one name or of what it names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    action: FileAction,
    filter: CompletionFilter,
}

/// What is new where a name came to stand for another file ([MS-FSA] 2.1.5.15.12).
const EVERYTHING: CompletionFilter = CompletionFilter(
    CompletionFilter::ATTRIBUTES.0
        | CompletionFilter::SIZE.0
        | CompletionFilter::LAST_WRITE.0
        | CompletionFilter::LAST_ACCESS.0
        | CompletionFilter::CREATION.0
        | CompletionFilter::SECURITY.0
        | CompletionFilter::EA.0,
);

/// The content of a stream.
const STREAM: CompletionFilter = CompletionFilter(CompletionFilter::STREAM_SIZE.0 | CompletionFilter::STREAM_WRITE.0);

/// The name of the alternate stream that is open.
fn stream(file: &FileOpen) -> Option<Arc<str>> {
    streams::of(&file.node).and_then(|node| node.stream.name())
}

fn name_of(kind: Kind) -> CompletionFilter {
    if kind == Kind::Directory { CompletionFilter::DIR_NAME } else { CompletionFilter::FILE_NAME }
}

impl Change {
    /// A file or directory appeared.
    pub fn added(kind: Kind) -> Change {
        Change { action: FileAction::ADDED, filter: name_of(kind) }
    }

    /// A file or directory vanished.
    pub fn removed(kind: Kind) -> Change {
        Change { action: FileAction::REMOVED, filter: name_of(kind) }
    }

    /// Something about a file or directory is different: `what`.
    pub fn modified(what: CompletionFilter) -> Change {
        Change { action: FileAction::MODIFIED, filter: what }
    }

    /// The name stands for another file.
    pub fn replaced() -> Change {
        Change::modified(EVERYTHING)
    }

    /// A size was set, or content thrown away.
    pub fn resized() -> Change {
        Change::modified(CompletionFilter::SIZE | CompletionFilter::LAST_WRITE | CompletionFilter::ATTRIBUTES)
    }

    /// Who is told: those who asked for any of these.
    pub fn filter(self) -> CompletionFilter {
        self.filter
    }

    /// A stream appeared.
    pub fn stream_added() -> Change {
        Change { action: FileAction::ADDED_STREAM, filter: CompletionFilter::STREAM_NAME }
    }

    /// A stream vanished.
    pub fn stream_removed() -> Change {
        Change { action: FileAction::REMOVED_STREAM, filter: CompletionFilter::STREAM_NAME }
    }

    /// A stream's content or size changed.
    pub fn stream_modified() -> Change {
        Change { action: FileAction::MODIFIED_STREAM, filter: STREAM }
    }
}

/// `File.PendingNotifications` ([MS-FSA] 2.1.1.3), kept with each open: changes that are told when the open is closed.
#[derive(Default)]
pub(crate) struct Unreported {
    what: AtomicU32,
    /// When a change of content was told last, in milliseconds of the server's life; 0: never.
    told: AtomicU64,
}

/// How often those who watch are told of a file that is written to all the time.
const PAUSE: Duration = Duration::from_secs(2);

impl Unreported {
    /// A change that is told later.
    pub(crate) fn add(&self, what: CompletionFilter) {
        self.what.fetch_or(what.0, Ordering::Relaxed);
    }

    fn take(&self) -> CompletionFilter {
        if self.what.load(Ordering::Relaxed) == 0 {
            return CompletionFilter::NONE;
        }
        CompletionFilter(self.what.swap(0, Ordering::Relaxed))
    }

    /// Whether the next change of content is to be told at once, which it then is.
    fn is_due(&self, now: Duration) -> bool {
        let (now, told) = (now.as_millis() as u64, self.told.load(Ordering::Relaxed));
        let due = told == 0 || now >= told.saturating_add(PAUSE.as_millis() as u64);
        due && self.told.compare_exchange(told, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Server {
    /// `path` on `disk` has changed: those who watch are told.
    pub(crate) fn changed(&self, disk: &Disk, path: &RelPath, change: Change) {
        self.stream_changed(disk, path, "", change);
    }

    /// The stream `stream` of `path` has changed; without a name, the file itself.
    pub(crate) fn stream_changed(&self, disk: &Disk, path: &RelPath, stream: &str, change: Change) {
        if self.watches.is_idle() {
            return;
        }
        let stream = if stream.is_empty() { String::new() } else { format!(":{stream}") };
        let path = absolute(&disk.share.path, path);
        self.watches.happened(&[Happening { action: change.action, path: &path, stream: &stream }], change.filter);
    }

    /// `from` is now called `to` ([MS-FSA] 2.1.5.15.12). `replaced`: that name stood for another file.
    pub(crate) fn name_changed(&self, disk: &Disk, from: &RelPath, to: &RelPath, kind: Kind, replaced: bool) {
        if self.watches.is_idle() {
            return;
        }
        let root = &disk.share.path;
        if kind == Kind::Directory {
            self.watches.moved(&absolute(root, from), &absolute(root, to));
        }
        if replaced {
            self.changed(disk, from, Change::removed(kind));
            self.changed(disk, to, Change::replaced());
        } else if from.parent() == to.parent() {
            let (from, to) = (absolute(root, from), absolute(root, to));
            let name = |action, path| Happening { action, path, stream: "" };
            let pair = [name(FileAction::RENAMED_OLD_NAME, &*from), name(FileAction::RENAMED_NEW_NAME, &*to)];
            self.watches.happened(&pair, name_of(kind));
        } else {
            self.changed(disk, from, Change::removed(kind));
            self.changed(disk, to, Change::added(kind));
        }
    }

    /// Something about the open file has changed that its streams share.
    pub(crate) fn file_changed(&self, disk: &Disk, file: &FileOpen, change: Change) {
        if !self.watches.is_idle() {
            let path = file.name.path.lock().clone();
            self.changed(disk, &path, change);
        }
    }

    /// The open file, or the open stream of it, was given a size or emptied.
    pub(crate) fn resized(&self, disk: &Disk, file: &FileOpen) {
        if self.watches.is_idle() {
            return;
        }
        match stream(file) {
            Some(name) => {
                let path = file.name.path.lock().clone();
                self.stream_changed(disk, &path, &name, Change::stream_modified());
            }
            None => self.file_changed(disk, file, Change::resized()),
        }
    }

    /// The file was written to through `file`. Told at once, but not all the time: the rest with the close.
    pub(crate) fn written(&self, disk: &Disk, file: &FileOpen) {
        if self.watches.is_idle() {
            return;
        }
        file.unreported.add(match stream(file) {
            Some(_) => STREAM,
            None => CompletionFilter::LAST_WRITE | CompletionFilter::SIZE,
        });
        if file.unreported.is_due(self.world.uptime()) {
            self.report(disk, file);
        }
    }

    /// Tells what is not told yet of the changes made through `file`.
    pub(crate) fn report(&self, disk: &Disk, file: &FileOpen) {
        let what = file.unreported.take();
        if what.intersects(STREAM) {
            self.resized(disk, file);
        }
        let what = what.without(STREAM);
        if !what.is_empty() {
            self.file_changed(disk, file, Change::modified(what));
        }
    }

    /// The open directory is to be deleted: who watches it is told so, and nothing after it ([MS-FSA] 2.1.5.15.3).
    pub(crate) fn doomed(&self, disk: &Disk, file: &FileOpen) {
        if file.kind == Kind::Directory && !self.watches.is_idle() {
            let path = absolute(&disk.share.path, &file.name.path.lock());
            self.watches.doom(&path, file.file);
        }
    }
}
