//! What the directory is told of logons: `sambaLogonTime`, `sambaBadPasswordCount`, `sambaBadPasswordTime`.
//!
//! Nobody waits for it. Notes are gathered for a second and written one account after the other; of more accounts than
//! [`MOST`] at a time the rest is not told. The time of a logon is written at most once an hour: a directory with replicas
//! is not made for a change with every logon.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::Mutex;
use server::accounts::LogonOutcome;
use server::policy::fold;
use tokio::sync::Notify;

use super::cache::Kept;
use super::message::{Change, ChangeKind, Request, ResultCode};
use super::people::People;
use super::worker::Worker;
use crate::when;

/// Accounts with something to be told.
const MOST: usize = 4096;
/// How long notes are gathered.
const GATHER: Duration = Duration::from_secs(1);
/// How long the time of a logon is good enough.
const GOOD_ENOUGH: Duration = Duration::from_secs(3600);

/// The notes that are not yet written.
pub(super) struct Notes(Arc<Shared>);

struct Shared {
    pending: Mutex<HashMap<String, Note>>,
    some: Notify,
    /// Whose logon was told, or whose wrong passwords were not yet followed by a logon.
    told: Kept<String, bool>,
}

/// What is to be told of an account.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Note {
    /// A logon came after all wrong passwords.
    good: bool,
    /// Wrong passwords after the last logon.
    bad: u32,
    /// When the last of it was, seconds since 1970.
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

    /// Notes how a logon ended.
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

    /// The changes of an account with so many wrong passwords so far.
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

/// Writes them; whether there is sense in more.
async fn write_all(people: &People, notes: HashMap<String, Note>) -> bool {
    let began = Instant::now();
    for (name, note) in notes {
        match write(people, &name, note).await {
            Ok(ResultCode::INSUFFICIENT_ACCESS) => {
                tracing::warn!(
                    "`ldap admin dn` may not write sambaLogonTime and sambaBadPasswordCount: logons are not noted"
                );
                return false;
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(account = name, "logon not noted in the LDAP directory: {error:#}"),
        }
        // A directory that is away or slow is not waited for with a queue that grows old.
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
    fn notes_add_up() {
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
