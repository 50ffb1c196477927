//! What waits for a destination.

use std::fmt;

use super::{Administration, Logon, Record};
use crate::vfs::Time;

/// An operation, a logon or a change by an administrator.
#[derive(Clone, Debug)]
pub enum Event {
    /// An operation on a share.
    Operation(Record),
    /// A logon or the end of a session.
    Logon(Box<Logon>),
    /// A change through the console.
    Administration(Box<Administration>),
}

impl Event {
    /// Returns the bytes that the event keeps in memory.
    pub(super) fn size(&self) -> usize {
        match self {
            Event::Operation(record) => record.size(),
            Event::Logon(logon) => size_of::<Event>() + logon.size(),
            Event::Administration(change) => size_of::<Event>() + change.size(),
        }
    }

    /// Returns when it happened.
    pub fn time(&self) -> Time {
        match self {
            Event::Operation(record) => record.time,
            Event::Logon(logon) => logon.time,
            Event::Administration(change) => change.time,
        }
    }

    /// Returns the priority value of syslog.
    pub fn priority(&self) -> u8 {
        match self {
            Event::Operation(record) => record.origin.priority,
            Event::Logon(logon) => logon.priority(),
            Event::Administration(change) => change.priority(),
        }
    }

    /// Returns the local time as in the header of a message to syslog.
    pub fn syslog_time(&self) -> String {
        match self {
            Event::Operation(record) => record.origin.moment(record.time.secs).of_syslog(),
            Event::Logon(logon) => logon.moment().of_syslog(),
            Event::Administration(change) => change.moment().of_syslog(),
        }
    }
}

/// The line as Samba writes it, without control characters.
impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Operation(record) => record.fmt(out),
            Event::Logon(logon) => logon.fmt(out),
            Event::Administration(change) => change.fmt(out),
        }
    }
}
