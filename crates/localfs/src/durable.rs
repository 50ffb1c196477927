//! Durability of names: a file's fsync makes its content durable, but on many file systems not its name.
//!
//! Created and renamed files are noted until they are flushed ([`Unsynced`]). A flush of such a file also syncs its
//! current directory, and the directories above as far as those are new, so that its path survives a crash. Files that
//! are never flushed cost nothing.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno as Raw;
use server::vfs::{Errno, FileId, Kind, RelPath, Result};

use crate::node::Open;
use crate::root::{id, stat, stat_name};
use crate::{Share, errno, identity};

/// Maximum number of files in each of the two tables of the process, 25 bytes each. This fills a hash table of
/// 65,536 slots.
const NOTED: usize = 57_344;

/// After this time the kernel has written a directory on its own. It starts after 30 s (`vm.dirty_expire_centisecs`).
const WRITTEN_BACK: Duration = Duration::from_secs(120);

/// Maximum depth of directories, which no path exceeds.
const DEPTH: usize = 2048;

/// How often the search for a directory is retried when it is renamed meanwhile.
const RACES: usize = 8;

/// Files and directories whose names may not be on disk.
#[derive(Default)]
pub(crate) struct Unsynced(Mutex<Notes>);

/// Two tables of notes. When all notes of the older one are out of date, or the newer one is full, the older one is
/// discarded and a new one started.
#[derive(Default)]
struct Notes {
    /// The number of the last note of each file, by device and inode.
    new: HashMap<(u64, u64), u64>,
    old: HashMap<(u64, u64), u64>,
    /// When `new` was started.
    started: Option<Instant>,
    last: u64,
    /// Until when any file may be unsynced, because notes had to be discarded too early.
    overflowed: Option<Instant>,
}

impl Notes {
    fn add(&mut self, file: FileId, now: Instant) {
        let started = *self.started.get_or_insert(now);
        let file = (file.device, file.inode);
        if now >= started + WRITTEN_BACK || self.new.len() >= NOTED {
            let discarded = std::mem::replace(&mut self.old, std::mem::take(&mut self.new));
            let until = started + WRITTEN_BACK;
            if !discarded.is_empty() && until > now {
                self.overflowed = self.overflowed.max(Some(until));
            }
            self.started = Some(now);
        }
        self.last += 1;
        self.old.remove(&file);
        self.new.insert(file, self.last);
    }

    fn find(&self, file: FileId) -> Option<u64> {
        let file = (file.device, file.inode);
        self.new.get(&file).or_else(|| self.old.get(&file)).copied()
    }

    fn remove(&mut self, file: FileId) {
        let file = (file.device, file.inode);
        self.new.remove(&file);
        self.old.remove(&file);
    }
}

impl Unsynced {
    /// Returns the notes of the process, because a file may be reached through more than one share.
    #[cfg(not(test))]
    pub(crate) fn shared() -> &'static Unsynced {
        static ALL: std::sync::OnceLock<Unsynced> = std::sync::OnceLock::new();
        ALL.get_or_init(Unsynced::default)
    }

    /// Returns separate notes for each share, so that concurrent tests do not interfere through a reused inode number.
    #[cfg(test)]
    pub(crate) fn shared() -> &'static Unsynced {
        Box::leak(Box::default())
    }

    /// Records that the file has a new name.
    pub(crate) fn note(&self, file: FileId) {
        self.0.lock().add(file, Instant::now());
    }

    /// Removes the note `number`, because the file's names are on disk.
    fn forget(&self, file: FileId, number: Option<u64>) {
        let mut notes = self.0.lock();
        if number.is_some() && notes.find(file) == number {
            notes.remove(file);
        }
    }

    /// Records that the file has no name any more.
    pub(crate) fn gone(&self, file: FileId) {
        self.0.lock().remove(file);
    }

    /// Returns whether a name of the file may not be on disk, and the number of the note.
    fn is_noted(&self, file: FileId) -> Option<Option<u64>> {
        let notes = self.0.lock();
        match notes.find(file) {
            Some(number) => Some(Some(number)),
            None => notes.overflowed.filter(|until| Instant::now() < *until).map(|_| None),
        }
    }
}

