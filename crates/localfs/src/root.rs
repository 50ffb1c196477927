//! The shared directory, held by a descriptor. The kernel itself resolves every path below it (openat2 with
//! RESOLVE_BENEATH), so that neither a link nor a race leads outside. Only `wide links`, if enabled, lifts that.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backing::Wait;
use rustix::fs::{Access as Ask, AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::Errno as Raw;
use rustix::path::DecInt;
use server::vfs::{Errno, FileId, RelPath, Result, SymlinkPolicy};

use crate::filesystem::FileSystem;
use crate::{errno, proc_fd};

/// How often a resolution that raced with a rename or a mount is retried.
const RACES: usize = 128;

/// File systems implemented in this kernel: it answers from their caches, and their change times have a fine
/// resolution. Others (network file systems, FUSE) may block any call.
const LOCAL: [i64; 8] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0xf2f5_2010, // F2FS
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    0x794c_7630, // overlay
];

/// Returns whether `fd` is on a file system of this kernel, which reports all its changes.
pub(crate) fn is_local(fd: impl AsFd) -> rustix::io::Result<bool> {
    Ok(LOCAL.contains(&rustix::fs::fstatfs(fd)?.f_type))
}

/// Maximum number of links that are expanded on one path: as many as the kernel follows.
const LINKS: usize = 40;

/// The fields that every statx of this crate requests.
const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME).union(StatxFlags::MNT_ID);

/// The root of a share.
pub(crate) struct Root {
    fd: OwnedFd,
    /// `/proc/self/fd`, used to reopen a descriptor for attributes with data access.
    proc: BorrowedFd<'static>,
    /// Identity of the directory.
    pub(crate) id: FileId,
    /// Its absolute paths: as given, and without links.
    paths: [PathBuf; 2],
    /// Whether the file system is local to this machine.
    pub(crate) local: bool,
    /// The file system itself.
    pub(crate) system: Arc<FileSystem>,
    /// The links that paths of changes may follow.
    links: SymlinkPolicy,
}

