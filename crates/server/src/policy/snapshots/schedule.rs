//! How often snapshots are created, and which are kept (`frevo:snapshot schedule`).

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use proto::calendar;

use super::UtcOffset;
use crate::policy::limits::KEPT_SNAPSHOTS_MAX;

/// How many snapshots are kept of each period. All zero: none is created by the schedule, and none is removed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Schedule([u32; PERIODS.len()]);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Period {
    Hour,
    Day,
    Week,
    Month,
    Year,
}

const PERIODS: [(&str, Period); 5] = [
    ("hourly", Period::Hour),
    ("daily", Period::Day),
    ("weekly", Period::Week),
    ("monthly", Period::Month),
    ("yearly", Period::Year),
];

const DAY: i64 = 86_400;

impl Period {
    /// Returns a number that is the same for all times in one period of local time.
    fn of(self, moment: i64, local: UtcOffset) -> i64 {
        let days = moment.saturating_add(local(moment)).div_euclid(DAY);
        let (year, month, _) = calendar::date(days);
        match self {
            // Local time may have an hour twice.
            Period::Hour => moment.div_euclid(3600),
            Period::Day => days,
            // 1970-01-01 was a Thursday, and a week begins on Monday.
            Period::Week => (days + 3).div_euclid(7),
            Period::Month => year * 12 + month,
            Period::Year => year,
        }
    }
}

