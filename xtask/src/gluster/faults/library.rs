//! A client library that is missing, unusable, or ends the process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use proto::status::Status;
use test_environment::ALICE;

use super::client::{Smb, outcome, refused};
use super::fixture::{Fixture, LOCAL, SHARE};
use super::{Case, Given};
use crate::gluster::servers::output;

pub(super) const CASES: &[Case] = &[
    Case::new("library_missing", &["dist"], library_missing),
    Case { preloads: Some(ABORTING), ..Case::new("library_aborts", &["dist"], library_aborts) },
];

/// The file name of the library.
const LIBRARY: &str = "libgfapi.so.0";
/// How long it may take until a server that was started again serves a file.
const SERVED: Duration = Duration::from_secs(2);
/// The file that makes the preloaded library abort, in the directory of the GlusterFS servers.
const TRIGGER: &str = "abort";
/// A library that replaces the function with which the client library looks up a name. It ends the process if the
/// trigger exists.
const ABORTING: &str = "#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int syncop_lookup(void *a, void *b, void *c, void *d, void *e, void *f) {
    int (*original)(void *, void *, void *, void *, void *, void *) = dlsym(RTLD_NEXT, \"syncop_lookup\");
    if (!original) {
        void *library = dlopen(\"libglusterfs.so.0\", RTLD_NOW | RTLD_NOLOAD);
        original = library ? dlsym(library, \"syncop_lookup\") : 0;
    }
    int trigger = open(DIRECTORY \"/abort\", O_RDONLY | O_CLOEXEC);
    if (trigger >= 0 || !original) {
        abort();
    }
    return original(a, b, c, d, e, f);
}
";

/// Compiles a library for a case in `dir`, and returns its path.
pub(super) fn compile(dir: &Path, name: &str, source: &str) -> Result<PathBuf> {
    let (file, made) = (dir.join(format!("{name}.c")), dir.join(format!("{name}.so")));
    fs::write(&file, source)?;
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-w", "-o"]).arg(&made).arg(&file).arg("-ldl");
    command.arg(format!("-DDIRECTORY=\"{}\"", dir.display()));
    output(&mut command).context("a C compiler is needed")?;
    Ok(made)
}

/// Returns the path of the client library.
fn library() -> Result<PathBuf> {
    let known = output(Command::new("ldconfig").arg("-p"))?;
    let line = known.lines().find(|line| line.trim().starts_with(LIBRARY)).context("libgfapi is not installed")?;
    Ok(fs::canonicalize(line.rsplit_once("=> ").context("an unknown format of ldconfig")?.1)?)
}

/// Without a library that can be used, shares in volumes are unavailable, and others are served.
fn library_missing(given: &Given<'_>) -> Result<()> {
    let library = library()?;
    // The mount namespace is that of the servers, so the machine keeps its library.
    let cover = |by: &Path| output(Command::new("mount").arg("--bind").arg(by).arg(&library)).map(drop);
    let uncover = || output(Command::new("umount").arg(&library)).map(drop);
    let empty = given.dir.join("empty");
    fs::write(&empty, "")?;
    let old = compile(given.dir, "old", "void glfs_new(void) {}\n")?;
    for (what, by) in [("an empty library", &empty), ("a library without functions", &old)] {
        cover(by)?;
        let fixture = Fixture::start(given.dir, "dist", "")?;
        let result = Smb::try_connect(fixture.server.address(), SHARE, &ALICE)?;
        ensure!(refused(&result, &[Status::BAD_NETWORK_NAME]), "{what}: {}", outcome(&result));
        Smb::connect(fixture.server.address(), LOCAL)?.put("file", b"text")?;
        let log = fs::read_to_string(fixture.server.conf().with_file_name("log").join("output"))?;
        let lines: Vec<_> = log.lines().filter(|line| line.contains("gfapi")).collect();
        ensure!(lines.len() == 1, "the log has {} lines about the library:\n{}", lines.len(), lines.join("\n"));
        println!("{what}: {}", lines[0]);
        let mut check = Command::new(test_environment::frevo());
        let checked = check.arg("check").arg("-c").arg(fixture.server.conf()).output()?;
        let said = [checked.stdout, checked.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let told: Vec<_> = said.lines().filter(|line| line.contains("cannot be used")).collect();
        ensure!(!told.is_empty() && checked.status.code() == Some(1), "frevo check: {} {said}", checked.status);
        println!("{what}: frevo check: {}", told.join("; "));
        drop(fixture);
        uncover()?;
    }
    let fixture = Fixture::start(given.dir, "dist", "")?;
    Ok(fixture.connect()?.put("file", b"text")?)
}

/// The process ends if the library aborts it, and serves again after it was started again.
fn library_aborts(given: &Given<'_>) -> Result<()> {
    let mut fixture = Fixture::start(given.dir, "dist", "")?;
    let trigger = given.dir.join(TRIGGER);
    fixture.connect()?.put("file", b"flushed")?;
    // A server that does not know the name looks it up.
    fixture.server.restart()?;
    let mut smb = fixture.connect()?;
    fs::write(&trigger, "")?;
    let result = smb.get("file", 64);
    ensure!(result.is_err(), "the library did not abort");
    println!("the client: {}", outcome(&result));
    let status = fixture.server.wait(Duration::from_secs(10))?.context("Frevo does not end")?;
    ensure!(!status.success(), "Frevo ended without an error");
    println!("Frevo: {status}");
    fs::remove_file(&trigger)?;
    let begin = Instant::now();
    fixture.server.restart()?;
    let content = fixture.connect()?.get("file", 64)?;
    let took = begin.elapsed();
    ensure!(content == b"flushed", "the content is different after the restart");
    ensure!(took < SERVED, "it is served {took:?} after the restart");
    println!("served {took:.1?} after the restart");
    Ok(())
}
