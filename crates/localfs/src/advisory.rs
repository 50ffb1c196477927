//! A lock between programs on a file of the server's own, which they change in turns: smbpasswd(5) and its like.
//!
//! It belongs to the open file and ends with it, and it is in the way of other programs' fcntl(2) locks. Whoever waits
//! for one asks again: the kernel's own waiting has no end.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::sys;

/// Whom a lock keeps out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keeps {
    /// Those who write.
    WritersOut,
    /// Everybody.
    EverybodyOut,
}

/// Locks `length` bytes of `file` from `offset` on, and says whether it could: not while another has a lock in the way.
/// `length` 0 is all there can be. The file must be open for writing where everybody is kept out.
pub fn try_lock(file: BorrowedFd<'_>, keeps: Keeps, offset: i64, length: i64) -> std::io::Result<bool> {
    let kind = match keeps {
        Keeps::WritersOut => libc::F_RDLCK,
        Keeps::EverybodyOut => libc::F_WRLCK,
    };
    match sys::lock_range(file, kind, offset, length) {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn one_writer_or_many_readers_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).open(dir.path().join("f")).unwrap()
        };
        let lock = |file: &std::fs::File, keeps| try_lock(file.as_fd(), keeps, 0, 1).unwrap();
        let (first, second) = (open(), open());
        assert!(lock(&first, Keeps::WritersOut) && lock(&second, Keeps::WritersOut));
        assert!(!lock(&first, Keeps::EverybodyOut));
        drop(second);
        assert!(lock(&first, Keeps::EverybodyOut));
        let second = open();
        assert!(!lock(&second, Keeps::WritersOut));
        // Another open of the file that is closed takes nothing from this one.
        drop(second);
        assert!(!lock(&open(), Keeps::WritersOut));
        drop(first);
        assert!(lock(&open(), Keeps::EverybodyOut));
    }
}
