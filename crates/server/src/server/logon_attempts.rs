//! Which passwords the server tries ([`crate::attempts`]).

use super::Server;
use crate::neighbourhood::Neighbourhood;

impl Server {
    /// Returns whether a password of `name` may be tried from this address now, and counts a failure until it succeeds.
    pub(crate) fn may_try(&self, name: &str, from: Neighbourhood) -> bool {
        self.attempts.begin(name, from, self.world.uptime(), true)
    }

    /// Returns whether a domain may be asked about a password of `name`. Its answer may take long, so only
    /// [`Server::tried_in_vain`] counts a failure.
    pub(crate) fn may_ask(&self, name: &str, from: Neighbourhood) -> bool {
        self.attempts.begin(name, from, self.world.uptime(), false)
    }

    /// Records that the domain rejected the password.
    pub(crate) fn tried_in_vain(&self, name: &str, from: Neighbourhood) {
        self.attempts.begin(name, from, self.world.uptime(), true);
    }

    /// Records that the user of the account `name` was authenticated from this address.
    pub(crate) fn authenticated(&self, name: &str, from: Neighbourhood) {
        self.attempts.succeeded(name, from);
    }
}
