//! Logon with NTLM ([MS-NLMP] 3.2.5.1), for accounts of this server or its domain, guests and anonymous users.

use std::sync::Arc;

use proto::auth::ntlm::{self, Claim, Sender};
use proto::dtyp::FileTime;
use proto::status::Status;
use zeroize::Zeroizing;

use super::pass_through;
use super::user::known_user;
use crate::accounts::{Account, AccountPolicy, LogonOutcome, Unavailable};
use crate::address_bucket::AddressBucket;
use crate::audit::{Sent, sent_name};
use crate::authentication::{Attempt, Authenticated, MechanismStep, Ntlm, check_kept};
use crate::domain::{Refused, Whose};
use crate::error::{Error, Result};
use crate::policy::limits::AUDITED_NAME;
use crate::policy::{MapToGuest, Policy};
use crate::request::Request;
use crate::state::Server;
use crate::tickets::Signatures;
use crate::user::User;
use crate::vfs::Time;

impl Ntlm {
    /// Processes the client's next message. `attempt` is set to what becomes known.
    pub(super) async fn step(
        &mut self,
        request: &Request<'_>,
        message: &[u8],
        policy: &Policy,
        attempt: &mut Attempt,
    ) -> Result<MechanismStep> {
        if self.challenged {
            return self.finish(request, message, policy, attempt).await;
        }
        check_kept(message)?;
        let server = &request.connection.server;
        let now = FileTime::from(server.environment.now()).0;
        let challenge = self.acceptor.challenge(message, server.random(), now).map_err(not_ntlm)?;
        self.challenged = true;
        Ok(MechanismStep::More(challenge))
    }

    /// Checks the proof in the AUTHENTICATE message.
    async fn finish(
        &self,
        request: &Request<'_>,
        message: &[u8],
        policy: &Policy,
        attempt: &mut Attempt,
    ) -> Result<MechanismStep> {
        let claim = self.acceptor.authenticate(message).map_err(not_ntlm)?;
        attempt.method = match (claim.anonymous, claim.is_ntlm_v1()) {
            (true, _) => "anonymous",
            (false, true) => "NTLMv1",
            (false, false) => "NTLMv2",
        };
        if policy.logon_audit.is_on() {
            attempt.sent = Sent::new(&claim.domain, &claim.user, &claim.workstation);
        }
        if claim.anonymous {
            return unproven(&claim, policy);
        }
        let mut meant = claim.user.clone();
        match self.prove(request, &claim, policy, &mut meant, &mut attempt.guessed).await {
            Ok((verified, account)) => {
                super::spn::check(claim.target_name.as_deref(), request.connection.peer.local.ip(), policy)?;
                let user = known_user(&account, workstation(&claim), policy);
                let key = Zeroizing::new(verified.key().0.to_vec());
                Ok(MechanismStep::Done(Authenticated {
                    user,
                    key: Some(key),
                    signatures: Some(Box::new(verified)),
                    token: Vec::new(),
                    lifetime: None,
                }))
            }
            Err(Refused::Unmapped(_)) if policy.map_to_guest == MapToGuest::BadUid && policy.guest.is_some() => {
                unproven(&claim, policy)
            }
            Err(refused @ (Refused::Unknown | Refused::Wrong)) => {
                let guest = match policy.map_to_guest {
                    MapToGuest::Never | MapToGuest::BadUid => false,
                    MapToGuest::BadUser => matches!(refused, Refused::Unknown),
                    MapToGuest::BadPassword => true,
                };
                let guest = guest && policy.guest.is_some();
                // A wrong password is recorded even if the client becomes a guest. Unknown names are ordinary then.
                if !guest || matches!(refused, Refused::Wrong) {
                    attempt.cause = Some(cause(&refused));
                }
                if !guest {
                    attempt.guessed = Some(meant);
                    return Err(Error::because(Status::LOGON_FAILURE, format!("user {:?}", sent_name(&claim.user))));
                }
                unproven(&claim, policy)
            }
            Err(refused) => {
                // The response is delayed for a right password too, so that it does not differ from a wrong one.
                if matches!(refused, Refused::Because(Status::ACCOUNT_LOCKED_OUT)) {
                    attempt.guessed = Some(meant);
                }
                Err(refused.error(&sent_name(&claim.user)))
            }
        }
    }

