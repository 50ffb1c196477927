//! `frevo acl diff`: compares the security descriptors of two files, or the stored descriptor of one file with the one
//! synthesized from its POSIX ACL alone.
//!
//! Exit status as for diff(1): 0 identical, 1 different, 2 error.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use proto::dtyp::acl::Ace;
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{Acl, SecurityDescriptor, sddl};
use server::security::admin::{Look, Source};

use super::place::{Opened, Where};
use super::words::{self, People};
use crate::table::printable;
use crate::user::print;

/// Shows the differences between the Windows ACLs of two files, or between a file's stored ACL and its POSIX ACL
#[derive(Args, Debug)]
pub(super) struct DiffArgs {
    /// Local path of the file or directory
    path: PathBuf,
    /// Local path of the other file; without it, the stored descriptor of the first is compared with its POSIX ACL
    other: Option<PathBuf>,
    /// The share to use if several shares contain the path
    #[arg(long, value_name = "NAME")]
    share: Option<String>,
    #[command(flatten)]
    place: Where,
}

/// Runs the command.
pub(super) async fn run(args: DiffArgs) -> Result<ExitCode> {
    Ok(match compare(&args).await {
        Ok(same) => ExitCode::from(u8::from(!same)),
        Err(error) => {
            eprintln!("frevo: {error:#}");
            ExitCode::from(2)
        }
    })
}

/// Prints the differences. Returns whether there are none.
async fn compare(args: &DiffArgs) -> Result<bool> {
    let opened = args.place.open()?;
    let look = look(&opened, args, &args.path).await?;
    let path = args.path.display().to_string();
    let mut kinds = [look.posix.directory; 2];
    let (old, new) = match &args.other {
        Some(other) => {
            let theirs = self::look(&opened, args, other).await?;
            kinds[1] = theirs.posix.directory;
            ((path, look.descriptor), (other.display().to_string(), theirs.descriptor))
        }
        None => {
            let stored = match look.source {
                Source::Outdated(stored) | Source::Unsure(stored) => (format!("{path} (stored, not valid)"), stored),
                Source::Stored => (format!("{path} (stored)"), look.descriptor),
                _ => (path.clone(), look.descriptor),
            };
            ((format!("{path} (POSIX ACL)"), look.converted), stored)
        }
    };
    let people = People::of(&*opened.accounts.ids, &[&old.1, &new.1]).await;
    let lines = differences(&old.1, &new.1, &people, kinds);
    if !lines.is_empty() {
        let lines: String = lines.iter().map(|line| printable(line) + "\n").collect();
        print(&format!("--- {}\n+++ {}\n{lines}", printable(&old.0), printable(&new.0)))?;
    }
    Ok(lines.is_empty())
}

async fn look(opened: &Opened, args: &DiffArgs, path: &Path) -> Result<Look> {
    let (counter, inside) = opened.counter(path, args.share.as_deref())?;
    let failed = |error: server::error::Error| anyhow!("{}: {error}", path.display());
    let item = counter.desk.item(&inside).await.map_err(failed)?;
    counter.desk.look(&item).await.map_err(failed)
}

/// Returns a line for each part and ACE that only one of the descriptors has: `-` for the old, `+` for the new.
/// `directories` indicates which of the two files are directories.
fn differences(
    old: &SecurityDescriptor,
    new: &SecurityDescriptor,
    people: &People,
    directories: [bool; 2],
) -> Vec<String> {
    let mut lines = Vec::new();
    for (head, part, old, new) in [("O:", "owner", old.owner, new.owner), ("G:", "group", old.group, new.group)] {
        for (sign, sid) in [('-', old), ('+', new)] {
            if let Some(sid) = sid.filter(|_| old != new) {
                lines.push(format!("{sign}{head}{}  {part}: {}", sddl::encode_sid(&sid), people.name(&sid)));
            }
        }
    }
    for is_dacl in [true, false] {
        let (before, after) = (head(old, is_dacl), head(new, is_dacl));
        if before != after {
            lines.extend(
                [('-', before), ('+', after)].into_iter().filter_map(|(sign, head)| Some(format!("{sign}{}", head?))),
            );
        }
        let list = |descriptor: &'_ SecurityDescriptor| {
            let list = if is_dacl { descriptor.dacl.clone() } else { descriptor.sacl.clone() };
            list.map(Acl::into_aces).unwrap_or_default()
        };
        for (sign, ace) in changes(&list(old), &list(new)) {
            let text = sddl::encode_ace(&ace).unwrap_or_else(|error| error.to_string());
            lines.push(format!("{sign}{text}  {}", words::ace(&ace, people, directories[usize::from(sign == '+')])));
        }
    }
    lines
}

