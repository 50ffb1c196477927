//! What this host's Samba has, asked of its own programs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use proto::dtyp::Sid;
use proto::dtyp::sddl::{self, Domains};
use server::accounts::AccountPolicy;

use super::printed::{self, Verbose};
use crate::admin::message::{Migrated, Migration, NewGroup, ShareAcl};
use accounts::groups::GroupKind;
use accounts::{Line, machine_sid, policies, read_line};

/// Privileges whose holders are reported, because Frevo has none.
const PRIVILEGES: [&str; 6] = [
    "SeBackupPrivilege",
    "SeRestorePrivilege",
    "SeTakeOwnershipPrivilege",
    "SeSecurityPrivilege",
    "SeDiskOperatorPrivilege",
    "SeAddUsersPrivilege",
];
/// The holder of all privileges by default.
const ADMINISTRATORS: &str = "BUILTIN\\Administrators";

/// Something that is not taken over.
#[derive(serde::Serialize, Debug)]
pub(super) struct Loss {
    /// What it is about: an account, a group or a policy.
    pub(super) subject: String,
    /// What will not work.
    pub(super) message: String,
}

/// What Samba has.
pub(super) struct Samba {
    /// What can be migrated.
    pub(super) migration: Migration,
    /// All fields of the accounts, by name.
    pub(super) verbose: BTreeMap<String, Verbose>,
    /// What cannot.
    pub(super) losses: Vec<Loss>,
    /// Accounts that are not users: those of machines and trusted domains.
    pub(super) ignored: Vec<String>,
}

/// The parts of Samba's state that Frevo does not already use where they are.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    /// The accounts in `passdb.tdb`.
    pub(super) accounts: bool,
    /// The group mappings in `group_mapping.tdb`.
    pub(super) groups: bool,
}

/// Samba's programs, with the configuration that they read.
pub(super) struct Programs {
    config: PathBuf,
}

impl Programs {
    /// Returns the programs for a Samba with this configuration.
    pub(super) fn new(config: &Path) -> Programs {
        Programs { config: config.to_owned() }
    }

