//! The identity under which a thread calls the kernel: fsuid, fsgid, supplementary groups and effective capabilities,
//! which Linux stores per thread.
//!
//! Switching costs several system calls, so an identity stays on its thread until another is needed, and every
//! operation of this crate first asserts the identity that it needs. Other file operations on such threads belong in
//! [`as_process`]. A new thread inherits its creator's identity, so nothing is assumed on a thread that has not
//! switched yet.
//!
//! A user other than root has no effective capabilities except those for switching and, on a server that writes
//! security descriptors, the one for `security.` attributes. The kernel itself drops the capabilities that concern
//! files when the fsuid changes, but not those that override quotas and allow use of the blocks reserved for root.
//! Without the privilege to switch (the process was not started as root) everything runs as the process's own user.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use backing::workers::ThreadIdentity;
use rustix::thread::{CapabilitySet, CapabilitySets};
use server::vfs::Identity;

use crate::sys;

/// The capabilities that every user's thread keeps in order to switch to another user. They have no effect on files.
pub(crate) const SWITCHING: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// The capability that it keeps as well once the process has written a `security.` attribute, because raising it again
/// for every file that inherits a security descriptor would take two more calls. It grants access to those and to
/// `trusted.` attributes; only root may nevertheless request one of them by name ([`crate::node`]). It also lets the
/// thread open files beyond `fs.file-max`.
pub(crate) const DESCRIBING: CapabilitySet = CapabilitySet::SYS_ADMIN;

/// The capabilities that the process needs to act for its users: to switch to each of them, to manage files that are
/// not its own, and to take leases on other users' files ([`crate::leases`]).
const SERVING: CapabilitySet = SWITCHING
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::LEASE);

/// The capability that the thread which confined the process keeps until [`release_ports`].
const LISTENING: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;

/// Whether the process has written such an attribute. If so, its threads get the capability with their next switch,
/// which costs no additional call.
static DESCRIBES: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(Current::Unknown) };
    /// Whether the thread has [`DESCRIBING`]; meaningless while its identity is unknown.
    static MAY_DESCRIBE: Cell<bool> = const { Cell::new(false) };
}

/// The known identity of the thread.
enum Current {
    /// Unknown: the thread is new, or a switch did not complete.
    Unknown,
    /// The process's own.
    Process,
    /// A user's.
    User(Arc<Identity>),
}

/// The process's own identity, read before the first switch of any thread.
struct Own {
    identity: Identity,
    capabilities: CapabilitySets,
    may_switch: bool,
}

static OWN: OnceLock<Own> = OnceLock::new();

impl Own {
    /// Returns the identity of the calling thread, without the capabilities that are not in `keep`.
    fn read(keep: CapabilitySet) -> Own {
        let uid = rustix::process::geteuid();
        let groups = rustix::process::getgroups().unwrap_or_default();
        let none = CapabilitySet::empty();
        let capabilities = rustix::thread::capabilities(None);
        let may_switch = uid.is_root() && capabilities.is_ok();
        let all = capabilities.unwrap_or(CapabilitySets { effective: none, permitted: none, inheritable: none });
        Own {
            identity: Identity {
                uid: uid.as_raw(),
                gid: rustix::process::getegid().as_raw(),
                groups: groups.iter().map(|gid| gid.as_raw()).collect(),
            },
            may_switch,
            capabilities: CapabilitySets {
                effective: all.effective & keep,
                permitted: all.permitted & keep,
                inheritable: all.inheritable & keep,
            },
        }
    }
}

fn own() -> &'static Own {
    OWN.get_or_init(|| Own::read(CapabilitySet::all()))
}

/// Whether [`confine`] left the process without [`DESCRIBING`].
static GAVE_UP_DESCRIBING: AtomicBool = AtomicBool::new(false);

/// Permanently drops all capabilities of the process that serving files does not need. `describes`: `security.` and
/// `trusted.` attributes will be written. To be called by the first thread while it is the only one, because
/// capabilities are per thread: threads created later have at most their creator's, and every switch of identity is
/// limited to those left here. The caller may listen on privileged ports until [`release_ports`].
///
/// # Errors
/// The process has already acted as a user, or the kernel refused.
pub fn confine(describes: bool) -> io::Result<()> {
    let keep = if describes { SERVING | DESCRIBING } else { SERVING };
    let mut first = false;
    let own = OWN.get_or_init(|| {
        first = true;
        Own::read(keep)
    });
    if !first {
        return Err(io::Error::other("threads have already acted as users"));
    }
    let mut sets = rustix::thread::capabilities(None)?;
    bound(keep | LISTENING, sets.effective)?;
    let listening = |set: CapabilitySet| set & LISTENING;
    sets.effective = own.capabilities.effective | listening(sets.effective);
    sets.permitted = own.capabilities.permitted | listening(sets.permitted);
    sets.inheritable = own.capabilities.inheritable;
    rustix::thread::set_capabilities(None, sets)?;
    // A service manager or a container may have given the process less than root has.
    GAVE_UP_DESCRIBING.store(!sets.permitted.contains(DESCRIBING), Ordering::Relaxed);
    // A switch to the process's identity would drop the capability for ports.
    CURRENT.set(Current::Process);
    Ok(())
}

