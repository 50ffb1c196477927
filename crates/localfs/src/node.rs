//! An open file or directory, or a handle that permits no data access yet.

use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use rustix::fs::{
    Access as AccessMode, AtFlags, FallocateFlags, Mode, OFlags, RawDir, SeekFrom, Timespec, Timestamps, XattrFlags,
};
use rustix::io::{Errno as Raw, ReadWriteFlags};
use server::answer::Answer;
use server::vfs::xattr::{DOSATTRIB, DosAttributes};
use server::vfs::{Access, DataRange, Entry, Errno, Identity, Kind, Metadata, Node, Result, SetMetadata, Time};

use crate::root::proc_fds;
use crate::{Shared, assume, errno, io_errno, stat, worker};

/// How many bytes of directory entries are asked for at a time.
const LISTING_BUFFER: usize = 64 * 1024;

/// An open file or directory.
pub(crate) struct LocalNode {
    shared: Arc<Shared>,
    fd: Arc<OwnedFd>,
    /// Whether `fd` is a handle (O_PATH), good for metadata only.
    handle: bool,
    /// The directory opened for reading, once somebody lists it.
    listing: OnceLock<Arc<OwnedFd>>,
}

/// The open flags for data access.
pub(crate) fn data_flags(access: Access) -> OFlags {
    let mode = match (access.read, access.write) {
        (_, false) => OFlags::RDONLY,
        (false, true) => OFlags::WRONLY,
        (true, true) => OFlags::RDWR,
    };
    // Nobody opens a terminal or waits for the other end of a pipe by way of a share.
    mode | OFlags::NOCTTY | OFlags::NONBLOCK
}

impl LocalNode {
    /// A node of a handle.
    pub(crate) fn handle(shared: Arc<Shared>, fd: OwnedFd) -> Arc<dyn Node> {
        Arc::new(LocalNode { shared, fd: Arc::new(fd), handle: true, listing: OnceLock::new() })
    }

    /// A node of an open file.
    pub(crate) fn opened(shared: Arc<Shared>, fd: OwnedFd, data: bool) -> Arc<dyn Node> {
        Arc::new(LocalNode { shared, fd: Arc::new(fd), handle: !data, listing: OnceLock::new() })
    }

    /// Makes `name` in `directory` another name of this file.
    pub(crate) fn link_to(&self, directory: &OwnedFd, name: &[u8]) -> Result<()> {
        let fds = proc_fds().map_err(|error| io_errno(&error))?;
        rustix::fs::linkat(fds, self.number(), directory, name, AtFlags::SYMLINK_FOLLOW).map_err(errno)
    }

    fn number(&self) -> String {
        use std::os::fd::AsRawFd;
        self.fd.as_raw_fd().to_string()
    }

    /// Opens the same file anew.
    fn reopen(&self, flags: OFlags) -> Result<OwnedFd> {
        let fds = proc_fds().map_err(|error| io_errno(&error))?;
        rustix::fs::openat(fds, self.number(), flags | OFlags::CLOEXEC, Mode::empty()).map_err(errno)
    }

    fn stat(&self) -> Result<Metadata> {
        stat::of_fd(&*self.fd, &self.shared.cache)
    }

    fn set(&self, set: SetMetadata) -> Result<()> {
        let path = stat::proc_path(self.fd.as_fd());
        if set.uid.is_some() || set.gid.is_some() {
            let uid = set.uid.map(rustix::fs::Uid::from_raw);
            let gid = set.gid.map(rustix::fs::Gid::from_raw);
            rustix::fs::chown(&*path, uid, gid).map_err(errno)?;
        }
        if let Some(mode) = set.mode {
            rustix::fs::chmod(&*path, Mode::from_raw_mode(mode)).map_err(errno)?;
        }
        if set.dos_attributes.is_some() || set.created.is_some() {
            self.set_dos_attributes(set)?;
        }
        // Last, for what is above changes no time but ctime, and mtime must not be touched after it was set.
        if set.accessed.is_some() || set.modified.is_some() {
            let time = |time: Option<Time>| match time {
                Some(time) => Timespec { tv_sec: time.secs, tv_nsec: i64::from(time.nanos) },
                None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
            };
            let times = Timestamps { last_access: time(set.accessed), last_modification: time(set.modified) };
            rustix::fs::utimensat(rustix::fs::CWD, &*path, &times, AtFlags::empty()).map_err(errno)?;
        }
        Ok(())
    }

