//! `frevo group import`: reads the output of `net groupmap list verbose`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::admin::message::{GroupRequest, IMPORT_BATCH, ImportResult, NewGroup, UserReply, UserRequest};
use crate::user::{Performer, print};
use accounts::groups::GroupKind;
use smbconf::location::AccountPlace;

/// Maximum number of bytes read per line.
const LONGEST_LINE: u64 = 4096;

/// Runs the command.
pub(super) fn run(place: &AccountPlace, file: &Path, dry_run: bool) -> Result<ExitCode> {
    let shown = if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
    let groups = match file == Path::new("-") {
        true => read(std::io::stdin().lock()),
        false => read(File::open(file).with_context(|| shown.clone())?),
    };
    let groups = groups.with_context(|| shown.clone())?;
    if groups.is_empty() {
        bail!("{shown}: no groups found; use the output of `net groupmap list verbose`");
    }
    let mut performer = Performer::open(place, true)?.context("the database was just created")?;
    let mut counts = [0; 3];
    for batch in groups.chunks(IMPORT_BATCH) {
        let request = GroupRequest::Import { groups: batch.to_vec(), dry_run };
        let UserReply::Imported(outcomes) = performer.perform(UserRequest::Group(request))? else {
            bail!("the server sent an unexpected answer");
        };
        for (group, outcome) in batch.iter().zip(outcomes) {
            counts[match outcome.result {
                ImportResult::Added | ImportResult::Updated => 0,
                ImportResult::Unchanged => 1,
                ImportResult::Skipped => 2,
            }] += 1;
            if let Some(note) = outcome.note {
                eprintln!("{shown}: {}: {note}", group.name);
            }
        }
    }
    let [added, unchanged, refused] = counts;
    let dry = if dry_run { "dry run, nothing was changed: " } else { "" };
    print(&format!("{dry}{added} added, {unchanged} unchanged, {refused} refused\n"))?;
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Parses groups: a line with only the name, then indented lines of the form `key : value`.
pub(crate) fn read(input: impl Read) -> Result<Vec<NewGroup>> {
    let mut input = BufReader::new(input);
    let (mut groups, mut bytes) = (Vec::<NewGroup>::new(), Vec::new());
    loop {
        bytes.clear();
        if (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        let line = String::from_utf8_lossy(&bytes);
        let line = line.trim_end();
        if !line.starts_with(['\t', ' ']) && !line.is_empty() {
            groups.push(NewGroup {
                name: line.to_owned(),
                unix_group: String::new(),
                sid: None,
                kind: GroupKind::Domain,
                comment: String::new(),
            });
        } else if let (Some(group), Some((what, value))) = (groups.last_mut(), line.split_once(':')) {
            enter(group, what.trim(), value.trim());
        }
    }
    groups.retain(|group| group.sid.is_some() && !group.unix_group.is_empty());
    Ok(groups)
}

fn enter(group: &mut NewGroup, what: &str, value: &str) {
    match what {
        "SID" => group.sid = Some(value.to_owned()),
        "Unix group" => group.unix_group = value.to_owned(),
        "Group type" => {
            group.kind = match value {
                "Local Group" => GroupKind::Local,
                "Builtin Group" | "Well-known Group" | "Wellknown Group" => GroupKind::Builtin,
                _ => GroupKind::Domain,
            };
            // A builtin group's SID determines its kind, whatever the other fields contain.
            if group.sid.as_ref().is_some_and(|sid| sid.starts_with("S-1-5-32-")) {
                group.kind = GroupKind::Builtin;
            }
        }
        "Comment" => group.comment = value.to_owned(),
        _ => {}
    }
}

/// Samba 4.17.
#[cfg(test)]
pub(super) const PRINTED: &str = "\
NT Staff
\tSID       : S-1-5-21-1653236110-2451207443-2829034443-1000
\tUnix gid  : 4
\tUnix group: 4
\tGroup type: Domain Group
\tComment   : all of us: everybody
Administrators
\tSID       : S-1-5-32-544
\tUnix gid  : 0
\tUnix group: root
\tGroup type: Local Group
\tComment   : 
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read() {
        let groups = read(PRINTED.as_bytes()).unwrap();
        let read: Vec<_> = groups.iter().map(|g| (g.name.as_str(), g.unix_group.as_str(), g.kind)).collect();
        assert_eq!(read, [("NT Staff", "4", GroupKind::Domain), ("Administrators", "root", GroupKind::Builtin)]);
        assert_eq!(groups[0].comment, "all of us: everybody");
        assert!(super::read(&b"NT Staff (S-1-5-21-1-2-3-4) -> x\n"[..]).unwrap().is_empty());
    }
}
