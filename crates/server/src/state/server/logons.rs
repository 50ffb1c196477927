//! The defence against guessed passwords: which ones the server tries ([`crate::logon_attempts`]), when failures are
//! answered ([`crate::logon_throttle`]), and which accounts are locked ([`crate::lockout`]).

use std::sync::Arc;

use crate::accounts::Authenticator;
use crate::address_bucket::AddressBucket;
use crate::audit::sent_name;
use crate::environment::Environment;
use crate::lockout::Lockouts;
use crate::logon_attempts::LogonAttempts;
use crate::logon_throttle::LogonThrottle;

/// Failed logons and their consequences.
pub struct LogonDefence {
    environment: Arc<dyn Environment>,
    authenticator: Arc<dyn Authenticator>,
    /// Delays the responses to failed logons.
    pub(crate) throttle: LogonThrottle,
    attempts: LogonAttempts,
    lockouts: Lockouts,
}

impl LogonDefence {
    /// Creates empty tables. `secret` is random.
    pub(crate) fn new(
        environment: Arc<dyn Environment>,
        authenticator: Arc<dyn Authenticator>,
        secret: [u8; 16],
    ) -> Self {
        let (throttle, attempts) = (LogonThrottle::new(secret), LogonAttempts::new(secret));
        LogonDefence { environment, authenticator, throttle, attempts, lockouts: Lockouts::default() }
    }

    /// Returns whether the user account is locked after wrong passwords.
    pub fn is_locked_out(&self, name: &str) -> bool {
        self.lockouts.is_locked(name, &self.authenticator.policy(), self.environment.uptime())
    }

    /// Forgets wrong passwords of a user account, after an administrator has enabled it or set its password.
    pub fn clear_lockout(&self, name: &str) {
        self.lockouts.clear_lockout(name);
    }

    /// Records a wrong password for `name`. `exists`: there is a user account of that name.
    pub(crate) fn wrong_password(&self, name: &str, exists: bool) {
        let policy = self.authenticator.policy();
        if self.lockouts.failed(name, exists, &policy, self.environment.uptime()) {
            let (user, attempts) = (sent_name(name), policy.lockout_attempts);
            tracing::warn!(user, attempts, "account locked after wrong passwords");
            if exists && policy.lockout_duration.is_none() {
                self.authenticator.lock(name);
            }
        }
    }

    /// Returns whether a password of `name` may be tried from this address now, and counts a failure until it succeeds.
    pub(crate) fn may_try(&self, name: &str, from: AddressBucket) -> bool {
        self.attempts.begin(name, from, self.environment.uptime(), true)
    }

    /// Returns whether a domain may be asked about a password of `name`. Its answer may take long, so only
    /// [`LogonDefence::tried_in_vain`] counts a failure.
    pub(crate) fn may_ask(&self, name: &str, from: AddressBucket) -> bool {
        self.attempts.begin(name, from, self.environment.uptime(), false)
    }

    /// Records that the domain rejected the password.
    pub(crate) fn tried_in_vain(&self, name: &str, from: AddressBucket) {
        self.attempts.begin(name, from, self.environment.uptime(), true);
    }

    /// Records that the user of the account `name` was authenticated from this address.
    pub(crate) fn authenticated(&self, name: &str, from: AddressBucket) {
        self.attempts.succeeded(name, from);
    }
}