    fn set_dos_attributes(&self, set: SetMetadata) -> Result<()> {
        let metadata = self.stat()?;
        let directory = if metadata.kind == Kind::Directory { 0x10 } else { 0 };
        let attributes = set.dos_attributes.or(metadata.dos_attributes).map(|bits| bits | directory);
        let dos = DosAttributes { attributes, created: Some(set.created.unwrap_or(metadata.created)) };
        self.write_xattr(DOSATTRIB, Some(&dos.encode()))
    }

    fn write_xattr(&self, name: &str, value: Option<&[u8]>) -> Result<()> {
        let path = stat::proc_path(self.fd.as_fd());
        match value {
            Some(value) => rustix::fs::setxattr(&*path, name, value, XattrFlags::empty()).map_err(errno),
            None => match rustix::fs::removexattr(&*path, name) {
                Err(Raw::NODATA) => Ok(()),
                result => result.map_err(errno),
            },
        }
    }

    fn read_xattr(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = stat::proc_path(self.fd.as_fd());
        let mut value = vec![0; 256];
        loop {
            match rustix::fs::getxattr(&*path, name, &mut value[..]) {
                Ok(length) => {
                    value.truncate(length);
                    return Ok(Some(value));
                }
                // A value has at most 64 KiB on Linux.
                Err(Raw::RANGE) if value.len() < 65536 => value.resize(65536, 0),
                Err(error) if stat::is_absent(errno(error)) => return Ok(None),
                Err(error) => return Err(errno(error)),
            }
        }
    }

    fn xattr_names(&self) -> Result<Vec<String>> {
        let path = stat::proc_path(self.fd.as_fd());
        let mut list = vec![0; 65536];
        match rustix::fs::listxattr(&*path, &mut list[..]) {
            Ok(length) => Ok(list[..length]
                .split(|&byte| byte == 0)
                .filter(|name| !name.is_empty())
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect()),
            Err(error) if stat::is_absent(errno(error)) => Ok(Vec::new()),
            Err(error) => Err(errno(error)),
        }
    }

    /// The directory, opened for reading.
    fn directory(&self) -> Result<Arc<OwnedFd>> {
        if !self.handle {
            return Ok(self.fd.clone());
        }
        if let Some(fd) = self.listing.get() {
            return Ok(fd.clone());
        }
        let fd = Arc::new(self.reopen(OFlags::RDONLY | OFlags::DIRECTORY)?);
        Ok(self.listing.get_or_init(|| fd).clone())
    }

    fn entries(&self, cursor: u64, count: usize, with_metadata: bool) -> Result<(Vec<Entry>, u64)> {
        let fd = self.directory()?;
        rustix::fs::seek(&*fd, SeekFrom::Start(cursor)).map_err(errno)?;
        let mut buffer = Vec::with_capacity(LISTING_BUFFER);
        let mut directory = RawDir::new(&*fd, buffer.spare_capacity_mut());
        let (mut entries, mut cursor) = (Vec::new(), cursor);
        while entries.len() < count {
            let Some(entry) = directory.next() else { break };
            let entry = entry.map_err(errno)?;
            cursor = entry.next_entry_cookie();
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            entries.push(Entry { name: name.into(), metadata: None });
        }
        if with_metadata {
            for entry in &mut entries {
                entry.metadata = stat::of_entry(fd.as_fd(), &entry.name, &self.shared.cache).ok();
            }
        }
        Ok((entries, cursor))
    }
}

impl Node for LocalNode {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn metadata(&self) -> Answer<Result<Metadata>> {
        Answer::now(self.stat())
    }

    fn open(&self, who: &Arc<Identity>, access: Access) -> Answer<Result<Arc<dyn Node>>> {
        Answer::now(assume(who).and_then(|()| {
            let fd = self.reopen(data_flags(access))?;
            Ok(LocalNode::opened(self.shared.clone(), fd, true))
        }))
    }

