//! Detection of replayed CREATE requests by their CreateGuid ([MS-SMB2] 3.3.5.9, 3.3.5.9.10): `Open.CreateGuid` and
//! `Open.IsReplayEligible`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use proto::dtyp::Guid;
use proto::smb2::create::CreateAction;

use crate::state::Server;
use crate::state::open::{FileOpen, Open};
use crate::user::Owner;

/// Identifies a CREATE: the client's `ClientGuid`, and its CreateGuid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CreationId {
    /// `ClientGuid`.
    pub client: Guid,
    /// `CreateGuid`.
    pub create: Guid,
}

/// The result of a CREATE.
#[derive(Clone)]
pub(crate) struct Creation {
    open: Weak<Open>,
    /// The action taken.
    pub(crate) action: CreateAction,
    /// The owner; `None` for a guest, whose identity cannot be verified.
    pub(crate) owner: Option<Owner>,
}

/// The state of a received CREATE.
pub(crate) enum Standing {
    /// It is new.
    New(Claim),
    /// The original is still being executed.
    UnderWay,
    /// It was executed before, and its open has not been used since.
    Done(Arc<Open>, Creation),
}

/// All CREATE requests; `None` while they are executed.
#[derive(Default)]
pub(crate) struct Creations(Mutex<HashMap<CreationId, Option<Creation>>>);

impl Creations {
    /// Registers a received CREATE.
    pub(crate) fn begin(&self, server: &Arc<Server>, id: CreationId) -> Standing {
        match self.0.lock().entry(id) {
            Entry::Vacant(entry) => {
                entry.insert(None);
            }
            Entry::Occupied(mut entry) => match entry.get() {
                None => return Standing::UnderWay,
                Some(creation) => match creation.open.upgrade() {
                    Some(open) => return Standing::Done(open, creation.clone()),
                    None => {
                        entry.insert(None);
                    }
                },
            },
        }
        Standing::New(Claim { server: server.clone(), id, done: false })
    }

    /// Removes a CREATE, because its client has used the open and so has received the response, or because the open was
    /// closed.
    pub(crate) fn forget(&self, id: CreationId) {
        self.0.lock().remove(&id);
    }

    /// Updates the open after a reconnect replaced it.
    pub(crate) fn moved(&self, file: &FileOpen, open: &Arc<Open>) {
        let Some(id) = file.durability.creation() else { return };
        if let Some(Some(creation)) = self.0.lock().get_mut(&id) {
            creation.open = Arc::downgrade(open);
        }
    }
}

/// A CREATE that is being executed. Removed on drop, unless it was completed.
pub(crate) struct Claim {
    server: Arc<Server>,
    id: CreationId,
    done: bool,
}

impl Claim {
    /// Records the resulting open.
    pub(crate) fn done(mut self, open: &Arc<Open>, action: CreateAction, owner: Option<Owner>) {
        let Some(file) = open.file() else { return };
        file.durability.made_by(self.id);
        let creation = Creation { open: Arc::downgrade(open), action, owner };
        self.server.opens.creations.0.lock().insert(self.id, Some(creation));
        // The session and the open may have ended meanwhile, so the entry must be removed here. Dropping `self` does
        // that.
        self.done = !file.closed.load(Ordering::Acquire);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.done {
            self.server.opens.creations.forget(self.id);
        }
    }
}
