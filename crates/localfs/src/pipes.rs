//! Pipes that carry file content from the page cache to a socket without a copy.
//!
//! A pipe refers to pages of the file, and so does the socket until the client has the data. A program that overwrites
//! the file meanwhile changes the data, which then has bytes of both contents. A program that truncates the file
//! fills the rest of the last page with zeros, which the file did not contain. [`crate::file`] therefore reads only
//! files into a pipe that have not changed for a while, or that this process has [written](crate::written) and closed.

use std::collections::HashMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno as Raw;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use server::vfs::Pipe;

/// The capacity of a pipe in bytes, if its pages are full: as much as a process may ask for without privileges
/// (`fs.pipe-max-size`).
const CAPACITY: usize = 1 << 20;
/// Maximum number of pipes. Each takes two descriptors and refers to at most [`CAPACITY`] bytes of the page cache.
const MAX_PIPES: usize = 64;
/// Maximum number of idle pipes. Creating one takes much less than sending what it carries.
const MAX_IDLE: usize = 4;
/// No pipe is created for this long after the system has refused one.
const PAUSE: Duration = Duration::from_secs(1);

/// Both ends of a pipe. Neither waits.
struct Ends {
    reader: OwnedFd,
    writer: OwnedFd,
}

/// The pipes of this process.
#[derive(Default)]
struct Pool {
    idle: Vec<Ends>,
    /// The lowest number of idle pipes since unused ones were last closed.
    least: usize,
    /// The number of pipes in use, by user.
    used: HashMap<u32, usize>,
    total: usize,
    /// When the system last refused a pipe.
    refused: Option<Instant>,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);

impl Pool {
    /// Returns an empty pipe for the user `uid`; `None` if there are too many. A user may have as many as are left for
    /// others.
    fn take(&mut self, uid: u32) -> Option<Ends> {
        let used = self.used.get(&uid).copied().unwrap_or(0);
        if used >= MAX_PIPES.saturating_sub(self.used.values().sum()) {
            return None;
        }
        let ends = match self.idle.pop() {
            Some(ends) => ends,
            None if self.total >= MAX_PIPES || self.refused.is_some_and(|at| at.elapsed() < PAUSE) => return None,
            None => match create() {
                Ok(ends) => {
                    self.total += 1;
                    ends
                }
                Err(error) => {
                    tracing::debug!(%error, "no pipe of 1 MiB could be created; data is copied");
                    self.refused = Some(Instant::now());
                    return None;
                }
            },
        };
        self.least = self.least.min(self.idle.len());
        *self.used.entry(uid).or_default() += 1;
        Some(ends)
    }

    /// Takes a pipe of the user `uid` back. It is closed if it has data, or if enough others are idle.
    fn put(&mut self, uid: u32, ends: Ends, is_empty: bool) {
        if let Some(used) = self.used.get_mut(&uid) {
            *used -= 1;
            if *used == 0 {
                self.used.remove(&uid);
            }
        }
        if is_empty && self.idle.len() < MAX_IDLE {
            self.idle.push(ends);
        } else {
            self.total -= 1;
        }
    }
}

fn create() -> rustix::io::Result<Ends> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // Beyond `fs.pipe-user-pages-soft`, the system refuses to enlarge a pipe.
    fcntl_setpipe_size(&writer, CAPACITY)?;
    Ok(Ends { reader, writer })
}

/// Closes the pipes that were not needed since the last call.
pub fn close_unused_pipes() {
    let mut pool = POOL.lock();
    let Some(pool) = &mut *pool else { return };
    let unused = pool.least.min(pool.idle.len());
    pool.total -= unused;
    pool.idle.truncate(pool.idle.len() - unused);
    pool.least = pool.idle.len();
}

/// A pipe that is in use.
struct Part {
    /// Always there until it is dropped.
    ends: Option<Ends>,
    uid: u32,
    /// The number of bytes in the pipe.
    left: usize,
}

impl Part {
    fn take(uid: u32) -> Option<Part> {
        let ends = POOL.lock().get_or_insert_default().take(uid)?;
        Some(Part { ends: Some(ends), uid, left: 0 })
    }

    fn ends(&self) -> &Ends {
        self.ends.as_ref().expect("it is taken only when the part is dropped")
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(ends) = self.ends.take() {
            POOL.lock().get_or_insert_default().put(self.uid, ends, self.left == 0);
        }
    }
}

/// Content of a file, in one pipe or in several.
pub(crate) struct Filled {
    /// The pipe from which data is taken.
    part: Part,
    /// The later ones, the last one first.
    rest: Vec<Part>,
    length: usize,
}

impl Filled {
    /// Moves the bytes of `file` at `offset` to pipes, at most `length`, fewer only at the end of the file. Waits if
    /// they have to be read from a disk. `None` without data, or if there are not enough pipes.
    pub(crate) fn from_file(
        uid: u32,
        file: BorrowedFd<'_>,
        offset: u64,
        length: usize,
    ) -> rustix::io::Result<Option<Filled>> {
        let (mut parts, mut moved, mut position) = (Vec::with_capacity(1), 0, offset);
        while moved < length {
            let Some(mut part) = Part::take(uid) else { return Ok(None) };
            let is_full = part.fill(file, &mut position, length - moved)?;
            moved += part.left;
            if part.left > 0 {
                parts.push(part);
            }
            if !is_full {
                break;
            }
        }
        parts.reverse();
        Ok(parts.pop().map(|part| Filled { part, rest: parts, length: moved }))
    }
}

impl Part {
    /// Moves up to `length` bytes of `file` at `position` to the pipe, and advances the position. Returns whether the
    /// pipe is full; otherwise all of them were moved, or the file ends.
    fn fill(&mut self, file: BorrowedFd<'_>, position: &mut u64, length: usize) -> rustix::io::Result<bool> {
        while self.left < length {
            let wanted = length - self.left;
            match splice(file, Some(position), &self.ends().writer, None, wanted, SpliceFlags::NONBLOCK) {
                Ok(0) => return Ok(false),
                Ok(count) => self.left += count,
                Err(Raw::INTR) => {}
                Err(Raw::AGAIN) => return Ok(self.left > 0),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

impl Pipe for Filled {
    fn length(&self) -> usize {
        self.length
    }

    fn spliced(&mut self, count: usize) {
        self.part.left = self.part.left.saturating_sub(count);
        if self.part.left == 0
            && let Some(next) = self.rest.pop()
        {
            self.part = next;
        }
    }
}

impl Read for Filled {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let wanted = space.len().min(self.part.left);
        if wanted == 0 {
            return Ok(0);
        }
        let count = rustix::io::read(&self.part.ends().reader, &mut space[..wanted])?;
        self.spliced(count);
        Ok(count)
    }
}

impl AsFd for Filled {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.part.ends().reader.as_fd()
    }
}
