//! `frevo migrate --back`: what has changed since the migration, as commands for Samba's programs.
//!
//! Passwords are written to a file in smbpasswd format, because a hash on a command line could be read by other users.
//! `pdbedit` gives every account that it imports a new SID and default fields, so the script sets them again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use proto::dtyp::AccessMask;
use serde::Serialize;
use server::policy::fold;
use zeroize::Zeroizing;

use super::samba::{Programs, Samba};
use super::{MigrateArgs, parts, place, services, unreadable};
use crate::admin::message::{GroupRequest, GroupView, Migrated, ShareAcl, UserReply, UserRequest};
use crate::user::{Performer, print};
use accounts::groups::GroupKind;
use accounts::machine_sid;
use smbconf::Names;
use smbconf::host::Host;

/// The files that `--write` creates.
const ACCOUNTS: &str = "accounts.smbpasswd";
const SCRIPT: &str = "import.sh";

/// What Frevo has.
struct Here {
    machine_sid: String,
    accounts: Vec<Migrated>,
    groups: Vec<GroupView>,
    policies: Vec<(String, i64)>,
    share_acls: Vec<ShareAcl>,
}

/// What has to be done in Samba.
#[derive(Serialize, Default)]
struct Changes {
    /// Commands, in order.
    commands: Vec<String>,
    /// What the administrator has to decide.
    notes: Vec<String>,
    /// The accounts whose passwords or flags are imported.
    accounts: Vec<String>,
    /// Those accounts, in smbpasswd format.
    #[serde(skip)]
    lines: Zeroizing<String>,
}

pub(super) fn run(args: &MigrateArgs, config: &Path, programs: &Programs) -> Result<ExitCode> {
    let place = place(args, config)?;
    let parts = parts(&place);
    let samba = programs.read(parts).with_context(|| unreadable(config))?;
    let mut changes = Changes::default();
    match Performer::open(&place, false)? {
        Some(mut performer) => {
            let here = Here::read(&mut performer, parts.accounts, parts.groups)?;
            let host = Host::of_process().context("cannot look up this process's user")?;
            changes = Changes::between(&here, &samba, &host, &config.display().to_string());
        }
        None => changes.notes.push(format!("Frevo has no accounts in {}", place.state.display())),
    }
    let dir = args.write.as_ref().filter(|_| !changes.commands.is_empty()).map(std::path::absolute).transpose()?;
    if let Some(dir) = &dir {
        changes.write(dir)?;
    }
    print(&match args.json {
        true => serde_json::to_string_pretty(&changes)? + "\n",
        false => changes.text(dir.as_deref()),
    })?;
    Ok(ExitCode::SUCCESS)
}

impl Here {
    fn read(performer: &mut Performer, with_accounts: bool, with_groups: bool) -> Result<Here> {
        let accounts = if with_accounts { accounts_of(performer)? } else { Vec::new() };
        let groups = if with_groups { groups_of(performer)? } else { Vec::new() };
        let UserReply::Policies(policies) = performer.perform(UserRequest::Policy { set: None })? else {
            return wrong();
        };
        let policies = policies.into_iter().map(|policy| (policy.name, policy.value)).collect();
        let UserReply::ShareAcls(share_acls) = performer.perform(UserRequest::ShareAcls { set: None })? else {
            return wrong();
        };
        let UserReply::MachineSid(sid) = performer.perform(UserRequest::MachineSid { set: None, forget: None })? else {
            return wrong();
        };
        Ok(Here { machine_sid: machine_sid::read(&sid)?.to_string(), accounts, groups, policies, share_acls })
    }
}

fn accounts_of(performer: &mut Performer) -> Result<Vec<Migrated>> {
    let mut accounts = Vec::<Migrated>::new();
    loop {
        let after = accounts.last().map(|last| last.account.name.clone());
        let UserReply::Exported(page) = performer.perform(UserRequest::Export { after })? else { return wrong() };
        if page.is_empty() {
            return Ok(accounts);
        }
        accounts.extend(page);
    }
}

fn groups_of(performer: &mut Performer) -> Result<Vec<GroupView>> {
    let mut groups = Vec::<GroupView>::new();
    loop {
        let after = groups.last().map(|group| group.sid.clone());
        let request = UserRequest::Group(GroupRequest::List { after });
        let UserReply::Groups(page) = performer.perform(request)? else { return wrong() };
        if page.is_empty() {
            return Ok(groups);
        }
        groups.extend(page);
    }
}

fn wrong<T>() -> Result<T> {
    bail!("the server sent an unexpected answer")
}

