//! The identity of a command, which is not that of the process that starts it.

use std::ffi::CString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use server::vfs::Identity;

/// Has `command` run in a directory, as a user with all of the user's groups; `None` is the user of this process. The
/// user must be able to enter the directory.
pub(crate) fn run_as(command: &mut Command, identity: Option<&Identity>, directory: &str) -> io::Result<()> {
    let directory = CString::new(directory)?;
    let identity = identity.cloned();
    let switch = move || {
        let failed = || Err(io::Error::last_os_error());
        if let Some(Identity { uid, gid, groups }) = &identity {
            // SAFETY: the calls take numbers and an array whose length is given. They are safe after a fork.
            unsafe {
                if libc::setgroups(groups.len(), groups.as_ptr()) != 0
                    || libc::setgid(*gid) != 0
                    || libc::setuid(*uid) != 0
                {
                    return failed();
                }
            }
        }
        // SAFETY: the call takes a text that ends with a zero. It is safe after a fork.
        if unsafe { libc::chdir(directory.as_ptr()) } != 0 { failed() } else { Ok(()) }
    };
    // SAFETY: the closure makes system calls only, and allocates nothing.
    unsafe { command.pre_exec(switch) };
    Ok(())
}
