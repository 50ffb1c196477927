//! A lock against other programs on a file that the server shares with them, such as smbpasswd(5).
//!
//! The lock belongs to the open file description and ends with it. It conflicts with other programs' fcntl(2) locks.
//! Callers that wait for a lock poll it, because waiting in the kernel has no time limit.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::sys;

/// The programs that a lock excludes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keeps {
    /// Programs that write.
    WritersOut,
    /// All programs.
    EverybodyOut,
}

/// Locks `length` bytes of `file` starting at `offset`. Returns `false` if a conflicting lock exists. `length` 0 means
/// the maximum. The file must be open for writing to exclude all programs.
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
        // Closing another open of the file does not release this one's lock.
        drop(second);
        assert!(!lock(&open(), Keeps::WritersOut));
        drop(first);
        assert!(lock(&open(), Keeps::EverybodyOut));
    }
}
