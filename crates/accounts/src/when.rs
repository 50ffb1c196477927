//! Times as text: UTC, with a resolution of one second, in a format that sorts chronologically.

use std::time::{SystemTime, UNIX_EPOCH};

use proto::calendar;

/// Returns seconds since 1970-01-01 UTC; negative if the machine's clock is before that.
pub fn now() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |secs| -secs),
    }
}

/// Formats a time in seconds since 1970-01-01 UTC as `2024-02-29 12:34:56Z`.
pub fn utc(secs: i64) -> String {
    let (days, rest) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let (year, month, day) = calendar::date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Returns how far this machine's local time is ahead of UTC, in seconds, at a time in seconds since 1970-01-01 UTC.
pub fn utc_offset(secs: i64) -> i64 {
    // SAFETY: localtime_r reads the first argument and fills the second, a struct of numbers and a pointer that is not
    // used.
    unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&secs, &mut local).is_null() { 0 } else { local.tm_gmtoff }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_time_is_no_more_than_a_day_from_utc() {
        for secs in [0, 951_782_399, -1, i64::MAX, i64::MIN] {
            assert!(utc_offset(secs).abs() <= 86_400, "{secs}");
        }
    }

    #[test]
    fn times_are_converted_to_calendar_dates() {
        for (secs, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399, "2000-02-28 23:59:59Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (951_868_800, "2000-03-01 00:00:00Z"),
            (1_709_210_096, "2024-02-29 12:34:56Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
            (-1, "1969-12-31 23:59:59Z"),
        ] {
            assert_eq!(utc(secs), text);
        }
        utc(i64::MAX);
        utc(i64::MIN);
    }
}