    fn permissions(&self, who: &Arc<Identity>) -> Answer<Result<u32>> {
        Answer::now(assume(who).and_then(|()| {
            let path = stat::proc_path(self.fd.as_fd());
            let mut permitted = 0;
            for (bit, mode) in [(0o4, AccessMode::READ_OK), (0o2, AccessMode::WRITE_OK), (0o1, AccessMode::EXEC_OK)] {
                // The effective user is asked about, which for files is the fsuid.
                match rustix::fs::accessat(rustix::fs::CWD, &*path, mode, AtFlags::EACCESS) {
                    Ok(()) => permitted |= bit,
                    Err(Raw::ACCESS | Raw::ROFS | Raw::PERM) => {}
                    Err(error) => return Err(errno(error)),
                }
            }
            Ok(permitted)
        }))
    }

    fn read(&self, offset: u64, mut buffer: Vec<u8>, filled: usize) -> Answer<(Vec<u8>, Result<usize>)> {
        let wanted = buffer.len() - filled;
        let quick = rustix::io::preadv2(
            &*self.fd,
            &mut [std::io::IoSliceMut::new(&mut buffer[filled..])],
            offset,
            ReadWriteFlags::NOWAIT,
        );
        let done = match quick {
            Ok(count) if count == wanted => return Answer::now((buffer, Ok(count))),
            // Nothing at all is the end of the file; less may be what the cache had.
            Ok(0) => return Answer::now((buffer, Ok(0))),
            Ok(count) => count,
            Err(Raw::AGAIN | Raw::OPNOTSUPP | Raw::INVAL) => 0,
            Err(error) => return Answer::now((buffer, Err(errno(error)))),
        };
        if done > 0 && rustix::fs::fstat(&*self.fd).is_ok_and(|stat| stat.st_size as u64 == offset + done as u64) {
            return Answer::now((buffer, Ok(done)));
        }
        let fd = self.fd.clone();
        worker::run(
            move || {
                let result = read_all(fd.as_fd(), offset, &mut buffer[filled..], done);
                (buffer, result)
            },
            || (Vec::new(), Err(Errno::IO)),
        )
    }

    fn write(&self, who: &Arc<Identity>, offset: u64, data: Bytes, through: bool) -> Answer<Result<()>> {
        if let Err(error) = assume(who) {
            return Answer::now(Err(error));
        }
        let flags = if through { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        if !through {
            // The page cache takes a write without waiting, as a rule; where it does not, the writer is to be slowed.
            return Answer::now(write_all(self.fd.as_fd(), offset, &data, flags));
        }
        let (fd, who) = (self.fd.clone(), who.clone());
        worker::run(move || assume(&who).and_then(|()| write_all(fd.as_fd(), offset, &data, flags)), || Err(Errno::IO))
    }

    fn flush(&self) -> Answer<Result<()>> {
        if self.handle {
            return Answer::now(Ok(()));
        }
        let fd = self.fd.clone();
        worker::run(move || rustix::fs::fsync(&*fd).map_err(errno), || Err(Errno::IO))
    }

    fn set_size(&self, who: &Arc<Identity>, size: u64) -> Answer<Result<()>> {
        Answer::now(assume(who).and_then(|()| {
            if self.handle {
                let fd = self.reopen(data_flags(Access { read: false, write: true }))?;
                return rustix::fs::ftruncate(fd, size).map_err(errno);
            }
            rustix::fs::ftruncate(&*self.fd, size).map_err(errno)
        }))
    }

    fn allocate(&self, who: &Arc<Identity>, size: u64) -> Answer<Result<()>> {
        if size == 0 {
            return Answer::now(Ok(()));
        }
        let (fd, who) = (self.fd.clone(), who.clone());
        worker::run(
            move || {
                assume(&who)?;
                match rustix::fs::fallocate(&*fd, FallocateFlags::KEEP_SIZE, 0, size) {
                    Err(Raw::OPNOTSUPP) => Ok(()),
                    result => result.map_err(errno),
                }
            },
            || Err(Errno::IO),
        )
    }

    fn zero(&self, who: &Arc<Identity>, offset: u64, length: u64) -> Answer<Result<()>> {
        let (fd, who) = (self.fd.clone(), who.clone());
        worker::run(
            move || {
                assume(&who)?;
                zero(fd.as_fd(), offset, length)
            },
            || Err(Errno::IO),
        )
    }

    fn data_ranges(&self, offset: u64, length: u64) -> Answer<Result<Vec<DataRange>>> {
        Answer::now(data_ranges(self.fd.as_fd(), offset, length))
    }

    fn set_metadata(&self, who: &Arc<Identity>, set: SetMetadata) -> Answer<Result<()>> {
        Answer::now(assume(who).and_then(|()| self.set(set)))
    }

    fn list(
        &self,
        who: &Arc<Identity>,
        cursor: u64,
        count: usize,
        with_metadata: bool,
    ) -> Answer<Result<(Vec<Entry>, u64)>> {
        Answer::now(assume(who).and_then(|()| self.entries(cursor, count, with_metadata)))
    }

    fn is_empty(&self) -> Answer<Result<bool>> {
        // A handle of its own: the position of the listing must not move.
        Answer::now(self.reopen(OFlags::RDONLY | OFlags::DIRECTORY).and_then(|fd| {
            let mut buffer = Vec::with_capacity(4096);
            let mut directory = RawDir::new(&fd, buffer.spare_capacity_mut());
            while let Some(entry) = directory.next() {
                if !matches!(entry.map_err(errno)?.file_name().to_bytes(), b"." | b"..") {
                    return Ok(false);
                }
            }
            Ok(true)
        }))
    }

    fn get_xattr(&self, who: &Arc<Identity>, name: &str) -> Answer<Result<Option<Vec<u8>>>> {
        Answer::now(assume(who).and_then(|()| self.read_xattr(name)))
    }

    fn set_xattr(&self, who: &Arc<Identity>, name: &str, value: Option<Vec<u8>>) -> Answer<Result<()>> {
        Answer::now(assume(who).and_then(|()| self.write_xattr(name, value.as_deref())))
    }

    fn list_xattrs(&self, who: &Arc<Identity>) -> Answer<Result<Vec<String>>> {
        Answer::now(assume(who).and_then(|()| self.xattr_names()))
    }
}

/// Reads until `buffer` is full or the file ends; `done` bytes are there already.
fn read_all(fd: BorrowedFd<'_>, offset: u64, buffer: &mut [u8], done: usize) -> Result<usize> {
    let mut done = done;
    while done < buffer.len() {
        match rustix::io::pread(fd, &mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Raw::INTR) => {}
            Err(error) => return Err(errno(error)),
        }
    }
    Ok(done)
}