impl Root {
    /// Opens the directory `path`, with the process's own identity. It must be the directory `expected`, if that is
    /// given.
    pub(crate) fn open(path: &Path, links: SymlinkPolicy, expected: Option<FileId>) -> io::Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())?;
        let proc = proc_fd::directory()?;
        let stat = rustix::fs::statx(&fd, "", AtFlags::EMPTY_PATH, WANTED)?;
        let id = id(&stat);
        if expected.is_some_and(|expected| expected != id) {
            return Err(Raw::STALE.into());
        }
        let paths = [std::path::absolute(path)?, path.canonicalize()?];
        let local = is_local(&fd)?;
        probe(&fd)?;
        Ok(Root { fd, proc, id, paths, local, system: FileSystem::of_root(&stat, local), links })
    }

    /// Returns the directory `path`, reached without following links, as a root.
    pub(crate) fn beneath_directory(&self, path: &RelPath) -> Result<Root> {
        let fd = self.open_directory(path, SymlinkPolicy::NONE, Wait::Allowed)?;
        let stat = stat(&fd)?;
        let (id, system) = (id(&stat), self.system_of(&stat));
        let inner = Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
        let paths = [self.paths[0].join(inner), self.paths[1].join(inner)];
        let local = is_local(&fd).map_err(errno)?;
        Ok(Root { fd, proc: self.proc, id, paths, local, system, links: self.links })
    }

    /// Returns the current path of `fd`, relative to the root if it is below it.
    pub(crate) fn location(&self, fd: impl AsFd) -> Result<Vec<u8>> {
        let path = |fd: BorrowedFd<'_>| {
            let link = DecInt::from_fd(fd);
            rustix::fs::readlinkat(self.proc, link.as_c_str(), Vec::new()).map(|path| path.into_bytes()).map_err(errno)
        };
        let (root, path) = (path(self.fd())?, path(fd.as_fd())?);
        Ok(match path.strip_prefix(root.as_slice()) {
            Some(rest) if rest.first().is_none_or(|&byte| byte == b'/') => {
                rest.strip_prefix(b"/").unwrap_or(rest).to_vec()
            }
            Some(rest) if root == b"/" => rest.to_vec(),
            _ => path,
        })
    }

    /// Returns the absolute path, as given.
    pub(crate) fn path(&self) -> &Path {
        &self.paths[0]
    }

    /// Returns the absolute path `actual`, which is free of links, in the form in which the root's path was given.
    pub(crate) fn as_given(&self, actual: &[u8]) -> Vec<u8> {
        match actual.strip_prefix(self.paths[1].as_os_str().as_bytes()) {
            Some(rest) if rest.is_empty() || rest[0] == b'/' => [self.paths[0].as_os_str().as_bytes(), rest].concat(),
            _ => actual.to_vec(),
        }
    }

    /// The root directory itself.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens `path`, which has the form of a [`RelPath`], below the root. Never waits on a FIFO or acquires a terminal.
    pub(crate) fn open_path(
        &self,
        path: &[u8],
        flags: OFlags,
        mode: u32,
        links: SymlinkPolicy,
        wait: Wait,
    ) -> Result<OwnedFd> {
        match self.open_beneath(path, flags, mode, links, wait) {
            // The kernel treats every absolute link as leading out, even one that leads back below the root.
            Err(Raw::XDEV) if links.follow && wait == Wait::Never => Err(Errno::AGAIN),
            Err(Raw::XDEV) if links.follow => self.open_through_absolute(path, flags, mode, links),
            done => done.map_err(outside),
        }
    }

    /// Opens `path` for reading in one step, if the kernel has all of it cached and it is on the root's own file
    /// system.
    pub(crate) fn open_to_read(&self, path: &[u8], links: SymlinkPolicy) -> Result<OwnedFd> {
        let resolve = resolution(links) | ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
        let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        flags.set(OFlags::NOFOLLOW, links.itself);
        rustix::fs::openat2(&self.fd, path, flags, Mode::empty(), resolve).map_err(errno)
    }

    fn open_beneath(
        &self,
        path: &[u8],
        flags: OFlags,
        mode: u32,
        links: SymlinkPolicy,
        wait: Wait,
    ) -> rustix::io::Result<OwnedFd> {
        let mut resolve = resolution(links);
        resolve.set(ResolveFlags::CACHED, wait == Wait::Never);
        let flags = flags | OFlags::CLOEXEC;
        for _ in 0..RACES {
            match rustix::fs::openat2(&self.fd, path, flags, Mode::from_raw_mode(mode), resolve) {
                Err(Raw::INTR) => {}
                Err(Raw::AGAIN) if wait == Wait::Allowed => std::thread::yield_now(),
                done => return done,
            }
        }
        Err(Raw::BUSY)
    }

    /// Opens `path` with its links expanded. An absolute link that leads below the root is made relative to it.
    fn open_through_absolute(&self, path: &[u8], flags: OFlags, mode: u32, links: SymlinkPolicy) -> Result<OwnedFd> {
        let mut path = path.to_vec();
        for _ in 0..LINKS {
            path = self.spell_out(&path, flags, links).ok_or(Errno::LOOP)?;
            match self.open_beneath(&path, flags, mode, links, Wait::Allowed) {
                Err(Raw::XDEV) => {}
                done => return done.map_err(outside),
            }
        }
        Err(Errno::LOOP)
    }

    /// Returns `path` with its first link replaced by its target; `None` if the target is not below the root.
    fn spell_out(&self, path: &[u8], flags: OFlags, links: SymlinkPolicy) -> Option<Vec<u8>> {
        let ends = (0..=path.len()).filter(|&at| at > 0 && path.get(at).is_none_or(|&byte| byte == b'/'));
        for end in ends.filter(|&end| end < path.len() || !flags.contains(OFlags::NOFOLLOW)) {
            let hold = OFlags::PATH | OFlags::NOFOLLOW;
            let fd = self.open_beneath(&path[..end], hold, 0, links, Wait::Allowed).ok()?;
            let Ok(target) = rustix::fs::readlinkat(&fd, "", Vec::new()) else { continue };
            let target = target.as_bytes();
            let mut spelled = match target.strip_prefix(b"/") {
                Some(_) => self.beneath(target)?.to_vec(),
                None => {
                    let start = path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
                    [&path[..start], target].concat()
                }
            };
            spelled.extend_from_slice(&path[end..]);
            return Some(spelled);
        }
        None
    }

    /// Returns the part of the absolute path `target` that is below the root.
    fn beneath<'a>(&self, target: &'a [u8]) -> Option<&'a [u8]> {
        self.paths.iter().find_map(|root| match target.strip_prefix(root.as_os_str().as_bytes())? {
            [] => Some(&b"."[..]),
            [b'/', rest @ ..] if rest.first().is_some_and(|&byte| byte != b'/') => Some(rest),
            _ => None,
        })
    }

    /// Opens the directory `path` for resolving names in it, which requires permission to search it.
    pub(crate) fn open_directory(&self, path: &RelPath, links: SymlinkPolicy, wait: Wait) -> Result<OwnedFd> {
        let mut bytes = path.as_bytes().to_vec();
        // The additional component makes the kernel check that the directory may be searched.
        bytes.extend_from_slice(if bytes.is_empty() { b"." } else { b"/." });
        self.open_path(&bytes, OFlags::PATH | OFlags::DIRECTORY, 0, links, wait)
    }

    /// Returns the metadata of the directory that `path` leads to, if it is on the root's own file system and the
    /// thread may search it. It may only be used to identify the directory, because a link may lead out of the root.
    pub(crate) fn look_at_directory(&self, path: &RelPath) -> Option<Statx> {
        // The additional component makes the kernel check that the directory may be searched.
        let path = [path.as_bytes(), if path.is_root() { b"." } else { b"/." }].concat();
        let flags = AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        rustix::fs::statx(&self.fd, path, flags, WANTED).ok().filter(|stat| self.is_home(stat))
    }

    /// Returns whether the thread may add and remove names in the directory that `path` leads to. As with
    /// [`look_at_directory`](Root::look_at_directory), a link may lead out of the root.
    pub(crate) fn may_change_names(&self, path: &RelPath) -> Option<bool> {
        let path = if path.is_root() { b"." } else { path.as_bytes() };
        match rustix::fs::accessat(&self.fd, path, Ask::WRITE_OK | Ask::EXEC_OK, AtFlags::EACCESS) {
            Ok(()) => Some(true),
            Err(Raw::ACCESS | Raw::PERM | Raw::ROFS) => Some(false),
            Err(_) => None,
        }
    }

    /// Opens `name` in `directory`, without following a link, if the kernel has it cached.
    pub(crate) fn open_entry(directory: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
        rustix::fs::openat2(directory, name, flags, Mode::empty(), resolve).map_err(errno)
    }

    /// Returns whether `path` now leads to the directory `id` and not to a link. A link further up is followed, so the
    /// answer may only be used to decide whether the path has changed.
    pub(crate) fn still_leads_to(&self, path: &RelPath, id: FileId) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        let path = if path.is_root() { b"." } else { path.as_bytes() };
        rustix::fs::statx(&self.fd, path, flags, WANTED).is_ok_and(|stat| self::id(&stat) == id && self.is_home(&stat))
    }

    /// Returns whether `stat` is of a file on the root's own file system.
    pub(crate) fn is_home(&self, stat: &Statx) -> bool {
        stat.stx_mnt_id == self.system.mount
    }

    /// Returns the file system of the file described by `stat`.
    pub(crate) fn system_of(&self, stat: &Statx) -> Arc<FileSystem> {
        if self.is_home(stat) { Arc::clone(&self.system) } else { FileSystem::of(stat) }
    }

    /// Returns whether the kernel has the whole path to the directory `path` cached and it stays on the root's own file
    /// system. Never waits.
    pub(crate) fn is_at_home(&self, path: &RelPath) -> bool {
        let path = [path.as_bytes(), if path.is_root() { b"." } else { b"/." }].concat();
        let resolve = resolution(self.links) | ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat2(&self.fd, path, flags, Mode::empty(), resolve).is_ok()
    }

    /// Returns the file system of `path` if the kernel has the path cached; never waits.
    pub(crate) fn system_at(&self, path: &RelPath) -> Option<Arc<FileSystem>> {
        let fd = self.open_beneath(path.as_bytes(), OFlags::PATH, 0, self.links, Wait::Never).ok()?;
        Some(self.system_of(&glance(fd).ok()?))
    }

    /// Returns the directory that holds `path`, opened for a change, and the name in it.
    pub(crate) fn parent<'a>(&self, path: &'a RelPath) -> Result<(OwnedFd, &'a [u8])> {
        // The root has no name that could be created or removed.
        let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Err(Errno::BUSY) };
        Ok((self.changed_directory(&parent)?, name))
    }

    /// Opens the directory `path`, following the links that changes may follow.
    pub(crate) fn changed_directory(&self, path: &RelPath) -> Result<OwnedFd> {
        self.open_directory(path, self.links, Wait::Allowed)
    }

    /// Opens `path` to create it, following the links that changes may follow.
    pub(crate) fn make(&self, path: &RelPath, flags: OFlags, mode: u32) -> Result<OwnedFd> {
        self.open_path(path.as_bytes(), flags, mode, self.links, Wait::Allowed)
    }

    /// Returns the file that `path` leads to, following the links that changes may follow.
    pub(crate) fn target(&self, path: &RelPath) -> Result<FileId> {
        let fd = self.open_path(path.as_bytes(), OFlags::PATH, 0, self.links, Wait::Allowed)?;
        Ok(id(&stat(&fd)?))
    }

    /// Reopens the file of `fd`. Permissions are checked for the thread's identity.
    pub(crate) fn reopen(&self, fd: impl AsFd, flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        rustix::fs::openat(self.proc, DecInt::from_fd(fd), flags, Mode::empty()).map_err(errno)
    }

    /// Returns `/proc/self/fd` and the name of `fd` in it: a path to the file of `fd`.
    pub(crate) fn magic(&self, fd: impl AsFd) -> (BorrowedFd<'_>, DecInt) {
        (self.proc, DecInt::from_fd(fd))
    }
}

