//! The server's side of an NTLM logon ([MS-NLMP] 3.2.5.1): NTLMv2, and NTLMv1 where it is permitted.
//!
//! [`Acceptor::challenge`] answers the first token, [`Acceptor::authenticate`] decodes the second one and returns the
//! claimed identity, and [`Acceptor::verify`] decides once the caller has looked up the user account. For a domain
//! account, the domain controller decides on the result of [`Acceptor::pass_through`], and
//! [`Acceptor::verified_elsewhere`] continues from there. The caller maps names to user accounts, and decides whether
//! an account is allowed and whether anonymous or guest logons exist.

use std::fmt;

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroizing;

use super::av_pair::{self, AvFlags, AvId};
use super::digest::{hmac_md5, rc4};
use super::message::{Authenticate, Challenge, Negotiate, without_mic};
use super::response::{NtlmV2Response, proof, response_key, session_base_key};
use super::v1::NtlmV1Response;
use super::{NegotiateFlags, Session, SessionKey, oem};
use crate::bytes::{Malformed, Writer, utf16_bytes, utf16_units};

/// The server's names in its challenge. An empty name is omitted.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct TargetNames {
    /// NetBIOS computer name.
    pub netbios_computer: String,
    /// NetBIOS domain name; a standalone server uses its computer name.
    pub netbios_domain: String,
    /// Fully qualified name of the computer.
    pub dns_computer: String,
    /// Fully qualified name of its domain.
    pub dns_domain: String,
    /// Whether the server authenticates domain user accounts. If so, the target is the domain, otherwise the computer.
    pub domain_joined: bool,
}

/// The reason why a token was rejected before any password check: SEC_E_INVALID_TOKEN, STATUS_INVALID_PARAMETER.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InvalidToken {
    /// The token does not decode.
    Malformed(Malformed),
    /// The peer supports neither Unicode nor the OEM character set.
    Encoding,
    /// An AUTHENTICATE_MESSAGE without a preceding challenge, or a second NEGOTIATE_MESSAGE.
    Order,
    /// The server's challenge lacks the target information with the server's names, which NTLMv2 requires.
    TargetInfo,
}

impl From<Malformed> for InvalidToken {
    fn from(malformed: Malformed) -> Self {
        InvalidToken::Malformed(malformed)
    }
}

impl fmt::Display for InvalidToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidToken::Malformed(malformed) => write!(f, "NTLM: {malformed}"),
            InvalidToken::Encoding => f.write_str("NTLM message without a character set"),
            InvalidToken::Order => f.write_str("NTLM message out of order"),
            InvalidToken::TargetInfo => f.write_str("NTLM challenge without target information"),
        }
    }
}

impl std::error::Error for InvalidToken {}

/// The reason why a logon failed. The client gets STATUS_LOGON_FAILURE in all cases; the distinction is for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogonFailure {
    /// The response does not match the user account's password, or the account does not exist.
    Proof,
    /// The response is correct, but the MIC does not match the messages exchanged.
    Mic,
    /// The client responded with LM, or with NTLMv1 although it is not permitted.
    NotNtlmV2,
    /// The client requested an anonymous logon, which proves no identity.
    Anonymous,
}

impl fmt::Display for LogonFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogonFailure::Proof => "no such user or wrong password",
            LogonFailure::Mic => "NTLM messages were changed in transit",
            LogonFailure::NotNtlmV2 => "LM or NTLMv1 response",
            LogonFailure::Anonymous => "anonymous logon",
        })
    }
}

impl std::error::Error for LogonFailure {}

/// The server's side of one logon.
#[derive(Clone, Debug)]
pub struct Acceptor {
    names: TargetNames,
    permits_v1: bool,
    sent: Option<Sent>,
}

/// The messages before the AUTHENTICATE_MESSAGE, which the MIC covers.
#[derive(Clone, Debug)]
struct Sent {
    server_challenge: [u8; 8],
    negotiate: Vec<u8>,
    challenge: Vec<u8>,
}

impl Acceptor {
    /// A logon in its initial state.
    pub fn new(names: TargetNames) -> Self {
        Acceptor { names, permits_v1: false, sent: None }
    }

    /// Sets whether NTLMv1 responses are accepted for the accounts that [`Acceptor::verify`] decides on.
    pub fn permitting_ntlm_v1(self, permits: bool) -> Self {
        Acceptor { permits_v1: permits, ..self }
    }

