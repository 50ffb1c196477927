//! Logon to the console with a password, for one of the `admin users` of the global section. The rules are those of a
//! logon over SMB with NTLM: the same limits of attempts, the same lockout, the same restrictions of the account.

use std::net::IpAddr;

use super::known_user;
use super::ntlm::{check_account, refuse};
use crate::accounts::{Account, LogonOutcome, NtHash, Unavailable};
use crate::address_bucket::AddressBucket;
use crate::domain::Refused;
use crate::policy::Policy;
use crate::restrictions::HostLogon;
use crate::state::Server;
use crate::user_lists::UserMatcher;

impl Server {
    /// Returns the name of the account if `given` is the hash of its password and it administrates the server; `None`
    /// if the logon is refused. Accounts of a domain are not found.
    ///
    /// # Errors
    /// A back end does not answer; the text names it.
    pub async fn log_on_administrator(
        &self,
        name: &str,
        given: &NtHash,
        from: IpAddr,
    ) -> Result<Option<String>, String> {
        let policy = self.policy().clone();
        if !policy.ntlm {
            return Ok(None);
        }
        let (accounts, bucket) = (&self.accounts.authenticator, AddressBucket::from(from));
        let mut found = accounts.find(name).await.map_err(|Unavailable(why)| why)?;
        if found.is_none() {
            // The back end's cache may be older than the account.
            found = accounts.find_anew(name).await.map_err(|Unavailable(why)| why)?;
        }
        // A password counts only for accounts that it could admit, so that names and passwords of UNIX administrators
        // lock out nobody.
        let Some(account) = found else { return Ok(None) };
        if !self.administrates(&account, &policy).await? || !self.logons.may_try(&account.name, bucket) {
            return Ok(None);
        }
        let mut proven = Some(account.clone()).filter(|account| has(account, given));
        if proven.is_none() {
            // The cache may be older than the latest password.
            let anew = accounts.find_anew(name).await.map_err(|Unavailable(why)| {
                // A right password would have matched the cache, so this one counts as wrong.
                if !self.logons.is_locked_out(&account.name) {
                    self.logons.wrong_password(&account.name, true);
                }
                why
            })?;
            proven = anew.filter(|account| has(account, given));
        }
        let name = proven.as_ref().map_or_else(|| account.name.clone(), |account| account.name.clone());
        if self.logons.is_locked_out(&name) {
            return Ok(None);
        }
        let Some(account) = proven else {
            refuse(self, &name, Some(account));
            return Ok(None);
        };
        self.logons.clear_lockout(&name);
        self.logons.authenticated(&name, bucket);
        if check_account(&account, &accounts.policy(), self.environment.now()).is_err() {
            return Ok(None);
        }
        if let Some(restrictions) = self.restrictions() {
            let logon = HostLogon { name: name.clone(), uid: account.identity.uid, client: from, session: None };
            match restrictions.check(logon).await {
                Ok(_) => {}
                Err(Refused::Unavailable(why)) => return Err(why),
                Err(_) => return Ok(None),
            }
        }
        accounts.logged_on(&name, LogonOutcome::Success);
        // The account that was found anew may be another one.
        Ok(self.administrates(&account, &policy).await?.then_some(name))
    }

    /// Returns whether an account is root's or on `admin users` of the global section.
    pub(super) async fn administrates(&self, account: &Account, policy: &Policy) -> Result<bool, String> {
        let user = known_user(account, String::new(), policy);
        if user.identity.uid == 0 {
            return Ok(true);
        }
        let unavailable = |_| "the groups of the user cannot be looked up; see the log of the server".to_owned();
        let sids = self.sids_of(&user).await.map_err(unavailable)?;
        let matcher = UserMatcher::new(&user, &sids, &self.accounts, policy);
        matcher.is_on(&policy.admin_users).await.map_err(unavailable)
    }
}

/// Returns whether the account has this password. The time does not depend on how much of the hashes is equal.
fn has(account: &Account, given: &NtHash) -> bool {
    account.nt_hash.as_ref().is_some_and(|own| {
        let pairs = own.0.iter().zip(given.0);
        pairs.fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proto::auth::ntlm::nt_hash;

    use super::*;
    use crate::answer::block_on;
    use crate::policy::UserPattern;
    use crate::testing::{self, TestServer};

    fn log_on(server: &Arc<Server>, name: &str, password: &str) -> Option<String> {
        let from = IpAddr::from([127, 0, 0, 1]);
        let hash = NtHash(nt_hash(password));
        block_on(server.log_on_administrator(name, &hash, from)).expect("the accounts are available")
    }

    #[test]
    fn admin_users_log_on_with_their_passwords() {
        let configure =
            |policy: &mut crate::policy::Policy| policy.admin_users = vec![UserPattern::User("alice".into())];
        let server: Arc<Server> = TestServer::builder().configure(configure).start().clone();
        assert_eq!(log_on(&server, "ALICE", testing::PASSWORD).as_deref(), Some("alice"));
        assert_eq!(log_on(&server, "alice", "wrong"), None);
        assert_eq!(log_on(&server, "bob", testing::PASSWORD), None, "bob does not administrate");
        assert_eq!(log_on(&server, "nobody here", testing::PASSWORD), None);
    }

    #[test]
    fn passwords_of_others_do_not_count() {
        let configure =
            |policy: &mut crate::policy::Policy| policy.admin_users = vec![UserPattern::User("alice".into())];
        let server: Arc<Server> = TestServer::builder().configure(configure).start().clone();
        let bucket = AddressBucket::from(IpAddr::from([127, 0, 0, 1]));
        for (name, counts) in [("bob", false), ("nobody here", false), ("alice", true)] {
            for _ in 0..20 {
                assert_eq!(log_on(&server, name, "wrong"), None);
            }
            assert_eq!(!server.logons.may_try(name, bucket), counts, "{name}");
        }
    }

    #[test]
    fn guesses_are_limited_as_over_smb() {
        let configure =
            |policy: &mut crate::policy::Policy| policy.admin_users = vec![UserPattern::User("alice".into())];
        let server: Arc<Server> = TestServer::builder().configure(configure).start().clone();
        for _ in 0..10 {
            assert_eq!(log_on(&server, "alice", "wrong"), None);
        }
        assert_eq!(log_on(&server, "alice", testing::PASSWORD), None, "it is not tried");
        let server: Arc<Server> = TestServer::builder().configure(|policy| policy.ntlm = false).start().clone();
        assert_eq!(log_on(&server, "alice", testing::PASSWORD), None);
    }
}