    /// Runs a program and returns what it prints. Some of them return 0 after a failure.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let shown = || format!("`{program} {}`", arguments.join(" "));
        let mut command = Command::new(program);
        command.arg("-s").arg(&self.config).args(arguments).stdin(Stdio::null());
        // The output is parsed, and has times.
        command.envs([("LC_ALL", "C.UTF-8"), ("TZ", "UTC")]);
        let output = match command.output() {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::NotFound => bail!(
                "`{program}` is not installed; install the package that has it: {} of Debian and Ubuntu, \
                 samba-common-tools of Fedora",
                if program == "net" { "samba-common-bin" } else { "samba" }
            ),
            Err(error) => return Err(error).with_context(|| format!("cannot run {program}")),
        };
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = |line: &&str| {
            ["Unable to retrieve", "Failed to open", "tdbsam_open: Failed"].iter().any(|start| line.starts_with(start))
        };
        if let Some(line) = said.lines().chain(text.lines()).find(failed) {
            bail!("{} failed: {line}", shown());
        }
        ensure!(output.status.success(), "{} failed ({}): {said}{text}", shown(), output.status);
        Ok(text)
    }

    /// Asks for everything. The state directories of Samba must be readable.
    pub(super) fn read(&self, parts: Parts) -> Result<Samba> {
        let mut losses = Vec::new();
        let own = machine_sid::read(&self.run("net", &["getlocalsid"])?).context("`net getlocalsid`")?;
        let verbose = match parts.accounts {
            true => printed::verbose(&self.run("pdbedit", &["-L", "-v"])?),
            false => BTreeMap::new(),
        };
        let (mut accounts, mut ignored) = (Vec::new(), Vec::new());
        if parts.accounts {
            for line in self.run("pdbedit", &["-L", "-w"])?.lines() {
                add_account(line, &verbose, &mut accounts, &mut ignored, &mut losses)?;
            }
        }
        let groups = if parts.groups { self.groups(&mut losses)? } else { Vec::new() };
        let policies = self.policies(&mut losses)?;
        self.privileges(&mut losses)?;
        let share_acls = self.share_acls(own.sid())?;
        let migration = Migration { machine_sid: own.to_string(), accounts, groups, policies, share_acls };
        Ok(Samba { migration, verbose, losses, ignored })
    }

    fn groups(&self, losses: &mut Vec<Loss>) -> Result<Vec<NewGroup>> {
        let text = self.run("net", &["groupmap", "list", "verbose"])?;
        let mut groups = crate::group::read_printed(text.as_bytes())?;
        // A group that only Samba's own database has.
        groups.retain(|group| !["-1", "4294967295"].contains(&group.unix_group.as_str()));
        for group in groups.iter().filter(|group| group.kind != GroupKind::Domain) {
            let mut loss = |message| losses.push(Loss { subject: format!("group {}", group.name), message });
            // The mapping is complete without the members.
            match self.run("net", &["sam", "listmem", &group.name]).map(|text| printed::members(&text)) {
                Ok(members) if members.is_empty() => {}
                Ok(members) => loss(format!(
                    "has the members {} in Samba; in Frevo its members are those of the UNIX group {}",
                    members.join(", "),
                    group.unix_group
                )),
                Err(error) => loss(format!("may have members in Samba, which cannot be listed: {error:#}")),
            }
        }
        Ok(groups)
    }

    fn policies(&self, losses: &mut Vec<Loss>) -> Result<Vec<(String, i64)>> {
        let value = |name: &str| printed::policy(&self.run("pdbedit", &["-P", name])?).with_context(|| name.to_owned());
        let mut found = Vec::new();
        for (name, ..) in policies::all(&AccountPolicy::default()) {
            found.push((name.to_owned(), value(name)?));
        }
        let disconnects = value("disconnect time")?;
        if ![-1, i64::from(u32::MAX)].contains(&disconnects) {
            let message = "is set; Frevo has no logon hours, so no session ends because of them".to_owned();
            losses.push(Loss { subject: "policy \"disconnect time\"".to_owned(), message });
        }
        if found.iter().any(|(name, value)| name == "password history" && *value > 0) {
            let message = "the passwords that Samba remembers are not taken over; the history begins anew".to_owned();
            losses.push(Loss { subject: "policy \"password history\"".to_owned(), message });
        }
        Ok(found)
    }

    fn privileges(&self, losses: &mut Vec<Loss>) -> Result<()> {
        let mut holders: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for privilege in PRIVILEGES {
            for holder in self.run("net", &["sam", "rights", "list", privilege])?.lines() {
                if holder != ADMINISTRATORS && !holder.is_empty() {
                    holders.entry(holder.to_owned()).or_default().insert(privilege);
                }
            }
        }
        losses.extend(holders.into_iter().map(|(holder, privileges)| {
            let list = privileges.into_iter().collect::<Vec<_>>().join(", ");
            let message = format!("has {list} in Samba; Frevo has no privileges, use `admin users` in a share");
            Loss { subject: holder, message }
        }));
        Ok(())
    }

    fn share_acls(&self, machine: Sid) -> Result<Vec<ShareAcl>> {
        let shares = printed::restricted_shares(&self.run("sharesec", &["--view-all"])?);
        let acl = |share: String| {
            let text = self.run("sharesec", &[&share, "--viewsddl"])?;
            let descriptor = sddl::decode(text.trim(), &Domains::standalone(machine));
            let sddl = sddl::encode(&descriptor.with_context(|| format!("the ACL of the share {share}"))?)?;
            Ok(ShareAcl { share, sddl })
        };
        shares.into_iter().map(acl).collect()
    }

    /// Returns whether `smbd` runs with this configuration.
    pub(super) fn runs(&self) -> bool {
        let mut asked = Command::new("testparm");
        asked.arg("-s").arg(&self.config).args(["--parameter-name", "pid directory"]).stdin(Stdio::null());
        let output = asked.output();
        let directory = output.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
        let directory = if directory.trim().is_empty() { "/run/samba" } else { directory.trim() };
        let Ok(text) = std::fs::read_to_string(Path::new(directory).join("smbd.pid")) else { return false };
        let Ok(pid) = text.trim().parse::<u32>() else { return false };
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "smbd")
    }
}

fn add_account(
    line: &str,
    verbose: &BTreeMap<String, Verbose>,
    accounts: &mut Vec<Migrated>,
    ignored: &mut Vec<String>,
    losses: &mut Vec<Loss>,
) -> Result<()> {
    let (account, note) = match read_line(line.as_bytes()) {
        Ok(Line::Account(account, note)) => (account, note),
        Ok(Line::Skipped(why)) => {
            ignored.push(why);
            return Ok(());
        }
        Ok(Line::Nothing) => return Ok(()),
        Err(error) => {
            ignored.push(format!("a line of `pdbedit -L -w` cannot be read: {error:#}"));
            return Ok(());
        }
    };
    let name = account.name.clone();
    let fields = verbose.get(&name).with_context(|| {
        format!("the account {name} is in the output of `pdbedit -L -w` only; Samba's database is changing, try again")
    })?;
    let field = |what: &str| fields.get(what).map(String::as_str).unwrap_or_default();
    let mut loss = |message: String| losses.push(Loss { subject: format!("account {name}"), message });
    // An account without a hash cannot log on to Samba either.
    if let Some(note) = note.filter(|_| account.locked || field("Account Flags").contains('N')) {
        loss(note.to_owned());
    }
    let hours = field("Logon hours");
    if hours.contains(|digit| digit != 'F') {
        loss("has logon hours in Samba; in Frevo it can log on at any time".to_owned());
    }
    let stations = field("Workstations");
    if !stations.is_empty() {
        loss(format!("may log on only from {stations} in Samba; in Frevo it can log on from any client"));
    }
    accounts.push(Migrated {
        sid: field("User SID").to_owned(),
        full_name: field("Full Name").to_owned(),
        expires: printed::time(field("Kickoff time")).with_context(|| format!("the kickoff time of {name}"))?,
        account,
    });
    Ok(())
}