/// Drops all capabilities not in `keep` from those that executed programs could get. Without `CAP_SETPCAP` the bounding
/// set is unchanged; a process with `no_new_privs` gains nothing from it.
fn bound(keep: CapabilitySet, effective: CapabilitySet) -> io::Result<()> {
    // Before Linux 4.3 there is no ambient set.
    match rustix::thread::clear_ambient_capability_set() {
        Ok(()) | Err(rustix::io::Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    if !effective.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    for capability in (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number)) {
        match rustix::thread::capability_is_in_bounding_set(capability) {
            Ok(true) if !keep.contains(capability) => rustix::thread::remove_capability_from_bounding_set(capability)?,
            Ok(_) => {}
            // The kernel has no higher capability.
            Err(_) => break,
        }
    }
    Ok(())
}

/// Drops the capability to listen on privileged ports from the thread that called [`confine`].
///
/// # Errors
/// The kernel refused.
pub fn release_ports() -> io::Result<()> {
    as_process(|| rustix::thread::set_capabilities(None, own().capabilities))?.map_err(Into::into)
}

/// Lets the calling thread listen on privileged ports as long as it lives. The thread that called [`confine`] must have
/// created it before [`release_ports`], and it never acts as a user.
pub fn keep_ports() {
    // A switch to the process's identity, for example to write to the log, would drop the capability.
    CURRENT.set(Current::Process);
}

/// Returns the maximum capabilities of a thread of a confined process.
pub fn most_capabilities() -> u64 {
    (own().capabilities.permitted | LISTENING).bits()
}

/// Returns whether the process dropped at startup the capability to write `security.` and `trusted.` attributes.
pub fn gave_up_describing() -> bool {
    GAVE_UP_DESCRIBING.load(Ordering::Relaxed)
}

/// Returns whether operations run as the requesting users; otherwise they all run as the process's user.
pub fn may_switch() -> bool {
    own().may_switch
}

/// Returns the process's own user.
pub(crate) fn own_uid() -> u32 {
    own().identity.uid
}

/// Returns the user who owns files created on behalf of `who`.
pub(crate) fn uid(who: &Identity) -> u32 {
    if may_switch() { who.uid } else { own().identity.uid }
}

/// Returns the group of files created on behalf of `who`.
pub(crate) fn gid(who: &Identity) -> u32 {
    if may_switch() { who.gid } else { own().identity.gid }
}

/// Returns whether a thread that acts as the process can ask for the quotas of users. The kernel requires
/// `CAP_SYS_ADMIN` for those of users other than its effective user, which remains the process's own.
pub(crate) fn may_ask_for_quotas() -> bool {
    let own = own();
    !own.may_switch || own.capabilities.permitted.contains(DESCRIBING)
}

/// Makes the thread act as `who` from now on. After an error it must not act on behalf of any user.
pub(crate) fn assume(who: &Arc<Identity>) -> server::vfs::Result<()> {
    if !may_switch() {
        return Ok(());
    }
    CURRENT.with_borrow_mut(|current| {
        if matches!(current, Current::User(user) if Arc::ptr_eq(user, who) || user == who) {
            return Ok(());
        }
        // Whatever happens during the switch, an incomplete one is never taken for a complete one.
        match std::mem::replace(current, Current::Unknown) {
            Current::User(user) if user.uid != 0 && who.uid != 0 => switch_user(&user, who),
            _ => switch(who),
        }
        .map_err(crate::errno)?;
        *current = Current::User(Arc::clone(who));
        Ok(())
    })
}

/// Lets the thread set `security.` attributes for `who`, which is root. Only the capability matters for them, whatever
/// the known identity of the thread is.
pub(crate) fn assume_for_security_attributes(who: &Arc<Identity>) -> server::vfs::Result<()> {
    if CURRENT.with_borrow(|current| matches!(current, Current::Unknown)) {
        assume(who)?;
    }
    may_describe().map_err(crate::errno)
}

/// Lets the thread set `security.` attributes under any identity.
pub(crate) fn may_describe() -> rustix::io::Result<()> {
    if !may_switch() || MAY_DESCRIBE.get() {
        return Ok(());
    }
    DESCRIBES.store(true, Ordering::Relaxed);
    let own = own().capabilities;
    let effective = own.effective & (SWITCHING | DESCRIBING);
    rustix::thread::set_capabilities(None, CapabilitySets { effective, ..own })?;
    MAY_DESCRIBE.set(true);
    Ok(())
}

/// Asserts identities on threads as the kernel knows them.
#[derive(Clone, Copy)]
pub(crate) struct KernelIdentity;

impl ThreadIdentity for KernelIdentity {
    fn assume(&self, user: &Arc<Identity>) -> server::vfs::Result<()> {
        assume(user)
    }
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

/// Runs `work` with the process's own identity. The thread's identity is restored afterwards, even after a panic,
/// because `work` may run in the middle of a user's operation (for example to write a log line).
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

/// Restores the thread's former identity.
struct Former(Option<Arc<Identity>>);

impl Drop for Former {
    fn drop(&mut self) {
        let Some(user) = &self.0 else { return };
        if assume(user).is_err() {
            // The code after this assumes that it acts as the user, so it must not run.
            eprintln!("cannot switch the thread back to user {}", user.uid);
            std::process::abort();
        }
    }
}

/// Switches from any identity. Groups are set first and the user last, with all capabilities in between.
fn switch(who: &Identity) -> rustix::io::Result<()> {
    let own = own();
    rustix::thread::set_capabilities(None, own.capabilities)?;
    set_groups(who)?;
    sys::set_fsgid(who.gid)?;
    sys::set_fsuid(who.uid)?;
    let describes = DESCRIBES.load(Ordering::Relaxed);
    let kept = if describes { SWITCHING | DESCRIBING } else { SWITCHING };
    let effective = if who.uid == 0 { own.capabilities.effective } else { own.capabilities.effective & kept };
    rustix::thread::set_capabilities(None, CapabilitySets { effective, ..own.capabilities })?;
    MAY_DESCRIBE.set(who.uid == 0 || describes);
    Ok(())
}

/// Switches between two users, neither of them root; the capabilities stay.
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
