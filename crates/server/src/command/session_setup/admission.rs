//! Logon to the console after an authentication by an OpenID Connect issuer, which stands in for the password. The
//! restrictions of the account are those of a logon over SMB.

use std::net::IpAddr;

use super::ntlm::check_account;
use crate::accounts::{AccountPolicy, Unavailable};
use crate::domain::Refused;
use crate::restrictions::HostLogon;
use crate::state::Server;

impl Server {
    /// Admits the account with exactly this name, and returns whether it administrates the server: it is root's, or on
    /// `admin users` of the global section. `None` if the account does not exist or may not log on. An account whose
    /// password must be changed is admitted, because its user can then change it. Accounts of a domain are not found.
    ///
    /// # Errors
    /// A back end does not answer; the text names it.
    pub async fn admit_to_console(&self, name: &str, from: IpAddr) -> Result<Option<bool>, String> {
        let accounts = &self.accounts.authenticator;
        let mut found = accounts.find(name).await.map_err(|Unavailable(why)| why)?;
        if found.is_none() {
            // The back end's cache may be older than the account.
            found = accounts.find_anew(name).await.map_err(|Unavailable(why)| why)?;
        }
        // Back ends ignore the case. Names of an issuer that differ in it may be those of two users.
        let Some(mut account) = found.filter(|account| account.name == name) else { return Ok(None) };
        account.must_change = false;
        // Without an age, no password expires.
        if check_account(&account, &AccountPolicy::default(), self.environment.now()).is_err() {
            return Ok(None);
        }
        if let Some(restrictions) = self.restrictions() {
            let logon = HostLogon { name: name.to_owned(), uid: account.identity.uid, client: from, session: None };
            match restrictions.check(logon).await {
                Ok(_) => {}
                Err(Refused::Unavailable(why)) => return Err(why),
                Err(_) => return Ok(None),
            }
        }
        self.administrates(&account, &self.policy().clone()).await.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::answer::block_on;
    use crate::policy::{Policy, UserPattern};
    use crate::testing::TestServer;

    fn admitted(server: &Arc<Server>, name: &str) -> Option<bool> {
        block_on(server.admit_to_console(name, IpAddr::from([127, 0, 0, 1]))).expect("the accounts are available")
    }

    #[test]
    fn accounts_are_admitted_by_their_exact_names() {
        let configure = |policy: &mut Policy| policy.admin_users = vec![UserPattern::User("alice".into())];
        let server: Arc<Server> = TestServer::builder().configure(configure).start().clone();
        assert_eq!(admitted(&server, "alice"), Some(true));
        assert_eq!(admitted(&server, "bob"), Some(false));
        // The account of carol is disabled.
        for wrong in ["Alice", "ALICE", "alice ", "nobody here", "carol", ""] {
            assert_eq!(admitted(&server, wrong), None, "{wrong}");
        }
    }
}
