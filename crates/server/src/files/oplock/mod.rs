//! Oplocks and leases of one file, and their breaks ([MS-FSA] 2.1.4.12, 2.1.5.18, 2.1.5.19; [MS-SMB2] 3.3.1.12,
//! 3.3.5.22). Pure: the time is a parameter, and holders are notified through a trait.
//!
//! Both are stored as a lease state. A level II oplock is read caching, an exclusive oplock adds write caching, and a
//! batch oplock also handle caching. A lease is shared by all opens that its client made with its key. `lease` maps
//! keys to files.
//!
//! An operation that must wait for the end of a break starts again after it, because another operation may have changed
//! the file meanwhile. A change of content breaks the caches of other clients before and after it, because a client
//! that was granted a lease in between may have read the old content. `tests/caching.rs` catches code that forgets
//! this.
//!
//! `granting` decides what is granted, `breaking` what an operation breaks, and `acknowledging` how a break ends.
//! `held` has one oplock or lease and its break in progress.

mod acknowledging;
mod breaking;
mod granting;
mod held_oplock;

use std::sync::Arc;
use std::time::Duration;

use proto::dtyp::AccessMask;
use proto::smb2::{LeaseState, OplockLevel};
use tokio::sync::oneshot;

pub use granting::{Circumstances, LeaseAsked, LeaseGranted};
use held_oplock::HeldOplock;

use super::lease::LeaseId;
use crate::user::User;

/// How long a holder has to acknowledge a break ([MS-SMB2] 3.3.2.1, note <217>).
pub const ACKNOWLEDGMENT_TIME: Duration = Duration::from_secs(35);

const READ: LeaseState = LeaseState::READ_CACHING;
const HANDLE: LeaseState = LeaseState::HANDLE_CACHING;
const WRITE: LeaseState = LeaseState::WRITE_CACHING;
const NOTHING: LeaseState = LeaseState::NONE;

/// The notification of a break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    /// Of an oplock, with its new level.
    Oplock(OplockLevel),
    /// Of a lease.
    Lease(LeaseBreak),
}

/// The break of a lease ([MS-SMB2] 3.3.4.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseBreak {
    /// The lease.
    pub id: LeaseId,
    /// The former state.
    pub from: LeaseState,
    /// The new state.
    pub to: LeaseState,
    /// `NewEpoch`; 0 for a lease of version 1.
    pub epoch: u16,
    /// Whether the holder must acknowledge.
    pub acknowledge: bool,
}

/// The session that acknowledges a break.
pub struct Client<'a> {
    /// `SessionId`.
    pub session_id: u64,
    /// Its user.
    pub user: Option<&'a User>,
}

/// The holder of an oplock or of a share in a lease, which is notified of breaks.
pub trait Holder: Send + Sync {
    /// Notifies the holder of a break. Called with the file locked in the table, so it must not call back. Returns
    /// whether there was a connection to notify.
    fn broken(&self, what: Break) -> bool;

    /// Whether `client` may acknowledge the break of a lease on behalf of the holder.
    fn is_of(&self, _client: &Client<'_>) -> bool {
        true
    }

    /// Called if no holder could be notified. Returns whether the client may reclaim its open, and is notified then.
    fn unreachable(&self) -> bool {
        false
    }

    /// Whether the client has a connection for notifications.
    fn is_connected(&self) -> bool {
        true
    }
}

/// The extent of an open's access, as far as breaks depend on it ([MS-FSA] 2.1.4.12, case OPEN).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Touch {
    /// Attributes only, which break no oplock and no lease.
    Attributes,
    /// Attributes or the security descriptor, which break no lease.
    Security,
    /// Anything else.
    Content,
}

impl Touch {
    /// Returns the extent of an open with these rights.
    pub fn of(access: AccessMask) -> Touch {
        const ATTRIBUTES: u32 =
            AccessMask::FILE_READ_ATTRIBUTES.0 | AccessMask::FILE_WRITE_ATTRIBUTES.0 | AccessMask::SYNCHRONIZE.0;
        match access.0 & !ATTRIBUTES {
            0 => Touch::Attributes,
            rest if rest == AccessMask::READ_CONTROL.0 => Touch::Security,
            _ => Touch::Content,
        }
    }
}

/// The properties of an open that determine which caches it breaks.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The content is discarded, so no cached copy stays valid.
    pub overwrites: bool,
    /// The file is deleted on close, so clients should not keep it open only to cache the handle.
    pub deletes: bool,
    /// The extent of the access.
    pub touch: Touch,
    /// The lease that the open is made under, which it does not break.
    pub lease: Option<LeaseId>,
    /// The open has POSIX semantics. Such opens do not conflict with each other.
    pub posix: bool,
    /// `Environment::uptime`.
    pub now: Duration,
}

