//! The only unsafe code of this crate: system calls that rustix does not offer.
#![allow(unsafe_code, reason = "raw system calls, each with its argument for safety")]

use std::ffi::CStr;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::AtFlags;
use rustix::io::Errno;
use rustix::thread::Pid;

/// Of `fcntl.h`: which signal tells that a lease is broken.
const F_SETSIG: libc::c_int = 10;
/// Of `fcntl.h`: who gets it.
const F_SETOWN_EX: libc::c_int = 15;
/// A thread gets it, and no other of its process.
const F_OWNER_TID: libc::c_int = 0;

/// `struct f_owner_ex`.
#[repr(C)]
struct Owner {
    kind: libc::c_int,
    pid: libc::pid_t,
}

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
    checked(unsafe { libc::ioctl(to.as_fd().as_raw_fd(), libc::FICLONERANGE, &raw const range) }).map(drop)
}

/// `struct xattr_args` of `linux/xattr.h`.
#[repr(C, align(8))]
struct XattrArguments {
    value: u64,
    size: u32,
    flags: u32,
}

/// `getxattrat` has this number wherever Rust's standard library runs on Linux, but for MIPS, where no call has it.
const SYS_GETXATTRAT: libc::c_long = 464;
/// `listxattrat`, likewise.
const SYS_LISTXATTRAT: libc::c_long = 465;

/// Reads the attribute `name` of what `path` leads to from `directory`; `Errno::NOSYS` before Linux 6.13.
pub(crate) fn getxattr_at(
    directory: BorrowedFd<'_>,
    path: &CStr,
    flags: AtFlags,
    name: &CStr,
    value: &mut [u8],
) -> rustix::io::Result<usize> {
    let size = u32::try_from(value.len()).unwrap_or(u32::MAX);
    let arguments = XattrArguments { value: value.as_mut_ptr() as u64, size, flags: 0 };
    // SAFETY: both strings end with 0 and `arguments` is of the size that is said; all live until the call is done, which
    // writes at most `size` bytes to `value`.
    let answer = unsafe {
        libc::syscall(
            SYS_GETXATTRAT,
            directory.as_raw_fd(),
            path.as_ptr(),
            flags.bits(),
            name.as_ptr(),
            &raw const arguments,
            size_of::<XattrArguments>(),
        )
    };
    checked(answer as libc::c_int).map(|length| length as usize)
}

/// `listxattrat`, which Linux has had since 6.13, with `flags` 0: the names go to `names`.
pub(crate) fn listxattr_at(directory: BorrowedFd<'_>, path: &CStr, names: &mut [u8]) -> rustix::io::Result<usize> {
    // SAFETY: `path` ends with 0; both live until the call is done, which writes at most as many bytes as are said.
    let answer = unsafe {
        libc::syscall(SYS_LISTXATTRAT, directory.as_raw_fd(), path.as_ptr(), 0, names.as_mut_ptr(), names.len())
    };
    checked(answer as libc::c_int).map(|length| length as usize)
}

/// What a lease is for, or that there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum LeaseKind {
    /// Nobody writes.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the tests play the reader"))]
    Reading = libc::F_RDLCK,
    /// Nobody else has the file open.
    Writing = libc::F_WRLCK,
    /// None.
    Free = libc::F_UNLCK,
}

/// Takes a lease on an open file, or gives it back.
pub(crate) fn set_lease(file: BorrowedFd<'_>, kind: LeaseKind) -> rustix::io::Result<()> {
    // SAFETY: takes a number, and the descriptor is open.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind as libc::c_int) }).map(drop)
}

/// Whether the lease for writing on an open file is whole: nobody wants it back.
pub(crate) fn has_lease(file: BorrowedFd<'_>) -> bool {
    // SAFETY: takes nothing, and the descriptor is open.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) == libc::F_WRLCK }
}

/// Says which thread gets which signal when something happens to an open file: before anything may, or the signal
/// ends the process.
pub(crate) fn set_signal(file: BorrowedFd<'_>, signal: libc::c_int, thread: Pid) -> rustix::io::Result<()> {
    let owner = Owner { kind: F_OWNER_TID, pid: thread.as_raw_nonzero().get() };
    // SAFETY: `owner` is what F_SETOWN_EX reads, and lives until the call is done.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), F_SETOWN_EX, &raw const owner) })?;
    // SAFETY: takes a number, and the descriptor is open.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), F_SETSIG, signal) }).map(drop)
}

/// The signal that tells of leases: one of those that nobody uses, and that are queued, each with its descriptor.
pub(crate) fn lease_signal() -> libc::c_int {
    libc::SIGRTMIN() + 7
}

/// Signals of the calling thread that are read instead of being delivered.
pub(crate) struct Signals(OwnedFd);

impl Signals {
    /// Takes `signals` over.
    pub(crate) fn take(signals: &[libc::c_int]) -> rustix::io::Result<Signals> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: fills the set in, whatever was there.
        checked(unsafe { libc::sigemptyset(set.as_mut_ptr()) })?;
        // SAFETY: it was filled in just now.
        let mut set: libc::sigset_t = unsafe { set.assume_init() };
        for signal in signals {
            // SAFETY: the set is valid, and a number that is no signal is refused.
            checked(unsafe { libc::sigaddset(&raw mut set, *signal) })?;
        }
        // SAFETY: reads the set; the former mask is not asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
            0 => {}
            error => return Err(Errno::from_raw_os_error(error)),
        }
        // SAFETY: reads the set, and makes a new descriptor.
        let fd = checked(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) })?;
        // SAFETY: nobody else has the new descriptor.
        Ok(Signals(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Waits for the next: its number, and the descriptor that it is about. To be called on the thread that took them.
    pub(crate) fn next(&self) -> rustix::io::Result<(libc::c_int, RawFd)> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let (into, size) = (info.as_mut_ptr().cast(), size_of::<libc::signalfd_siginfo>());
        loop {
            // SAFETY: `into` has room for `size` bytes.
            match checked(unsafe { libc::read(self.0.as_raw_fd(), into, size) as libc::c_int }) {
                Err(Errno::INTR) => {}
                Ok(count) if count as usize == size => break,
                Ok(_) => return Err(Errno::IO),
                Err(error) => return Err(error),
            }
        }
        // SAFETY: made of numbers alone, for which all bytes are valid.
        let info = unsafe { info.assume_init() };
        Ok((info.ssi_signo as libc::c_int, info.ssi_fd))
    }
}

/// Sets how others find a range of an open file locked; `length` 0 is up to the last byte that there can be. The lock
/// belongs to the open file, not to the process.
pub(crate) fn lock_range(file: BorrowedFd<'_>, kind: libc::c_int, offset: i64, length: i64) -> rustix::io::Result<()> {
    // SAFETY: made of numbers alone, for which 0 is valid.
    let mut lock: libc::flock64 = unsafe { MaybeUninit::zeroed().assume_init() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = offset;
    lock.l_len = length;
    // SAFETY: `lock` is what F_OFD_SETLK reads, and lives until the call is done.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) }).map(drop)
}

/// The answer of a call that says -1 and leaves an errno.
fn checked(answer: libc::c_int) -> rustix::io::Result<libc::c_int> {
    if answer != -1 {
        return Ok(answer);
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
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
