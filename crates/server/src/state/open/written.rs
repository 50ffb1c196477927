//! The parts of a print job that its client has written. Requests in flight may be executed in another order than the
//! client has sent them, so there are holes for a time.

use std::collections::BTreeMap;

use crate::policy::limits::JOB_PARTS_MAX;

/// Ranges of a file, which neither overlap nor touch: the end of each by its beginning. Also the end of what could not
/// be written.
#[derive(Default, Debug)]
pub(crate) struct Written(BTreeMap<u64, u64>, u64);

impl Written {
    /// Returns the end of the last range.
    pub(crate) fn end(&self) -> u64 {
        self.0.last_key_value().map_or(0, |(_, end)| *end)
    }

    /// Returns whether everything before the end was written, and all that the client has tried to write.
    pub(crate) fn is_whole(&self) -> bool {
        self.end() >= self.1 && self.0.len() <= 1 && self.0.first_key_value().is_none_or(|(start, _)| *start == 0)
    }

    /// Returns whether another range can be noted.
    pub(crate) fn has_room(&self) -> bool {
        self.0.len() < JOB_PARTS_MAX
    }

    /// Notes that a range was not written. The client may write it again.
    pub(crate) fn miss(&mut self, end: u64) {
        self.1 = self.1.max(end);
    }

    /// Notes a range.
    pub(crate) fn add(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        // Those that it touches end up in one. Each is removed once, after it was added once.
        while let Some((&known, &until)) = self.0.range(..=end).next_back().filter(|(_, until)| **until >= start) {
            (start, end) = (start.min(known), end.max(until));
            self.0.remove(&known);
        }
        self.0.insert(start, end);
    }

    /// Forgets what is beyond `end`.
    pub(crate) fn cut(&mut self, end: u64) {
        self.1 = self.1.min(end);
        self.0.split_off(&end);
        if let Some(mut last) = self.0.last_entry() {
            *last.get_mut() = end.min(*last.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_known_until_they_are_filled() {
        let mut written = Written::default();
        assert_eq!((written.is_whole(), written.end()), (true, 0));
        for (start, end, whole, last) in [
            (0, 10, true, 10),
            (20, 30, false, 30),
            (40, 50, false, 50),
            (5, 25, false, 50),
            (30, 40, true, 50),
            (50, 50, true, 50),
            (0, 60, true, 60),
        ] {
            written.add(start, end);
            assert_eq!((written.is_whole(), written.end()), (whole, last), "{start}..{end}");
        }
        written.miss(80);
        assert!(!written.is_whole(), "a write has failed");
        written.add(60, 80);
        assert!(written.is_whole(), "and was repeated");
        written.miss(90);
        written.cut(80);
        assert!(written.is_whole(), "and is not wanted any more");
        written.cut(60);
        written.add(100, 110);
        written.cut(80);
        assert_eq!((written.is_whole(), written.end()), (true, 60));
        written.cut(7);
        assert_eq!(written.end(), 7);
        written.cut(0);
        written.add(1, 2);
        assert!(!written.is_whole(), "it does not begin at 0");
        (1..JOB_PARTS_MAX as u64).for_each(|at| written.add(at * 10, at * 10 + 1));
        assert!(!written.has_room());
    }
}
