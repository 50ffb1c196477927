//! Client libraries of other languages, each with a program that is compiled here: smbj in `tests/foreign/java`,
//! libsmb2 in `tests/foreign/c`.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::fixture::Fixture;
use crate::protection::{Protection, SHARE};
use crate::suite::Case;
use test_environment::{ALICE, Server};

pub(super) const CASES: &[Case] = &[
    // Dialects with different signing and encryption.
    Case::new("libraries.smbj_signed", |fixture| smbj(fixture, Protection::Signed, &["2.1", "3.0", "3.1.1"]))
        .needs_tools(),
    Case::new("libraries.smbj_sealed", |fixture| smbj(fixture, Protection::Sealed, &["3.0", "3.1.1"])).needs_tools(),
    Case::new("libraries.smbj_sealed_share", |fixture| smbj(fixture, Protection::SealedShare, &["3.1.1"]))
        .needs_tools(),
    Case::new("libraries.libsmb2_signed", |fixture| libsmb2(fixture, Protection::Signed)).needs_tools(),
    Case::new("libraries.libsmb2_sealed", |fixture| libsmb2(fixture, Protection::Sealed)).needs_tools(),
    Case::new("libraries.libsmb2_sealed_share", |fixture| libsmb2(fixture, Protection::SealedShare)).needs_tools(),
];

/// Runs a program to its end, with the server in its environment. Returns its output.
fn run(command: &mut Command, server: &Server) -> Result<String> {
    command.env("SERVER_PORT", server.port().to_string());
    command.env("SERVER_USER", ALICE.name).env("SERVER_PASSWORD", ALICE.password);
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    ensure!(output.status.success(), "{:?}: {}\n{text}", command.get_program(), output.status);
    Ok(text)
}

/// Returns the folder with the sources of one language.
fn sources(language: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(language)
}

fn smbj(fixture: &mut Fixture, protection: Protection, dialects: &[&str]) -> Result<()> {
    let server = fixture.protected("smbj", protection)?;
    let mut java = Command::new("java");
    // It runs only for seconds, so an optimizing compiler would take more time than it saves.
    java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-classpath"]).arg(fixture.tools()?.jars.join("*"));
    // Java compiles a single-file program when starting it.
    java.arg(sources("java").join("Roundtrip.java")).args([SHARE, protection.word()]).args(dialects);
    run(&mut java, &server).map(drop)
}

fn libsmb2(fixture: &mut Fixture, protection: Protection) -> Result<()> {
    let program = fixture.local("libsmb2")?.join("roundtrip");
    let library = &fixture.tools()?.libsmb2;
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&program).arg("-I").arg(library.join("include"));
    cc.arg(sources("c").join("libsmb2_roundtrip.c")).arg(library.join("libsmb2.o"));
    let compiled = cc.output().context("cannot start cc")?;
    ensure!(compiled.status.success(), "cc: {}", String::from_utf8_lossy(&compiled.stderr));
    let server = fixture.protected("libsmb2", protection)?;
    let said = run(Command::new(&program).args([SHARE, protection.word()]), &server)?;
    println!("    {}", said.trim().replace('\n', ", "));
    Ok(())
}