impl Schedule {
    /// Parses `hourly 24, daily 7`.
    ///
    /// # Errors
    /// The part that is not a period with a number.
    pub fn parse(text: &str) -> Result<Schedule, String> {
        let mut schedule = Schedule::default();
        let mut named = HashSet::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let wrong = || part.to_owned();
            let (name, number) = part.split_once(char::is_whitespace).ok_or_else(wrong)?;
            let at = PERIODS.iter().position(|(known, _)| known.eq_ignore_ascii_case(name)).ok_or_else(wrong)?;
            let number = number.trim().parse().ok().filter(|number| *number <= KEPT_SNAPSHOTS_MAX).ok_or_else(wrong)?;
            if !named.insert(at) {
                return Err(wrong());
            }
            schedule.0[at] = number;
        }
        Ok(schedule)
    }

    /// Returns whether it keeps nothing, and so never creates or removes anything.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|number| *number == 0)
    }

    /// Returns a schedule that keeps what either of two keeps.
    #[must_use]
    pub fn or(self, other: Schedule) -> Schedule {
        Schedule(std::array::from_fn(|at| self.0[at].max(other.0[at])))
    }

    /// Returns whether a snapshot is due at `now`: none of `moments` is in the present hour, day, week, month or year.
    pub fn is_due(&self, moments: &[i64], now: i64, local: UtcOffset) -> bool {
        self.used().any(|(period, _)| {
            let present = period.of(now, local);
            moments.iter().all(|&moment| period.of(moment, local) != present)
        })
    }

    /// Returns which of the snapshots of `moments` are kept: of each period the newest in it, for as many periods as
    /// the schedule says, and always the newest of all. Periods without a snapshot are not counted, so nothing is
    /// removed only because time passes.
    pub fn kept(&self, moments: &[i64], local: UtcOffset) -> BTreeSet<i64> {
        let newest_first: BTreeSet<i64> = moments.iter().copied().collect();
        if self.is_empty() {
            return newest_first;
        }
        let mut kept: BTreeSet<i64> = newest_first.last().copied().into_iter().collect();
        for (period, number) in self.used() {
            let mut last = None;
            let newest = newest_first.iter().rev().filter(|moment| {
                let own = Some(period.of(**moment, local));
                std::mem::replace(&mut last, own) != own
            });
            kept.extend(newest.take(number as usize));
        }
        kept
    }

    fn used(&self) -> impl Iterator<Item = (Period, u32)> {
        PERIODS.iter().zip(self.0).filter(|(_, number)| *number > 0).map(|((_, period), number)| (*period, number))
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = PERIODS.iter().zip(self.0).filter(|(_, number)| *number > 0);
        let parts: Vec<String> = used.map(|((name, _), number)| format!("{name} {number}")).collect();
        out.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3600;
    /// 2024-02-29 00:00:00 UTC, a Thursday.
    const LEAP_DAY: i64 = 1_709_164_800;

    fn schedule(text: &str) -> Schedule {
        Schedule::parse(text).expect("a schedule")
    }

    #[test]
    fn schedules_are_read_and_shown() {
        let text = "hourly 24, daily 7, weekly 4, monthly 12, yearly 2";
        assert_eq!(schedule(text).to_string(), text);
        assert_eq!(schedule(" Daily  3 ,,hourly 1").to_string(), "hourly 1, daily 3");
        assert!(schedule("").is_empty() && schedule("daily 0").is_empty());
        for (text, wrong) in [
            ("daily", "daily"),
            ("hourly 1, dayly 2", "dayly 2"),
            ("daily -1", "daily -1"),
            ("daily 10001", "daily 10001"),
            ("daily 1, daily 2", "daily 2"),
            ("daily 1 2", "daily 1 2"),
        ] {
            assert_eq!(Schedule::parse(text), Err(wrong.to_owned()), "{text}");
        }
        assert_eq!(schedule("hourly 5").or(schedule("hourly 2, daily 3")).to_string(), "hourly 5, daily 3");
    }

    #[test]
    fn the_newest_of_each_period_is_kept() {
        // Every half hour for 60 days.
        let moments: Vec<i64> = (0..60 * 48).map(|half| LEAP_DAY + half * HOUR / 2).collect();
        let last = LEAP_DAY + 60 * DAY - HOUR / 2;
        let kept = |text: &str| schedule(text).kept(&moments, |_| 0).into_iter().rev().collect::<Vec<_>>();
        assert_eq!(kept("hourly 3"), [last, last - HOUR, last - 2 * HOUR]);
        assert_eq!(kept("daily 2"), [last, last - DAY]);
        // The last day is Sunday, 2024-04-28.
        assert_eq!(kept("weekly 2"), [last, last - 7 * DAY]);
        assert_eq!(kept("monthly 9"), [last, LEAP_DAY + 32 * DAY - HOUR / 2, LEAP_DAY + DAY - HOUR / 2]);
        assert_eq!(kept("yearly 9"), [last]);
        assert_eq!(kept("hourly 2, daily 2"), [last, last - HOUR, last - DAY]);
        assert_eq!(kept("").len(), moments.len(), "nothing is removed without a schedule");
    }

    #[test]
    fn days_are_those_of_local_time() {
        let moments = [LEAP_DAY - 2 * HOUR, LEAP_DAY - 1, LEAP_DAY + 1];
        let kept = |local| schedule("daily 5").kept(&moments, local).into_iter().collect::<Vec<_>>();
        assert_eq!(kept(|_| 0), [LEAP_DAY - 1, LEAP_DAY + 1]);
        assert_eq!(kept(|_| HOUR), [LEAP_DAY - 2 * HOUR, LEAP_DAY + 1]);
        assert_eq!(kept(|_| -HOUR), [LEAP_DAY + 1]);
    }

    #[test]
    fn one_is_due_once_in_each_period() {
        let daily = schedule("daily 7");
        assert!(daily.is_due(&[], LEAP_DAY, |_| 0));
        assert!(!daily.is_due(&[LEAP_DAY], LEAP_DAY + DAY - 1, |_| 0));
        assert!(daily.is_due(&[LEAP_DAY], LEAP_DAY + DAY, |_| 0));
        assert!(daily.is_due(&[LEAP_DAY], LEAP_DAY + DAY - 1, |_| 1));
        assert!(!schedule("").is_due(&[], LEAP_DAY, |_| 0));
        assert!(schedule("hourly 1, daily 7").is_due(&[LEAP_DAY], LEAP_DAY + HOUR, |_| 0));
    }

    /// An hour that local time has twice, and a clock that was set.
    #[test]
    fn no_snapshot_is_lost_by_a_change_of_the_clock() {
        let winter = LEAP_DAY + 6 * HOUR;
        let moments: Vec<i64> = (0..12).map(|hour| LEAP_DAY + hour * HOUR).collect();
        let local: UtcOffset = |moment| if moment < LEAP_DAY + 6 * HOUR { 7200 } else { 3600 };
        let kept = schedule("hourly 12").kept(&moments, local);
        assert!(kept.len() == 12 && kept.contains(&winter) && kept.contains(&(winter - HOUR)));
        // Twenty years pass without a snapshot.
        let later: Vec<i64> = moments.iter().copied().chain([LEAP_DAY + 20 * 365 * DAY]).collect();
        assert_eq!(schedule("hourly 12").kept(&later, |_| 0).len(), 12);
    }

    #[test]
    fn the_newest_is_always_kept_and_pruning_again_removes_nothing() {
        let mut state = 7_u64;
        let mut next = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let local: UtcOffset = |moment| if moment % 17_280_000 < 8_640_000 { 7200 } else { -12_600 };
        for _ in 0..500 {
            let schedule = Schedule(std::array::from_fn(|_| next(4) as u32));
            let moments: Vec<i64> = (0..=next(60)).map(|_| LEAP_DAY + next(100_000_000) as i64).collect();
            let kept: Vec<i64> = schedule.kept(&moments, local).into_iter().collect();
            assert_eq!(kept.last(), moments.iter().max(), "{schedule} {moments:?}");
            assert_eq!(schedule.kept(&kept, local).into_iter().collect::<Vec<_>>(), kept, "{schedule} {moments:?}");
        }
    }
}
