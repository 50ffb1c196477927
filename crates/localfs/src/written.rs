//! Files that this process has just written and closed. Their content is at rest sooner than that of files which a
//! program may still be writing ([`crate::pipes`]).

use std::collections::BTreeMap;

use parking_lot::Mutex;
use server::vfs::{FileId, Time};

/// Number of files that are remembered. Another file may take the place of one.
const PLACES: usize = 64;

/// The files of a place.
struct Files {
    /// The number of handles that are open for writing, by file.
    writers: BTreeMap<(u64, u64), usize>,
    /// The last close of a file's last handle for writing: its change time at that moment.
    closed: Option<(FileId, Time)>,
}

/// A place has cache lines of its own, so that processors do not disturb each other.
#[repr(align(128))]
struct Place(Mutex<Files>);

/// The files that have been written, and those that may be.
struct Table([Place; PLACES]);

static TABLE: Table = Table::new();

/// Notes that a handle is opened for writing. [`closed`] must be called when it is closed.
pub(crate) fn opened(id: FileId) {
    TABLE.opened(id);
}

/// Notes that a handle for writing is closed. If it is the file's last one, `changed` returns the file's change time;
/// `None` if nothing was written through the handle.
pub(crate) fn closed(id: FileId, changed: impl FnOnce() -> Option<Time>) {
    TABLE.closed(id, changed);
}

/// Returns whether the file, whose change time is `changed`, has not changed since its last handle for writing was
/// closed, and has not been opened for writing since.
pub(crate) fn is_at_rest(id: FileId, changed: Time) -> bool {
    TABLE.is_at_rest(id, changed)
}

impl Table {
    const fn new() -> Table {
        Table([const { Place(Mutex::new(Files { writers: BTreeMap::new(), closed: None })) }; PLACES])
    }

    fn place(&self, id: FileId) -> &Mutex<Files> {
        let mixed = (id.inode ^ id.device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(mixed >> 58) as usize].0
    }

    fn opened(&self, id: FileId) {
        let mut files = self.place(id).lock();
        *files.writers.entry((id.device, id.inode)).or_default() += 1;
        if files.closed.is_some_and(|(closed, _)| closed == id) {
            files.closed = None;
        }
    }

    fn closed(&self, id: FileId, changed: impl FnOnce() -> Option<Time>) {
        let mut files = self.place(id).lock();
        let Some(writers) = files.writers.get_mut(&(id.device, id.inode)) else { return };
        *writers -= 1;
        if *writers == 0 {
            files.writers.remove(&(id.device, id.inode));
            // Under the lock, so that a handle that is opened meanwhile is noted after this.
            if let Some(changed) = changed() {
                files.closed = Some((id, changed));
            }
        }
    }

    fn is_at_rest(&self, id: FileId, changed: Time) -> bool {
        self.place(id).lock().closed == Some((id, changed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn file(inode: u64) -> FileId {
        FileId { device: 7, inode, stream: 0 }
    }

    const fn at(secs: i64) -> Time {
        Time { secs, nanos: 5 }
    }

    #[test]
    fn a_file_is_at_rest_until_it_changes_or_is_opened() {
        let table = Table::new();
        table.opened(file(1));
        table.closed(file(1), || Some(at(10)));
        assert!(table.is_at_rest(file(1), at(10)));
        assert!(!table.is_at_rest(file(1), at(11)), "it has changed");
        assert!(!table.is_at_rest(file(2), at(10)), "another file");
        table.opened(file(1));
        assert!(!table.is_at_rest(file(1), at(10)));
        table.closed(file(1), || None);
        assert!(!table.is_at_rest(file(1), at(10)), "nothing was written");
    }

    #[test]
    fn a_file_that_another_handle_may_write_is_not_at_rest() {
        let table = Table::new();
        table.opened(file(3));
        table.opened(file(3));
        table.closed(file(3), || Some(at(10)));
        assert!(!table.is_at_rest(file(3), at(10)));
        table.closed(file(3), || Some(at(10)));
        assert!(table.is_at_rest(file(3), at(10)));
    }

    #[test]
    fn few_files_are_remembered() {
        let table = Table::new();
        for inode in 1_000..10_000 {
            table.opened(file(inode));
            table.closed(file(inode), || Some(at(20)));
        }
        let known = (1_000..10_000).filter(|&inode| table.is_at_rest(file(inode), at(20))).count();
        assert!(known <= PLACES, "{known}");
        assert!(table.0.iter().all(|place| place.0.lock().writers.is_empty()));
    }
}
