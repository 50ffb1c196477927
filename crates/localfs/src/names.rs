//! Names that differ in case only: an index of each directory that is asked for them, so that a name that does not exist
//! costs no walk through its directory.
//!
//! An index is built by reading the directory once and is good as long as the directory's ctime and mtime stay the same,
//! so what others change is seen. A directory that changed within the last moments is read again the next time.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use server::name;
use server::vfs::{Errno, FileId, RelPath, Result, Time};

use crate::cache::is_settled;
use crate::errno;

/// How many names all indexes together may hold.
const MAX_NAMES: usize = 2_000_000;

/// The indexes of a share.
#[derive(Default)]
pub(crate) struct Names {
    indexes: Mutex<Indexes>,
}

#[derive(Default)]
struct Indexes {
    by_directory: HashMap<FileId, Arc<Index>>,
    names: usize,
}

struct Index {
    /// ctime and mtime of the directory when it was read.
    stamp: (Time, Time),
    /// Folded name to the name on disk; the first in the order of bytes where several fold alike.
    by_key: HashMap<Box<[u8]>, Box<[u8]>>,
}

impl Names {
    /// The name in `directory` (a handle) that differs from `name` in case only; `None` where there is none.
    pub(crate) fn find(&self, directory: &OwnedFd, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let (id, stamp) = stamp(directory)?;
        let key = name::fold_key(name);
        let known = self.indexes.lock().by_directory.get(&id).filter(|index| index.stamp == stamp).cloned();
        let index = match known {
            Some(index) => index,
            None => match self.build(directory, id, stamp) {
                Ok(index) => index,
                // Who may search but not read a directory must spell its names right.
                Err(Errno::ACCES) => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        Ok(index.by_key.get(&*key).map(|spelled| spelled.to_vec()))
    }

    fn build(&self, directory: &OwnedFd, id: FileId, stamp: (Time, Time)) -> Result<Arc<Index>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = rustix::fs::openat(directory, ".", flags, Mode::empty()).map_err(errno)?;
        let mut by_key: HashMap<Box<[u8]>, Box<[u8]>> = HashMap::new();
        let mut buffer = Vec::with_capacity(64 * 1024);
        let mut entries = rustix::fs::RawDir::new(&open, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(errno)?;
            let spelled = entry.file_name().to_bytes();
            if matches!(spelled, b"." | b"..") {
                continue;
            }
            let key = name::fold_key(spelled).into_boxed_slice();
            let first = by_key.get(&key).is_none_or(|known| spelled < &**known);
            if first {
                by_key.insert(key, spelled.into());
            }
        }
        let index = Arc::new(Index { stamp, by_key });
        if is_settled(stamp.0) && is_settled(stamp.1) {
            self.keep(id, &index);
        }
        Ok(index)
    }

    fn keep(&self, id: FileId, index: &Arc<Index>) {
        let mut indexes = self.indexes.lock();
        if indexes.names + index.by_key.len() > MAX_NAMES {
            indexes.by_directory.clear();
            indexes.names = 0;
        }
        indexes.names += index.by_key.len();
        if let Some(old) = indexes.by_directory.insert(id, index.clone()) {
            indexes.names -= old.by_key.len();
        }
    }

    /// This server made `path`. The directory's time stamps tell; nothing is to be done yet.
    pub(crate) fn added(&self, _path: &RelPath) {}

    /// This server renamed or removed a name. As above.
    pub(crate) fn changed(&self) {}
}

fn stamp(directory: &OwnedFd) -> Result<(FileId, (Time, Time))> {
    let wanted = StatxFlags::INO | StatxFlags::CTIME | StatxFlags::MTIME;
    let stat = rustix::fs::statx(directory, "", AtFlags::EMPTY_PATH, wanted).map_err(errno)?;
    let time = |time: rustix::fs::StatxTimestamp| Time { secs: time.tv_sec, nanos: time.tv_nsec };
    let id = FileId { device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino };
    Ok((id, (time(stat.stx_ctime), time(stat.stx_mtime))))
}