/// Directories in which a handle has created links that may not be on disk.
#[derive(Default)]
pub(crate) struct Linked {
    directories: Vec<RelPath>,
    /// Whether there are more directories than are recorded.
    many: bool,
}

/// Maximum number of directories that are recorded individually.
const LINKED: usize = 16;

impl Linked {
    pub(crate) fn note(&mut self, directory: RelPath) {
        if self.directories.len() >= LINKED {
            self.many = true;
        } else if !self.directories.contains(&directory) {
            self.directories.push(directory);
        }
    }
}

impl Open {
    /// Flushes the content, and the name if it is new.
    pub(crate) fn flush(&self) -> Result<()> {
        if !matches!(self.kind, Kind::File | Kind::Directory) {
            return Ok(());
        }
        identity::assume_process().map_err(errno)?;
        let reading = OFlags::RDONLY | OFlags::NONBLOCK;
        let reopened = if self.access.is_none() { Some(self.share.root.reopen(self.fd(), reading)?) } else { None };
        let fd = reopened.as_ref().map_or(self.fd(), AsFd::as_fd);
        self.share.sync(fd, self.id)?;
        if let Some(linked) = self.linked.lock().take() {
            let synced = self.share.sync_linked(fd, &linked);
            if synced.is_err() {
                *self.linked.lock() = Some(linked);
                return synced;
            }
        }
        if self.id == self.share.root.id {
            return Ok(());
        }
        let Some(number) = self.share.unsynced.is_noted(self.id) else { return Ok(()) };
        match self.share.directory_of(fd, self.id) {
            // It has no name any more.
            Ok(None) => return Ok(()),
            Ok(Some(directory)) => self.share.sync_upwards(fd, directory)?,
            // The path cannot be found, or leads out of the share.
            Err(_) => rustix::fs::syncfs(fd).map_err(errno)?,
        }
        self.share.unsynced.forget(self.id, number);
        Ok(())
    }
}

impl Share {
    fn sync(&self, fd: impl AsFd, _file: FileId) -> Result<()> {
        #[cfg(test)]
        self.synced.lock().push(_file);
        rustix::fs::fsync(fd).map_err(errno)
    }

