//! When a write shows in the write time of an open file.
//!
//! At once, as on Windows since 10 1809; or later, as on Samba and on Windows before ([MS-FSA] 2.1.4.17, note 43), where
//! a share asks for it: some time after the first write, once, and again when the handle is closed. What is on disk
//! changes at once all the same; only what opens of the file are told is put off, listings tell what is on disk.

use std::time::Duration;

use super::Table;
use crate::vfs::{FileId, Metadata, Time};

/// What an open file shows as its write time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum WriteTime {
    /// The time on disk.
    #[default]
    OnDisk,
    /// The time from before the first write, until `until`; then the time on disk.
    Deferred { before: Time, until: Duration },
    /// The time at which the first write showed, whatever was written later.
    Settled { shown: Time },
}

impl WriteTime {
    /// The file is about to be written to; its write time is `modified`.
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
    /// The file is about to be written to, on a share that defers write times by `delay`.
    pub(crate) fn defer_write_time(&self, file: FileId, modified: Time, now: Duration, delay: Duration) {
        self.with(file, |state| state.write_time.write(modified, now, delay));
    }

    /// Ends the deferral: a flush, a close, or a change of size or times. Answers whether writes were left out of what
    /// was shown.
    pub(crate) fn settle_write_time(&self, file: FileId) -> bool {
        let before = self.with(file, |state| std::mem::take(&mut state.write_time));
        matches!(before, Some(WriteTime::Settled { .. }))
    }

    /// The metadata of an open file as it is to be shown.
    pub(crate) fn shown(&self, metadata: Metadata, now: Duration) -> Metadata {
        let modified = self.with(metadata.id, |state| state.write_time.show(metadata.modified, now));
        Metadata { modified: modified.unwrap_or(metadata.modified), ..metadata }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_write_shows_after_the_delay_and_later_ones_do_not() {
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
    fn writes_before_the_delay_is_over_are_one() {
        let at = |secs| Time { secs, nanos: 0 };
        let (second, delay) = (Duration::from_secs, Duration::from_secs(2));
        let mut time = WriteTime::default();
        time.write(at(100), second(1), delay);
        time.write(at(101), second(2), delay);
        assert_eq!(time.show(at(102), second(2)), at(100));
        assert_eq!(time.show(at(102), second(3)), at(102));
    }
}
