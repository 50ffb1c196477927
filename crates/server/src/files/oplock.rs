//! What clients may cache of one file: oplocks and leases, and what ends them ([MS-FSA] 2.1.4.12, 2.1.5.18, 2.1.5.19;
//! [MS-SMB2] 3.3.1.12, 3.3.5.22). Pure: time is handed in, whom to tell is a trait.
//!
//! Both kinds are kept as the lease state that they stand for: level II caches reading, an exclusive oplock writing too, a
//! batch oplock the handle too. A lease is shared by all opens that its client made with its key. Which file a key
//! belongs to is in `lease`.
//!
//! What is granted is in `granting`, what an operation breaks in `breaking`, how a break ends in `acknowledging`; one
//! cache and its break under way are in `held`.

mod acknowledging;
mod breaking;
mod granting;
mod held;

use std::sync::Arc;
use std::time::Duration;

use proto::dtyp::AccessMask;
use proto::smb2::{LeaseState, OplockLevel};
use tokio::sync::oneshot;

pub use granting::{Circumstances, LeaseAsked, LeaseGranted};
use held::Held;

use super::lease::LeaseId;
use crate::session::Session;

/// How long a holder has to acknowledge a break ([MS-SMB2] 3.3.2.1, note <217>).
pub const ACKNOWLEDGMENT_TIME: Duration = Duration::from_secs(35);

const READ: LeaseState = LeaseState::READ_CACHING;
const HANDLE: LeaseState = LeaseState::HANDLE_CACHING;
const WRITE: LeaseState = LeaseState::WRITE_CACHING;
const NOTHING: LeaseState = LeaseState::NONE;

/// What a holder is told when its cache ends, or a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    /// Of an oplock; what is left of it.
    Oplock(OplockLevel),
    /// Of a lease.
    Lease(LeaseBreak),
}

/// The break of a lease ([MS-SMB2] 3.3.4.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseBreak {
    /// Which lease.
    pub id: LeaseId,
    /// What it was.
    pub from: LeaseState,
    /// What is left of it.
    pub to: LeaseState,
    /// `NewEpoch`; 0 for a lease of version 1.
    pub epoch: u16,
    /// Whether the holder must answer.
    pub acknowledge: bool,
}

/// Who holds an oplock or a part of a lease, to be told of its break.
pub trait Holder: Send + Sync {
    /// The cache ends, or a part of it. Called while the file is locked in the table: it must not call back. Answers
    /// whether there was anybody to tell.
    fn broken(&self, what: Break) -> bool;

    /// Whether the holder's user is the one of `session`, who may acknowledge the break of a lease.
    fn is_of(&self, _session: &Session) -> bool {
        true
    }

    /// None of those who hold it could be told. Answers whether this one's client will be told when it comes back.
    fn unreachable(&self, _what: Break) -> bool {
        false
    }
}

/// How little an open touches ([MS-FSA] 2.1.4.12, case OPEN).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Touch {
    /// Attributes alone, which no oplock and no lease is about.
    Attributes,
    /// Attributes or the security descriptor, which no lease is about.
    Security,
    /// The file.
    Content,
}

impl Touch {
    /// Of an open with these rights.
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

/// What an open means for the caches of others.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The content is thrown away, so nobody's copy of it stays valid.
    pub overwrites: bool,
    /// The file goes with the open, so nobody should keep it open only to be quick.
    pub deletes: bool,
    /// How little it touches.
    pub touch: Touch,
    /// The lease that it is made under: one's own cache is not broken.
    pub lease: Option<LeaseId>,
    /// `World::uptime`.
    pub now: Duration,
}

impl Opening {
    /// An open with these rights.
    pub fn new(desired_access: AccessMask, overwrites: bool, lease: Option<LeaseId>, now: Duration) -> Self {
        let touch = if overwrites { Touch::Content } else { Touch::of(desired_access) };
        Opening { overwrites, deletes: false, touch, lease, now }
    }
}

/// A break that must be acknowledged before the operation can go on.
#[derive(Debug)]
pub struct Wait {
    /// Ends, with whatever result, when the break is acknowledged or its holder is gone.
    pub changed: oneshot::Receiver<()>,
    /// `World::uptime` at which the holder has lost its cache even without a word.
    pub deadline: Duration,
}

/// The oplocks and leases of a file.
#[derive(Default)]
pub(super) struct Oplocks {
    held: Vec<Held>,
    /// Opens that lost level II and were told so, which they might take for a question.
    told: Vec<u64>,
    waiting: Vec<oneshot::Sender<()>>,
}

/// The oplock that stands for a state.
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
    /// Until anything of this changes.
    pub(super) fn wait(&mut self, deadline: Duration) -> Wait {
        let (sender, changed) = oneshot::channel();
        // Who stopped waiting leaves nothing behind, however often it tries.
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting.push(sender);
        Wait { changed, deadline }
    }

    fn wake(&mut self) {
        for waiting in self.waiting.drain(..) {
            // Whoever was cancelled meanwhile does not listen any more.
            let _ = waiting.send(());
        }
    }

    /// What an open caches: its oplock, or the lease that it shares.
    pub(super) fn caches(&self, open: u64) -> LeaseState {
        let held = self.held.iter().find(|held| held.is_of(open));
        held.map_or(NOTHING, |held| held.state)
    }

    /// Whether the client of an open may keep it open behind its user's back, and nobody has asked for that back.
    pub(super) fn holds_handle_caching(&self, open: u64) -> bool {
        let held = self.held.iter().find(|held| held.is_of(open));
        held.is_some_and(|held| held.state.contains(HANDLE) && held.breaking.is_none())
    }

    /// What a lease is now; `None` where no open has it.
    pub(super) fn lease(&self, id: LeaseId) -> Option<LeaseGranted> {
        let held = self.held.iter().find(|held| held.lease == Some(id))?;
        Some(LeaseGranted { state: held.state, breaking: held.breaking.is_some(), epoch: held.epoch })
    }

    /// The epoch goes on from `epoch`, if that is ahead: the server was restarted and knows no later one.
    pub(super) fn raise_epoch(&mut self, id: LeaseId, epoch: u16) {
        let held = self.held.iter_mut().filter(|held| held.lease == Some(id));
        for known in held.filter_map(|held| held.epoch.as_mut()) {
            // Half of the numbers are ahead.
            if epoch.wrapping_sub(*known) < 0x8000 {
                *known = epoch;
            }
        }
    }

    /// Somebody else is to be told from now on: an open was taken up again by its client.
    pub(super) fn change_holder(&mut self, open: u64, holder: Arc<dyn Holder>) {
        let opens = self.held.iter_mut().flat_map(|held| &mut held.opens);
        for entry in opens.filter(|(id, _)| *id == open) {
            entry.1 = holder.clone();
        }
    }

    /// The open is closed; with it goes its oplock, or its part of a lease (2.1.4.12, case CLOSE).
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