    /// Syncs links to the file of `fd`. A directory that has been removed contains none.
    fn sync_linked(&self, fd: BorrowedFd<'_>, linked: &Linked) -> Result<()> {
        if linked.many {
            return rustix::fs::syncfs(fd).map_err(errno);
        }
        for directory in &linked.directories {
            match self.root.changed_directory(directory) {
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(_) => rustix::fs::syncfs(fd).map_err(errno)?,
                Ok(held) => {
                    self.sync_upwards(fd, self.root.reopen(&held, OFlags::RDONLY | OFlags::DIRECTORY)?)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the file's current directory, open for reading; `None` if the file has no name any more.
    fn directory_of(&self, fd: impl AsFd, file: FileId) -> Result<Option<OwnedFd>> {
        for _ in 0..RACES {
            if stat(&fd)?.stx_nlink == 0 {
                return Ok(None);
            }
            let path = self.path_of(&fd)?;
            let (Some(parent), Some(name)) = (path.parent(), path.name()) else { return Err(Errno::NOENT) };
            let Ok(directory) = self.root.changed_directory(&parent) else { continue };
            if stat_name(&directory, name).is_ok_and(|found| id(&found) == file) {
                return self.root.reopen(&directory, OFlags::RDONLY | OFlags::DIRECTORY).map(Some);
            }
        }
        Err(Errno::NOENT)
    }

    /// Returns the kernel's path of `fd`, relative to the share's root. The file may have been moved or removed since.
    pub(crate) fn path_of(&self, fd: impl AsFd) -> Result<RelPath> {
        let place = |fd| {
            let (proc, magic) = self.root.magic(fd);
            rustix::fs::readlinkat(proc, magic.as_c_str(), Vec::new()).map_err(errno)
        };
        let (file, root) = (place(fd.as_fd())?, place(self.root.fd())?);
        let path = |text| Path::new(std::ffi::OsStr::from_bytes(text));
        let within = path(file.as_bytes()).strip_prefix(path(root.as_bytes())).map_err(|_| Errno::XDEV)?;
        let mut relative = RelPath::root();
        for name in within.iter() {
            if !relative.push(name.as_bytes()) {
                return Err(Errno::NAMETOOLONG);
            }
        }
        Ok(relative)
    }

    /// Syncs the names of a directory, and its own name and those above it as far as they are new. If the server may
    /// not read one of the directories, the whole file system of `fd` is synced.
    fn sync_upwards(&self, fd: BorrowedFd<'_>, mut directory: OwnedFd) -> Result<()> {
        let mut file = id(&stat(&directory)?);
        self.sync(&directory, file)?;
        for _ in 0..DEPTH {
            if file == self.root.id {
                break;
            }
            let Some(number) = self.unsynced.is_noted(file) else { break };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let parent = match rustix::fs::openat(&directory, "..", flags, Mode::empty()) {
                Err(Raw::ACCESS | Raw::PERM) => return rustix::fs::syncfs(fd).map_err(errno),
                parent => parent.map_err(errno)?,
            };
            let above = id(&stat(&parent)?);
            if above == file {
                break;
            }
            self.sync(&parent, above)?;
            self.unsynced.forget(file, number);
            (directory, file) = (parent, above);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: u64) -> FileId {
        FileId { device: 1, inode, stream: 0 }
    }

    #[test]
    fn a_note_is_removed_unless_it_was_repeated() {
        let unsynced = Unsynced::default();
        assert_eq!(unsynced.is_noted(file(1)), None);
        unsynced.note(file(1));
        unsynced.note(file(1));
        assert_eq!(unsynced.is_noted(file(1)), Some(Some(2)));
        unsynced.forget(file(1), Some(1));
        assert_eq!(unsynced.is_noted(file(1)), Some(Some(2)), "the file was renamed while it was flushed");
        unsynced.forget(file(1), Some(2));
        assert_eq!(unsynced.is_noted(file(1)), None);
    }

    #[test]
    fn notes_are_bounded_and_dropping_one_too_early_makes_all_files_suspect() {
        let unsynced = Unsynced::default();
        for inode in 0..2 * NOTED as u64 {
            unsynced.note(file(inode));
        }
        assert_eq!(unsynced.is_noted(file(0)), Some(Some(1)), "none was dropped");
        assert_eq!(unsynced.is_noted(file(1 << 32)), None);
        unsynced.note(file(1 << 32));
        assert_eq!(unsynced.is_noted(file(0)), Some(None));
        let notes = unsynced.0.lock();
        assert!(notes.new.len() == 1 && notes.old.len() == NOTED);
    }

    #[test]
    fn a_note_is_kept_until_the_kernel_has_written_the_directory() {
        let (mut notes, start) = (Notes::default(), Instant::now());
        notes.add(file(1), start);
        notes.add(file(2), start + WRITTEN_BACK - Duration::from_secs(1));
        notes.add(file(3), start + WRITTEN_BACK);
        assert!([1, 2, 3].iter().all(|&inode| notes.find(file(inode)).is_some()));
        notes.add(file(2), start + WRITTEN_BACK);
        notes.add(file(4), start + 2 * WRITTEN_BACK);
        assert_eq!([1, 2, 3, 4].map(|inode| notes.find(file(inode))), [None, Some(4), Some(3), Some(5)]);
        assert_eq!(notes.overflowed, None);
    }
}
