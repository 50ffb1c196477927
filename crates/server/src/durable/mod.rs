//! Opens that outlive their connection: durable and resilient handles ([MS-SMB2] 3.3.1.10, 3.3.5.9.6, 3.3.5.9.10,
//! 3.3.5.15.9, 3.3.7.1).
//!
//! An open that is to be kept stays in the table of open files with its share mode, its locks and its oplock when its
//! session ends; only the session and the tree connect are taken from it. [`Registry`] has such opens until their owner
//! comes back for them, their time is up, or somebody else needs what they hold. Whether a local program has changed the
//! file meanwhile is not looked at: the descriptor stays open, and a connected client would not have been told either.

mod creations;
mod index;
mod instances;
mod lock_sequence;
mod persist;
mod record;
mod registry;
mod restore;
mod store;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use proto::dtyp::{Guid, Sid};
use proto::smb2::create::CreateAction;
use proto::smb2::create_context::{CreateContext, DurableHandleFlags, DurableHandleResponse, DurableHandleResponseV2};

pub use creations::CreationId;
pub(crate) use creations::{Claim, Creation, Creations, Standing};
pub use instances::Instance;
pub(crate) use instances::Instances;
pub use lock_sequence::LockSequences;
pub(crate) use persist::{remove, save, save_all};
pub(crate) use registry::{Registry, close_ended, scavenge};
pub use restore::Restored;
pub(crate) use restore::restore;
pub use store::{Failed, Records, Store};

use crate::principals::UnixId;
use crate::session::User;
use crate::vfs::Time;

/// How long an open of the first version is kept: what Windows has done since Windows 8 (note <335>).
pub const DURABLE_TIME: Duration = Duration::from_secs(120);
/// How long an open of the second version is kept whose client leaves it to the server (note <344>).
pub const DURABLE_TIME_V2: Duration = Duration::from_secs(60);
/// The longest time that a client gets for an open of the second version (3.3.5.9.10).
pub const MAX_DURABLE_TIME_V2: Duration = Duration::from_secs(300);

/// Whose open it is: `Open.DurableOwner`. Nobody is told apart among guests and anonymous users, so they have none.
///
/// Whether two are one is [`Owner::is`]'s to say; that all fields are equal means less.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The account's own SID, where it has one that is more than its uid in another form.
    pub sid: Option<Sid>,
    /// The account's name.
    pub name: String,
    /// The domain or server that the account belongs to.
    pub domain: String,
    /// The user that the kernel knows.
    pub uid: u32,
}

impl Owner {
    /// The owner of what `user` opens; `None` for guests and anonymous users.
    pub fn of(user: &User) -> Option<Owner> {
        let known = !user.guest && !user.anonymous;
        known.then(|| Owner {
            sid: user.sids.first().filter(|sid| UnixId::in_sid(sid).is_none()).copied(),
            name: user.name.clone(),
            domain: user.domain.clone(),
            uid: user.identity.uid,
        })
    }

    /// Whether both are one account. Where both have a SID that alone counts, as names and uids are given anew to others
    /// and SIDs never ([MS-SMB2] 3.3.5.9.7 compares security contexts).
    pub fn is(&self, other: &Owner) -> bool {
        match (self.sid, other.sid) {
            (Some(one), Some(two)) => one == two,
            _ => self.uid == other.uid && self.name == other.name && self.domain == other.domain,
        }
    }
}

/// Why an open is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// `Open.IsDurable`: for as long as nobody else needs what it holds.
    Durable,
    /// `Open.IsResilient`: whoever needs what it holds must wait.
    Resilient,
    /// `Open.IsPersistent`: even a restart of the server does not end it, and nobody else opens the file meanwhile.
    Persistent,
}

