//! The sessions of all clients (`GlobalSessionTable`).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::accounting::Payer;
use crate::environment::Environment;
use crate::state::open::Open;
use crate::state::session::{Session, Terms};

/// All sessions, by their ids. They are ordered, so that a long list can be read in parts.
#[derive(Default)]
pub struct Sessions(Mutex<BTreeMap<u64, Arc<Session>>>);

impl Sessions {
    /// Creates a session with a new, unpredictable id.
    pub(crate) fn add(&self, environment: &dyn Environment, terms: Terms, payer: &Arc<Payer>) -> Arc<Session> {
        let mut sessions = self.0.lock();
        loop {
            // 32 bits, because some clients store only that many. The id is not a secret; the keys protect the session.
            let mut id = [0; 4];
            environment.random(&mut id);
            let id = u64::from(u32::from_le_bytes(id));
            // 0 is not a session id ([MS-SMB2] 3.3.5.5.1). -1 in 32 bits could be mistaken for the reserved 64-bit -1.
            if id != 0 && id != u64::from(u32::MAX) && !sessions.contains_key(&id) {
                let session = Arc::new(Session::new(id, environment.now(), terms, payer));
                sessions.insert(id, session.clone());
                return session;
            }
        }
    }

    /// Returns the session `id`, whichever connections it uses.
    pub fn get(&self, id: u64) -> Option<Arc<Session>> {
        self.0.lock().get(&id).cloned()
    }

    /// All sessions.
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.0.lock().values().cloned().collect()
    }

    /// Returns at most `most` sessions, those with the lowest ids above `after`.
    pub(crate) fn after(&self, after: Option<u64>, most: usize) -> Vec<Arc<Session>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.0.lock().range((from, Bound::Unbounded)).take(most).map(|(_, session)| session.clone()).collect()
    }

    /// Removes a session that has ended or never had a channel.
    pub(crate) fn remove(&self, session: &Session) {
        self.0.lock().remove(&session.id);
    }

    /// Returns the opens of all sessions, for status.
    pub fn opens(&self) -> Vec<Arc<Open>> {
        self.all().iter().flat_map(|session| session.opens()).collect()
    }
}
