//! What the storage said about files with its replies, valid for a time or until the storage reports a change.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::vfs::{FileId, Metadata, Node, Op, Result, SERVER, WantedXattrs};

/// The attributes of a file.
#[derive(Clone)]
pub(super) struct Known {
    until: Duration,
    /// The number of the reply. No other reply has it.
    pub(super) number: u64,
    pub(super) metadata: Metadata,
    /// The names of its extended attributes.
    pub(super) names: Vec<String>,
    /// The values of those that are wanted.
    values: Vec<(String, Option<Vec<u8>>)>,
}

impl Known {
    /// Returns the value of a wanted attribute that every user may read.
    pub(super) fn value(&self, op: &Op, name: &str) -> Option<Option<Vec<u8>>> {
        let readable = op.is_server() || name.starts_with("security.") || name.starts_with("system.");
        let (_, value) = self.values.iter().find(|(known, _)| readable && known == name)?;
        Some(value.clone())
    }
}

/// The files that changed.
#[derive(Clone, Copy)]
pub(super) enum Changed {
    /// The attributes or the content of one.
    File(FileId),
    /// Names, and with them the directories, and the links and times of files.
    Names,
}

/// The attributes of files by id.
pub(super) struct KnownFiles {
    /// How long an answer is valid.
    valid: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: HashMap<FileId, Known>,
    /// The number of replies.
    replies: u64,
    /// The changes that the storage reports, each with the time when its report arrives, in this order.
    reports: VecDeque<(Duration, Changed)>,
}

impl State {
    fn forget(&mut self, changed: Changed) {
        match changed {
            Changed::File(file) => drop(self.files.remove(&file)),
            Changed::Names => self.files.clear(),
        }
    }
}

impl KnownFiles {
    /// Returns no files, whose attributes will be valid for the time `valid` after the reply that has them.
    pub(super) fn new(valid: Duration) -> KnownFiles {
        KnownFiles { valid, state: Mutex::default() }
    }

    /// Returns the state in which the reports have been taken into account that have arrived at `uptime`.
    fn at(&self, uptime: Duration) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while let Some(&(arrives, changed)) = state.reports.front()
            && arrives <= uptime
        {
            state.reports.pop_front();
            state.forget(changed);
        }
        state
    }

    /// Returns the attributes of a file if they are valid at `uptime`.
    pub(super) fn get(&self, file: FileId, uptime: Duration) -> Option<Known> {
        self.at(uptime).files.get(&file).filter(|known| uptime < known.until).cloned()
    }

    /// Records the attributes that a reply has for the file of `node`, and returns them.
    pub(super) async fn read(&self, node: &Arc<dyn Node>, wanted: &WantedXattrs, uptime: Duration) -> Result<Known> {
        let metadata = node.metadata(&SERVER).await?;
        let names = node.list_xattrs(&SERVER).await?;
        let mut values = Vec::new();
        for name in wanted.iter() {
            // An attribute that files of this kind cannot have is absent.
            values.push((name.to_owned(), node.get_xattr(&SERVER, name).await.unwrap_or_default()));
        }
        let until = uptime.saturating_add(self.valid);
        let mut state = self.at(uptime);
        state.replies += 1;
        let known = Known { until, number: state.replies, metadata, names, values };
        state.files.insert(metadata.id, known.clone());
        Ok(known)
    }

    /// Forgets what the server itself has changed.
    pub(super) fn forget(&self, changed: Changed) {
        self.state.lock().forget(changed);
    }

    /// Forgets a change by another client at the time `arrives`, when the storage's report arrives.
    pub(super) fn report(&self, arrives: Duration, changed: Changed) {
        self.state.lock().reports.push_back((arrives, changed));
    }
}
