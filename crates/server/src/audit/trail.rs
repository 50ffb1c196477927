//! The record of one tree connect.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::dtyp::FileTime;
use proto::status::Status;

use super::Event;
use super::outcome::failure;
use super::queue::{Queue, Reservation};
use super::record::{Moment, Moved, Record, plain};
use crate::environment::Environment;
use crate::policy::audit::{Audit, Operation, Operations, Overflow};
use crate::policy::snapshots::UtcOffset;
use crate::policy::template::Variable;
use crate::vfs::RelPath;

/// What all lines of a tree connect have in common.
#[derive(Debug)]
pub struct Origin {
    /// The expanded prefix. It has [`TIME`] and [`TIME_PLAIN`] in the places of the time variables.
    prefix: String,
    /// The share's name.
    pub share: String,
    /// The user's name.
    pub user: String,
    /// The client's address.
    pub address: String,
    /// The session.
    pub session: u64,
    /// The priority value of syslog.
    pub priority: u8,
    utc_offset: UtcOffset,
}

/// The marks of `%T` and `%t`, whose values differ between lines. Values of other variables have no control characters.
const TIME: char = '\u{1}';
const TIME_PLAIN: char = '\u{2}';

/// The time that Samba writes in place of one that was not set.
const UNSET_TIME: i64 = 1;

impl Origin {
    /// Returns what the lines of a tree connect have in common. `value` returns the values of variables.
    pub fn new(
        audit: &Audit,
        [share, user, address]: [String; 3],
        session: u64,
        utc_offset: UtcOffset,
        value: impl Fn(Variable) -> Option<String>,
    ) -> Origin {
        let prefix = audit.prefix.expand(|variable| {
            Some(match variable {
                Variable::TIME => TIME.to_string(),
                Variable::TIME_PLAIN => TIME_PLAIN.to_string(),
                Variable::PROCESS => std::process::id().to_string(),
                // A client chooses some of the values, which must not look like another field or line.
                other => plain(&value(other).unwrap_or_default()).replace('|', "_"),
            })
        });
        let (prefix, priority) = (prefix.unwrap_or_default(), audit.priority);
        Origin { prefix, share, user, address, session, priority, utc_offset }
    }

    pub(super) fn size(&self) -> usize {
        size_of::<Origin>() + self.prefix.len() + self.share.len() + self.user.len() + self.address.len()
    }

    pub(super) fn moment(&self, secs: i64) -> Moment {
        Moment::new(secs, (self.utc_offset)(secs))
    }

    /// Returns the prefix of a line that was written at `time`.
    pub(super) fn prefix_at(&self, time: crate::vfs::Time) -> Cow<'_, str> {
        if !self.prefix.contains([TIME, TIME_PLAIN]) {
            return self.prefix.as_str().into();
        }
        let moment = self.moment(time.secs);
        let with_time = self.prefix.replace(TIME, &moment.with_slashes());
        with_time.replace(TIME_PLAIN, &moment.without_separators()).into()
    }
}

/// The record of one tree connect.
pub struct Trail {
    audit: Arc<Audit>,
    origin: Arc<Origin>,
    root: String,
    queue: Arc<Queue>,
    environment: Arc<dyn Environment>,
    disconnected: AtomicBool,
}

impl Trail {
    /// Returns the record of a tree connect of the share in the directory `root`.
    pub(crate) fn new(
        audit: &Arc<Audit>,
        origin: Origin,
        root: &Path,
        queue: Arc<Queue>,
        environment: &Arc<dyn Environment>,
    ) -> Trail {
        let root = root.to_string_lossy().trim_end_matches('/').to_owned();
        Trail {
            audit: Arc::clone(audit),
            origin: Arc::new(origin),
            root,
            queue,
            environment: Arc::clone(environment),
            disconnected: AtomicBool::new(false),
        }
    }

    /// Records the beginning of the tree connect.
    pub(crate) fn begin(&self) {
        self.follows(Operation::CONNECT, Status::SUCCESS, || vec![self.origin.share.clone()], Moved::Nothing);
    }

