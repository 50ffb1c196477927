//! Who a session's user is, from the account that was found.

use crate::accounts::Account;
use crate::policy::Policy;
use crate::session::User;

/// Who has an account.
pub(crate) fn known_user(account: &Account, workstation: String, policy: &Policy) -> User {
    let domain = account.domain.as_deref().unwrap_or(&policy.netbios_name).to_owned();
    User {
        name: account.name.clone(),
        domain,
        workstation,
        guest: false,
        anonymous: false,
        sids: std::iter::once(account.sid).chain(account.former_sids.iter().copied()).collect(),
        identity: account.identity.clone(),
        groups: account.groups.clone(),
    }
}