impl Changes {
    fn between(here: &Here, samba: &Samba, names: &dyn Names, config: &str) -> Changes {
        let mut changes = Changes::default();
        let conf = format!("-s {}", quoted(config));
        let there = &samba.migration;
        if here.machine_sid != there.machine_sid {
            changes.commands.push(format!("net {conf} setlocalsid {}", here.machine_sid));
        }
        changes.add_accounts(here, samba, names, &conf);
        changes.add_groups(here, samba, &conf);
        for (name, value) in &here.policies {
            let before = there.policies.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
            let never = |value: i64| if value == i64::from(u32::MAX) { -1 } else { value };
            if before.is_some_and(|before| never(before) != *value) {
                let value = if *value == -1 { i64::from(u32::MAX) } else { *value };
                changes.commands.push(format!("pdbedit {conf} -P {} -C {value}", quoted(name)));
            }
        }
        for acl in &here.share_acls {
            let same = |other: &&ShareAcl| fold(&other.share) == fold(&acl.share);
            if there.share_acls.iter().find(same).is_none_or(|before| before.sddl != acl.sddl) {
                // Samba 4.17 reads FA as fewer rights than full control.
                let sddl = acl.sddl.replace(";FA;", &format!(";0x{:x};", AccessMask::FILE_ALL_ACCESS.0));
                let (share, sddl) = (quoted(&acl.share), quoted(&sddl));
                changes.commands.push(format!("sharesec {conf} {share} -S {sddl}"));
            }
        }
        let kept: BTreeSet<String> = here.share_acls.iter().map(|acl| fold(&acl.share)).collect();
        for acl in there.share_acls.iter().filter(|acl| !kept.contains(&fold(&acl.share))) {
            changes.commands.push(format!("sharesec {conf} {} -D", quoted(&acl.share)));
        }
        changes
    }

    fn add_accounts(&mut self, here: &Here, samba: &Samba, names: &dyn Names, conf: &str) {
        let there: BTreeMap<String, &Migrated> =
            samba.migration.accounts.iter().map(|account| (fold(&account.account.name), account)).collect();
        let mut after = Vec::new();
        for account in &here.accounts {
            let before = there.get(&fold(&account.account.name)).copied();
            if before.is_some_and(|before| is_same(account, before)) {
                continue;
            }
            let name = before.map_or(&account.account.name, |before| &before.account.name);
            match names.user(name) {
                Ok(Some(identity)) => self.lines.push_str(&line(name, identity.uid, account)),
                _ => {
                    self.notes.push(format!("account {name} is not imported, because the UNIX user does not exist"));
                    continue;
                }
            }
            self.accounts.push(name.clone());
            after.push(restored(account, before, samba, conf));
            if samba
                .verbose
                .get(name)
                .is_some_and(|fields| fields.get("Logon hours").is_some_and(|it| it.contains('0')))
            {
                self.notes.push(format!("account {name} loses its logon hours in Samba; set them again"));
            }
        }
        if !self.accounts.is_empty() {
            // Without its directory until `--write` names one.
            self.commands.push(format!("pdbedit {conf} -i smbpasswd:\"$dir\"/{ACCOUNTS}"));
            self.commands.extend(after);
        }
        let kept: BTreeSet<String> = here.accounts.iter().map(|account| fold(&account.account.name)).collect();
        for (_, account) in there.iter().filter(|(name, _)| !kept.contains(*name)) {
            let name = &account.account.name;
            self.notes.push(format!(
                "account {name} exists in Samba only; if it was deleted in Frevo, run: pdbedit {conf} -x -u {}",
                quoted(name)
            ));
        }
    }

    fn add_groups(&mut self, here: &Here, samba: &Samba, conf: &str) {
        let there: BTreeSet<&str> = samba.migration.groups.iter().filter_map(|group| group.sid.as_deref()).collect();
        for group in here.groups.iter().filter(|group| !there.contains(group.sid.as_str())) {
            let kind = match group.kind {
                GroupKind::Domain => "domain",
                GroupKind::Local => "local",
                GroupKind::Builtin => "builtin",
            };
            let Some(unix) = &group.unix_group else {
                self.notes.push(format!("group {} is not added, because its UNIX group does not exist", group.name));
                continue;
            };
            self.commands.push(format!(
                "net {conf} groupmap add sid={} ntgroup={} unixgroup={} type={kind} comment={}",
                group.sid,
                quoted(&group.name),
                quoted(unix),
                quoted(&group.comment)
            ));
        }
        let kept: BTreeSet<&str> = here.groups.iter().map(|group| group.sid.as_str()).collect();
        for group in &samba.migration.groups {
            if let Some(sid) = group.sid.as_deref().filter(|sid| !kept.contains(sid)) {
                self.notes.push(format!(
                    "group {} exists in Samba only; if it was deleted in Frevo, run: \
                     net {conf} groupmap delete sid={sid}",
                    group.name
                ));
            }
        }
    }

