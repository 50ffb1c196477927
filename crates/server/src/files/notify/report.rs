//! Changes as watches see them ([MS-FSA] 2.1.4.1), and changes that are reported later.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use proto::fscc::FileAction;
use proto::smb2::change_notify::CompletionFilter;

use crate::vfs::Kind;

/// A change of one name or of its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    pub(crate) action: FileAction,
    pub(crate) filter: CompletionFilter,
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
pub(crate) const STREAM: CompletionFilter =
    CompletionFilter(CompletionFilter::STREAM_SIZE.0 | CompletionFilter::STREAM_WRITE.0);

/// Returns the filter of a change of the name of a file or directory.
pub(crate) fn name_of(kind: Kind) -> CompletionFilter {
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

    /// Takes the recorded changes.
    pub(crate) fn take(&self) -> CompletionFilter {
        if self.what.load(Ordering::Relaxed) == 0 {
            return CompletionFilter::NONE;
        }
        CompletionFilter(self.what.swap(0, Ordering::Relaxed))
    }

    /// Whether a change of content is to be reported now; records that it is.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        let (now, told) = (now.as_millis() as u64, self.told.load(Ordering::Relaxed));
        let due = told == 0 || now >= told.saturating_add(PAUSE.as_millis() as u64);
        due && self.told.compare_exchange(told, now.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