/// What was agreed on with a client whose open is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Why it is kept.
    pub reason: Reason,
    /// How long: `Open.DurableOpenTimeout` or `Open.ResiliencyTimeout`.
    pub timeout: Duration,
    /// Whose it is.
    pub owner: Owner,
    /// `Open.CreateGuid`; `None` for the first version of durable handles.
    pub create_guid: Option<Guid>,
    /// What else is known of a persistent open.
    pub persistent: Option<Persistent>,
}

/// What is known of a persistent open, to tell the CREATE that made it, and its file, from others.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Persistent {
    /// `Open.DesiredAccess`.
    pub desired_access: u32,
    /// `Open.CreateOptions`.
    pub create_options: u32,
    /// `Open.ShareAccess`.
    pub share_access: u32,
    /// What the CREATE did, to be said again.
    pub action: CreateAction,
    /// When the file system made the file.
    pub born: Option<Time>,
    /// The server was restarted since, and the client has not come back yet.
    pub restored: bool,
}

impl Terms {
    /// The context that tells the client of them ([MS-SMB2] 2.2.14.2.3, 2.2.14.2.12).
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

/// Whether an open is kept when its connection is lost, and on which terms; and which CREATE made it.
#[derive(Default)]
pub struct Durability {
    terms: Mutex<Option<Box<Terms>>>,
    /// `terms` has [`Reason::Persistent`].
    persistent: AtomicBool,
    /// It is closed, and has no record any more.
    gone: Mutex<bool>,
    /// `Open.IsReplayEligible`.
    replayable: AtomicBool,
    creation: OnceLock<CreationId>,
    instance: OnceLock<Box<Instance>>,
    /// `Open.LockSequenceArray`.
    pub lock_sequences: LockSequences,
}

impl Durability {
    /// The terms; `None` where the open ends with its session.
    pub fn terms(&self) -> Option<Terms> {
        self.terms.lock().as_deref().cloned()
    }

    /// Whether there are terms.
    pub fn is_kept(&self) -> bool {
        self.terms.lock().is_some()
    }

    /// Whether not even a restart of the server ends it.
    pub fn is_persistent(&self) -> bool {
        self.persistent.load(Ordering::Acquire)
    }

    /// Agrees on `terms`, whatever they were before.
    pub fn set(&self, terms: Terms) {
        self.persistent.store(terms.reason == Reason::Persistent, Ordering::Release);
        *self.terms.lock() = Some(Box::new(terms));
    }

    /// Whether the server was restarted and the client has not come back before. Asked once.
    pub(crate) fn take_restored(&self) -> bool {
        let mut terms = self.terms.lock();
        let persistent = terms.as_mut().and_then(|terms| terms.persistent.as_mut());
        persistent.is_some_and(|persistent| std::mem::take(&mut persistent.restored))
    }

    /// There are no terms after all.
    pub(crate) fn clear(&self) {
        self.persistent.store(false, Ordering::Release);
        *self.terms.lock() = None;
    }

    /// The application instance that it belongs to.
    pub(crate) fn instance(&self) -> Option<&Instance> {
        self.instance.get().map(|instance| &**instance)
    }

    /// It belongs to an application instance, for good.
    pub(crate) fn belongs_to(&self, instance: Instance) {
        // Said once, by the CREATE that makes it.
        let _ = self.instance.set(Box::new(instance));
    }

    /// The CREATE that made it can be repeated until [`Durability::take_creation`].
    fn made_by(&self, id: CreationId) {
        if self.creation.set(id).is_ok() {
            self.replayable.store(true, Ordering::Release);
        }
    }

    /// The CREATE that made it and can be repeated.
    fn creation(&self) -> Option<CreationId> {
        self.creation.get().copied().filter(|_| self.replayable.load(Ordering::Acquire))
    }

    /// The CREATE that made it, which cannot be repeated any more; `None` where it could not before.
    pub(crate) fn take_creation(&self) -> Option<CreationId> {
        // Most often there is none: no more than a look.
        if !self.replayable.load(Ordering::Relaxed) || !self.replayable.swap(false, Ordering::AcqRel) {
            return None;
        }
        self.creation.get().copied()
    }
}
