//! Times in the names and descriptions that common programs give to snapshots, for `frevo:snapshots = auto`.

use proto::calendar;

use super::{Format, UtcOffset};

/// How snapshots are found without `shadow:` parameters.
#[derive(Clone, Copy, Debug)]
pub struct Automatic {
    /// Local time, in which some programs name snapshots.
    pub local: UtcOffset,
}

/// The time of a snapshot, and what precedes it in the name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named<'a> {
    /// Seconds since 1970-01-01 UTC.
    pub moment: i64,
    /// The part of the name before the time, without a separator.
    pub prefix: &'a [u8],
}

/// Beginnings of names whose times are in UTC: zfs-auto-snapshot for Linux, and zrepl.
const IN_UTC: [&[u8]; 2] = [b"zfs-auto-snap_", b"zrepl_"];
const SEPARATORS: &[u8] = b"_-. T";
const DAY: i64 = 86_400;

/// Returns the time in the name of a snapshot. It is an @GMT token, or has a date, a separator and a time of day with
/// hours and minutes at least: `home.20200131T1530`, `autosnap_2020-01-31_15:30:00_daily`. A time without a zone is
/// local, unless the program is known to use UTC.
pub fn recognize(name: &[u8], local: UtcOffset) -> Option<Named<'_>> {
    if name.starts_with(b"@GMT-") {
        return Format::token().moment(name, None).map(|moment| Named { moment, prefix: b"" });
    }
    let at = (0..name.len()).find(|&at| {
        (at == 0 || !name[at - 1].is_ascii_digit()) && name[at].is_ascii_digit() && digits(&name[at..]) >= 4
    })?;
    let (shown, zone) = date_and_time(&name[at..])?;
    let moment = match zone {
        Some(offset) => shown - offset,
        None if IN_UTC.iter().any(|program| name.starts_with(program)) => shown,
        // The offset depends on the result. The first approximation is off by at most half a day.
        None => shown - local(shown - local(shown)),
    };
    let prefix = &name[..at];
    let length = prefix.iter().rposition(|letter| !SEPARATORS.contains(letter)).map_or(0, |last| last + 1);
    Some(Named { moment, prefix: &prefix[..length] })
}

/// Returns the time in the file `info.xml` of snapper, which is in UTC, in seconds since 1970-01-01.
pub fn snapper_time(info: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(info).ok()?;
    let (_, rest) = text.split_once("<date>")?;
    let (date, _) = rest.split_once("</date>")?;
    let date = date.trim().as_bytes();
    // Text after the time would be of a form that is not known.
    (date.len() == "2020-01-31 15:30:00".len()).then(|| date_and_time(date))?.map(|(moment, _)| moment)
}

/// Reads a date and a time of day at the start of `text`: seconds, and the offset of the zone if it is there.
fn date_and_time(text: &[u8]) -> Option<(i64, Option<i64>)> {
    let mut text = Text(text);
    let (year, dashes) = (text.number(4, 1970, 9999)?, text.skip(b"-").is_some());
    let month = text.number(2, 1, 12)?;
    if dashes {
        text.skip(b"-")?;
    }
    let day = text.number(2, 1, 31)?;
    let days = calendar::day(year, month, day);
    if calendar::date(days) != (year, month, day) {
        return None;
    }
    // Only digits can follow a date of digits directly.
    if text.skip(SEPARATORS).is_none() && dashes {
        return None;
    }
    let hour = text.number(2, 0, 23)?;
    let mut within = text;
    let separator = within.skip(b":-");
    let minute = within.number(2, 0, 59)?;
    let mut rest = within;
    let second = match separator {
        Some(letter) => rest.skip(&[letter]).and_then(|_| rest.number(2, 0, 60)),
        None => rest.number(2, 0, 60),
    };
    let after = if second.is_some() { rest } else { within };
    let zone = after.zone();
    // More digits would be a part of something else.
    if after.0.first().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    Some((days * DAY + hour * 3600 + minute * 60 + second.unwrap_or(0), zone))
}

/// The rest of a text that is read from the start.
#[derive(Clone, Copy)]
struct Text<'a>(&'a [u8]);

