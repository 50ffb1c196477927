//! Processes, signals and users, as far as the helper needs them. A process that calls these functions has one thread.

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::process::Pid;

/// The exit status of a process that panicked.
const PANICKED: c_int = 101;

/// Forks a process that executes `work` and ends with its result.
pub fn fork(work: impl FnOnce() -> c_int) -> io::Result<Pid> {
    // SAFETY: the calling process has a single thread, so no lock is held by another one in the new process.
    match unsafe { libc::fork() } {
        0 => {
            let status = catch_unwind(AssertUnwindSafe(work)).unwrap_or(PANICKED);
            // SAFETY: ends the process. Exit handlers belong to the original process.
            unsafe { libc::_exit(status) }
        }
        pid => Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(io::Error::last_os_error),
    }
}

/// Closes all descriptors except those of standard streams and `keep`, which belong to the process that forked this
/// one.
pub fn close_others(keep: BorrowedFd<'_>) -> io::Result<()> {
    let entries = std::fs::read_dir("/proc/self/fd")?.flatten();
    let numbers: Vec<c_int> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2 && *number != keep.as_raw_fd()) {
        // SAFETY: nothing in this process uses the descriptor: its owner is a value of the process that forked it. That
        // of the listing is closed already, which close reports as an error.
        unsafe { libc::close(number) };
    }
    Ok(())
}

/// Makes the standard input empty.
pub fn close_input() -> io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    // SAFETY: the descriptor of the standard input belongs to no value.
    let mut input = std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(0) });
    rustix::io::dup2(&null, &mut input).map_err(Into::into)
}

/// Survives SIGTERM, which a service manager sends to all processes of a service: sessions must be closed first.
/// Programs that modules execute do not inherit a handler.
pub fn survive_termination() {
    extern "C" fn nothing(_: c_int) {}
    let handler: extern "C" fn(c_int) = nothing;
    // SAFETY: the handler does nothing. All fields of the structure may be zero.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut());
    }
}

/// Returns the name of the UNIX user with this uid. Several users may have the uid, so the one that is called `name` is
/// preferred.
pub(crate) fn user_name(name: &str, uid: u32) -> Option<CString> {
    let name = CString::new(name).ok()?;
    // SAFETY: getpwnam reads a string, and both return null or an entry that is valid until the next call. It is copied
    // before. No other thread calls them.
    unsafe {
        let named = libc::getpwnam(name.as_ptr()).as_ref().filter(|entry| entry.pw_uid == uid);
        let entry = match named {
            Some(entry) => entry,
            None => libc::getpwuid(uid).as_ref()?,
        };
        Some(CStr::from_ptr(entry.pw_name).to_owned())
    }
}
