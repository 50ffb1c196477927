//! Names of snapshots: conversion between a time and the form configured by `shadow:format`.
//!
//! Supported are the strftime(3) conversions to numbers, English names of months and days, and `%s`, the seconds since
//! 1970. A name is parsed as by strptime(3): numbers may have fewer digits, and other text may follow the time.

use std::ops::RangeInclusive;

use proto::calendar;

/// The form in which the name of a snapshot contains its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Format(Vec<Piece>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece {
    Literal(u8),
    /// White space of any length.
    Space(u8),
    /// A part of the date or time, with its number of digits.
    Field(Field, usize),
    /// A name of a month or of a day of the week, or only its first three letters.
    Name(Names, bool),
    /// Seconds since 1970-01-01 UTC, of variable length.
    Seconds,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Year,
    /// Without the century: from 69 on in the 20th.
    ShortYear,
    Month,
    Day,
    DayOfYear,
    Hour,
    Minute,
    Second,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Names {
    Months,
    Days,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// From the day of 1970-01-01.
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
/// Length of the short form of a name.
const SHORT: usize = 3;

impl Names {
    fn all(self) -> &'static [&'static str] {
        match self {
            Names::Months => &MONTHS,
            Names::Days => &DAYS,
        }
    }

    /// Returns the position of the name at the start of `text`, long or short, and its length.
    fn find(self, text: &[u8]) -> Option<(usize, usize)> {
        let starts = |name: &str| text.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name.as_bytes()));
        self.all().iter().enumerate().find_map(|(at, name)| {
            [*name, &name[..SHORT]].into_iter().find(|form| starts(form)).map(|form| (at, form.len()))
        })
    }
}

/// Returns the offset of local time from UTC in seconds, for a time in seconds since 1970-01-01 UTC.
pub type UtcOffset = fn(i64) -> i64;

const DAY: i64 = 86_400;

impl Format {
    /// Returns the form of an @GMT token, which is the default.
    pub fn token() -> Format {
        Format::parse("@GMT-%Y.%m.%d-%H.%M.%S", false).unwrap_or(Format(Vec::new()))
    }

    /// Parses a form. With `sscanf`, the only conversion is a number of seconds (`%ld`, `%lu`).
    ///
    /// # Errors
    /// The unsupported conversion.
    pub fn parse(text: &str, sscanf: bool) -> Result<Format, String> {
        let mut pieces = Vec::new();
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            if letter.is_ascii_whitespace() {
                pieces.push(Piece::Space(letter as u8));
                continue;
            }
            if letter != '%' {
                pieces.extend(letter.encode_utf8(&mut [0; 4]).bytes().map(Piece::Literal));
                continue;
            }
            let mut conversion = String::from('%');
            for letter in letters.by_ref() {
                conversion.push(letter);
                if letter == '%' || letter.is_ascii_alphabetic() && letter != 'l' {
                    break;
                }
            }
            pieces.extend(conversion_pieces(&conversion, sscanf).ok_or(conversion)?);
        }
        Ok(Format(pieces))
    }

    /// Returns the name of the snapshot of `moment` (seconds since 1970-01-01 UTC); in local time if `local` is given.
    pub fn name(&self, moment: i64, local: Option<UtcOffset>) -> Vec<u8> {
        let shown = local.map_or(moment, |local| moment.saturating_add(local(moment)));
        let (days, rest) = (shown.div_euclid(DAY), shown.rem_euclid(DAY));
        let (year, month, day) = calendar::date(days);
        let mut name = Vec::new();
        for piece in &self.0 {
            let (number, digits) = match *piece {
                Piece::Literal(letter) | Piece::Space(letter) => {
                    name.push(letter);
                    continue;
                }
                Piece::Name(names, long) => {
                    let at = match names {
                        Names::Months => month - 1,
                        Names::Days => days.rem_euclid(7),
                    };
                    let full = names.all()[usize::try_from(at).unwrap_or(0)];
                    name.extend_from_slice(if long { full } else { &full[..SHORT] }.as_bytes());
                    continue;
                }
                Piece::Seconds => (moment, 1),
                Piece::Field(field, digits) => {
                    let number = match field {
                        Field::Year => year,
                        Field::ShortYear => year.rem_euclid(100),
                        Field::Month => month,
                        Field::Day => day,
                        Field::DayOfYear => days - calendar::day(year, 1, 1) + 1,
                        Field::Hour => rest / 3600,
                        Field::Minute => rest / 60 % 60,
                        Field::Second => rest % 60,
                    };
                    (number, digits)
                }
            };
            name.extend(format!("{number:0digits$}").into_bytes());
        }
        name
    }

    /// Returns the time of the snapshot called `name`; `None` if the name does not have exactly this form.
    pub fn moment(&self, name: &[u8], local: Option<UtcOffset>) -> Option<i64> {
        self.leading_moment(name, local).filter(|&moment| self.name(moment, local) == name)
    }

    /// Returns the time at the start of `name`, as strptime(3) finds it.
    pub(super) fn leading_moment(&self, name: &[u8], local: Option<UtcOffset>) -> Option<i64> {
        let (mut year, mut month, mut day, mut day_of_year) = (1970, 1, 1, None);
        let (mut hour, mut minute, mut second) = (0, 0, 0);
        let (mut seconds, mut rest) = (None, name);
        for piece in &self.0 {
            match *piece {
                Piece::Literal(letter) => rest = rest.strip_prefix(&[letter])?,
                Piece::Space(_) => rest = rest.trim_ascii_start(),
                Piece::Seconds => seconds = Some(number(&mut rest, usize::MAX, 0..=i64::MAX)?),
                Piece::Name(names, _) => {
                    let (at, length) = names.find(rest)?;
                    rest = &rest[length..];
                    if names == Names::Months {
                        month = at as i64 + 1;
                    }
                }
                Piece::Field(field, digits) => {
                    let mut number = |range| number(&mut rest, digits, range);
                    match field {
                        Field::Year => year = number(0..=9999)?,
                        Field::ShortYear => {
                            year = number(0..=99).map(|year| year + if year < 69 { 2000 } else { 1900 })?;
                        }
                        Field::Month => month = number(1..=12)?,
                        Field::Day => day = number(1..=31)?,
                        Field::DayOfYear => day_of_year = Some(number(1..=366)?),
                        Field::Hour => hour = number(0..=23)?,
                        Field::Minute => minute = number(0..=59)?,
                        Field::Second => second = number(0..=61)?,
                    }
                }
            }
        }
        if seconds.is_some() {
            return seconds;
        }
        let days = match day_of_year {
            Some(day) => calendar::day(year, 1, 1) + day - 1,
            None => calendar::day(year, month, day),
        };
        let shown = days * DAY + hour * 3600 + minute * 60 + second;
        Some(local.map_or(shown, |local| {
            // The offset depends on the result. The first approximation is off by at most half a day.
            let near = shown - local(shown);
            shown - local(near)
        }))
    }
}

