//! The set of bytes covered by overlapping ranges. Queries take logarithmic time, however many ranges cover a byte.

use std::ops::Range;

use crate::files::tree::{Element, Tree};

/// The number of ranges that begin at a byte minus the number of those that end before it.
#[derive(Clone, Copy, Debug)]
struct Edge(i64);

/// The sum of several edges, and the minimum sum of a non-empty prefix.
#[derive(Clone, Copy, Debug)]
struct Sum {
    all: i64,
    least: i64,
}

impl Element<u64> for Edge {
    type Summary = Sum;

    /// There is no prefix, so this exceeds any number of ranges.
    const NOTHING: Sum = Sum { all: 0, least: i64::MAX / 2 };

    fn summary(&self, _: &u64) -> Sum {
        Sum { all: self.0, least: self.0 }
    }

    fn join(first: &Sum, second: &Sum) -> Sum {
        Sum { all: first.all + second.all, least: first.least.min(first.all + second.least) }
    }
}

/// The bytes covered by ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct Coverage(Tree<u64, Edge>);

impl Coverage {
    /// Adds a range, which must not be empty.
    pub(super) fn add(&mut self, range: &Range<u64>) {
        self.shift(range.start, 1);
        self.shift(range.end, -1);
    }

    /// Removes a range that was added before.
    pub(super) fn remove(&mut self, range: &Range<u64>) {
        self.shift(range.start, -1);
        self.shift(range.end, 1);
    }

    fn shift(&mut self, at: u64, by: i64) {
        self.0.change(at, |edge| Some(Edge(edge.map_or(0, |edge| edge.0) + by)).filter(|edge| edge.0 != 0));
    }

    /// Splits `range` into parts in order, each with whether it is covered.
    pub(super) fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, bool)> + '_ {
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let covered = self.0.until(&at).all > 0;
            let next = at.checked_add(1);
            // If no range covers a byte, the next edge starts one.
            let turn = self.0.first(next.as_ref(), |before, of| !covered || before.all + of.least <= 0);
            let end = turn.copied().unwrap_or(range.end).min(range.end);
            let part = at..end;
            at = end;
            Some((part, covered))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::files::tree::steps;

    proptest! {
        #[test]
        fn parts_agree_with_a_count_per_byte(
            ranges in prop::collection::vec((0..30u64, 1..9u64, any::<bool>()), 0..30),
            start in 0..30u64,
        ) {
            let (mut coverage, mut counts) = (Coverage::default(), [0; 48]);
            for (start, length, goes) in ranges {
                coverage.add(&(start..start + length));
                if goes {
                    coverage.remove(&(start..start + length));
                } else {
                    counts[start as usize..(start + length) as usize].iter_mut().for_each(|count| *count += 1);
                }
            }
            let parts: Vec<_> = coverage.parts(start..40).collect();
            prop_assert!(parts.windows(2).all(|pair| pair[0].0.end == pair[1].0.start && pair[0].1 != pair[1].1));
            let bytes: Vec<_> = parts.into_iter().flat_map(|(range, covered)| range.map(move |_| covered)).collect();
            prop_assert_eq!(bytes, counts[start as usize..40].iter().map(|count| *count > 0).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_coverage_of_thousands_of_ranges_is_found_in_a_few_steps() {
        let mut coverage = Coverage::default();
        for number in 0..8_000 {
            coverage.add(&(number * 2..number * 2 + 5));
        }
        let (parts, steps) = steps::of(|| coverage.parts(0..20_000).collect::<Vec<_>>());
        assert_eq!(parts, [(0..16_003, true), (16_003..20_000, false)]);
        assert!(steps < 200, "{steps}");
    }
}
