//! Clients that read, write and flush files without a pause, and know what each file may contain. Every second file is
//! written with the flag that writes through caches, instead of a FLUSH.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::Error;

use super::client::Smb;

/// The size of a file.
pub(super) const SIZE: usize = 8192;

/// A file that one client writes.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) name: String,
    number: u32,
    /// The last version that is durable.
    flushed: u32,
    /// The version that was written last.
    attempted: u32,
}

impl File {
    /// Creates the description of a file that does not exist. No other file has the same number.
    pub(super) fn new(number: u32) -> File {
        File { name: format!("load{number:04}"), number, flushed: 0, attempted: 0 }
    }

    /// Returns whether a version of the file is durable.
    pub(super) fn is_durable(&self) -> bool {
        self.flushed > 0
    }

    /// Returns the content of a version: number and version of the file, repeated.
    fn content(&self, version: u32) -> Vec<u8> {
        [self.number.to_le_bytes(), version.to_le_bytes()].concat().repeat(SIZE / 8)
    }

    /// Fails unless `content` is what was flushed last or was written after it.
    pub(super) fn check(&self, content: &[u8]) -> Result<()> {
        if content.is_empty() && self.flushed == 0 {
            return Ok(());
        }
        let is_one = (self.flushed..=self.attempted).any(|version| content == self.content(version));
        let begin = &content[..content.len().min(8)];
        ensure!(
            is_one,
            "{} has {} bytes which begin with {begin:?}; versions {} to {} of file {} were expected",
            self.name,
            content.len(),
            self.flushed,
            self.attempted,
            self.number
        );
        Ok(())
    }

    /// Reads the file and checks its content, then writes it durably and closes it.
    fn change(&mut self, smb: &mut Smb) -> Result<client::Result<()>> {
        let file = match smb.open(&self.name) {
            Ok(file) => file,
            Err(error) => return Ok(Err(error)),
        };
        let changed = self.change_open(smb, file)?;
        let closed = smb.close(file);
        Ok(changed.and(closed))
    }

    fn change_open(&mut self, smb: &mut Smb, file: proto::smb2::FileId) -> Result<client::Result<()>> {
        match smb.read(file, SIZE) {
            Ok(content) => self.check(&content)?,
            Err(error) => return Ok(Err(error)),
        }
        self.attempted += 1;
        let content = self.content(self.attempted);
        let done = match self.number % 2 {
            0 => smb.write(file, &content).and_then(|()| smb.flush(file)),
            _ => smb.write_through(file, &content),
        };
        if done.is_ok() {
            self.flushed = self.attempted;
        }
        Ok(done)
    }
}

/// One change of a file.
pub(super) struct Change {
    pub(super) begin: Instant,
    pub(super) took: Duration,
    pub(super) file: String,
    pub(super) result: client::Result<()>,
}

/// The work of one client.
#[derive(Default)]
pub(super) struct Work {
    pub(super) files: Vec<File>,
    pub(super) changes: Vec<Change>,
}

/// Clients that work until they are stopped.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Work>>>,
}

impl Load {
    /// Starts clients with `files` files each. They end when the server closes their connection.
    pub(super) fn start(address: SocketAddr, share: &'static str, clients: u32, files: u32) -> Load {
        let groups = (0..clients).map(|client| (0..files).map(|file| File::new(client * files + file)).collect());
        Load::of(address, share, groups.collect())
    }

    /// Like [`Load::start`] with files that may exist, for each client.
    pub(super) fn of(address: SocketAddr, share: &'static str, groups: Vec<Vec<File>>) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |files| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || work(address, share, files, &stop))
        };
        let threads = groups.into_iter().map(start).collect();
        Load { stop, threads }
    }

    /// Stops the clients. Fails if one has read wrong data.
    pub(super) fn stop(self) -> Result<Vec<Work>> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.threads.into_iter().map(|thread| thread.join().ok().context("a client panicked")?);
        ended.collect()
    }
}

fn work(address: SocketAddr, share: &str, files: Vec<File>, stop: &AtomicBool) -> Result<Work> {
    let mut smb = Smb::connect(address, share)?;
    let mut work = Work { files, changes: Vec::new() };
    loop {
        for file in &mut work.files {
            if stop.load(Ordering::Relaxed) {
                return Ok(work);
            }
            let begin = Instant::now();
            let result = file.change(&mut smb)?;
            let is_lost = matches!(result, Err(Error::Closed | Error::Io(_)));
            work.changes.push(Change { begin, took: begin.elapsed(), file: file.name.clone(), result });
            if is_lost {
                return Ok(work);
            }
        }
    }
}

/// Fails if one of the changes failed, and returns their number.
pub(super) fn all_succeeded<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Result<usize> {
    let mut count = 0;
    for change in changes {
        if let Err(error) = &change.result {
            bail!("{} after {:?}: {error}", change.file, change.took);
        }
        count += 1;
    }
    ensure!(count > 0, "no file was changed");
    Ok(count)
}

/// Checks the content of all files in a directory.
pub(super) fn check_files<'a>(directory: &Path, files: impl IntoIterator<Item = &'a File>) -> Result<usize> {
    let mut count = 0;
    for file in files {
        let path = directory.join(&file.name);
        let content = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        file.check(&content).with_context(|| format!("{}", path.display()))?;
        count += 1;
    }
    Ok(count)
}

/// Returns the results as text, each with its number.
pub(super) fn tally<'a>(changes: impl IntoIterator<Item = &'a Change>) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for change in changes {
        *counts.entry(super::client::outcome(&change.result)).or_default() += 1;
    }
    counts.into_iter().map(|(what, count)| format!("{count} x {what}")).collect::<Vec<_>>().join(", ")
}

/// Returns the median and the longest of these times as text.
pub(super) fn times(all: impl IntoIterator<Item = Duration>) -> String {
    let mut sorted: Vec<_> = all.into_iter().collect();
    sorted.sort_unstable();
    match (sorted.get(sorted.len() / 2), sorted.last()) {
        (Some(median), Some(longest)) => format!("{} calls, median {median:.1?}, worst {longest:.1?}", sorted.len()),
        _ => "no calls".to_owned(),
    }
}
