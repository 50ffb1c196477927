//! File content: reading, writing, byte-range locks and space allocation.

use std::io::{IoSlice, IoSliceMut, Read};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backing::executor::{change, unless_cancelled};
use backing::workers::Lane;
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{Errno as Raw, ReadWriteFlags};
use rustix::pipe::SpliceFlags;
use server::answer::Answer;
use server::vfs::{
    Content, DataRange, Errno, Extent, Identity, Kind, Op, Payload, Pipe, RangeLock, ReadReply, ReadRequest, Result,
};

use crate::metadata::{coarse_now, time};
use crate::node::Open;
use crate::pipes::Filled;
use crate::root::{glance, stat};
use crate::{errno, identity, sys, written};

/// The largest part written by one system call. ext4 keeps each part in one block of memory (a folio) and searches the
/// whole block in later writes. In blocks of 1 MiB, random writes took half as much time again.
const PART: usize = 256 * 1024;
/// Maximum file size.
const MAX_SIZE: u64 = i64::MAX as u64;
/// The largest write done on the calling thread if it is unknown whether it would wait: the largest that a client may
/// send. It takes some milliseconds. Another thread would have to fetch the data from this processor's cache.
const INLINE_WRITE: usize = 8 << 20;
/// Content of at least this length is read into a pipe, if it can be sent as it is. Below, the additional system calls
/// cost more than the copies.
const PIPED_READ: usize = 64 * 1024;
/// The size from which a file that was written may be read into a pipe at once.
const WORTHWHILE: u64 = 1 << 20;
/// For how many whole seconds a file must be unchanged to be read into a pipe ([`crate::pipes`]), unless it is known to
/// be at rest ([`written`]).
const SETTLED: i64 = 2;
/// The largest read done on the calling thread: the largest that a client may ask for. From the page cache it takes
/// about a millisecond.
const INLINE_READ: usize = 8 << 20;
/// Freeing more bytes than this is left to a worker.
pub(crate) const LARGE: u64 = 64 << 20;
/// Maximum number of ranges in one answer.
const RANGES: usize = 65_536;

/// Operations that the file system has turned out not to support.
#[derive(Default)]
pub(crate) struct Abilities {
    /// Reads that do not wait.
    no_nowait_read: AtomicBool,
    /// Writes that do not wait (ext4 as of Linux 6.18).
    no_nowait_write: AtomicBool,
    /// Moving content to a pipe.
    no_splice: AtomicBool,
    /// Telling which content is cached.
    no_cachestat: AtomicBool,
}

/// The progress of an attempt that must not wait.
enum Attempt {
    /// Complete.
    Done(usize),
    /// Partial; the rest requires waiting.
    Partly(usize),
}