    /// Answers a NEGOTIATE_MESSAGE with a CHALLENGE_MESSAGE ([MS-NLMP] 3.2.5.1.1). `server_challenge` must be random
    /// and different for each logon. `timestamp` is the server's FILETIME.
    pub fn challenge(
        &mut self,
        negotiate: &[u8],
        server_challenge: [u8; 8],
        timestamp: u64,
    ) -> Result<Vec<u8>, InvalidToken> {
        if self.sent.is_some() {
            return Err(InvalidToken::Order);
        }
        let requested = Negotiate::decode(negotiate)?.negotiate_flags;
        // [MS-NLMP] 2.2.2.5: Unicode if the client supports both.
        let unicode = requested.contains(NegotiateFlags::NEGOTIATE_UNICODE);
        if !unicode && !requested.contains(NegotiateFlags::NEGOTIATE_OEM) {
            return Err(InvalidToken::Encoding);
        }
        let target = if self.names.domain_joined { &self.names.netbios_domain } else { &self.names.netbios_computer };
        let target_name = if unicode { utf16_bytes(target) } else { oem::encode(target) };
        let challenge = Challenge {
            target_name: &target_name,
            negotiate_flags: self.choose(requested),
            server_challenge,
            target_info: &self.target_info(timestamp),
        }
        .encode();
        self.sent = Some(Sent { server_challenge, negotiate: negotiate.to_vec(), challenge: challenge.clone() });
        Ok(challenge)
    }

    /// Returns the flags of the challenge: the server's own, and those of the client's that the server supports.
    fn choose(&self, requested: NegotiateFlags) -> NegotiateFlags {
        let encoding = match requested.contains(NegotiateFlags::NEGOTIATE_UNICODE) {
            true => NegotiateFlags::NEGOTIATE_UNICODE,
            false => NegotiateFlags::NEGOTIATE_OEM,
        };
        let ours = encoding
            | NegotiateFlags::REQUEST_TARGET
            | NegotiateFlags::NEGOTIATE_NTLM
            | NegotiateFlags::NEGOTIATE_ALWAYS_SIGN
            | NegotiateFlags::NEGOTIATE_TARGET_INFO;
        let target = match self.names.domain_joined {
            true => NegotiateFlags::TARGET_TYPE_DOMAIN,
            false => NegotiateFlags::TARGET_TYPE_SERVER,
        };
        let known = NegotiateFlags::NEGOTIATE_SIGN
            | NegotiateFlags::NEGOTIATE_SEAL
            | NegotiateFlags::NEGOTIATE_EXTENDED_SESSIONSECURITY
            | NegotiateFlags::NEGOTIATE_VERSION
            | NegotiateFlags::NEGOTIATE_KEY_EXCH;
        let strengths = NegotiateFlags::NEGOTIATE_128 | NegotiateFlags::NEGOTIATE_56;
        let mut chosen = ours | target | (requested & known);
        if requested.intersects(NegotiateFlags::NEGOTIATE_SIGN | NegotiateFlags::NEGOTIATE_SEAL) {
            chosen |= requested & strengths;
        }
        chosen
    }

    /// `TargetInfo` of the challenge. The timestamp is always included, so that clients send a MIC.
    fn target_info(&self, timestamp: u64) -> Vec<u8> {
        let mut target_info = Vec::new();
        let mut writer = Writer::new(&mut target_info);
        for (id, name) in [
            (AvId::NB_DOMAIN_NAME, &self.names.netbios_domain),
            (AvId::NB_COMPUTER_NAME, &self.names.netbios_computer),
            (AvId::DNS_DOMAIN_NAME, &self.names.dns_domain),
            (AvId::DNS_COMPUTER_NAME, &self.names.dns_computer),
        ] {
            if !name.is_empty() {
                av_pair::encode(&mut writer, id, &utf16_bytes(name));
            }
        }
        av_pair::encode(&mut writer, AvId::TIMESTAMP, &timestamp.to_le_bytes());
        av_pair::encode(&mut writer, AvId::EOL, &[]);
        target_info
    }

    /// Decodes an AUTHENTICATE_MESSAGE into the claimed identity and the data that [`Acceptor::verify`] needs.
    pub fn authenticate(&self, authenticate: &[u8]) -> Result<Claim, InvalidToken> {
        if self.sent.is_none() {
            return Err(InvalidToken::Order);
        }
        Claim::decode(authenticate)
    }

