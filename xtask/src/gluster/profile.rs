//! The operations that the bricks of a volume serve, counted by GlusterFS itself (`gluster volume profile`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::servers::{Servers, client, finish};

/// Operations that only release what a client held. They occur at any time after the command.
const RELEASES: [&str; 3] = ["FORGET", "RELEASE", "RELEASEDIR"];

/// Options of `cargo xtask gluster ops`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Volume whose bricks are observed
    volume: String,
    /// Print the counts as a JSON object instead of a table, on the last line
    #[arg(long)]
    json: bool,
    /// Command that runs in the namespaces of the servers
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// The number of operations by name, of all bricks of a volume together. `UPCALL` and `CI_*` are messages to other
/// clients about changes, which volumes with the options of `group samba` have.
pub(crate) type Operations = BTreeMap<String, u64>;

/// Counts operations from its creation until it is dropped.
pub(crate) struct Profile<'a> {
    dir: &'a Path,
    volume: &'a str,
}

impl<'a> Profile<'a> {
    /// Starts to count the operations of a volume of the servers in `dir`.
    pub(crate) fn start(dir: &'a Path, volume: &'a str) -> Result<Profile<'a>> {
        // Counting may be active after an unclean end, which is not an error here.
        let _ = client(dir, &["volume", "profile", volume, "start"]);
        let profile = Profile { dir, volume };
        profile.take()?;
        Ok(profile)
    }

    /// Returns the operations since the last call.
    pub(crate) fn take(&self) -> Result<Operations> {
        let text = client(self.dir, &["volume", "profile", self.volume, "info", "incremental"])?;
        read(&text)
    }
}

impl Drop for Profile<'_> {
    fn drop(&mut self) {
        if let Err(error) = client(self.dir, &["volume", "profile", self.volume, "stop"]) {
            eprintln!("{error:#}");
        }
    }
}

/// Runs the command and prints the operations that it caused. Returns the exit status of the command.
pub(super) fn run(servers: &Servers, options: &Options) -> Result<ExitCode> {
    let (program, arguments) = options.command.split_first().context("no command")?;
    let profile = Profile::start(servers.dir(), &options.volume)?;
    let status = finish(servers.command(program).args(arguments))?;
    let operations = profile.take()?;
    if options.json {
        println!("{}", serde_json::to_string(&operations)?);
    } else {
        print!("{}", table(&operations));
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(code))
}

/// Reads the output of `gluster volume profile VOLUME info incremental`. It has a table for each brick that served an
/// operation.
fn read(text: &str) -> Result<Operations> {
    let mut operations = Operations::new();
    let mut inside = false;
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let Some(name) = words.last().filter(|_| inside) else {
            inside = line.trim_end().ends_with("Fop");
            continue;
        };
        if name.starts_with("---") || RELEASES.contains(name) {
            continue;
        }
        let count = words.iter().rev().nth(1).and_then(|count| count.parse::<u64>().ok());
        *operations.entry((*name).to_owned()).or_default() +=
            count.with_context(|| format!("not a number of operations: {line:?}"))?;
    }
    Ok(operations)
}

/// Returns the counts as a table, the largest first, with their sum.
fn table(operations: &Operations) -> String {
    let mut rows: Vec<_> = operations.iter().collect();
    rows.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    let total = operations.values().sum();
    let rows = rows.into_iter().map(|(name, count)| (name.as_str(), *count)).chain([("all", total)]);
    rows.map(|(name, count)| format!("{name:<16} {count:>10}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory and a file were created, written, renamed and removed on a mount of a volume with three replicas.
    const SAMPLE: &str = include_str!("samples/profile.txt");

    #[test]
    fn operations_of_all_bricks_are_added() {
        let operations = read(SAMPLE).unwrap();
        let expected = [
            ("CREATE", 3),
            ("ENTRYLK", 42),
            ("FINODELK", 6),
            ("FLUSH", 6),
            ("FXATTROP", 6),
            ("GETXATTR", 3),
            ("LOOKUP", 27),
            ("MKDIR", 3),
            ("OPENDIR", 6),
            ("READDIRP", 3),
            ("RENAME", 3),
            ("RMDIR", 3),
            ("STATFS", 3),
            ("UNLINK", 3),
            ("WRITE", 3),
        ];
        assert_eq!(operations, expected.map(|(name, count)| (name.to_owned(), count)).into());
    }

    #[test]
    fn an_interval_without_operations_is_empty() {
        let bricks: String =
            SAMPLE.lines().filter(|line| !line.contains(" ns ")).map(|line| format!("{line}\n")).collect();
        assert_eq!(read(&bricks).unwrap(), Operations::new());
        assert_eq!(read("").unwrap(), Operations::new());
    }

    #[test]
    fn a_count_that_is_not_a_number_is_an_error() {
        let text = SAMPLE.replacen("             14     ENTRYLK", "            N/A     ENTRYLK", 1);
        assert!(read(&text).unwrap_err().to_string().contains("N/A"));
    }

    #[test]
    fn the_table_starts_with_the_most_frequent_operation() {
        let operations = [("LOOKUP", 3), ("CREATE", 20), ("MKDIR", 3)].map(|(name, count)| (name.to_owned(), count));
        let expected = "CREATE 20\nLOOKUP 3\nMKDIR 3\nall 26\n";
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n";
        assert_eq!(table(&operations.into()).lines().map(words).collect::<String>(), expected);
    }
}
