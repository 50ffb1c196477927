//! The report of a migration: what stays the same, what does not, and what to do next.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::samba::{Loss, Samba};
use super::services;
use crate::admin::message::{ImportResult, MigrationOutcome, Outcome};
use smbconf::location::AccountPlace;
use smbconf::{Names, Problem, Severity};

/// The configuration as Frevo understands it.
#[derive(Serialize)]
pub(super) struct Configuration {
    /// The file.
    pub(super) file: PathBuf,
    /// Whether Frevo starts with it.
    pub(super) starts: bool,
    /// The shares that Frevo serves.
    pub(super) shares: Vec<String>,
    /// Errors and warnings.
    pub(super) problems: Vec<Problem>,
    /// Whether a share stores Windows ACLs.
    stores_acls: bool,
}

impl Configuration {
    /// Reads the configuration.
    pub(super) fn read(file: &Path, names: &dyn Names) -> Configuration {
        let (starts, problems, policy) = match smbconf::load(file, names) {
            Ok(loaded) => (true, loaded.warnings, Some(loaded.policy)),
            Err(problems) => (false, problems, None),
        };
        let homes = policy.iter().filter_map(|policy| policy.homes.as_ref()).map(|homes| homes.section());
        let shares = policy.iter().flat_map(|policy| policy.shares.values()).map(|share| &**share).chain(homes);
        let shares: Vec<_> = shares.filter(|share| share.available).collect();
        Configuration {
            file: file.to_owned(),
            starts,
            shares: shares.iter().map(|share| share.name.clone()).collect(),
            stores_acls: shares.iter().any(|share| share.acls.stored.is_some()),
            problems: problems.0.into_iter().filter(|problem| problem.severity != Severity::Note).collect(),
        }
    }

    /// Formats what will not be as with Samba.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for problem in &self.problems {
            let _ = writeln!(text, "  {}", problem.to_string().replace('\n', "\n  "));
        }
        text
    }
}

/// The counts of one kind of thing.
#[derive(Serialize, Default, PartialEq, Debug)]
struct Counts {
    added: usize,
    updated: usize,
    unchanged: usize,
    conflicts: usize,
}

impl Counts {
    fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Counts {
        let mut counts = Counts::default();
        for outcome in outcomes {
            *match outcome.result {
                ImportResult::Added => &mut counts.added,
                ImportResult::Updated => &mut counts.updated,
                ImportResult::Unchanged => &mut counts.unchanged,
                ImportResult::Skipped => &mut counts.conflicts,
            } += 1;
        }
        counts
    }

    fn changes(&self) -> usize {
        self.added + self.updated
    }
}

/// A note or conflict about one thing.
#[derive(Serialize)]
struct Remark {
    subject: String,
    message: String,
    conflict: bool,
}

/// The report.
#[derive(Serialize)]
pub(super) struct Report {
    dry_run: bool,
    /// Whether anything was changed, or would be without `--dry-run`.
    changes: bool,
    state_directory: PathBuf,
    configuration: Configuration,
    machine_sid: String,
    accounts: Counts,
    groups: Counts,
    policies: Counts,
    share_acls: Counts,
    remarks: Vec<Remark>,
    losses: Vec<Loss>,
    /// Accounts of Samba that are not users.
    ignored: Vec<String>,
    samba_is_running: bool,
    /// The commands to run next.
    commands: Vec<String>,
}

impl Report {
    pub(super) fn new(
        configuration: Configuration,
        place: &AccountPlace,
        samba: Samba,
        outcome: MigrationOutcome,
        dry_run: bool,
        samba_is_running: bool,
    ) -> Report {
        let remarks = remarks(&samba, &outcome);
        let machine_sid = Counts::of([&outcome.machine_sid]);
        let [accounts, groups, policies, share_acls] =
            [&outcome.accounts, &outcome.groups, &outcome.policies, &outcome.share_acls].map(Counts::of);
        let changes = [&machine_sid, &accounts, &groups, &policies, &share_acls].iter().any(|it| it.changes() > 0);
        let drop_in = configuration.stores_acls.then(services::windows_acls).flatten();
        Report {
            dry_run,
            changes,
            state_directory: place.state.clone(),
            machine_sid: samba.migration.machine_sid,
            accounts,
            groups,
            policies,
            share_acls,
            remarks,
            losses: samba.losses,
            ignored: samba.ignored,
            samba_is_running,
            commands: drop_in.into_iter().chain(services::forth()).collect(),
            configuration,
        }
    }

