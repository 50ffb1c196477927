//! Dates of the proleptic Gregorian calendar, in UTC, and days since 1970-01-01.
//!
//! Years are counted from March, so that the leap day is the last of its year. 146,097 days are one cycle of 400 years.

/// Returns year, month and day of the day that is `days` after 1970-01-01.
pub fn date(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let (cycle, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + cycle * 400 + carry, month, day)
}

/// Returns the number of days from 1970-01-01 to a date; the inverse of [`date`].
pub fn day(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (cycle, year) = (year.div_euclid(400), year.rem_euclid(400));
    cycle * 146_097 + year * 365 + year / 4 - year / 100 + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (20_778, (2026, 11, 21)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn every_day_has_one_date() {
        for days in (-1_000_000..1_000_000).step_by(97) {
            let (year, month, number) = date(days);
            assert_eq!(day(year, month, number), days);
        }
    }
}