    /// Writes the accounts and the script, readable by root alone.
    fn write(&self, dir: &Path) -> Result<()> {
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(dir)
            .with_context(|| format!("cannot create {}; name a directory that does not exist", dir.display()))?;
        let mut script =
            format!("#!/bin/sh\n# Imports in Samba what has changed in Frevo.\nset -e\ndir={}\n", quoted_path(dir));
        for command in &self.commands {
            let _ = writeln!(script, "{command}");
        }
        for (name, text) in [(ACCOUNTS, self.lines.as_str()), (SCRIPT, script.as_str())] {
            let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(name))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
        }
        Ok(())
    }

    /// Formats what to do. `dir` has the script, if one was written.
    fn text(&self, dir: Option<&Path>) -> String {
        let mut text = String::from(
            "Files, Windows ACLs, attributes and streams stay where they are, and Samba reads them. Samba does not \
             show streams that are too large for an extended attribute.\n",
        );
        let [stop, start] = services::back();
        match (self.commands.is_empty(), dir) {
            (true, _) => text += "Accounts, groups, policies and share ACLs are the same in Samba.\n",
            (false, Some(_)) => {}
            (false, None) => {
                text += "These changes are not in Samba yet; `--write DIR` writes them to a script:\n";
                for command in &self.commands {
                    let _ = writeln!(text, "  {command}");
                }
            }
        }
        for note in &self.notes {
            let _ = writeln!(text, "  {note}");
        }
        text += "To go back:\n";
        let _ = writeln!(text, "  {stop}");
        match dir {
            Some(dir) => _ = writeln!(text, "  sh {}", quoted_path(&dir.join(SCRIPT))),
            None if !self.commands.is_empty() => text += "  frevo migrate --back --write DIR && sh DIR/import.sh\n",
            None => {}
        }
        let _ = writeln!(text, "  {start}");
        if let Some(dir) = dir {
            let _ = writeln!(text, "  rm -r {}    # it has password hashes", quoted_path(dir));
        }
        text
    }
}

/// Returns whether Samba has the same password, flags, expiry and name of an account.
fn is_same(here: &Migrated, there: &Migrated) -> bool {
    let hash = |it: &Migrated| it.account.nt_hash.as_ref().map(|hash| hash.0);
    let flags = |it: &Migrated| {
        let account = &it.account;
        (account.disabled, account.locked, account.never_expires, account.must_change, account.password_last_set)
    };
    hash(here) == hash(there) && flags(here) == flags(there) && here.expires == there.expires
}

/// Returns the line of an account in smbpasswd(5) format.
fn line(name: &str, uid: u32, account: &Migrated) -> String {
    let account = &account.account;
    let none = "X".repeat(32);
    let hash = account.nt_hash.as_ref().map_or(none.clone(), |hash| {
        hash.0.iter().fold(String::with_capacity(32), |mut text, byte| {
            let _ = write!(text, "{byte:02X}");
            text
        })
    });
    let letters = [(account.disabled, 'D'), (account.locked, 'L'), (true, 'U'), (account.never_expires, 'X')];
    let flags: String = letters.iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| *letter).collect();
    let changed = if account.must_change { 0 } else { account.password_last_set.unwrap_or(i64::from(u32::MAX)) };
    format!("{name}:{uid}:{none}:{hash}:[{flags:<11}]:LCT-{changed:08X}:\n")
}

/// Returns the command that sets the fields of an imported account again.
fn restored(account: &Migrated, before: Option<&Migrated>, samba: &Samba, conf: &str) -> String {
    let name = before.map_or(&account.account.name, |before| &before.account.name);
    let sid = before.map_or(&account.sid, |before| &before.sid);
    let kept = |what: &str| samba.verbose.get(name).and_then(|fields| fields.get(what)).filter(|text| !text.is_empty());
    let full_name = Some(&account.full_name).filter(|text| !text.is_empty()).or_else(|| kept("Full Name"));
    let mut command = format!("pdbedit {conf} -r -u {} -U {sid}", quoted(name));
    for (option, text) in [("-f", full_name), ("-N", kept("Account desc"))] {
        if let Some(text) = text {
            let _ = write!(command, " {option} {}", quoted(text));
        }
    }
    if let Some(expires) = account.expires {
        let _ = write!(command, " -K {expires}");
    }
    command + " > /dev/null"
}

/// Returns a word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

#[cfg(test)]
mod tests;
