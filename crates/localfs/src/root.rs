//! The share's root, and the resolution of paths beneath it by the kernel.
//!
//! `openat2` with RESOLVE_BENEATH refuses every step out of the root, whoever swaps links while it walks; magic links
//! (`/proc/…/fd`) are never followed. Only `wide links` gives that up, on the administrator's word.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use server::vfs::{Errno, Links, RelPath, Result};

use crate::{errno, stat};

/// The share's root.
pub(crate) struct Root {
    fd: OwnedFd,
}

impl Root {
    /// Opens the directory.
    pub(crate) fn of_directory(path: &Path) -> io::Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Root { fd: rustix::fs::open(path, flags, Mode::empty())? })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens `path` with `flags`.
    pub(crate) fn open(&self, path: &RelPath, flags: OFlags, mode: Mode, links: Links) -> Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        if links.follow && links.wide {
            return rustix::fs::openat(&self.fd, path.as_path(), flags, mode).map_err(errno);
        }
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if !links.follow {
            resolve |= ResolveFlags::NO_SYMLINKS;
        }
        loop {
            match rustix::fs::openat2(&self.fd, path.as_path(), flags, mode, resolve) {
                // Something was renamed during the walk, so the kernel could not tell that it stayed beneath.
                Err(rustix::io::Errno::AGAIN) => {}
                // A link that leads out is treated like one that is not followed, whatever is at its end.
                Err(rustix::io::Errno::XDEV) => return Err(Errno::LOOP),
                result => return result.map_err(errno),
            }
        }
    }

    /// A handle to what `path` names: the target of a link where links are followed, else the link.
    pub(crate) fn handle(&self, path: &RelPath, links: Links) -> Result<OwnedFd> {
        match self.open(path, OFlags::PATH, Mode::empty(), links) {
            Err(Errno::LOOP) => self.link_itself(path, links),
            // The link is there, its target is not.
            Err(Errno::NOENT) if links.follow && !path.is_root() => {
                self.link_itself(path, links).map_err(|_| Errno::NOENT)
            }
            result => result,
        }
    }

    /// A handle to the symbolic link that `path` names; LOOP where the link stands on the way.
    fn link_itself(&self, path: &RelPath, links: Links) -> Result<OwnedFd> {
        let fd = self.open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(), links)?;
        let is_link = stat::of_link(&fd)?;
        if is_link { Ok(fd) } else { Err(Errno::LOOP) }
    }

    /// A handle to the directory `path`.
    pub(crate) fn directory(&self, path: &RelPath, links: Links) -> Result<OwnedFd> {
        self.open(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty(), links)
    }
}

/// `/proc/self/fd`, by whose links a handle becomes an open file: opened once, so that it works wherever the process
/// has gone since.
pub(crate) fn proc_fds() -> io::Result<&'static OwnedFd> {
    static FDS: std::sync::OnceLock<OwnedFd> = std::sync::OnceLock::new();
    if let Some(fd) = FDS.get() {
        return Ok(fd);
    }
    let fd: OwnedFd = File::open("/proc/self/fd")?.into();
    Ok(FDS.get_or_init(|| fd))
}
