//! `frevo user import`: reads all lines, then adds and updates the accounts in batches.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use server::policy::fold;
use zeroize::Zeroizing;

use super::{Performer, print};
use crate::admin::message::{IMPORT_BATCH, ImportResult, Imported, Outcome, UserReply, UserRequest};
use accounts::{Line, read_line};
use smbconf::location::AccountPlace;

/// Maximum number of bytes read per line; the rest of a longer line is skipped.
const LONGEST_LINE: u64 = 4096;

/// Minimum number of accounts for which progress is shown on a terminal.
const WORTH_SHOWING: usize = 2 * IMPORT_BATCH;

/// Counts of the import.
#[derive(Default, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) added: usize,
    pub(super) updated: usize,
    pub(super) unchanged: usize,
    /// Lines that are intentionally not user accounts.
    pub(super) passed_over: usize,
    /// Lines that could not be parsed and accounts that were refused.
    pub(super) refused: usize,
}

/// An account to import and its line number.
struct Entry {
    line: usize,
    account: Imported,
}

/// Runs the command.
pub(super) fn run(place: &AccountPlace, file: &Path, dry_run: bool) -> Result<ExitCode> {
    let shown = if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
    let report = |line: usize, text: &str| eprintln!("{shown}:{line}: {text}");
    let mut summary = Summary::default();
    let entries = match file == Path::new("-") {
        true => read(std::io::stdin().lock(), &mut summary, &report),
        false => read(File::open(file).with_context(|| shown.clone())?, &mut summary, &report),
    }
    .with_context(|| shown.clone())?;
    if !entries.is_empty() {
        // A dry run does not create the directory. Without it, every account is new.
        match Performer::open(place, !dry_run)? {
            Some(mut performer) => write(&mut performer, &entries, dry_run, &mut summary, &report)?,
            None => summary.added = entries.len(),
        }
    }
    print(&format!(
        "{}{} added, {} updated, {} unchanged, {} ignored, {} refused\n",
        if dry_run { "dry run, nothing was changed: " } else { "" },
        summary.added,
        summary.updated,
        summary.unchanged,
        summary.passed_over,
        summary.refused
    ))?;
    Ok(if summary.refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Parses the accounts of all valid lines. The others are reported and counted.
fn read(input: impl Read, summary: &mut Summary, report: &dyn Fn(usize, &str)) -> Result<Vec<Entry>> {
    let mut input = BufReader::new(input);
    let mut entries = Vec::new();
    let mut names = HashSet::new();
    let mut bytes = Zeroizing::new(Vec::new());
    for line in 1.. {
        bytes.clear();
        if (&mut input).take(LONGEST_LINE + 1).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        if bytes.len() as u64 > LONGEST_LINE {
            input.skip_until(b'\n')?;
        }
        match read_line(bytes.strip_suffix(b"\n").unwrap_or(&bytes)) {
            Ok(Line::Account(account, _)) if !names.insert(fold(&account.name)) => {
                summary.refused += 1;
                report(line, &format!("skipped: {} already appears in an earlier line", account.name));
            }
            Ok(Line::Account(account, note)) => {
                if let Some(note) = note {
                    report(line, &format!("{} {note}", account.name));
                }
                entries.push(Entry { line, account });
            }
            Ok(Line::Skipped(why)) => {
                summary.passed_over += 1;
                report(line, &format!("ignored: {why}"));
            }
            Ok(Line::Nothing) => {}
            Err(error) => {
                summary.refused += 1;
                report(line, &format!("skipped: {error:#}"));
            }
        }
    }
    Ok(entries)
}

fn write(
    performer: &mut Performer,
    entries: &[Entry],
    dry_run: bool,
    summary: &mut Summary,
    report: &dyn Fn(usize, &str),
) -> Result<()> {
    let show = entries.len() >= WORTH_SHOWING && std::io::stderr().is_terminal();
    let mut done = 0;
    for batch in entries.chunks(IMPORT_BATCH) {
        let accounts = batch.iter().map(|entry| entry.account.clone()).collect();
        let UserReply::Imported(outcomes) = performer.perform(UserRequest::Import { accounts, dry_run })? else {
            bail!("the server sent an unexpected answer");
        };
        for (entry, outcome) in batch.iter().zip(&outcomes) {
            count(summary, entry, outcome, report);
        }
        done += batch.len();
        if show {
            eprint!("\r{done} of {} accounts\x1b[K{}", entries.len(), if done == entries.len() { "\n" } else { "" });
        }
    }
    Ok(())
}

fn count(summary: &mut Summary, entry: &Entry, outcome: &Outcome, report: &dyn Fn(usize, &str)) {
    match outcome.result {
        ImportResult::Added => summary.added += 1,
        ImportResult::Updated => summary.updated += 1,
        ImportResult::Unchanged => summary.unchanged += 1,
        ImportResult::Skipped => summary.refused += 1,
    }
    if let Some(note) = &outcome.note {
        let skipped = if outcome.result == ImportResult::Skipped { "skipped: " } else { "" };
        report(entry.line, &format!("{skipped}{} {note}", entry.account.name));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn lines_are_accounts_or_problems() {
        const HASHES: &str = "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:1D3EC02BF8AAF6D00F91C0A7F0F3C160";
        let long = "x".repeat(10_000);
        let text = format!(
            "# comment\nann:1:{HASHES}:[U]:LCT-1:\n{long}\nANN:2:{HASHES}:[U]:\npc$:3:{HASHES}:[W]:\n\n\
             bad\nbob:4:{HASHES}:[N]:"
        );
        let said = RefCell::new(Vec::new());
        let mut summary = Summary::default();
        let report = |line: usize, text: &str| said.borrow_mut().push((line, text.to_owned()));
        let entries = read(text.as_bytes(), &mut summary, &report).unwrap();
        let found: Vec<_> = entries.iter().map(|entry| (entry.line, entry.account.name.as_str())).collect();
        assert_eq!(found, [(2, "ann"), (8, "bob")]);
        assert_eq!(summary, Summary { passed_over: 1, refused: 3, ..Summary::default() });
        let said = said.into_inner();
        for ((line, word), (at, text)) in
            [(3, "more than"), (4, "earlier"), (5, "workstation"), (7, "ends before"), (8, "password")]
                .iter()
                .zip(&said)
        {
            assert!(at == line && text.contains(word), "{at}: {text}");
        }
        assert_eq!(said.len(), 5);
    }
}
