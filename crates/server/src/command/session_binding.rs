//! SESSION_SETUP with SMB2_SESSION_FLAG_BINDING ([MS-SMB2] 3.3.5.5): makes this connection a channel of an existing
//! session.
//!
//! The client proves possession of the session's key by signing each request. It proves to be the session's user by
//! another authentication, from which the channel's signing key is derived (3.3.5.5.3). A failed binding leaves the
//! session unchanged. Encryption keys are those of the session, on all channels.

use std::sync::Arc;

use proto::crypto::sign::SigningKey;
use proto::smb2::header::Flags;
use proto::smb2::negotiate::{Capabilities, Dialect, SigningAlgorithm};
use proto::smb2::session_setup::{SessionFlags, SessionSetupRequest, SessionSetupResponse};
use proto::status::Status;

use crate::authentication::{Attempt, Outcome, SetupStep};
use crate::command::logon_audit;
use crate::command::session_setup::{derive_signing, end_previous, refuse_foreign, slow_down, step};
use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::request::{Hash, Reply, Request};
use crate::state::channel::Terms;
use crate::state::connection::Negotiated;
use crate::state::session::{Channel, Phase, Session};

pub(super) async fn bind(
    request: &Request<'_>,
    reply: &mut Reply,
    asked: &SessionSetupRequest<'_>,
    negotiated: &Negotiated,
    policy: &Policy,
) -> Result<Status> {
    let connection = request.connection;
    let arrived = connection.server.environment.uptime();
    let Some(session) = connection.server.sessions.get(request.header.session_id) else {
        connection.state.lock().bindings.remove(request.header.session_id);
        return refuse_foreign(request, reply, not_found(negotiated));
    };
    if connection.channel(session.id).is_some() {
        return Err(Error::because(
            Status::REQUEST_NOT_ACCEPTED,
            "this connection is already a channel of the session",
        ));
    }
    let key = verify(request, &session)?;
    // 3.3.4.1.1: responses before the end of the binding are signed with the session's key.
    reply.sign_with = key.clone();
    check(request, &session, negotiated)?;
    if key.is_none() {
        return Err(Error::because(
            Status::NOT_SUPPORTED,
            "the session has no key to verify the signature of the binding with",
        ));
    }
    let channel = candidate(request, &session, negotiated, policy)?;
    if let Some(preauth) = &mut *channel.preauth.lock() {
        preauth.update(request.message);
    }
    let mut attempt = Attempt::default();
    let (token, status) = match step(request, &channel, asked.buffer, policy, &mut attempt).await {
        Ok(SetupStep::Continue(token)) => {
            reply.hash = Hash::Session(channel);
            (token, Status::MORE_PROCESSING_REQUIRED)
        }
        Ok(SetupStep::Done(done)) => {
            connection.state.lock().bindings.remove(session.id);
            let token = complete(request, &channel, *done, negotiated, policy)
                .inspect_err(|error| logon_audit::refused(request, &session, &mut attempt, error.status))?;
            logon_audit::admitted(request, &session, &mut attempt);
            reply.sign_with = channel.signing();
            end_previous(request, &channel, asked.previous_session_id).await;
            (token, Status::SUCCESS)
        }
        Err(error) => {
            connection.state.lock().bindings.remove(session.id);
            logon_audit::refused(request, &session, &mut attempt, error.status);
            slow_down(request, attempt.guessed, arrived).await;
            return Err(error);
        }
    };
    SessionSetupResponse { session_flags: SessionFlags(0), buffer: &token }.encode(&mut reply.body());
    Ok(status)
}

/// Returns whether sessions can be bound to this connection; this requires SMB 3.
fn offered(negotiated: &Negotiated) -> bool {
    negotiated.server_capabilities.contains(Capabilities::MULTI_CHANNEL)
}

fn not_found(negotiated: &Negotiated) -> Error {
    Error::new(if offered(negotiated) { Status::USER_SESSION_DELETED } else { Status::REQUEST_NOT_ACCEPTED })
}

/// Verifies the signature of a binding request with `Session.SigningKey` (3.3.5.2.4). Returns `None` if it is unsigned,
/// or if there is no key.
fn verify(request: &Request<'_>, session: &Session) -> Result<Option<Arc<SigningKey>>> {
    let key = session.keys().and_then(|keys| keys.signing.clone());
    let Some(key) = key.filter(|_| request.header.flags.contains(Flags::SIGNED)) else { return Ok(None) };
    if !key.verify(&mut request.message.to_vec()) {
        return Err(Error::because(Status::ACCESS_DENIED, "the binding is not signed with the session's key"));
    }
    Ok(Some(key))
}

