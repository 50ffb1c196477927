//! `username map` for users authenticated by a domain or a realm. As smb.conf(5) specifies, their full names,
//! `DOMAIN\user`, are looked up after the authentication. A mapped user is the other account in all respects.

use crate::accounts::Account;
use crate::domain::{self, Refused};
use crate::policy::Policy;
use crate::state::Server;
use crate::tickets::ClientName;
use proto::status::Status;

/// Returns the account that the map file assigns to `full`, who is a member of `groups`; `None` if there is none. An
/// account that may not log on is refused for mapped users too. Its password is not checked, because the user was
/// authenticated otherwise.
pub(super) async fn account(
    server: &Server,
    policy: &Policy,
    full: &str,
    groups: &[String],
) -> Result<Option<Account>, Refused> {
    let Some(map) = &policy.username_map else { return Ok(None) };
    let mapped = map.account_of_proven(full, groups).await;
    let mapped = mapped.map_err(|unavailable| Refused::Unavailable(unavailable.0))?;
    let Some(name) = mapped else { return Ok(None) };
    let found = match server.domain().filter(|_| domain::split(&name).is_some()) {
        Some(domain) => domain.find(&name).await,
        None => match server.accounts.authenticator.find(&name).await {
            Ok(None) => {
                // A UNIX user without an SMB account.
                let client = ClientName { components: vec![name.clone()], realm: String::new(), own_realm: true };
                server.accounts.authenticator.of_client(&client, None).await
            }
            found => found,
        },
    };
    match found.map_err(|unavailable| Refused::Unavailable(unavailable.0))? {
        Some(account) if account.disabled => Err(Refused::Because(Status::ACCOUNT_DISABLED)),
        Some(account) if account.locked => Err(Refused::Because(Status::ACCOUNT_LOCKED_OUT)),
        Some(account) if account.expires.is_some_and(|end| end <= server.environment.now()) => {
            Err(Refused::Because(Status::ACCOUNT_EXPIRED))
        }
        Some(account) => Ok(Some(account)),
        None => Err(Refused::Unmapped(format!(
            "`username map` maps {full} to {name}, but there is no such account; add it (for root: `frevo user add \
             root`)"
        ))),
    }
}
