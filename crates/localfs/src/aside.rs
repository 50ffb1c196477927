//! Temporary names for links that replace a file, and their removal after a crash.
//!
//! A link that replaces a file is first created under a second name. Each such name is noted before it is created, as a
//! symbolic link in a private directory of the share's root whose target is the path of the name. Notes found when a
//! share is opened are left over from a crash, so finding them takes no walk over the share. A name is removed only if
//! it is one of these, leads to the noted file, and is not that file's last name. A file that a user has put in its
//! place stays.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use server::vfs::{FileId, Kind, RelPath, Result, Time};

use crate::metadata::{coarse_now, kind, time};
use crate::root::{Root, stat_name};
use crate::{Share, dir, errno, identity, private};

/// The private directory, which is hidden from clients.
const DIRECTORY: &str = server::vfs::LINKS;

/// Prefix of all these names.
const PREFIX: &str = ".frevo-link-";

/// A temporary name made from the process ID and a counter, and its note. If the name exists nevertheless, creating the
/// link fails.
pub(crate) struct Aside {
    name: Vec<u8>,
    _note: Option<Note>,
}

/// A note; dropping it removes it.
struct Note {
    root: OwnedFd,
    directory: OwnedFd,
    name: Vec<u8>,
}

impl Aside {
    /// Prepares a link to `file` in `directory`. The thread acts as the process afterwards.
    pub(crate) fn new(share: &Share, directory: &OwnedFd, file: FileId) -> Aside {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let name = format!("{PREFIX}{process}-{number}").into_bytes();
        let note = Note::make(share, directory, &name, file);
        if let Err(errno) = &note {
            tracing::debug!(
                ?errno,
                "cannot record a link that replaces a file: a crash during the replacement leaves its temporary name \
                 behind"
            );
        }
        Aside { name, _note: note.ok() }
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Leaves the state of a crash.
    #[cfg(test)]
    pub(crate) fn abandon(mut self) {
        std::mem::forget(self._note.take());
    }
}

impl Note {
    fn make(share: &Share, directory: &OwnedFd, name: &[u8], file: FileId) -> Result<Note> {
        began();
        identity::assume_process().map_err(errno)?;
        let path = share.path_of(directory)?.join(name).ok_or(server::vfs::Errno::NAMETOOLONG)?;
        let note = [name, format!("-{:x}", file.inode).as_bytes()].concat();
        let root = share.root.fd().try_clone_to_owned().map_err(|_| server::vfs::Errno::NFILE)?;
        // Another thread may remove the directory in between, once.
        for last in [false, true] {
            let Some((held, _)) = private::open(root.as_fd(), DIRECTORY, true)? else { continue };
            match rustix::fs::symlinkat(path.as_bytes(), &held, note.as_slice()) {
                Ok(()) => return Ok(Note { root, directory: held, name: note }),
                Err(rustix::io::Errno::NOENT) if !last => {}
                Err(error) => return Err(errno(error)),
            }
        }
        Err(server::vfs::Errno::STALE)
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if identity::assume_process().is_ok() {
            let _ = rustix::fs::unlinkat(&self.directory, self.name.as_slice(), AtFlags::empty());
            // Fails while there are other notes.
            let _ = rustix::fs::unlinkat(&self.root, DIRECTORY, AtFlags::REMOVEDIR);
        }
    }
}

/// Returns when this process began to create such names. Older notes are from a process that has ended.
fn began() -> Time {
    static BEGAN: OnceLock<Time> = OnceLock::new();
    *BEGAN.get_or_init(coarse_now)
}

/// Removes the names that a crash has left. The thread must have the process's own identity.
pub(crate) fn remove_left_over(root: &Root) {
    remove_older(root, began());
}

/// Removes the names noted before `began`.
pub(crate) fn remove_older(root: &Root, began: Time) {
    let directory = match private::open(root.fd(), DIRECTORY, false) {
        Ok(None) => return,
        Ok(Some((directory, _))) => directory,
        Err(errno) => {
            tracing::warn!(
                ?errno,
                path = %root.path().display(),
                "{DIRECTORY} in the share's root does not belong to the server; it is not used"
            );
            return;
        }
    };
    let mut notes: Vec<Vec<u8>> = Vec::new();
    let listed = root.reopen(&directory, OFlags::RDONLY | OFlags::DIRECTORY).and_then(|listing| {
        dir::each_name(&listing, |name| {
            notes.push(name.to_vec());
            true
        })
    });
    if let Err(errno) = listed {
        tracing::warn!(?errno, path = %root.path().display(), "{DIRECTORY} cannot be read");
    }
    for note in notes {
        let is_old = |found: &rustix::fs::Statx| time(found.stx_ctime) < began;
        match stat_name(&directory, &note) {
            Ok(found) if kind(&found) == Kind::Symlink && is_old(&found) => {}
            _ => continue,
        }
        if remove_noted(root.fd(), &directory, &note).is_some() {
            tracing::info!(path = %root.path().display(), "removed the temporary name of a link that a crash left \
                                                           behind");
        }
        let _ = rustix::fs::unlinkat(&directory, note.as_slice(), AtFlags::empty());
    }
    let _ = rustix::fs::unlinkat(root.fd(), DIRECTORY, AtFlags::REMOVEDIR);
}

/// Removes the name recorded by `note`; `None` if it does not exist or belongs to another file.
fn remove_noted(root: BorrowedFd<'_>, directory: &OwnedFd, note: &[u8]) -> Option<()> {
    let (name, inode) = std::str::from_utf8(note).ok()?.rsplit_once('-')?;
    let inode = u64::from_str_radix(inode, 16).ok()?;
    let target = rustix::fs::readlinkat(directory, note, Vec::new()).ok()?;
    let mut path = RelPath::root();
    let complete = target.as_bytes().split(|&byte| byte == b'/').all(|name| path.push(name));
    let (parent, last) = (path.parent()?, path.name()?);
    if !complete || last != name.as_bytes() || !name.starts_with(PREFIX) {
        return None;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let parent: &[u8] = if parent.is_root() { b"." } else { parent.as_bytes() };
    let held = rustix::fs::openat2(root, parent, flags, Mode::empty(), resolve).ok()?;
    let found = stat_name(&held, last).ok()?;
    if kind(&found) != Kind::File || found.stx_ino != inode || found.stx_nlink < 2 {
        return None;
    }
    rustix::fs::unlinkat(&held, last, AtFlags::empty()).ok()
}
