//! Directories of this machine that are measured with system calls, such as the mount of a remote file system, and the
//! working directory of an experiment in each of them.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use report::machine::file_system_of;
use report::record::ServerRecord;

/// Name of a directory that was given without one.
const NAME: &str = "directory";
/// Number of retries, and the pause between them, for a working directory that is not empty yet. A thread of an
/// interrupted run may still be creating its last file.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// The option for directories, of the experiments that can measure them.
#[derive(Args, Clone, Default, Debug)]
pub struct Directories {
    /// A directory of this machine, measured with system calls: a name for tables, and a path. May be repeated, instead
    /// of --target or in turns with it [default name: directory]
    #[arg(long = "directory", value_name = "[NAME=]PATH", help_heading = "Servers")]
    pub given: Vec<Directory>,
}

/// A directory that is measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directory {
    /// Its name in tables and legends.
    pub name: String,
    /// Its path.
    pub path: PathBuf,
}

impl Directory {
    /// Checks that the directory exists and that this user can write to it.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.path.is_dir(),
            "{self} is not a directory of this machine: check the path, and that the file system is mounted"
        );
        WorkingDirectory::create(self, "frevo-bench-check-")?.remove()
    }

    /// Returns the facts about the directory for the record of a run.
    pub fn introduce(&self) -> ServerRecord {
        ServerRecord {
            name: self.name.clone(),
            target: self.to_string(),
            protocol: "system calls".to_owned(),
            version: None,
            file_system: file_system_of(&self.path),
            configuration: None,
        }
    }
}

impl FromStr for Directory {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Directory> {
        // A path that has the character = itself begins with / or a dot.
        let named = if text.starts_with(['/', '.']) { None } else { text.split_once('=') };
        let (name, path) = named.unwrap_or((NAME, text));
        ensure!(!name.is_empty() && !path.is_empty(), "'{text}' has an empty name or path: write NAME=PATH or PATH");
        Ok(Directory { name: name.to_owned(), path: path.into() })
    }
}

/// Formats the path.
impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

/// Calls `run` with a new directory in each of `directories`, whose name begins with `name`. Removes them afterwards,
/// also after a failure and when the future is dropped early.
pub async fn within<T>(
    directories: &[Directory],
    name: &str,
    run: impl AsyncFnOnce(&[PathBuf]) -> Result<T>,
) -> Result<T> {
    let prefix = format!("{name}-");
    let made: Vec<WorkingDirectory> =
        directories.iter().map(|directory| WorkingDirectory::create(directory, &prefix)).collect::<Result<_>>()?;
    let paths: Vec<PathBuf> = made.iter().map(|it| it.path.clone()).collect();
    let ran = run(&paths).await;
    let removed = made.into_iter().map(WorkingDirectory::remove).fold(Ok(()), Result::and);
    let ran = ran?;
    removed.map(|()| ran)
}

/// Returns the remarks of an experiment that measured the directories: the caches, and the costs that are unknown.
pub fn remarks(directories: &[Directory]) -> Vec<String> {
    let mut remarks: Vec<String> =
        directories.iter().map(|it| format!("{} is the directory {it} of this machine.", it.name)).collect();
    if !directories.is_empty() {
        remarks.push(
            "In a directory, the kernel's caches of names, attributes and pages are not cleared, nor are those of a \
             FUSE process: each phase finds there what earlier phases left. The client CPU includes the system calls. \
             The processor time of a FUSE process and of a remote server is not measured."
                .to_owned(),
        );
    }
    remarks
}

/// A directory with a new name. Other runs, and shares of the same storage, do not use it.
struct WorkingDirectory {
    path: PathBuf,
    stands: bool,
}

impl WorkingDirectory {
    fn create(parent: &Directory, prefix: &str) -> Result<WorkingDirectory> {
        let made = tempfile::Builder::new().prefix(prefix).tempdir_in(&parent.path);
        let made = made.map_err(|error| {
            anyhow::anyhow!(
                "cannot create a directory in {parent}: {}; give one that this user can write to",
                error.kind()
            )
        })?;
        Ok(WorkingDirectory { path: made.keep(), stands: true })
    }

    fn remove(mut self) -> Result<()> {
        self.stands = false;
        remove(&self.path)
    }
}

impl Drop for WorkingDirectory {
    fn drop(&mut self) {
        if self.stands
            && let Err(error) = remove(&self.path)
        {
            eprintln!("{error:#}");
        }
    }
}

fn remove(path: &Path) -> Result<()> {
    for _ in 0..TRIES {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => std::thread::sleep(PAUSE),
            done => return done.with_context(|| format!("cannot remove {}, delete it by hand", path.display())),
        }
    }
    std::fs::remove_dir_all(path).with_context(|| format!("cannot remove {}, delete it by hand", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_parsed() {
        let check = |text: &str, name: &str, path: &str| {
            let expected = Directory { name: name.to_owned(), path: path.into() };
            assert_eq!(text.parse::<Directory>().unwrap(), expected, "{text}");
        };
        check("/mnt/a=b", "directory", "/mnt/a=b");
        check("./a=b", "directory", "./a=b");
        check("mnt", "directory", "mnt");
        check("FUSE=/mnt/a=b", "FUSE", "/mnt/a=b");
        for text in ["", "=/mnt", "FUSE="] {
            assert!(text.parse::<Directory>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn working_directories_are_removed_with_their_content() {
        let place = tempfile::tempdir().unwrap();
        let directory = || Directory { name: NAME.to_owned(), path: place.path().to_owned() };
        let count = || std::fs::read_dir(place.path()).unwrap().count();
        let two = [directory(), directory()];
        let ended = within(&two, "work", async |paths| {
            assert_eq!(count(), 2, "{paths:?}");
            std::fs::write(paths[0].join("file"), "content")?;
            anyhow::bail!("a failure")
        });
        let ended: Result<()> = ended.await;
        assert_eq!((ended.unwrap_err().to_string().as_str(), count()), ("a failure", 0));
        let mut dropped = Box::pin(within(&two, "work", async |_| std::future::pending::<Result<()>>().await));
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut dropped).await.is_err());
        assert_eq!(count(), 2);
        drop(dropped);
        assert_eq!(count(), 0, "after a future that was dropped");
    }

    #[test]
    fn a_directory_that_does_not_exist_is_reported() {
        let said = Directory { name: NAME.to_owned(), path: "/nonexistent".into() }.check().unwrap_err().to_string();
        assert!(said.starts_with("/nonexistent is not a directory of this machine: "), "{said}");
    }
}
