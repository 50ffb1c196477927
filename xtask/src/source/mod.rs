//! The rules of ARCHITECTURE.md and CONTRIBUTING.md that a program can verify, applied to the source.
//!
//! Known violations are listed in `expected-failures/source.txt`, each with its reason. A listed violation that is no
//! longer found fails the run, so the list only shrinks.

mod imports;
mod io;
mod language;
mod limits;
mod links;
mod size;
mod suites;
mod tokens;
mod unsafe_code;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use test_environment::Counts;

use crate::expected;

/// A file of the project.
struct Source {
    /// Relative to the workspace.
    path: PathBuf,
    text: String,
}

impl Source {
    /// Returns whether the file is production code: not a test, a test double, or a program that only tests use.
    fn is_production(&self) -> bool {
        let path = self.path.to_string_lossy();
        let test = |part: &str| {
            matches!(
                part,
                "tests" | "tests.rs" | "testing" | "contract" | "contract.rs" | "faulty.rs" | "memory" | "remote"
            )
        };
        (path.starts_with("crates/") || path.starts_with("xtask/")) && !path.split('/').any(test)
    }
}

/// A place where a rule is broken.
struct Violation {
    /// The name in `expected-failures/source.txt`: the rule and what breaks it, without line numbers.
    name: String,
    /// The location, and what to do.
    what: String,
}

/// Verifies every rule. Returns one passed, or a failure for each violation.
pub(crate) fn check() -> Result<Counts> {
    let sources = sources()?;
    let rust: Vec<&Source> = sources.iter().filter(|source| is(source, "rs")).collect();
    let mut found = Vec::new();
    for source in &rust {
        found.extend(size::check(source));
        found.extend(unsafe_code::check(source)?);
        found.extend(limits::check(source)?);
        found.extend(io::check(source)?);
        found.extend(suites::check(source));
    }
    for source in &sources {
        found.extend(language::check(source));
        found.extend(links::check(source));
    }
    found.extend(imports::check(&rust)?);
    judge(found, &expected::list(expected::SOURCE))
}

/// Returns whether the file's name ends in this extension.
fn is(source: &Source, extension: &str) -> bool {
    source.path.extension().is_some_and(|found| found == extension)
}

/// Returns the Rust source and Markdown files that are in git or could be added to it.
fn sources() -> Result<Vec<Source>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z", "*.rs", "*.md"])
        .current_dir(crate::root());
    let out = git.output().context("cannot start git")?;
    ensure!(out.status.success(), "git ls-files failed: {}", String::from_utf8_lossy(&out.stderr));
    let names = String::from_utf8(out.stdout)?;
    let read = |name: &str| {
        let path = crate::root().join(name);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Source { path: PathBuf::from(name), text })
    };
    // A file that was removed and not yet committed is still in the index.
    names.split_terminator('\0').filter(|name| crate::root().join(name).exists()).map(read).collect()
}

/// Compares the violations found with those that are listed.
fn judge(found: Vec<Violation>, list: &Path) -> Result<Counts> {
    let listed: BTreeMap<String, String> = expected::entries(list)?.into_iter().collect();
    let names: BTreeSet<&str> = found.iter().map(|violation| violation.name.as_str()).collect();
    let unlisted = found.iter().filter(|violation| !listed.contains_key(&violation.name));
    let mut failed: Vec<String> = unlisted.map(|violation| format!("{}: {}", violation.name, violation.what)).collect();
    let gone = listed.keys().filter(|name| !names.contains(name.as_str()));
    failed.extend(gone.map(|name| format!("{name}: no longer found; remove its line from {}", list.display())));
    let mut counts = Counts::passed(usize::from(failed.is_empty()));
    failed.into_iter().for_each(|what| counts.add(Counts::failed(what)));
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violation(name: &str) -> Violation {
        Violation { name: name.to_owned(), what: "wrong".to_owned() }
    }

    #[test]
    fn a_listed_violation_passes_and_a_listed_name_that_is_not_found_fails() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("source.txt");
        fs::write(&list, "size a.rs\tbecause\nsize b.rs\tbecause\n").unwrap();
        let counts = judge(vec![violation("size a.rs"), violation("size c.rs")], &list).unwrap();
        assert_eq!(counts.passed, 0);
        assert_eq!(counts.failed.len(), 2);
        assert_eq!(counts.failed[0].what, "size c.rs: wrong");
        assert!(counts.failed[1].what.starts_with("size b.rs: no longer found"));
    }

    #[test]
    fn tests_and_doubles_are_not_production_code() {
        let of = |path: &str| Source { path: path.into(), text: String::new() }.is_production();
        assert!(of("crates/server/src/frame/mod.rs"));
        assert!(!of("crates/server/src/files/tests.rs"));
        assert!(!of("crates/server/tests/caching.rs"));
        assert!(!of("crates/server/src/vfs/memory/mod.rs"));
        assert!(!of("crates/server/src/testing/client.rs"));
        assert!(!of("tests/foreign/src/lib.rs"));
    }
}
