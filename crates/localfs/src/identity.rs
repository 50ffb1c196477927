//! As whom a thread talks to the kernel: fsuid, fsgid, supplementary groups and effective capabilities, which Linux
//! keeps for each thread.
//!
//! Switching costs some system calls, so an identity stays on its thread until another is needed, and every operation
//! of this crate asserts the one that it needs first. Other work with files on such threads belongs in [`as_process`].
//! A new thread inherits what its maker had, so nothing is taken for granted on a thread that has not switched yet.
//!
//! A user other than root has no effective capability but those for switching on and for `security.` attributes: the kernel
//! itself takes those for files when the fsuid changes, but not those that lift quotas and open the blocks kept for root. Without the privilege to switch (the process was
//! not started as root) everything runs as the process's own user.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, OnceLock};

use rustix::thread::{CapabilitySet, CapabilitySets};
use server::vfs::Identity;

use crate::sys;

/// What a user's thread keeps. The first two mean nothing for files. The third opens the attributes called `security.` and
/// `trusted.`, which saves switching to root and back for every file that inherits a descriptor; whoever asks for one of
/// them by name must be root all the same ([`crate::node`]).
pub(crate) const KEPT: CapabilitySet =
    CapabilitySet::SETUID.union(CapabilitySet::SETGID).union(CapabilitySet::SYS_ADMIN);

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(Current::Unknown) };
}

/// What is known of the thread's identity.
enum Current {
    /// Nothing: the thread is new, or a switch was begun and not finished.
    Unknown,
    /// It is the process's own.
    Process,
    /// It is a user's.
    User(Arc<Identity>),
}

/// The process's own identity, read before the first switch of any thread.
struct Own {
    identity: Identity,
    capabilities: CapabilitySets,
    may_switch: bool,
}

fn own() -> &'static Own {
    static OWN: OnceLock<Own> = OnceLock::new();
    OWN.get_or_init(|| {
        let uid = rustix::process::geteuid();
        let groups = rustix::process::getgroups().unwrap_or_default();
        let none = CapabilitySet::empty();
        let capabilities = rustix::thread::capabilities(None);
        Own {
            identity: Identity {
                uid: uid.as_raw(),
                gid: rustix::process::getegid().as_raw(),
                groups: groups.iter().map(|gid| gid.as_raw()).collect(),
            },
            may_switch: uid.is_root() && capabilities.is_ok(),
            capabilities: capabilities.unwrap_or(CapabilitySets {
                effective: none,
                permitted: none,
                inheritable: none,
            }),
        }
    })
}

/// Whether operations run as the users that ask for them; else they all run as the process's user.
pub fn may_switch() -> bool {
    own().may_switch
}

/// The user whose files are those that are made on behalf of `who`.
pub(crate) fn uid(who: &Identity) -> u32 {
    if may_switch() { who.uid } else { own().identity.uid }
}

/// Makes the thread act as `who` from now on. After an error nothing may be done on anybody's behalf.
pub(crate) fn assume(who: &Arc<Identity>) -> server::vfs::Result<()> {
    if !may_switch() {
        return Ok(());
    }
    CURRENT.with_borrow_mut(|current| {
        if matches!(current, Current::User(user) if Arc::ptr_eq(user, who) || user == who) {
            return Ok(());
        }
        // Whatever happens on the way, a half-done switch is never taken for a whole one.
        match std::mem::replace(current, Current::Unknown) {
            Current::User(user) if user.uid != 0 && who.uid != 0 => switch_user(&user, who),
            _ => switch(who),
        }
        .map_err(crate::errno)?;
        *current = Current::User(Arc::clone(who));
        Ok(())
    })
}

/// Makes the thread one that may set attributes called `security.`, for `who`, which is root: whatever identity the thread
/// is known to have keeps the capability for them, and nothing else counts there.
pub(crate) fn assume_for_security_attributes(who: &Arc<Identity>) -> server::vfs::Result<()> {
    let is_known = CURRENT.with_borrow(|current| !matches!(current, Current::Unknown));
    if is_known && may_switch() && own().capabilities.effective.contains(CapabilitySet::SYS_ADMIN) {
        return Ok(());
    }
    assume(who)
}

/// Makes the thread act as the process.
pub(crate) fn assume_process() -> rustix::io::Result<()> {
    if !may_switch() {
        return Ok(());
    }
    CURRENT.with_borrow_mut(|current| {
        if !matches!(current, Current::Process) {
            *current = Current::Unknown;
            switch(&own().identity)?;
            *current = Current::Process;
        }
        Ok(())
    })
}

/// Runs `work` with the process's own identity, whatever the thread's is: a user's is there again afterwards, panics
/// included, for `work` may have come in the middle of that user's operation (a line for the log, say).
///
/// # Errors
/// The thread could not switch; `work` was not run.
pub fn as_process<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    let former = CURRENT.with_borrow(|current| match current {
        Current::User(user) => Some(Arc::clone(user)),
        Current::Unknown | Current::Process => None,
    });
    assume_process()?;
    let _restored = Former(former);
    Ok(work())
}

/// Takes a thread back to the identity that it had.
struct Former(Option<Arc<Identity>>);

impl Drop for Former {
    fn drop(&mut self) {
        let Some(user) = &self.0 else { return };
        if assume(user).is_err() {
            // What goes on after this believes that it acts as the user. It must not.
            eprintln!("cannot act as user {} again", user.uid);
            std::process::abort();
        }
    }
}

/// Switches from whatever the thread has. Groups first and user last, with all capabilities in between.
fn switch(who: &Identity) -> rustix::io::Result<()> {
    let own = own();
    rustix::thread::set_capabilities(None, own.capabilities)?;
    set_groups(who)?;
    sys::set_fsgid(who.gid)?;
    sys::set_fsuid(who.uid)?;
    let effective = if who.uid == 0 { own.capabilities.effective } else { own.capabilities.effective & KEPT };
    rustix::thread::set_capabilities(None, CapabilitySets { effective, ..own.capabilities })
}

/// Switches from one user to another, neither of them root: both have the same capabilities.
fn switch_user(from: &Identity, who: &Identity) -> rustix::io::Result<()> {
    if from.groups != who.groups {
        set_groups(who)?;
    }
    if from.gid != who.gid {
        sys::set_fsgid(who.gid)?;
    }
    sys::set_fsuid(who.uid)
}

fn set_groups(who: &Identity) -> rustix::io::Result<()> {
    let groups: Vec<_> = who.groups.iter().map(|&gid| rustix::process::Gid::from_raw(gid)).collect();
    rustix::thread::set_thread_groups(&groups)
}
