//! Debian's `smbd` as the server under test.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::crowd::{Member, smbpasswd};
use crate::people::{ALICE, CAROL, EVERYBODY};
use crate::{People, interrupt};

/// Maximum number of accounts that are created with `pdbedit`, which becomes slow.
const FEW: usize = 500;
/// A script that creates many accounts in a `passdb.tdb`.
const MANY: &str = include_str!("tdbsam.py");

/// Returns lines for `[global]` that separate it from the machine's own Samba: directories, which are created, port,
/// loopback only.
pub(super) fn globals(dir: &Path, port: u16) -> Result<String> {
    for name in ["private", "lock", "state", "cache", "pid", "ncalrpc", "wb", "usershare"] {
        fs::create_dir_all(dir.join(name)).with_context(|| format!("cannot create {name}"))?;
    }
    let dir = dir.display();
    Ok(format!(
        "\tnetbios name = BED
\tworkgroup = WORKGROUP
\tserver role = standalone server
\tsmb ports = {port}
\tinterfaces = 127.0.0.1/8
\tbind interfaces only = yes
\tdisable netbios = yes
\tdns proxy = no
\tpassdb backend = tdbsam
\tserver min protocol = SMB2_02
\tprivate dir = {dir}/private
\tbinddns dir = {dir}/private
\tlock directory = {dir}/lock
\tstate directory = {dir}/state
\tcache directory = {dir}/cache
\tpid directory = {dir}/pid
\tncalrpc dir = {dir}/ncalrpc
\twinbindd socket directory = {dir}/wb
\tusershare path = {dir}/usershare
\tlog file = {dir}/log/log.%m
\tlogging = file
\tmax log size = 0
\tload printers = no
\tprinting = bsd
\tprintcap name = /dev/null
"
    ))
}

/// Creates the accounts. alice has an administrator's privileges over files, as the torture tests expect.
pub(super) fn add_accounts(people: &People, conf: &Path) -> Result<()> {
    anyhow::ensure!(people.many(), "smbd needs root");
    for person in EVERYBODY {
        let mut command = Command::new("smbpasswd");
        command.arg("-c").arg(conf).args(["-s", "-a", person.name]);
        super::run(people.enter(&mut command), &format!("{0}\n{0}\n", person.password))?;
    }
    let mut disable = Command::new("smbpasswd");
    super::run(people.enter(disable.arg("-c").arg(conf).args(["-d", CAROL.name])), "")?;
    let mut grant = Command::new("net");
    grant.arg("-s").arg(conf).args(["sam", "rights", "grant", ALICE.name]);
    grant.args(["SeSecurityPrivilege", "SeTakeOwnershipPrivilege", "SeRestorePrivilege", "SeBackupPrivilege"]);
    super::run(people.enter(&mut grant), "")
}

/// Creates the accounts of a crowd. A few are created with `pdbedit`, which reads its file from the beginning for each.
/// For many, only the first is, and the rest are copies of it.
pub(super) fn import(people: &People, crowd: &[Member], dir: &Path, conf: &Path) -> Result<()> {
    interrupt::check()?;
    let (model, few, rest) = match crowd {
        [model, rest @ ..] if rest.len() >= FEW => (model, &crowd[..1], rest),
        [model, ..] => (model, crowd, &[][..]),
        [] => return Ok(()),
    };
    let accounts = dir.join("crowd.smbpasswd");
    fs::write(&accounts, smbpasswd(few))?;
    let mut command = Command::new("pdbedit");
    command.arg("-s").arg(conf).arg("-i").arg(format!("smbpasswd:{}", accounts.display()));
    // Each account is a separate transaction, and none of them has to survive a loss of power.
    command.env("TDB_NO_FSYNC", "1");
    super::run(people.enter(&mut command), "")?;
    if rest.is_empty() {
        return Ok(());
    }
    // Samba's libraries work with Debian's interpreter.
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", MANY]).arg(dir.join("private/passdb.tdb")).args([&model.name, &model.id.to_string()]);
    let lines: String = rest.iter().map(|member| format!("{} {}\n", member.name, member.id)).collect();
    super::run(&mut command, &lines)
}

pub(super) fn command(conf: &Path) -> Command {
    let mut command = Command::new("smbd");
    command.args(["--foreground", "--no-process-group", "-s"]).arg(conf);
    command
}