fn conversion_pieces(conversion: &str, sscanf: bool) -> Option<Vec<Piece>> {
    let field = |field, digits| Piece::Field(field, digits);
    let (colon, dash) = (Piece::Literal(b':'), Piece::Literal(b'-'));
    let (year, month, day) = (field(Field::Year, 4), field(Field::Month, 2), field(Field::Day, 2));
    let (hour, minute, second) = (field(Field::Hour, 2), field(Field::Minute, 2), field(Field::Second, 2));
    Some(match conversion {
        "%%" => vec![Piece::Literal(b'%')],
        "%d" | "%u" | "%ld" | "%lu" | "%lld" | "%llu" if sscanf => vec![Piece::Seconds],
        _ if sscanf => return None,
        "%Y" => vec![year],
        "%y" => vec![field(Field::ShortYear, 2)],
        "%m" => vec![month],
        "%d" => vec![day],
        "%b" | "%h" => vec![Piece::Name(Names::Months, false)],
        "%B" => vec![Piece::Name(Names::Months, true)],
        "%a" => vec![Piece::Name(Names::Days, false)],
        "%A" => vec![Piece::Name(Names::Days, true)],
        "%j" => vec![field(Field::DayOfYear, 3)],
        "%H" => vec![hour],
        "%M" => vec![minute],
        "%S" => vec![second],
        "%s" => vec![Piece::Seconds],
        "%F" => vec![year, dash, month, dash, day],
        "%T" => vec![hour, colon, minute, colon, second],
        "%R" => vec![hour, colon, minute],
        _ => return None,
    })
}

