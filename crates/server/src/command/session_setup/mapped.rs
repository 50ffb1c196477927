//! `username map` for users whom a domain or a realm has proven: smb.conf(5) has their names in full, `DOMAIN\user`, and
//! looked up behind the proof. Whoever is mapped is the other account in all respects, and nothing of himself any more.

use crate::accounts::Account;
use crate::domain::{self, Refused};
use crate::policy::Policy;
use crate::server::Server;
use crate::tickets::ClientName;
use proto::status::Status;

/// The account that the administrator's file has for `full`, who is in `groups`; `None` where it has none. One that nobody
/// may log on with is none for whoever is mapped to it either; its password is not what was proven.
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
        None => match server.accounts.find(&name).await {
            Ok(None) => {
                // A user of the kernel's alone.
                let client = ClientName { components: vec![name.clone()], realm: String::new(), own_realm: true };
                server.accounts.of_client(&client, None).await
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
            "`username map` says that {full} is {name}, who is nobody here; root needs an account (`frevo user add root`)"
        ))),
    }
}
