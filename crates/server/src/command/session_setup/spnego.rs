//! Selects the authentication mechanism and verifies that the choice was not tampered with (RFC 4178, [MS-SPNG] 3.2.5).
//!
//! Among the server's mechanisms, the client's order of preference decides. Raw NTLM tokens without SPNEGO are
//! accepted, too. Not implemented: NEGOEX, and a mechListMIC in the client's first token, which no mechanism can have
//! computed at that point.

use std::time::Duration;

use proto::auth::spnego::{MechType, NegState, NegTokenInit, NegTokenResp, Token};
use proto::status::Status;
use zeroize::Zeroizing;

use super::kerberos::Kerberos;
use super::ntlm::Ntlm;
use crate::conn::Request;
use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::session::Channel;
use crate::tickets::Signatures;
use crate::user::User;

/// An authentication that waits for the client's next token.
pub struct Authentication {
    mechanism: Mechanism,
    /// `None`: the client sends the mechanism's tokens without SPNEGO.
    list: Option<List>,
    /// The mechanism is complete; the client's signature of the mechanism list is still to be received.
    proven: Option<Authenticated>,
}

enum Mechanism {
    Kerberos(Kerberos),
    Ntlm(Ntlm),
}

/// The client's mechanism list, and the state of the negotiation.
struct List {
    /// The encoded list, as both sides sign it.
    der: Vec<u8>,
    chosen: MechType<'static>,
    /// The chosen mechanism is the client's preferred one. Otherwise an attacker may have changed the list.
    preferred: bool,
    /// The client was informed of the chosen mechanism.
    told: bool,
}

/// A mechanism's result for a message of the client.
pub(super) enum MechanismStep {
    /// Another message is needed; this token is sent to the client.
    More(Vec<u8>),
    /// The client is authenticated.
    Done(Authenticated),
}

/// A user authenticated by a mechanism.
pub(super) struct Authenticated {
    pub(super) user: User,
    /// The agreed key; `None` for guest and anonymous users.
    pub(super) key: Option<Zeroizing<Vec<u8>>>,
    /// `None` if `key` is.
    pub(super) signatures: Option<Box<dyn Signatures>>,
    /// The mechanism's final token for the client; often empty.
    pub(super) token: Vec<u8>,
    /// The lifetime of the credentials; `None` if unlimited.
    pub(super) lifetime: Option<Duration>,
}

/// The result of processing a token.
pub(in crate::command) enum SetupStep {
    /// Another token is needed; this one is sent to the client.
    Continue(Vec<u8>),
    /// The authentication is complete.
    Done(Box<Outcome>),
}

/// A completed authentication.
pub(in crate::command) struct Outcome {
    /// The authenticated user.
    pub(in crate::command) user: User,
    /// The key from which session keys are derived; `None` for anonymous and guest users.
    pub(in crate::command) key: Option<Zeroizing<Vec<u8>>>,
    /// The lifetime of the credentials; `None` if unlimited.
    pub(in crate::command) lifetime: Option<Duration>,
    /// The final token for the client.
    pub(in crate::command) token: Vec<u8>,
}

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
            let begun = Authentication::choose(&init, request, policy)?;
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

fn no_ntlm() -> Error {
    Error::because(Status::NTLM_BLOCKED, "NTLM is disabled (`ntlm auth = disabled`)")
}

impl Authentication {
    fn of(mechanism: Mechanism) -> Self {
        Authentication { mechanism, list: None, proven: None }
    }

    /// Begins with the first mechanism of the client's list that the server supports.
    fn choose(init: &NegTokenInit<'_>, request: &Request<'_>, policy: &Policy) -> Result<Self> {
        let offered = request.connection.server.mech_types();
        for (position, wanted) in init.mech_types.iter().enumerate() {
            let Some(chosen) = offered.iter().find(|offered| *offered == wanted).copied() else { continue };
            let mechanism = match chosen {
                MechType::NTLMSSP => Mechanism::Ntlm(Ntlm::new(policy)),
                _ => Mechanism::Kerberos(Kerberos::default()),
            };
            super::check_kept(init.mech_types_der)?;
            let der = init.mech_types_der.to_vec();
            let list = List { der, chosen, preferred: position == 0, told: false };
            return Ok(Authentication { mechanism, list: Some(list), proven: None });
        }
        if !policy.ntlm && init.mech_types.contains(&MechType::NTLMSSP) {
            return Err(no_ntlm());
        }
        Err(Error::because(Status::LOGON_FAILURE, "the client and the server have no common mechanism"))
    }