impl Opening {
    /// Creates the properties of an open with these rights.
    pub fn new(desired_access: AccessMask, overwrites: bool, lease: Option<LeaseId>, now: Duration) -> Self {
        let touch = if overwrites { Touch::Content } else { Touch::of(desired_access) };
        Opening { overwrites, deletes: false, touch, lease, posix: false, now }
    }
}

/// A break that must be acknowledged before the operation can continue.
#[derive(Debug)]
pub struct Wait {
    /// Completes, with any result, when the break is acknowledged or its holder is gone.
    pub changed: oneshot::Receiver<()>,
    /// `Environment::uptime` at which the holder loses its cache without an acknowledgment.
    pub deadline: Duration,
}

/// The oplocks and leases of a file.
#[derive(Default)]
pub(super) struct Oplocks {
    held: Vec<HeldOplock>,
    /// Opens that were notified of the end of level II, which they might acknowledge needlessly.
    told: Vec<u64>,
    waiting: Vec<oneshot::Sender<()>>,
}

/// Returns the oplock level of a state.
pub fn level(state: LeaseState) -> OplockLevel {
    match (state.contains(WRITE), state.contains(HANDLE), state.contains(READ)) {
        (true, true, _) => OplockLevel::BATCH,
        (true, false, _) => OplockLevel::EXCLUSIVE,
        (false, _, true) => OplockLevel::II,
        (false, _, false) => OplockLevel::NONE,
    }
}

fn state(level: OplockLevel) -> LeaseState {
    match level {
        OplockLevel::BATCH => READ | HANDLE | WRITE,
        OplockLevel::EXCLUSIVE => READ | WRITE,
        OplockLevel::II => READ,
        _ => NOTHING,
    }
}

impl Oplocks {
    /// Returns a wait until a state changes.
    pub(super) fn wait(&mut self, deadline: Duration) -> Wait {
        let (sender, changed) = oneshot::channel();
        // Cancelled waits are removed, so that repeated attempts do not accumulate.
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting.push(sender);
        Wait { changed, deadline }
    }

    pub(super) fn wake(&mut self) {
        for waiting in self.waiting.drain(..) {
            // A cancelled wait does not listen any more.
            let _ = waiting.send(());
        }
    }

    /// Returns the state of an open's oplock, or of the lease that it shares.
    pub(super) fn caches(&self, open: u64) -> LeaseState {
        let held = self.held.iter().find(|held| held.is_of(open));
        held.map_or(NOTHING, |held| held.state)
    }

    /// Whether the client of an open may keep the handle open after the application closed it, and no break is in
    /// progress.
    pub(super) fn holds_handle_caching(&self, open: u64) -> bool {
        let held = self.held.iter().find(|held| held.is_of(open));
        held.is_some_and(|held| held.state.contains(HANDLE) && held.breaking.is_none())
    }

    /// Returns the state of a lease; `None` if no open has it.
    pub(super) fn lease(&self, id: LeaseId) -> Option<LeaseGranted> {
        self.held.iter().find(|held| held.lease == Some(id)).map(HeldOplock::granted)
    }

    /// Replaces the holder of an open whose client has lost the connection. Returns the oplock or lease for the
    /// response, after which the holder may notify the client. `known`: the client's state and epoch, if the server was
    /// restarted.
    pub(super) fn change_holder(
        &mut self,
        open: u64,
        holder: Arc<dyn Holder>,
        known: Option<(LeaseState, u16)>,
        now: Duration,
    ) -> Option<LeaseGranted> {
        let held = self.held.iter_mut().find(|held| held.is_of(open))?;
        if let Some((state, epoch)) = known {
            held.resume_epoch(state, epoch);
        }
        let granted = held.granted();
        held.change_holder(open, holder, now);
        Some(granted)
    }

    /// Removes an open with its oplock, or its share in a lease (2.1.4.12, case CLOSE).
    pub(super) fn close(&mut self, open: u64) {
        self.told.retain(|told| *told != open);
        let before = self.held.len();
        self.held.retain_mut(|held| {
            held.opens.retain(|(id, _)| *id != open);
            !held.opens.is_empty()
        });
        if self.held.len() != before {
            self.wake();
        }
    }
}

#[cfg(test)]
mod tests;
