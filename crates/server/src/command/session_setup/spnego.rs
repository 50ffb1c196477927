//! One token of an authentication: passes it to the mechanism that the client has chosen. The choice is made and
//! verified in [`crate::authentication`].

use proto::auth::spnego::Token;
use proto::status::Status;

use crate::authentication::{Authentication, Mechanism, MechanismStep, Ntlm, SetupStep, no_ntlm};
use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::request::Request;
use crate::state::session::Channel;

/// Processes one token for the authentication of `channel`. If the password was wrong, `guessed` is set to its user.
pub(in crate::command) async fn step(
    request: &Request<'_>,
    channel: &Channel,
    token: &[u8],
    policy: &Policy,
    guessed: &mut Option<String>,
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
        (Some(message), Mechanism::Kerberos(kerberos)) => kerberos.step(request, message, policy).await?,
        (Some(message), Mechanism::Ntlm(ntlm)) => ntlm.step(request, message, policy, guessed).await?,
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