    /// Decides on `claim`, given the NT hash of the user account that the caller found for it, or `None` if there is no
    /// such account or it has no password. All cases take the same work, so that the timing does not reveal which one
    /// it was.
    // Deviates from [MS-NLMP] 3.2.5.1.2: the age of the client's timestamp is not checked, as in Windows since 2012.
    // The challenge is different for each logon, so the check would only lock out devices without a clock.
    pub fn verify(&self, claim: &Claim, nt_hash: Option<&[u8; 16]>) -> Result<Session, LogonFailure> {
        let (Some(sent), false) = (&self.sent, claim.anonymous) else { return Err(LogonFailure::Anonymous) };
        let known = Choice::from(u8::from(nt_hash.is_some()));
        let hash = nt_hash.unwrap_or(&[0; 16]);
        let response = match &claim.response {
            Some(Response::V2(response)) => response,
            Some(Response::V1(response)) if self.permits_v1 => {
                let (right, key) = response.check(hash, &sent.server_challenge);
                return if bool::from(right & known) { Ok(claim.session(&key)) } else { Err(LogonFailure::Proof) };
            }
            _ => return Err(LogonFailure::NotNtlmV2),
        };

        // Some clients leave the domain out of the key although they send one, and 3.2.5.1.2 requires accepting them.
        let (with_domain, key) = response.check(hash, claim, &claim.domain_name, sent.server_challenge);
        let (without_domain, other_key) = response.check(hash, claim, &[], sent.server_challenge);
        let mut base_key = Zeroizing::new([0; 16]);
        for ((to, key), other) in base_key.iter_mut().zip(&*key).zip(&*other_key) {
            *to = u8::conditional_select(other, key, with_domain);
        }

        let session = claim.session(&base_key);
        let mic_right = sent.mic_right(claim, &session);
        if !bool::from((with_domain | without_domain) & known) {
            return Err(LogonFailure::Proof);
        }
        if bool::from(mic_right) { Ok(session) } else { Err(LogonFailure::Mic) }
    }

    /// Returns the data that a domain controller needs to decide on `claim` ([MS-NLMP] 3.2.5.1.2, the logon of a domain
    /// account).
    pub fn pass_through(&self, claim: &Claim) -> Result<PassThrough, LogonFailure> {
        let (Some(sent), false) = (&self.sent, claim.anonymous) else { return Err(LogonFailure::Anonymous) };
        let Some(Response::V2(response)) = &claim.response else { return Err(LogonFailure::NotNtlmV2) };
        let nt_challenge_response = [&response.proof[..], &response.client_challenge].concat();
        Ok(PassThrough { server_challenge: sent.server_challenge, nt_challenge_response })
    }

    /// Completes the logon of `claim` after a domain controller accepted its response and returned the base key. The
    /// MIC, which the controller cannot check, is checked here.
    pub fn verified_elsewhere(&self, claim: &Claim, session_base_key: &[u8; 16]) -> Result<Session, LogonFailure> {
        let sent = self.sent.as_ref().ok_or(LogonFailure::Proof)?;
        let session = claim.session(session_base_key);
        if bool::from(sent.mic_right(claim, &session)) { Ok(session) } else { Err(LogonFailure::Mic) }
    }
}

impl Sent {
    /// Returns whether the MIC of `claim` matches the messages as seen here. A claim without a MIC passes.
    fn mic_right(&self, claim: &Claim, session: &Session) -> Choice {
        match &claim.mic {
            Some(mic) => {
                let computed = hmac_md5(&session.key().0, &[&self.negotiate, &self.challenge, &mic.message]);
                computed.ct_eq(&mic.value)
            }
            None => Choice::from(1),
        }
    }
}

/// The logon data for a domain controller; contains no secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassThrough {
    /// The server's challenge.
    pub server_challenge: [u8; 8],
    /// The client's NTLMv2_RESPONSE, whole.
    pub nt_challenge_response: Vec<u8>,
}

impl PassThrough {
    /// The controller's decision: returns the base key if the response matches `nt_hash`, with `user` and `domain` as
    /// they were passed on.
    pub fn decide(&self, nt_hash: &[u8; 16], user: &str, domain: &str) -> Option<Zeroizing<[u8; 16]>> {
        let response = NtlmV2Response::decode(&self.nt_challenge_response).ok()??;
        // The client may have left the domain out of the key.
        [domain, ""].iter().find_map(|domain| {
            let key = response_key(nt_hash, &utf16_bytes(user), &utf16_bytes(domain));
            let expected = proof(&key, &self.server_challenge, response.client_challenge);
            bool::from(expected.ct_eq(&response.proof)).then(|| session_base_key(&key, &expected))
        })
    }
}

/// The identity that an AUTHENTICATE_MESSAGE claims. Nothing of it is proven before [`Acceptor::verify`].
#[derive(Clone)]
pub struct Claim {
    /// The user's name as it was sent: `user`, `DOMAIN\user` or `user@domain`. Lone surrogates are replaced by U+FFFD.
    pub user: String,
    /// The domain as it was sent, often empty or the client machine's name.
    pub domain: String,
    /// The client machine's name.
    pub workstation: String,
    /// The client requests an anonymous logon: no name and no response.
    pub anonymous: bool,
    /// The SPN of the server that the client intends to reach (MsvAvTargetName), which the proof covers; `None` if it
    /// is missing.
    pub target_name: Option<String>,
    user_name: Vec<u8>,
    domain_name: Vec<u8>,
    response: Option<Response>,
    mic: Option<Mic>,
    encrypted_random_session_key: Option<[u8; 16]>,
    flags: NegotiateFlags,
}

