//! The contract of [`Vfs`] as checks that panic where an implementation violates it. They run against `memory` here,
//! and each crate that implements the trait runs them against its own. Needs the feature `contract` outside this
//! crate's tests.

mod attributes;
mod coherence;
mod content;
mod handles;
mod local;
mod names;
mod private;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{
    Access, Case, Create, Created, Errno, FileId, Kind, ListRequest, Lookup, LookupOptions, Metadata, NewFile, Node,
    Op, Page, RangeChange, RangeLock, RelPath, RenameRequest, Replace, Result, SERVER, SetMetadata, SymlinkPolicy,
    Time, Vfs, read_into,
};
use crate::answer::{Answer, block_on};

/// Creates a symbolic link at a path, with a target.
pub type MakeLink = Box<dyn Fn(&RelPath, &[u8])>;

/// Lets this much time pass, by the clock of the file system.
pub type LetPass = Box<dyn Fn(Duration)>;

/// Makes the next write fail late with an error.
pub type FailLate = Box<dyn Fn(Errno)>;

/// A fresh file system to check.
pub struct Fixture {
    /// The file system; its root is empty.
    pub vfs: Arc<dyn Vfs>,
    /// A user who owns the root directory and may do everything in it.
    pub owner: Op,
    /// Another user, who is not root and shares no group with `owner` but may search the root directory; `None` where
    /// the process cannot act as another user.
    pub other: Option<Op>,
    /// Creates links; `None` where links are not supported.
    pub symlink: Option<MakeLink>,
    /// The same files as another program or another client of the storage sees them; `None` where no other can change
    /// them. Its changes are those of others for `vfs`.
    pub others: Option<Arc<dyn Vfs>>,
    /// Lets time pass.
    pub let_pass: LetPass,
    /// Has the next write accepted and not carried out; `None` where that does not happen.
    pub fail_late: Option<FailLate>,
    /// Resources that must live as long as the file system (a temporary directory, for example).
    pub keep: Box<dyn Any>,
}

/// Runs every check, each on a fresh file system.
///
/// # Panics
/// At the first violation.
pub fn check(fresh: &dyn Fn() -> Fixture) {
    let checks = [
        &names::CHECKS[..],
        &content::CHECKS,
        &attributes::CHECKS,
        &handles::CHECKS,
        &local::CHECKS,
        &private::CHECKS,
        &coherence::CHECKS,
    ];
    for check in checks.into_iter().flatten() {
        check(&fresh());
    }
}

const READ: Access = Access { read: true, write: false };
const BOTH: Access = Access { read: true, write: true };
const NO_LINKS: SymlinkPolicy = SymlinkPolicy::NONE;

/// A path from its text.
fn path(text: &str) -> RelPath {
    let mut path = RelPath::root();
    for name in text.split('/').filter(|name| !name.is_empty()) {
        assert!(path.push(name.as_bytes()), "{text}");
    }
    path
}

fn time(secs: i64) -> Time {
    Time { secs, nanos: 123_456_700 }
}

impl Fixture {
    fn lookup(&self, text: &str) -> Result<Lookup> {
        self.lookup_as(&self.owner, text, Case::Insensitive, NO_LINKS)
    }

    fn lookup_as(&self, who: &Op, text: &str, case: Case, links: SymlinkPolicy) -> Result<Lookup> {
        block_on(self.vfs.lookup(who, &path(text), LookupOptions { case, links, access: Access::default() }))
    }

    #[track_caller]
    fn found(&self, text: &str) -> (RelPath, Arc<dyn Node>, Metadata) {
        match self.lookup(text) {
            Ok(Lookup::Found { path, node, metadata }) => (path, node, metadata),
            Ok(Lookup::Missing { .. }) => panic!("{text} is missing"),
            Ok(Lookup::NoParent) => panic!("{text} has no parent"),
            Err(error) => panic!("{text}: {error:?}"),
        }
    }

    #[track_caller]
    fn missing(&self, text: &str) {
        assert!(matches!(self.lookup(text), Ok(Lookup::Missing { .. })), "{text} exists");
    }

    fn create(&self, text: &str, what: Create) -> Result<(Arc<dyn Node>, Metadata)> {
        let made = block_on(self.vfs.create(&self.owner, &path(text), NewFile::new(what, 0o755)));
        made.map(Created::opened)
    }

