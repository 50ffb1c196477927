//! impacket and smbprotocol: clients that share no code with Samba's.

use anyhow::Result;

use crate::stage::Stage;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("python.smbprotocol_plain", |stage| smbprotocol(stage, "plain", &["2.0.2", "2.1", "3.0", "3.0.2"])),
    Case::new("python.smbprotocol_signed", |stage| smbprotocol(stage, "signed", &ALL)),
    Case::new("python.smbprotocol_encrypted", |stage| smbprotocol(stage, "encrypted", &["3.0", "3.0.2", "3.1.1"])),
    // impacket always signs with 3.1.1, and otherwise if the server requires it.
    Case::new("python.impacket", |stage| impacket(stage, "files", &["2.0.2", "2.1", "3.0"])),
    Case::new("python.impacket_signed", |stage| impacket(stage, "files", &["3.1.1"])),
    Case::new("python.impacket_encrypted", |stage| impacket(stage, "sealed", &["3.0", "3.1.1"])),
];

const ALL: [&str; 5] = ["2.0.2", "2.1", "3.0", "3.0.2", "3.1.1"];

fn smbprotocol(stage: &mut Stage, protection: &str, dialects: &[&str]) -> Result<()> {
    dialects.iter().try_for_each(|dialect| stage.script("smbprotocol_roundtrip.py", &[dialect, protection]).map(drop))
}

fn impacket(stage: &mut Stage, share: &str, dialects: &[&str]) -> Result<()> {
    dialects.iter().try_for_each(|dialect| stage.script("impacket_roundtrip.py", &[dialect, share]).map(drop))
}
