//! Conversion of the file system's notifications about local programs to events for watches.

use proto::fscc::FileAction;
use proto::smb2::change_notify::CompletionFilter;

use super::report::Change;
use super::{Event, Watch, to_wire};
use crate::vfs::RelPath;
use crate::vfs::watch::{Listener, Noticed, Wanted};

/// The filters that match a change of content.
const CONTENT: CompletionFilter = CompletionFilter(CompletionFilter::SIZE.0 | CompletionFilter::LAST_WRITE.0);

/// The filters that may match any other change of a file, because Linux does not say what changed.
const ATTRIBUTES: CompletionFilter = CompletionFilter(
    CompletionFilter::ATTRIBUTES.0
        | CompletionFilter::LAST_WRITE.0
        | CompletionFilter::LAST_ACCESS.0
        | CompletionFilter::CREATION.0
        | CompletionFilter::EA.0
        | CompletionFilter::SECURITY.0,
);

impl Watch {
    /// Returns what the file system must watch.
    pub(crate) fn wanted(&self) -> Wanted {
        let filter = self.terms.filter;
        let (content, attributes) = (filter.intersects(CONTENT), filter.intersects(ATTRIBUTES));
        Wanted { tree: self.terms.tree, content, attributes }
    }

    fn local(&self, filter: CompletionFilter, events: &[(FileAction, &RelPath)]) {
        if self.terms.filter.intersects(filter) {
            let event = |action, path: &[u8]| Event { action, name: to_wire(path, &self.terms.characters).into() };
            self.show(events.iter().map(|(action, path)| (path.as_bytes(), event(*action, path.as_bytes()))));
        }
    }
}

impl Listener for Watch {
    fn noticed(&self, path: &RelPath, what: Noticed) {
        if what != Noticed::Content {
            self.forget(path.as_bytes());
        }
        if let Noticed::Renamed(_, to) = &what {
            self.forget(to.as_bytes());
        }
        match what {
            Noticed::Added(kind) => self.local(Change::added(kind).filter(), &[(FileAction::ADDED, path)]),
            Noticed::Removed(kind) => self.local(Change::removed(kind).filter(), &[(FileAction::REMOVED, path)]),
            Noticed::Renamed(kind, to) => {
                let names = [(FileAction::RENAMED_OLD_NAME, path), (FileAction::RENAMED_NEW_NAME, &to)];
                self.local(Change::added(kind).filter(), &names);
            }
            Noticed::Content => self.local(CONTENT, &[(FileAction::MODIFIED, path)]),
            Noticed::Attributes => self.local(ATTRIBUTES, &[(FileAction::MODIFIED, path)]),
        }
    }

    fn lost(&self) {
        self.lose();
    }

    fn gone(&self) {
        self.doom();
    }
}