/// Checks what 3.3.5.5 requires of the session and of the two connections.
fn check(request: &Request<'_>, session: &Session, negotiated: &Negotiated) -> Result<()> {
    let (theirs, ours) = (session.terms, negotiated.terms());
    // Not in [MS-SMB2]: Windows servers refuse mixing AES-GMAC with another algorithm before any other check, with
    // these errors.
    let gmac = SigningAlgorithm::AES_GMAC;
    match (theirs.signing, ours.signing) {
        (theirs, ours) if theirs == gmac && ours != gmac => {
            return Err(Error::because(
                Status::REQUEST_OUT_OF_SEQUENCE,
                "the session signs with AES-GMAC, this connection does not",
            ));
        }
        (theirs, ours) if theirs != gmac && ours == gmac => {
            return Err(Error::because(
                Status::NOT_SUPPORTED,
                "this connection signs with AES-GMAC, the session does not",
            ));
        }
        _ => {}
    }
    if !offered(negotiated) {
        return Err(Error::because(Status::REQUEST_NOT_ACCEPTED, "multichannel was not negotiated"));
    }
    check_terms(theirs, ours)?;
    if !request.header.flags.contains(Flags::SIGNED) {
        return Err(Error::because(Status::INVALID_PARAMETER, "the binding is not signed"));
    }
    // `ClientGuid` may differ: the specification permits a server to require the same one, but Windows servers do not.
    session.expire(|| request.connection.server.environment.uptime());
    match session.phase() {
        Phase::Valid => {}
        Phase::InProgress => {
            return Err(Error::because(Status::REQUEST_NOT_ACCEPTED, "the session's logon is not complete"));
        }
        Phase::Expired => return Err(Error::new(Status::NETWORK_SESSION_EXPIRED)),
        Phase::Closed => return Err(Error::new(Status::USER_SESSION_DELETED)),
    }
    if session.user().is_none_or(|user| user.guest || user.anonymous) {
        return Err(Error::because(Status::NOT_SUPPORTED, "a guest session cannot have several channels"));
    }
    Ok(())
}

/// Checks that the dialect and the cipher are those of the session, because its keys were derived for them. [MS-SMB2]
/// does not mention the cipher; Windows servers refuse a different one with this error.
fn check_terms(theirs: Terms, ours: Terms) -> Result<()> {
    if theirs.dialect != ours.dialect {
        return Err(Error::because(Status::INVALID_PARAMETER, "the session uses another dialect"));
    }
    if theirs.cipher != ours.cipher {
        return Err(Error::because(Status::INVALID_PARAMETER, "the session uses another cipher"));
    }
    Ok(())
}

/// Creates the channel before its authentication is complete; only the next request of this binding finds it.
fn candidate(
    request: &Request<'_>,
    session: &Arc<Session>,
    negotiated: &Negotiated,
    policy: &Policy,
) -> Result<Arc<Channel>> {
    let limits = &policy.limits;
    let (payer, most) = (request.connection.payer(), request.connection.most_logons());
    let mut state = request.connection.state.lock();
    if let Some(channel) = state.bindings.get(session) {
        return Ok(channel.clone());
    }
    if state.channels.len() + state.bindings.len() >= limits.sessions_per_connection
        || session.channel_count() >= limits.channels_per_session
    {
        return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "too many channels"));
    }
    let preauth = negotiated.preauth.clone().filter(|_| negotiated.dialect == Dialect::SMB_3_1_1);
    let channel = Arc::new(Channel::new(session.clone(), preauth));
    state.bindings.add(&channel, &payer, most);
    Ok(channel)
}

/// Completes the authentication: adds the channel if the user is that of the session. Returns the token for the client.
fn complete(
    request: &Request<'_>,
    channel: &Arc<Channel>,
    done: Outcome,
    negotiated: &Negotiated,
    policy: &Policy,
) -> Result<Vec<u8>> {
    let Outcome { user, key, token, .. } = done;
    // Deviates from [MS-SMB2] 3.3.5.5, which specifies STATUS_NOT_SUPPORTED: Windows servers return this, and tests
    // require it.
    let another = || Error::because(Status::ACCESS_DENIED, "the session is another user's");
    let Some(key) = key else { return Err(another()) };
    if !channel.session.user().is_some_and(|owner| owner.is_same_account(&user)) {
        return Err(another());
    }
    let preauth = channel.preauth.lock().take();
    let key = derive_signing(&key, negotiated, preauth.as_ref())
        .map_err(|refused| Error::because(Status::INTERNAL_ERROR, refused.to_string()))?;
    channel.set_signing(Some(Arc::new(key)));
    let payer = request.connection.payer_for(&user);
    request.connection.check_share(&payer)?;
    request.connection.add_channel(channel)?;
    request.connection.logged_on(&payer, policy.smb2_max_credits);
    tracing::info!(user = user.name, peer = %request.connection.peer.remote, "bound another channel");
    Ok(token)
}
