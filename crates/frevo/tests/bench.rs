//! `frevo bench` runs `frevo-bench`, which is a shell here: from the directory of `frevo`, else from `PATH`.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A directory with the program `frevo`.
fn installed() -> TempDir {
    // A link to the program must be in the same file system, and a symbolic link would lead to the original directory.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    std::fs::hard_link(env!("CARGO_BIN_EXE_frevo"), directory.path().join("frevo")).expect("a link");
    directory
}

/// A directory in which `frevo-bench` is `program`.
fn with(program: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    symlink(program, directory.path().join("frevo-bench")).expect("a link");
    directory
}

fn run(frevo: &Path, path: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(frevo.join("frevo"));
    command.arg("bench").args(arguments).env("PATH", path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("frevo starts");
    // A program that does not read its input may have ended.
    let _ = child.stdin.take().expect("a pipe").write_all(b"input");
    child.wait_with_output().expect("frevo ends")
}

#[test]
fn the_program_beside_frevo_is_preferred_to_that_in_path() {
    let (frevo, path) = (installed(), with("/bin/false"));
    assert_eq!(run(frevo.path(), path.path(), &[]).status.code(), Some(1), "false is in PATH");
    symlink("/bin/true", frevo.path().join("frevo-bench")).expect("a link");
    assert_eq!(run(frevo.path(), path.path(), &[]).status.code(), Some(0), "true is beside frevo");
}

#[test]
fn arguments_input_output_and_exit_status_are_passed_through() {
    let (frevo, path) = (installed(), with("/bin/sh"));
    let script = r#"read word; echo "$*:$word"; echo said >&2; exit 7"#;
    let output = run(frevo.path(), path.path(), &["-c", script, "sh", "--help", "--", "-V", "--target=smb://h/s", ""]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--help -- -V --target=smb://h/s :input\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "said\n");
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn a_signal_that_ends_the_program_ends_frevo() {
    let (frevo, path) = (installed(), with("/bin/sh"));
    assert_eq!(run(frevo.path(), path.path(), &["-c", "kill -TERM $$"]).status.signal(), Some(15));
}

#[test]
fn a_missing_program_is_reported() {
    let (frevo, path) = (installed(), tempfile::tempdir().expect("a directory"));
    let output = run(frevo.path(), path.path(), &["names"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.starts_with("frevo: frevo-bench is not installed") && said.contains("cargo build"), "{said}");
    assert!(said.contains(&frevo.path().display().to_string()), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}

#[test]
fn a_program_that_cannot_be_started_is_reported() {
    let frevo = installed();
    std::fs::write(frevo.path().join("frevo-bench"), "not executable").expect("a file");
    let output = run(frevo.path(), Path::new("/nonexistent"), &["names"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(said.starts_with("frevo: cannot start ") && said.contains("Permission denied"), "{said}");
}
