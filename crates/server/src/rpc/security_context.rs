//! Authentication of a pipe's association ([MS-RPCE] 3.3.1.5.2): NTLM in three PDUs, and the signing or encryption of
//! the calls.
//!
//! Some programs require it although the session is already authenticated and SMB signs and encrypts the pipe's data:
//! Samba's `smbpasswd` encrypts what it sends. The user must be that of the session. Anonymous sessions cannot
//! authenticate here, because they could otherwise guess passwords. A session that was established without a password
//! could guess its user's password, so failures are delayed as at a logon.

use std::sync::Arc;

use parking_lot::Mutex;
use proto::auth::ntlm::{Acceptor, Sealing, Sender};
use proto::crypto::kdf::Key;
use proto::dtyp::FileTime;
use proto::rpc::auth::{AuthLevel, AuthType, Trailer};
use proto::rpc::pdu::Header;
use proto::status::Status;

use crate::accounts::Account;
use crate::error::{Error, Result as Executed};
use crate::named_pipe::Caller;
use crate::policy::limits::PIPE_NEGOTIATE_BYTES;
use crate::state::Server;
use crate::user::User;

/// The state of the authentication.
#[derive(Default)]
pub(super) struct SecurityContext(Mutex<State>);

#[derive(Default)]
enum State {
    /// The association relies on the session's authentication.
    #[default]
    None,
    /// The challenge was sent.
    Challenged(Box<(Acceptor, Trailer)>),
    Protected(Box<(Sealing, Trailer, Key)>),
    /// The third PDU, which has no response, had a wrong proof: calls are refused.
    Failed,
}

/// An authentication other than NTLM with signing or encryption.
pub(super) struct UnknownProvider;

/// A call without a valid signature.
pub(super) struct Unprotected;

impl SecurityContext {
    /// Processes the bind `pdu` and adds the challenge to its response `answer` if the bind contains a NEGOTIATE.
    pub(super) fn begin(
        &self,
        header: &Header,
        pdu: &[u8],
        answer: &mut Vec<u8>,
        server: &Server,
    ) -> Executed<Result<(), UnknownProvider>> {
        let Some((trailer, at)) = Trailer::decode(header, pdu)? else { return Ok(Ok(())) };
        let negotiate = Trailer::value(pdu, at);
        let known = trailer.kind == AuthType::WINNT
            && server.policy().ntlm
            && [AuthLevel::PKT_INTEGRITY, AuthLevel::PKT_PRIVACY].contains(&trailer.level)
            && negotiate.len() <= PIPE_NEGOTIATE_BYTES;
        if !known {
            return Ok(Err(UnknownProvider));
        }
        let mut state = self.0.lock();
        if !matches!(*state, State::None) {
            return Err(Error::because(Status::INVALID_PARAMETER, "the association is already authenticated"));
        }
        let mut acceptor = Acceptor::new(server.policy().target_names());
        let now = FileTime::from(server.environment.now()).0;
        let challenge = acceptor
            .challenge(negotiate, server.random(), now)
            .map_err(|_| Error::because(Status::INVALID_PARAMETER, "the NTLM message cannot be decoded"))?;
        trailer.with_token(answer, &challenge);
        *state = State::Challenged(Box::new((acceptor, trailer)));
        Ok(Ok(()))
    }

    /// Verifies the proof in the third PDU.
    pub(super) async fn finish(
        &self,
        header: &Header,
        pdu: &[u8],
        server: &Server,
        caller: &dyn Caller,
    ) -> Executed<()> {
        let State::Challenged(challenged) = std::mem::replace(&mut *self.0.lock(), State::Failed) else {
            return Err(Error::because(Status::INVALID_PARAMETER, "unexpected authentication message"));
        };
        let (acceptor, trailer) = *challenged;
        let Some((_, at)) = Trailer::decode(header, pdu)? else { return Ok(()) };
        let Some(user) = caller.user().filter(|user| !user.anonymous && !user.guest) else { return Ok(()) };
        let arrived = server.environment.uptime();
        match prove(&acceptor, Trailer::value(pdu, at), &user, server, caller).await {
            Ok((sealing, key)) => *self.0.lock() = State::Protected(Box::new((sealing, trailer, key))),
            // Further PDUs on this pipe wait as well.
            Err(Wrong) => caller.delay_wrong_password(&user.name, arrived).await,
        }
        Ok(())
    }

    /// Verifies and decrypts a request.
    pub(super) fn open(&self, header: &Header, pdu: &mut Vec<u8>) -> Executed<Result<(), Unprotected>> {
        let found = Trailer::decode(header, pdu)?;
        Ok(match (&mut *self.0.lock(), found) {
            (State::None, None) => Ok(()),
            (State::Protected(protected), Some((trailer, at))) if trailer.level == protected.1.level => {
                if trailer.unprotect(pdu, at, &mut protected.0) { Ok(()) } else { Err(Unprotected) }
            }
            _ => Err(Unprotected),
        })
    }

    /// Returns the session key of the authentication; `None` if the pipe is not authenticated itself.
    pub(super) fn session_key(&self) -> Option<Key> {
        match &*self.0.lock() {
            State::Protected(protected) => Some(protected.2.clone()),
            _ => None,
        }
    }

    /// Returns the bytes that protection adds to a fragment; `None` if responses are not protected.
    pub(super) fn overhead(&self) -> Option<u16> {
        matches!(*self.0.lock(), State::Protected(..)).then_some(proto::rpc::auth::OVERHEAD)
    }

    /// Protects a fragment of a response. Fragments must be protected in the order in which the client reads them.
    pub(super) fn protect(&self, fragment: &mut Vec<u8>) {
        if let State::Protected(protected) = &mut *self.0.lock() {
            let (sealing, trailer, _) = &mut **protected;
            trailer.protect(fragment, sealing);
        }
    }
}

/// An invalid proof.
struct Wrong;

/// Returns the keys if the proof is valid for the session's own user.
async fn prove(
    acceptor: &Acceptor,
    proof: &[u8],
    user: &Arc<User>,
    server: &Server,
    caller: &dyn Caller,
) -> Result<(Sealing, Key), Wrong> {
    let claim = acceptor.authenticate(proof).ok().filter(|claim| !claim.anonymous).ok_or(Wrong)?;
    let account = server.accounts.authenticator.find(&claim.user).await.ok().flatten().ok_or(Wrong)?;
    if account.name != user.name || server.logons.is_locked_out(&account.name) {
        return Err(Wrong);
    }
    if !server.logons.may_try(&account.name, caller.address().ip().into()) {
        return Err(Wrong);
    }
    let verify = |account: &Account| acceptor.verify(&claim, account.nt_hash.as_ref().map(|hash| &hash.0)).ok();
    let mut verified = verify(&account);
    if verified.is_none() {
        // The back end's cache may be older than the account's latest password. While the back end is unavailable, a
        // proof that does not match the cache counts as wrong.
        let anew = server.accounts.authenticator.find_anew(&claim.user).await.ok().flatten();
        verified = anew.filter(|anew| anew.name == account.name).and_then(|anew| verify(&anew));
        // Concurrent wrong proofs may have locked the account during the wait. A valid one must not be distinguishable.
        if server.logons.is_locked_out(&account.name) {
            return Err(Wrong);
        }
    }
    match verified {
        Some(verified) => {
            let key = Key::from_session_key(&verified.key().0);
            verified.sealing(Sender::Server).map(|sealing| (sealing, key)).ok_or(Wrong)
        }
        None => {
            server.logons.wrong_password(&account.name, true);
            Err(Wrong)
        }
    }
}