    /// Returns the number of things that were left alone because they differ.
    pub(super) fn conflicts(&self) -> usize {
        [&self.accounts, &self.groups, &self.policies, &self.share_acls].iter().map(|counts| counts.conflicts).sum()
    }

    /// Formats the report.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let verb = if self.dry_run { "would be" } else { "were" };
        let state = self.state_directory.display();
        let _ = writeln!(text, "Stays the same:");
        let _ =
            writeln!(text, "  the files with their Windows ACLs, streams and attributes, which stay where they are");
        let _ = writeln!(text, "  the machine SID {}", self.machine_sid);
        for (what, counts) in [
            ("accounts with passwords, SIDs and flags", &self.accounts),
            ("groups with SIDs", &self.groups),
            ("account policies", &self.policies),
            ("share ACLs", &self.share_acls),
        ] {
            let _ = write!(text, "  {what}: {}", counts.changes() + counts.unchanged);
            if counts.changes() > 0 {
                let _ = write!(text, " ({} {verb} added, {} updated in {state})", counts.added, counts.updated);
            }
            text.push('\n');
        }
        let _ =
            writeln!(text, "  shares of {}: {}", self.configuration.file.display(), self.configuration.shares.len());
        self.differences(&mut text);
        self.next(&mut text);
        text
    }

    fn differences(&self, text: &mut String) {
        if !self.configuration.problems.is_empty() || !self.losses.is_empty() || !self.ignored.is_empty() {
            let _ = writeln!(text, "Does not stay the same:");
            *text += &self.configuration.text();
        }
        for Loss { subject, message } in &self.losses {
            let _ = writeln!(text, "  {subject} {message}");
        }
        for ignored in &self.ignored {
            let _ = writeln!(text, "  not imported: {ignored}");
        }
        for (head, conflict) in [("Conflicts, left as they are:", true), ("Notes:", false)] {
            let found: Vec<_> = self.remarks.iter().filter(|remark| remark.conflict == conflict).collect();
            if !found.is_empty() {
                let _ = writeln!(text, "{head}");
            }
            for Remark { subject, message, .. } in found {
                let _ = writeln!(text, "  {subject} {message}");
            }
        }
    }

    fn next(&self, text: &mut String) {
        match (self.dry_run, self.changes) {
            (true, true) => *text += "Nothing was changed (--dry-run).\n",
            (_, false) => *text += "Nothing to do: everything was migrated before.\n",
            (false, true) => {}
        }
        if self.samba_is_running {
            *text += "Samba is running. Run this command again between the two that swap the services, so that \
                      passwords changed until then are taken over.\n";
        }
        *text += "To swap the services:\n";
        for command in &self.commands {
            let _ = writeln!(text, "  {command}");
        }
        *text += "To go back: `frevo migrate --back` shows how.\n";
    }
}

fn remarks(samba: &Samba, outcome: &MigrationOutcome) -> Vec<Remark> {
    let migration = &samba.migration;
    let accounts = migration.accounts.iter().map(|account| format!("account {}", account.account.name));
    let groups = migration.groups.iter().map(|group| format!("group {}", group.name));
    let policies = migration.policies.iter().map(|(name, _)| format!("policy {name:?}"));
    let acls = migration.share_acls.iter().map(|acl| format!("share ACL of [{}]", acl.share));
    let outcomes = outcome.accounts.iter().chain(&outcome.groups).chain(&outcome.policies).chain(&outcome.share_acls);
    let subjects = accounts.chain(groups).chain(policies).chain(acls);
    let remark = |(subject, outcome): (String, &Outcome)| {
        let message = outcome.note.clone()?;
        Some(Remark { subject, message, conflict: outcome.result == ImportResult::Skipped })
    };
    subjects.zip(outcomes).filter_map(remark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted() {
        use ImportResult::{Added, Skipped, Unchanged, Updated};
        let outcomes = [Added, Skipped, Unchanged, Updated, Added].map(Outcome::of);
        let expected = Counts { added: 2, updated: 1, unchanged: 1, conflicts: 1 };
        assert_eq!(Counts::of(&outcomes), expected);
        assert_eq!(expected.changes(), 3);
    }
}
