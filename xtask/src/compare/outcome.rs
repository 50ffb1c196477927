//! The results directory of a run, `bench-runs/DATE-MACHINE`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use test_environment::{Server, interrupt};

use super::{frevo_bench, short};

/// A run's directory, and what is written to it at the end.
pub(super) struct Outcome {
    dir: PathBuf,
    commands: String,
    records: Vec<PathBuf>,
}

impl Outcome {
    /// Creates the directory: the given one, which must be new or empty, or the next one of today.
    pub(super) fn make(out: Option<&Path>) -> Result<Outcome> {
        let dir = match out {
            Some(dir) => std::path::absolute(dir)?,
            None => next(&crate::root().join("bench-runs"), &today()?, &machine()),
        };
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        ensure!(fs::read_dir(&dir)?.next().is_none(), "--out {} is not empty", dir.display());
        Ok(Outcome { dir, commands: String::new(), records: Vec::new() })
    }

    /// Returns the path for an experiment's record.
    pub(super) fn json(&mut self, experiment: &str) -> PathBuf {
        let path = self.dir.join(format!("{}.json", experiment.replace(' ', "-")));
        self.records.push(path.clone());
        path
    }

    /// Remembers a command line.
    pub(super) fn note(&mut self, command: &Command) {
        let quoted = |word: &str| match word.chars().any(|c| c.is_whitespace() || "'\"{}$&;".contains(c)) {
            true => format!("'{}'", word.replace('\'', r"'\''")),
            false => word.to_owned(),
        };
        let words = [command.get_program()].into_iter().chain(command.get_args());
        let line: Vec<String> = words.map(|word| quoted(&short(&word.to_string_lossy()))).collect();
        let _ = writeln!(self.commands, "{}", line.join(" "));
    }

    /// Copies a file into the directory under this name.
    pub(super) fn keep(&self, name: &str, path: &Path) -> Result<()> {
        fs::copy(path, self.dir.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
        Ok(())
    }

    /// Stores information about the servers, and generates the report of all records. Nothing is stored for a run that
    /// was interrupted before it measured anything.
    pub(super) fn finish(&mut self, servers: &[(&str, &Server)]) -> Result<()> {
        self.records.retain(|path| path.exists());
        if interrupt::interrupted() && self.records.is_empty() {
            return Ok(());
        }
        self.keep_servers(servers)?;
        if !self.records.is_empty() {
            self.report()?;
        }
        println!("\nresults: {}", self.dir.display());
        Ok(())
    }

    /// Stores configurations, ends of logs, and command lines.
    fn keep_servers(&self, servers: &[(&str, &Server)]) -> Result<()> {
        let mut commands = String::new();
        for (name, server) in servers {
            let conf = server.conf();
            let _ = writeln!(commands, "{}", short(&server.command_line(&conf.to_string_lossy())));
            fs::copy(conf, self.dir.join(format!("{name}-smb.conf")))?;
            fs::write(self.dir.join(format!("{name}-log.txt")), server.log_tail())?;
        }
        fs::write(self.dir.join("commands.txt"), commands + &self.commands)?;
        Ok(())
    }

    fn report(&self) -> Result<()> {
        let mut command = frevo_bench();
        command.arg("report").args(&self.records).arg("-o").arg(self.dir.join("report.html"));
        let status = command.status().context("cannot start frevo-bench")?;
        ensure!(status.success(), "frevo-bench report failed ({status})");
        Ok(())
    }
}

/// Removes the directory if it is empty.
impl Drop for Outcome {
    fn drop(&mut self) {
        // Fails if the directory is not empty.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Returns the first unused name.
fn next(runs: &Path, today: &str, machine: &str) -> PathBuf {
    let first = runs.join(format!("{today}-{machine}"));
    let others = (2..).map(|number| runs.join(format!("{today}-{machine}-{number}")));
    std::iter::once(first).chain(others).find(|path| !path.exists()).expect("there is always a number left")
}

/// Returns the date in UTC.
fn today() -> Result<String> {
    let out = Command::new("date").args(["-u", "+%F"]).output().context("cannot start date")?;
    Ok(String::from_utf8(out.stdout)?.trim().to_owned())
}

/// Returns the machine's name.
fn machine() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_of_a_day_has_a_number() {
        let runs = tempfile::tempdir().unwrap();
        let check = |expected: &str| {
            let outcome = Outcome::make(Some(&next(runs.path(), "2026-01-02", "box"))).unwrap();
            assert_eq!(outcome.dir, runs.path().join(expected));
            fs::write(outcome.dir.join("commands.txt"), "").unwrap();
        };
        check("2026-01-02-box");
        check("2026-01-02-box-2");
        check("2026-01-02-box-3");
    }

    #[test]
    fn results_are_not_mixed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("report.html"), "").unwrap();
        assert!(Outcome::make(Some(dir.path())).is_err());
    }

    #[test]
    fn command_lines_can_be_pasted() {
        let mut outcome = Outcome { dir: PathBuf::new(), commands: String::new(), records: Vec::new() };
        outcome.note(Command::new("frevo").args(["--serve", "frevo serve {conf}", "--quick"]));
        assert_eq!(outcome.commands, "frevo --serve 'frevo serve {conf}' --quick\n");
    }
}
