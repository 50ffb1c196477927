//! As whom a thread talks to the kernel: fsuid, fsgid and supplementary groups, which Linux keeps for each thread.
//!
//! Switching costs three system calls, so an identity stays on its thread until another is needed, and every operation
//! of this crate asserts the one that it needs first. Threads that run operations must therefore do no other work with
//! files, or do it in [`as_process`]. Without the privilege to switch, everything runs as the process's own user.

use std::cell::RefCell;
use std::io;
use std::sync::OnceLock;

use server::vfs::Identity;

use crate::sys;

thread_local! {
    /// The identity that the thread has now.
    static CURRENT: RefCell<Current> = const { RefCell::new(Current::Process) };
}

enum Current {
    /// The process's own.
    Process,
    /// A user's.
    User(Identity),
    /// A switch was begun and not finished: nothing is known.
    Unknown,
}

/// Whether the process may switch: decided once, at the first use, from its effective user.
fn may_switch() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| rustix::process::geteuid().is_root())
}

/// The process's own fsuid, fsgid and groups, as they were at the first use.
fn own() -> &'static Identity {
    static OWN: OnceLock<Identity> = OnceLock::new();
    OWN.get_or_init(|| Identity {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: sys::process_groups().into(),
    })
}

/// Makes the thread act as `who` from now on. On an error nothing may be done on anybody's behalf.
pub(crate) fn assume(who: &Identity) -> io::Result<()> {
    if !may_switch() {
        return Ok(());
    }
    CURRENT.with_borrow_mut(|current| match current {
        Current::User(user) if user == who => Ok(()),
        _ => {
            // Whatever happens on the way, a half-done switch is never taken for a whole one.
            *current = Current::Unknown;
            switch(who)?;
            *current = Current::User(who.clone());
            Ok(())
        }
    })
}

/// Runs `work` with the process's own identity, whatever the thread's was.
pub fn as_process<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    if may_switch() {
        CURRENT.with_borrow_mut(|current| {
            if !matches!(current, Current::Process) {
                *current = Current::Unknown;
                switch(own())?;
                *current = Current::Process;
            }
            io::Result::Ok(())
        })?;
    }
    Ok(work())
}

/// Groups first and user last: only the process's own user may change groups.
fn switch(who: &Identity) -> io::Result<()> {
    // The own groups must be read before they are changed for the first time.
    own();
    sys::set_fsuid(own().uid)?;
    sys::set_groups(&who.groups)?;
    sys::set_fsgid(who.gid)?;
    sys::set_fsuid(who.uid)
}
