//! Logon with Kerberos (RFC 4121, [MS-KILE] 3.4.5): a ticket for this server, accepted in one step.
//!
//! Not implemented: the third message of DCE style, which SMB does not use, and delegated tickets.

use proto::auth::pac::LogonInfo;
use proto::status::Status;

use super::mapped;
use super::user::{check_uid, known_user};
use crate::accounts::principals::may_come_from_domain;
use crate::accounts::{Account, Unavailable};
use crate::audit::{Sent, sent_name};
use crate::authentication::{Attempt, Authenticated, Kerberos, MechanismStep};
use crate::domain::Refused;
use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::request::Request;
use crate::state::Server;
use crate::tickets::{Cause, ClientName, Refusal, Ticket};
use crate::vfs::Time;

impl Kerberos {
    /// Validates the client's ticket.
    pub(super) async fn step(
        &mut self,
        request: &Request<'_>,
        message: &[u8],
        policy: &Policy,
        attempt: &mut Attempt,
    ) -> Result<MechanismStep> {
        attempt.method = "Kerberos";
        let server = &request.connection.server;
        let tickets = server.tickets().ok_or(Error::because(Status::LOGON_FAILURE, "Kerberos is not configured"))?;
        let ticket = match tickets.accept(message.to_vec()).await {
            Ok(ticket) => ticket,
            Err(refusal) => return self.refuse(refusal),
        };
        let Ticket { client, logon, reply, key, lifetime, signatures } = ticket;
        if policy.logon_audit.is_on() {
            attempt.sent = Sent::new(&client.realm, &client.components.join("/"), "");
        }
        let account = match account(server, &client, logon.and_then(believed), policy).await {
            Ok(account) => account,
            Err(Refused::Unknown | Refused::Wrong) => {
                tracing::warn!(
                    client = %client,
                    peer = %request.connection.peer.remote,
                    "valid Kerberos ticket of a client without an account here; add the account"
                );
                attempt.cause = Some(Status::NO_SUCH_USER);
                return Err(Error::because(Status::LOGON_FAILURE, format!("{client} has no account here")));
            }
            Err(refused) => return Err(refused.error(&sent_name(&client.to_string()))),
        };
        check_account(&account, server.environment.now())?;
        server.logons.authenticated(&account.name, request.connection.peer.remote.ip().into());
        let user = known_user(&account, String::new(), policy);
        Ok(MechanismStep::Done(Authenticated {
            user,
            key: Some(key),
            signatures: Some(signatures),
            token: reply,
            lifetime,
        }))
    }

    /// Handles a rejected ticket. A client with a wrong clock is sent the right time and may retry, as with Windows
    /// servers.
    fn refuse(&mut self, refusal: Refusal) -> Result<MechanismStep> {
        let Refusal { cause, why, reply } = refusal;
        tracing::warn!("Kerberos logon refused: {why}");
        let status = match cause {
            Cause::Clock if !self.announced && !reply.is_empty() => {
                self.announced = true;
                return Ok(MechanismStep::More(reply));
            }
            Cause::Clock => Status::TIME_DIFFERENCE_AT_DC,
            Cause::Unavailable => Status::NO_LOGON_SERVERS,
            Cause::Time | Cause::Other => Status::LOGON_FAILURE,
        };
        Err(Error::because(status, why))
    }
}

/// Removes SIDs that a domain may not assign; returns `None` if even the user's SID is not from a domain.
fn believed(mut logon: LogonInfo) -> Option<LogonInfo> {
    logon.groups.retain(may_come_from_domain);
    (may_come_from_domain(&logon.user) && may_come_from_domain(&logon.primary_group)).then_some(logon)
}

/// Returns the account for a valid ticket. On a domain member, the domain determines it, by the SIDs in the ticket's
/// PAC or else by name. Otherwise `Authenticator::of_client` determines it.
async fn account(
    server: &Server,
    client: &ClientName,
    logon: Option<LogonInfo>,
    policy: &Policy,
) -> std::result::Result<Account, Refused> {
    let cannot = |unavailable: Unavailable| Refused::Unavailable(unavailable.0);
    // A standalone server treats its own realm as its domain and has no information about others.
    if policy.membership.is_none()
        && let ([name], true) = (&client.components[..], client.own_realm)
        && let Some(mapped) = mapped::account(server, policy, &format!(r"{}\{name}", policy.workgroup), &[]).await?
    {
        return Ok(mapped);
    }
    let account = match (server.domain(), &policy.membership, logon) {
        (Some(domain), Some(_), Some(logon)) => domain.account(client, logon).await?,
        (Some(domain), Some(membership), None) => match &client.components[..] {
            [name] if client.own_realm => {
                let name = format!("{}\\{name}", membership.workgroup);
                domain.find(&name).await.map_err(cannot)?.ok_or(Refused::Unknown)?
            }
            _ => return Err(Refused::Unknown),
        },
        (_, _, logon) => server
            .accounts
            .authenticator
            .of_client(client, logon.as_ref())
            .await
            .map_err(cannot)?
            .ok_or(Refused::Unknown)?,
    };
    check_uid(account.identity.uid, policy)?;
    // The administrator of the host may map a user to root.
    let mapped = match &policy.membership {
        Some(_) => mapped::account(server, policy, &account.name, &account.groups).await?,
        None => None,
    };
    Ok(mapped.unwrap_or(account))
}

/// Checks whether the account may log on. Password changes are not enforced, because the realm does that.
fn check_account(account: &Account, now: Time) -> Result<()> {
    match account {
        account if account.disabled => Err(Error::new(Status::ACCOUNT_DISABLED)),
        account if account.locked => Err(Error::new(Status::ACCOUNT_LOCKED_OUT)),
        account if account.expires.is_some_and(|end| end <= now) => Err(Error::new(Status::ACCOUNT_EXPIRED)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proto::dtyp::Sid;

    use super::*;

    #[test]
    fn a_domain_cannot_assign_sids_of_this_server() {
        let of_domain = |rid| Sid::of(5, [21, 1, 2, 3, rid]);
        let logon = |user, primary_group, groups: &[Sid]| LogonInfo {
            effective_name: "ann".into(),
            full_name: String::new(),
            logon_domain_name: "DOM".into(),
            user,
            primary_group,
            groups: groups.to_vec(),
        };
        let asserted = Sid::of(18, [1]);
        let local =
            [Sid::unix_user(0), Sid::unix_group(0), Sid::BUILTIN_ADMINISTRATORS, Sid::SYSTEM, Sid::CREATOR_OWNER];
        let groups = [&local[..], &[of_domain(5), asserted]].concat();
        let left = believed(logon(of_domain(1), of_domain(2), &groups)).map(|logon| logon.groups);
        assert_eq!(left, Some(vec![of_domain(5), asserted]));
        for sid in local {
            assert_eq!(believed(logon(sid, of_domain(2), &[])), None, "{sid}");
            assert_eq!(believed(logon(of_domain(1), sid, &[])), None, "{sid}");
        }
    }
}
