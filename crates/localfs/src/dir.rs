//! Reading directories.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{RawDir, SeekFrom};
use server::vfs::xattr::DosAttributes;
use server::vfs::{Entry, Errno, Identity, Metadata, Result};

use crate::filesystem::FileSystem;
use crate::metadata::{Source, describe};
use crate::node::Open;
use crate::{errno, identity, root};

/// Bytes of one reading: several hundred entries.
const BUFFER: usize = 32 * 1024;

/// Calls `each` with every name of the directory but `.` and `..` until it answers `false`; whether it never did.
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

/// What `name` in the directory `open`, which `fd` holds, is. Of what is mounted there, and may keep any call waiting, that
/// is what the kernel knows: threads of this directory's file system wait for no other.
pub(crate) fn metadata_of(open: &Open, fd: BorrowedFd<'_>, name: &[u8]) -> Result<Metadata> {
    let local = open.system.is_local();
    let stat = if local { root::glance_at(fd, name)? } else { root::stat_name(fd, name)? };
    if local && stat.stx_mnt_id != open.system.mount && !FileSystem::of(&stat).is_local() {
        return Ok(describe(&stat, DosAttributes::default()));
    }
    Ok(open.share.cache.metadata(&stat, Source::Named(fd, name)))
}

/// A directory that is being listed.
pub(crate) struct Listing {
    fd: OwnedFd,
    /// For whom it was opened.
    pub(crate) who: Option<Arc<Identity>>,
    /// What was read and not listed yet.
    ahead: VecDeque<Ahead>,
    /// The position in front of `ahead`.
    at: u64,
    /// The kernel has no more behind `ahead`.
    ended: bool,
}

struct Ahead {
    name: Box<[u8]>,
    /// The position behind it.
    next: u64,
}

impl Listing {
    /// Lists the directory that `fd` has open for reading.
    pub(crate) fn new(fd: OwnedFd, who: Option<Arc<Identity>>) -> Listing {
        Listing { fd, who, ahead: VecDeque::new(), at: 0, ended: false }
    }

    /// Up to `count` names behind `cursor`, and the position behind them.
    pub(crate) fn names(&mut self, cursor: u64, count: usize) -> Result<(Vec<Entry>, u64)> {
        // From the start, everything is read anew.
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

    /// Reads once.
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

    /// Adds what `who` may see of each entry.
    pub(crate) fn describe(&self, who: &Arc<Identity>, open: &Open, entries: &mut [Entry]) -> Result<()> {
        for entry in entries {
            // Each time: reading attributes may have made the thread the process's.
            identity::assume(who)?;
            entry.metadata = metadata_of(open, self.fd.as_fd(), &entry.name).ok();
        }
        Ok(())
    }
}

/// Whether the directory that `fd` has open for reading has no entries.
pub(crate) fn is_empty(fd: &OwnedFd) -> Result<bool> {
    match each_name(fd, |_| false) {
        Err(Errno::NOENT) => Ok(true),
        done => done,
    }
}
