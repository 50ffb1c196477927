//! Previous versions shown by smbclient: snapshots in directories, as served by Samba's module shadow_copy2.

use std::fs;

use anyhow::{Result, ensure};

use crate::file;
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::ALICE;

pub(super) const CASES: &[Case] =
    &[Case::new("versions.read", read), Case::new("versions.refused", refused).frevo_only()];

const FIRST: &str = "@GMT-2015.10.31-19.40.30";
const SECOND: &str = "@GMT-2016.01.01-00.00.00";

/// Creates a file and two versions of it. Each contains its location.
fn prepare(fixture: &Fixture) -> Result<()> {
    let share = fixture.share("versions");
    for folder in ["", FIRST, SECOND]
        .map(|snapshot| if snapshot.is_empty() { share.clone() } else { share.join(".snapshots").join(snapshot) })
    {
        fs::create_dir_all(folder.join("dir"))?;
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        file::owned(fixture, &folder.join("dir/file"), &name, &ALICE, 0o644)?;
    }
    Ok(())
}

fn read(fixture: &mut Fixture) -> Result<()> {
    prepare(fixture)?;
    let versions = fixture.smbclient().share("versions").run("allinfo dir/file")?.fine()?;
    let tokens: Vec<&str> = versions.lines().filter(|line| line.starts_with("@GMT-")).collect();
    ensure!(tokens == [SECOND, FIRST], "expected both versions, the latest first, in\n{versions}");
    let local = fixture.local("versions")?;
    for (name, content) in [("dir/file", "versions"), (&format!("{FIRST}/dir/file"), FIRST)] {
        let fetched = local.join("fetched");
        fixture.smbclient().share("versions").run(&format!("get {name} {}", fetched.display()))?.fine()?;
        let text = fs::read_to_string(&fetched)?;
        ensure!(text == content, "{name} is {text:?}");
    }
    fixture.smbclient().share("versions").run(&format!("ls {FIRST}/dir/*"))?.says("file")
}

fn refused(fixture: &mut Fixture) -> Result<()> {
    prepare(fixture)?;
    let sent = fixture.local("versions")?.join("sent");
    file::random(&sent, 100)?;
    for command in [
        format!("put {} {FIRST}/dir/new", sent.display()),
        format!("put {} {FIRST}/dir/file", sent.display()),
        format!("mkdir {FIRST}/new"),
        format!("del {FIRST}/dir/file"),
    ] {
        fixture.smbclient().share("versions").run(&command)?.refused_with("NT_STATUS_")?;
    }
    let snapshot = fixture.share("versions").join(".snapshots").join(FIRST);
    let text = fs::read_to_string(snapshot.join("dir/file"))?;
    ensure!(text == FIRST && !snapshot.join("new").exists() && !snapshot.join("dir/new").exists(), "it was modified");
    let none = "get @GMT-2014.01.01-00.00.00/dir/file /dev/null";
    fixture.smbclient().share("versions").run(none)?.refused_with("NT_STATUS_OBJECT_")
}
