//! NTLM logons of domain accounts: a domain controller verifies the response, the rest is as for local accounts
//! ([MS-NLMP] 3.2.5.1.2, [MS-APDS] 3.1.5).

use proto::auth::ntlm::{Acceptor, Claim, Session as Proof, TargetNames};

use super::mapped;
use super::user::check_uid;
use crate::accounts::Account;
use crate::domain::{Membership, NetworkLogon, Refused};
use crate::neighbourhood::Neighbourhood;
use crate::policy::Policy;
use crate::principals::may_come_from_domain;
use crate::server::Server;

/// Returns the names of the server in its challenge. The domain name is the server itself, or the domain that it is a
/// member of.
pub(crate) fn target_names(policy: &Policy) -> TargetNames {
    let computer = policy.netbios_name.to_lowercase();
    let names = |netbios_domain: &str, dns_computer: String, dns_domain: String| TargetNames {
        netbios_computer: policy.netbios_name.clone(),
        netbios_domain: netbios_domain.to_owned(),
        dns_computer,
        dns_domain,
        domain_joined: policy.membership.is_some(),
    };
    match &policy.membership {
        None => names(&policy.netbios_name, computer, String::new()),
        Some(membership) if membership.realm.is_empty() => names(&membership.workgroup, computer, String::new()),
        Some(membership) => {
            let domain = membership.dns_domain();
            names(&membership.workgroup, format!("{computer}.{domain}"), domain)
        }
    }
}

/// Asks the domain to verify `claim`.
pub(super) async fn prove(
    server: &Server,
    membership: &Membership,
    ntlm: &Acceptor,
    claim: &Claim,
    policy: &Policy,
    from: Neighbourhood,
) -> Result<(Proof, Account), Refused> {
    // A response that is not NTLMv2 is refused without asking the domain.
    let response = ntlm.pass_through(claim).map_err(|_| Refused::Wrong)?;
    let Some(domain) = server.domain() else {
        return Err(Refused::Unavailable("the server was started as no member of a domain; restart it".into()));
    };
    let logon_domain = membership.logon_domain(&claim.domain);
    let name = format!(r"{logon_domain}\{}", claim.user);
    if !server.may_ask(&name, from) {
        return Err(Refused::Wrong);
    }
    let logon = NetworkLogon {
        user: claim.user.clone(),
        domain: logon_domain,
        workstation: claim.workstation.clone(),
        response,
    };
    let proven = domain.log_on(logon).await.inspect_err(|refused| {
        if matches!(refused, Refused::Wrong | Refused::Unknown) {
            server.tried_in_vain(&name, from);
        }
    })?;
    let verified = ntlm.verified_elsewhere(claim, &proven.session_base_key).map_err(|_| Refused::Wrong)?;
    server.authenticated(&name, from);
    check_uid(proven.account.identity.uid, policy)?;
    let mut account = proven.account;
    if !may_come_from_domain(&account.sid) {
        return Err(Refused::Unmapped(format!("{} is no SID of a domain's user", account.sid)));
    }
    account.former_sids = account.former_sids.iter().filter(|sid| may_come_from_domain(sid)).copied().collect();
    let mapped = mapped::account(server, policy, &account.name, &account.groups).await?;
    Ok((verified, mapped.unwrap_or(account)))
}
