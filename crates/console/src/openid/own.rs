//! The sessions of users who set their own password. They end soon, so that the logon at the issuer is recent.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::Caller;
use crate::sessions::{New, hash, is_same, random};

/// A session ends after this time.
const LIFETIME: Duration = Duration::from_secs(300);
/// Maximum number of sessions, and of those of one user, whose oldest one ends otherwise.
const MOST: usize = 1024;
const OF_ONE: usize = 4;

struct Session {
    caller: Caller,
    token: String,
    since: Duration,
}

/// All sessions, by the hashes of their ids.
#[derive(Default)]
pub(crate) struct Own(Mutex<HashMap<[u8; 32], Session>>);

impl Own {
    /// Begins a session; `None` if there are too many.
    pub(crate) fn begin(&self, caller: Caller, now: Duration) -> Option<New> {
        let mut all = self.0.lock();
        all.retain(|_, session| now < session.since + LIFETIME);
        let own = || all.iter().filter(|(_, session)| session.caller.name == caller.name);
        if own().count() >= OF_ONE {
            let oldest = own().min_by_key(|(_, session)| session.since).map(|(id, _)| *id);
            oldest.map(|id| all.remove(&id));
        }
        if all.len() >= MOST {
            return None;
        }
        let new = New { id: random(), token: random() };
        all.insert(hash(&new.id), Session { caller, token: new.token.clone(), since: now });
        Some(new)
    }

    /// Returns the user of a session.
    pub(crate) fn find(&self, id: &str, token: &str, now: Duration) -> Option<Caller> {
        let all = self.0.lock();
        let session = all.get(&hash(id)).filter(|session| now < session.since + LIFETIME)?;
        is_same(&session.token, token).then(|| session.caller.clone())
    }

    /// Ends a session. Returns its user.
    pub(crate) fn end(&self, id: &str) -> Option<Caller> {
        self.0.lock().remove(&hash(id)).map(|session| session.caller)
    }

    /// Ends all sessions of a user. The case of the name has no meaning.
    pub(crate) fn end_all(&self, name: &str) {
        let name = name.to_lowercase();
        self.0.lock().retain(|_, session| session.caller.name.to_lowercase() != name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> Caller {
        Caller { name: name.into(), address: "::1".into() }
    }

    #[test]
    fn sessions_end() {
        let (own, at) = (Own::default(), Duration::from_secs);
        let new = own.begin(caller("ann"), at(0)).expect("there is room");
        assert_eq!(own.find(&new.id, &new.token, at(299)), Some(caller("ann")));
        assert!(own.find(&new.id, &new.token, at(300)).is_none());
        assert!(own.find(&new.id, &new.id, at(1)).is_none() && own.find(&new.token, &new.token, at(1)).is_none());
        own.end_all("ANN");
        assert!(own.find(&new.id, &new.token, at(1)).is_none());
    }

    #[test]
    fn the_number_is_bounded() {
        let own = Own::default();
        let begun = (0..3000).filter(|number| own.begin(caller(&number.to_string()), Duration::ZERO).is_some());
        assert_eq!(begun.count(), MOST);
        let own = Own::default();
        assert!((0..100).all(|_| own.begin(caller("ann"), Duration::ZERO).is_some()));
        assert_eq!(own.0.lock().len(), OF_ONE);
    }
}