impl Text<'_> {
    /// Reads a number of exactly `count` digits.
    fn number(&mut self, count: usize, least: i64, most: i64) -> Option<i64> {
        let (number, rest) = self.0.split_at_checked(count)?;
        let number = (digits(number) == count).then(|| std::str::from_utf8(number).ok()?.parse().ok())??;
        self.0 = rest;
        (least..=most).contains(&number).then_some(number)
    }

    /// Skips one of `letters` and returns it.
    fn skip(&mut self, letters: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first().filter(|(first, _)| letters.contains(first))?;
        self.0 = rest;
        Some(*first)
    }

    /// Returns the offset of a zone, `Z`, `+0100` or `-0730`, in seconds. It ends the name.
    fn zone(mut self) -> Option<i64> {
        if self.0 == b"Z" {
            return Some(0);
        }
        let sign = if self.skip(b"+-")? == b'-' { -1 } else { 1 };
        let offset = sign * (self.number(2, 0, 14)? * 3600 + self.number(2, 0, 59)? * 60);
        self.0.is_empty().then_some(offset)
    }
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|letter| letter.is_ascii_digit()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2015-10-31 19:40:00 UTC.
    const MOMENT: i64 = 1_446_320_400;

    fn moment(name: &str, local: UtcOffset) -> Option<i64> {
        recognize(name.as_bytes(), local).map(|named| named.moment)
    }

    #[test]
    fn names_of_common_programs_have_their_times() {
        let east: UtcOffset = |_| 3600;
        for (name, expected, prefix) in [
            ("@GMT-2015.10.31-19.40.00", MOMENT, ""),
            ("home.20151031T2040", MOMENT, "home"),
            ("home.20151031T204030", MOMENT + 30, "home"),
            ("home.20151031T214030+0200", MOMENT + 30, "home"),
            ("home.20151031T121000-0730", MOMENT, "home"),
            ("2015-10-31_20-40-01", MOMENT + 1, ""),
            ("zfs-auto-snap_hourly-2015-10-31-1940", MOMENT, "zfs-auto-snap_hourly"),
            ("zrepl_20151031_194012_000", MOMENT + 12, "zrepl"),
            ("autosnap_2015-10-31_20:40:00_hourly", MOMENT, "autosnap"),
            ("auto-2015-10-31_20-40", MOMENT, "auto"),
            ("auto-20151031.2040-2w", MOMENT, "auto"),
            ("S-20151031204005", MOMENT + 5, "S"),
            ("@home-20151031204005", MOMENT + 5, "@home"),
            ("20151031T194000Z", MOMENT, ""),
        ] {
            let found = recognize(name.as_bytes(), east);
            assert_eq!(found, Some(Named { moment: expected, prefix: prefix.as_bytes() }), "{name}");
        }
    }

    #[test]
    fn other_names_have_no_time() {
        for name in [
            "",
            "1",
            "before-update",
            "2015-10-31",
            "20151031",
            "20151301T1940",
            "2015-02-30_19:40:00",
            "home.20151031T2540",
            "home.20151031T19400",
            "201510311940001",
            "@GMT-2015.10.31-19.40.00x",
            "@GMT-2015.1.31-19.40.00",
            "9999999999999999999999",
            "2015-10-31x19:40",
            "2015-1031-1940",
        ] {
            assert_eq!(moment(name, |_| 0), None, "{name}");
        }
    }

    #[test]
    fn local_times_follow_the_clocks_that_change() {
        // In the winter from 2015-10-25 01:00 UTC on.
        let berlin: UtcOffset = |moment| if moment < 1_445_734_800 { 7200 } else { 3600 };
        assert_eq!(moment("2015-10-25_01-59-59", berlin), Some(1_445_734_800 - 3601));
        assert_eq!(moment("2015-10-25_03-00-00", berlin), Some(1_445_734_800 + 3600));
        let repeated = moment("2015-10-25_02-30-00", berlin);
        assert!([1_445_734_800 - 1800, 1_445_734_800 + 1800].contains(&repeated.unwrap_or(0)), "{repeated:?}");
    }

    #[test]
    fn the_date_of_snapper_is_utc() {
        let info = "<?xml version=\"1.0\"?>\n<snapshot>\n  <type>single</type>\n  <num>3</num>\n  \
                    <date>2015-10-31 19:40:00</date>\n</snapshot>\n";
        assert_eq!(snapper_time(info.as_bytes()), Some(MOMENT));
        for info in [
            "",
            "<date>",
            "<date>2015-10-31</date>",
            "<date>2015-10-31 19:40:00+0100</date>",
            "<date>2015-10-31 19:40:00",
            "<date></date>",
        ] {
            assert_eq!(snapper_time(info.as_bytes()), None, "{info}");
        }
    }
}
