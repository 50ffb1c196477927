//! The working directory of an experiment on every server: empty when the experiment begins, filled with files on
//! request, and removed at the end.
//!
//! If the directories of all shares are known and writable, files are created and removed there directly, because a
//! million of them takes seconds that way. Otherwise this is done over SMB, with several requests in flight. The result
//! is the same on all servers in both cases.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::Client;
use proto::fscc::FileAttributes;
use proto::status::Status;
use tokio::task::{JoinSet, spawn_blocking};

use crate::listing::{self, numbered};
use crate::load::StopSignal;
use crate::method::{Bench, Server};
use crate::requests::Requests;

/// Number of connections that create or remove files together.
const CONNECTIONS: u64 = 8;
/// Buffer size of a listing, in bytes.
const BUFFER: u32 = 64 * 1024;
/// Number of retries, and the pause between them, for a directory that is not empty yet. A server may still be closing
/// the files of a broken connection.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// Calls `run` with an empty directory `directory` on every server. Removes the directory afterwards, also after a
/// failure and when the future is dropped early.
pub async fn within<T>(bench: &Bench, directory: &str, run: impl AsyncFnOnce() -> Result<T>) -> Result<T> {
    ensure!(
        directory.starts_with("frevo-bench-"),
        "refusing to remove {directory}: its name does not start with frevo-bench-"
    );
    let mut made = CreatedDirectory { bench, directory, stands: true };
    for server in &bench.servers {
        remove(server, directory)
            .await
            .with_context(|| format!("cannot remove the directory of an earlier run on {}", server.name))?;
        server.connect().await?.make_directory(directory).await?;
    }
    let ran = run().await;
    let mut removed = Ok(());
    for server in &bench.servers {
        let outcome = bench.beside(server, &format!("removing {directory}"), remove(server, directory)).await;
        removed = removed.and(outcome);
    }
    made.stands = false;
    let ran = ran?;
    removed.map(|()| ran)
}

/// The directory on all servers, while it exists.
struct CreatedDirectory<'a> {
    bench: &'a Bench,
    directory: &'a str,
    stands: bool,
}

/// A drop cannot await, so a separate thread removes the directory.
impl Drop for CreatedDirectory<'_> {
    fn drop(&mut self) {
        if !self.stands {
            return;
        }
        let remove_all = async {
            for server in &self.bench.servers {
                remove(server, self.directory).await?;
            }
            anyhow::Ok(())
        };
        let removed = std::thread::scope(|scope| {
            let run = || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(remove_all);
            scope.spawn(run).join()
        });
        if let Ok(Err(error)) = removed {
            self.bench.print(&format!("cannot remove {} from the share, delete it by hand: {error:#}", self.directory));
        }
    }
}

/// Fills the existing directory `directory` with the files `numbers` of prefix `kind`. Each contains `size(number)`
/// zeros.
pub async fn fill(
    bench: &Bench,
    server: &Server,
    directory: &str,
    kind: &'static str,
    numbers: Range<u64>,
    size: fn(u64) -> u64,
) -> Result<()> {
    let here = if all_known(bench) { local(server, directory) } else { None };
    if let Some(path) = here {
        let (range, stop) = (numbers.clone(), StopSignal::default());
        let given_up = stop.0.clone();
        let filled = spawn_blocking(move || fill_here(&path, kind, range, size, &given_up)).await?;
        drop(stop);
        match filled {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
            done => return done.with_context(|| format!("cannot fill {directory} of {}", server.name)),
        }
    }
    share_out(server, numbers, Work::Make { directory: directory.to_owned(), kind, size }).await
}

