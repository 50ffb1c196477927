//! The program `frevo-bench` without a server: what it prints, and its exit status.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_frevo-bench")).args(arguments).output().expect("it starts")
}

#[test]
fn experiments_are_listed() {
    let output = run(&["names"]);
    assert!(output.status.success());
    let names = String::from_utf8(output.stdout).expect("text");
    assert!(names.lines().any(|name| name == "largefile") && names.lines().any(|name| name == "acl mix"), "{names}");
}

#[test]
fn the_exit_status_is_1_for_a_failure_and_2_for_wrong_usage() {
    let failed = run(&["report", "/nonexistent/run.json"]);
    let said = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1));
    assert!(said.starts_with("frevo-bench: ") && said.contains("/nonexistent/run.json"), "{said}");
    assert_eq!(run(&["no-such-experiment"]).status.code(), Some(2));
    assert_eq!(run(&[]).status.code(), Some(2));
}
