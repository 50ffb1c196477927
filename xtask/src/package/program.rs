//! The program in the packages, and its debug information.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{output, succeed};
use crate::steps::cargo;

/// The stripped program, and its debug information in another file.
pub(super) struct Program {
    /// The program.
    pub(super) path: PathBuf,
    /// The debug information.
    pub(super) debug: PathBuf,
    /// The build id, by which debuggers find the debug information; `None` if the linker wrote none.
    pub(super) build_id: Option<String>,
}

impl Program {
    /// Builds the program with the profile `dist`, unless the variable `FREVO` names one, and splits it.
    pub(super) fn prepare(work: &Path) -> Result<Program> {
        let built = match std::env::var_os("FREVO") {
            Some(path) => crate::root().join(path),
            None => {
                succeed(&mut cargo(&["build", "--profile", "dist", "--package", "frevo"]))?;
                crate::root().join("target/dist/frevo")
            }
        };
        let (path, debug) = (work.join("frevo"), work.join("frevo.debug"));
        let objcopy = |arguments: &[&str], from: &Path, to: &Path| {
            succeed(Command::new("objcopy").args(arguments).arg(from).arg(to))
        };
        objcopy(&["--only-keep-debug", "--compress-debug-sections"], &built, &debug)?;
        objcopy(&["--strip-all", "--remove-section=.comment", "--remove-section=.note"], &built, &path)?;
        let notes = output(Command::new("readelf").arg("--notes").arg(&path))?;
        let build_id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).map(str::to_owned);
        Ok(Program { path, debug, build_id })
    }

    /// Runs the program, and returns its output.
    pub(super) fn output(&self, arguments: &[&str]) -> Result<String> {
        output(Command::new(&self.path).args(arguments))
    }

    /// Returns the version, as `frevo --version` shows it.
    pub(super) fn version(&self) -> Result<String> {
        let text = self.output(&["--version"])?;
        text.split_whitespace().nth(1).map(str::to_owned).context("frevo --version shows no version")
    }

    /// Writes the manual pages to a directory, and returns their paths.
    pub(super) fn manual(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        succeed(Command::new(&self.path).args(["man", "--all"]).arg(directory))?;
        let mut pages: Vec<PathBuf> =
            std::fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
        pages.sort();
        Ok(pages)
    }
}