    #[track_caller]
    fn directory(&self, text: &str) -> (Arc<dyn Node>, FileId) {
        let (node, metadata) = self.create(text, Create::Directory).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        (node, metadata.id)
    }

    /// Creates a file with content.
    #[track_caller]
    fn file(&self, text: &str, content: &str) -> (Arc<dyn Node>, FileId) {
        let made = self.create(text, Create::File(BOTH));
        let (node, metadata) = made.unwrap_or_else(|error| panic!("{text}: {error:?}"));
        self.write(&node, 0, content.as_bytes());
        (node, metadata.id)
    }

    #[track_caller]
    fn write(&self, node: &Arc<dyn Node>, offset: u64, data: &[u8]) {
        assert_eq!(block_on(node.write(&self.owner, offset, Bytes::copy_from_slice(data).into(), false)), Ok(()));
    }

    #[track_caller]
    fn content(&self, text: &str) -> String {
        let (_, node, metadata) = self.found(text);
        let node = block_on(node.open(&self.owner, READ)).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        String::from_utf8(read(&node, 0, metadata.size as usize)).expect("the content is valid UTF-8")
    }

    /// Waits until every change of the file of `node` gets another time than the last one.
    fn settle(&self, node: &Arc<dyn Node>) {
        let changes = self.vfs.capabilities().changes;
        let granularity = changes.granularity(stat(node).stamped);
        (self.let_pass)(if granularity == Duration::MAX { Duration::ZERO } else { granularity });
    }

    fn rename(&self, from: &str, id: FileId, to: &str, replace: bool) -> Result<()> {
        let replace = if replace { Replace::Any } else { Replace::Nothing };
        self.rename_replacing(from, id, to, replace)
    }

    fn rename_replacing(&self, from: &str, id: FileId, to: &str, replace: Replace) -> Result<()> {
        block_on(self.vfs.rename(&self.owner, RenameRequest::new(&path(from), id, &path(to)).replacing(replace)))
    }

    fn unlink(&self, text: &str, id: FileId, kind: Kind) -> Result<()> {
        block_on(self.vfs.unlink(&self.owner, &path(text), id, kind)).map(|_| ())
    }

    /// Lists all names of a directory, `count` at a time.
    #[track_caller]
    fn names(&self, text: &str, count: usize) -> Vec<String> {
        let (_, node, _) = self.found(text);
        let node = block_on(node.open(&self.owner, READ)).expect("the owner may list");
        let (mut names, mut cursor) = (Vec::new(), 0);
        loop {
            let Page { entries, next, .. } =
                block_on(node.list(&self.owner, ListRequest { cursor, count, metadata: false }))
                    .expect("the directory can be listed");
            if entries.is_empty() {
                names.sort();
                return names;
            }
            names.extend(entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()));
            cursor = next;
        }
    }
}

/// Reads a range and returns the bytes that were read.
#[track_caller]
fn read(node: &Arc<dyn Node>, offset: u64, length: usize) -> Vec<u8> {
    let (mut buffer, count) = block_on(read_into(node, &SERVER, offset, vec![0xee; length], 0));
    buffer.truncate(count.unwrap_or_else(|error| panic!("a read fails: {error:?}")));
    buffer
}

#[track_caller]
fn now<T>(answer: Answer<Result<T>>) -> T {
    block_on(answer).unwrap_or_else(|error| panic!("the call fails: {error:?}"))
}

/// Changes whether the file system compresses the file.
fn compress(node: &Arc<dyn Node>, op: &Op, compressed: bool) -> Result<()> {
    block_on(node.set_metadata(op, SetMetadata { compressed: Some(compressed), ..SetMetadata::default() }))
}

/// Sets the lock on one range, whatever it was before.
fn lock(node: &Arc<dyn Node>, op: &Op, offset: u64, length: u64, after: RangeLock) -> Result<()> {
    block_on(node.lock(op, vec![RangeChange { offset, length, before: RangeLock::Free, after }], false))
}

#[track_caller]
fn is_empty(node: &Arc<dyn Node>, op: &Op) -> bool {
    block_on(crate::vfs::is_empty(node, op)).unwrap_or_else(|error| panic!("the call fails: {error:?}"))
}

#[track_caller]
fn stat(node: &Arc<dyn Node>) -> Metadata {
    now(node.metadata(&SERVER))
}
