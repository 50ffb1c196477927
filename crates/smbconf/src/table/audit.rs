//! The record of what clients do, as in Samba's module full_audit.

use std::path::PathBuf;
use std::sync::Arc;

use server::policy::Share;
use server::policy::audit::{Audit, Destination, LogonAudit, Operation, Operations, Overflow};

use super::share::VFS_OBJECTS;
use super::{BOOL, LIST, PATH, Parameter, TEXT, fold_name, share};
use crate::lists::LogLevel;
use crate::problem::{Code, warning};
use crate::reader::{Reader, ValueReader};
use crate::share::modules;

const SUCCESS: Parameter =
    share("full_audit:success", LIST, "none", "Operations that are recorded if they succeed, such as all !close.")
        .read_by_others();

const FAILURE: Parameter =
    share("full_audit:failure", LIST, "none", "Operations that are recorded if they fail.").read_by_others();

const FACILITY: Parameter =
    share("full_audit:facility", TEXT, "USER", "The facility of syslog, such as LOCAL5.").read_by_others();

const PRIORITY: Parameter =
    share("full_audit:priority", TEXT, "NOTICE", "The priority of syslog, such as INFO.").read_by_others();

const SYSLOG: Parameter =
    share("full_audit:syslog", BOOL, "yes", "Write the lines to syslog or the journal; otherwise to the log.")
        .read_by_others();

const LOG_SECDESC: Parameter =
    share("full_audit:log_secdesc", BOOL, "no", "Include a new security descriptor in its line, in SDDL.")
        .read_by_others();

const FILE: Parameter = share(
    "frevo:audit file",
    PATH,
    "",
    "Write the lines of full_audit to this file instead of syslog, one JSON object a line. Not in Samba.",
)
.read_by_others();

const JOURNAL: Parameter = share(
    "frevo:audit journal",
    BOOL,
    "no",
    "Write the lines of full_audit to the journal with fields, such as FREVO_USER, instead of syslog. Not in Samba.",
)
.read_by_others();

const OVERFLOW: Parameter = share(
    "frevo:audit overflow",
    TEXT,
    "drop",
    "If a destination does not keep up: drop events, or refuse the requests that they would record. Not in Samba.",
)
.read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    share("full_audit:prefix", TEXT, "%u|%I", "The start of each line of the audit.").reads(read),
    SUCCESS,
    FAILURE,
    FACILITY,
    PRIORITY,
    SYSLOG,
    LOG_SECDESC,
    FILE,
    JOURNAL,
    OVERFLOW,
];

