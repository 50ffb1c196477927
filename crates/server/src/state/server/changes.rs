//! Reports of changes to the watches of CHANGE_NOTIFY ([MS-FSA] 2.1.4.1). Commands call these functions after a change.

use std::sync::Arc;

use proto::fscc::FileAction;
use proto::smb2::change_notify::CompletionFilter;

use super::Server;
use crate::files::notify::{Change, Happening, STREAM, absolute, name_of};
use crate::policy::Share;
use crate::state::open::FileOpen;
use crate::streams;
use crate::tree::Disk;
use crate::vfs::{Kind, RelPath};

/// Returns the name of the open alternate stream.
fn stream(file: &FileOpen) -> Option<Arc<str>> {
    streams::of(&file.node).and_then(|node| node.stream.name())
}

impl Server {
    /// Reports a change of `path` on `disk`.
    pub(crate) fn changed(&self, disk: &Disk, path: &RelPath, change: Change) {
        self.changed_in(&disk.share, path, change);
    }

    /// Reports a change of `path` in `share`.
    pub(crate) fn changed_in(&self, share: &Share, path: &RelPath, change: Change) {
        if !self.opens.watches.is_idle() {
            let path = absolute(&share.location(), path);
            self.opens.watches.happened(&[Happening { action: change.action, path: &path, stream: "" }], change.filter);
        }
    }

    /// Reports a change of the stream `stream` of `path`, or of the file itself if the name is empty.
    pub(crate) fn stream_changed(&self, disk: &Disk, path: &RelPath, stream: &str, change: Change) {
        if self.opens.watches.is_idle() {
            return;
        }
        let stream = if stream.is_empty() { String::new() } else { format!(":{stream}") };
        let path = absolute(&disk.share.location(), path);
        self.opens
            .watches
            .happened(&[Happening { action: change.action, path: &path, stream: &stream }], change.filter);
    }

    /// Reports the rename of `from` to `to` ([MS-FSA] 2.1.5.15.12). `replaced`: that name belonged to another file.
    pub(crate) fn name_changed(&self, disk: &Disk, from: &RelPath, to: &RelPath, kind: Kind, replaced: bool) {
        if self.opens.watches.is_idle() {
            return;
        }
        let root = disk.share.location();
        if kind == Kind::Directory {
            self.opens.watches.moved(&absolute(&root, from), &absolute(&root, to));
        }
        if replaced {
            self.changed(disk, from, Change::removed(kind));
            self.changed(disk, to, Change::replaced());
        } else if from.parent() == to.parent() {
            let (from, to) = (absolute(&root, from), absolute(&root, to));
            let name = |action, path| Happening { action, path, stream: "" };
            let pair = [name(FileAction::RENAMED_OLD_NAME, &*from), name(FileAction::RENAMED_NEW_NAME, &*to)];
            self.opens.watches.happened(&pair, name_of(kind));
        } else {
            self.changed(disk, from, Change::removed(kind));
            self.changed(disk, to, Change::added(kind));
        }
    }

    /// Reports a change of the open file that concerns all its streams.
    pub(crate) fn file_changed(&self, disk: &Disk, file: &FileOpen, change: Change) {
        if !self.opens.watches.is_idle() {
            let path = file.name.path.lock().clone();
            self.changed(disk, &path, change);
        }
    }

    /// Reports that the size of the open file or stream was set, or that it was emptied.
    pub(crate) fn resized(&self, disk: &Disk, file: &FileOpen) {
        if self.opens.watches.is_idle() {
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
        if self.opens.watches.is_idle() {
            return;
        }
        file.unreported.add(match stream(file) {
            Some(_) => STREAM,
            None => CompletionFilter::LAST_WRITE | CompletionFilter::SIZE,
        });
        if file.unreported.is_due(self.environment.uptime()) {
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
        if file.kind == Kind::Directory && !self.opens.watches.is_idle() {
            let path = absolute(&disk.share.location(), &file.name.path.lock());
            self.opens.watches.doom(&path, file.file);
        }
    }
}
