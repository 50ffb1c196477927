//! One or more records as one HTML page, for reading, for printing and for keeping.
//!
//! The page holds everything: no script, no font, no picture from elsewhere, and a policy that forbids all of them. The report
//! knows no experiment: it draws the tables, figures and remarks that a record holds. Not shown are system calls by name where
//! an experiment made no table of them; they are in the record.

mod bars;
mod figure;
mod head;
mod lines;
mod look;
mod markup;
mod page;
mod repeat;
mod rounds;
mod scale;
mod svg;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::record::{self, Run};

/// The page of these runs.
///
/// Each experiment is one section; where several runs have it, each is a part of that section with its date and machine.
pub fn page(runs: &[Run]) -> String {
    page::page(runs)
}

/// Reads records from `files` and writes their page to `out`.
///
/// # Errors
///
/// When a file cannot be read, is no record, or is a record of another format, and when `out` cannot be written.
pub fn write(files: &[PathBuf], out: &Path) -> anyhow::Result<()> {
    if files.is_empty() {
        bail!("no file to report on: name at least one that `frevo bench ... --json FILE` wrote");
    }
    let runs = files.iter().map(|file| read(file)).collect::<anyhow::Result<Vec<_>>>()?;
    fs::write(out, page(&runs)).with_context(|| format!("cannot write the report to {}", out.display()))
}

fn read(file: &Path) -> anyhow::Result<Run> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(&text).with_context(|| format!("{} cannot be reported on", file.display()))
}

/// A record from its text; an error names the line.
fn parse(text: &str) -> anyhow::Result<Run> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        anyhow::anyhow!("line {}: not JSON: {error}; it should be a file of `frevo bench ... --json`", error.line())
    })?;
    match value.get("format").map(Value::as_u64) {
        Some(Some(format)) if format == u64::from(record::FORMAT) => {}
        Some(Some(format)) => bail!(
            "it has format {format}, and this version understands format {}: use the version of frevo that wrote it",
            record::FORMAT
        ),
        _ => bail!("it has no number `format`: it is not a file of `frevo bench ... --json`"),
    }
    // From the text again, because only there do errors have a line.
    serde_json::from_str(text).map_err(|error| anyhow::anyhow!("line {}: {error}", error.line()))
}
