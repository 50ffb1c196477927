//! Metadata: `statx`, and the attributes that Samba keeps in `user.DOSATTRIB`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags};
use server::vfs::xattr::{DOSATTRIB, DosAttributes};
use server::vfs::{Errno, FileId, Kind, Metadata, Result, Time};

use crate::cache::Cache;
use crate::errno;

const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Metadata of an open file or handle.
pub(crate) fn of_fd(fd: impl AsFd, cache: &Cache) -> Result<Metadata> {
    let stat = rustix::fs::statx(&fd, "", AtFlags::EMPTY_PATH, WANTED).map_err(errno)?;
    let plain = metadata(&stat);
    if !matches!(plain.kind, Kind::File | Kind::Directory) {
        return Ok(plain);
    }
    let dos = cache.dos_attributes(&plain, || read_attributes(fd.as_fd()));
    Ok(with_attributes(plain, dos))
}

/// Metadata of a directory's entry, links not followed.
pub(crate) fn of_entry(directory: BorrowedFd<'_>, name: &[u8], cache: &Cache) -> Result<Metadata> {
    let plain = at(directory, name)?;
    if !matches!(plain.kind, Kind::File | Kind::Directory) {
        return Ok(plain);
    }
    let dos = cache.dos_attributes(&plain, || {
        let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
        path.extend_from_slice(name);
        let mut value = [0; 256];
        parse(rustix::fs::lgetxattr(path, DOSATTRIB, &mut value[..]), &value)
    });
    Ok(with_attributes(plain, dos))
}

/// What `statx` alone says of a directory's entry.
pub(crate) fn at(directory: impl AsFd, name: &[u8]) -> Result<Metadata> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::statx(directory, name, flags, WANTED).map(|stat| metadata(&stat)).map_err(errno)
}

/// Whether a handle is of a symbolic link.
pub(crate) fn of_link(fd: impl AsFd) -> Result<bool> {
    let stat = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE).map_err(errno)?;
    Ok(FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Symlink)
}

fn metadata(stat: &Statx) -> Metadata {
    let time = |time: rustix::fs::StatxTimestamp| Time { secs: time.tv_sec, nanos: time.tv_nsec };
    let kind = match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Special,
    };
    let (accessed, modified, changed) = (time(stat.stx_atime), time(stat.stx_mtime), time(stat.stx_ctime));
    let birth = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    let earliest = accessed.min(modified).min(changed);
    Metadata {
        id: FileId { device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino },
        kind,
        size: if kind == Kind::File { stat.stx_size } else { 0 },
        allocated: stat.stx_blocks * 512,
        links: stat.stx_nlink,
        mode: u32::from(stat.stx_mode) & 0o7777,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        accessed,
        modified,
        changed,
        created: if birth { time(stat.stx_btime) } else { earliest },
        dos_attributes: None,
    }
}

fn with_attributes(plain: Metadata, dos: Option<DosAttributes>) -> Metadata {
    let Some(dos) = dos else { return plain };
    Metadata { dos_attributes: dos.attributes, created: dos.created.unwrap_or(plain.created), ..plain }
}

/// Reads `user.DOSATTRIB` of an open file or handle.
pub(crate) fn read_attributes(fd: BorrowedFd<'_>) -> Option<DosAttributes> {
    let mut value = [0; 256];
    let result = match rustix::fs::fgetxattr(fd, DOSATTRIB, &mut value[..]) {
        // A handle has no attributes of its own, the file that it stands for has.
        Err(rustix::io::Errno::BADF) => rustix::fs::getxattr(proc_path(fd), DOSATTRIB, &mut value[..]),
        result => result,
    };
    parse(result, &value)
}

fn parse(result: rustix::io::Result<usize>, value: &[u8]) -> Option<DosAttributes> {
    DosAttributes::decode(&value[..result.ok()?.min(value.len())])
}

/// The path by which the file behind a descriptor is reached again.
pub(crate) fn proc_path(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Stores the attributes of a file that was made just now; its creation time is the file system's own.
pub(crate) fn store_new_attributes(fd: impl AsFd, attributes: u32) -> Result<()> {
    let stat = rustix::fs::statx(&fd, "", AtFlags::EMPTY_PATH, WANTED).map_err(errno)?;
    let plain = metadata(&stat);
    let directory = if plain.kind == Kind::Directory { 0x10 } else { 0 };
    let dos = DosAttributes { attributes: Some(attributes | directory), created: Some(plain.created) };
    rustix::fs::fsetxattr(fd, DOSATTRIB, &dos.encode(), rustix::fs::XattrFlags::empty()).map_err(errno)
}

/// The errors by which a file system says that it has no such attribute, or none at all.
pub(crate) fn is_absent(error: Errno) -> bool {
    matches!(error, Errno::NODATA | Errno::OPNOTSUPP)
}
