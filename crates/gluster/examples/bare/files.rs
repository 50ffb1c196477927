//! The file operations of the experiments by handles of libgfapi.
//!
//! A worker keeps the handles of directories, as a server does, and looks up all other names for each operation. It
//! asserts its user before each operation, because the library keeps the user per thread.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, mpsc};

use anyhow::{Context, Result, anyhow};
use bench::files::{Entry, Files, OpenFile};
use client::Window;
use server::vfs::{self, Errno, Identity};

use crate::sys::{self, File, Object};

/// The permissions of new files and directories.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// A directory of a volume, with the user of all calls there.
pub(crate) struct Directory {
    pub(crate) object: Arc<Object>,
    pub(crate) user: Arc<Identity>,
}

impl Directory {
    /// Creates a directory in this one.
    pub(crate) fn make(&self, name: &str) -> Result<Directory> {
        let made = self.call(|object| object.create_directory(name.as_bytes(), DIRECTORY_MODE));
        let (object, _) = made.map_err(|error| failure("create", name, error))?;
        Ok(Directory { object: Arc::new(object), user: self.user.clone() })
    }

    /// Removes an empty directory from this one.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        self.call(|object| object.remove(name.as_bytes())).map_err(|error| failure("delete", name, error))
    }

    /// Creates a file in this directory and opens it for reading and writing.
    pub(crate) fn make_file(&self, name: &str) -> Result<LargeFile> {
        let made = self.call(|object| object.create(name.as_bytes(), libc::O_RDWR, FILE_MODE));
        let (_, file, _) = made.map_err(|error| failure("create", name, error))?;
        Ok(LargeFile { file, user: self.user.clone(), name: name.to_owned() })
    }

    /// Makes a call for the user.
    fn call<T>(&self, call: impl FnOnce(&Object) -> vfs::Result<T>) -> vfs::Result<T> {
        sys::act_as(&self.user)?;
        call(&self.object)
    }
}

/// A worker that performs one operation after another in its working directory.
pub(crate) struct Handles {
    working: Arc<Directory>,
    /// The handles of directories by their paths.
    known: HashMap<String, Arc<Object>>,
}

impl Handles {
    pub(crate) fn new(working: Arc<Directory>) -> Handles {
        Handles { working, known: HashMap::new() }
    }

    fn directory(&mut self, path: &str) -> vfs::Result<Arc<Object>> {
        if path.is_empty() {
            return Ok(self.working.object.clone());
        }
        if let Some(known) = self.known.get(path) {
            return Ok(known.clone());
        }
        let (parent, name) = self.place(path)?;
        let found = Arc::new(parent.child(name)?.0);
        self.known.insert(path.to_owned(), found.clone());
        Ok(found)
    }

    /// Returns the directory of a path, and the last name.
    fn place<'a>(&mut self, path: &'a str) -> vfs::Result<(Arc<Object>, &'a [u8])> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.directory(parent)?, name.as_bytes()))
    }

    /// Makes calls for the user. An error names the operation and the path.
    fn call<T>(
        &mut self,
        what: &str,
        path: &str,
        call: impl FnOnce(&mut Handles, &str) -> vfs::Result<T>,
    ) -> Result<T> {
        let done = sys::act_as(&self.working.user).and_then(|()| call(self, path));
        done.map_err(|error| failure(what, path, error))
    }

    fn remove(&mut self, path: &str) -> Result<()> {
        self.call("delete", path, |files, path| {
            let (parent, name) = files.place(path)?;
            // A handle that is kept until then spares the look-up of the name.
            let _known = files.known.remove(path);
            parent.remove(name)
        })
    }
}

impl Files for Handles {
    const BLOCKS: bool = true;

    async fn create(&mut self, path: &str, content: &[u8]) -> Result<()> {
        self.call("create", path, |files, path| {
            let (parent, name) = files.place(path)?;
            let (_, file, _) = parent.create(name, libc::O_WRONLY, FILE_MODE)?;
            let window = Window { piece: content.len() as u32, depth: 1 };
            write(&file, 0..content.len() as u64, window, |_, piece| piece.copy_from_slice(content))?;
            file.close()
        })
    }

