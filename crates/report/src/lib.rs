//! The record of a measurement, and one HTML page of one or more records, for reading, printing and archiving.
//!
//! The page is self-contained: it has no scripts, fonts or pictures from elsewhere, and its content security policy
//! forbids them. This crate has no code for individual experiments. It draws the tables, figures and remarks that a
//! record holds. System calls by name are not shown unless the experiment made a table of them; they are in the record.
//!
//! [`record`] is the record and [`metric`] what is measured in a round. `page` is the page: `head`, the first screen of
//! `ratios` (`overview`), then a section for each experiment with its tables and figures. `figure` draws a figure with
//! `bars` or `lines`, on the axes of `scale` and with the elements of `svg`. [`table`] formats tables for a terminal.

mod bars;
mod figure;
mod groups;
mod head;
mod lines;
mod look;
pub mod machine;
mod markup;
pub mod metric;
mod overview;
mod page;
mod ratios;
pub mod record;
mod repeat;
mod rounds;
mod scale;
mod svg;
pub mod table;
#[cfg(test)]
mod tests;
pub mod units;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use record::Run;

/// Returns the page of these runs.
///
/// Each experiment is one section. If several runs contain it, each run is a part of that section, with its date and
/// machine.
pub fn page(runs: &[Run]) -> String {
    page::page(runs)
}

/// Reads records from `files` and writes their page to `out`.
///
/// # Errors
///
/// A file cannot be read, is not a record, or has another format version, or `out` cannot be written.
pub fn write(files: &[PathBuf], out: &Path) -> anyhow::Result<()> {
    if files.is_empty() {
        bail!("no input file: give at least one file written by `frevo bench ... --json FILE`");
    }
    let runs = files.iter().map(|file| read(file)).collect::<anyhow::Result<Vec<_>>>()?;
    fs::write(out, page(&runs)).with_context(|| format!("cannot write the report to {}", out.display()))
}

fn read(file: &Path) -> anyhow::Result<Run> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(&text).with_context(|| format!("cannot make a report from {}", file.display()))
}

/// Parses a record. An error names the line.
fn parse(text: &str) -> anyhow::Result<Run> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        anyhow::anyhow!("line {}: not JSON: {error}; give a file written by `frevo bench ... --json`", error.line())
    })?;
    match value.get("format").map(Value::as_u64) {
        Some(Some(format)) if format == u64::from(record::FORMAT) => {}
        Some(Some(format)) => bail!(
            "its format is {format}, but this version reads only format {}: use the version of frevo that wrote it",
            record::FORMAT
        ),
        _ => bail!("it has no number `format`: give a file written by `frevo bench ... --json`"),
    }
    // Parsed from the text again, because only then do errors have a line.
    serde_json::from_str(text).map_err(|error| anyhow::anyhow!("line {}: {error}", error.line()))
}
