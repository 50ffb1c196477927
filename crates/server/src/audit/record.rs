//! What a client has done with the files of a share.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use proto::calendar;

use super::Event;
use super::trail::Origin;
use crate::policy::audit::Operation;
use crate::vfs::Time;

/// What a client has done.
#[derive(Clone, Debug)]
pub struct Record {
    /// The session and the share.
    pub origin: Arc<Origin>,
    /// When it was done.
    pub time: Time,
    /// What was done.
    pub operation: Operation,
    /// The reason of the failure; `None` if it succeeded.
    pub failure: Option<&'static str>,
    /// The arguments of the operation, such as paths.
    pub arguments: Vec<String>,
    /// The bytes that were read or written.
    pub moved: Moved,
}

/// The bytes that an operation, or the operations of an open, have moved.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Moved {
    /// The operation moves none.
    #[default]
    Nothing,
    /// The bytes of this operation.
    Once(u64),
    /// The bytes of all READs and WRITEs through an open, at its end.
    InAll {
        /// The bytes that were read.
        read: u64,
        /// The bytes that were written.
        written: u64,
    },
}

impl Record {
    /// Returns the bytes that the record keeps in memory. Those that it shares with other records of the tree connect
    /// are included, because it may be the last one.
    pub(super) fn size(&self) -> usize {
        let texts: usize = self.arguments.iter().map(|text| text.len() + size_of::<String>()).sum();
        size_of::<Event>() + self.origin.size() + texts
    }

    /// Returns the bytes of an event with four arguments and without the text of its path. A name that is changed
    /// meanwhile may be longer.
    pub(super) fn most(origin: &Origin) -> usize {
        const OTHERS: usize = 256;
        size_of::<Event>() + origin.size() + 4 * size_of::<String>() + OTHERS
    }

    /// Returns the path that the operation is about.
    pub fn path(&self) -> Option<&str> {
        self.arguments.get(self.operation.path_argument()?).map(String::as_str)
    }

    /// Returns the arguments that Samba's line has.
    pub fn shown_arguments(&self) -> &[String] {
        if self.operation.has_arguments() { &self.arguments } else { &[] }
    }

    /// Returns the prefix.
    pub fn prefix(&self) -> Cow<'_, str> {
        self.origin.prefix_at(self.time)
    }
}

/// `PREFIX|OPERATION|RESULT|ARGUMENTS`, without control characters.
impl fmt::Display for Record {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { operation, failure, .. } = self;
        write!(out, "{}|{}|", self.prefix(), operation.name())?;
        match failure {
            None => out.write_str("ok|")?,
            Some(why) => write!(out, "fail ({why})|")?,
        }
        let between = if *operation == Operation::FSET_NT_ACL { " " } else { "|" };
        for (at, argument) in self.shown_arguments().iter().enumerate() {
            let separator = if at > 0 { between } else { "" };
            write!(out, "{separator}{}", plain(argument))?;
        }
        Ok(())
    }
}

/// Replaces control characters, which would end a line.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) { text.replace(char::is_control, "?").into() } else { text.into() }
}

/// A moment, in local time.
pub(super) struct Moment {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    weekday: usize,
    offset: i64,
}

const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Moment {
    /// Returns the moment `secs` after 1970, where local time is `offset` seconds ahead of UTC.
    pub(super) fn new(secs: i64, offset: i64) -> Moment {
        let local = secs.saturating_add(offset);
        let (days, second) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        let (year, month, day) = calendar::date(days);
        let weekday = usize::try_from(days.rem_euclid(7)).unwrap_or_default();
        let (hour, minute) = (second / 3_600, second / 60 % 60);
        Moment { year, month, day, hour, minute, second: second % 60, weekday, offset }
    }

    fn month_name(&self) -> &'static str {
        usize::try_from(self.month - 1).ok().and_then(|at| MONTHS.get(at)).copied().unwrap_or_default()
    }

    /// Returns the time as in the argument of `fntimes`. The zone of local time is its offset, because the server does
    /// not know its name.
    pub(super) fn with_zone(&self) -> String {
        let Moment { year, day, hour, minute, second, .. } = self;
        let (weekday, month, zone) = (self.weekday_name(), self.month_name(), self.zone());
        format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year} {zone}")
    }

    fn zone(&self) -> String {
        let offset = self.offset;
        match offset {
            0 => "UTC".to_owned(),
            _ => {
                let sign = if offset < 0 { '-' } else { '+' };
                format!("{sign}{:02}{:02}", offset.abs() / 3_600, offset.abs() / 60 % 60)
            }
        }
    }

    fn weekday_name(&self) -> &'static str {
        WEEKDAYS.get(self.weekday).copied().unwrap_or_default()
    }

    /// Returns the time as in the line of a logon.
    pub(super) fn of_logon(&self, micros: u32) -> String {
        let Moment { year, day, hour, minute, second, .. } = self;
        let (weekday, month) = (self.weekday_name(), self.month_name());
        let zone = self.zone();
        format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02}.{micros:06} {zone}")
    }

    /// Returns the value of `%T`.
    pub(super) fn with_slashes(&self) -> String {
        let Moment { year, month, day, hour, minute, second, .. } = self;
        format!("{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}")
    }

    /// Returns the value of `%t`.
    pub(super) fn without_separators(&self) -> String {
        let Moment { year, month, day, hour, minute, second, .. } = self;
        format!("{year:04}{month:02}{day:02}_{hour:02}{minute:02}{second:02}")
    }

    /// Returns the time as in the header of a message to syslog (RFC 3164, 4.1.2).
    pub(super) fn of_syslog(&self) -> String {
        let Moment { day, hour, minute, second, .. } = self;
        format!("{} {day:2} {hour:02}:{minute:02}:{second:02}", self.month_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_the_forms_of_samba() {
        let moment = Moment::new(1_577_836_800, 0);
        assert_eq!(moment.with_zone(), "Wed Jan  1 00:00:00 2020 UTC");
        assert_eq!(moment.with_slashes(), "2020/01/01 00:00:00");
        assert_eq!(moment.of_syslog(), "Jan  1 00:00:00");
        let moment = Moment::new(1_577_836_800, -5_400);
        assert_eq!(moment.with_zone(), "Tue Dec 31 22:30:00 2019 -0130");
        assert_eq!(moment.without_separators(), "20191231_223000");
        assert_eq!(Moment::new(1, 0).with_zone(), "Thu Jan  1 00:00:01 1970 UTC");
    }

    #[test]
    fn control_characters_do_not_end_a_line() {
        assert_eq!(plain("a\nb\u{1b}c\u{85}d"), "a?b?c?d");
        assert_eq!(plain("a b|é"), "a b|é");
    }
}
