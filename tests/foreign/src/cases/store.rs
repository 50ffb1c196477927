//! `frevo:acl store`: which files of a tree with POSIX ACLs get a stored Windows ACL on access; and that Samba can read
//! what was stored.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::cases::people::output;
use crate::cases::twins::{Call, Twin, Twins};
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::ALICE;

pub(super) const CASES: &[Case] = &[
    Case::new("store.by_entries", by_entries).needs_root().frevo_only(),
    Case::new("store.never", never).needs_root().frevo_only(),
];

const SHARE: &str = "[global]\n@TARGET@\n\tread only = no\n\tmap archive = no\n\tvfs objects = acl_xattr\n\
                     #@frevo\n\tfrevo:acl store = @STORE@\n#@end\n[stored]\n\tpath = @TREE@\n";
const ATTRIBUTE: &str = "security.NTACL";

/// Numbers of ACL entries, which are also the names of the files.
const ENTRIES: [usize; 7] = [3, 4, 5, 6, 7, 9, 40];

/// A user without an account, whose SID is the same in stored and synthesized descriptors.
const NOBODYS: u32 = 64_397;

/// Time limit for the server to store descriptors.
const PATIENCE: Duration = Duration::from_secs(20);

fn by_entries(fixture: &mut Fixture) -> Result<()> {
    let path = tree(fixture, "data/stored-6", NOBODYS)?;
    let twins = Twins::start(fixture, "stored-6", &SHARE.replace("@STORE@", ">= 6"), [&path, &path])?;
    let by_samba = look_at_all(&twins, Twin::Samba)?;
    ensure!(with_attribute(&path)?.is_empty(), "Samba stored a descriptor on access");
    let first = look_at_all(&twins, Twin::Frevo)?;
    ensure!(first == by_samba, "converted, Frevo shows\n{first:#?}\nbut Samba\n{by_samba:#?}");
    wait_for(&path, &[6, 7, 9, 40])?;
    let stored = look_at_all(&twins, Twin::Frevo)?;
    ensure!(stored == first, "stored, Frevo shows\n{stored:#?}\nbut before\n{first:#?}");
    let theirs = look_at_all(&twins, Twin::Samba)?;
    ensure!(theirs == first, "of stored descriptors, Samba shows\n{theirs:#?}\nbut Frevo\n{first:#?}");
    setfacl(&path.join("7"), &["-m", "u:64399:rwx"])?;
    for twin in [Twin::Frevo, Twin::Samba] {
        let changed = look(&twins, twin, "7")?;
        ensure!(rules(&changed) == rules(&first[4]) + 1, "{twin:?} does not show the new ACL:\n{changed}");
    }
    wait_for(&path, &[6, 7, 9, 40])
}

fn never(fixture: &mut Fixture) -> Result<()> {
    let path = tree(fixture, "data/stored-never", ALICE.id)?;
    let twins = Twins::start(fixture, "stored-never", &SHARE.replace("@STORE@", "never"), [&path, &path])?;
    let first = look_at_all(&twins, Twin::Frevo)?;
    ensure!(look_at_all(&twins, Twin::Frevo)? == first, "the second access shows another descriptor");
    ensure!(with_attribute(&path)?.is_empty(), "a descriptor was stored");
    let said = twins.ask(Twin::Frevo, &call("9", &["-a", "ACL:S-1-22-1-64398:ALLOWED/0/READ"]))?;
    ensure!(with_attribute(&path)? == [9], "a descriptor set by a client is not stored: {said}");
    for twin in [Twin::Frevo, Twin::Samba] {
        let changed = look(&twins, twin, "9")?;
        ensure!(rules(&changed) == rules(&first[5]) + 1, "{twin:?} does not show the ACL that was set:\n{changed}");
    }
    Ok(())
}

/// Creates files of `owner` that are readable by everyone, with the number of ACL entries given by their names.
fn tree(fixture: &Fixture, name: &str, owner: u32) -> Result<PathBuf> {
    let path = fixture.environment.make_dir(name, &ALICE, 0o755)?;
    for entries in ENTRIES {
        let file = path.join(entries.to_string());
        std::fs::write(&file, "x")?;
        std::os::unix::fs::chown(&file, Some(owner), Some(owner))?;
        if entries > 3 {
            setfacl(&file, &["-m", "m::rwx"])?;
        }
        for index in 4..entries {
            setfacl(&file, &["-m", &format!("u:{}:rw", 64_300 + index)])?;
        }
    }
    Ok(path)
}

fn setfacl(file: &Path, arguments: &[&str]) -> Result<()> {
    let said = output(Command::new("setfacl").args(arguments).arg(file))?;
    ensure!(said.is_empty(), "setfacl: {said}");
    Ok(())
}

/// Returns the numbers of the files that have the attribute.
fn with_attribute(path: &Path) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for entries in ENTRIES {
        let mut command = Command::new("getfattr");
        command.args(["--absolute-names", "-m", ATTRIBUTE]).arg(path.join(entries.to_string()));
        if output(&mut command)?.lines().any(|line| line == ATTRIBUTE) {
            found.push(entries);
        }
    }
    Ok(found)
}

/// Waits for the stored descriptors, because they are stored after the response is sent.
fn wait_for(path: &Path, expected: &[usize]) -> Result<()> {
    let begun = Instant::now();
    loop {
        let found = with_attribute(path)?;
        if found == expected {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            bail!("{found:?} have a descriptor, not {expected:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn call(path: &str, options: &[&str]) -> Call {
    let options = options.iter().map(|option| (*option).to_owned()).collect();
    Call { who: ALICE, share: "stored", path: path.to_owned(), options }
}

fn look_at_all(twins: &Twins, twin: Twin) -> Result<Vec<String>> {
    ENTRIES.iter().map(|entries| look(twins, twin, &entries.to_string())).collect()
}

/// Returns the numeric output of smbcacls for a file.
fn look(twins: &Twins, twin: Twin, path: &str) -> Result<String> {
    let shown = twins.ask(twin, &call(path, &["--numeric"]))?;
    ensure!(shown.starts_with("REVISION:"), "smbcacls with {twin:?} fails for {path}: {shown}");
    Ok(shown)
}

fn rules(shown: &str) -> usize {
    shown.lines().filter(|line| line.starts_with("ACL:")).count()
}
