//! Derives the range of ACL lengths for which storing pays off from the measured times.

use server::policy::Entries;

use super::saved::{ACCESSES, Sample, Times};

/// Returns the ACL lengths for which a descriptor is worth storing: the longest run of consecutive lengths for which it
/// pays off. The range is open-ended if that run ends with the longest measured length. A single length is ignored as
/// noise.
pub(super) fn entries(samples: &[Sample]) -> Entries {
    let rows = samples.chunk_by(|a, b| pays(a) == pays(b)).filter(|row| row.len() > 1 && row.iter().all(pays));
    let Some((first, last)) = rows.max_by_key(|row| row.len()).and_then(|row| Some((row.first()?, row.last()?))) else {
        return Entries::NONE;
    };
    match samples.last().is_some_and(|longest| longest.entries == last.entries) {
        true => Entries::at_least(first.entries),
        false => Entries::between(first.entries, last.entries),
    }
}

/// Returns whether storing pays off, both with warm and with cold caches. Repeated requests are answered from the
/// server's cache, so a descriptor is usually read with cold caches. A gain that appears only with cold caches is a
/// property of the disk and not of the file system.
pub(super) fn pays(sample: &Sample) -> bool {
    saves(&sample.warm) && sample.cold.as_ref().is_none_or(saves)
}

/// Evaluates `T_CW + (n-1) T_A < n T_C` on the minima, which are the least disturbed runs.
fn saves(times: &Times) -> bool {
    let (Some(written), Some(stored)) = (times.written, times.stored) else { return false };
    let n = f64::from(ACCESSES);
    written.minimum + (n - 1.0) * stored.minimum < n * times.converted.minimum
}

#[cfg(test)]
mod tests {
    use super::super::saved::Spread;
    use super::*;

    fn times(converted: f64, written: f64, stored: f64) -> Times {
        let spread = |seconds: f64| Spread { minimum: seconds, mean: seconds * 2.0 };
        Times { converted: spread(converted), written: Some(spread(written)), stored: Some(spread(stored)) }
    }

    #[track_caller]
    fn check(expected: Entries, paying: &[bool]) {
        let sample = |(index, &pays): (usize, &bool)| {
            // 10 + 3 * 1 < 4 * 4, and 10 + 3 * 2 = 4 * 4.
            let warm = times(4.0, 10.0, if pays { 1.0 } else { 2.0 });
            Sample { entries: 3 + index as u32, warm, cold: None }
        };
        let samples: Vec<Sample> = paying.iter().enumerate().map(sample).collect();
        assert_eq!(entries(&samples), expected, "{paying:?}");
    }

    #[test]
    fn the_range_is_the_longest_run() {
        check(Entries::NONE, &[]);
        check(Entries::NONE, &[false, false]);
        check(Entries::NONE, &[false, true, false, true]);
        check(Entries::ALL, &[true, true]);
        check(Entries::at_least(5), &[false, false, true, true]);
        check(Entries::between(4, 5), &[false, true, true, false, true]);
        check(Entries::between(6, 8), &[true, true, false, true, true, true, false]);
    }

    #[test]
    fn storing_must_pay_cold_and_warm_and_be_possible() {
        let good = times(4.0, 5.0, 1.0);
        let bad = times(4.0, 5.0, 4.0);
        let sample =
            |warm: &Times, cold: Option<&Times>| Sample { entries: 3, warm: warm.clone(), cold: cold.cloned() };
        assert!(pays(&sample(&good, None)) && pays(&sample(&good, Some(&good))));
        assert!(!pays(&sample(&good, Some(&bad))) && !pays(&sample(&bad, Some(&good))));
        let full = Times { written: None, stored: None, ..good };
        assert!(!pays(&sample(&full, None)));
    }
}