    async fn list(&mut self, path: &str, mut each: impl FnMut(&Entry<'_>) -> Result<()> + Send) -> Result<()> {
        let object = self.call("open", path, |files, path| files.directory(path))?;
        let mut entries = self.call("open", path, |_, _| object.read_directory())?;
        while let Some(entry) = self.call("list", path, |_, _| entries.next(true))? {
            if matches!(&*entry.name, b"." | b"..") {
                continue;
            }
            let name = str::from_utf8(&entry.name).context("the listing has a name that is not valid UTF-8")?;
            let (object, stat) =
                entry.file.with_context(|| format!("{path}/{name} has no attributes in the listing"))?;
            let is_directory = stat.st_mode & libc::S_IFMT == libc::S_IFDIR;
            if is_directory {
                self.known.insert(format!("{path}/{name}"), Arc::new(object));
            }
            each(&Entry { name, is_directory, size: stat.st_size as u64 })?;
        }
        Ok(())
    }

    async fn size(&mut self, path: &str) -> Result<u64> {
        self.call("query the attributes of", path, |files, path| {
            let (parent, name) = files.place(path)?;
            Ok(parent.child(name)?.1.st_size as u64)
        })
    }

    async fn read(&mut self, path: &str, length: u32, mut take: impl FnMut(&[u8]) + Send) -> Result<()> {
        let content = self.call("read", path, |files, path| {
            let (parent, name) = files.place(path)?;
            let file = parent.child(name)?.0.open(libc::O_RDONLY)?;
            let (sender, read) = mpsc::channel();
            let done = move |mut buffer: Vec<u8>, result: vfs::Result<usize>| {
                let filled = result.map(|length| {
                    buffer.truncate(length);
                    buffer
                });
                let _ = sender.send(filled);
            };
            file.read_async(vec![0; length as usize], 0, 0, Box::new(done));
            let content = read.recv().map_err(|_| Errno::IO)??;
            file.close()?;
            Ok(content)
        })?;
        take(&content);
        Ok(())
    }

    async fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        self.call("rename", from, |files, from| {
            let (parent, name) = files.place(from)?;
            let (new_parent, new_name) = files.place(to)?;
            parent.rename(name, &new_parent, new_name)
        })
    }

    async fn delete(&mut self, path: &str) -> Result<()> {
        self.remove(path)
    }

    async fn make_directory(&mut self, path: &str) -> Result<()> {
        self.call("create", path, |files, path| {
            let (parent, name) = files.place(path)?;
            let (made, _) = parent.create_directory(name, DIRECTORY_MODE)?;
            files.known.insert(path.to_owned(), Arc::new(made));
            Ok(())
        })
    }

    async fn remove_directory(&mut self, path: &str) -> Result<()> {
        self.remove(path)
    }
}

/// A file that one thread reads or writes, with several calls in flight.
pub(crate) struct LargeFile {
    file: File,
    user: Arc<Identity>,
    /// Its name, for messages.
    name: String,
}

impl LargeFile {
    fn call<T>(&self, what: &str, call: impl FnOnce(&File) -> vfs::Result<T>) -> Result<T> {
        let done = sys::act_as(&self.user).and_then(|()| call(&self.file));
        done.map_err(|error| failure(what, &self.name, error))
    }
}

impl OpenFile for LargeFile {
    const BLOCKS: bool = true;

    async fn write(
        &mut self,
        range: Range<u64>,
        window: Window,
        fill: impl FnMut(u64, &mut [u8]) + Send,
    ) -> Result<()> {
        self.call("write", |file| write(file, range, window, fill))
    }

    async fn read(&mut self, range: Range<u64>, window: Window, mut take: impl FnMut(u64, &[u8]) + Send) -> Result<()> {
        self.call("read", |file| {
            let submit = |offset, length, done| file.read_async(vec![0; length], 0, offset as i64, done);
            each_piece(range, window, submit, |offset, data: Vec<u8>| take(offset, &data))
        })
    }

    async fn flush(&mut self) -> Result<()> {
        self.call("flush", |file| {
            let (sender, flushed) = mpsc::channel();
            file.sync_async(Box::new(move |(), result| {
                let _ = sender.send(result);
            }));
            flushed.recv().map_err(|_| Errno::IO)?.map(drop)
        })
    }
}

/// Writes a range of a file. `fill` fills the buffer for the piece at an offset.
fn write(file: &File, range: Range<u64>, window: Window, mut fill: impl FnMut(u64, &mut [u8])) -> vfs::Result<()> {
    let submit = |offset, length, done| {
        let mut buffer = vec![0; length];
        fill(offset, &mut buffer);
        file.write_async(buffer.into(), offset as i64, done);
    };
    each_piece(range, window, submit, |_, _| ())
}

/// Called when an asynchronous call has ended, with its memory and the number of bytes.
type Completed<T> = Box<dyn FnOnce(T, vfs::Result<usize>) + Send>;

/// Submits the pieces of a range, as many at once as `window` says, and passes the memory of each that is complete to
/// `take`. A piece that is transferred in part is an error.
fn each_piece<T: Send + 'static>(
    range: Range<u64>,
    window: Window,
    mut submit: impl FnMut(u64, usize, Completed<T>),
    mut take: impl FnMut(u64, T),
) -> vfs::Result<()> {
    let (sender, completed) = mpsc::channel();
    let (mut next, mut pending) = (range.start, 0);
    while next < range.end || pending > 0 {
        if next < range.end && pending < window.depth {
            let (offset, length) = (next, (range.end - next).min(window.piece.into()) as usize);
            let sender = sender.clone();
            let done = move |memory, result: vfs::Result<usize>| {
                let whole = result.and_then(|count| if count == length { Ok(memory) } else { Err(Errno::IO) });
                let _ = sender.send((offset, whole));
            };
            submit(offset, length, Box::new(done));
            (next, pending) = (next + length as u64, pending + 1);
            continue;
        }
        let (offset, memory) = completed.recv().map_err(|_| Errno::IO)?;
        take(offset, memory?);
        pending -= 1;
    }
    Ok(())
}

/// Returns the error of an operation on `path`.
fn failure(what: &str, path: &str, error: Errno) -> anyhow::Error {
    anyhow!("cannot {what} {path} in the volume ({error}); see the log of the library (--log)")
}
