//! Transfers files in every dialect, signed and encrypted.

use std::fs;

use anyhow::{Result, ensure};

use crate::file;
use crate::stage::Stage;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("dialects.smb2_02", |stage| there_and_back(stage, "SMB2_02", &[])),
    Case::new("dialects.smb2_10", |stage| there_and_back(stage, "SMB2_10", &[])),
    Case::new("dialects.smb3_00", |stage| there_and_back(stage, "SMB3_00", &[])),
    Case::new("dialects.smb3_02", |stage| there_and_back(stage, "SMB3_02", &[])),
    Case::new("dialects.smb3_11", |stage| there_and_back(stage, "SMB3_11", &[])),
    Case::new("dialects.smb2_02_signed", |stage| there_and_back(stage, "SMB2_02", SIGN)),
    Case::new("dialects.smb2_10_signed", |stage| there_and_back(stage, "SMB2_10", SIGN)),
    Case::new("dialects.smb3_00_signed", |stage| there_and_back(stage, "SMB3_00", SIGN)),
    Case::new("dialects.smb3_02_signed", |stage| there_and_back(stage, "SMB3_02", SIGN)),
    Case::new("dialects.smb3_11_signed", |stage| there_and_back(stage, "SMB3_11", SIGN)),
    Case::new("dialects.smb3_00_encrypted", |stage| there_and_back(stage, "SMB3_00", ENCRYPT)),
    Case::new("dialects.smb3_02_encrypted", |stage| there_and_back(stage, "SMB3_02", ENCRYPT)),
    Case::new("dialects.smb3_11_encrypted", |stage| there_and_back(stage, "SMB3_11", ENCRYPT)),
    Case::new("dialects.signing_algorithms", signing_algorithms),
    Case::new("dialects.ciphers", ciphers),
    Case::new("dialects.sealed_share", sealed_share),
];

const SIGN: &[&str] = &["--client-protection=sign"];
const ENCRYPT: &[&str] = &["--client-protection=encrypt"];

/// Sends slightly more than 3 MiB to the server and back, with exactly this dialect.
fn there_and_back(stage: &mut Stage, dialect: &str, options: &[&str]) -> Result<()> {
    let local = stage.local("dialect")?;
    file::random(&local.join("sent"), (3 << 20) + 7)?;
    let name = format!("dialect-{dialect}");
    let commands = format!("lcd {}; put sent {name}; get {name} fetched; ls {name}", local.display());
    stage.smbclient().dialect(dialect).options(options).run(&commands)?.fine()?;
    let sent = fs::read(local.join("sent"))?;
    ensure!(fs::read(stage.share("files").join(&name))? == sent, "the stored file differs");
    ensure!(fs::read(local.join("fetched"))? == sent, "the fetched file differs");
    Ok(())
}

fn signing_algorithms(stage: &mut Stage) -> Result<()> {
    for algorithm in ["AES-128-GMAC", "AES-128-CMAC", "HMAC-SHA256"] {
        let option = format!("--option=client smb3 signing algorithms={algorithm}");
        there_and_back(stage, "SMB3_11", &[SIGN[0], &option])?;
    }
    Ok(())
}

fn ciphers(stage: &mut Stage) -> Result<()> {
    for cipher in ["AES-128-GCM", "AES-128-CCM", "AES-256-GCM", "AES-256-CCM"] {
        let option = format!("--option=client smb3 encryption algorithms={cipher}");
        there_and_back(stage, "SMB3_11", &[ENCRYPT[0], &option])?;
    }
    Ok(())
}

fn sealed_share(stage: &mut Stage) -> Result<()> {
    fs::write(stage.share("sealed").join("letter"), "dear reader")?;
    stage.smbclient().share("sealed").run("get letter -")?.says("dear reader")?;
    let said = stage.smbclient().share("sealed").dialect("SMB2_10").run("get letter -")?;
    ensure!(!said.text.contains("dear reader"), "a client that cannot encrypt reads it:\n{}", said.text);
    said.refused_with("NT_STATUS_ACCESS_DENIED")
}
