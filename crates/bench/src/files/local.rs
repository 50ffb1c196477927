//! File operations by system calls in a directory of this machine.
//!
//! A connection has a descriptor of the directory, as a session has a tree connect, and resolves paths from there. It
//! keeps nothing between two operations. The caches of the kernel are not cleared.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use client::Window;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};

use super::{Entry, Files, OpenFile};

/// Buffer size of getdents64, in bytes: that of the C library.
pub const BUFFER: usize = 32 * 1024;
/// The permissions of new files and directories.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// A thread with a descriptor of the working directory.
pub struct Local {
    root: OwnedFd,
    /// The path of the working directory, for messages.
    path: PathBuf,
    content: Vec<u8>,
    entries: Vec<MaybeUninit<u8>>,
}

impl Local {
    /// Opens the working directory `path`.
    pub fn open(path: &Path) -> Result<Local> {
        let root = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let root = root.map_err(|error| failure("open", path, error.into()))?;
        Ok(Local { root, path: path.to_owned(), content: Vec::new(), entries: vec![MaybeUninit::uninit(); BUFFER] })
    }

    fn open_file(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        Ok(rustix::fs::openat(&self.root, path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(FILE_MODE))?)
    }

    /// Adds the operation, the path and a remedy to the error of a system call.
    fn named<T>(&self, what: &str, path: &str, result: io::Result<T>) -> Result<T> {
        result.map_err(|error| failure(what, &self.path.join(path), error))
    }