/// The facilities of syslog with their numbers.
const FACILITIES: [(&str, u8); 20] = [
    ("kern", 0),
    ("user", 1),
    ("mail", 2),
    ("daemon", 3),
    ("auth", 4),
    ("syslog", 5),
    ("lpr", 6),
    ("news", 7),
    ("uucp", 8),
    ("cron", 9),
    ("authpriv", 10),
    ("ftp", 11),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

/// The priorities of syslog by their numbers.
const PRIORITIES: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

fn read(prefix: ValueReader<'_>, share: &mut Share) {
    let section = prefix.section;
    if !modules::are_asked_for(&section, "full_audit") {
        return;
    }
    let destination = destination(&section);
    let overflow = overflow(section.value(&OVERFLOW));
    if overflow == Overflow::Refuse && destination == Destination::Log {
        let value = section.value(&OVERFLOW);
        let message = "the log of the server keeps no events, so that requests are not refused".to_owned();
        let remedy = "set `frevo:audit file` or `frevo:audit journal`, or remove `full_audit:syslog = no`";
        value.report(warning(Code::Contradiction, message).remedy(remedy));
    }
    share.audit = Some(Arc::new(Audit {
        prefix: prefix.template(),
        success: operations(section.value(&SUCCESS)),
        failure: operations(section.value(&FAILURE)),
        priority: facility(section.value(&FACILITY)) << 3 | priority(section.value(&PRIORITY)),
        log_secdesc: section.value(&LOG_SECDESC).boolean(),
        destination,
        overflow,
        sees_recycling: sees_recycling(&section),
    }));
}

/// Reads a list of operations. As in Samba, the share is not served if one is unknown.
fn operations(value: ValueReader<'_>) -> Operations {
    let list = value.list();
    let operations = Operations::parse(list.iter().map(String::as_str)).unwrap_or_else(|unknown| {
        let name = unknown.trim_start_matches('!').to_ascii_lowercase();
        match Operation::renamed(&name) {
            Some(present) => value.bad_value(unknown, &format!("`{present}`, which is its name since Samba 4.13")),
            None => value.bad_value(unknown, "all, none, and the names of operations in docs/modules.md"),
        }
        Operations::NONE
    });
    if operations != Operations::NONE && operations.is_silent() {
        let message = format!("none of the operations of `{}` is ever recorded", value.name());
        let remedy = "name operations of clients, such as create_file, renameat and unlinkat";
        value.report(warning(Code::Contradiction, message).remedy(remedy));
    }
    operations
}

fn facility(value: ValueReader<'_>) -> u8 {
    let text = value.choice().to_ascii_lowercase();
    let known = FACILITIES.iter().find(|(name, _)| *name == text);
    known.map_or_else(
        || {
            value.bad_value(
                &text,
                "kern, user, mail, daemon, auth, syslog, news, uucp, cron, authpriv, local0 to local7",
            );
            1
        },
        |(_, number)| *number,
    )
}

fn priority(value: ValueReader<'_>) -> u8 {
    let text = value.choice().to_ascii_lowercase();
    let known = PRIORITIES.iter().position(|name| *name == text).and_then(|at| u8::try_from(at).ok());
    known.unwrap_or_else(|| {
        value.ignored_value(&text, &PRIORITIES.join(", "));
        4
    })
}

fn destination(section: &Reader<'_>) -> Destination {
    let file = section.value(&FILE);
    let path = PathBuf::from(file.text());
    if path.is_absolute() {
        return Destination::File(path);
    }
    if !path.as_os_str().is_empty() {
        file.bad_value(&file.choice(), "an absolute path");
    }
    match (section.value(&JOURNAL).boolean(), section.value(&SYSLOG).boolean()) {
        (true, _) => Destination::Journal,
        (false, true) => Destination::Syslog,
        (false, false) => Destination::Log,
    }
}

fn overflow(value: ValueReader<'_>) -> Overflow {
    match &*value.choice().to_ascii_lowercase() {
        "drop" => Overflow::Drop,
        "refuse" => Overflow::Refuse,
        other => {
            value.bad_value(other, "drop or refuse");
            Overflow::Drop
        }
    }
}

/// Returns the record of logons for the classes `auth_audit` and `auth_json_audit` of `log level`. A class without a
/// file goes to the destination that `[global]` names for events, or else to the log, as in Samba.
pub(super) fn logons(section: &Reader<'_>, levels: &LogLevel) -> LogonAudit {
    let mut sinks: Vec<(Destination, u8)> = Vec::new();
    for (class, json) in [("auth_audit", false), ("auth_json_audit", true)] {
        // The last of two levels of one class is in effect.
        let Some((_, level)) = levels.classes.iter().rev().find(|(name, _)| name == class) else { continue };
        let destination = match levels.files.get(class) {
            Some(file) if json => Destination::File(file.clone()),
            Some(file) => Destination::Lines(file.clone()),
            None => common(section, json),
        };
        // Both classes may have the same destination.
        match sinks.iter_mut().find(|(other, _)| *other == destination) {
            Some((_, other)) => *other = (*other).max(*level),
            None => sinks.push((destination, *level)),
        }
    }
    // Nothing is written below the level of failures.
    sinks.retain(|(_, level)| *level >= 2);
    LogonAudit { sinks }
}

/// Returns the destination of the changes by administrators.
pub(super) fn administration(section: &Reader<'_>) -> Destination {
    match common(section, true) {
        Destination::JsonLog => Destination::Log,
        other => other,
    }
}

/// Returns the destination of logons whose class has no file.
fn common(section: &Reader<'_>, json: bool) -> Destination {
    // The name of a file for each share or user is not one for logons.
    let file = PathBuf::from(section.value(&FILE).template().constant().unwrap_or_default());
    let is_set = |parameter| section.value(parameter).is_set() && section.value(parameter).boolean();
    if json && file.is_absolute() {
        Destination::File(file)
    } else if is_set(&JOURNAL) {
        Destination::Journal
    } else if is_set(&SYSLOG) {
        Destination::Syslog
    } else if json {
        Destination::JsonLog
    } else {
        Destination::Log
    }
}

/// Returns whether recycle is before full_audit in `vfs objects`, so that Samba's full_audit records a rename.
fn sees_recycling(section: &Reader<'_>) -> bool {
    let objects = section.value(&VFS_OBJECTS).list();
    let position = |name: &str| {
        objects.iter().position(|element| fold_name(element.split(':').next().unwrap_or_default()) == name)
    };
    position("recycle").is_some_and(|recycle| position("full_audit").is_some_and(|audit| recycle < audit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::load_files;
    use server::policy::Template;

    /// Returns the audit of a share with these lines, or the problems if the share is not served.
    fn share_with(lines: &str) -> Result<Option<Audit>, String> {
        let (loaded, directory) = load_files(&[("smb.conf", &format!("[x]\npath = @DIR@/x\n{lines}\n"))]);
        drop(directory);
        let loaded = loaded.map_err(|problems| problems.to_string())?;
        if loaded.warnings.faulty_shares().next().is_some() {
            return Err(loaded.warnings.to_string());
        }
        Ok(loaded.policy.shares["x"].audit.as_deref().cloned())
    }

    fn audit_with(lines: &str) -> Audit {
        share_with(lines).expect("it loads").expect("an audit")
    }

    #[test]
    fn options_are_read_if_the_module_is_named() {
        assert!(share_with("full_audit:success = all").expect("it loads").is_none());
        let audit = audit_with("vfs objects = acl_xattr full_audit");
        assert_eq!(audit.prefix, Template::parse("%u|%I").expect("known variables"));
        assert_eq!((audit.success, audit.failure), (Operations::NONE, Operations::NONE));
        assert_eq!((audit.priority, audit.destination), (13, Destination::Syslog));
        let audit = audit_with(
            "vfs objects = full_audit\nfull_audit:prefix = %U|%m|%S|%T\nfull_audit:success = all, !close\n\
             full_audit:failure = connect\nfull_audit:facility = LOCAL5\nfull_audit:priority = notice\n\
             full_audit:log_secdesc = yes",
        );
        assert_eq!(audit.prefix, Template::parse("%U|%m|x|%T").expect("known variables"));
        assert!(audit.success.contains(Operation::OPENAT) && !audit.success.contains(Operation::CLOSE));
        assert!(audit.failure.contains(Operation::CONNECT) && !audit.failure.contains(Operation::OPENAT));
        assert!(audit.log_secdesc && audit.priority == 173 && !audit.sees_recycling);
    }

    #[test]
    fn the_destination_is_syslog_the_log_or_a_file() {
        let destination = |lines: &str| audit_with(&format!("vfs objects = full_audit\n{lines}")).destination;
        assert_eq!(destination("full_audit:syslog = no"), Destination::Log);
        assert_eq!(destination("frevo:audit file = /var/log/%S.json"), Destination::File("/var/log/x.json".into()));
        assert!(share_with("vfs objects = full_audit\nfrevo:audit file = audit.json").is_err());
        assert!(share_with("vfs objects = full_audit\nfrevo:audit file = /var/log/%U.json").is_err());
    }

    #[test]
    fn changes_by_administrators_have_the_destination_of_global() {
        let destination = |lines: &str| {
            let (loaded, _directory) = load_files(&[("smb.conf", &format!("[global]\n{lines}\n"))]);
            loaded.expect("it loads").policy.administration_audit
        };
        assert_eq!(destination(""), Destination::Log);
        assert_eq!(destination("frevo:audit file = /var/log/a.json"), Destination::File("/var/log/a.json".into()));
        assert_eq!(destination("frevo:audit file = /var/log/%S.json"), Destination::Log);
        assert_eq!(destination("frevo:audit journal = yes"), Destination::Journal);
        assert_eq!(destination("full_audit:syslog = yes"), Destination::Syslog);
    }

    #[test]
    fn the_destination_may_be_the_journal_and_requests_may_be_refused() {
        let audit = audit_with("vfs objects = full_audit\nfrevo:audit journal = yes\nfrevo:audit overflow = Refuse");
        assert_eq!((audit.destination, audit.overflow), (Destination::Journal, Overflow::Refuse));
        assert_eq!(audit_with("vfs objects = full_audit").overflow, Overflow::Drop);
        assert!(share_with("vfs objects = full_audit\nfrevo:audit overflow = block").is_err());
    }

    #[test]
    fn a_log_that_keeps_no_events_is_named_if_requests_are_to_be_refused() {
        let warns = |lines: &str| {
            let lines =
                format!("[x]\npath = @DIR@/x\nvfs objects = full_audit\nfrevo:audit overflow = refuse\n{lines}\n");
            let (loaded, _directory) = load_files(&[("smb.conf", &lines)]);
            loaded.expect("it loads").warnings.to_string().contains("keeps no events")
        };
        assert!(warns("full_audit:syslog = no"));
        assert!(!warns("") && !warns("full_audit:syslog = no\nfrevo:audit journal = yes"));
    }

    #[test]
    fn classes_of_the_log_level_record_logons() {
        let logons = |lines: &str| {
            let (loaded, _directory) = load_files(&[("smb.conf", &format!("[global]\n{lines}\n"))]);
            loaded.expect("it loads").policy.logon_audit.sinks
        };
        assert_eq!(logons("log level = 3"), []);
        assert_eq!(logons("log level = 1 auth_audit:1"), []);
        assert_eq!(logons("log level = 1 auth_audit:3"), [(Destination::Log, 3)]);
        assert_eq!(logons("log level = 1 auth_json_audit:2"), [(Destination::JsonLog, 2)]);
        assert_eq!(
            logons("log level = 1 auth_audit:3@/var/log/auth.log auth_json_audit:5@/var/log/auth.json"),
            [(Destination::Lines("/var/log/auth.log".into()), 3), (Destination::File("/var/log/auth.json".into()), 5)]
        );
        let both = "log level = 1 auth_audit:3 auth_json_audit:3\n";
        assert_eq!(
            logons(&format!("{both}frevo:audit file = /var/log/audit.json")),
            [(Destination::Log, 3), (Destination::File("/var/log/audit.json".into()), 3)]
        );
        assert_eq!(logons(&format!("{both}frevo:audit journal = yes")), [(Destination::Journal, 3)]);
        let levels = |levels: &str| logons(&format!("log level = {levels}\nfrevo:audit journal = yes"));
        assert_eq!(levels("auth_audit:3 auth_json_audit:0"), [(Destination::Journal, 3)], "the higher of two classes");
        assert_eq!(levels("auth_audit:2 auth_json_audit:5"), [(Destination::Journal, 5)]);
        assert_eq!(levels("auth_audit:5 auth_audit:2"), [(Destination::Journal, 2)], "the last of one class");
        assert_eq!(logons("log level = auth_audit:3\nfull_audit:syslog = yes"), [(Destination::Syslog, 3)]);
    }

    #[test]
    fn deletions_are_renames_below_the_recycle_bin() {
        assert!(audit_with("vfs objects = recycle full_audit").sees_recycling);
        assert!(!audit_with("vfs objects = full_audit recycle").sees_recycling);
    }

    #[test]
    fn an_unknown_operation_or_facility_makes_the_share_unavailable() {
        for (line, said) in [
            ("full_audit:success = connect bogus", "bogus"),
            ("full_audit:failure = !bogus", "!bogus"),
            ("full_audit:success = mkdir", "`mkdirat`"),
            ("full_audit:facility = security", "security"),
        ] {
            let loaded = share_with(&format!("vfs objects = full_audit\n{line}"));
            assert!(loaded.is_err_and(|problems| problems.contains(said)), "{line}");
        }
        // As in Samba, which then uses this priority.
        assert_eq!(audit_with("vfs objects = full_audit\nfull_audit:priority = bogus").priority, 12);
    }
}
