//! The lists in `expected-failures/`: known failures with their reasons.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The list of brick operations beyond their budgets, of `cargo xtask gluster test`.
pub(crate) const BUDGETS: &str = "gluster-budgets";
/// The list of `cargo xtask guest`.
pub(crate) const GUEST: &str = "guest";
/// The list of `cargo xtask hostile`.
pub(crate) const HOSTILE: &str = "hostile";
/// The list of torture tests on GlusterFS volumes, in addition to those on local files.
pub(crate) const GLUSTER: &str = "gluster";
/// The list of `cargo xtask source`. All others are for torture tests.
pub(crate) const SOURCE: &str = "source";

/// Returns the folder of the lists.
pub(crate) fn folder() -> PathBuf {
    crate::root().join("expected-failures")
}

/// Returns the path of the list called `stem`.
pub(crate) fn list(stem: &str) -> PathBuf {
    folder().join(stem).with_extension("txt")
}

/// Returns the lines that are neither empty nor comments.
pub(crate) fn lines(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).map(str::to_owned).collect())
}

/// Returns the names in a list with their reasons.
pub(crate) fn entries(path: &Path) -> Result<Vec<(String, String)>> {
    let entry = |line: String| {
        let (name, reason) = line.split_once('\t').unwrap_or((&line, ""));
        ensure!(!reason.trim().is_empty(), "{}: no reason after a tab: {line:?}", path.display());
        Ok((name.to_owned(), reason.to_owned()))
    };
    lines(path)?.into_iter().map(entry).collect()
}