/// Returns the directory sizes of an experiment, in files: `asked` if given, otherwise the part of `full` that takes a
/// reasonable time. Sizes are limited to `small` in a quick run, and if a share's directory is unknown, because some
/// servers create a file over SMB in a directory of 100,000 as slowly as they read the directory.
pub fn sizes(bench: &Bench, asked: &[u64], full: &[u64], small: u64) -> Vec<u64> {
    let all = !bench.method.quick && all_known(bench);
    let mut sizes = match asked {
        [] => full.iter().copied().filter(|size| all || *size <= small).collect(),
        asked => asked.to_vec(),
    };
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Creates a directory for each of these numbers of files in `directory` on every server, named after the number.
pub async fn fill_sizes(
    bench: &Bench,
    directory: &str,
    sizes: &[u64],
    kind: &'static str,
    size: fn(u64) -> u64,
) -> Result<()> {
    for server in &bench.servers {
        for count in sizes {
            let path = format!(r"{directory}\{count}");
            let work = async {
                server.connect().await?.make_directory(&path).await?;
                fill(bench, server, &path, kind, 0..*count, size).await
            };
            bench.beside(server, &format!("creating {count} files"), work).await?;
        }
    }
    Ok(())
}

/// Returns whether the directories of all shares are known.
fn all_known(bench: &Bench) -> bool {
    bench.servers.iter().all(|server| server.path.is_some())
}

/// Returns the path of a share's directory on this machine.
fn local(server: &Server, directory: &str) -> Option<PathBuf> {
    server.path.as_ref().map(|path| path.join(directory.replace('\\', "/")))
}

fn fill_here(
    path: &Path,
    kind: &str,
    mut numbers: Range<u64>,
    size: fn(u64) -> u64,
    given_up: &AtomicBool,
) -> io::Result<()> {
    // The directory was created over SMB, so its owner is the owner that the files must have.
    let owner = fs::metadata(path)?;
    while let Some(number) = numbers.next().filter(|_| !given_up.load(Ordering::Relaxed)) {
        let file = File::create_new(path.join(numbered(kind, number)))?;
        if size(number) > 0 {
            file.set_len(size(number))?;
        }
        if fchown(&file, Some(owner.uid()), Some(owner.gid())).is_err() {
            file.set_permissions(fs::Permissions::from_mode(0o666))?;
        }
    }
    Ok(())
}

/// Removes a directory with all its content. A missing directory is not an error.
async fn remove(server: &Server, directory: &str) -> Result<()> {
    if let Some(path) = local(server, directory) {
        let removed = spawn_blocking(move || fs::remove_dir_all(path)).await?;
        // If it is not permitted here, it is tried over SMB.
        if removed.is_ok() || removed.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok(());
        }
    }
    let mut client = server.connect().await?;
    let mut directories = vec![directory.to_owned()];
    let mut next = 0;
    while let Some(path) = directories.get(next).cloned() {
        match contents(&mut client, &path).await {
            Ok((files, found)) => {
                let numbers = 0..files.len() as u64;
                share_out(server, numbers, Work::Delete(Arc::new(files))).await?;
                directories.extend(found);
            }
            Err(error) if next == 0 && is_missing(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        next += 1;
    }
    // Each directory after its subdirectories.
    for path in directories.iter().rev() {
        delete_directory(&mut client, path).await?;
    }
    Ok(())
}

/// Returns the paths of the files and of the directories in a directory.
async fn contents(client: &mut Client, path: &str) -> Result<(Vec<String>, Vec<String>)> {
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    let note = |entry: &proto::fscc::DirectoryEntry<'_>| {
        let is_directory = entry.file_attributes.contains(FileAttributes::DIRECTORY);
        let found = if is_directory { &mut directories } else { &mut files };
        found.push(format!(r"{path}\{}", listing::name(entry)?));
        Ok(())
    };
    listing::list(client, path, BUFFER, note).await?;
    Ok((files, directories))
}

fn is_missing(error: &anyhow::Error) -> bool {
    let status = error.downcast_ref::<client::Error>().and_then(client::Error::status);
    [Status::OBJECT_NAME_NOT_FOUND, Status::OBJECT_PATH_NOT_FOUND].map(Some).contains(&status)
}

async fn delete_directory(client: &mut Client, path: &str) -> Result<()> {
    for _ in 0..TRIES {
        match client.delete(path).await {
            Err(error) if error.status() == Some(Status::DIRECTORY_NOT_EMPTY) => tokio::time::sleep(PAUSE).await,
            done => return done.with_context(|| format!("cannot delete {path}")),
        }
    }
    client.delete(path).await.with_context(|| format!("cannot delete {path}"))
}

/// Work that several connections share, each for a part of the numbers.
#[derive(Clone)]
enum Work {
    /// Creates a file of zeros.
    Make { directory: String, kind: &'static str, size: fn(u64) -> u64 },
    /// Deletes the path with this number.
    Delete(Arc<Vec<String>>),
}

impl Work {
    async fn step(&self, client: &mut Client, number: u64) -> Result<()> {
        match self {
            Work::Make { directory, kind, size } => {
                let path = format!(r"{directory}\{}", numbered(kind, number));
                let made = Requests::Chained.make_empty(client, &path, size(number)).await;
                made.with_context(|| format!("cannot create {path}"))
            }
            Work::Delete(paths) => {
                let path = &paths[number as usize];
                match client.delete(path).await {
                    // The server removes the file with the handle of a broken connection. Until then its directory is
                    // not empty.
                    Err(error) if error.status() == Some(Status::DELETE_PENDING) => Ok(()),
                    done => done.with_context(|| format!("cannot delete {path}")),
                }
            }
        }
    }
}

async fn share_out(server: &Server, numbers: Range<u64>, work: Work) -> Result<()> {
    let connections = CONNECTIONS.min(numbers.end.saturating_sub(numbers.start));
    let mut tasks = JoinSet::new();
    for first in 0..connections {
        let mut client = server.connect().await?;
        let (numbers, work) = (numbers.start + first..numbers.end, work.clone());
        tasks.spawn(async move {
            for number in numbers.step_by(CONNECTIONS as usize) {
                work.step(&mut client, number).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}
