//! A source tree of 10,000 files is copied to the server and back.

use std::fs;

use anyhow::{Result, ensure};

use crate::file;
use crate::fixture::Fixture;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("trees.200_files", |fixture| there_and_back(fixture, 10, 20)),
    Case::new("trees.10000_files", |fixture| there_and_back(fixture, 100, 100)).slow(),
];

fn there_and_back(fixture: &mut Fixture, folders: usize, files: usize) -> Result<()> {
    let local = fixture.local("tree")?;
    let (sent, fetched) = (local.join("sent"), local.join("fetched"));
    file::tree(&sent, folders, files)?;
    fs::create_dir(&fetched)?;
    let send = format!("mkdir tree; cd tree; lcd {}; recurse; prompt; mput *", sent.display());
    fixture.smbclient().run(&send)?.fine()?;
    let stored = fixture.share("files").join("tree");
    let count = file::ensure_same_tree(&sent, &stored)?;
    ensure!(count == folders * files, "{count} files");
    let fetch = format!("cd tree; lcd {}; recurse; prompt; mget *", fetched.display());
    fixture.smbclient().run(&fetch)?.fine()?;
    file::ensure_same_tree(&sent, &fetched)?;
    fixture.smbclient().run("deltree tree")?.fine()?;
    ensure!(!stored.exists(), "deltree did not remove the tree");
    fs::remove_dir_all(local)?;
    Ok(())
}
