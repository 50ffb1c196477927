//! Transfers files in every dialect, signed and encrypted.

use std::fs;

use anyhow::{Result, ensure};

use crate::file;
use crate::fixture::Fixture;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("dialects.smb2_02", |fixture| there_and_back(fixture, "SMB2_02", &[])),
    Case::new("dialects.smb2_10", |fixture| there_and_back(fixture, "SMB2_10", &[])),
    Case::new("dialects.smb3_00", |fixture| there_and_back(fixture, "SMB3_00", &[])),
    Case::new("dialects.smb3_02", |fixture| there_and_back(fixture, "SMB3_02", &[])),
    Case::new("dialects.smb3_11", |fixture| there_and_back(fixture, "SMB3_11", &[])),
    Case::new("dialects.smb2_02_signed", |fixture| there_and_back(fixture, "SMB2_02", SIGN)),
    Case::new("dialects.smb2_10_signed", |fixture| there_and_back(fixture, "SMB2_10", SIGN)),
    Case::new("dialects.smb3_00_signed", |fixture| there_and_back(fixture, "SMB3_00", SIGN)),
    Case::new("dialects.smb3_02_signed", |fixture| there_and_back(fixture, "SMB3_02", SIGN)),
    Case::new("dialects.smb3_11_signed", |fixture| there_and_back(fixture, "SMB3_11", SIGN)),
    Case::new("dialects.smb3_00_encrypted", |fixture| there_and_back(fixture, "SMB3_00", ENCRYPT)),
    Case::new("dialects.smb3_02_encrypted", |fixture| there_and_back(fixture, "SMB3_02", ENCRYPT)),
    Case::new("dialects.smb3_11_encrypted", |fixture| there_and_back(fixture, "SMB3_11", ENCRYPT)),
    Case::new("dialects.signing_algorithms", signing_algorithms),
    Case::new("dialects.ciphers", ciphers),
    Case::new("dialects.sealed_share", sealed_share),
];

const SIGN: &[&str] = &["--client-protection=sign"];
const ENCRYPT: &[&str] = &["--client-protection=encrypt"];

/// Sends slightly more than 3 MiB to the server and back, with exactly this dialect.
fn there_and_back(fixture: &mut Fixture, dialect: &str, options: &[&str]) -> Result<()> {
    let local = fixture.local("dialect")?;
    file::random(&local.join("sent"), (3 << 20) + 7)?;
    let name = format!("dialect-{dialect}");
    let commands = format!("lcd {}; put sent {name}; get {name} fetched; ls {name}", local.display());
    fixture.smbclient().dialect(dialect).options(options).run(&commands)?.fine()?;
    let sent = fs::read(local.join("sent"))?;
    ensure!(fs::read(fixture.share("files").join(&name))? == sent, "the stored file differs");
    ensure!(fs::read(local.join("fetched"))? == sent, "the fetched file differs");
    Ok(())
}

fn signing_algorithms(fixture: &mut Fixture) -> Result<()> {
    for algorithm in ["AES-128-GMAC", "AES-128-CMAC", "HMAC-SHA256"] {
        let option = format!("--option=client smb3 signing algorithms={algorithm}");
        there_and_back(fixture, "SMB3_11", &[SIGN[0], &option])?;
    }
    Ok(())
}

fn ciphers(fixture: &mut Fixture) -> Result<()> {
    for cipher in ["AES-128-GCM", "AES-128-CCM", "AES-256-GCM", "AES-256-CCM"] {
        let option = format!("--option=client smb3 encryption algorithms={cipher}");
        there_and_back(fixture, "SMB3_11", &[ENCRYPT[0], &option])?;
    }
    Ok(())
}

fn sealed_share(fixture: &mut Fixture) -> Result<()> {
    fs::write(fixture.share("sealed").join("letter"), "dear reader")?;
    fixture.smbclient().share("sealed").run("get letter -")?.says("dear reader")?;
    let said = fixture.smbclient().share("sealed").dialect("SMB2_10").run("get letter -")?;
    ensure!(!said.text.contains("dear reader"), "a client that cannot encrypt reads it:\n{}", said.text);
    said.refused_with("NT_STATUS_ACCESS_DENIED")
}
