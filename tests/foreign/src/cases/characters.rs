//! Names with mapped characters are the same for clients and on disk whether Samba or Frevo serves them.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Result, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;
use test_environment::{ALICE, Server, Target, TestEnvironment};

pub(super) const CASES: &[Case] = &[Case::new("characters.like_samba", like_samba).needs_root().frevo_only()];

const TEMPLATE: &str = "[global]
@TARGET@
	netbios name = BED
	read only = no
[cad]
	path = @TREE@
	vfs objects = catia streams_xattr
	catia:mappings = 0x22:0xa8,0x2a:0xa4,0x2f:0xf8,0x3a:0xf7,0x3c:0xab,0x3e:0xbb,0x3f:0xbf,0x5c:0xff,0x7c:0xa6
";

/// Names of files that exist before clients see them.
const LOCAL: [&str; 3] = [r#"a\a:a*a?a"a<a>a|a"#, "plain", "q\u{a8}q"];

/// Commands of smbclient. What they print about names is compared.
const COMMANDS: &[&str] = &[
    "ls",
    "get a\u{ff}a\u{f7}a\u{a4}a\u{bf}a\u{a8}a\u{ab}a\u{bb}a\u{a6}a got",
    "get q\u{a8}q got",
    "put content n\u{a8}n; put content s\u{f7}t; ls n*; ls n\u{a8}*",
    "rename n\u{a8}n m\u{a4}m; ls m*",
    "mkdir d\u{bf}; put content d\u{bf}/f\u{bb}; ls d\u{bf}/*; cd d\u{bf}; ls",
    "put content plain:s\u{a8}t; get plain:s\u{a8}t got",
    "del s\u{f7}t; ls s*",
];

fn like_samba(fixture: &mut Fixture) -> Result<()> {
    let fixture = &*fixture;
    let local = fixture.local("characters")?;
    fs::write(local.join("content"), "content")?;
    let environment = TestEnvironment::make(Target::Samba)?;
    let mut results = Vec::new();
    for name in ["samba", "frevo"] {
        let tree = fixture.environment.make_dir(&format!("data/characters-{name}"), &ALICE, 0o777)?;
        for name in LOCAL {
            fs::write(tree.join(name), name)?;
        }
        let template = TEMPLATE.replace("@TREE@", &tree.display().to_string());
        let place = if name == "samba" { &environment } else { &fixture.environment };
        let server: Server = place.start("characters", &template)?;
        let mut result = Vec::new();
        for commands in COMMANDS {
            let commands = format!("lcd {}; {commands}", local.display());
            let output = fixture.smbclient().server(&server).share("cad").run(&commands)?.text;
            let mut words: Vec<_> = output.lines().filter_map(said).collect();
            words.sort();
            result.push(format!("{commands}: {words:?}"));
        }
        let mut names = BTreeSet::new();
        for directory in [tree.clone(), tree.join("d?")] {
            for entry in fs::read_dir(&directory)? {
                names.insert(entry?.file_name());
            }
        }
        result.push(format!("{names:?}"));
        results.push(result);
    }
    for (samba, frevo) in results[0].iter().zip(&results[1]) {
        ensure!(samba == frevo, "Samba:\n{samba}\nFrevo:\n{frevo}");
    }
    Ok(())
}

/// Returns the name in a line of a listing, or the status in an error. smbclient queries the free space after a
/// listing, which Samba refuses in a directory whose name has a mapped character.
fn said(line: &str) -> Option<String> {
    if line.starts_with("Error in dskattr") {
        return None;
    }
    if let Some(status) = line.split_whitespace().find(|word| word.starts_with("NT_STATUS_")) {
        return Some(status.to_owned());
    }
    line.strip_prefix("  ").and_then(|entry| entry.split_whitespace().next()).map(str::to_owned)
}
