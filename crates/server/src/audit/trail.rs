//! The record of one tree connect.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::dtyp::FileTime;
use proto::status::Status;

use super::outcome::failure;
use super::queue::Queue;
use super::record::{Moment, Record, plain};
use crate::environment::Environment;
use crate::policy::audit::{Audit, Operation};
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
    pub client: String,
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
        [share, user, client]: [String; 3],
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
        Origin { prefix: prefix.unwrap_or_default(), share, user, client, priority: audit.priority, utc_offset }
    }

    pub(super) fn size(&self) -> usize {
        size_of::<Origin>() + self.prefix.len() + self.share.len() + self.user.len() + self.client.len()
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
        self.done(Operation::CONNECT, || vec![self.origin.share.clone()]);
    }

    /// Records the end of the tree connect, once.
    pub(crate) fn end(&self) {
        if !self.disconnected.swap(true, Ordering::Relaxed) {
            self.done(Operation::DISCONNECT, || vec![self.origin.share.clone()]);
        }
    }

    /// Returns the configuration.
    pub(crate) fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Records an operation that succeeded.
    pub(crate) fn done(&self, operation: Operation, arguments: impl FnOnce() -> Vec<String>) {
        if self.audit.success.contains(operation) {
            self.write(operation, None, arguments());
        }
    }

    /// Records an operation with its result.
    pub(crate) fn ended(&self, operation: Operation, status: Status, arguments: impl FnOnce() -> Vec<String>) {
        match failure(status) {
            None => self.done(operation, arguments),
            failure if self.audit.failure.contains(operation) => self.write(operation, failure, arguments()),
            Some(_) => {}
        }
    }

    fn write(&self, operation: Operation, failure: Option<&'static str>, arguments: Vec<String>) {
        let (origin, time) = (Arc::clone(&self.origin), self.environment.now());
        self.queue.push(Record { origin, time, operation, failure, arguments });
    }

    /// Returns the absolute path of a file of the share, and of a stream if it is one.
    pub(crate) fn path(&self, path: &RelPath, stream: Option<&str>) -> String {
        let mut text = if path.is_root() { self.root.clone() } else { format!("{}/{path}", self.root) };
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
