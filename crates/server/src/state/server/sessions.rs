//! The sessions of all clients (`GlobalSessionTable`).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::accounting::Payer;
use crate::environment::Environment;
use crate::metrics::Users;
use crate::state::open::Open;
use crate::state::session::{Session, Terms};

/// All sessions.
#[derive(Default)]
pub struct Sessions {
    /// By their ids. They are ordered, so that a long list can be read in parts.
    by_id: Mutex<BTreeMap<u64, Arc<Session>>>,
    /// The requests of those that have ended.
    ended: Users,
}

impl Sessions {
    /// Creates a session with a new, unpredictable id.
    pub(crate) fn add(&self, environment: &dyn Environment, terms: Terms, payer: &Arc<Payer>) -> Arc<Session> {
        let mut sessions = self.by_id.lock();
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
        self.by_id.lock().get(&id).cloned()
    }

    /// All sessions.
    pub fn all(&self) -> Vec<Arc<Session>> {
        self.by_id.lock().values().cloned().collect()
    }

    /// Returns at most `most` sessions, those with the lowest ids above `after`.
    pub(crate) fn after(&self, after: Option<u64>, most: usize) -> Vec<Arc<Session>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_id.lock().range((from, Bound::Unbounded)).take(most).map(|(_, session)| session.clone()).collect()
    }

    /// Removes a session that has ended or never had a channel.
    pub(crate) fn remove(&self, session: &Session) {
        self.by_id.lock().remove(&session.id);
        if let Some(user) = session.user() {
            self.ended.add(&user.name, session.take_requests());
        }
    }

    /// Returns the `most` users with the most requests since the start of the server, and as `*` the sum of the others.
    pub fn requests_by_user(&self, most: usize) -> Vec<(String, u64)> {
        let sessions = self.all();
        let current = sessions.iter().filter_map(|session| Some((session.user()?.name.clone(), session.requests())));
        self.ended.largest(most, current)
    }

    /// Returns the opens of all sessions, for status.
    pub fn opens(&self) -> Vec<Arc<Open>> {
        self.all().iter().flat_map(|session| session.opens()).collect()
    }
}
