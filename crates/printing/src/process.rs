//! The identity of a command, which is not that of the process that starts it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use server::vfs::Identity;

/// Has `command` run as a user with all of the user's groups.
pub(crate) fn run_as(command: &mut Command, identity: &Identity) {
    let Identity { uid, gid, groups } = identity.clone();
    let switch = move || {
        // SAFETY: the calls take numbers and an array whose length is given. They are safe after a fork.
        unsafe {
            if libc::setgroups(groups.len(), groups.as_ptr()) != 0 || libc::setgid(gid) != 0 || libc::setuid(uid) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only, and allocates nothing.
    unsafe { command.pre_exec(switch) };
}
