//! Reading directories.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{RawDir, SeekFrom};
use server::vfs::xattr::DosAttributes;
use server::vfs::{Entry, Identity, ListRequest, Metadata, Result};

use crate::filesystem::FileSystem;
use crate::metadata::{Source, describe};
use crate::node::Open;
use crate::{errno, identity, root};

/// Bytes per read: several hundred entries.
const BUFFER: usize = 32 * 1024;
/// Length of a directory, as the file system reports it, that is listed on the calling thread. A directory from which
/// many names were removed may still be long, and then takes long to read.
const SMALL: u64 = 16 * 1024;
/// Number of entries after which the time is checked.
const AT_ONCE: usize = 16;
/// How long the calling thread lists. A file whose inode has to be read from a disk takes longer, and the next ones
/// probably do, too.
const BRIEF: Duration = Duration::from_millis(1);

/// Calls `each` with every name of the directory except `.` and `..` until it returns `false`. Returns whether it never
/// did.
pub(crate) fn each_name(fd: &OwnedFd, mut each: impl FnMut(&[u8]) -> bool) -> Result<bool> {
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut entries = RawDir::new(fd, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(errno)?;
        let name = entry.file_name().to_bytes();
        if !is_dots(name) && !each(name) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Returns the metadata of `name` in the directory `open`, held by `fd`. For a mount point of a file system that may
/// block any call, it is limited to the metadata that the kernel has cached, because threads of this directory's file
/// system wait for no other.
pub(crate) fn metadata_of(open: &Open, fd: BorrowedFd<'_>, name: &[u8]) -> Result<Metadata> {
    let local = open.system.is_local();
    let stat = if local { root::glance_at(fd, name)? } else { root::stat_name(fd, name)? };
    if local && stat.stx_mnt_id != open.system.mount && !FileSystem::of(&stat).is_local() {
        return Ok(describe(&stat, DosAttributes::default()));
    }
    Ok(open.share.metadata(&stat, Source::Named(fd, name)))
}

/// A directory that is being listed.
pub(crate) struct Listing {
    fd: OwnedFd,
    /// The user that it was opened for.
    pub(crate) who: Option<Arc<Identity>>,
    /// Entries that were read and not listed yet.
    ahead: VecDeque<Ahead>,
    /// The position before `ahead`.
    at: u64,
    /// The directory ends after `ahead`.
    ended: bool,
    /// The directory is small, and no part of it took long.
    is_quick: bool,
}

struct Ahead {
    name: Box<[u8]>,
    /// The position after it.
    next: u64,
}

impl Listing {
    /// Lists the directory of `fd`, which is open for reading.
    pub(crate) fn new(fd: OwnedFd, who: Option<Arc<Identity>>) -> Result<Listing> {
        let is_quick = root::stat(&fd)?.stx_size <= SMALL;
        Ok(Listing { fd, who, ahead: VecDeque::new(), at: 0, ended: false, is_quick })
    }

    /// Returns the entries that are requested, and the position after them.
    pub(crate) fn entries(
        &mut self,
        asked: ListRequest,
        who: &Arc<Identity>,
        open: &Open,
    ) -> Result<(Vec<Entry>, u64)> {
        let (mut entries, next) = self.names(asked.cursor, asked.count)?;
        if asked.metadata {
            self.describe(who, open, &mut entries)?;
        }
        Ok((entries, next))
    }

    /// Like [`Listing::entries`], as far as that takes the time of a few other calls. Returns `None` if it would take
    /// longer: the directory is large, or its files are not in the kernel's caches.
    pub(crate) fn entries_at_once(
        &mut self,
        asked: ListRequest,
        who: &Arc<Identity>,
        open: &Open,
    ) -> Result<Option<(Vec<Entry>, u64)>> {
        if !self.is_quick {
            return Ok(None);
        }
        let start = Instant::now();
        let (mut found, mut next) = (Vec::new(), asked.cursor);
        while found.len() < asked.count.max(1) && self.is_quick {
            let count = (asked.count.max(1) - found.len()).min(AT_ONCE);
            let (mut entries, after) = self.entries(ListRequest { cursor: next, count, ..asked }, who, open)?;
            if entries.is_empty() {
                break;
            }
            found.append(&mut entries);
            next = after;
            self.is_quick = start.elapsed() < BRIEF;
        }
        Ok(Some((found, next)))
    }

    /// Returns whether all entries were returned.
    pub(crate) fn is_at_end(&self) -> bool {
        self.ended && self.ahead.is_empty()
    }

    /// Returns up to `count` names after `cursor`, and the position after them.
    fn names(&mut self, cursor: u64, count: usize) -> Result<(Vec<Entry>, u64)> {
        // From the start, everything is read again.
        if cursor != self.at || cursor == 0 {
            rustix::fs::seek(&self.fd, SeekFrom::Start(cursor)).map_err(errno)?;
            self.ahead.clear();
            (self.at, self.ended) = (cursor, false);
        }
        let mut entries = Vec::new();
        while entries.len() < count.max(1) {
            if self.ahead.is_empty() {
                if self.ended {
                    break;
                }
                self.fill()?;
            }
            let Some(Ahead { name, next }) = self.ahead.pop_front() else { continue };
            self.at = next;
            if !is_dots(&name) {
                entries.push(Entry { name, metadata: None });
            }
        }
        Ok((entries, self.at))
    }

    /// Reads one buffer of entries.
    fn fill(&mut self) -> Result<()> {
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(&self.fd, buffer.spare_capacity_mut());
        loop {
            match entries.next() {
                None => self.ended = true,
                // A directory that was removed has no entries.
                Some(Err(rustix::io::Errno::NOENT)) => self.ended = true,
                Some(entry) => {
                    let entry = entry.map_err(errno)?;
                    let name = Box::from(entry.file_name().to_bytes());
                    self.ahead.push_back(Ahead { name, next: entry.next_entry_cookie() });
                }
            }
            if self.ended || entries.is_buffer_empty() {
                return Ok(());
            }
        }
    }

    /// Adds the metadata that `who` may see to each entry.
    fn describe(&self, who: &Arc<Identity>, open: &Open, entries: &mut [Entry]) -> Result<()> {
        for entry in entries {
            // Each time, because reading attributes may have switched the thread to the process's identity.
            identity::assume(who)?;
            entry.metadata = metadata_of(open, self.fd.as_fd(), &entry.name).ok();
        }
        Ok(())
    }
}
