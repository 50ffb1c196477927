//! Logon statistics in the directory: `sambaLogonTime`, `sambaBadPasswordCount`, `sambaBadPasswordTime`.
//!
//! Logons do not wait for the writes. Notes are collected for a second and written one account at a time; beyond
//! [`MOST`] accounts, notes are dropped. The time of a logon is written at most once an hour, because replicated
//! directories are not made for a change at every logon.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::Mutex;
use server::accounts::LogonOutcome;
use server::policy::fold;
use tokio::sync::Notify;

use super::cache::Kept;
use super::people::People;
use super::worker::Worker;
use crate::when;
use ldap::message::{Change, ChangeKind, Request, ResultCode};

/// Maximum number of accounts with pending notes.
const MOST: usize = 4096;
/// How long notes are collected.
const GATHER: Duration = Duration::from_secs(1);
/// How long a written logon time is not updated.
const GOOD_ENOUGH: Duration = Duration::from_secs(3600);

/// Notes that are not yet written.
pub(super) struct Notes(Arc<Shared>);

struct Shared {
    pending: Mutex<HashMap<String, Note>>,
    some: Notify,
    /// Whether the last outcome of an account was a logon, for recent outcomes.
    told: Kept<String, bool>,
}

/// The note about an account.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Note {
    /// A logon succeeded; `bad` counts only wrong passwords after it.
    good: bool,
    /// Wrong passwords since the last successful logon.
    bad: u32,
    /// The time of the last outcome, in seconds since 1970.
    at: i64,
}

impl Notes {
    pub(super) fn start(worker: &Worker, people: Arc<People>) -> Notes {
        let shared = Arc::new(Shared { pending: Mutex::new(HashMap::new()), some: Notify::new(), told: Kept::new() });
        let notes = shared.clone();
        worker.run(async move {
            let mut allowed = true;
            while allowed {
                notes.some.notified().await;
                tokio::time::sleep(GATHER).await;
                let gathered = std::mem::take(&mut *notes.pending.lock());
                allowed = write_all(&people, gathered).await;
            }
        });
        Notes(shared)
    }

    /// Records the outcome of a logon.
    pub(super) fn take(&self, name: &str, outcome: LogonOutcome) {
        let (key, shared) = (fold(name), &self.0);
        let good = outcome == LogonOutcome::Success;
        if good && shared.told.get(&key, |_| GOOD_ENOUGH) == Some(true) {
            return;
        }
        let mut pending = shared.pending.lock();
        if pending.len() >= MOST && !pending.contains_key(&key) {
            return;
        }
        shared.told.put(key.clone(), good, GOOD_ENOUGH);
        let note = pending.entry(key).or_default();
        *note = note.then(outcome, when::now());
        drop(pending);
        shared.some.notify_one();
    }
}

impl Note {
    fn then(self, outcome: LogonOutcome, at: i64) -> Note {
        match outcome {
            LogonOutcome::Success => Note { good: true, bad: 0, at },
            LogonOutcome::WrongPassword => Note { bad: self.bad.saturating_add(1), at, ..self },
        }
    }

    /// Returns the changes of an account that had `bad_before` wrong passwords.
    fn changes(self, bad_before: u32) -> Vec<Change> {
        let replace = |attribute, value: String| Change::new(ChangeKind::Replace, attribute, value);
        let mut changes = Vec::new();
        if self.good {
            changes.push(replace("sambaLogonTime", self.at.to_string()));
        }
        let bad = if self.good { self.bad } else { bad_before.saturating_add(self.bad) };
        if bad != bad_before {
            changes.push(replace("sambaBadPasswordCount", bad.to_string()));
        }
        if self.bad > 0 {
            changes.push(replace("sambaBadPasswordTime", self.at.to_string()));
        }
        changes
    }
}

/// Writes the notes; returns whether further writes may succeed.
async fn write_all(people: &People, notes: HashMap<String, Note>) -> bool {
    let began = Instant::now();
    for (name, note) in notes {
        match write(people, &name, note).await {
            Ok(ResultCode::INSUFFICIENT_ACCESS) => {
                tracing::warn!(
                    "logons are not recorded: `ldap admin dn` cannot write sambaLogonTime and sambaBadPasswordCount"
                );
                return false;
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(account = name, "logon not recorded in the LDAP directory: {error:#}"),
        }
        // If the directory is unavailable or slow, the remaining notes are dropped instead of queued.
        if began.elapsed() > people.settings.timeout * 2 {
            return true;
        }
    }
    true
}

async fn write(people: &People, name: &str, note: Note) -> Result<ResultCode> {
    let Some(person) = people.person(name).await? else { return Ok(ResultCode::SUCCESS) };
    let changes = note.changes(person.bad_passwords);
    let reply = people.change(&Request::Modify { dn: &person.dn, changes: &changes }).await?;
    Ok(reply.outcome.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logon_outcomes_are_combined_into_one_change() {
        use LogonOutcome::{Success, WrongPassword};
        let check = |outcomes: &[LogonOutcome], before: u32, expected: &[(&str, &str)]| {
            let note = outcomes.iter().zip(1..).fold(Note::default(), |note, (outcome, at)| note.then(*outcome, at));
            let changes = note.changes(before);
            let seen: Vec<_> = changes.iter().map(|change| (change.attribute, change.values[0].as_str())).collect();
            assert_eq!(seen, expected, "{outcomes:?}");
        };
        check(&[Success], 0, &[("sambaLogonTime", "1")]);
        check(&[Success], 2, &[("sambaLogonTime", "1"), ("sambaBadPasswordCount", "0")]);
        check(&[WrongPassword, WrongPassword], 2, &[("sambaBadPasswordCount", "4"), ("sambaBadPasswordTime", "2")]);
        check(&[WrongPassword, Success], 0, &[("sambaLogonTime", "2")]);
        check(
            &[Success, WrongPassword],
            5,
            &[("sambaLogonTime", "2"), ("sambaBadPasswordCount", "1"), ("sambaBadPasswordTime", "2")],
        );
    }
}
