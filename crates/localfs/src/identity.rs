//! As whom a thread talks to the kernel: fsuid, fsgid, supplementary groups and effective capabilities, which Linux
//! keeps for each thread.
//!
//! Switching costs some system calls, so an identity stays on its thread until another is needed, and every operation
//! of this crate asserts the one that it needs first. Other work with files on such threads belongs in [`as_process`].
//! A new thread inherits what its maker had, so nothing is taken for granted on a thread that has not switched yet.
//!
//! A user other than root has no effective capability but those for switching on and, on a server that writes descriptors,
//! the one for `security.` attributes: the kernel itself takes those for files when the fsuid changes, but not those that
//! lift quotas and open the blocks kept for root. Without the privilege to switch (the process was not started as root)
//! everything runs as the process's own user.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::thread::{CapabilitySet, CapabilitySets};
use server::vfs::Identity;

use crate::sys;

/// What every user's thread keeps, to become somebody else. They mean nothing for files.
pub(crate) const SWITCHING: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// What it keeps besides once the process has written an attribute called `security.`: raising it anew for every file that
/// inherits a descriptor would take two calls more. It opens those and the ones called `trusted.`, and whoever asks for one
/// of them by name must be root all the same ([`crate::node`]); and it lets the thread open files beyond `fs.file-max`.
pub(crate) const DESCRIBING: CapabilitySet = CapabilitySet::SYS_ADMIN;

/// What the process needs to act for its users: to become each of them, to look after files that are not its own, and to
/// lease files of others ([`crate::leases`]).
const SERVING: CapabilitySet = SWITCHING
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::LEASE);

/// What the thread that confined the process keeps until [`release_ports`].
const LISTENING: CapabilitySet = CapabilitySet::NET_BIND_SERVICE;

/// Whether the process has written such an attribute: then its threads get the capability with their next switch, which
/// takes no call more.
static DESCRIBES: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(Current::Unknown) };
    /// Whether the thread has [`DESCRIBING`]; nothing while its identity is unknown.
    static MAY_DESCRIBE: Cell<bool> = const { Cell::new(false) };
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

static OWN: OnceLock<Own> = OnceLock::new();

impl Own {
    /// The identity of the calling thread, without the capabilities that are not in `keep`.
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

/// Takes from the process, for good, all capabilities that serving files does not need; `describes`: attributes called
/// `security.` and `trusted.` are to be written. To be called by the first thread while there is no other, as capabilities
/// belong to threads: each thread that is made later has no more than its maker, and each switch of identity keeps to what
/// is left here. The caller may listen on privileged ports until [`release_ports`].
///
/// # Errors
/// The process has acted as somebody already, or the kernel refused.
pub fn confine(describes: bool) -> io::Result<()> {
    let keep = if describes { SERVING | DESCRIBING } else { SERVING };
    let mut first = false;
    let own = OWN.get_or_init(|| {
        first = true;
        Own::read(keep)
    });
    if !first {
        return Err(io::Error::other("threads have acted as users already"));
    }
    let mut sets = rustix::thread::capabilities(None)?;
    bound(keep | LISTENING, sets.effective)?;
    let listening = |set: CapabilitySet| set & LISTENING;
    sets.effective = own.capabilities.effective | listening(sets.effective);
    sets.permitted = own.capabilities.permitted | listening(sets.permitted);
    sets.inheritable = own.capabilities.inheritable;
    rustix::thread::set_capabilities(None, sets)?;
    GAVE_UP_DESCRIBING.store(!describes, Ordering::Relaxed);
    // A switch to the process's identity would take the ports away.
    CURRENT.set(Current::Process);
    Ok(())
}

/// Takes what is not in `keep` from what programs that the process executes could get. Without `CAP_SETPCAP` the bounding
/// set stays; a process with `no_new_privs` gets nothing of it.
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
            // The kernel knows no higher one.
            Err(_) => break,
        }
    }
    Ok(())
}

/// Takes from the thread that called [`confine`] what it kept to listen on privileged ports.
///
/// # Errors
/// The kernel refused.
pub fn release_ports() -> io::Result<()> {
    as_process(|| rustix::thread::set_capabilities(None, own().capabilities))?.map_err(Into::into)
}

/// The most that a thread of a confined process may have.
pub fn most_capabilities() -> u64 {
    (own().capabilities.permitted | LISTENING).bits()
}

/// Whether the process gave up at its start what it takes to write attributes called `security.` and `trusted.`.
pub fn gave_up_describing() -> bool {
    GAVE_UP_DESCRIBING.load(Ordering::Relaxed)
}

/// Whether operations run as the users that ask for them; else they all run as the process's user.
pub fn may_switch() -> bool {
    own().may_switch
}

/// The process's own user.
pub(crate) fn own_uid() -> u32 {
    own().identity.uid
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

/// Makes the thread one that may set attributes called `security.`, for `who`, which is root: nothing but the capability
/// for them counts there, whatever identity the thread is known to have.
pub(crate) fn assume_for_security_attributes(who: &Arc<Identity>) -> server::vfs::Result<()> {
    if CURRENT.with_borrow(|current| matches!(current, Current::Unknown)) {
        assume(who)?;
    }
    may_describe().map_err(crate::errno)
}

/// Lets the thread set attributes called `security.` as whomever it acts.
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
    let describes = DESCRIBES.load(Ordering::Relaxed);
    let kept = if describes { SWITCHING | DESCRIBING } else { SWITCHING };
    let effective = if who.uid == 0 { own.capabilities.effective } else { own.capabilities.effective & kept };
    rustix::thread::set_capabilities(None, CapabilitySets { effective, ..own.capabilities })?;
    MAY_DESCRIBE.set(who.uid == 0 || describes);
    Ok(())
}

/// Switches from one user to another, neither of them root: the capabilities stay.
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
