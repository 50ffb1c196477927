//! One token of an authentication: passes it to the mechanism that the client has chosen. The choice is made and
//! verified in [`crate::authentication`].

use proto::auth::spnego::Token;
use proto::status::Status;

use crate::authentication::{Attempt, Authentication, Mechanism, MechanismStep, Ntlm, SetupStep, no_ntlm};
use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::request::Request;
use crate::restrictions::{HostLogon, HostSession};
use crate::state::session::Channel;
use crate::user::User;

/// Processes one token for the authentication of `channel`. `attempt` is set to what becomes known. An authenticated
/// user must also be admitted by the host.
pub(in crate::command) async fn step(
    request: &Request<'_>,
    channel: &Channel,
    token: &[u8],
    policy: &Policy,
    attempt: &mut Attempt,
) -> Result<SetupStep> {
    let mut step = authenticate(request, channel, token, policy, attempt).await?;
    if let SetupStep::Done(done) = &mut step {
        done.host_session = ask_host(request, channel, &done.user).await?;
    }
    Ok(step)
}

/// Asks the host whether the user may log on. A session of the host begins with that of the client.
async fn ask_host(request: &Request<'_>, channel: &Channel, user: &User) -> Result<HostSession> {
    let restrictions = request.connection.server.restrictions();
    let Some(restrictions) = restrictions.filter(|_| !user.guest && !user.anonymous) else { return Ok(None) };
    let logon = HostLogon {
        name: user.name.clone(),
        uid: user.identity.uid,
        client: request.connection.peer.remote.ip(),
        session: channel.session.keys().is_none().then_some(channel.session.id),
    };
    restrictions.check(logon).await.map_err(|refused| refused.error(&user.name))
}

async fn authenticate(
    request: &Request<'_>,
    channel: &Channel,
    token: &[u8],
    policy: &Policy,
    attempt: &mut Attempt,
) -> Result<SetupStep> {
    let running = channel.authentication.lock().take();
    let token = Token::decode(token).map_err(|_| Error::because(Status::INVALID_PARAMETER, "not a SPNEGO token"))?;
    let (mut authentication, message, mic) = match (token, running) {
        (Token::Init(init), _) => {
            let begun = Authentication::choose(&init, request.connection.server.mech_types(), policy)?;
            // An optimistic token of another mechanism is ignored; the client sends one of the chosen mechanism next.
            let message = if begun.is_preferred() { init.mech_token } else { None };
            (begun, message, None)
        }
        (Token::RawNtlm(_), _) if !policy.ntlm => return Err(no_ntlm()),
        (Token::RawNtlm(message), running) => {
            (running.unwrap_or_else(|| Authentication::of(Mechanism::Ntlm(Ntlm::new(policy)))), Some(message), None)
        }
        (Token::Resp(response), Some(running)) => {
            // Windows 2000 sent the mechanism's token also in the field for the signature.
            let mic = response.mech_list_mic.filter(|mic| Some(*mic) != response.response_token);
            (running, response.response_token, mic)
        }
        (Token::Resp(_), None) => {
            return Err(Error::because(Status::INVALID_PARAMETER, "a SPNEGO response without a preceding request"));
        }
    };
    if let Some(proven) = authentication.proven.take() {
        return authentication.confirm(proven, mic);
    }
    let said = match (message, &mut authentication.mechanism) {
        (None, _) => MechanismStep::More(Vec::new()),
        (Some(message), Mechanism::Kerberos(kerberos)) => kerberos.step(request, message, policy, attempt).await?,
        (Some(message), Mechanism::Ntlm(ntlm)) => ntlm.step(request, message, policy, attempt).await?,
    };
    let step = match said {
        MechanismStep::More(token) => SetupStep::Continue(authentication.answer(&token, None)),
        MechanismStep::Done(proven) => authentication.finish(proven, mic)?,
    };
    if let SetupStep::Continue(_) = step {
        *channel.authentication.lock() = Some(authentication);
    }
    Ok(step)
}
