//! Opens that outlive their connection: durable, resilient and persistent handles ([MS-SMB2] 3.3.1.10, 3.3.5.9.6,
//! 3.3.5.9.10, 3.3.5.15.9, 3.3.7.1).
//!
//! When its session ends, such an open stays in the table of open files with its share mode, its locks and its oplock;
//! only its session and tree connect are removed. [`Registry`] holds these opens until their owner reclaims them, their
//! time is over, or another client needs what they hold. Changes of the file by local programs meanwhile are not
//! detected: the file descriptor stays open, and a connected client would not have been notified either.

mod creations;
mod index;
mod instances;
mod lock_sequence;
mod persist;
mod record;
mod registry;
mod store;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use proto::dtyp::Guid;
use proto::smb2::create::CreateAction;
use proto::smb2::create_context::{CreateContext, DurableHandleFlags, DurableHandleResponse, DurableHandleResponseV2};

pub use creations::CreationId;
pub(crate) use creations::{Claim, Creation, Creations, Standing};
pub use instances::Instance;
pub(crate) use instances::Instances;
pub use lock_sequence::LockSequences;
pub(crate) use persist::{remove, save, save_all};
pub(crate) use record::{Caching, Record, asked_again};
pub(crate) use registry::Registry;
pub use store::{Failed, Records, Store};

use crate::user::Owner;
use crate::vfs::Time;

/// Timeout of a durable open of version 1, as in Windows since Windows 8 (note <335>).
pub const DURABLE_TIME: Duration = Duration::from_secs(120);
/// Timeout of a durable open of version 2 whose client requests none (note <344>).
pub const DURABLE_TIME_V2: Duration = Duration::from_secs(60);
/// Maximum timeout of a durable open of version 2 (3.3.5.9.10).
pub const MAX_DURABLE_TIME_V2: Duration = Duration::from_secs(300);

/// The kind of a preserved open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// `Open.IsDurable`: preserved until another client needs what it holds.
    Durable,
    /// `Open.IsResilient`: other clients must wait for what it holds.
    Resilient,
    /// `Open.IsPersistent`: preserved across a restart of the server; no other client can open the file meanwhile.
    Persistent,
}

/// The terms of a preserved open, as agreed with its client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// The kind.
    pub reason: Reason,
    /// The timeout: `Open.DurableOpenTimeout` or `Open.ResiliencyTimeout`.
    pub timeout: Duration,
    /// The owner.
    pub owner: Owner,
    /// `Open.CreateGuid`; `None` for version 1 of durable handles.
    pub create_guid: Option<Guid>,
    /// Further properties of a persistent open.
    pub persistent: Option<Persistent>,
}

/// Properties of a persistent open that identify the CREATE that made it and its file.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Persistent {
    /// `Open.DesiredAccess`.
    pub desired_access: u32,
    /// `Open.CreateOptions`.
    pub create_options: u32,
    /// `Open.ShareAccess`.
    pub share_access: u32,
    /// The action of the CREATE, to be repeated in the response to a replay.
    pub action: CreateAction,
    /// The birth time of the file.
    pub born: Option<Time>,
    /// The server was restarted, and the client has not reconnected yet.
    pub restored: bool,
}

impl Terms {
    /// Returns the create context that reports the terms to the client ([MS-SMB2] 2.2.14.2.3, 2.2.14.2.12).
    pub(crate) fn response(&self) -> CreateContext<'static> {
        if self.create_guid.is_none() {
            return DurableHandleResponse.to_context();
        }
        let timeout = u32::try_from(self.timeout.as_millis()).unwrap_or(u32::MAX);
        let persistent = self.reason == Reason::Persistent;
        let flags = if persistent { DurableHandleFlags::PERSISTENT } else { DurableHandleFlags::NONE };
        DurableHandleResponseV2 { timeout, flags }.to_context()
    }
}

/// Whether and on which terms an open is preserved when its connection is lost; and the CREATE that made it.
#[derive(Default)]
pub struct Durability {
    terms: Mutex<Option<Box<Terms>>>,
    /// `terms` has [`Reason::Persistent`].
    persistent: AtomicBool,
    /// The open is closed, and its record was removed.
    gone: Mutex<bool>,
    /// `Open.IsReplayEligible`.
    replayable: AtomicBool,
    creation: OnceLock<CreationId>,
    instance: OnceLock<Box<Instance>>,
    /// `Open.LockSequenceArray`.
    pub lock_sequences: LockSequences,
}

impl Durability {
    /// Returns the terms; `None` if the open ends with its session.
    pub fn terms(&self) -> Option<Terms> {
        self.terms.lock().as_deref().cloned()
    }

    /// Whether the open is preserved when its connection is lost.
    pub fn is_kept(&self) -> bool {
        self.terms.lock().is_some()
    }

    /// Whether the open is preserved across a restart of the server.
    pub fn is_persistent(&self) -> bool {
        self.persistent.load(Ordering::Acquire)
    }

    /// Sets or replaces the terms.
    pub fn set(&self, terms: Terms) {
        self.persistent.store(terms.reason == Reason::Persistent, Ordering::Release);
        *self.terms.lock() = Some(Box::new(terms));
    }

    /// Whether the server was restarted and the client had not reconnected before. Returns `true` only once.
    pub(crate) fn take_restored(&self) -> bool {
        let mut terms = self.terms.lock();
        let persistent = terms.as_mut().and_then(|terms| terms.persistent.as_mut());
        persistent.is_some_and(|persistent| std::mem::take(&mut persistent.restored))
    }

    /// Removes the terms.
    pub(crate) fn clear(&self) {
        self.persistent.store(false, Ordering::Release);
        *self.terms.lock() = None;
    }

    /// Returns the application instance that the open belongs to.
    pub(crate) fn instance(&self) -> Option<&Instance> {
        self.instance.get().map(|instance| &**instance)
    }

    /// Sets the application instance, which never changes.
    pub(crate) fn belongs_to(&self, instance: Instance) {
        // Set once, by the CREATE that makes it.
        let _ = self.instance.set(Box::new(instance));
    }

    /// Sets the CREATE that made the open, which can be replayed until [`Durability::take_creation`].
    fn made_by(&self, id: CreationId) {
        if self.creation.set(id).is_ok() {
            self.replayable.store(true, Ordering::Release);
        }
    }

    /// Returns the CREATE that made the open, if that can be replayed.
    fn creation(&self) -> Option<CreationId> {
        self.creation.get().copied().filter(|_| self.replayable.load(Ordering::Acquire))
    }

    /// Returns the CREATE that made the open and ends its replay; `None` if it could not be replayed before.
    pub(crate) fn take_creation(&self) -> Option<CreationId> {
        // Usually there is none, which a single load shows.
        if !self.replayable.load(Ordering::Relaxed) || !self.replayable.swap(false, Ordering::AcqRel) {
            return None;
        }
        self.creation.get().copied()
    }
}