    /// Verifies the proof against an account of this server or of its domain. `meant` is set to the name of the local
    /// account that is checked. `guessed` is set to the name of an account whose password was wrong as far as can be
    /// determined now.
    async fn prove(
        &self,
        request: &Request<'_>,
        claim: &Claim,
        policy: &Policy,
        meant: &mut String,
        guessed: &mut Option<String>,
    ) -> std::result::Result<(ntlm::Session, Account), Refused> {
        let server = &request.connection.server;
        let from = AddressBucket::from(request.connection.peer.remote.ip());
        let membership = policy.membership.as_ref();
        let whose = membership.map_or(Whose::Ours, |it| it.whose(&policy.netbios_name, &claim.domain, &claim.user));
        let mapped = match &policy.username_map {
            Some(map) if whose != Whose::Domain => {
                let mapped = map.account_of(&claim.domain, &claim.user).await;
                mapped.map_err(|unavailable| Refused::Unavailable(unavailable.0))?
            }
            _ => None,
        };
        // Failed logons are counted for the account, whichever name the client uses.
        let name = mapped.as_deref().unwrap_or(&claim.user);
        let account = match whose {
            Whose::Domain => None,
            Whose::Ours | Whose::Either => {
                let found = server.accounts.authenticator.find(name).await;
                found.map_err(|unavailable| Refused::Unavailable(unavailable.0))?
            }
        };
        if let (Whose::Domain | Whose::Either, None, Some(membership)) = (whose, &account, membership) {
            return pass_through::prove(server, membership, &self.acceptor, claim, policy, from).await;
        }
        let tried = account.as_ref().map_or(name, |account| &account.name);
        if !server.logons.may_try(tried, from) {
            meant.clear();
            meant.push_str(tried);
            return Err(match &account {
                _ if server.logons.is_locked_out(tried) => Refused::Because(Status::ACCOUNT_LOCKED_OUT),
                Some(_) => Refused::Wrong,
                None => Refused::Unknown,
            });
        }
        // For an unknown user the same computation is done, so that timing does not reveal whether the user exists.
        let verified = self.verify(claim, account.as_ref());
        let mut proven = verified.zip(account.clone());
        if proven.is_none() {
            // The back end's cache may be older than the account or its latest password.
            let anew = server.accounts.authenticator.find_anew(name).await;
            let anew = anew.map_err(|Unavailable(why)| unanswered(server, account.as_ref(), guessed, why))?;
            proven = anew.and_then(|anew| self.verify(claim, Some(&anew)).zip(Some(anew)));
        }
        // The lockout uses the account's own name, whichever name led to it. It is checked after all waits: of many
        // concurrent guesses, a right one must not be distinguishable once the account is locked.
        let found = proven.as_ref().map(|(_, account)| account).or(account.as_ref());
        let name = found.map_or_else(|| name.to_owned(), |account| account.name.clone());
        meant.clone_from(&name);
        if server.logons.is_locked_out(&name) {
            return Err(Refused::Because(Status::ACCOUNT_LOCKED_OUT));
        }
        let (verified, account) = proven.ok_or_else(|| refuse(server, &name, account))?;
        server.logons.clear_lockout(&name);
        server.logons.authenticated(&name, from);
        check_account(&account, &server.accounts.authenticator.policy(), server.environment.now())?;
        server.accounts.authenticator.logged_on(&account.name, LogonOutcome::Success);
        Ok((verified, account))
    }

    fn verify(&self, claim: &Claim, account: Option<&Account>) -> Option<ntlm::Session> {
        let hash = account.and_then(|account| account.nt_hash.as_ref()).map(|hash| &hash.0);
        self.acceptor.verify(claim, hash).ok()
    }
}