/// Removes a number of at most `digits` digits from the start of `text`, after spaces. As in strptime(3), it ends
/// before a digit with which it would be too large.
fn number(text: &mut &[u8], digits: usize, range: RangeInclusive<i64>) -> Option<i64> {
    let mut rest = *text;
    while let Some(after) = rest.strip_prefix(b" ") {
        rest = after;
    }
    let mut number = None;
    for _ in 0..digits {
        let Some((digit, after)) = rest.split_first().filter(|(digit, _)| digit.is_ascii_digit()) else { break };
        let shifted = number.unwrap_or(0_i64).checked_mul(10)?;
        if number.is_some() && shifted > *range.end() {
            break;
        }
        number = Some(shifted.checked_add(i64::from(digit - b'0'))?);
        rest = after;
    }
    *text = rest;
    number.filter(|number| range.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2015-10-31 19:40:30 UTC.
    const MOMENT: i64 = 1_446_320_430;

    #[track_caller]
    fn check(format: &str, sscanf: bool, local: Option<UtcOffset>, name: &str, moment: i64) {
        let format = Format::parse(format, sscanf).unwrap();
        assert_eq!(String::from_utf8(format.name(moment, local)).unwrap(), name);
        assert_eq!(format.moment(name.as_bytes(), local), Some(moment), "{name}");
    }

    #[test]
    fn names_and_times() {
        let east: UtcOffset = |moment| if moment < MOMENT - 100_000_000 { 3600 } else { 7200 };
        check("@GMT-%Y.%m.%d-%H.%M.%S", false, None, "@GMT-2015.10.31-19.40.30", MOMENT);
        check("auto-%Y%m%d.%H%M", false, None, "auto-20151031.1940", MOMENT - 30);
        check("snap-%s", false, None, "snap-1446320430", MOMENT);
        check("%ld", true, None, "1446320430", MOMENT);
        check("é%F_%T%%", false, None, "é2015-10-31_19:40:30%", MOMENT);
        check("%y-%j %R", false, None, "15-304 19:40", MOMENT - 30);
        check("%Y.%m.%d-%H.%M.%S", false, Some(east), "2015.10.31-21.40.30", MOMENT);
        check("%Y.%m.%d-%H.%M.%S", false, Some(east), "1970.01.01-01.00.00", 0);
        check("%F %T", false, None, "2000-02-29 23:59:59", 951_868_799);
        check("%F %T", false, None, "1969-12-31 23:59:59", -1);
        check("%d%b%Y", false, None, "31Oct2015", MOMENT / DAY * DAY);
        check("%A, %d. %B %Y", false, None, "Saturday, 31. October 2015", MOMENT / DAY * DAY);
    }

    #[test]
    fn the_names_of_snapshots_are_parsed_as_by_strptime() {
        let leading = |format: &str, sscanf, name: &str| {
            Format::parse(format, sscanf).expect("a form").leading_moment(name.as_bytes(), None)
        };
        let midnight = Some(MOMENT / DAY * DAY);
        for (format, name) in [
            ("daily-%Y-%m-%d", "daily-2015-10-31_keep"),
            ("%Y-%m-%d", "2015-10-31-extra"),
            ("%d.%b.%Y", "31.OCTOBER.2015"),
            ("%a %d %b %Y", "sat31oct2015"),
            ("%Y%m%d", "2015 10 31"),
        ] {
            assert_eq!(leading(format, false, name), midnight, "{format} {name}");
        }
        assert_eq!(leading("%Y-%m-%d", false, "2015-1-3"), leading("%Y-%m-%d", false, "2015-01-03"));
        assert_eq!(leading("%d%m%Y", false, "4012015"), leading("%F", false, "2015-01-04"), "40 is not a day");
        assert_eq!(leading("@%lu", true, "@1446320430.full"), Some(MOMENT));
        for name in ["2015-13-31", "2015-00-31", "2015-10-0", "2015-10", "2015-10-", "-2015-10-31", "2015-x-1"] {
            assert_eq!(leading("%Y-%m-%d", false, name), None, "{name}");
        }
        assert_eq!(leading("%s", false, "99999999999999999999"), None);
    }

    #[test]
    fn other_names_are_not_snapshots() {
        let token = Format::token();
        for name in [
            "",
            "@GMT-2015.10.31-19.40.3",
            "@GMT-2015.10.31-19.40.300",
            "@GMT-2015.13.31-19.40.30",
            "@GMT-2015.00.31-19.40.30",
            "@GMT-2015.10.31-24.40.30",
            "@GMT-+015.10.31-19.40.30",
            "@gmt-2015.10.31-19.40.30",
        ] {
            assert_eq!(token.moment(name.as_bytes(), None), None, "{name}");
        }
        assert_eq!(Format::parse("%s", false).unwrap().moment(b"99999999999999999999", None), None);
    }

    #[test]
    fn other_conversions_are_refused() {
        for (text, conversion) in [("a%Z", "%Z"), ("%Y%", "%"), ("%-d", "%-d"), ("%lx", "%lx")] {
            assert_eq!(Format::parse(text, false), Err(conversion.to_owned()));
        }
        assert_eq!(Format::parse("%Y", true), Err("%Y".to_owned()));
    }

    #[test]
    fn the_first_and_the_last_time_have_names() {
        Format::token().name(i64::MAX, None);
        Format::token().name(i64::MIN, None);
    }
}
