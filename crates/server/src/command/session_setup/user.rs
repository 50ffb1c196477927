//! Creates a session's user from an account.

use crate::accounts::Account;
use crate::domain::Refused;
use crate::policy::Policy;
use crate::user::User;

/// Checks the uid of a user from a domain or realm. It determines its users but not which system account of this host
/// they may act as: never uid 0, and none below `min domain uid`.
pub(super) fn check_uid(uid: u32, policy: &Policy) -> Result<(), Refused> {
    if uid != 0 && uid >= policy.min_domain_uid {
        return Ok(());
    }
    let least = policy.min_domain_uid.max(1);
    Err(Refused::Unmapped(format!(
        "its user has uid {uid} here, which is below `min domain uid` ({least}) or that of root"
    )))
}

/// Returns the user of an account.
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
