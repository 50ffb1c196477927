//! CREATE requests that can be told from their repetitions, by the CreateGuid that their client chose ([MS-SMB2]
//! 3.3.5.9, 3.3.5.9.10): `Open.CreateGuid` and `Open.IsReplayEligible`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use proto::dtyp::Guid;
use proto::smb2::create::CreateAction;

use super::Owner;
use crate::open::{FileOpen, Open};
use crate::server::Server;

/// Which CREATE: the client's `ClientGuid`, and its CreateGuid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CreationId {
    /// `ClientGuid`.
    pub client: Guid,
    /// `CreateGuid`.
    pub create: Guid,
}

/// What became of a CREATE.
#[derive(Clone)]
pub(crate) struct Creation {
    open: Weak<Open>,
    /// What it did.
    pub(crate) action: CreateAction,
    /// Whose it is; `None` for a guest's, which nobody can prove to be his.
    pub(crate) owner: Option<Owner>,
}

/// What is known of a CREATE that came.
pub(crate) enum Standing {
    /// It is the first.
    New(Claim),
    /// The first is still being executed.
    UnderWay,
    /// It was executed before, and nobody has used its open since.
    Done(Arc<Open>, Creation),
}

/// All of them; `None` while they are executed.
#[derive(Default)]
pub(crate) struct Creations(Mutex<HashMap<CreationId, Option<Creation>>>);

impl Creations {
    /// A CREATE came.
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

    /// Its client has used the open, so it knows of it; or the open is closed.
    pub(crate) fn forget(&self, id: CreationId) {
        self.0.lock().remove(&id);
    }

    /// The open is another one now: it was claimed back.
    pub(crate) fn moved(&self, file: &FileOpen, open: &Arc<Open>) {
        let Some(id) = file.durability.creation() else { return };
        if let Some(Some(creation)) = self.0.lock().get_mut(&id) {
            creation.open = Arc::downgrade(open);
        }
    }
}

/// A CREATE that is being executed. Forgotten when it is dropped, unless it was executed.
pub(crate) struct Claim {
    server: Arc<Server>,
    id: CreationId,
    done: bool,
}

impl Claim {
    /// It was executed and led to `open`.
    pub(crate) fn done(mut self, open: &Arc<Open>, action: CreateAction, owner: Option<Owner>) {
        let Some(file) = open.file() else { return };
        file.durability.made_by(self.id);
        let creation = Creation { open: Arc::downgrade(open), action, owner };
        self.server.creations.0.lock().insert(self.id, Some(creation));
        // Its session may have ended meanwhile, and the open with it: nobody else would forget it. Dropping this does.
        self.done = !file.closed.load(Ordering::Acquire);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.done {
            self.server.creations.forget(self.id);
        }
    }
}
