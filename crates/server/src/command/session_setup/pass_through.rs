//! NTLM logons of domain accounts: a domain controller verifies the response, the rest is as for local accounts
//! ([MS-NLMP] 3.2.5.1.2, [MS-APDS] 3.1.5).

use proto::auth::ntlm::{Acceptor, Claim, Session as Proof};

use super::mapped;
use super::ntlm::workstation;
use super::user::check_uid;
use crate::accounts::Account;
use crate::accounts::principals::may_come_from_domain;
use crate::address_bucket::AddressBucket;
use crate::domain::{Membership, NetworkLogon, Refused};
use crate::policy::Policy;
use crate::state::Server;

/// Asks the domain to verify `claim`.
pub(super) async fn prove(
    server: &Server,
    membership: &Membership,
    ntlm: &Acceptor,
    claim: &Claim,
    policy: &Policy,
    from: AddressBucket,
) -> Result<(Proof, Account), Refused> {
    // A response that is not NTLMv2 is refused without asking the domain.
    let response = ntlm.pass_through(claim).map_err(|_| Refused::Wrong)?;
    let Some(domain) = server.domain() else {
        return Err(Refused::Unavailable("the server was not a domain member when it started; restart it".into()));
    };
    let logon_domain = membership.logon_domain(&claim.domain);
    let name = format!(r"{logon_domain}\{}", claim.user);
    if !server.logons.may_ask(&name, from) {
        return Err(Refused::Wrong);
    }
    let logon =
        NetworkLogon { user: claim.user.clone(), domain: logon_domain, workstation: workstation(claim), response };
    let proven = domain.log_on(logon).await.inspect_err(|refused| {
        if matches!(refused, Refused::Wrong | Refused::Unknown) {
            server.logons.tried_in_vain(&name, from);
        }
    })?;
    let verified = ntlm.verified_elsewhere(claim, &proven.session_base_key).map_err(|_| Refused::Wrong)?;
    server.logons.authenticated(&name, from);
    check_uid(proven.account.identity.uid, policy)?;
    let mut account = proven.account;
    if !may_come_from_domain(&account.sid) {
        return Err(Refused::Unmapped(format!("{} is not the SID of a domain user", account.sid)));
    }
    account.former_sids = account.former_sids.iter().filter(|sid| may_come_from_domain(sid)).copied().collect();
    let mapped = mapped::account(server, policy, &account.name, &account.groups).await?;
    Ok((verified, mapped.unwrap_or(account)))
}