/// The response of a claim.
#[derive(Clone)]
enum Response {
    V1(NtlmV1Response),
    V2(V2),
}

/// The NTLMv2 response of a claim.
#[derive(Clone)]
struct V2 {
    proof: [u8; 16],
    client_challenge: Vec<u8>,
}

/// The MIC of a claim, and the message that it covers.
#[derive(Clone)]
struct Mic {
    value: [u8; 16],
    message: Vec<u8>,
}

impl Claim {
    fn decode(authenticate: &[u8]) -> Result<Self, InvalidToken> {
        let message = Authenticate::decode(authenticate)?;
        let flags = message.negotiate_flags;
        let response = NtlmV2Response::decode(message.nt_challenge_response)?;
        let mic = match &response {
            Some(response) if response.av_pairs.flags()?.contains(AvFlags::MIC_PROVIDED) => {
                let (value, message) = without_mic(authenticate).ok_or(Malformed::Truncated)?;
                Some(Mic { value, message })
            }
            _ => None,
        };
        let encrypted_random_session_key = match flags.exchanges_key() {
            true => Some(message.encrypted_random_session_key.try_into().map_err(|_| Malformed::Value)?),
            false => None,
        };
        // The hash input is Unicode, whatever the encoding of the names (3.3.2).
        let unicode = |name: &[u8]| match flags.contains(NegotiateFlags::NEGOTIATE_UNICODE) {
            true => name.to_vec(),
            false => utf16_bytes(&oem::decode(name)),
        };
        let (user_name, domain_name) = (unicode(message.user_name), unicode(message.domain_name));
        Ok(Claim {
            user: text(&user_name),
            domain: text(&domain_name),
            workstation: text(&unicode(message.workstation)),
            anonymous: message.user_name.is_empty()
                && message.nt_challenge_response.is_empty()
                && matches!(message.lm_challenge_response, [] | [0]),
            user_name,
            domain_name,
            target_name: response
                .as_ref()
                .and_then(|it| it.av_pairs.get(AvId::TARGET_NAME))
                .filter(|name| !name.is_empty())
                .map(text),
            response: match response {
                Some(it) => Some(Response::V2(V2 { proof: it.proof, client_challenge: it.client_challenge.to_vec() })),
                None => NtlmV1Response::decode(message.nt_challenge_response, message.lm_challenge_response, flags)
                    .map(Response::V1),
            },
            mic,
            encrypted_random_session_key,
            flags,
        })
    }

    /// Returns whether the response is one of NTLMv1.
    pub fn is_ntlm_v1(&self) -> bool {
        matches!(self.response, Some(Response::V1(_)))
    }

    /// The session of an anonymous or guest logon ([MS-NLMP] 3.2.5.1.2, NullSession and GuestSession), whose base key
    /// is zero. It proves nothing; the caller has decided that no proof is needed.
    pub fn null_session(&self) -> Session {
        self.session(&[0; 16])
    }

    /// Builds the session for a key exchange key: with NTLMv2 the base key.
    fn session(&self, base_key: &[u8; 16]) -> Session {
        let key = match self.encrypted_random_session_key {
            Some(mut key) => {
                rc4(base_key, &mut key);
                key
            }
            None => *base_key,
        };
        Session::new(SessionKey(key), self.flags)
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("user", &self.user)
            .field("domain", &self.domain)
            .field("workstation", &self.workstation)
            .field("anonymous", &self.anonymous)
            .finish_non_exhaustive()
    }
}

impl V2 {
    /// Returns whether the proof matches `hash` with this domain, and the base key for that case.
    fn check(
        &self,
        hash: &[u8; 16],
        claim: &Claim,
        domain_name: &[u8],
        server_challenge: [u8; 8],
    ) -> (Choice, Zeroizing<[u8; 16]>) {
        let response_key = response_key(hash, &claim.user_name, domain_name);
        let expected = proof(&response_key, &server_challenge, &self.client_challenge);
        (expected.ct_eq(&self.proof), session_base_key(&response_key, &expected))
    }
}

/// Decodes whole UTF-16LE units as text.
fn text(bytes: &[u8]) -> String {
    String::from_utf16_lossy(&utf16_units(bytes).unwrap_or_default())
}
