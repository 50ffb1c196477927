//! Names of snapshots: conversion between a time and the form configured by `shadow:format`.
//!
//! Supported are the strftime(3) conversions to numbers of fixed length, and `%s`, the seconds since 1970. Not
//! supported are names of months and days, and anything that depends on a locale.

use proto::calendar;

/// The form in which the name of a snapshot contains its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Format(Vec<Piece>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece {
    Literal(u8),
    /// A part of the date or time, with its number of digits.
    Field(Field, usize),
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
                Piece::Literal(letter) => {
                    name.push(letter);
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

    /// Returns the time of the snapshot called `name`; `None` if the name does not have this form.
    pub fn moment(&self, name: &[u8], local: Option<UtcOffset>) -> Option<i64> {
        let (mut year, mut month, mut day, mut day_of_year) = (1970, 1, 1, None);
        let (mut time, mut seconds, mut rest) = (0, None, name);
        for piece in &self.0 {
            match *piece {
                Piece::Literal(letter) => rest = rest.strip_prefix(&[letter])?,
                Piece::Seconds => {
                    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    seconds = Some(number(rest, digits, i64::MAX)?);
                    rest = &rest[digits..];
                }
                Piece::Field(field, digits) => {
                    let number = |largest| number(rest, digits, largest);
                    match field {
                        Field::Year => year = number(9999)?,
                        Field::ShortYear => year = number(99).map(|year| year + if year < 69 { 2000 } else { 1900 })?,
                        Field::Month => month = number(12).filter(|&month| month > 0)?,
                        Field::Day => day = number(31).filter(|&day| day > 0)?,
                        Field::DayOfYear => day_of_year = Some(number(366)?),
                        Field::Hour => time += number(23)? * 3600,
                        Field::Minute => time += number(59)? * 60,
                        Field::Second => time += number(60)?,
                    }
                    rest = &rest[digits..];
                }
            }
        }
        if !rest.is_empty() {
            return None;
        }
        if seconds.is_some() {
            return seconds;
        }
        let days = match day_of_year {
            Some(day) => calendar::day(year, 1, 1) + day - 1,
            None => calendar::day(year, month, day),
        };
        let shown = days * DAY + time;
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

/// Parses the number in the first `digits` bytes.
fn number(text: &[u8], digits: usize, largest: i64) -> Option<i64> {
    let text = std::str::from_utf8(text.get(..digits)?).ok()?;
    let number: i64 = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())??;
    (number <= largest).then_some(number)
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
    fn conversions_without_a_fixed_form_are_refused() {
        for (text, conversion) in [("a%b", "%b"), ("%Y%", "%"), ("%-d", "%-d"), ("%lx", "%lx")] {
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
