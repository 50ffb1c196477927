//! `frevo user sids`: reads the output of `pdbedit -L -v` and records which SID each account had in Samba.
//!
//! Only the lines `Unix username:` and `User SID:` of each account are used.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::{Performer, print};
use crate::admin::message::{FormerSid, IMPORT_BATCH, ImportResult, UserReply, UserRequest};
use smbconf::location::AccountPlace;

/// Maximum number of bytes read per line.
const LONGEST_LINE: u64 = 4096;

/// Runs the command.
pub(super) fn run(place: &AccountPlace, file: &Path, dry_run: bool) -> Result<ExitCode> {
    let shown = if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
    let sids = match file == Path::new("-") {
        true => read(std::io::stdin().lock()),
        false => read(File::open(file).with_context(|| shown.clone())?),
    };
    let sids = sids.with_context(|| shown.clone())?;
    if sids.is_empty() {
        bail!("{shown}: no lines `Unix username:` and `User SID:`; use the output of `pdbedit -L -v`");
    }
    let Some(mut performer) = Performer::open(place, false)? else {
        bail!("there are no accounts in {}; import them first (`frevo user import`)", place.state.display());
    };
    let mut counts = [0; 2];
    for batch in sids.chunks(IMPORT_BATCH) {
        let UserReply::Imported(outcomes) = performer.perform(UserRequest::Sids { sids: batch.to_vec(), dry_run })?
        else {
            bail!("the server sent an unexpected answer");
        };
        for (former, outcome) in batch.iter().zip(outcomes) {
            counts[usize::from(outcome.result == ImportResult::Skipped)] += 1;
            if let Some(note) = outcome.note {
                eprintln!("{shown}: {} {note}", former.name);
            }
        }
    }
    let [noted, refused] = counts;
    let dry = if dry_run { "dry run, nothing was changed: " } else { "" };
    print(&format!("{dry}{noted} recorded, {refused} refused\n"))?;
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Parses the accounts that have both lines.
fn read(input: impl Read) -> Result<Vec<FormerSid>> {
    let mut input = BufReader::new(input);
    let (mut sids, mut name, mut bytes) = (Vec::new(), None, Vec::new());
    loop {
        bytes.clear();
        if (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(sids);
        }
        let line = String::from_utf8_lossy(&bytes);
        let value = |what: &str| line.strip_prefix(what).map(|value| value.trim().to_owned());
        if let Some(found) = value("Unix username:") {
            name = Some(found);
        } else if let Some(sid) = value("User SID:")
            && let Some(name) = name.take()
        {
            sids.push(FormerSid { name, sid });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shortened output of `pdbedit -L -v`, Samba 4.17.
    const PRINTED: &str = "\
---------------
Unix username:        alice
NT username:          
Account Flags:        [U          ]
User SID:             S-1-5-21-1419903593-2238079709-1429831875-1000
Primary Group SID:    S-1-5-21-1419903593-2238079709-1429831875-513
Full Name:            Unix username: mallory
---------------
Unix username:        b ob
User SID:             S-1-5-21-1419903593-2238079709-1429831875-1001
User SID:             S-1-5-21-1419903593-2238079709-1429831875-1002
";

    #[test]
    fn names_and_sids_are_read() {
        let sids = read(PRINTED.as_bytes()).unwrap();
        let found: Vec<_> = sids.iter().map(|former| (former.name.as_str(), &former.sid[41..])).collect();
        assert_eq!(found, [("alice", "-1000"), ("b ob", "-1001")]);
        assert!(read(&b"alice:1:XX"[..]).unwrap().is_empty());
    }
}