impl Open {
    /// Returns the descriptor if it is open for reading.
    pub(crate) fn reader(&self) -> Result<BorrowedFd<'_>> {
        if self.access.is_some_and(|access| access.read) { Ok(self.fd()) } else { Err(Errno::BADF) }
    }

    /// Returns the descriptor if it is open for writing.
    pub(crate) fn writer(&self) -> Result<BorrowedFd<'_>> {
        if self.access.is_some_and(|access| access.write) { Ok(self.fd()) } else { Err(Errno::BADF) }
    }

    pub(crate) fn read(open: &Arc<Open>, op: &Op, request: ReadRequest) -> Answer<ReadReply> {
        let ReadRequest { offset, buffer, filled, pipe } = request;
        let piped = if pipe { open.piped_length(offset, buffer.len().saturating_sub(filled)) } else { None };
        match piped {
            Some(length) if length <= INLINE_READ && open.is_cached(offset, length) => {
                if let Some(content) = open.read_into_pipe(op.uid, offset, length) {
                    return Answer::now((buffer, Ok(content)));
                }
            }
            Some(length) => {
                let uid = op.uid;
                return Open::read_on_worker(open, op, buffer, filled, move |open, space| {
                    let piped = open.read_into_pipe(uid, offset, length);
                    piped.map_or_else(|| open.read_waiting(offset, space).map(Content::Buffer), Ok)
                });
            }
            None => {}
        }
        let read = Open::read_into_memory(open, op, offset, buffer, filled);
        read.map(|(buffer, count)| (buffer, count.map(Content::Buffer)))
    }

    /// Returns the number of bytes to read into a pipe; `None` if they should be read into memory.
    fn piped_length(&self, offset: u64, wanted: usize) -> Option<usize> {
        if wanted < PIPED_READ || self.system.abilities.no_splice.load(Ordering::Relaxed) {
            return None;
        }
        let now = glance(self.reader().ok()?).ok()?;
        let length = usize::try_from(now.stx_size.checked_sub(offset)?).map_or(wanted, |left| left.min(wanted));
        if length < PIPED_READ {
            return None;
        }
        let settled = coarse_now().secs.saturating_sub(now.stx_ctime.tv_sec) > SETTLED;
        (settled || written::is_at_rest(self.id, time(now.stx_ctime))).then_some(length)
    }

    /// Returns whether the page cache has a range of the file, so that reading it does not wait.
    fn is_cached(&self, offset: u64, length: usize) -> bool {
        let abilities = &self.system.abilities;
        if !self.system.is_local() || abilities.no_cachestat.load(Ordering::Relaxed) {
            return false;
        }
        let Ok(fd) = self.reader() else { return false };
        let page = rustix::param::page_size() as u64;
        let end = offset + length as u64;
        let pages = end.div_ceil(page) - offset / page;
        match sys::cached_pages(fd, offset, length as u64) {
            Ok(cached) if cached < pages => return false,
            Ok(_) => {}
            Err(Raw::NOSYS) => {
                abilities.no_cachestat.store(true, Ordering::Relaxed);
                return false;
            }
            Err(_) => return false,
        }
        // Pages that are being read ahead are counted. They arrive in order, so the last one tells.
        let last = &mut [0];
        rustix::io::preadv2(fd, &mut [IoSliceMut::new(last)], end - 1, ReadWriteFlags::NOWAIT) == Ok(1)
    }

    /// Reads into a pipe; `None` if the content has to be copied.
    fn read_into_pipe(&self, uid: u32, offset: u64, length: usize) -> Option<Content> {
        match Filled::from_file(uid, self.reader().ok()?, offset, length) {
            Ok(filled) => filled.map(|filled| Content::Payload(Payload::Pipe(Box::new(filled)))),
            Err(error) => {
                if error == Raw::INVAL {
                    self.system.abilities.no_splice.store(true, Ordering::Relaxed);
                }
                None
            }
        }
    }

    /// Reads into the buffer.
    fn read_into_memory(
        open: &Arc<Open>,
        op: &Op,
        offset: u64,
        mut buffer: Vec<u8>,
        filled: usize,
    ) -> Answer<(Vec<u8>, Result<usize>)> {
        let attempt = match buffer.get_mut(filled..) {
            Some(space) => open.read_cached(offset, space),
            None => Err(Errno::INVAL),
        };
        let partly = match attempt {
            Ok(Attempt::Done(count)) => return Answer::now((buffer, Ok(count))),
            Ok(Attempt::Partly(count)) => count,
            Err(error) => return Answer::now((buffer, Err(error))),
        };
        let read = move |open: &Open, space: &mut [u8]| open.read_waiting(offset + partly as u64, space);
        Open::read_on_worker(open, op, buffer, filled + partly, read)
            .map(move |(buffer, done)| (buffer, done.map(|count| partly + count)))
    }

    /// Calls `read` with `buffer[filled..]` on a worker. The buffer is returned even if the work fails.
    fn read_on_worker<T: Send + 'static>(
        open: &Arc<Open>,
        op: &Op,
        buffer: Vec<u8>,
        filled: usize,
        read: impl FnOnce(&Open, &mut [u8]) -> Result<T> + Send + 'static,
    ) -> Answer<(Vec<u8>, Result<T>)> {
        let lent = Arc::new(Mutex::new(buffer));
        let (reading, buffer) = (Arc::clone(open), Arc::clone(&lent));
        let work = move || {
            let mut buffer = buffer.lock();
            let space = buffer.get_mut(filled..).ok_or(Errno::INVAL)?;
            #[cfg(test)]
            tests::panic_if_asked(reading.id);
            read(&reading, space)
        };
        let done = open.system.executor.later(op.uid, Lane::Data, unless_cancelled(op, work));
        done.map(move |done| (std::mem::take(&mut *lent.lock()), done))
    }

    /// Reads the part that the kernel has cached.
    fn read_cached(&self, offset: u64, space: &mut [u8]) -> Result<Attempt> {
        let fd = self.reader()?;
        let space = within_file(offset, space);
        if space.is_empty() {
            return Ok(Attempt::Done(0));
        }
        if space.len() > INLINE_READ || self.system.abilities.no_nowait_read.load(Ordering::Relaxed) {
            return Ok(Attempt::Partly(0));
        }
        let mut count = 0;
        // A short read is the end of the file or of the cached part; the next read tells which.
        while count < space.len() {
            let slices = &mut [IoSliceMut::new(&mut space[count..])];
            match rustix::io::preadv2(fd, slices, offset + count as u64, ReadWriteFlags::NOWAIT) {
                Ok(0) => return Ok(Attempt::Done(count)),
                Ok(more) => count += more,
                Err(Raw::INTR) => {}
                Err(Raw::AGAIN) => return Ok(Attempt::Partly(count)),
                Err(Raw::OPNOTSUPP) => {
                    self.system.abilities.no_nowait_read.store(true, Ordering::Relaxed);
                    return Ok(Attempt::Partly(count));
                }
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(Attempt::Done(count))
    }

    pub(crate) fn read_waiting(&self, offset: u64, space: &mut [u8]) -> Result<usize> {
        let fd = self.reader()?;
        let space = within_file(offset, space);
        let mut count = 0;
        while count < space.len() {
            match rustix::io::pread(fd, &mut space[count..], offset + count as u64) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(Raw::INTR) => {}
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(count)
    }

    pub(crate) fn write(open: &Arc<Open>, op: &Op, offset: u64, data: Payload, through: bool) -> Answer<Result<()>> {
        let data = match data {
            Payload::Memory(data) => data,
            Payload::Pipe(pipe) => {
                let (open, who, uid) = (Arc::clone(open), Arc::clone(op), op.uid);
                let lane = if through { Lane::Slow } else { Lane::Data };
                let system = Arc::clone(&open.system);
                return system.executor.later(uid, lane, move || open.write_pipe(&who, offset, pipe, through));
            }
        };
        let written = match open.write_cached(op, offset, &data, through) {
            Ok(Attempt::Done(_)) => return Answer::now(Ok(())),
            Ok(Attempt::Partly(count)) => count,
            Err(error) => return Answer::now(Err(error)),
        };
        let flags = if through { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        let (open, who, uid) = (Arc::clone(open), Arc::clone(op), op.uid);
        let lane = if through { Lane::Slow } else { Lane::Data };
        let system = Arc::clone(&open.system);
        let write = move || open.system.executor.timed(|| open.write_all(&who, offset, &data, written, flags));
        system.executor.later(uid, lane, write)
    }

    /// Notes a write that ends at `end`. The change time of a shorter file is not worth a system call at its close.
    fn note_written(&self, end: u64) {
        self.note_size(end);
        if end >= WORTHWHILE && !self.written.load(Ordering::Relaxed) {
            self.written.store(true, Ordering::Relaxed);
        }
    }

    /// Writes as much as the kernel accepts without waiting.
    fn write_cached(&self, who: &Arc<Identity>, offset: u64, data: &[u8], through: bool) -> Result<Attempt> {
        let _own = self.changes();
        let fd = self.writer()?;
        self.note_written(end_of(offset, data.len() as u64)?);
        if data.is_empty() {
            return Ok(Attempt::Done(0));
        }
        if through {
            return Ok(Attempt::Partly(0));
        }
        identity::assume(who)?;
        let refused = &self.system.abilities.no_nowait_write;
        if !refused.load(Ordering::Relaxed) {
            match rustix::io::pwritev2(fd, &[IoSlice::new(data)], offset, ReadWriteFlags::NOWAIT) {
                Ok(count) if count == data.len() => return Ok(Attempt::Done(count)),
                Ok(count) => return Ok(Attempt::Partly(count)),
                // XFS also reports this if only the file's times have to be set. Whether the write would wait is as
                // unknown as without support for such writes.
                Err(Raw::AGAIN | Raw::INTR) => {}
                Err(Raw::OPNOTSUPP) => refused.store(true, Ordering::Relaxed),
                Err(error) => return Err(errno(error)),
            }
        }
        if data.len() > INLINE_WRITE {
            return Ok(Attempt::Partly(0));
        }
        let executor = &self.system.executor;
        let write = |part: Range<usize>| {
            let plain = ReadWriteFlags::empty();
            executor.timed(|| self.write_all(who, offset, &data[..part.end], part.start, plain))
        };
        match in_parts(data.len(), || executor.is_quick(), write)? {
            count if count == data.len() => Ok(Attempt::Done(count)),
            count => Ok(Attempt::Partly(count)),
        }
    }

    /// Moves the data of a pipe to the file. A file system that cannot take it from a pipe gets it from memory.
    fn write_pipe(&self, who: &Arc<Identity>, offset: u64, mut pipe: Box<dyn Pipe>, through: bool) -> Result<()> {
        let own = self.changes();
        identity::assume(who)?;
        let (fd, length) = (self.writer()?, pipe.length());
        let end = end_of(offset, length as u64)?;
        self.note_written(end);
        let (mut at, mut moved) = (offset, 0);
        while moved < length {
            match rustix::pipe::splice(&*pipe, None, fd, Some(&mut at), length - moved, SpliceFlags::MOVE) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => moved += count,
                Err(Raw::INTR) => {}
                Err(Raw::INVAL) => break,
                Err(error) => return Err(errno(error)),
            }
        }
        drop(own);
        let mut rest = vec![0; length - moved];
        pipe.read_exact(&mut rest).map_err(|_| Errno::IO)?;
        self.write_all(who, offset + moved as u64, &rest, 0, ReadWriteFlags::empty())?;
        if through { rustix::fs::fdatasync(fd).map_err(errno) } else { Ok(()) }
    }

    /// Writes `data`, starting at its byte `from`.
    pub(crate) fn write_all(
        &self,
        who: &Arc<Identity>,
        offset: u64,
        data: &[u8],
        from: usize,
        flags: ReadWriteFlags,
    ) -> Result<()> {
        let _own = self.changes();
        // The blocks reserved for root and the quotas depend on the writing user.
        identity::assume(who)?;
        let fd = self.writer()?;
        // Each part that is written through waits for the disk.
        let part = if flags.is_empty() { PART } else { data.len() };
        let mut written = from;
        while written < data.len() {
            let end = data.len().min(written + part);
            let slices = &[IoSlice::new(&data[written..end])];
            match rustix::io::pwritev2(fd, slices, offset + written as u64, flags) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => written += count,
                Err(Raw::INTR) => {}
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(())
    }

    pub(crate) fn set_extent(open: &Arc<Open>, op: &Op, extent: Extent) -> Answer<Result<()>> {
        let (uid, who, again) = (op.uid, Arc::clone(op), Arc::clone(open));
        match extent {
            Extent::Size(size) => {
                let frees_much = match open.writer().and_then(glance) {
                    Ok(now) => now.stx_blocks.saturating_mul(512) > size.saturating_add(LARGE),
                    Err(error) => return Answer::now(Err(error)),
                };
                if frees_much {
                    return open.system.executor.later(uid, Lane::Slow, move || again.truncate(&who, size));
                }
                change(open, uid, move |open| open.truncate(&who, size))
            }
            Extent::Reserve(size) => open.system.executor.later(uid, Lane::Data, move || again.allocate(&who, size)),
            Extent::Zero { offset, length } => {
                open.system.executor.later(uid, Lane::Data, move || again.zero(&who, offset, length))
            }
        }
    }

    fn truncate(&self, who: &Arc<Identity>, size: u64) -> Result<()> {
        let _own = self.changes();
        identity::assume(who)?;
        end_of(0, size)?;
        rustix::fs::ftruncate(self.writer()?, size).map_err(errno)
    }

    pub(crate) fn allocate(&self, who: &Arc<Identity>, size: u64) -> Result<()> {
        let _own = self.changes();
        identity::assume(who)?;
        let fd = self.writer()?;
        end_of(0, size)?;
        if size == 0 {
            return Ok(());
        }
        rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, 0, size).map_err(errno)
    }

    pub(crate) fn zero(&self, who: &Arc<Identity>, offset: u64, length: u64) -> Result<()> {
        let _own = self.changes();
        identity::assume(who)?;
        let fd = self.writer()?;
        let end = offset.saturating_add(length).min(stat(fd)?.stx_size);
        if offset >= end {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(fd, flags, offset, end - offset) {
            Err(Raw::OPNOTSUPP | Raw::NOSYS) => self.write_zeros(who, offset, end),
            done => done.map_err(errno),
        }
    }

    fn write_zeros(&self, who: &Arc<Identity>, offset: u64, end: u64) -> Result<()> {
        const STEP: usize = 64 * 1024;
        let zeros = [0; STEP];
        let mut at = offset;
        while at < end {
            let count = usize::try_from(end - at).unwrap_or(STEP).min(STEP);
            self.write_all(who, at, &zeros[..count], 0, ReadWriteFlags::empty())?;
            at += count as u64;
        }
        Ok(())
    }

    /// Sets an advisory lock, which belongs to the descriptor: it also conflicts with other handles of this process.
    pub(crate) fn lock_range(&self, offset: u64, length: u64, lock: RangeLock) -> Result<()> {
        let fd = match self.access {
            Some(access) if access.read || access.write => self.fd(),
            _ => return Err(Errno::BADF),
        };
        let end = offset.checked_add(length).filter(|end| length > 0 && *end <= MAX_SIZE + 1).ok_or(Errno::INVAL)?;
        // Length 0 means up to the last possible byte; the length itself may be too large for the kernel.
        let to_the_end = end > MAX_SIZE;
        let kind = match lock {
            RangeLock::Free => libc::F_UNLCK,
            RangeLock::Shared => libc::F_RDLCK,
            RangeLock::Exclusive => libc::F_WRLCK,
        };
        sys::lock_range(fd, kind, offset as i64, if to_the_end { 0 } else { length as i64 }).map_err(
            |error| match error {
                Raw::AGAIN | Raw::ACCESS => Errno::AGAIN,
                Raw::INVAL | Raw::NOSYS => Errno::OPNOTSUPP,
                error => errno(error),
            },
        )
    }

    /// Whether another handle or process has a lock on one of these bytes.
    pub(crate) fn is_locked(&self, bytes: &[u64]) -> Result<bool> {
        let fd = match self.access {
            Some(access) if access.read || access.write => self.fd(),
            _ => return Err(Errno::BADF),
        };
        for byte in bytes {
            let offset = i64::try_from(*byte).map_err(|_| Errno::INVAL)?;
            match sys::is_locked(fd, offset) {
                Ok(false) | Err(Raw::INVAL | Raw::NOSYS) => {}
                Ok(true) => return Ok(true),
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(false)
    }

    pub(crate) fn data_ranges(&self, offset: u64, length: u64) -> Result<Vec<DataRange>> {
        let fd = match self.kind {
            Kind::Directory => return Err(Errno::ISDIR),
            _ if self.access.is_some() => self.fd(),
            _ => return Err(Errno::BADF),
        };
        let end = offset.saturating_add(length).min(MAX_SIZE);
        let (mut at, mut ranges) = (offset, Vec::new());
        while at < end && ranges.len() < RANGES {
            let start = match rustix::fs::seek(fd, SeekFrom::Data(at)) {
                Ok(start) if start < end => start,
                // Only a hole up to the end of the file or of the requested range.
                Ok(_) | Err(Raw::NXIO) => break,
                Err(error) => return Err(errno(error)),
            };
            let stop = match rustix::fs::seek(fd, SeekFrom::Hole(start)) {
                Ok(stop) => stop.min(end),
                // The file shrank meanwhile.
                Err(Raw::NXIO) => break,
                Err(error) => return Err(errno(error)),
            };
            ranges.push(DataRange { offset: start, length: stop - start });
            at = stop;
        }
        Ok(ranges)
    }
}

/// Writes `length` bytes part by part, as long as the file system is quick. One that is not would otherwise have the
/// calling thread wait for each part. Returns the number of bytes written.
fn in_parts(
    length: usize,
    is_quick: impl Fn() -> bool,
    mut write: impl FnMut(Range<usize>) -> Result<()>,
) -> Result<usize> {
    let mut written = 0;
    while written < length && is_quick() {
        let end = length.min(written + PART);
        write(written..end)?;
        written = end;
    }
    Ok(written)
}

/// Returns the part of `space` before the maximum file size.
fn within_file(offset: u64, space: &mut [u8]) -> &mut [u8] {
    let limit = usize::try_from(MAX_SIZE.saturating_sub(offset)).unwrap_or(usize::MAX);
    let length = space.len().min(limit);
    &mut space[..length]
}

/// Returns the end of a range; `Errno::FBIG` if it is beyond the maximum file size.
pub(crate) fn end_of(offset: u64, length: u64) -> Result<u64> {
    offset.checked_add(length).filter(|&end| end <= MAX_SIZE).ok_or(Errno::FBIG)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use server::vfs::FileId;
    use server::vfs::LookupOptions;

    use super::*;

    /// The file for which a read on a worker panics.
    static PANICS: Mutex<Option<FileId>> = Mutex::new(None);

    pub(super) fn panic_if_asked(file: FileId) {
        assert_ne!(*PANICS.lock(), Some(file), "intended panic");
    }

    #[test]
    fn a_read_that_panics_returns_its_buffer() {
        use std::path::Path;

        use server::answer::block_on;
        use server::vfs::{Access, Lookup, RelPath, SymlinkPolicy, Vfs, read_into};

        use crate::{LocalFs, Options};

        // Files of /proc are not read from a cache, so a worker reads them.
        let share = LocalFs::open(Path::new("/proc/self"), Options::default()).expect("it exists");
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let who = Op::from(Identity { uid, gid, groups: Box::default() });
        let path = RelPath::root().join(b"status").expect("a valid name");
        let links = SymlinkPolicy::NONE;
        let Ok(Lookup::Found { node, metadata, .. }) = block_on(share.lookup(&who, &path, LookupOptions::exact(links)))
        else {
            panic!("it exists");
        };
        let node = block_on(node.open(&who, Access { read: true, write: false })).expect("every user may read it");
        let given: Vec<u8> = (0..100).collect();
        *PANICS.lock() = Some(metadata.id);
        let (buffer, read) = block_on(read_into(&node, &who, 0, given.clone(), 64));
        *PANICS.lock() = None;
        assert_eq!(read, Err(Errno::IO));
        assert_eq!(buffer, given);
        let (buffer, read) = block_on(read_into(&node, &who, 0, given.clone(), 64));
        assert_eq!((read, &buffer[..64], buffer.len()), (Ok(36), &given[..64], 100));
    }

    #[test]
    fn the_parts_after_a_slow_one_are_left_to_a_worker() {
        let (slow, parts) = (Cell::new(usize::MAX), Cell::new(0));
        let write = |part: Range<usize>| {
            assert_eq!(part.start, parts.replace(parts.get() + 1) * PART);
            Ok(())
        };
        let is_quick = || parts.get() < slow.get();
        assert_eq!(in_parts(3 * PART + 1, is_quick, write), Ok(3 * PART + 1));
        assert_eq!(parts.replace(0), 4);
        slow.set(2);
        assert_eq!(in_parts(3 * PART + 1, is_quick, write), Ok(2 * PART));
        assert_eq!(in_parts(1, is_quick, write), Ok(0), "the next write as well");
    }
}
