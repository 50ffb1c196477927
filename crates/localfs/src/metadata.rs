//! The result of statx and the extended attributes of a file, as [`backing::metadata`] needs them.

use std::os::fd::AsFd;

use backing::metadata::{AttributeAccess, Stat};
use rustix::fs::{FileType, Statx, StatxAttributes, StatxFlags, StatxTimestamp, XattrFlags};
use rustix::io::Errno as Raw;
use server::vfs::xattr::DosAttributes;
use server::vfs::{Kind, Metadata, Result, SpecialFile, Time};

use crate::root::id;
use crate::{Share, errno, identity, proc_fd};

/// Where attributes are read from.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a, Fd> {
    /// A descriptor with data access.
    Open(Fd),
    /// A descriptor without data access, whose attributes are accessed by a path.
    Path(Fd),
    /// A name in a directory.
    Named(Fd, &'a [u8]),
}

impl<Fd: AsFd> Source<'_, Fd> {
    /// Sets the attribute `name` to `value`.
    pub(crate) fn set_xattr(&self, name: &str, value: &[u8], how: XattrFlags) -> rustix::io::Result<()> {
        match self {
            Source::Open(fd) => rustix::fs::fsetxattr(fd, name, value, how),
            Source::Path(fd) => rustix::fs::setxattr(proc_fd::path(fd), name, value, how),
            Source::Named(..) => Err(Raw::BADF),
        }
    }
}

impl<Fd: AsFd> AttributeAccess for Source<'_, Fd> {
    fn get(&self, name: &str, value: &mut [u8]) -> Result<usize> {
        let length = match self {
            Source::Open(fd) => rustix::fs::fgetxattr(fd, name, value),
            Source::Path(fd) => proc_fd::getxattr(fd, name, value),
            Source::Named(directory, entry) => proc_fd::getxattr_of(directory, entry, name, value),
        };
        length.map_err(errno)
    }

    fn list(&self, names: &mut [u8]) -> Result<usize> {
        let length = match self {
            Source::Open(fd) => rustix::fs::flistxattr(fd, names),
            Source::Path(fd) => proc_fd::listxattr(fd, names),
            Source::Named(..) => Err(Raw::BADF),
        };
        length.map_err(errno)
    }

    fn set(&self, name: &str, value: &[u8]) -> Result<()> {
        self.set_xattr(name, value, XattrFlags::empty()).map_err(errno)
    }

    fn assume_server(&self) -> Result<()> {
        identity::assume_process().map_err(errno)
    }

    fn is_handle(&self) -> bool {
        !matches!(self, Source::Named(..))
    }
}

impl Share {
    /// Returns the metadata of the file described by `stat`, with attributes read from `source`. The thread may have
    /// the process's identity afterwards.
    pub(crate) fn metadata(&self, stat: &Statx, source: Source<'_, impl AsFd>) -> Metadata {
        self.cache.metadata(&report(stat), &source)
    }
}

/// Returns what statx reported.
pub(crate) fn report(stat: &Statx) -> Stat {
    Stat {
        id: id(stat),
        kind: kind(stat),
        size: stat.stx_size,
        allocated: stat.stx_blocks.saturating_mul(512),
        links: stat.stx_nlink,
        mode: u32::from(stat.stx_mode) & 0o7777,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        accessed: time(stat.stx_atime),
        modified: time(stat.stx_mtime),
        changed: time(stat.stx_ctime),
        born: birth(stat),
        compressed: stat.stx_attributes.contains(StatxAttributes::COMPRESSED),
        is_mounted: stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
        special: special(stat),
    }
}

/// Builds the metadata of the file described by `stat`, which has these DOS attributes.
pub(crate) fn describe(stat: &Statx, dos: DosAttributes) -> Metadata {
    report(stat).metadata(dos)
}

/// Returns the time of the kernel's coarse clock.
pub(crate) fn coarse_now() -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    Time { secs: now.tv_sec, nanos: now.tv_nsec as u32 }
}

/// Returns the file's birth time, if the file system reports it.
pub(crate) fn birth(stat: &Statx) -> Option<Time> {
    (stat.stx_mask & StatxFlags::BTIME.bits() != 0).then(|| time(stat.stx_btime))
}

/// Returns the type of the file.
pub(crate) fn kind(stat: &Statx) -> Kind {
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Special,
    }
}

/// Returns the type of a special file.
fn special(stat: &Statx) -> Option<SpecialFile> {
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::Fifo => Some(SpecialFile::Fifo),
        FileType::Socket => Some(SpecialFile::Socket),
        FileType::CharacterDevice => Some(SpecialFile::CharacterDevice(stat.stx_rdev_major, stat.stx_rdev_minor)),
        FileType::BlockDevice => Some(SpecialFile::BlockDevice(stat.stx_rdev_major, stat.stx_rdev_minor)),
        _ => None,
    }
}

pub(crate) fn time(stamp: StatxTimestamp) -> Time {
    Time { secs: stamp.tv_sec, nanos: stamp.tv_nsec }
}
