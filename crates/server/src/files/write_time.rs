//! Deferred updates of the write time of open files.
//!
//! A write shows in the write time at once, as on Windows since 10 1809. If so configured, it shows later, as on Samba
//! and on earlier versions of Windows ([MS-FSA] 2.1.4.17, note 43): once, some time after the first write, and again
//! when the handle is closed. The time on disk is always updated at once. Only the time reported for opens of the file
//! is deferred; directory listings report the time on disk.

use std::time::Duration;

use super::Table;
use crate::vfs::{FileId, Metadata, Time};

/// The write time reported for an open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum WriteTime {
    /// The time on disk.
    #[default]
    OnDisk,
    /// The time from before the first write, until `until`; then the time on disk.
    Deferred { before: Time, until: Duration },
    /// The time reported after the first write became visible, regardless of later writes.
    Settled { shown: Time },
}

impl WriteTime {
    /// Called before a write to the file, whose write time is `modified`.
    fn write(&mut self, modified: Time, now: Duration, delay: Duration) {
        match *self {
            WriteTime::OnDisk => *self = WriteTime::Deferred { before: modified, until: now.saturating_add(delay) },
            WriteTime::Deferred { until, .. } if now >= until => *self = WriteTime::Settled { shown: modified },
            WriteTime::Deferred { .. } | WriteTime::Settled { .. } => {}
        }
    }

    fn show(&self, modified: Time, now: Duration) -> Time {
        match *self {
            WriteTime::Deferred { before, until } if now < until => before,
            WriteTime::Settled { shown } => shown,
            WriteTime::OnDisk | WriteTime::Deferred { .. } => modified,
        }
    }
}

impl Table {
    /// Called before a write to the file, on a share that defers write times by `delay`.
    pub(crate) fn defer_write_time(&self, file: FileId, modified: Time, now: Duration, delay: Duration) {
        self.with(file, |state| state.write_time.write(modified, now, delay));
    }

    /// Ends the deferral, on a flush, a close, or a change of size or times. Returns whether the reported time lacked
    /// later writes.
    pub(crate) fn settle_write_time(&self, file: FileId) -> bool {
        let before = self.with(file, |state| std::mem::take(&mut state.write_time));
        matches!(before, Some(WriteTime::Settled { .. }))
    }

    /// Returns the metadata of an open file to be reported.
    pub(crate) fn shown(&self, metadata: Metadata, now: Duration) -> Metadata {
        let modified = self.with(metadata.id, |state| state.write_time.show(metadata.modified, now));
        Metadata { modified: modified.unwrap_or(metadata.modified), ..metadata }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_write_is_shown_after_the_delay_and_later_ones_are_not() {
        let at = |secs| Time { secs, nanos: 0 };
        let (second, delay) = (Duration::from_secs, Duration::from_secs(2));
        let mut time = WriteTime::default();
        assert_eq!(time.show(at(100), second(0)), at(100));
        time.write(at(100), second(1), delay);
        assert_eq!(time.show(at(101), second(2)), at(100));
        assert_eq!(time.show(at(101), second(3)), at(101));
        time.write(at(101), second(4), delay);
        assert_eq!(time.show(at(104), second(9)), at(101));
        time.write(at(104), second(10), delay);
        assert_eq!(time.show(at(110), second(11)), at(101));
    }

    #[test]
    fn writes_within_the_delay_are_one() {
        let at = |secs| Time { secs, nanos: 0 };
        let (second, delay) = (Duration::from_secs, Duration::from_secs(2));
        let mut time = WriteTime::default();
        time.write(at(100), second(1), delay);
        time.write(at(101), second(2), delay);
        assert_eq!(time.show(at(102), second(2)), at(100));
        assert_eq!(time.show(at(102), second(3)), at(102));
    }
}
