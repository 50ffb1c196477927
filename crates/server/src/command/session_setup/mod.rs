//! SESSION_SETUP ([MS-SMB2] 3.3.5.5): authenticates a client in one or more round trips and derives the session's keys.
//!
//! The authentication itself is in `spnego` and the mechanism modules. Further channels are added in `session_binding`.

mod administrator;
mod admission;
mod kerberos;
mod keys;
mod mapped;
mod ntlm;
mod pass_through;
mod spn;
mod spnego;
mod user;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proto::smb2::negotiate::SecurityMode;
use proto::smb2::session_setup::{SessionFlags, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use proto::status::Status;

pub(super) use self::keys::derive_signing;
pub(super) use self::spnego::step;
pub(crate) use self::user::known_user;
use crate::authentication::{Attempt, Outcome, SetupStep};
use crate::command::logoff::end_session;
use crate::command::logon_audit;
use crate::command::session_binding;
use crate::error::{Disconnect, Error, Result};
use crate::logon_throttle::Guess;
use crate::policy::{Encryption, Policy, Signing};
use crate::request::{Hash, Reply, Request};
use crate::state::connection::Failed;
use crate::state::connection::Negotiated;
use crate::state::connection::NoRoom;
use crate::state::session::{Channel, Phase, SessionKeys};

pub(crate) async fn session_setup(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let done = set_up(request, reply).await;
    done.inspect_err(|error| request.connection.server.metrics.refused_logon(error.status))
}

async fn set_up(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = SessionSetupRequest::decode(request.message)?;
    let connection = request.connection;
    let arrived = connection.server.environment.uptime();
    let negotiated = connection.negotiated().ok_or(Error::new(Status::INVALID_PARAMETER))?;
    let policy = connection.server.policy().clone();
    if policy.server_smb_encrypt == Encryption::Required && negotiated.cipher.is_none() {
        return Err(Error::because(
            Status::ACCESS_DENIED,
            "encryption is required, but the client does not support it",
        ));
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
    let mut attempt = Attempt::default();
    let step = match step(request, &channel, asked.buffer, &policy, &mut attempt).await {
        Ok(step) => step,
        Err(error) => {
            logon_audit::refused(request, &channel.session, &mut attempt, error.status);
            // 3.3.5.5.3: a failed authentication, including a later one, ends the session on all its channels.
            end_session(&connection.server, &channel.session).await;
            slow_down(request, attempt.guessed, arrived).await;
            return Err(error);
        }
    };
    let (token, flags, status) = match step {
        SetupStep::Continue(token) => {
            if hashing {
                reply.hash = Hash::Session(channel.clone());
            }
            (token, SessionFlags(0), Status::MORE_PROCESSING_REQUIRED)
        }
        SetupStep::Done(done) => {
            let (token, flags) = match establish(request, &channel, &asked, *done, negotiated, &policy) {
                Ok(established) => {
                    logon_audit::admitted(request, &channel.session, &mut attempt);
                    established
                }
                Err(error) => {
                    logon_audit::refused(request, &channel.session, &mut attempt, error.status);
                    end_session(&connection.server, &channel.session).await;
                    return Err(error);
                }
            };
            // The final response of a null session's logon is not signed (3.3.5.5.3); a later one is signed if its
            // request is.
            reply.sign_with = channel.signing().filter(|_| channel.session.keys().is_some_and(|keys| keys.secret));
            end_previous(request, &channel, asked.previous_session_id).await;
            (token, flags, Status::SUCCESS)
        }
    };
    SessionSetupResponse { session_flags: flags, buffer: &token }.encode(&mut reply.body());
    Ok(status)
}

/// Refuses a request for a session without a channel on this connection. If the client signed with the session's key
/// (3.3.5.2.4), the response is signed too.
pub(super) fn refuse_foreign(request: &Request<'_>, reply: &mut Reply, refusal: Error) -> Result<Status> {
    reply.sign_with = request.foreign_key();
    Err(refusal)
}

/// Begins a new session (3.3.5.5.1).
fn begin(request: &Request<'_>, negotiated: &Negotiated) -> Result<Arc<Channel>> {
    let connection = request.connection;
    connection.bound_logons();
    let payer = connection.payer();
    if !connection.is_logged_on() {
        connection.server.connections.relieve(&payer);
    }
    let session = connection.server.sessions.add(&*connection.server.environment, negotiated.terms(), &payer);
    let channel = Arc::new(Channel::new(session, negotiated.preauth.clone()));
    if let Err(error) = connection.add_channel(&channel) {
        connection.server.sessions.remove(&channel.session);
        return Err(error);
    }
    Ok(channel)
}

/// Delays the response to a wrong password for `guessed`. If too many responses already wait, a connection without a
/// logged-on user is ended, and any other gets its response immediately.
pub(super) async fn slow_down(request: &Request<'_>, guessed: Option<String>, arrived: Duration) {
    let Some(name) = guessed else { return };
    let connection = &**request.connection;
    let from = connection.peer.remote.ip().into();
    let guess = Guess { name: &name, from, asked: arrived };
    let waited = Failed { connection, guess, length: request.message.len() }.wait(&connection.server).await;
    if waited == Err(NoRoom) && !connection.is_logged_on() {
        connection.end(Disconnect("too many failed logons"));
    }
}

/// Returns the error if the session was logged off over another channel during this authentication.
fn ended() -> Error {
    Error::new(Status::USER_SESSION_DELETED)
}

/// Completes an authentication: derives the keys of a new session, or continues an existing one (3.3.5.5.2).
fn establish(
    request: &Request<'_>,
    channel: &Arc<Channel>,
    asked: &SessionSetupRequest<'_>,
    done: Outcome,
    negotiated: &Negotiated,
    policy: &Policy,
) -> Result<(Vec<u8>, SessionFlags)> {
    let Outcome { user, key, lifetime, token, host_session } = done;
    let session = &channel.session;
    let expires = lifetime.map(|lifetime| request.connection.server.environment.uptime().saturating_add(lifetime));
    let mut flags = SessionFlags(0);
    if user.guest {
        flags |= SessionFlags::IS_GUEST;
    } else if user.anonymous {
        flags |= SessionFlags::IS_NULL;
    }
    if let Some(keys) = session.keys() {
        // The session keeps its keys (3.3.5.5.2). Keys of a null or guest session would not protect the user's data,
        // whatever signing and encryption the server requires.
        if !keys.secret && !user.anonymous && !user.guest {
            return Err(Error::because(
                Status::ACCESS_DENIED,
                "a user account cannot take over a null or guest session; log on again",
            ));
        }
        return if session.reauthenticated(Arc::new(user), expires) { Ok((token, flags)) } else { Err(ended()) };
    }
    let preauth = channel.preauth.lock().take();
    let keys = match key {
        Some(key) if user.anonymous => keys::derive_null(&key, negotiated, preauth.as_ref()),
        Some(key) => keys::derive(&key, negotiated, preauth.as_ref()),
        None => Ok(SessionKeys {
            client_to_server: None,
            server_to_client: None,
            signing: None,
            application: None,
            secret: false,
        }),
    };
    let keys = keys.map_err(|refused| Error::because(Status::INTERNAL_ERROR, refused.to_string()))?;
    channel.set_signing(keys.signing.clone());
    if keys.secret {
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
        return Err(Error::because(Status::ACCESS_DENIED, "encryption is required, but guest sessions have no key"));
    }
    let payer = request.connection.payer_for(&user);
    if !user.anonymous {
        request.connection.check_share(&payer)?;
    }
    session.charge_to(&payer)?;
    tracing::info!(user = user.name, peer = %request.connection.peer.remote, guest = user.guest, "logged on");
    let anonymous = user.anonymous;
    let kind = if anonymous {
        "anonymous"
    } else if user.guest {
        "guest"
    } else {
        "user"
    };
    if !session.establish(Arc::new(user), keys, expires) {
        return Err(ended());
    }
    request.connection.server.metrics.logon(kind);
    session.set_host_session(host_session);
    if !anonymous {
        request.connection.logged_on(&payer, policy.smb2_max_credits);
    }
    Ok((token, flags))
}

/// Ends the previous session that a reconnecting client specifies, if it belonged to the same user (3.3.5.5.3).
pub(super) async fn end_previous(request: &Request<'_>, channel: &Channel, previous_id: u64) {
    let server = &request.connection.server;
    if previous_id == 0 || previous_id == channel.session.id {
        return;
    }
    let Some(previous) = server.sessions.get(previous_id) else { return };
    let same = match (previous.user(), channel.session.user()) {
        (Some(old), Some(new)) => new.may_end_sessions_of(&old),
        _ => false,
    };
    if same {
        end_session(server, &previous).await;
    }
}
