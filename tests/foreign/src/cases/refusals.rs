//! Each refusal has the same status as with Windows.

use std::fs;

use anyhow::{Result, ensure};

use crate::file;
use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, BOB, CAROL};

pub(super) const CASES: &[Case] = &[
    Case::new("refusals.wrong_password", wrong_password),
    Case::new("refusals.unknown_user", unknown_user),
    Case::new("refusals.anonymous", anonymous),
    Case::new("refusals.disabled_user", disabled_user),
    Case::new("refusals.unknown_share", unknown_share),
    Case::new("refusals.read_only_share", read_only_share),
    Case::new("refusals.private_file", private_file).needs_root(),
    Case::new("refusals.private_directory", private_directory).needs_root(),
];

fn wrong_password(fixture: &mut Fixture) -> Result<()> {
    fixture.smbclient().credentials("alice%wrong").run("ls")?.refused_with("NT_STATUS_LOGON_FAILURE")
}

fn unknown_user(fixture: &mut Fixture) -> Result<()> {
    fixture.smbclient().credentials("nobody-like-it%x").run("ls")?.refused_with("NT_STATUS_LOGON_FAILURE")
}

fn anonymous(fixture: &mut Fixture) -> Result<()> {
    let said = fixture.smbclient().credentials("%").run("ls")?;
    let refused = ["NT_STATUS_ACCESS_DENIED", "NT_STATUS_LOGON_FAILURE"].iter().any(|word| said.text.contains(word));
    ensure!(refused && !said.success, "an anonymous client is accepted:\n{}", said.text);
    Ok(())
}

fn disabled_user(fixture: &mut Fixture) -> Result<()> {
    fixture.smbclient().user(&CAROL).run("ls")?.refused_with("NT_STATUS_ACCOUNT_DISABLED")
}

fn unknown_share(fixture: &mut Fixture) -> Result<()> {
    fixture.smbclient().share("nothing-like-it").run("ls")?.refused_with("NT_STATUS_BAD_NETWORK_NAME")
}

fn read_only_share(fixture: &mut Fixture) -> Result<()> {
    let local = fixture.local("fixed")?;
    fs::write(local.join("new"), "new")?;
    fs::write(fixture.share("fixed").join("old"), "old")?;
    let here = format!("lcd {}; ", local.display());
    for commands in ["put new", "del old", "mkdir folder"] {
        let said = fixture.smbclient().share("fixed").run(&format!("{here}{commands}"))?;
        let refused = ["NT_STATUS_ACCESS_DENIED", "NT_STATUS_MEDIA_WRITE_PROTECTED"];
        ensure!(refused.iter().any(|word| said.text.contains(word)), "{commands}:\n{}", said.text);
    }
    ensure!(fs::read(fixture.share("fixed").join("old"))? == b"old" && !fixture.share("fixed").join("new").exists());
    fixture.smbclient().share("fixed").run("get old -")?.says("old")
}

fn private_file(fixture: &mut Fixture) -> Result<()> {
    let path = fixture.share("files").join("bobs");
    file::owned(fixture, &path, "bob only", &BOB, 0o600)?;
    let said = fixture.smbclient().run("get bobs -")?;
    ensure!(!said.text.contains("bob only"), "alice can read it:\n{}", said.text);
    said.refused_with("NT_STATUS_ACCESS_DENIED")?;
    fixture.smbclient().user(&BOB).run("get bobs -")?.says("bob only")?;
    let local = fixture.local("bobs")?;
    fs::write(local.join("bobs"), "overwritten")?;
    let overwrite = format!("lcd {}; put bobs", local.display());
    fixture.smbclient().run(&overwrite)?.refused_with("NT_STATUS_ACCESS_DENIED")?;
    ensure!(fs::read(&path)? == b"bob only", "alice overwrote it");
    Ok(())
}

fn private_directory(fixture: &mut Fixture) -> Result<()> {
    let folder = fixture.environment.make_dir("data/files/bobs folder", &BOB, 0o700)?;
    file::owned(fixture, &folder.join("open to all"), "bob only", &ALICE, 0o666)?;
    let said = fixture.smbclient().run("ls \"bobs folder/*\"; get \"bobs folder/open to all\" -")?;
    ensure!(!said.text.contains("bob only"), "alice can read it:\n{}", said.text);
    said.refused_with("NT_STATUS_ACCESS_DENIED")
}
