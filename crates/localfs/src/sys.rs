//! The only unsafe code of this crate: system calls that rustix does not offer.
#![allow(unsafe_code, reason = "raw system calls, each with its argument for safety")]

use rustix::io::Errno;

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
