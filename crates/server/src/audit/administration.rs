//! Changes that administrators make through the console, and their logons there.

use std::fmt;

use super::logon::sent_name;
use super::record::{Moment, plain};
use crate::policy::snapshots::UtcOffset;
use crate::vfs::Time;

/// The priority values of syslog: the facility `authpriv` (10), and `warning` or `notice`.
const FAILED: u8 = 10 << 3 | 4;
const DONE: u8 = 10 << 3 | 5;

/// A change, a logon or the end of a session.
#[derive(Clone, Debug)]
pub struct Administration {
    /// When it ended.
    pub time: Time,
    /// Its name, such as `share.add` or `console.logon`.
    pub operation: String,
    /// The administrator.
    pub user: String,
    /// The address of their browser, or `unix`.
    pub address: String,
    /// Why it was not done.
    pub failure: Option<String>,
    /// What is changed, without passwords.
    pub arguments: Vec<String>,
    /// The offset of local time from UTC.
    pub utc_offset: UtcOffset,
}

impl Administration {
    pub(super) fn size(&self) -> usize {
        let texts =
            [&self.operation, &self.user, &self.address].into_iter().chain(&self.failure).chain(&self.arguments);
        size_of::<Administration>() + texts.map(|text| size_of::<String>() + text.len()).sum::<usize>()
    }

    pub(super) fn priority(&self) -> u8 {
        if self.failure.is_some() { FAILED } else { DONE }
    }

    pub(super) fn moment(&self) -> Moment {
        Moment::new(self.time.secs, (self.utc_offset)(self.time.secs))
    }
}

/// A line like that of a logon.
impl fmt::Display for Administration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Administration { operation, user, address, failure, arguments, .. } = self;
        let time = self.moment().of_logon(self.time.nanos / 1_000);
        let result = if failure.is_some() { "fail" } else { "ok" };
        let (user, address) = (sent_name(user), sent_name(address));
        write!(out, "Console: user [{user}] at [{time}] remote host [{address}] {}|{result}", plain(operation))?;
        arguments.iter().try_for_each(|argument| write!(out, "|{}", plain(argument)))?;
        failure.iter().try_for_each(|why| write!(out, " ({})", plain(why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_characters_that_end_it() {
        let event = Administration {
            time: Time { secs: 1_577_836_800, nanos: 7_000 },
            operation: "share.add".into(),
            user: "ro]ot".into(),
            address: "::1".into(),
            failure: Some("no\nroom".into()),
            arguments: vec!["docs".into(), "path=/a\nb".into()],
            utc_offset: |_| 0,
        };
        let expected = "Console: user [ro?ot] at [Wed, 01 Jan 2020 00:00:00.000007 UTC] remote host [::1] \
                        share.add|fail|docs|path=/a?b (no?room)";
        assert_eq!(event.to_string(), expected);
        assert_eq!(Administration { failure: None, ..event.clone() }.priority(), event.priority() + 1);
    }
}
