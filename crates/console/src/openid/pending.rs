//! Logons that have begun. The browser has gone to the issuer, and comes back with the state and a code.
//!
//! Each is bound to the browser by a cookie, and to the tab by a ticket that the page keeps for its own port, because
//! other servers on this host see and set cookies. It can be finished once.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use zeroize::Zeroizing;

use crate::sessions::{hash, is_same, random};

/// How long a user may be at the issuer.
const LIFETIME: Duration = Duration::from_secs(600);
/// Maximum number of logons. The limits of attempts permit fewer.
const MOST: usize = 2048;

/// What a logon needs later.
pub(crate) struct Flow {
    pub(crate) nonce: String,
    /// The secret of PKCE.
    pub(crate) verifier: Zeroizing<String>,
    /// The URL to which the issuer returns the browser.
    pub(crate) redirect: String,
}

struct Begun {
    flow: Flow,
    cookie: [u8; 32],
    ticket: String,
    since: Duration,
}

/// What the browser gets when a logon begins.
pub(crate) struct Given {
    pub(crate) state: String,
    pub(crate) cookie: String,
    pub(crate) ticket: String,
}

/// All logons that have begun, by the hashes of their states.
#[derive(Default)]
pub(crate) struct Pending(Mutex<HashMap<[u8; 32], Begun>>);

impl Flow {
    pub(crate) fn new(redirect: String) -> Flow {
        Flow { nonce: random(), verifier: Zeroizing::new(random()), redirect }
    }
}

impl Pending {
    /// Keeps a logon; `None` if there are too many.
    pub(crate) fn begin(&self, flow: Flow, state: String, now: Duration) -> Option<Given> {
        let mut all = self.0.lock();
        if all.len() >= MOST {
            all.retain(|_, begun| now < begun.since + LIFETIME);
        }
        if all.len() >= MOST {
            return None;
        }
        let given = Given { state, cookie: random(), ticket: random() };
        let begun = Begun { flow, cookie: hash(&given.cookie), ticket: given.ticket.clone(), since: now };
        all.insert(hash(&given.state), begun);
        Some(given)
    }

    /// Takes a logon, which cannot be finished again; `None` if it does not belong to this browser and tab.
    pub(crate) fn take(&self, state: &str, cookie: &str, ticket: &str, now: Duration) -> Option<Flow> {
        let begun = self.0.lock().remove(&hash(state))?;
        let is_own = hash(cookie) == begun.cookie && is_same(&begun.ticket, ticket);
        (is_own && now < begun.since + LIFETIME).then_some(begun.flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(pending: &Pending, now: Duration) -> Option<Given> {
        pending.begin(Flow::new("https://nas.example/openid".into()), random(), now)
    }

    #[test]
    fn a_logon_is_finished_once_by_its_browser_in_time() {
        let (pending, at) = (Pending::default(), Duration::from_secs);
        let take = |given: &Given, now| pending.take(&given.state, &given.cookie, &given.ticket, now).is_some();
        let given = begin(&pending, at(0)).unwrap();
        assert!(take(&given, at(599)) && !take(&given, at(599)));
        let given = begin(&pending, at(0)).unwrap();
        assert!(!take(&given, at(600)));
        for (cookie, ticket) in [(true, false), (false, true)] {
            let (given, other) = (begin(&pending, at(0)).unwrap(), begin(&pending, at(0)).unwrap());
            let cookie = if cookie { &given.cookie } else { &other.cookie };
            let ticket = if ticket { &given.ticket } else { &other.ticket };
            assert!(pending.take(&given.state, cookie, ticket, at(1)).is_none());
        }
    }

    #[test]
    fn the_number_is_bounded() {
        let pending = Pending::default();
        let begun = (0..3 * MOST).filter(|_| begin(&pending, Duration::ZERO).is_some()).count();
        assert_eq!(begun, MOST);
        assert!(begin(&pending, LIFETIME).is_some(), "those that expired make room");
    }
}