fn write_all(fd: BorrowedFd<'_>, offset: u64, data: &[u8], flags: ReadWriteFlags) -> Result<()> {
    let mut done = 0;
    while done < data.len() {
        let rest = [std::io::IoSlice::new(&data[done..])];
        let result = if flags.is_empty() {
            rustix::io::pwrite(fd, &data[done..], offset + done as u64)
        } else {
            rustix::io::pwritev2(fd, &rest, offset + done as u64, flags)
        };
        match result {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => done += count,
            Err(Raw::INTR) => {}
            Err(error) => return Err(errno(error)),
        }
    }
    Ok(())
}

/// Gives the range's room back, or writes zeros where the file system cannot.
fn zero(fd: BorrowedFd<'_>, offset: u64, length: u64) -> Result<()> {
    let size = rustix::fs::fstat(fd).map_err(errno)?.st_size as u64;
    let end = offset.saturating_add(length).min(size);
    if offset >= end {
        return Ok(());
    }
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(fd, punch, offset, end - offset) {
        Err(Raw::OPNOTSUPP) => {}
        result => return result.map_err(errno),
    }
    let zeros = vec![0; 1 << 20];
    let mut at = offset;
    while at < end {
        let count = (end - at).min(zeros.len() as u64);
        write_all(fd, at, &zeros[..count as usize], ReadWriteFlags::empty())?;
        at += count;
    }
    Ok(())
}

fn data_ranges(fd: BorrowedFd<'_>, offset: u64, length: u64) -> Result<Vec<DataRange>> {
    let size = rustix::fs::fstat(fd).map_err(errno)?.st_size as u64;
    let end = offset.saturating_add(length).min(size);
    let (mut ranges, mut at) = (Vec::new(), offset);
    while at < end {
        let start = match rustix::fs::seek(fd, SeekFrom::Data(at)) {
            Ok(start) if start < end => start,
            Ok(_) | Err(Raw::NXIO) => break,
            Err(error) => return Err(errno(error)),
        };
        let hole = rustix::fs::seek(fd, SeekFrom::Hole(start)).map_err(errno)?.min(end);
        ranges.push(DataRange { offset: start, length: hole - start });
        at = hole;
    }
    Ok(ranges)
}
