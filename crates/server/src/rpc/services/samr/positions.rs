//! Known positions in an enumeration that a client continues by entry number. Enumerations are ordered by name, so
//! without them each request would have to count entries from the beginning.

use crate::policy::limits::POSITIONS_PER_HANDLE;

/// An enumeration of users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EnumerationKind {
    /// Users whose account flags match these.
    Users(u32),
    /// Users displayed with this information class.
    Display(u16),
}

/// A position in an enumeration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Position {
    pub(super) enumeration: EnumerationKind,
    /// The number of entries before it.
    pub(super) number: u32,
    /// The name of the entry before it.
    pub(super) after: String,
}

/// Positions in the enumeration that was last used.
#[derive(Default)]
pub(super) struct Positions {
    /// The latest position, where most clients continue.
    last: Option<Position>,
    /// Other positions in ascending order, at least `apart` entries from each other.
    marks: Vec<Position>,
    apart: u32,
}

impl Positions {
    /// Returns the last known position at or before entry `number` of `enumeration`.
    pub(super) fn before(&self, enumeration: EnumerationKind, number: u32) -> Option<Position> {
        let end = self.marks.partition_point(|position| position.number <= number);
        let fits = |position: &&Position| position.enumeration == enumeration && position.number <= number;
        let mark = self.marks[..end].last().filter(fits);
        mark.into_iter().chain(self.last.iter().filter(fits)).max_by_key(|position| position.number).cloned()
    }

    /// Stores a position. If there are too many, every other one is removed, and the minimum distance for new ones is
    /// increased. Positions thus stay evenly distributed, however long the enumeration is.
    pub(super) fn put(&mut self, position: Position) {
        if self.last.as_ref().is_some_and(|last| last.enumeration != position.enumeration) {
            *self = Positions::default();
        }
        if self.marks.len() >= POSITIONS_PER_HANDLE {
            let mut index = 0;
            self.marks.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            let distances = self.marks.windows(2).map(|two| two[1].number - two[0].number);
            self.apart = distances.min().unwrap_or(0).max(self.apart.saturating_mul(2)).max(1);
        }
        let at = self.marks.partition_point(|other| other.number < position.number);
        let near = |other: &Position| other.number.abs_diff(position.number) < self.apart.max(1);
        if !self.marks[..at].last().is_some_and(near) && !self.marks.get(at).is_some_and(near) {
            self.marks.insert(at, position.clone());
        }
        self.last = Some(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: EnumerationKind = EnumerationKind::Users(0);

    fn position(number: u32) -> Position {
        Position { enumeration: LIST, number, after: format!("{number:06}") }
    }

    #[test]
    fn few_positions_are_spread_evenly_over_a_long_enumeration() {
        let mut positions = Positions::default();
        (1..=1500).for_each(|page| positions.put(position(page * 200)));
        assert!(
            positions.marks.len() <= POSITIONS_PER_HANDLE
                && positions.marks.is_sorted_by_key(|position| position.number)
        );
        for wanted in (20_000..300_000).step_by(777) {
            let before = positions.before(LIST, wanted).expect("a position before it");
            assert!(before.number <= wanted && wanted - before.number <= 20_000, "{wanted}: {}", before.number);
        }
        assert_eq!(positions.before(LIST, 300_000), Some(position(300_000)));
        assert_eq!(positions.before(LIST, 0), None);
    }

    #[test]
    fn another_enumeration_has_its_own_positions() {
        let mut positions = Positions::default();
        positions.put(position(5));
        positions.put(Position { after: "other".into(), ..position(5) });
        assert_eq!(positions.before(LIST, 7).map(|position| position.after), Some("other".into()));
        let display = EnumerationKind::Display(1);
        assert_eq!(positions.before(display, 7), None);
        positions.put(Position { enumeration: display, ..position(6) });
        assert_eq!((positions.before(display, 5), positions.before(LIST, 7)), (None, None));
    }
}