/// Returns how paths are resolved below the root.
fn resolution(links: SymlinkPolicy) -> ResolveFlags {
    let mut resolve = ResolveFlags::NO_MAGICLINKS;
    resolve.set(ResolveFlags::BENEATH, !(links.follow && links.wide));
    resolve.set(ResolveFlags::NO_SYMLINKS, !links.follow);
    resolve
}

/// Checks at startup, rather than in every look-up, that the kernel can resolve paths as this crate needs.
fn probe(fd: &OwnedFd) -> io::Result<()> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
    match rustix::fs::openat2(fd, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve) {
        Err(error @ (Raw::NOSYS | Raw::INVAL | Raw::TOOBIG | Raw::PERM)) => Err(io::Error::other(format!(
            "openat2 with RESOLVE_CACHED does not work here: {error}; it requires Linux 5.12 or later"
        ))),
        _ => Ok(()),
    }
}

/// Converts the errno of a resolution. A link that leads out looks like a circular one, so as not to reveal its target.
fn outside(error: Raw) -> Errno {
    if error == Raw::XDEV { Errno::LOOP } else { errno(error) }
}

/// Returns the metadata of the file of `fd`.
pub(crate) fn stat(fd: impl AsFd) -> Result<Statx> {
    rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, WANTED).map_err(errno)
}

/// Like [`stat`], but only from the kernel's cache: neither another machine nor FUSE is asked.
pub(crate) fn glance(fd: impl AsFd) -> Result<Statx> {
    rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, WANTED).map_err(errno)
}

/// Like [`glance`], for `name` in `directory`, which is on a local file system. Something mounted there may be on
/// another.
pub(crate) fn glance_at(directory: impl AsFd, name: &[u8]) -> Result<Statx> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(directory, name, flags, WANTED).map_err(errno)
}

/// Returns the metadata of `name` in `directory`, without following a link.
pub(crate) fn stat_name(directory: impl AsFd, name: &[u8]) -> Result<Statx> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(directory, name, flags, WANTED).map_err(errno)
}

/// Returns the file's identity.
pub(crate) fn id(stat: &Statx) -> FileId {
    FileId { device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino, stream: 0 }
}
