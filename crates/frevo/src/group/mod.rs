//! `frevo group`: manages groups that have their own SIDs and their mapping to UNIX groups, like Samba's `net
//! groupmap`.
//!
//! Like `frevo user`, it works while a server is running; new sessions use the change immediately. Exit status: 0
//! success, 1 refused or partly refused, 2 wrong usage.

mod import;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

pub(crate) use self::import::read as read_printed;
use crate::admin::message::{GroupRequest, GroupView, NewGroup, UserReply, UserRequest};
use crate::table::table;
use crate::user::{Performer, print};
use accounts::groups::GroupKind;
use smbconf::location::{AccountPlace, locate_accounts};

/// Manages groups that have their own SIDs, and their UNIX groups
#[derive(Args, Debug)]
pub struct GroupArgs {
    #[command(subcommand)]
    command: GroupCommand,
    /// State directory that contains the account database
    #[arg(long, value_name = "DIR", global = true)]
    state_dir: Option<PathBuf>,
    /// Configuration file that specifies the state directory if --state-dir is not given
    #[arg(short = 'c', long = "config", value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum GroupCommand {
    /// Adds a SID and a Windows name for a UNIX group
    Add {
        /// Windows name of the group
        name: String,
        /// The UNIX group, by name or number
        #[arg(long, value_name = "GROUP")]
        unix_group: String,
        /// The SID, or only its RID in this server's domain [default: the next free RID]
        #[arg(long, value_name = "SID|RID")]
        sid: Option<String>,
        /// Type of the group
        #[arg(long = "type", value_enum, default_value = "domain")]
        kind: GroupKind,
        /// Comment
        #[arg(long, value_name = "TEXT", default_value = "")]
        comment: String,
    },
    /// Changes the Windows name or the comment of a group in an LDAP directory
    Edit {
        /// Windows name of the group
        name: String,
        /// New name
        #[arg(long, value_name = "NAME")]
        rename: Option<String>,
        /// New comment
        #[arg(long, value_name = "TEXT", required_unless_present = "rename")]
        comment: Option<String>,
    },
    /// Lists the members of a group in an LDAP directory, after adding and removing users
    Members {
        /// Windows name of the group
        name: String,
        /// User to add
        #[arg(long, value_name = "USER")]
        add: Vec<String>,
        /// User to remove
        #[arg(long, value_name = "USER")]
        remove: Vec<String>,
    },
    /// Lists the groups
    List {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Removes the Windows name and SID of a UNIX group; the UNIX group is kept
    Delete {
        /// Windows name of the group
        name: String,
    },
    /// Imports groups from Samba, from the output of `net groupmap list verbose`
    Import {
        /// Input file, or - for standard input
        file: PathBuf,
        /// Only report what would be done
        #[arg(long)]
        dry_run: bool,
    },
}

/// Runs the command.
pub fn run(args: GroupArgs) -> Result<ExitCode> {
    let place = locate_accounts(args.state_dir.as_deref(), args.config.as_deref())?;
    match args.command {
        GroupCommand::Add { name, unix_group, sid, kind, comment } => {
            let group = NewGroup { name, unix_group, sid, kind, comment };
            let reply = perform(&place, true, GroupRequest::Add(group))?;
            print_changed(reply)
        }
        GroupCommand::Edit { name, rename, comment } => {
            print_changed(perform(&place, true, GroupRequest::Edit { name, new_name: rename, comment })?)
        }
        GroupCommand::Members { name, add, remove } => {
            let reply = perform(&place, true, GroupRequest::Members { name, add, remove })?;
            let Some(UserReply::Members(members)) = reply else { bail!("the server sent an unexpected answer") };
            members.iter().try_for_each(|member| print(&format!("{member}\n")))?;
            Ok(ExitCode::SUCCESS)
        }
        GroupCommand::List { json } => list(&place, json),
        GroupCommand::Delete { name } => {
            let done = format!("group {name} deleted\n");
            if perform(&place, false, GroupRequest::Delete { name })?.is_none() {
                bail!("there are no groups in {}", place.state.display());
            }
            print(&done)?;
            Ok(ExitCode::SUCCESS)
        }
        GroupCommand::Import { file, dry_run } => import::run(&place, &file, dry_run),
    }
}

fn print_changed(reply: Option<UserReply>) -> Result<ExitCode> {
    let Some(UserReply::Groups(changed)) = reply else { bail!("the server sent an unexpected answer") };
    changed.iter().try_for_each(|group| {
        let unix = group.unix_group.clone().unwrap_or_else(|| group.gid.to_string());
        print(&format!("group {} ({}) is the UNIX group {unix}\n", group.name, group.sid))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Performs a request; `None` if there is no database.
fn perform(place: &AccountPlace, create: bool, request: GroupRequest) -> Result<Option<UserReply>> {
    let performer = Performer::open(place, create)?;
    performer.map(|mut performer| performer.perform(UserRequest::Group(request))).transpose()
}

fn list(place: &AccountPlace, json: bool) -> Result<ExitCode> {
    let mut groups: Vec<GroupView> = Vec::new();
    if let Some(mut performer) = Performer::open(place, false)? {
        loop {
            let after = groups.last().map(|group| group.sid.clone());
            let UserReply::Groups(page) = performer.perform(UserRequest::Group(GroupRequest::List { after }))? else {
                bail!("the server sent an unexpected answer");
            };
            if page.is_empty() {
                break;
            }
            groups.extend(page);
        }
    }
    if json {
        print(&format!("{}\n", serde_json::to_string_pretty(&groups)?))?;
    } else if groups.is_empty() {
        eprintln!("there are no groups in {}", place.state.display());
    } else {
        let rows: Vec<Vec<String>> = groups.iter().map(row).collect();
        print(&table(&["Name", "SID", "Type", "UNIX group", "Comment"], &rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(group: &GroupView) -> Vec<String> {
    let kind = match group.kind {
        GroupKind::Domain => "domain",
        GroupKind::Local => "local",
        GroupKind::Builtin => "builtin",
    };
    let unix_group = match &group.unix_group {
        Some(name) => format!("{name} ({})", group.gid),
        None => format!("{} (this host has no group with that number)", group.gid),
    };
    vec![group.name.clone(), group.sid.clone(), kind.into(), unix_group, group.comment.clone()]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::*;
    use accounts::PassdbBackend;

    #[derive(Parser, Debug)]
    struct Cli {
        #[command(flatten)]
        group: GroupArgs,
    }

    fn group(path: &Path, words: &[&str]) -> Result<String> {
        let state = ["--state-dir", path.to_str().unwrap()];
        let cli = Cli::try_parse_from(["group"].iter().chain(words).chain(&state))?;
        run(cli.group).map(|code| format!("{code:?}"))
    }

    fn groups(path: &Path) -> Vec<(String, String, u32)> {
        let place = AccountPlace { state: path.to_owned(), backends: vec![PassdbBackend::Embedded] };
        match perform(&place, false, GroupRequest::List { after: None }).unwrap() {
            Some(UserReply::Groups(groups)) => groups.into_iter().map(|g| (g.name, g.sid, g.gid)).collect(),
            None => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_group_is_added_changed_and_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        assert!(groups(path).is_empty());
        group(path, &["add", "NT Staff", "--unix-group", "root", "--comment", "all"]).unwrap();
        group(path, &["add", "Administrators", "--unix-group", "4", "--sid", "S-1-5-32-544", "--type", "builtin"])
            .unwrap();
        group(path, &["add", "Other", "--unix-group", "5", "--sid", "513"]).unwrap();
        let names: Vec<_> = groups(path).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names.len(), 3);
        for words in [
            &["add", "nt staff", "--unix-group", "9"][..],
            &["add", "x", "--unix-group", "root"],
            &["add", "x", "--unix-group", "no such group here"],
            &["add", "x", "--unix-group", "9", "--sid", "S-1-1-0"],
            &["add", "x", "--unix-group", "9", "--sid", "nonsense"],
            &["delete", "nobody at all"],
            // The members of a group in the embedded database are those of the host's group.
            &["members", "NT Staff", "--add", "root"],
            &["edit", "NT Staff", "--rename", "x"],
            &["edit", "nobody at all", "--rename", "x"],
        ] {
            assert!(group(path, words).is_err(), "{words:?}");
        }
        group(path, &["list", "--json"]).unwrap();
        group(path, &["delete", "NT STAFF"]).unwrap();
        assert_eq!(groups(path).len(), 2);
    }

    #[test]
    fn samba_groups_are_imported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let file = path.join("printed");
        std::fs::write(&file, import::PRINTED).unwrap();
        let words = ["import", file.to_str().unwrap()];
        group(path, &["import", file.to_str().unwrap(), "--dry-run"]).unwrap();
        assert!(groups(path).is_empty());
        group(path, &words).unwrap();
        let first = groups(path);
        assert!(first.contains(&("Administrators".into(), "S-1-5-32-544".into(), 0)), "{first:?}");
        group(path, &words).unwrap();
        assert_eq!(groups(path), first);
    }
}
