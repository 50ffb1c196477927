//! Leases: notification of opens by other processes (fcntl(2), `F_SETLEASE`).
//!
//! The kernel notifies by a signal. One thread of this module receives all of them: its own mask blocks them, it reads
//! them from a signalfd, and no handler is installed. A signal names a descriptor, which may refer to another file by
//! then, so the kernel is asked whether the lease on it is still intact.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, OnceLock, mpsc};

use parking_lot::Mutex;
use rustix::io::Errno as Raw;
use rustix::thread::Pid;
use server::vfs::{Errno, Lease, LeaseCallback, Result};

use crate::node::Open;
use crate::sys::{self, LeaseKind, Signals};
use crate::{errno, identity};

/// Leased files by descriptor. An entry is removed before its descriptor is closed.
static LEASED: Mutex<Option<HashMap<RawFd, Entry>>> = Mutex::new(None);

struct Entry {
    open: Arc<Open>,
    told: LeaseCallback,
}

/// A lease on the file of a handle.
struct Taken(Arc<Open>);

impl Lease for Taken {}

/// Takes a lease.
pub(crate) fn take(open: &Arc<Open>, told: LeaseCallback) -> Result<Box<dyn Lease>> {
    let fd = match open.access {
        Some(access) if access.read || access.write => open.fd(),
        _ => return Err(Errno::BADF),
    };
    let thread = listener()?;
    // Leases on other users' files require the privilege of the process. The user's permissions are not checked again.
    identity::assume_process().map_err(errno)?;
    // Must be registered before the kernel can report on it.
    enter(fd, Entry { open: Arc::clone(open), told })?;
    let taken = sys::set_signal(fd, sys::lease_signal(), thread).and_then(|()| sys::set_lease(fd, LeaseKind::Writing));
    match taken {
        Ok(()) => Ok(Box::new(Taken(Arc::clone(open)))),
        Err(error) => {
            leave(fd);
            Err(match error {
                Raw::INVAL | Raw::NOSYS => Errno::OPNOTSUPP,
                error => errno(error),
            })
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let given = identity::assume_process().and_then(|()| sys::set_lease(self.0.fd(), LeaseKind::Free));
        // The kernel may have revoked it already. Closing the descriptor releases it in any case.
        if let Err(error) = given
            && error != Raw::AGAIN
        {
            tracing::warn!(%error, "cannot release a lease now; the kernel releases it when the file is closed");
        }
        leave(self.0.fd());
    }
}

fn enter(fd: BorrowedFd<'_>, entry: Entry) -> Result<()> {
    let mut leased = LEASED.lock();
    let leased = leased.get_or_insert_default();
    if leased.contains_key(&fd.as_raw_fd()) {
        // A handle has at most one lease.
        return Err(Errno::AGAIN);
    }
    leased.insert(fd.as_raw_fd(), entry);
    Ok(())
}

fn leave(fd: BorrowedFd<'_>) {
    let entry = LEASED.lock().as_mut().and_then(|leased| leased.remove(&fd.as_raw_fd()));
    // Dropped outside the lock, because the entry may be the last to hold the file open.
    drop(entry);
}

/// Returns the thread that receives lease notifications, started with the first lease.
fn listener() -> Result<Pid> {
    static LISTENER: OnceLock<Result<Pid>> = OnceLock::new();
    *LISTENER.get_or_init(|| {
        let (sender, started) = mpsc::channel();
        let listen = move || match Signals::take(&[sys::lease_signal(), libc::SIGIO]) {
            Ok(signals) => {
                // The thread that started this one waits for it.
                let _ = sender.send(Ok(rustix::thread::gettid()));
                listen(&signals);
            }
            Err(error) => drop(sender.send(Err(errno(error)))),
        };
        match std::thread::Builder::new().name("leases".to_owned()).spawn(listen) {
            Ok(_) => started.recv().unwrap_or(Err(Errno::IO)),
            Err(error) => Err(Errno(error.raw_os_error().unwrap_or(Errno::IO.0))),
        }
    })
}

fn listen(signals: &Signals) {
    loop {
        match signals.next() {
            // The queue overflowed: the kernel reports an event but not the file.
            Ok((libc::SIGIO, _)) => tell(|_| true),
            Ok((_, fd)) => tell(|leased| leased == fd),
            Err(error) => {
                tracing::error!(
                    %error,
                    "lease breaks are no longer received: local programs that open a cached file wait for the kernel's \
                     timeout; restart the server"
                );
                return;
            }
        }
    }
}

/// Notifies the holders of leases that are being broken.
fn tell(concerns: impl Fn(RawFd) -> bool) {
    let told: Vec<LeaseCallback> = {
        let leased = LEASED.lock();
        let broken = |entry: &&Entry| concerns(entry.open.fd().as_raw_fd()) && !sys::has_lease(entry.open.fd().as_fd());
        leased.iter().flat_map(HashMap::values).filter(broken).map(|entry| LeaseCallback::clone(&entry.told)).collect()
    };
    for told in told {
        told();
    }
}