    /// Records the end of the tree connect, once.
    pub(crate) fn end(&self) {
        if !self.disconnected.swap(true, Ordering::Relaxed) {
            self.follows(Operation::DISCONNECT, Status::SUCCESS, || vec![self.origin.share.clone()], Moved::Nothing);
        }
    }

    /// Returns the configuration.
    pub(crate) fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Returns whether any of the operations is recorded if it succeeds or fails.
    pub(crate) fn records(&self, operations: &[Operation]) -> bool {
        let listed = |set: Operations| operations.iter().any(|operation| set.contains(*operation));
        listed(self.audit.success) || listed(self.audit.failure)
    }

    /// Returns whether requests whose events do not fit are refused.
    pub(crate) fn refuses(&self) -> bool {
        self.audit.overflow == Overflow::Refuse
    }

    /// Returns how many of the operations are recorded if they succeed or fail.
    pub(crate) fn count(&self, operations: &[Operation]) -> usize {
        operations.iter().filter(|operation| self.records(&[**operation])).count()
    }

    /// Reserves room for `count` events of a request with a path of at most `path` bytes, and `more` bytes of other
    /// arguments; `None` if there is not enough.
    pub(crate) fn reserve(&self, count: usize, path: usize, more: usize) -> Option<Reservation> {
        self.queue.reserve(count * (Record::most(&self.origin) + self.root.len() + path) + more)
    }

    /// Records an operation that succeeded.
    pub(crate) fn done(&self, operation: Operation, arguments: impl FnOnce() -> Vec<String>) {
        self.ended(operation, Status::SUCCESS, arguments);
    }

    /// Records an operation with its result.
    pub(crate) fn ended(&self, operation: Operation, status: Status, arguments: impl FnOnce() -> Vec<String>) {
        self.moved(operation, status, arguments, Moved::Nothing);
    }

    /// Records an operation with its result and the bytes that it has moved.
    pub(crate) fn moved(
        &self,
        operation: Operation,
        status: Status,
        arguments: impl FnOnce() -> Vec<String>,
        moved: Moved,
    ) {
        if let Some(record) = self.record(operation, status, arguments, moved) {
            match self.refuses() {
                true => self.queue.push_reserved(record),
                false => self.queue.push(record),
            }
        }
    }

    /// Records an operation that cannot be refused, so that no room is reserved for it: an end, and what follows it.
    pub(crate) fn follows(
        &self,
        operation: Operation,
        status: Status,
        arguments: impl FnOnce() -> Vec<String>,
        moved: Moved,
    ) {
        if let Some(record) = self.record(operation, status, arguments, moved) {
            self.queue.push(record);
        }
    }

    fn record(
        &self,
        operation: Operation,
        status: Status,
        arguments: impl FnOnce() -> Vec<String>,
        moved: Moved,
    ) -> Option<Event> {
        let failure = failure(status);
        let wanted = if failure.is_none() { self.audit.success } else { self.audit.failure };
        if !wanted.contains(operation) {
            return None;
        }
        let (origin, time, arguments) = (Arc::clone(&self.origin), self.environment.now(), arguments());
        Some(Event::Operation(Record { origin, time, operation, failure, arguments, moved }))
    }

    /// Returns the absolute path of a file of the share, and of a stream if it is one.
    pub(crate) fn path(&self, path: &RelPath, stream: Option<&str>) -> String {
        let mut text = String::with_capacity(self.root.len() + 64);
        text.push_str(&self.root);
        for component in path.components() {
            text.push('/');
            text.push_str(&String::from_utf8_lossy(component));
        }
        if text.is_empty() {
            text.push('/');
        }
        if let Some(stream) = stream {
            text.push(':');
            text.push_str(stream);
        }
        text
    }

    /// Returns a time that a client sets, as an argument.
    pub(crate) fn time(&self, time: FileTime) -> String {
        let secs = if time.is_time() { time.to_unix().0 } else { UNSET_TIME };
        self.origin.moment(secs).with_zone()
    }
}

impl fmt::Debug for Trail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Trail").field(&self.origin).finish()
    }
}