    fn is_preferred(&self) -> bool {
        self.list.as_ref().is_none_or(|list| list.preferred)
    }

    /// Returns the response that requests another token.
    fn answer(&mut self, token: &[u8], mic: Option<&[u8]>) -> Vec<u8> {
        let Some(list) = &mut self.list else { return token.to_vec() };
        let state = match list.preferred || list.told {
            true => NegState::ACCEPT_INCOMPLETE,
            // RFC 4178 4.2.2: only in the first response.
            false => NegState::REQUEST_MIC,
        };
        list.respond(state, token, mic)
    }

    /// Completes the authentication by the mechanism; `mic` is the client's signature of the list. If the server sends
    /// the mechanism's final message, the client can sign only after it, and is requested to if necessary.
    //
    // Deviates from RFC 4178 5 (d): if the client's message is the final one and has no signature, the client is
    // accepted although its list began with another mechanism. Many NTLM clients never sign. Requiring a signature
    // gains nothing, because an attacker that changes the list can leave only that one mechanism in it.
    fn finish(&mut self, mut proven: Authenticated, mic: Option<&[u8]>) -> Result<SetupStep> {
        let Some(list) = &mut self.list else {
            let token = std::mem::take(&mut proven.token);
            return Ok(proven.done(token));
        };
        let mut ours = None;
        if let (Some(signatures), Some(mic)) = (&mut proven.signatures, mic) {
            list.check(&mut **signatures, mic)?;
            ours = signatures.sign(&list.der);
        } else if let Some(signatures) = &mut proven.signatures
            && !list.preferred
            && !proven.token.is_empty()
        {
            let ours = signatures.sign(&list.der);
            let token = std::mem::take(&mut proven.token);
            self.proven = Some(proven);
            return Ok(SetupStep::Continue(self.answer(&token, ours.as_deref())));
        }
        let token = list.respond(NegState::ACCEPT_COMPLETED, &proven.token, ours.as_deref());
        Ok(proven.done(token))
    }

    /// Checks the client's signature of the list, which was requested with the mechanism's final message.
    fn confirm(mut self, mut proven: Authenticated, mic: Option<&[u8]>) -> Result<SetupStep> {
        let missing = || Error::because(Status::LOGON_FAILURE, "the client did not send the requested mechListMIC");
        let (Some(list), Some(signatures)) = (&mut self.list, &mut proven.signatures) else { return Err(missing()) };
        list.check(&mut **signatures, mic.ok_or_else(missing)?)?;
        let token = list.respond(NegState::ACCEPT_COMPLETED, &[], None);
        Ok(proven.done(token))
    }
}

impl Authenticated {
    fn done(self, last: Vec<u8>) -> SetupStep {
        SetupStep::Done(Box::new(Outcome { user: self.user, key: self.key, lifetime: self.lifetime, token: last }))
    }
}

impl List {
    fn check(&self, signatures: &mut dyn Signatures, mic: &[u8]) -> Result<()> {
        match signatures.verify(&self.der, mic) {
            true => Ok(()),
            false => Err(Error::because(
                Status::LOGON_FAILURE,
                "invalid mechListMIC: the mechanism list was changed in transit",
            )),
        }
    }

    fn respond(&mut self, state: NegState, token: &[u8], mic: Option<&[u8]>) -> Vec<u8> {
        let first = !std::mem::replace(&mut self.told, true);
        NegTokenResp {
            neg_state: Some(state),
            supported_mech: first.then_some(self.chosen),
            response_token: (!token.is_empty()).then_some(token),
            mech_list_mic: mic,
        }
        .encode()
    }
}
