//! Known positions in an enumeration that a client continues by entry number. Enumerations are ordered by name, so
//! without them each request would have to count entries from the beginning.

use crate::policy::limits::POSITIONS_PER_HANDLE;

/// An enumeration of users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum List {
    /// Users whose account flags match these.
    Users(u32),
    /// Users displayed with this information class.
    Display(u16),
}

/// A position in an enumeration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Place {
    pub(in super::super) list: List,
    /// The number of entries before it.
    pub(in super::super) number: u32,
    /// The name of the entry before it.
    pub(in super::super) after: String,
}

/// Positions in the enumeration that was last used.
#[derive(Default)]
pub(super) struct Places {
    /// The latest position, where most clients continue.
    last: Option<Place>,
    /// Other positions in ascending order, at least `apart` entries from each other.
    marks: Vec<Place>,
    apart: u32,
}

impl Places {
    /// Returns the last known position at or before entry `number` of `list`.
    pub(super) fn before(&self, list: List, number: u32) -> Option<Place> {
        let end = self.marks.partition_point(|place| place.number <= number);
        let fits = |place: &&Place| place.list == list && place.number <= number;
        let mark = self.marks[..end].last().filter(fits);
        mark.into_iter().chain(self.last.iter().filter(fits)).max_by_key(|place| place.number).cloned()
    }

    /// Stores a position. If there are too many, every other one is removed, and the minimum distance for new ones is
    /// increased. Positions thus stay evenly distributed, however long the enumeration is.
    pub(super) fn put(&mut self, place: Place) {
        if self.last.as_ref().is_some_and(|last| last.list != place.list) {
            *self = Places::default();
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
        let at = self.marks.partition_point(|other| other.number < place.number);
        let near = |other: &Place| other.number.abs_diff(place.number) < self.apart.max(1);
        if !self.marks[..at].last().is_some_and(near) && !self.marks.get(at).is_some_and(near) {
            self.marks.insert(at, place.clone());
        }
        self.last = Some(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: List = List::Users(0);

    fn place(number: u32) -> Place {
        Place { list: LIST, number, after: format!("{number:06}") }
    }

    #[test]
    fn few_positions_are_spread_evenly_over_a_long_list() {
        let mut places = Places::default();
        (1..=1500).for_each(|page| places.put(place(page * 200)));
        assert!(places.marks.len() <= POSITIONS_PER_HANDLE && places.marks.is_sorted_by_key(|place| place.number));
        for wanted in (20_000..300_000).step_by(777) {
            let before = places.before(LIST, wanted).expect("a position before it");
            assert!(before.number <= wanted && wanted - before.number <= 20_000, "{wanted}: {}", before.number);
        }
        assert_eq!(places.before(LIST, 300_000), Some(place(300_000)));
        assert_eq!(places.before(LIST, 0), None);
    }

    #[test]
    fn another_list_has_its_own_positions() {
        let mut places = Places::default();
        places.put(place(5));
        places.put(Place { after: "other".into(), ..place(5) });
        assert_eq!(places.before(LIST, 7).map(|place| place.after), Some("other".into()));
        let display = List::Display(1);
        assert_eq!(places.before(display, 7), None);
        places.put(Place { list: display, ..place(6) });
        assert_eq!((places.before(display, 5), places.before(LIST, 7)), (None, None));
    }
}
