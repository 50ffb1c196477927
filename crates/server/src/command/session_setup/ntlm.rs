//! Logging on by NTLMv2 ([MS-NLMP] 3.2.5.1), with accounts of this server's own or of its domain; guests and anonymous callers.

use std::sync::Arc;

use proto::auth::ntlm::{self, Acceptor, Claim, Sender};
use proto::dtyp::FileTime;
use proto::status::Status;
use zeroize::Zeroizing;

use super::pass_through;
use super::spnego::{Proven, Said};
use super::user::known_user;
use crate::accounts::{Account, AccountPolicy, LogonOutcome, Unavailable};
use crate::conn::Request;
use crate::domain::{Refused, Whose};
use crate::error::{Error, Result};
use crate::neighbourhood::Neighbourhood;
use crate::policy::{MapToGuest, Policy};
use crate::server::Server;
use crate::session::User;
use crate::tickets::Signatures;
use crate::vfs::Time;

/// An authentication by NTLM that is under way.
pub(super) struct Ntlm {
    acceptor: Acceptor,
    /// A challenge was sent.
    challenged: bool,
}

impl Ntlm {
    pub(super) fn new(policy: &Policy) -> Self {
        Ntlm { acceptor: Acceptor::new(pass_through::target_names(policy)), challenged: false }
    }

    /// Takes the client's next message. Where the password was wrong, `guessed` is whose.
    pub(super) async fn step(
        &mut self,
        request: &Request<'_>,
        message: &[u8],
        policy: &Policy,
        guessed: &mut Option<String>,
    ) -> Result<Said> {
        if self.challenged {
            return self.finish(request, message, policy, guessed).await;
        }
        super::check_kept(message)?;
        let server = &request.connection.server;
        let now = FileTime::from(server.world.now()).0;
        let challenge = self.acceptor.challenge(message, server.random(), now).map_err(not_ntlm)?;
        self.challenged = true;
        Ok(Said::More(challenge))
    }