    fn read_into(&mut self, path: &str, length: usize) -> io::Result<usize> {
        let mut file = File::from(self.open_file(path, OFlags::RDONLY)?);
        self.content.resize(length, 0);
        let mut done = 0;
        while done < length {
            match file.read(&mut self.content[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

impl Files for Local {
    const BLOCKS: bool = true;

    async fn create(&mut self, path: &str, content: &[u8]) -> Result<()> {
        let file = self.open_file(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL);
        self.named("create", path, file.and_then(|file| File::from(file).write_all(content)))
    }

    async fn list(&mut self, path: &str, mut each: impl FnMut(&Entry<'_>) -> Result<()> + Send) -> Result<()> {
        let opened = self.open_file(path, OFlags::RDONLY | OFlags::DIRECTORY);
        let directory = self.named("open", path, opened)?;
        let mut entries = RawDir::new(&directory, &mut self.entries);
        let failed = |error: rustix::io::Errno| failure("list", &self.path.join(path), error.into());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
            let name = name.to_str().context("the listing has a name that is not valid UTF-8")?;
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            each(&Entry { name, is_directory, size: stat.st_size as u64 })?;
        }
        Ok(())
    }

    async fn size(&mut self, path: &str) -> Result<u64> {
        let stat = rustix::fs::statat(&self.root, path, AtFlags::empty());
        self.named("query the attributes of", path, stat.map(|stat| stat.st_size as u64).map_err(io::Error::from))
    }

    async fn read(&mut self, path: &str, length: u32, mut take: impl FnMut(&[u8]) + Send) -> Result<()> {
        let read = self.read_into(path, length as usize);
        let length = self.named("read", path, read)?;
        take(&self.content[..length]);
        Ok(())
    }

    async fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let renamed = rustix::fs::renameat(&self.root, from, &self.root, to);
        self.named("rename", from, renamed.map_err(io::Error::from))
    }

    async fn delete(&mut self, path: &str) -> Result<()> {
        let deleted = rustix::fs::unlinkat(&self.root, path, AtFlags::empty());
        self.named("delete", path, deleted.map_err(io::Error::from))
    }

    async fn make_directory(&mut self, path: &str) -> Result<()> {
        let made = rustix::fs::mkdirat(&self.root, path, Mode::from_raw_mode(DIRECTORY_MODE));
        self.named("create", path, made.map_err(io::Error::from))
    }

    async fn remove_directory(&mut self, path: &str) -> Result<()> {
        let removed = rustix::fs::unlinkat(&self.root, path, AtFlags::REMOVEDIR);
        self.named("delete", path, removed.map_err(io::Error::from))
    }
}

/// A file that one thread reads or writes, one piece at a time.
pub struct LocalFile {
    file: Arc<File>,
    /// Its path, for messages.
    path: PathBuf,
    buffer: Vec<u8>,
}

impl LocalFile {
    /// Creates a new file.
    pub fn create(path: PathBuf) -> Result<LocalFile> {
        let created = File::options().read(true).write(true).create_new(true).open(&path);
        let file = created.map_err(|error| failure("create", &path, error))?;
        Ok(LocalFile { file: Arc::new(file), path, buffer: Vec::new() })
    }

    /// Calls `transfer` with the offset and the buffer of each piece of `range`.
    fn each_piece(
        &mut self,
        range: Range<u64>,
        piece: u32,
        mut transfer: impl FnMut(&File, u64, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.buffer.resize(piece as usize, 0);
        let mut next = range.start;
        while next < range.end {
            let length = (range.end - next).min(piece.into());
            transfer(&self.file, next, &mut self.buffer[..length as usize])?;
            next += length;
        }
        Ok(())
    }
}

impl OpenFile for LocalFile {
    const BLOCKS: bool = true;

    async fn write(
        &mut self,
        range: Range<u64>,
        window: Window,
        mut fill: impl FnMut(u64, &mut [u8]) + Send,
    ) -> Result<()> {
        let write = |file: &File, offset, buffer: &mut [u8]| {
            fill(offset, buffer);
            file.write_all_at(buffer, offset)
        };
        self.each_piece(range, window.piece, write).map_err(|error| failure("write", &self.path, error))
    }

    async fn read(&mut self, range: Range<u64>, window: Window, mut take: impl FnMut(u64, &[u8]) + Send) -> Result<()> {
        let read = |file: &File, offset, buffer: &mut [u8]| {
            file.read_exact_at(buffer, offset)?;
            take(offset, buffer);
            Ok(())
        };
        self.each_piece(range, window.piece, read).map_err(|error| failure("read", &self.path, error))
    }

    async fn flush(&mut self) -> Result<()> {
        let file = self.file.clone();
        let flushed = tokio::task::spawn_blocking(move || file.sync_all()).await?;
        flushed.map_err(|error| failure("flush", &self.path, error))
    }
}

/// Returns the error of an operation on `path`, with the remedy if one is known.
fn failure(what: &str, path: &Path, error: io::Error) -> anyhow::Error {
    let remedy = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free space, or measure fewer or smaller files",
        ErrorKind::PermissionDenied => "; run as a user that may write there",
        ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => {
            "; run again while no other program changes the directory"
        }
        ErrorKind::NotConnected => "; mount the file system again",
        _ => "",
    };
    anyhow::anyhow!("cannot {what} {}: {error}{remedy}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn operations_change_the_directory_as_they_say() {
        let place = tempfile::tempdir().unwrap();
        let mut files = Local::open(place.path()).unwrap();
        files.make_directory("a").await.unwrap();
        files.make_directory("a/b").await.unwrap();
        files.create("a/one", b"content").await.unwrap();
        assert_eq!(std::fs::read(place.path().join("a/one")).unwrap(), b"content");
        assert_eq!(files.size("a/one").await.unwrap(), 7);
        let mut read = Vec::new();
        files.read("a/one", 100, |data| read.push(data.to_vec())).await.unwrap();
        files.read("a/one", 3, |data| read.push(data.to_vec())).await.unwrap();
        assert_eq!(read, [&b"content"[..], b"con"]);
        files.rename("a/one", "a/two").await.unwrap();
        let mut listed = Vec::new();
        let note = |entry: &Entry<'_>| {
            listed.push((entry.name.to_owned(), entry.is_directory, entry.size * u64::from(!entry.is_directory)));
            Ok(())
        };
        files.list("a", note).await.unwrap();
        listed.sort();
        assert_eq!(listed, [("b".to_owned(), true, 0), ("two".to_owned(), false, 7)]);
        files.delete("a/two").await.unwrap();
        files.remove_directory("a/b").await.unwrap();
        assert_eq!(std::fs::read_dir(place.path().join("a")).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn an_error_names_the_file_and_the_remedy() {
        let place = tempfile::tempdir().unwrap();
        let mut files = Local::open(place.path()).unwrap();
        let said = files.delete("dir-1/file").await.unwrap_err().to_string();
        let path = place.path().join("dir-1/file");
        assert!(said.starts_with(&format!("cannot delete {}: ", path.display())), "{said}");
        assert!(said.ends_with("run again while no other program changes the directory"), "{said}");
        files.create("twice", b"").await.unwrap();
        assert!(files.create("twice", b"").await.is_err(), "a file that exists");
        let full = failure("write", &path, ErrorKind::StorageFull.into()).to_string();
        assert!(full.ends_with("free space, or measure fewer or smaller files"), "{full}");
    }

    #[tokio::test]
    async fn a_file_is_written_and_read_in_pieces() {
        let place = tempfile::tempdir().unwrap();
        let mut file = LocalFile::create(place.path().join("large")).unwrap();
        let window = Window { piece: 4, depth: 4 };
        file.write(0..10, window, |offset, buffer| buffer.fill(offset as u8)).await.unwrap();
        let mut pieces = Vec::new();
        file.read(2..10, window, |offset, data| pieces.push((offset, data.to_vec()))).await.unwrap();
        assert_eq!(pieces, [(2, vec![0, 0, 4, 4]), (6, vec![4, 4, 8, 8])]);
        let said = file.read(8..12, window, |_, _| ()).await.unwrap_err().to_string();
        assert!(said.starts_with("cannot read ") && said.contains("/large"), "{said}");
    }
}