/// Returns the reason of a refusal, which the client must not learn.
fn cause(refused: &Refused) -> Status {
    if matches!(refused, Refused::Unknown) { Status::NO_SUCH_USER } else { Status::WRONG_PASSWORD }
}

fn not_ntlm(_: impl std::error::Error) -> Error {
    Error::because(Status::INVALID_PARAMETER, "the NTLM message cannot be decoded")
}

/// Returns the error for a proof that does not match the cached account while the back end is unavailable. It is
/// treated as a wrong password, because a right one would have matched the cache.
fn unanswered(server: &Server, remembered: Option<&Account>, guessed: &mut Option<String>, why: String) -> Refused {
    let Some(account) = remembered else { return Refused::Unavailable(why) };
    *guessed = Some(account.name.clone());
    if server.logons.is_locked_out(&account.name) {
        return Refused::Because(Status::ACCOUNT_LOCKED_OUT);
    }
    server.logons.wrong_password(&account.name, true);
    Refused::Unavailable(why)
}

/// Returns the error for a wrong proof.
pub(super) fn refuse(server: &Server, name: &str, account: Option<Account>) -> Refused {
    server.logons.wrong_password(name, account.is_some());
    let Some(account) = account else { return Refused::Unknown };
    server.accounts.authenticator.logged_on(&account.name, LogonOutcome::WrongPassword);
    Refused::Wrong
}

/// Checks account restrictions, which are reported only to clients with the right password.
pub(super) fn check_account(account: &Account, policy: &AccountPolicy, now: Time) -> std::result::Result<(), Refused> {
    match account {
        account if account.disabled => Err(Refused::Because(Status::ACCOUNT_DISABLED)),
        account if account.locked => Err(Refused::Because(Status::ACCOUNT_LOCKED_OUT)),
        account if account.expires.is_some_and(|end| end <= now) => Err(Refused::Because(Status::ACCOUNT_EXPIRED)),
        account if account.must_change => Err(Refused::Because(Status::PASSWORD_MUST_CHANGE)),
        account if account.has_expired_password(policy, now) => Err(Refused::Because(Status::PASSWORD_EXPIRED)),
        _ => Ok(()),
    }
}

/// Returns the name of the client's computer, without what is longer than any such name, because it is kept with the
/// session.
pub(super) fn workstation(claim: &Claim) -> String {
    claim.workstation.chars().take(AUDITED_NAME).collect()
}

/// Logs on a client without a proof, as guest or anonymously.
fn unproven(claim: &Claim, policy: &Policy) -> Result<MechanismStep> {
    let guest = policy.guest.as_ref();
    let anonymous = claim.anonymous;
    if anonymous && policy.restrict_anonymous >= 2 {
        return Err(Error::because(Status::ACCESS_DENIED, "anonymous access is refused (`restrict anonymous = 2`)"));
    }
    let identity = match guest {
        Some(guest) => guest.identity.clone(),
        // Valid for IPC$ only, where no file is accessed.
        None if anonymous => Arc::new(crate::vfs::Identity { uid: 65534, gid: 65534, groups: Box::new([]) }),
        None => return Err(Error::new(Status::LOGON_FAILURE)),
    };
    let user = User {
        name: guest.map_or_else(|| "ANONYMOUS LOGON".to_string(), |guest| guest.name.clone()),
        domain: policy.netbios_name.clone(),
        workstation: workstation(claim),
        guest: !anonymous,
        anonymous,
        sids: Arc::new([]),
        identity,
        groups: Arc::new([]),
    };
    let key = anonymous.then(|| Zeroizing::new(claim.null_session().key().0.to_vec()));
    Ok(MechanismStep::Done(Authenticated { user, key, signatures: None, token: Vec::new(), lifetime: None }))
}

impl Signatures for ntlm::Session {
    fn sign(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        self.mech_list_mic(Sender::Server, message).map(|mic| mic.to_vec())
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> bool {
        self.verify_mech_list_mic(Sender::Client, message, signature)
    }
}
