//! Determines the commit that `frevo --version` shows.
//!
//! A packager sets `FREVO_COMMIT`. Otherwise, release builds ask git, if the source is a repository. Other builds show
//! no commit, so that a new commit does not compile the program again during development.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=FREVO_COMMIT");
    let given = std::env::var("FREVO_COMMIT").ok().filter(|commit| !commit.is_empty());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| if is_release { of_repository() } else { None });
    println!("cargo::rustc-env=FREVO_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

/// Returns the commit of the repository. The files that change with it are named to cargo.
fn of_repository() -> Option<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let mut files = vec!["HEAD".to_owned()];
    files.extend(git(&["symbolic-ref", "--quiet", "HEAD"]));
    for file in files {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", &file]) {
            // A file that does not exist would run this program again with every build.
            if std::path::Path::new(&path).exists() {
                println!("cargo::rerun-if-changed={path}");
            }
        }
    }
    Some(commit)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}
