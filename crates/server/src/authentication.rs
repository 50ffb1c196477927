//! An authentication in progress: the negotiation of its mechanism (RFC 4178, [MS-SPNG] 3.2.5), and the state between
//! two tokens of the client. `command::session_setup` executes the mechanisms.
//!
//! Among the server's mechanisms, the client's order of preference decides. Raw NTLM tokens without SPNEGO are
//! accepted, too. Not implemented: NEGOEX, and a mechListMIC in the client's first token, which no mechanism can have
//! computed at that point.

use std::time::Duration;

use proto::auth::ntlm::Acceptor;
use proto::auth::spnego::{MechType, NegState, NegTokenInit, NegTokenResp};
use proto::status::Status;
use zeroize::Zeroizing;

use crate::audit::Sent;
use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::policy::limits::LOGON_TOKEN_BYTES;
use crate::restrictions::HostSession;
use crate::tickets::Signatures;
use crate::user::User;

/// An authentication that waits for the client's next token.
pub(crate) struct Authentication {
    pub(crate) mechanism: Mechanism,
    /// `None`: the client sends the mechanism's tokens without SPNEGO.
    list: Option<List>,
    /// The mechanism is complete; the client's signature of the mechanism list is still to be received.
    pub(crate) proven: Option<Authenticated>,
}

/// The mechanism, with its state.
pub(crate) enum Mechanism {
    Kerberos(Kerberos),
    Ntlm(Ntlm),
}

/// A Kerberos authentication in progress.
#[derive(Default)]
pub(crate) struct Kerberos {
    /// The client was sent an error and may try once more.
    pub(crate) announced: bool,
}

/// What becomes known about an authentication while it is executed.
#[derive(Default)]
pub(crate) struct Attempt {
    /// The name of the account whose password was wrong.
    pub(crate) guessed: Option<String>,
    /// The names that the client has sent.
    pub(crate) sent: Sent,
    /// The mechanism, as [`crate::audit::Logon::method`].
    pub(crate) method: &'static str,
    /// The reason of a refusal, if it is more exact than the status that the client gets.
    pub(crate) cause: Option<Status>,
}

/// An NTLM authentication in progress.
pub(crate) struct Ntlm {
    pub(crate) acceptor: Acceptor,
    /// A challenge was sent.
    pub(crate) challenged: bool,
}

impl Ntlm {
    pub(crate) fn new(policy: &Policy) -> Self {
        let acceptor = Acceptor::new(policy.target_names()).permitting_ntlm_v1(policy.ntlm_v1);
        Ntlm { acceptor, challenged: false }
    }
}

/// The client's mechanism list, and the state of the negotiation.
struct List {
    /// The encoded list, as both sides sign it.
    der: Vec<u8>,
    chosen: MechType<'static>,
    /// The chosen mechanism is the client's preferred one. Otherwise an attacker may have changed the list.
    preferred: bool,
    /// The client was informed of the chosen mechanism.
    announced: bool,
}

/// A mechanism's result for a message of the client.
pub(crate) enum MechanismStep {
    /// Another message is needed; this token is sent to the client.
    More(Vec<u8>),
    /// The client is authenticated.
    Done(Authenticated),
}

/// A user authenticated by a mechanism.
pub(crate) struct Authenticated {
    pub(crate) user: User,
    /// The agreed key; `None` for guest and anonymous users.
    pub(crate) key: Option<Zeroizing<Vec<u8>>>,
    /// `None` if `key` is.
    pub(crate) signatures: Option<Box<dyn Signatures>>,
    /// The mechanism's final token for the client; often empty.
    pub(crate) token: Vec<u8>,
    /// The lifetime of the credentials; `None` if unlimited.
    pub(crate) lifetime: Option<Duration>,
}

/// The result of processing a token.
pub(crate) enum SetupStep {
    /// Another token is needed; this one is sent to the client.
    Continue(Vec<u8>),
    /// The authentication is complete.
    Done(Box<Outcome>),
}

