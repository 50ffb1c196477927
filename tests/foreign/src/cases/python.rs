//! impacket and smbprotocol: clients that share no code with Samba's.

use anyhow::Result;

use crate::fixture::Fixture;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("python.smbprotocol_plain", |fixture| smbprotocol(fixture, "plain", &["2.0.2", "2.1", "3.0", "3.0.2"])),
    Case::new("python.smbprotocol_signed", |fixture| smbprotocol(fixture, "signed", &ALL)),
    Case::new("python.smbprotocol_encrypted", |fixture| smbprotocol(fixture, "encrypted", &["3.0", "3.0.2", "3.1.1"])),
    // impacket always signs with 3.1.1, and otherwise if the server requires it.
    Case::new("python.impacket", |fixture| impacket(fixture, "files", &["2.0.2", "2.1", "3.0"])),
    Case::new("python.impacket_signed", |fixture| impacket(fixture, "files", &["3.1.1"])),
    Case::new("python.impacket_encrypted", |fixture| impacket(fixture, "sealed", &["3.0", "3.1.1"])),
];

const ALL: [&str; 5] = ["2.0.2", "2.1", "3.0", "3.0.2", "3.1.1"];

fn smbprotocol(fixture: &mut Fixture, protection: &str, dialects: &[&str]) -> Result<()> {
    dialects.iter().try_for_each(|dialect| fixture.script("smbprotocol_roundtrip.py", &[dialect, protection]).map(drop))
}

fn impacket(fixture: &mut Fixture, share: &str, dialects: &[&str]) -> Result<()> {
    dialects.iter().try_for_each(|dialect| fixture.script("impacket_roundtrip.py", &[dialect, share]).map(drop))
}
