//! Functions that commands call after a change, and the events that it causes ([MS-FSA] 2.1.4.1).

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

/// A change of one name or of its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    action: FileAction,
    filter: CompletionFilter,
}

/// What changes when a name is replaced by another file ([MS-FSA] 2.1.5.15.12).
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

/// Returns the name of the open alternate stream.
fn stream(file: &FileOpen) -> Option<Arc<str>> {
    streams::of(&file.node).and_then(|node| node.stream.name())
}

fn name_of(kind: Kind) -> CompletionFilter {
    if kind == Kind::Directory { CompletionFilter::DIR_NAME } else { CompletionFilter::FILE_NAME }
}

impl Change {
    /// A file or directory was added.
    pub fn added(kind: Kind) -> Change {
        Change { action: FileAction::ADDED, filter: name_of(kind) }
    }

    /// A file or directory was removed.
    pub fn removed(kind: Kind) -> Change {
        Change { action: FileAction::REMOVED, filter: name_of(kind) }
    }

    /// Properties of a file or directory changed.
    pub fn modified(what: CompletionFilter) -> Change {
        Change { action: FileAction::MODIFIED, filter: what }
    }

    /// The name now belongs to another file.
    pub fn replaced() -> Change {
        Change::modified(EVERYTHING)
    }

    /// A size was set, or the content was discarded.
    pub fn resized() -> Change {
        Change::modified(CompletionFilter::SIZE | CompletionFilter::LAST_WRITE | CompletionFilter::ATTRIBUTES)
    }

    /// Returns the filter: watches with any of these bits are notified.
    pub fn filter(self) -> CompletionFilter {
        self.filter
    }

    /// A stream was added.
    pub fn stream_added() -> Change {
        Change { action: FileAction::ADDED_STREAM, filter: CompletionFilter::STREAM_NAME }
    }

    /// A stream was removed.
    pub fn stream_removed() -> Change {
        Change { action: FileAction::REMOVED_STREAM, filter: CompletionFilter::STREAM_NAME }
    }

    /// The content or size of a stream changed.
    pub fn stream_modified() -> Change {
        Change { action: FileAction::MODIFIED_STREAM, filter: STREAM }
    }
}

/// `File.PendingNotifications` ([MS-FSA] 2.1.1.3) of an open: changes that are reported when it is closed.
#[derive(Default)]
pub(crate) struct Unreported {
    what: AtomicU32,
    /// When a change of content was last reported, in milliseconds of uptime; 0: never.
    told: AtomicU64,
}

/// Minimum interval of reports of a file that is continuously written.
const PAUSE: Duration = Duration::from_secs(2);

impl Unreported {
    /// Records a change to be reported later.
    pub(crate) fn add(&self, what: CompletionFilter) {
        self.what.fetch_or(what.0, Ordering::Relaxed);
    }

    fn take(&self) -> CompletionFilter {
        if self.what.load(Ordering::Relaxed) == 0 {
            return CompletionFilter::NONE;
        }
        CompletionFilter(self.what.swap(0, Ordering::Relaxed))
    }

    /// Whether a change of content is to be reported now; records that it is.
    fn is_due(&self, now: Duration) -> bool {
        let (now, told) = (now.as_millis() as u64, self.told.load(Ordering::Relaxed));
        let due = told == 0 || now >= told.saturating_add(PAUSE.as_millis() as u64);
        due && self.told.compare_exchange(told, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Server {
    /// Reports a change of `path` on `disk`.
    pub(crate) fn changed(&self, disk: &Disk, path: &RelPath, change: Change) {
        self.stream_changed(disk, path, "", change);
    }

    /// Reports a change of the stream `stream` of `path`, or of the file itself if the name is empty.
    pub(crate) fn stream_changed(&self, disk: &Disk, path: &RelPath, stream: &str, change: Change) {
        if self.watches.is_idle() {
            return;
        }
        let stream = if stream.is_empty() { String::new() } else { format!(":{stream}") };
        let path = absolute(&disk.share.path, path);
        self.watches.happened(&[Happening { action: change.action, path: &path, stream: &stream }], change.filter);
    }

    /// Reports the rename of `from` to `to` ([MS-FSA] 2.1.5.15.12). `replaced`: that name belonged to another file.
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

    /// Reports a change of the open file that concerns all its streams.
    pub(crate) fn file_changed(&self, disk: &Disk, file: &FileOpen, change: Change) {
        if !self.watches.is_idle() {
            let path = file.name.path.lock().clone();
            self.changed(disk, &path, change);
        }
    }

    /// Reports that the size of the open file or stream was set, or that it was emptied.
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

    /// Reports a write through `file`, at a limited rate. The rest is reported at close.
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

    /// Reports the pending changes made through `file`.
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

    /// Notifies the watches of the open directory that it is to be deleted; they get no further events ([MS-FSA]
    /// 2.1.5.15.3).
    pub(crate) fn doomed(&self, disk: &Disk, file: &FileOpen) {
        if file.kind == Kind::Directory && !self.watches.is_idle() {
            let path = absolute(&disk.share.path, &file.name.path.lock());
            self.watches.doom(&path, file.file);
        }
    }
}
