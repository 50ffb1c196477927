//! The sessions of administrators. The browser has a random id in a cookie, of which only the hash is kept here, and a
//! token that each request must repeat.
//!
//! The token is known to the page alone: browsers send cookies to every port of a host, so another server there may see
//! the id, but what the page keeps is kept for its port.

use std::collections::HashMap;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::Mutex;
use subtle::ConstantTimeEq;

use crate::Caller;

/// A session ends after this time without a request that an administrator caused.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// A session ends after this time in any case.
const LIFETIME: Duration = Duration::from_secs(8 * 3600);
/// Maximum number of sessions, and of those of one administrator, whose oldest one ends otherwise.
const MOST: usize = 64;
const OF_ONE: usize = 8;

/// What a browser gets at logon.
pub(crate) struct New {
    pub(crate) id: String,
    pub(crate) token: String,
}

struct Session {
    caller: Caller,
    token: String,
    since: Duration,
    used: Duration,
}

/// Why no session begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotBegun {
    /// There are too many.
    Full,
    /// Sessions of an account ended since the password was given, so it may be wrong now.
    Revoked,
}

/// The number of times that [`Sessions::end_all`] was called.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Generation(u64);

/// All sessions.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// By the hashes of their ids.
    sessions: HashMap<[u8; 32], Session>,
    generation: Generation,
}

impl Sessions {
    /// Returns what [`Sessions::begin`] needs. It must be taken before the password is verified.
    pub(crate) fn generation(&self) -> Generation {
        self.0.lock().generation
    }

    /// Begins a session, after the verification of a password that began in `generation`.
    pub(crate) fn begin(&self, caller: Caller, generation: Generation, now: Duration) -> Result<New, NotBegun> {
        let mut table = self.0.lock();
        if table.generation != generation {
            return Err(NotBegun::Revoked);
        }
        let sessions = &mut table.sessions;
        sessions.retain(|_, session| session.is_valid(now));
        let own = || sessions.iter().filter(|(_, session)| session.caller.name == caller.name);
        if own().count() >= OF_ONE {
            let oldest = own().min_by_key(|(_, session)| session.used).map(|(id, _)| *id);
            oldest.map(|id| sessions.remove(&id));
        }
        if sessions.len() >= MOST {
            return Err(NotBegun::Full);
        }
        let new = New { id: random(), token: random() };
        let session = Session { caller, token: new.token.clone(), since: now, used: now };
        sessions.insert(hash(&new.id), session);
        Ok(new)
    }

    /// Returns the administrator of a session. If `is_used`, it does not become idle.
    pub(crate) fn find(&self, id: &str, token: &str, now: Duration, is_used: bool) -> Option<Caller> {
        let mut table = self.0.lock();
        let session = table.sessions.get_mut(&hash(id)).filter(|session| session.is_valid(now))?;
        if !is_same(&session.token, token) {
            return None;
        }
        if is_used {
            session.used = now;
        }
        Some(session.caller.clone())
    }

    /// Ends all sessions of an administrator, and refuses all logons that are being verified. The case of the name has
    /// no meaning.
    pub(crate) fn end_all(&self, name: &str) {
        let name = name.to_lowercase();
        let mut table = self.0.lock();
        table.generation.0 += 1;
        table.sessions.retain(|_, session| session.caller.name.to_lowercase() != name);
    }

    /// Ends a session. Returns its administrator.
    pub(crate) fn end(&self, id: &str) -> Option<Caller> {
        self.0.lock().sessions.remove(&hash(id)).map(|session| session.caller)
    }
}

impl Session {
    fn is_valid(&self, now: Duration) -> bool {
        now < self.used + IDLE && now < self.since + LIFETIME
    }
}

/// Compares tokens in a time that does not depend on them.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

pub(crate) fn random() -> String {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).expect("the random generator seeds itself from the kernel and never fails");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn hash(id: &str) -> [u8; 32] {
    let hash = digest(&SHA256, id.as_bytes());
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> Caller {
        Caller { name: name.into(), address: "::1".into() }
    }

    fn begun(sessions: &Sessions, name: &str, now: Duration) -> Result<New, NotBegun> {
        sessions.begin(caller(name), sessions.generation(), now)
    }

    #[test]
    fn sessions_expire() {
        let (sessions, at) = (Sessions::default(), Duration::from_secs);
        let begin = |secs| begun(&sessions, "ann", at(secs)).expect("there is room");
        let new = begin(0);
        assert_eq!(new.id.len(), 64);
        assert_ne!(new.id, new.token);
        let find = |new: &New, secs, is_used| sessions.find(&new.id, &new.token, at(secs), is_used);
        assert!(find(&new, 1799, false).is_some());
        assert!(find(&new, 1800, true).is_none(), "a poll does not prolong it");
        let new = begin(0);
        for secs in (0..28_800).step_by(1000) {
            assert_eq!(find(&new, secs, true), Some(caller("ann")));
        }
        assert!(find(&new, 28_800, true).is_none());
        assert!(sessions.find(&new.token, &new.token, at(1), true).is_none());
        let new = begin(0);
        assert_eq!(sessions.end(&new.id), Some(caller("ann")));
        assert!(find(&new, 1, true).is_none());
    }

    #[test]
    fn the_id_is_nothing_without_the_token() {
        let (sessions, now) = (Sessions::default(), Duration::ZERO);
        let [new, other] = [0, 1].map(|_| begun(&sessions, "ann", now).expect("there is room"));
        for wrong in ["", &new.id, &other.token] {
            assert_eq!(sessions.find(&new.id, wrong, now, true), None);
        }
        assert!(sessions.find(&new.id, &new.token, now, true).is_some());
    }

    #[test]
    fn all_sessions_of_one_account_end() {
        let (sessions, now) = (Sessions::default(), Duration::ZERO);
        let [one, two, other] = ["Ann", "ann", "anna"].map(|name| begun(&sessions, name, now).expect("there is room"));
        let before = sessions.generation();
        sessions.end_all("ANN");
        let is_valid = |new: &New| sessions.find(&new.id, &new.token, now, true).is_some();
        assert!(!is_valid(&one) && !is_valid(&two) && is_valid(&other));
        // The password may have been verified before.
        assert_eq!(sessions.begin(caller("ann"), before, now).err(), Some(NotBegun::Revoked));
        assert!(begun(&sessions, "ann", now).is_ok());
    }

    #[test]
    fn the_number_is_bounded() {
        let (sessions, now) = (Sessions::default(), Duration::from_secs(1));
        let first = begun(&sessions, "ann", Duration::ZERO).expect("there is room");
        for _ in 0..20 {
            assert!(begun(&sessions, "ann", now).is_ok());
        }
        assert!(sessions.find(&first.id, &first.token, now, true).is_none());
        assert_eq!(sessions.0.lock().sessions.len(), OF_ONE);
        let others = (0..100).filter(|number| begun(&sessions, &number.to_string(), now).is_ok()).count();
        assert_eq!(others, MOST - OF_ONE);
        assert_eq!(begun(&sessions, "bob", now).err(), Some(NotBegun::Full));
        assert!(begun(&sessions, "bob", now + IDLE).is_ok(), "those that expired make room");
    }

    #[test]
    fn tokens_are_compared_whole() {
        assert!(is_same("abc", "abc") && !is_same("abc", "abd") && !is_same("abc", "ab") && !is_same("", "a"));
    }
}
