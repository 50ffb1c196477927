//! rclone, which uses the client library go-smb2: a tree is copied to the server and back.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::file::{self, contents, ensure_same_tree};
use crate::fixture::Fixture;
use crate::protection::{Protection, SHARE};
use crate::suite::Case;
use test_environment::{Rclone, Server};

pub(super) const CASES: &[Case] = &[
    // Samba 4.17 does not sign interim responses, which go-smb2 does not accept if it has to sign.
    Case::new("rclone.signed", |fixture| round_trip(fixture, Protection::Signed)).frevo_only(),
    Case::new("rclone.sealed", |fixture| round_trip(fixture, Protection::Sealed)),
    Case::new("rclone.sealed_share", |fixture| round_trip(fixture, Protection::SealedShare)),
];

/// Number of folders, and of files in each of them.
const TREE: (usize, usize) = (12, 20);
/// Larger than a single WRITE or READ of go-smb2.
const LARGE: u64 = 20 << 20;

/// Runs rclone to its end, and returns its standard output.
fn run(fixture: &Fixture, server: &Server, arguments: &[&str]) -> Result<String> {
    let rclone = Rclone::new(fixture.environment.dir(), server.port())?;
    let output = rclone.command(arguments).stdin(Stdio::null()).output().context("cannot start rclone")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "rclone {}: {}\n{said}", arguments.join(" "), output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns a test's path as text.
fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a UTF-8 path")
}

fn round_trip(fixture: &mut Fixture, protection: Protection) -> Result<()> {
    let server = fixture.protected("rclone", protection)?;
    let share = fixture.share("rclone");
    let there = share.join("work");
    let local = fixture.local("rclone")?.join("tree");
    file::tree(&local, TREE.0, TREE.1)?;
    file::random(&local.join("large"), LARGE)?;
    fs::write(local.join("Übergröße – 日本語.txt"), "a name of many alphabets\n")?;
    let local_text = text(&local)?;
    // Not at the top of the share: before renaming a folder, rclone 1.60 creates its parent, and uses a full stop
    // as the name of the top.
    let remote = |path: &str| format!("{}:{SHARE}/work/{path}", Rclone::REMOTE);
    let run = |arguments: &[&str]| run(fixture, &server, arguments);

    let shares = run(&["lsf", &format!("{}:", Rclone::REMOTE)])?;
    ensure!(shares.lines().any(|line| line == format!("{SHARE}/")), "{SHARE} is not among the shares:\n{shares}");
    run(&["copy", local_text, &remote("copied")])?;
    let files = ensure_same_tree(&local, &there.join("copied")).context("copied to the server")?;
    ensure!(files > TREE.0 * TREE.1, "{files} files were copied");

    let listed = run(&["lsf", "--recursive", "--files-only", &remote("copied")])?;
    let listed: BTreeSet<&str> = listed.lines().collect();
    let made = contents(&local)?;
    let made = made.keys().map(|path| text(path)).collect::<Result<BTreeSet<&str>>>()?;
    ensure!(listed == made, "{} of {} files are listed", listed.len(), made.len());

    let check = ["check", "--download", local_text, &remote("copied")];
    run(&check)?;
    // One byte is changed. rclone detects this, so it really reads what the server has.
    let one = there.join("copied/part 3/module_003/Source-004.rs");
    let (before, size) = (fs::read(&one)?, fs::metadata(&one)?.len());
    fs::write(&one, vec![b'x'; usize::try_from(size)?])?;
    let said = run(&check).err().context("rclone does not find a difference")?;
    ensure!(format!("{said:#}").contains("1 differences found"), "{said:#}");
    fs::write(&one, before)?;

    run(&["moveto", &remote("copied/large"), &remote("copied/renamed")])?;
    ensure!(there.join("copied/renamed").exists() && !there.join("copied/large").exists(), "the file is not renamed");
    run(&["moveto", &remote("copied/renamed"), &remote("copied/large")])?;
    run(&["moveto", &remote("copied"), &remote("moved")])?;
    ensure!(there.join("moved").exists() && !there.join("copied").exists(), "the folder is not renamed");

    let back = fixture.local("rclone-back")?;
    run(&["copy", &remote("moved"), text(&back)?])?;
    ensure_same_tree(&local, &back).context("copied back")?;
    run(&["deletefile", &remote("moved/large")])?;
    ensure!(!there.join("moved/large").exists(), "the file is still there");
    run(&["purge", &remote("moved")])?;
    run(&["rmdir", &remote("")])?;
    let left = fs::read_dir(&share)?.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    ensure!(left.is_empty(), "files are left on the server: {left:?}");
    Ok(())
}
