//! `log level`: Samba's levels 0 to 10, also per debug class (`1 auth:3`), and the level names of most other programs.

use anyhow::{Context, Result, bail};
use tracing_subscriber::filter::{LevelFilter, Targets};

/// Samba's debug classes that exist here, and the modules that their events come from.
const CLASSES: &[(&str, &[&str])] = &[
    ("auth", &["proto::auth", "server::authentication", "server::command::session_setup", "accounts", "ldap"]),
    ("passdb", &["accounts", "ldap"]),
    ("vfs", &["localfs", "server::vfs"]),
    ("locking", &["server::files"]),
    ("smb2", &["server::state::connection", "server::frame", "server::request", "server::dispatch", "server::command"]),
    ("acls", &["server::acl", "server::security"]),
    ("rpc_srv", &["server::rpc"]),
];

/// The set of logged events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLevel {
    /// Level of events that belong to none of the configured classes.
    all: LevelFilter,
    /// Levels of individual modules.
    parts: Vec<(&'static str, LevelFilter)>,
}

impl LogLevel {
    /// Parses a value of `log level`. A Samba class that does not exist here is ignored.
    pub fn parse(text: &str) -> Result<Self> {
        let mut level = LogLevel { all: LevelFilter::ERROR, parts: Vec::new() };
        for word in text.split([' ', '\t', ',']).filter(|word| !word.is_empty()) {
            // Samba's `class:level@file` writes a class to a separate file. Here there is only one file.
            let word = word.split('@').next().unwrap_or(word);
            match word.split_once(':') {
                None | Some(("all", _)) => level.all = one(word.strip_prefix("all:").unwrap_or(word))?,
                Some((class, value)) => {
                    let filter = one(value)?;
                    level.set(class, filter);
                }
            }
        }
        Ok(level)
    }

    fn set(&mut self, class: &str, filter: LevelFilter) {
        let parts = CLASSES.iter().find(|(name, _)| *name == class).map_or(&[][..], |(_, parts)| parts);
        self.parts.extend(parts.iter().map(|part| (*part, filter)));
    }

    pub(super) fn targets(&self) -> Targets {
        let targets = Targets::new().with_default(self.all).with_targets(self.parts.iter().copied());
        // Events of the audit are chosen before they come here, and would be lost without a notice.
        targets.with_target("audit", LevelFilter::TRACE)
    }
}

impl Default for LogLevel {
    /// `info`: the events themselves, without details.
    fn default() -> Self {
        LogLevel { all: LevelFilter::INFO, parts: Vec::new() }
    }
}

impl From<&smbconf::LogLevel> for LogLevel {
    fn from(configured: &smbconf::LogLevel) -> Self {
        let mut level = LogLevel { all: number(configured.level), parts: Vec::new() };
        for (class, value) in &configured.classes {
            level.set(class, number(*value));
        }
        level
    }
}

/// Maps a level: 0 errors; 1 also warnings; 2 also events; 3 to 5 also details; 6 and above everything.
fn one(text: &str) -> Result<LevelFilter> {
    Ok(match text {
        "error" => LevelFilter::ERROR,
        "warn" | "warning" => LevelFilter::WARN,
        "info" => LevelFilter::INFO,
        "debug" => LevelFilter::DEBUG,
        "trace" => LevelFilter::TRACE,
        _ => match text.parse::<u8>().ok().with_context(|| refused(text))? {
            level @ 0..=10 => number(level),
            _ => bail!(refused(text)),
        },
    })
}

fn number(level: u8) -> LevelFilter {
    match level {
        0 => LevelFilter::ERROR,
        1 => LevelFilter::WARN,
        2 => LevelFilter::INFO,
        3..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

fn refused(text: &str) -> String {
    format!("{text:?} is not a log level; use 0 to 10, or error, warn, info, debug, trace")
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn levels_are_numbers_words_or_classes() {
        let check = |text: &str, target: &str, on: Level, off: Option<Level>| {
            let targets = LogLevel::parse(text).unwrap().targets();
            assert!(targets.would_enable(target, &on), "{text}: {target} {on}");
            assert!(off.is_none_or(|off| !targets.would_enable(target, &off)), "{text}: {target} {off:?}");
        };
        check("", "frevo", Level::ERROR, Some(Level::WARN));
        check("0", "frevo", Level::ERROR, Some(Level::WARN));
        check("1", "frevo", Level::WARN, Some(Level::INFO));
        check("2", "frevo", Level::INFO, Some(Level::DEBUG));
        check("3", "frevo", Level::DEBUG, Some(Level::TRACE));
        check("5", "frevo", Level::DEBUG, Some(Level::TRACE));
        check("10", "frevo", Level::TRACE, None);
        check("debug", "frevo", Level::DEBUG, Some(Level::TRACE));
        check("0 auth_audit:0", "audit", Level::WARN, None);
        check("all:2", "frevo", Level::INFO, Some(Level::DEBUG));
        check("1 auth:10, vfs:3@/var/log/vfs", "accounts::unix", Level::TRACE, None);
        check("1 passdb:10", "ldap::servers", Level::TRACE, None);
        check("1 auth:10, vfs:3@/var/log/vfs", "localfs::dir", Level::DEBUG, Some(Level::TRACE));
        check("1 auth:10, vfs:3@/var/log/vfs", "frevo", Level::WARN, Some(Level::INFO));
        check("2 winbind:10", "frevo", Level::INFO, Some(Level::DEBUG));
        let configured = smbconf::LogLevel {
            level: 1,
            classes: vec![("vfs".into(), 3), ("winbind".into(), 9)],
            ..Default::default()
        };
        assert_eq!(LogLevel::from(&configured), LogLevel::parse("1 vfs:3 winbind:9").unwrap());
        for bad in ["11", "-1", "loud", "1 auth:loud", "auth:"] {
            assert!(LogLevel::parse(bad).is_err(), "{bad}");
        }
    }
}
