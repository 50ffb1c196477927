//! Logging on by NTLMv2 ([MS-NLMP] 3.2.5.1), with accounts of this server's own; guests and anonymous callers.

use std::sync::Arc;

use proto::auth::ntlm::{self, Acceptor, Claim, Sender, TargetNames};
use proto::dtyp::FileTime;
use proto::status::Status;
use zeroize::Zeroizing;

use super::spnego::{Proven, Said, Signatures};
use super::user::known_user;
use crate::accounts::Account;
use crate::conn::Request;
use crate::error::{Error, Result};
use crate::policy::{MapToGuest, Policy};
use crate::session::User;

/// An authentication by NTLM that is under way.
pub(super) struct Ntlm {
    acceptor: Acceptor,
    /// A challenge was sent.
    challenged: bool,
}

impl Ntlm {
    pub(super) fn new(policy: &Policy) -> Self {
        let dns = policy.netbios_name.to_lowercase();
        let acceptor = Acceptor::new(TargetNames {
            netbios_computer: policy.netbios_name.clone(),
            // A server of its own is the domain of its accounts.
            netbios_domain: policy.netbios_name.clone(),
            dns_computer: dns.clone(),
            dns_domain: String::new(),
            domain_joined: false,
        });
        Ntlm { acceptor, challenged: false }
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
        let accounts = &request.connection.server.accounts;
        let account = accounts.find(&claim.user).await.map_err(|unavailable| {
            tracing::error!(user = claim.user, why = unavailable.0, "accounts cannot be asked");
            Error::because(Status::NO_LOGON_SERVERS, "accounts cannot be asked")
        })?;
        // An unknown user costs the same work as a wrong password, so that the two cannot be told apart by time.
        let hash = account.as_ref().and_then(|account| account.nt_hash.as_ref()).map(|hash| &hash.0);
        match (self.acceptor.verify(&claim, hash), account) {
            (Ok(verified), Some(account)) => {
                check_account(&account)?;
                let user = known_user(&account, claim.workstation, policy);
                let key = Zeroizing::new(verified.key().0.to_vec());
                Ok(Said::Done(Proven { user, key: Some(key), signatures: Some(Box::new(verified)), token: Vec::new() }))
            }
            (_, account) => {
                let guest = match policy.map_to_guest {
                    MapToGuest::Never => false,
                    MapToGuest::BadUser => account.is_none(),
                    MapToGuest::BadPassword => true,
                };
                if !guest || policy.guest.is_none() {
                    *guessed = Some(claim.user.clone());
                    return Err(Error::because(Status::LOGON_FAILURE, format!("user {:?}", claim.user)));
                }
                unproven(&claim, policy)
            }
        }
    }
}

fn not_ntlm(_: impl std::error::Error) -> Error {
    Error::because(Status::INVALID_PARAMETER, "NTLM message does not decode")
}

/// What is said only to those who know the password.
fn check_account(account: &Account) -> Result<()> {
    match account {
        account if account.disabled => Err(Error::new(Status::ACCOUNT_DISABLED)),
        account if account.locked => Err(Error::new(Status::ACCOUNT_LOCKED_OUT)),
        account if account.must_change => Err(Error::new(Status::PASSWORD_MUST_CHANGE)),
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
    Ok(Said::Done(Proven { user, key: None, signatures: None, token: Vec::new() }))
}

impl Signatures for ntlm::Session {
    fn sign(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        self.mech_list_mic(Sender::Server, message).map(|mic| mic.to_vec())
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> bool {
        self.verify_mech_list_mic(Sender::Client, message, signature)
    }
}
