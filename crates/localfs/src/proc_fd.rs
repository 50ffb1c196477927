//! Extended attributes of files held by a descriptor without data access. The kernel requires a path for them, so the
//! path of the descriptor in `/proc/self/fd` is used. Starting there is a quarter cheaper than starting at the root
//! directory.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::{Arg, DecInt};

use crate::sys;

/// `/proc/self/fd`.
static DIRECTORY: OnceLock<OwnedFd> = OnceLock::new();

/// Whether the kernel lacks `getxattrat`, which Linux has since 6.13.
static LACKS_AT: AtomicBool = AtomicBool::new(false);

/// Returns `/proc/self/fd`, opened on first use.
pub(crate) fn directory() -> io::Result<BorrowedFd<'static>> {
    if DIRECTORY.get().is_none() {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open("/proc/self/fd", flags, Mode::empty())?;
        // Another thread may have been first.
        let _ = DIRECTORY.set(opened);
    }
    DIRECTORY.get().map(AsFd::as_fd).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns a path to the file of `fd`, for calls that accept only paths. Only the kernel's own link is followed.
pub(crate) fn path(fd: impl AsFd) -> Vec<u8> {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()).into_bytes()
}

/// Reads the attribute `name` of the file of `fd`.
pub(crate) fn getxattr(fd: impl AsFd, name: &str, value: &mut [u8]) -> rustix::io::Result<usize> {
    let link = DecInt::from_fd(fd.as_fd());
    match directory().map(|directory| at(directory, link.as_c_str(), AtFlags::empty(), name, value)) {
        Ok(Some(answer)) => answer,
        _ => rustix::fs::getxattr(path(fd), name, value),
    }
}

/// Lists the names of the attributes of the file of `fd`.
pub(crate) fn listxattr(fd: impl AsFd, names: &mut [u8]) -> rustix::io::Result<usize> {
    let link = DecInt::from_fd(fd.as_fd());
    let answer = match directory() {
        Ok(directory) if !LACKS_AT.load(Ordering::Relaxed) => sys::listxattr_at(directory, link.as_c_str(), names),
        _ => Err(Errno::NOSYS),
    };
    match answer {
        // The error is of the file, or of a seccomp filter that does not support the call.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::listxattr(path(fd), names),
        answer => answer,
    }
}

/// Reads the attribute `name` of `entry` in `directory`, without following a link.
pub(crate) fn getxattr_of(
    directory: impl AsFd,
    entry: &[u8],
    name: &str,
    value: &mut [u8],
) -> rustix::io::Result<usize> {
    match at(directory.as_fd(), entry, AtFlags::SYMLINK_NOFOLLOW, name, value) {
        Some(answer) => answer,
        None => rustix::fs::lgetxattr([&path(directory), &b"/"[..], entry].concat(), name, value),
    }
}

/// Calls `getxattrat`; `None` where it is missing or forbidden.
fn at(
    directory: BorrowedFd<'_>,
    entry: impl Arg,
    flags: AtFlags,
    name: &str,
    value: &mut [u8],
) -> Option<rustix::io::Result<usize>> {
    if LACKS_AT.load(Ordering::Relaxed) {
        return None;
    }
    let call = |entry: &_| name.into_with_c_str(|name| sys::getxattr_at(directory, entry, flags, name, value));
    match entry.into_with_c_str(call) {
        Err(Errno::NOSYS) => {
            LACKS_AT.store(true, Ordering::Relaxed);
            None
        }
        // The error is of the file, or of a seccomp filter that does not support the call.
        Err(Errno::PERM) => None,
        answer => Some(answer),
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::XattrFlags;

    use super::*;

    #[test]
    fn attributes_are_read_with_and_without_the_new_system_call() {
        let dir = tempfile::tempdir().expect("there is free space");
        std::fs::write(dir.path().join("file"), "").expect("there is free space");
        std::os::unix::fs::symlink("file", dir.path().join("link")).expect("there is free space");
        let open = |path| rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).expect("it exists");
        let (directory, file, link) =
            (open(dir.path().into()), open(dir.path().join("file")), open(dir.path().join("link")));
        rustix::fs::setxattr(path(&file), "user.a", b"value", XattrFlags::empty()).expect("the test owns the file");
        let check = || {
            let mut value = [0; 16];
            assert_eq!(getxattr(&file, "user.a", &mut value), Ok(5));
            assert_eq!(&value[..5], b"value");
            assert_eq!(getxattr_of(&directory, b"file", "user.a", &mut value), Ok(5));
            for result in [getxattr(&file, "user.b", &mut value), getxattr(&directory, "user.a", &mut value)] {
                assert_eq!(result, Err(Errno::NODATA));
            }
            assert_eq!(getxattr(&file, "user.a", &mut value[..2]), Err(Errno::RANGE));
            assert_eq!(getxattr_of(&directory, b"none", "user.a", &mut value), Err(Errno::NOENT));
            let mut names = [0; 256];
            let length = listxattr(&file, &mut names).expect("the test owns the file");
            assert!(names[..length].split(|&byte| byte == 0).any(|name| name == b"user.a"));
            assert_eq!(listxattr(&file, &mut names[..1]), Err(Errno::RANGE));
            // Links have no such attributes, and the target is not read.
            assert!(getxattr_of(&directory, b"link", "user.a", &mut value).is_err());
            assert!(getxattr(&link, "user.a", &mut value).is_err());
        };
        check();
        LACKS_AT.store(true, Ordering::Relaxed);
        check();
        LACKS_AT.store(false, Ordering::Relaxed);
    }
}