/// A completed authentication.
pub(crate) struct Outcome {
    /// The authenticated user.
    pub(crate) user: User,
    /// The key from which session keys are derived; `None` for anonymous and guest users.
    pub(crate) key: Option<Zeroizing<Vec<u8>>>,
    /// The lifetime of the credentials; `None` if unlimited.
    pub(crate) lifetime: Option<Duration>,
    /// The final token for the client.
    pub(crate) token: Vec<u8>,
    /// The session of the host, if one was opened.
    pub(crate) host_session: HostSession,
}

/// Checks the size of a stored part of a logon in progress: the mechanism list or an NTLM NEGOTIATE.
pub(crate) fn check_kept(part: &[u8]) -> Result<()> {
    if part.len() <= LOGON_TOKEN_BYTES {
        return Ok(());
    }
    Err(Error::because(Status::INVALID_PARAMETER, "the mechanism list or NTLM NEGOTIATE is too long"))
}

/// The error for a client that uses NTLM although it is disabled.
pub(crate) fn no_ntlm() -> Error {
    Error::because(Status::NTLM_BLOCKED, "NTLM is disabled (`ntlm auth = disabled`)")
}

impl Authentication {
    /// Begins with `mechanism`, whose tokens the client sends without SPNEGO.
    pub(crate) fn of(mechanism: Mechanism) -> Self {
        Authentication { mechanism, list: None, proven: None }
    }

    /// Begins with the first mechanism of the client's list that the server offers.
    pub(crate) fn choose(init: &NegTokenInit<'_>, offered: &[MechType<'static>], policy: &Policy) -> Result<Self> {
        for (position, wanted) in init.mech_types.iter().enumerate() {
            let Some(chosen) = offered.iter().find(|offered| *offered == wanted).copied() else { continue };
            let mechanism = match chosen {
                MechType::NTLMSSP => Mechanism::Ntlm(Ntlm::new(policy)),
                _ => Mechanism::Kerberos(Kerberos::default()),
            };
            check_kept(init.mech_types_der)?;
            let der = init.mech_types_der.to_vec();
            let list = List { der, chosen, preferred: position == 0, announced: false };
            return Ok(Authentication { mechanism, list: Some(list), proven: None });
        }
        if !policy.ntlm && init.mech_types.contains(&MechType::NTLMSSP) {
            return Err(no_ntlm());
        }
        Err(Error::because(Status::LOGON_FAILURE, "the client and the server have no common mechanism"))
    }

    /// Returns whether the mechanism is the client's preferred one.
    pub(crate) fn is_preferred(&self) -> bool {
        self.list.as_ref().is_none_or(|list| list.preferred)
    }

    /// Returns the response that requests another token.
    pub(crate) fn answer(&mut self, token: &[u8], mic: Option<&[u8]>) -> Vec<u8> {
        let Some(list) = &mut self.list else { return token.to_vec() };
        let state = match list.preferred || list.announced {
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
    pub(crate) fn finish(&mut self, mut proven: Authenticated, mic: Option<&[u8]>) -> Result<SetupStep> {
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
    pub(crate) fn confirm(mut self, mut proven: Authenticated, mic: Option<&[u8]>) -> Result<SetupStep> {
        let missing = || Error::because(Status::LOGON_FAILURE, "the client did not send the requested mechListMIC");
        let (Some(list), Some(signatures)) = (&mut self.list, &mut proven.signatures) else { return Err(missing()) };
        list.check(&mut **signatures, mic.ok_or_else(missing)?)?;
        let token = list.respond(NegState::ACCEPT_COMPLETED, &[], None);
        Ok(proven.done(token))
    }
}

impl Authenticated {
    fn done(self, last: Vec<u8>) -> SetupStep {
        let Authenticated { user, key, lifetime, .. } = self;
        SetupStep::Done(Box::new(Outcome { user, key, lifetime, token: last, host_session: None }))
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
        let first = !std::mem::replace(&mut self.announced, true);
        NegTokenResp {
            neg_state: Some(state),
            supported_mech: first.then_some(self.chosen),
            response_token: (!token.is_empty()).then_some(token),
            mech_list_mic: mic,
        }
        .encode()
    }
}