    /// The AUTHENTICATE message: is the proof right?
    async fn finish(
        &self,
        request: &Request<'_>,
        message: &[u8],
        policy: &Policy,
        guessed: &mut Option<String>,
    ) -> Result<Said> {
        let claim = self.acceptor.authenticate(message).map_err(not_ntlm)?;
        if claim.anonymous {
            return unproven(&claim, policy);
        }
        let mut meant = claim.user.clone();
        match self.prove(request, &claim, policy, &mut meant, guessed).await {
            Ok((verified, account)) => {
                super::spn::check(claim.target_name.as_deref(), request.connection.peer.local.ip(), policy)?;
                let user = known_user(&account, claim.workstation, policy);
                let key = Zeroizing::new(verified.key().0.to_vec());
                Ok(Said::Done(Proven {
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
                if !guest || policy.guest.is_none() {
                    *guessed = Some(meant);
                    return Err(Error::because(Status::LOGON_FAILURE, format!("user {:?}", claim.user)));
                }
                unproven(&claim, policy)
            }
            Err(refused) => {
                // With a right password as with a wrong one.
                if matches!(refused, Refused::Because(Status::ACCOUNT_LOCKED_OUT)) {
                    *guessed = Some(meant);
                }
                Err(refused.error(&claim.user))
            }
        }
    }

    /// Whether the proof is right, whoever has the account: this server, or the domain that it is a member of.
    /// `meant` becomes the name of the own account that is asked for, and `guessed` that of one whose password was wrong by
    /// all that can be known now.
    async fn prove(
        &self,
        request: &Request<'_>,
        claim: &Claim,
        policy: &Policy,
        meant: &mut String,
        guessed: &mut Option<String>,
    ) -> std::result::Result<(ntlm::Session, Account), Refused> {
        let server = &request.connection.server;
        let from = Neighbourhood::from(request.connection.peer.remote.ip());
        let membership = policy.membership.as_ref();
        let whose = membership.map_or(Whose::Ours, |it| it.whose(&policy.netbios_name, &claim.domain, &claim.user));
        let mapped = match &policy.username_map {
            Some(map) if whose != Whose::Domain => {
                let mapped = map.account_of(&claim.domain, &claim.user).await;
                mapped.map_err(|unavailable| Refused::Unavailable(unavailable.0))?
            }
            _ => None,
        };
        // Failed logons count for the account, whatever the client calls it.
        let name = mapped.as_deref().unwrap_or(&claim.user);
        let account = match whose {
            Whose::Domain => None,
            Whose::Ours | Whose::Either => {
                let found = server.accounts.find(name).await;
                found.map_err(|unavailable| Refused::Unavailable(unavailable.0))?
            }
        };
        if let (Whose::Domain | Whose::Either, None, Some(membership)) = (whose, &account, membership) {
            return pass_through::prove(server, membership, &self.acceptor, claim, policy, from).await;
        }
        let tried = account.as_ref().map_or(name, |account| &account.name);
        if !server.may_try(tried, from) {
            meant.clear();
            meant.push_str(tried);
            return Err(match &account {
                _ if server.is_locked_out(tried) => Refused::Because(Status::ACCOUNT_LOCKED_OUT),
                Some(_) => Refused::Wrong,
                None => Refused::Unknown,
            });
        }
        // An unknown user costs the same work as a wrong password, so that the two cannot be told apart by time.
        let verified = self.verify(claim, account.as_ref());
        let mut proven = verified.zip(account.clone());
        if proven.is_none() {
            // The account may have been made or changed a moment ago, and the back end remember what was before.
            let anew = server.accounts.find_anew(name).await;
            let anew = anew.map_err(|Unavailable(why)| unanswered(server, account.as_ref(), guessed, why))?;
            proven = anew.and_then(|anew| self.verify(claim, Some(&anew)).zip(Some(anew)));
        }
        // By its own name, whatever else leads to it. Looked at behind every wait: many may guess at once, and whether one
        // of them was right is not to be seen once the account is locked.
        let found = proven.as_ref().map(|(_, account)| account).or(account.as_ref());
        let name = found.map_or_else(|| name.to_owned(), |account| account.name.clone());
        meant.clone_from(&name);
        if server.is_locked_out(&name) {
            return Err(Refused::Because(Status::ACCOUNT_LOCKED_OUT));
        }
        let (verified, account) = proven.ok_or_else(|| refuse(server, &name, account))?;
        server.forgive(&name);
        server.authenticated(&name, from);
        check_account(&account, &server.accounts.policy(), server.world.now())?;
        server.accounts.logged_on(&account.name, LogonOutcome::Success);
        Ok((verified, account))
    }

    fn verify(&self, claim: &Claim, account: Option<&Account>) -> Option<ntlm::Session> {
        let hash = account.and_then(|account| account.nt_hash.as_ref()).map(|hash| &hash.0);
        self.acceptor.verify(claim, hash).ok()
    }
}

fn not_ntlm(_: impl std::error::Error) -> Error {
    Error::because(Status::INVALID_PARAMETER, "NTLM message does not decode")
}

/// Why a proof is refused that does not fit what the back end remembers, while that cannot be asked anew. It is a guess as
/// any other: a right one would have been taken.
fn unanswered(server: &Server, remembered: Option<&Account>, guessed: &mut Option<String>, why: String) -> Refused {
    let Some(account) = remembered else { return Refused::Unavailable(why) };
    *guessed = Some(account.name.clone());
    if server.is_locked_out(&account.name) {
        return Refused::Because(Status::ACCOUNT_LOCKED_OUT);
    }
    server.wrong_password(&account.name, true);
    Refused::Unavailable(why)
}

/// Why a proof that fits nothing is refused.
fn refuse(server: &Server, name: &str, account: Option<Account>) -> Refused {
    server.wrong_password(name, account.is_some());
    let Some(account) = account else { return Refused::Unknown };
    server.accounts.logged_on(&account.name, LogonOutcome::WrongPassword);
    Refused::Wrong
}

/// What is said only to those who know the password.
fn check_account(account: &Account, policy: &AccountPolicy, now: Time) -> std::result::Result<(), Refused> {
    match account {
        account if account.disabled => Err(Refused::Because(Status::ACCOUNT_DISABLED)),
        account if account.locked => Err(Refused::Because(Status::ACCOUNT_LOCKED_OUT)),
        account if account.expires.is_some_and(|end| end <= now) => Err(Refused::Because(Status::ACCOUNT_EXPIRED)),
        account if account.must_change => Err(Refused::Because(Status::PASSWORD_MUST_CHANGE)),
        account if account.has_expired_password(policy, now) => Err(Refused::Because(Status::PASSWORD_EXPIRED)),
        _ => Ok(()),
    }
}

/// Who has not shown a password: the guest, or nobody.
fn unproven(claim: &Claim, policy: &Policy) -> Result<Said> {
    let guest = policy.guest.as_ref();
    let anonymous = claim.anonymous;
    if anonymous && policy.restrict_anonymous >= 2 {
        return Err(Error::because(Status::ACCESS_DENIED, "restrict anonymous = 2"));
    }
    let identity = match guest {
        Some(guest) => guest.identity.clone(),
        // Good for IPC$ only, where no file is touched.
        None if anonymous => Arc::new(crate::vfs::Identity { uid: 65534, gid: 65534, groups: Box::new([]) }),
        None => return Err(Error::new(Status::LOGON_FAILURE)),
    };
    let user = User {
        name: guest.map_or_else(|| "ANONYMOUS LOGON".to_string(), |guest| guest.name.clone()),
        domain: policy.netbios_name.clone(),
        workstation: claim.workstation.clone(),
        guest: !anonymous,
        anonymous,
        sids: Arc::new([]),
        identity,
        groups: Arc::new([]),
    };
    let key = anonymous.then(|| Zeroizing::new(claim.null_session().key().0.to_vec()));
    Ok(Said::Done(Proven { user, key, signatures: None, token: Vec::new(), lifetime: None }))
}

impl Signatures for ntlm::Session {
    fn sign(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        self.mech_list_mic(Sender::Server, message).map(|mic| mic.to_vec())
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> bool {
        self.verify_mech_list_mic(Sender::Client, message, signature)
    }
}
