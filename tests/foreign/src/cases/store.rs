//! `frevo:acl store`: a tree with POSIX ACLs, and which of its files get a Windows ACL stored when somebody looks; and
//! that Samba reads what was stored there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::bed::{ALICE, Bed, Server, Target};
use crate::cases::people::output;
use crate::stage::Stage;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("store.by_entries", by_entries).needs_root().frevo_only(),
    Case::new("store.never", never).needs_root().frevo_only(),
];

const SHARE: &str = "[global]\n@TARGET@\n\tread only = no\n\tmap archive = no\n\tvfs objects = acl_xattr\n\
                     [stored]\n\tpath = @STORED@\n";
const ATTRIBUTE: &str = "security.NTACL";

/// Numbers of entries; the files are called by them.
const ENTRIES: [usize; 7] = [3, 4, 5, 6, 7, 9, 40];

/// How long a server may take to store what it has to.
const PATIENCE: Duration = Duration::from_secs(20);

fn by_entries(stage: &mut Stage) -> Result<()> {
    let path = tree(stage, "data/stored-6")?;
    let template = SHARE.replace("@STORED@", path.to_str().context("a path of text")?);
    let frevo = stage.bed.start("stored-6", &format!("{template}\tfrevo:acl store = >= 6\n"))?;
    ensure!(with_attribute(&path)?.is_empty(), "a server that starts stores nothing");
    let first = look_at_all(stage, &frevo)?;
    wait_for(&path, &[6, 7, 9, 40])?;
    ensure!(look_at_all(stage, &frevo)? == first, "what is stored says something else");
    let samba_bed = Bed::make(Target::Samba)?;
    let samba = samba_bed.start("samba", &template)?;
    for (entries, seen) in ENTRIES.iter().zip(&first).filter(|(entries, _)| **entries >= 6) {
        let name = entries.to_string();
        let theirs = look(stage, &samba, &name)?;
        ensure!(theirs == *seen, "{name}: Samba shows\n{theirs}and not\n{seen}");
    }
    setfacl(&path.join("7"), &["-m", "u:64399:rwx"])?;
    let changed = look(stage, &frevo, "7")?;
    ensure!(rules(&changed) == rules(&first[4]) + 1, "the new list is not that of\n{changed}");
    let theirs = look(stage, &samba, "7")?;
    ensure!(rules(&theirs) == rules(&changed), "to Samba the new list is\n{theirs}");
    wait_for(&path, &[6, 7, 9, 40])
}

fn never(stage: &mut Stage) -> Result<()> {
    let path = tree(stage, "data/stored-never")?;
    let template = SHARE.replace("@STORED@", path.to_str().context("a path of text")?);
    let frevo = stage.bed.start("stored-never", &format!("{template}\tfrevo:acl store = never\n"))?;
    let first = look_at_all(stage, &frevo)?;
    ensure!(look_at_all(stage, &frevo)? == first, "the second look shows something else");
    ensure!(with_attribute(&path)?.is_empty(), "something was stored");
    let mut set = smbcacls(stage, &frevo, "9");
    output(set.args(["-a", "ACL:S-1-22-1-64398:ALLOWED/0/READ"]))?;
    ensure!(with_attribute(&path)? == [9], "what a client sets is stored");
    ensure!(rules(&look(stage, &frevo, "9")?) == rules(&first[5]) + 1, "what a client sets counts");
    Ok(())
}

/// Files of alice with as many entries as their names say.
fn tree(stage: &Stage, name: &str) -> Result<PathBuf> {
    let path = stage.bed.make_dir(name, &ALICE, 0o755)?;
    for entries in ENTRIES {
        let file = path.join(entries.to_string());
        std::fs::write(&file, "x")?;
        stage.bed.people().give(&file, &ALICE)?;
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
    output(Command::new("setfacl").args(arguments).arg(file)).map(|_| ())
}

/// The numbers of the files that have the attribute.
fn with_attribute(path: &Path) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for entries in ENTRIES {
        let mut command = Command::new("getfattr");
        let shown = command.args(["--absolute-names", "-m", ATTRIBUTE]).arg(path.join(entries.to_string())).output()?;
        if String::from_utf8_lossy(&shown.stdout).lines().any(|line| line == ATTRIBUTE) {
            found.push(entries);
        }
    }
    Ok(found)
}

/// Descriptors are stored after the answer, so after it has come.
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

fn look_at_all(stage: &Stage, server: &Server) -> Result<Vec<String>> {
    ENTRIES.iter().map(|entries| look(stage, server, &entries.to_string())).collect()
}

/// What smbcacls shows of a file, in numbers.
fn look(stage: &Stage, server: &Server, name: &str) -> Result<String> {
    let shown = output(smbcacls(stage, server, name).arg("--numeric"))?;
    ensure!(shown.starts_with("REVISION:"), "smbcacls says: {shown}");
    Ok(shown)
}

fn smbcacls(stage: &Stage, server: &Server, name: &str) -> Command {
    let mut command = stage.program("smbcacls", server, &ALICE.credentials());
    command.args(["//127.0.0.1/stored", name]);
    command
}

fn rules(shown: &str) -> usize {
    shown.lines().filter(|line| line.starts_with("ACL:")).count()
}
