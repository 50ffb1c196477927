//! The only unsafe code of this crate: system calls that rustix does not offer for a single thread.
#![allow(unsafe_code, reason = "raw system calls, each with its argument for safety")]

use std::io;

/// Sets the calling thread's fsuid.
pub(crate) fn set_fsuid(uid: u32) -> io::Result<()> {
    // SAFETY: setfsuid takes a number and touches no memory. Its result is the former value, never an error.
    unsafe { libc::syscall(libc::SYS_setfsuid, uid) };
    // SAFETY: as above; -1 changes nothing and answers the present value.
    let now = unsafe { libc::syscall(libc::SYS_setfsuid, u32::MAX) };
    if now == i64::from(uid) { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Sets the calling thread's fsgid.
pub(crate) fn set_fsgid(gid: u32) -> io::Result<()> {
    // SAFETY: setfsgid takes a number and touches no memory.
    unsafe { libc::syscall(libc::SYS_setfsgid, gid) };
    // SAFETY: as above; -1 changes nothing and answers the present value.
    let now = unsafe { libc::syscall(libc::SYS_setfsgid, u32::MAX) };
    if now == i64::from(gid) { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Sets the calling thread's supplementary groups; libc's function would set all threads'.
pub(crate) fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: the pointer is that of a slice of `len` gids, which the kernel only reads.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The supplementary groups of the calling thread.
pub(crate) fn process_groups() -> Vec<u32> {
    rustix::process::getgroups().map(|groups| groups.iter().map(|gid| gid.as_raw()).collect()).unwrap_or_default()
}
