//! A wrong smb.conf is reported with file, line, value and remedy, and exit status 1.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("config.unknown_parameter", unknown_parameter).frevo_only(),
    Case::new("config.bad_value", bad_value).frevo_only(),
    Case::new("config.share_without_path", share_without_path).frevo_only(),
    Case::new("config.path_that_is_not_there", path_that_is_not_there).frevo_only(),
    Case::new("config.bad_global_value", bad_global_value).frevo_only(),
    Case::new("config.include_loop", include_loop).frevo_only(),
    Case::new("config.unserved_shares", unserved_shares).frevo_only(),
    Case::new("config.files_that_are_not_configurations", files_that_are_not_configurations).frevo_only(),
    Case::new("config.ten_thousand_shares", ten_thousand_shares).frevo_only(),
];

/// For mistakes in one share or without effect on the others: `frevo check` fails, but the server starts.
const CHECK: &[&str] = &["check"];
/// For mistakes by which the server as a whole might admit more than the file says.
const BOTH: &[&str] = &["check", "serve"];

fn unknown_parameter(fixture: &mut Fixture) -> Result<()> {
    let text = "[global]\nworkgroup = W\nraed only = yes\n[a]\npath = @DIR@\n";
    refused(fixture, CHECK, text, 3, &["raed only", "read only"])
}

fn bad_value(fixture: &mut Fixture) -> Result<()> {
    refused(fixture, CHECK, "[a]\npath = @DIR@\nread only = perhaps\n", 3, &["perhaps", "read only", "yes"])
}

fn share_without_path(fixture: &mut Fixture) -> Result<()> {
    refused(fixture, CHECK, "[global]\n\n[nowhere]\ncomment = x\n", 3, &["nowhere", "path"])
}

fn path_that_is_not_there(fixture: &mut Fixture) -> Result<()> {
    refused(fixture, CHECK, "[a]\npath = @DIR@/no/such/place\n", 2, &["no/such/place"])
}

fn bad_global_value(fixture: &mut Fixture) -> Result<()> {
    let text = "[global]\nhosts allow = 10.0.0.0/99\n[a]\npath = @DIR@\n";
    refused(fixture, BOTH, text, 2, &["10.0.0.0/99", "hosts allow"])
}

fn include_loop(fixture: &mut Fixture) -> Result<()> {
    let text = "[global]\ninclude = @DIR@/wrong.conf\n[a]\npath = @DIR@\n";
    refused(fixture, BOTH, text, 2, &["wrong.conf", "include"])
}

/// A file of 100 MB, a line of more than a megabyte, NUL bytes, and includes that cannot be read.
fn files_that_are_not_configurations(fixture: &mut Fixture) -> Result<()> {
    let dir = fixture.local("config-includes")?;
    fs::write(dir.join("other.conf"), "include = @DIR@/other.conf\n".replace("@DIR@", &dir.display().to_string()))?;
    let include = |name: &str| format!("[global]\ninclude = {}/{name}\n", dir.display());
    refused(fixture, BOTH, &"# not a parameter\n".repeat(6_000_000), 0, &["larger than 16 MiB"])?;
    refused(fixture, BOTH, &format!("[global]\nserver string = {}\n", "x".repeat(1 << 20)), 2, &["longer than 1 MiB"])?;
    refused(fixture, BOTH, "[global]\n\0\0\n[a]\npath = @DIR@\n", 2, &["NUL byte"])?;
    refused(fixture, BOTH, &include(""), 2, &["not a regular file"])?;
    refused(fixture, BOTH, &include("other.conf"), 0, &["other.conf:1", "includes itself"])?;
    let mistakes: String = (0..100_000).map(|number| format!("raed only {number} = no\n")).collect();
    refused(fixture, CHECK, &format!("[global]\n{mistakes}"), 100_001, &["raed only 99999"])
}

fn ten_thousand_shares(fixture: &mut Fixture) -> Result<()> {
    let mut text = String::from("[global]\n@TARGET@\n");
    for number in 0..10_000 {
        text += &format!("[share{number}]\n\tpath = @DIR@/data/files\n\tread only = no\n\tvalid users = alice\n");
    }
    let server = fixture.environment.start("config-many", &text)?;
    let listed = fixture.smbclient().server(&server).list_shares()?.fine()?;
    let count = listed.lines().filter(|line| line.trim().starts_with("share")).count();
    ensure!(count == 10_000, "{count} shares are listed");
    for number in [0, 9_999] {
        fixture.smbclient().server(&server).share(&format!("share{number}")).run("ls")?.fine()?;
    }
    Ok(())
}

/// The first share has its files in CephFS. Its `path` is the root directory of this host.
const UNSERVED: &str = "[global]\n@TARGET@\n\tmap to guest = Bad User\n\
    [cluster]\n\tpath = /\n\tread only = no\n\tguest ok = yes\n\tvfs objects = ceph\n\
    \tceph:config_file = /c\n[audited]\n\tpath = @DIR@/data/files\n\tvfs objects = acl_xattr extd_audit\n\
    \tguest ok = yes\n[known]\n\tpath = @DIR@/data/files\n\tvfs objects = extd_audit\n\tfrevo:without = extd_audit\n\
    [off]\n\tpath = @DIR@/data/files\n\tavailable = no\n";

/// Shares that are not served are not listed, and users and guests see nothing of their directories.
fn unserved_shares(fixture: &mut Fixture) -> Result<()> {
    let server = fixture.environment.start("config-unserved", UNSERVED)?;
    let log = server.log_tail();
    for share in ["cluster", "audited"] {
        ensure!(log.contains(&format!("the share [{share}] is not served")), "{share} is not in the log:\n{log}");
    }
    for credentials in [test_environment::ALICE.credentials(), "stranger%x".to_owned()] {
        let smbclient = || fixture.smbclient().server(&server).credentials(&credentials);
        let listed = smbclient().list_shares()?.fine()?;
        ensure!(listed.contains("known"), "{listed}");
        for share in ["cluster", "audited", "off"] {
            ensure!(!listed.contains(share), "{share} is in the list:\n{listed}");
            for command in ["ls", "ls etc\\*", "get etc\\hostname -", "notify etc", "mkdir here"] {
                smbclient().share(share).run(command)?.refused_with("NT_STATUS_BAD_NETWORK_NAME")?;
            }
        }
    }
    fixture.smbclient().server(&server).share("known").run("ls")?.fine()?;
    Ok(())
}

/// Checks that each of `verbs` fails with status 1 for the text, and reports the file, the line, a remedy and all of
/// `words`.
fn refused(fixture: &mut Fixture, verbs: &[&str], text: &str, line: usize, words: &[&str]) -> Result<()> {
    let dir = fixture.local("config")?;
    let conf = dir.join("wrong.conf");
    fs::write(&conf, text.replace("@DIR@", &dir.display().to_string()))?;
    for verb in verbs {
        let mut command = Command::new("timeout");
        command.arg("20").arg(test_environment::frevo()).args([verb, "-c"]).arg(&conf);
        if *verb == "serve" {
            command.args(["--bind", "127.0.0.1", "--state-dir"]).arg(dir.join("state"));
        }
        let output = command.output().context("cannot start frevo")?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        ensure!(output.status.code() == Some(1), "frevo {verb} ends with {}:\n{said}", output.status);
        // Line 0 is the file as a whole.
        let place = if line == 0 { "wrong.conf".to_owned() } else { format!("wrong.conf:{line}") };
        for word in [place.as_str(), "remedy:"].iter().chain(words) {
            ensure!(said.contains(word), "frevo {verb}: no {word:?} in\n{said}");
        }
    }
    Ok(())
}
