//! Files that this process has just written and closed. Their content is at rest sooner than that of files which a
//! program may still be writing ([`crate::pipes`]).

use parking_lot::Mutex;
use server::vfs::{FileId, Time};

/// Number of files that are remembered. Another file may take the place of one.
const PLACES: usize = 64;

/// The last close of a file: its change time at that moment.
type Closed = Option<(FileId, Time)>;

/// A place has cache lines of its own, so that processors do not disturb each other.
#[repr(align(128))]
struct Place(Mutex<Closed>);

static FILES: [Place; PLACES] = [const { Place(Mutex::new(None)) }; PLACES];

fn place(id: FileId) -> &'static Mutex<Closed> {
    let mixed = (id.inode ^ id.device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &FILES[(mixed >> 58) as usize].0
}

/// Notes that a handle which has written to the file is closed.
pub(crate) fn closed(id: FileId, changed: Time) {
    *place(id).lock() = Some((id, changed));
}

/// Notes that the file is opened for writing.
pub(crate) fn opened(id: FileId) {
    let mut place = place(id).lock();
    if place.is_some_and(|(closed, _)| closed == id) {
        *place = None;
    }
}

/// Returns whether the file, whose change time is `changed`, has not changed since a handle that had written to it was
/// closed, and has not been opened for writing since.
pub(crate) fn is_at_rest(id: FileId, changed: Time) -> bool {
    *place(id).lock() == Some((id, changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_at_rest_until_it_changes_or_is_opened() {
        let file = |inode| FileId { device: 7, inode, stream: 0 };
        let at = |secs| Time { secs, nanos: 5 };
        closed(file(1), at(10));
        assert!(is_at_rest(file(1), at(10)));
        assert!(!is_at_rest(file(1), at(11)), "it has changed");
        assert!(!is_at_rest(file(2), at(10)), "another file");
        opened(file(2));
        assert!(is_at_rest(file(1), at(10)));
        opened(file(1));
        assert!(!is_at_rest(file(1), at(10)));
        for inode in 0..10_000 {
            closed(file(inode), at(10));
        }
        let known = (0..10_000).filter(|&inode| is_at_rest(file(inode), at(10))).count();
        assert_eq!(known, PLACES);
    }
}
