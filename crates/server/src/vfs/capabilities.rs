//! What a file system can do, declared once when it is opened.

use std::time::Duration;

use super::{Time, WantedXattrs};

/// The abilities of a share's file system, constant while it is open. A file system mounted below the share's directory
/// may differ; an operation that it does not support fails when it is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The kind of ACL that its files have beside their permission bits.
    pub acls: AclKind,
    /// How changes become known that others make.
    pub changes: Changes,
    /// [`Node::lease`](super::Node::lease) works.
    pub leases: bool,
    /// [`Node::lock`](super::Node::lock) works.
    pub locks: bool,
    /// For which users it enforces permissions.
    pub enforcement: Enforcement,
    /// The extended attributes whose absence the metadata of a file may show
    /// ([`Metadata::absent`](super::Metadata::absent)).
    pub attributes: WantedXattrs,
    /// Its optional features.
    pub features: Features,
}

/// Optional features of a file system that clients can observe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// [`Node::copy`](super::Node::copy) can share space.
    pub clones: bool,
    /// [`SetMetadata::compressed`](super::SetMetadata::compressed) works.
    pub compresses: bool,
    /// [`Extent::Zero`](super::Extent::Zero) releases space.
    pub punches: bool,
    /// [`Metadata::allocated`](super::Metadata::allocated) includes space beyond the file's size that
    /// [`Extent::Reserve`](super::Extent::Reserve) reserved.
    pub shows_reserved: bool,
}

/// The kind of ACL that files have beside their permission bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AclKind {
    /// POSIX ACLs in the extended attributes that Linux uses for them.
    Posix,
    /// None. The server need not ask for any.
    None,
}

/// For which users a file system enforces the permissions of files. The server itself
/// ([`Op::is_server`](super::Op::is_server)) may always do everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enforcement {
    /// For all but a user with uid 0. That user may do everything, as on Linux.
    ExceptRoot,
    /// For all users. A user with uid 0 has the permissions that [`Node::permissions`](super::Node::permissions)
    /// returns.
    AllUsers,
}

/// How changes that others make to the files become known.
///
/// Every kind has the granularity of the clock that stamps the files ([`Metadata::stamped`](super::Metadata::stamped)),
/// because the server detects its own changes by these times too. Two changes in quick succession may get the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changes {
    /// Only this server changes them, so what it has read stays valid until it changes it. The file system shows each
    /// change as soon as it is made.
    Own {
        /// How long ago a change must be for its time to differ from that of every later change. It is zero if the
        /// files do not change.
        granularity: Duration,
    },
    /// The storage reports each change by others a short time after it. The file system shows what it knows until
    /// the report, and all that has changed from then on.
    Callback {
        /// How long ago a change must be for its time to differ from that of every later change.
        granularity: Duration,
        /// The longest time from a change to its report.
        delay: Duration,
    },
    /// By the change times of files.
    Timestamp {
        /// How long ago a change must be for its time to differ from that of every later change. It includes the time
        /// for which the file system shows what it knows of a file without asking the storage.
        granularity: Duration,
        /// The granularity for a time of whole seconds, which may be that of a file with coarser times than the file
        /// system.
        of_whole_seconds: Duration,
    },
    /// Not by reports, and not all of them by change times. Nothing can be cached under a change time.
    Unknown {
        /// How long the file system shows what it knows without asking the storage.
        valid: Duration,
    },
}

/// Clock granularity of a file system whose clock is unknown. Linux takes time stamps from a clock that advances every
/// 10 ms at the slowest.
pub const GRANULARITY: Duration = Duration::from_millis(20);

impl Changes {
    /// Returns how long ago a change at `stamped` ([`Metadata::stamped`](super::Metadata::stamped)) must be when the
    /// file is read, so that what was read can be cached under that time, because every later change gets another time.
    pub fn granularity(&self, stamped: Time) -> Duration {
        match *self {
            Changes::Own { granularity } => granularity,
            // What is read may be as old as an unreported change.
            Changes::Callback { granularity, delay } => granularity + delay,
            Changes::Timestamp { granularity, of_whole_seconds } if stamped.nanos == 0 => {
                granularity.max(of_whole_seconds)
            }
            Changes::Timestamp { granularity, .. } => granularity,
            Changes::Unknown { .. } => Duration::MAX,
        }
    }

    /// Returns the longest time from a change by others until the file system shows it. `None` if nobody else changes
    /// the files.
    pub fn shown_within(&self) -> Option<Duration> {
        match *self {
            Changes::Own { .. } => None,
            Changes::Callback { delay, .. } => Some(delay),
            Changes::Timestamp { granularity, .. } => Some(granularity),
            Changes::Unknown { valid } => Some(valid),
        }
    }
}
