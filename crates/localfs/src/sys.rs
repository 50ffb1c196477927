//! The only unsafe code of this crate: system calls that rustix does not offer.
#![allow(unsafe_code, reason = "raw system calls, each with its argument for safety")]

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// Makes `length` bytes of `to` from `offset` on share the room of `from` from `source` on; 0: up to the end.
pub(crate) fn clone_range(
    to: impl AsFd,
    from: impl AsFd,
    source: u64,
    offset: u64,
    length: u64,
) -> rustix::io::Result<()> {
    let range = libc::file_clone_range {
        src_fd: from.as_fd().as_raw_fd().into(),
        src_offset: source,
        src_length: length,
        dest_offset: offset,
    };
    // SAFETY: both descriptors are open for as long as they are borrowed; the call reads `range`, which is of its type,
    // and writes no memory.
    let done = unsafe { libc::ioctl(to.as_fd().as_raw_fd(), libc::FICLONERANGE, &raw const range) };
    if done == 0 { Ok(()) } else { Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)) }
}

/// Takes (`Some(true)`: for writing) or gives back (`None`) a lease on an open file. Nobody is killed when it is broken.
#[cfg(test)]
pub(crate) fn set_lease(file: &std::fs::File, lease: Option<bool>) -> std::io::Result<()> {
    /// Of `fcntl.h`: which signal tells that the lease is broken.
    const F_SETSIG: libc::c_int = 10;
    let kind = lease.map_or(libc::F_UNLCK, |writing| if writing { libc::F_WRLCK } else { libc::F_RDLCK });
    // SAFETY: both calls take numbers; SIGCHLD, which is ignored, replaces a signal that would end the process.
    let done = unsafe {
        libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGCHLD);
        libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind)
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// No user and no group: what asks for the present value and changes nothing.
const NOBODY: u32 = u32::MAX;

/// Sets the calling thread's fsuid.
pub(crate) fn set_fsuid(uid: u32) -> rustix::io::Result<()> {
    set_checked(libc::SYS_setfsuid, uid)
}

/// Sets the calling thread's fsgid.
pub(crate) fn set_fsgid(gid: u32) -> rustix::io::Result<()> {
    set_checked(libc::SYS_setfsgid, gid)
}

/// These two calls answer the former value, never an error: only asking again tells whether they did anything.
fn set_checked(number: libc::c_long, id: u32) -> rustix::io::Result<()> {
    if id == NOBODY {
        return Err(Errno::INVAL);
    }
    // SAFETY: setfsuid and setfsgid take a number and touch no memory.
    unsafe { libc::syscall(number, id) };
    // SAFETY: as above.
    let now = unsafe { libc::syscall(number, NOBODY) };
    // The kernel answers an int: ids from 2^31 come back negative.
    if now as i32 as u32 == id { Ok(()) } else { Err(Errno::PERM) }
}
