//! Windows ACLs stored by other programs: a directory that is used by Frevo and Samba at the same time, each in the
//! other's format, and a backup.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cases::people::{output, sid_of};
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB, Server, Target, TestEnvironment};

pub(super) const CASES: &[Case] = &[
    Case::new("acls.shared_with_samba", shared_with_samba).frevo_only(),
    Case::new("acls.backup", backup).needs_root(),
];

const SHARE: &str = "[global]\n@TARGET@\n\tread only = no\n\tcreate mask = 0755\n\tmap archive = no\n\
                     \tvfs objects = acl_xattr\n[acls]\n\tpath = @ACLS@\n";

fn shared_with_samba(fixture: &mut Fixture) -> Result<()> {
    let path = fixture.environment.make_dir("data/acls", &ALICE, 0o777)?;
    let template = SHARE.replace("@ACLS@", path.to_str().context("a UTF-8 path")?);
    let samba_bed = TestEnvironment::make(Target::Samba)?;
    let mut samba: Server = samba_bed.start("samba", &template)?;
    let frevo = fixture.environment.start("acls", &template)?;
    let alice = sid_of(fixture, &frevo, ALICE.name)?;
    give_sid(&samba_bed, &mut samba, &alice)?;
    let seen = sid_of(fixture, &samba, ALICE.name)?;
    ensure!(seen == alice, "alice's SID is {alice}, but {seen} with Samba");
    let usual = std::mem::replace(&mut fixture.server, frevo);
    let done = fixture.script("descriptors.py", &[&samba.port().to_string(), &alice]);
    fixture.server = usual;
    done?;
    ensure!(path.join("from-first").exists(), "the share is another directory");
    Ok(())
}

/// Makes alice's SID the one that the other server uses, and its domain the machine's.
fn give_sid(environment: &TestEnvironment, samba: &mut Server, alice: &str) -> Result<()> {
    let (domain, _) = alice.rsplit_once('-').context("a SID with a RID")?;
    let mut machine = Command::new("net");
    machine.arg("-s").arg(samba.conf()).args(["setlocalsid", domain]);
    let mut account = Command::new("pdbedit");
    account.arg("-s").arg(samba.conf()).args(["-r", "-u", ALICE.name, "-U", alice]);
    samba.stop();
    let said =
        [output(environment.people().enter(&mut machine))?, output(environment.people().enter(&mut account))?].concat();
    samba.restart().context(said)
}

const BACKUP: &str = "[global]\n@TARGET@\n\tread only = no\n\tmap archive = no\n\tvfs objects = acl_xattr\n\
                      [backup]\n\tpath = @DIR@/data/backup\n\tadmin users = alice\n";

/// alice, who is listed in `admin users`, backs up bob's files and restores them with bob as the owner.
fn backup(fixture: &mut Fixture) -> Result<()> {
    let path = fixture.environment.make_dir("data/backup", &ALICE, 0o777)?;
    let server = fixture.environment.start("backup", BACKUP)?;
    let usual = std::mem::replace(&mut fixture.server, server);
    let done = fixture.script("backup.py", &["backup", BOB.name, BOB.password]);
    fixture.server = usual;
    done?;
    for name in ["tree", "copy", "copy/denied", "copy/closed/inner"] {
        let uid = path.join(name).metadata().with_context(|| name.to_owned())?.uid();
        ensure!(uid == BOB.id, "{name} belongs to {uid}");
    }
    Ok(())
}
