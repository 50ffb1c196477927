//! Summaries of byte-range locks in a tree, and the search for one that overlaps a range.

use super::{HeldLocks, Owner, Range};
use crate::files::tree::Element;

/// The largest last byte of several locks with its owner, and the largest one of all other owners.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    furthest: Option<(u64, Owner)>,
    of_others: Option<u64>,
}

impl Reach {
    /// Whether a lock of an owner other than `except` ends at or after `offset`.
    fn reaches(&self, offset: u64, except: Option<Owner>) -> bool {
        let last = match self.furthest {
            Some((_, owner)) if Some(owner) == except => self.of_others,
            furthest => furthest.map(|(last, _)| last),
        };
        last.is_some_and(|last| last >= offset)
    }
}

impl Element<(Range, Owner)> for u32 {
    type Summary = Reach;

    const NOTHING: Reach = Reach { furthest: None, of_others: None };

    fn summary(&self, (range, owner): &(Range, Owner)) -> Reach {
        Reach { furthest: range.last().map(|last| (last, *owner)), of_others: None }
    }

    fn join(first: &Reach, second: &Reach) -> Reach {
        let last = |reach: &Reach| reach.furthest.map(|(last, _)| last);
        let (more, less) = if last(first) >= last(second) { (first, second) } else { (second, first) };
        let other = match (more.furthest, less.furthest) {
            (Some((_, one)), Some((last, two))) if one != two => Some(last),
            _ => less.of_others,
        };
        Reach { furthest: more.furthest, of_others: more.of_others.max(other) }
    }
}

/// Returns a lock of an owner other than `except` that overlaps `range`.
pub(super) fn first(held: &HeldLocks, range: Range, except: Option<Owner>) -> Option<(Range, Owner)> {
    let last = range.last()?;
    // Of the locks that reach the range, this is the one with the smallest first byte.
    let found = held.first(None, |_, of| of.reaches(range.offset, except));
    found.filter(|(found, _)| found.offset <= last).copied()
}
