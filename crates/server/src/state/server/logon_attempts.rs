//! Which passwords the server tries ([`crate::logon_attempts`]).

use super::Server;
use crate::address_bucket::AddressBucket;

impl Server {
    /// Returns whether a password of `name` may be tried from this address now, and counts a failure until it succeeds.
    pub(crate) fn may_try(&self, name: &str, from: AddressBucket) -> bool {
        self.logon_attempts.begin(name, from, self.environment.uptime(), true)
    }

    /// Returns whether a domain may be asked about a password of `name`. Its answer may take long, so only
    /// [`Server::tried_in_vain`] counts a failure.
    pub(crate) fn may_ask(&self, name: &str, from: AddressBucket) -> bool {
        self.logon_attempts.begin(name, from, self.environment.uptime(), false)
    }

    /// Records that the domain rejected the password.
    pub(crate) fn tried_in_vain(&self, name: &str, from: AddressBucket) {
        self.logon_attempts.begin(name, from, self.environment.uptime(), true);
    }

    /// Records that the user of the account `name` was authenticated from this address.
    pub(crate) fn authenticated(&self, name: &str, from: AddressBucket) {
        self.logon_attempts.succeeded(name, from);
    }
}