/// Returns the SDDL text before the ACEs of an ACL; `None` if there is no ACL.
fn head(descriptor: &SecurityDescriptor, is_dacl: bool) -> Option<String> {
    let (list, present) = match is_dacl {
        true => (descriptor.dacl.is_some(), Control::DACL_PRESENT),
        false => (descriptor.sacl.is_some(), Control::SACL_PRESENT),
    };
    let control = descriptor.control;
    if !list && !control.contains(present) {
        return None;
    }
    let empty = list.then(Acl::empty);
    let (dacl, sacl) = if is_dacl { (empty, None) } else { (None, empty) };
    let other = if is_dacl { Control::SACL_PRESENT } else { Control::DACL_PRESENT };
    let alone = SecurityDescriptor { control: control.without(other), dacl, sacl, ..SecurityDescriptor::default() };
    sddl::encode(&alone).ok()
}

/// Returns the ACEs to remove and to add, in an order that turns `old` into `new`: all that are not in a longest common
/// subsequence.
fn changes(old: &[Ace], new: &[Ace]) -> Vec<(char, Ace)> {
    let width = new.len() + 1;
    // common[i][j] is the length of the longest common subsequence of old[i..] and new[j..].
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = match old[i] == new[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut changes) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1] {
            changes.push(('-', old[i].clone()));
            i += 1;
        } else {
            changes.push(('+', new[j].clone()));
            j += 1;
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: &[&str]) {
        let of = |text| sddl::decode(text, &sddl::Domains::default()).expect("SDDL");
        let lines = differences(&of(old), &of(new), &People::default(), [false; 2]);
        let texts: Vec<&str> = lines.iter().map(|line| line.split("  ").next().unwrap_or_default()).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn removed_and_added_parts_are_listed() {
        let list = "D:(A;;FR;;;WD)(A;;FA;;;BA)(D;;FW;;;BG)";
        check(list, list, &[]);
        check("O:BAG:BU", "O:SYG:BU", &["-O:BA", "+O:SY"]);
        check("G:BU", "", &["-G:BU"]);
        check(list, "D:(A;;FR;;;WD)(D;;FW;;;BG)", &["-(A;;FA;;;BA)"]);
        check(list, "D:(A;;FR;;;WD)(A;;FX;;;BA)(D;;FW;;;BG)", &["-(A;;FA;;;BA)", "+(A;;FX;;;BA)"]);
        check("D:(A;;FR;;;WD)(A;;FA;;;BA)", "D:(A;;FA;;;BA)(A;;FR;;;WD)", &["-(A;;FR;;;WD)", "+(A;;FR;;;WD)"]);
        check("D:AI(A;;FR;;;WD)", "D:P(A;;FR;;;WD)", &["-D:AI", "+D:P"]);
        check("", "D:S:(AU;SA;FA;;;WD)", &["+D:", "+S:", "+(AU;SA;FA;;;WD)"]);
        check("D:NO_ACCESS_CONTROL", "D:", &["-D:NO_ACCESS_CONTROL", "+D:"]);
    }

    #[test]
    fn lines_end_with_a_description() {
        let of = |text| sddl::decode(text, &sddl::Domains::default()).expect("SDDL");
        let lines = differences(&of("D:"), &of("D:(A;;FR;;;WD)"), &People::default(), [false; 2]);
        assert_eq!(lines, ["+(A;;FR;;;WD)  S-1-1-0 may read"]);
    }
}
