//! SESSION_SETUP ([MS-SMB2] 3.3.5.5): a client proves who it is, in one or more round trips, and gets its keys.
//!
//! NTLMv2 inside SPNEGO or bare. Kerberos is not offered yet. How a session gets a further channel is in
//! `session_binding`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::auth::ntlm::{Acceptor, Claim, Sender, Session as Proof, TargetNames};
use proto::auth::spnego::{MechType, NegState, NegTokenResp, Token};
use proto::crypto::KeyRefused;
use proto::crypto::kdf::{Derivation, Key, KeyLength};
use proto::crypto::preauth::PreauthHash;
use proto::crypto::seal::{SealingKey, key_length};
use proto::crypto::sign::SigningKey;
use proto::dtyp::FileTime;
use proto::smb2::negotiate::{Dialect, SecurityMode};
use proto::smb2::session_setup::{SessionFlags, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use proto::status::Status;

use crate::accounts::{Account, DomainSid};
use crate::command::session_binding;
use crate::conn::{Hash, Negotiated, Reply, Request};
use crate::error::{Error, Result};
use crate::policy::{Encryption, MapToGuest, Policy, Signing};
use crate::session::{Channel, Phase, SessionKeys, User};

/// An authentication that has begun and awaits the client's next token.
pub struct Authentication {
    ntlm: Acceptor,
    /// The client speaks SPNEGO; its mechTypes as sent, over which both sides compute a MIC.
    spnego: Option<Vec<u8>>,
    /// A challenge was sent.
    challenged: bool,
}

/// How far a token brought the authentication.
pub(super) enum Step {
    Continue(Vec<u8>),
    Done(Box<Done>),
}

/// An authentication that is through.
pub(super) struct Done {
    pub(super) claim: Claim,
    /// The proof of the password; `None` for anonymous callers and guests.
    pub(super) verified: Option<Proof>,
    pub(super) account: Option<Account>,
    pub(super) token: Vec<u8>,
}

pub(crate) async fn session_setup(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = SessionSetupRequest::decode(request.message)?;
    let connection = request.connection;
    let negotiated = connection.negotiated().ok_or(Error::new(Status::INVALID_PARAMETER))?;
    let policy = connection.server.policy().clone();
    if policy.server_smb_encrypt == Encryption::Required && negotiated.cipher.is_none() {
        return Err(Error::because(Status::ACCESS_DENIED, "encryption is required, the client cannot"));
    }
    if asked.flags.contains(SessionSetupFlags::BINDING) {
        return session_binding::bind(request, reply, &asked, negotiated, &policy).await;
    }
    let channel = match &request.channel {
        Some(channel) => channel.clone(),
        None if request.header.session_id == 0 => begin(request, negotiated)?,
        None => return refuse_foreign(request, reply, Error::new(Status::USER_SESSION_DELETED)),
    };
    if channel.session.phase() == Phase::Closed {
        return Err(Error::new(Status::USER_SESSION_DELETED));
    }
    reply.session_id = Some(channel.session.id);
    let hashing = channel.session.phase() == Phase::InProgress && channel.session.keys().is_none();
    if hashing && let Some(preauth) = &mut *channel.preauth.lock() {
        preauth.update(request.message);
    }
    let mut guessed = None;
    let step = match step(request, &channel, asked.buffer, &policy, &mut guessed).await {
        Ok(step) => step,
        Err(error) => {
            // 3.3.5.5.3: a failed authentication ends the session on all its channels, the first as well as a later one.
            connection.server.end_session(&channel.session).await;
            slow_down(request, guessed).await;
            return Err(error);
        }
    };
    let (token, flags, status) = match step {
        Step::Continue(token) => {
            if hashing {
                reply.hash = Hash::Session(channel.clone());
            }
            (token, SessionFlags(0), Status::MORE_PROCESSING_REQUIRED)
        }
        Step::Done(done) => {
            let Done { claim, verified, account, token } = *done;
            let domain = request.connection.server.accounts.domain();
            let flags = user(&claim, account, domain, verified.is_some(), &policy)
                .and_then(|user| establish(request, &channel, &asked, user, verified, negotiated, &policy));
            let flags = match flags {
                Ok(flags) => flags,
                Err(error) => {
                    connection.server.end_session(&channel.session).await;
                    return Err(error);
                }
            };
            reply.sign_with = channel.signing();
            end_previous(request, &channel, asked.previous_session_id).await;
            (token, flags, Status::SUCCESS)
        }
    };
    SessionSetupResponse { session_flags: flags, buffer: &token }.encode(&mut reply.body());
    Ok(status)
}

/// A request about a session that this connection does not have. Whoever signs with that session's key (3.3.5.2.4) gets
/// the refusal signed.
pub(super) fn refuse_foreign(request: &Request<'_>, reply: &mut Reply, refusal: Error) -> Result<Status> {
    reply.sign_with = request.foreign_key();
    Err(refusal)
}

/// 3.3.5.5.1.
fn begin(request: &Request<'_>, negotiated: &Negotiated) -> Result<Arc<Channel>> {
    let connection = request.connection;
    let session = connection.server.new_session(negotiated.terms());
    let channel = Arc::new(Channel::new(session, negotiated.preauth.clone()));
    if let Err(error) = connection.add_channel(&channel) {
        connection.server.drop_session(&channel.session);
        return Err(error);
    }
    Ok(channel)
}

/// Whoever tries passwords of `guessed` waits for the answer.
pub(super) async fn slow_down(request: &Request<'_>, guessed: Option<String>) {
    let Some(name) = guessed else { return };
    let server = &request.connection.server;
    let answered = server.guesses.failed(&name, server.world.uptime());
    server.world.sleep(answered.saturating_sub(server.world.uptime())).await;
}

/// Feeds one token to the authentication of `channel`. Where the password was wrong, `guessed` is whose.
pub(super) async fn step(
    request: &Request<'_>,
    channel: &Channel,
    token: &[u8],
    policy: &Policy,
    guessed: &mut Option<String>,
) -> Result<Step> {
    let running = channel.authentication.lock().take();
    let token = Token::decode(token).map_err(|_| Error::because(Status::INVALID_PARAMETER, "no SPNEGO token"))?;
    let mut authentication = match running {
        Some(authentication) => authentication,
        None => Authentication { ntlm: acceptor(policy), spnego: None, challenged: false },
    };
    let (message, their_mic) = match token {
        Token::RawNtlm(message) => (Some(message), None),
        Token::Init(init) => {
            if !init.offers(MechType::NTLMSSP) {
                return Err(Error::because(Status::LOGON_FAILURE, "the client offers no NTLM"));
            }
            authentication.spnego = Some(init.mech_types_der.to_vec());
            // An optimistic token of another mechanism is passed over: the client sends NTLM's next.
            (init.token_for(MechType::NTLMSSP), None)
        }
        Token::Resp(response) => (response.response_token, response.mech_list_mic),
    };
    let Some(message) = message else {
        let answer = respond(NegState::ACCEPT_INCOMPLETE, None);
        *channel.authentication.lock() = Some(authentication);
        return Ok(Step::Continue(answer));
    };
    if !authentication.challenged {
        let server = &request.connection.server;
        let now = FileTime::from(server.world.now()).0;
        let challenge = authentication.ntlm.challenge(message, server.random(), now).map_err(not_ntlm)?;
        authentication.challenged = true;
        let answer = match &authentication.spnego {
            Some(_) => respond(NegState::ACCEPT_INCOMPLETE, Some(&challenge)),
            None => challenge,
        };
        *channel.authentication.lock() = Some(authentication);
        return Ok(Step::Continue(answer));
    }
    finish(request, authentication, message, their_mic, policy, guessed).await
}

fn acceptor(policy: &Policy) -> Acceptor {
    let dns = policy.netbios_name.to_lowercase();
    Acceptor::new(TargetNames {
        netbios_computer: policy.netbios_name.clone(),
        // A server of its own is the domain of its accounts.
        netbios_domain: policy.netbios_name.clone(),
        dns_computer: dns.clone(),
        dns_domain: String::new(),
        domain_joined: false,
    })
}

fn not_ntlm(_: impl std::error::Error) -> Error {
    Error::because(Status::INVALID_PARAMETER, "NTLM message does not decode")
}

/// The AUTHENTICATE message: is the proof right?
async fn finish(
    request: &Request<'_>,
    authentication: Authentication,
    message: &[u8],
    their_mic: Option<&[u8]>,
    policy: &Policy,
    guessed: &mut Option<String>,
) -> Result<Step> {
    let claim = authentication.ntlm.authenticate(message).map_err(not_ntlm)?;
    if claim.anonymous {
        let token = completed(&authentication, None);
        return Ok(Step::Done(Box::new(Done { claim, verified: None, account: None, token })));
    }
    let account = request.connection.server.accounts.find(&claim.user).await.map_err(|unavailable| {
        tracing::error!(user = claim.user, why = unavailable.0, "accounts cannot be asked");
        Error::because(Status::NO_LOGON_SERVERS, "accounts cannot be asked")
    })?;
    // An unknown user costs the same work as a wrong password, so that the two cannot be told apart by time.
    let hash = account.as_ref().and_then(|account| account.nt_hash.as_ref()).map(|hash| &hash.0);
    match authentication.ntlm.verify(&claim, hash) {
        Ok(verified) => {
            check_account(account.as_ref())?;
            let mic = match (&authentication.spnego, their_mic) {
                (Some(mech_types), Some(mic)) => {
                    if !verified.verify_mech_list_mic(Sender::Client, mech_types, mic) {
                        return Err(Error::because(Status::LOGON_FAILURE, "mechListMIC: somebody changed the list"));
                    }
                    verified.mech_list_mic(Sender::Server, mech_types)
                }
                _ => None,
            };
            let token = completed(&authentication, mic.as_ref().map(|mic| &mic[..]));
            Ok(Step::Done(Box::new(Done { claim, verified: Some(verified), account, token })))
        }
        Err(_) => {
            let guest = match policy.map_to_guest {
                MapToGuest::Never => false,
                MapToGuest::BadUser => account.is_none(),
                MapToGuest::BadPassword => true,
            };
            if !guest || policy.guest.is_none() {
                *guessed = Some(claim.user.clone());
                return Err(Error::because(Status::LOGON_FAILURE, format!("user {:?}", claim.user)));
            }
            let token = completed(&authentication, None);
            Ok(Step::Done(Box::new(Done { claim, verified: None, account: None, token })))
        }
    }
}

/// What is said only to those who know the password.
fn check_account(account: Option<&Account>) -> Result<()> {
    match account {
        Some(account) if account.disabled => Err(Error::new(Status::ACCOUNT_DISABLED)),
        Some(account) if account.locked => Err(Error::new(Status::ACCOUNT_LOCKED_OUT)),
        Some(account) if account.must_change => Err(Error::new(Status::PASSWORD_MUST_CHANGE)),
        Some(_) => Ok(()),
        None => Err(Error::new(Status::LOGON_FAILURE)),
    }
}

/// An answer of SPNEGO that chooses NTLM.
fn respond(state: NegState, token: Option<&[u8]>) -> Vec<u8> {
    NegTokenResp {
        neg_state: Some(state),
        supported_mech: Some(MechType::NTLMSSP),
        response_token: token,
        mech_list_mic: None,
    }
    .encode()
}

fn completed(authentication: &Authentication, mic: Option<&[u8]>) -> Vec<u8> {
    match authentication.spnego {
        Some(_) => {
            let neg_state = Some(NegState::ACCEPT_COMPLETED);
            NegTokenResp { neg_state, supported_mech: None, response_token: None, mech_list_mic: mic }.encode()
        }
        None => Vec::new(),
    }
}

/// Who has an account.
pub(crate) fn known_user(account: &Account, domain: DomainSid, workstation: String, policy: &Policy) -> User {
    User {
        name: account.name.clone(),
        domain: policy.netbios_name.clone(),
        workstation,
        guest: false,
        anonymous: false,
        sids: std::iter::once(domain.with_rid(account.rid)).chain(account.former_sids.iter().copied()).collect(),
        identity: account.identity.clone(),
        groups: account.groups.clone(),
    }
}

/// Who the client is from now on.
pub(super) fn user(
    claim: &Claim,
    account: Option<Account>,
    domain: DomainSid,
    proven: bool,
    policy: &Policy,
) -> Result<User> {
    if let (true, Some(account)) = (proven, account) {
        return Ok(known_user(&account, domain, claim.workstation.clone(), policy));
    }
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
    Ok(User {
        name: guest.map_or_else(|| "ANONYMOUS LOGON".to_string(), |guest| guest.name.clone()),
        domain: policy.netbios_name.clone(),
        workstation: claim.workstation.clone(),
        guest: !anonymous,
        anonymous,
        sids: Arc::new([]),
        identity,
        groups: Arc::new([]),
    })
}

/// The session was logged off over another channel while this one authenticated.
fn ended() -> Error {
    Error::new(Status::USER_SESSION_DELETED)
}

/// The user is proven: keys are derived and the session becomes valid, or an existing one goes on (3.3.5.5.2).
fn establish(
    request: &Request<'_>,
    channel: &Arc<Channel>,
    asked: &SessionSetupRequest<'_>,
    user: User,
    verified: Option<Proof>,
    negotiated: &Negotiated,
    policy: &Policy,
) -> Result<SessionFlags> {
    let session = &channel.session;
    let mut flags = SessionFlags(0);
    if user.guest {
        flags |= SessionFlags::IS_GUEST;
    } else if user.anonymous {
        flags |= SessionFlags::IS_NULL;
    }
    if session.keys().is_some() {
        return if session.reauthenticated(Arc::new(user)) { Ok(flags) } else { Err(ended()) };
    }
    let preauth = channel.preauth.lock().take();
    let keys = match verified {
        Some(verified) => derive(&verified.key().0, negotiated, preauth.as_ref())
            .map_err(|refused| Error::because(Status::INTERNAL_ERROR, refused.to_string()))?,
        None => SessionKeys { client_to_server: None, server_to_client: None, signing: None },
    };
    channel.set_signing(keys.signing.clone());
    if keys.signing.is_some() {
        let required = policy.server_signing == Signing::Required
            || asked.security_mode.contains(SecurityMode::SIGNING_REQUIRED)
            || negotiated.client_security_mode.contains(SecurityMode::SIGNING_REQUIRED);
        session.signing_required.store(required, Ordering::Release);
    }
    let seals = matches!(policy.server_smb_encrypt, Encryption::Required | Encryption::Desired);
    if seals && keys.server_to_client.is_some() {
        session.encrypt_data.store(true, Ordering::Release);
        flags |= SessionFlags::ENCRYPT_DATA;
    } else if policy.server_smb_encrypt == Encryption::Required {
        return Err(Error::because(Status::ACCESS_DENIED, "encryption is required; guests have no key"));
    }
    tracing::info!(user = user.name, peer = %request.connection.peer.remote, guest = user.guest, "logged on");
    if !session.establish(Arc::new(user), keys) {
        return Err(ended());
    }
    let mut state = request.connection.state.lock();
    state.window.set_max(policy.smb2_max_credits);
    Ok(flags)
}

/// [MS-SMB2] 3.3.5.5.3 with 3.1.4.2: the keys of each dialect from the key that the authentication gave.
fn derive(
    exported: &[u8],
    negotiated: &Negotiated,
    preauth: Option<&PreauthHash>,
) -> std::result::Result<SessionKeys, KeyRefused> {
    let session_key = Key::from_session_key(exported);
    let signing = Some(Arc::new(derive_signing(exported, negotiated, preauth)?));
    let mut keys = SessionKeys { client_to_server: None, server_to_client: None, signing };
    let Some(derivation) = derivation(negotiated, preauth) else { return Ok(keys) };
    if let Some((cipher, length)) = negotiated.cipher.and_then(|cipher| Some((cipher, key_length(cipher)?))) {
        // AES-256 keys come from the whole key that the authentication gave, which NTLM makes 16 bytes as well.
        let full = if length == KeyLength::Bits256 { exported } else { session_key.as_bytes() };
        let (to_server, to_client) =
            (derivation.client_to_server_key(full, length), derivation.server_to_client_key(full, length));
        keys.client_to_server = Some(SealingKey::new(cipher, to_server.as_bytes())?);
        keys.server_to_client = Some(SealingKey::new(cipher, to_client.as_bytes())?);
    }
    Ok(keys)
}

/// `Session.SigningKey`, or `Channel.SigningKey` of a further channel.
pub(super) fn derive_signing(
    exported: &[u8],
    negotiated: &Negotiated,
    preauth: Option<&PreauthHash>,
) -> std::result::Result<SigningKey, KeyRefused> {
    let session_key = Key::from_session_key(exported);
    match derivation(negotiated, preauth) {
        Some(derivation) => SigningKey::new(negotiated.signing, derivation.signing_key(&session_key).as_bytes()),
        None => SigningKey::new(negotiated.signing, session_key.as_bytes()),
    }
}

/// How keys are made of the one that the authentication gave; `None` below 3.0, where it is itself the key.
fn derivation<'a>(negotiated: &Negotiated, preauth: Option<&'a PreauthHash>) -> Option<Derivation<'a>> {
    match (negotiated.dialect, preauth) {
        (Dialect::SMB_3_1_1, Some(hash)) => Some(Derivation::Smb311(hash.value())),
        (dialect, _) if dialect.0 >= Dialect::SMB_3_0.0 => Some(Derivation::Smb30),
        _ => None,
    }
}

/// 3.3.5.5.3: a client that comes back after losing its connection names its old session, which ends if it was the
/// same user's.
pub(super) async fn end_previous(request: &Request<'_>, channel: &Channel, previous_id: u64) {
    let server = &request.connection.server;
    if previous_id == 0 || previous_id == channel.session.id {
        return;
    }
    let Some(previous) = server.session(previous_id) else { return };
    let same = match (previous.user(), channel.session.user()) {
        (Some(old), Some(new)) => {
            // Who was let in as the guest has not shown that he is the account which the guest goes by.
            let same_kind = old.guest == new.guest && !old.anonymous && !new.anonymous;
            same_kind && old.name == new.name && old.identity == new.identity
        }
        _ => false,
    };
    if same {
        server.end_session(&previous).await;
    }
}
