//! The client's side of an NTLMv2 logon ([MS-NLMP] 3.1.5.1).
//!
//! It offers 128-bit keys, extended session security and key exchange, and nothing older. A server without them is not
//! answered.

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::acceptor::InvalidToken;
use super::av_pair::{self, AvFlags, AvId, AvPairs};
use super::digest::{hmac_md5, rc4};
use super::message::{Authenticate, Challenge, Negotiate, set_mic};
use super::response::{encode_client_challenge, proof, response_key, session_base_key};
use super::{NegotiateFlags, Session, SessionKey};
use crate::bytes::{Writer, utf16_bytes};

/// The credentials of a logon. Wiped when dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The user's domain; may be empty.
    pub domain: String,
    /// [`super::nt_hash`] of the password.
    pub nt_hash: [u8; 16],
}

/// The random bytes of one logon. They must be different each time.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Random {
    /// `ChallengeFromClient`.
    pub client_challenge: [u8; 8],
    /// `ExportedSessionKey`.
    pub session_key: [u8; 16],
}

/// The client's side of one logon.
pub struct Initiator {
    credentials: Option<Credentials>,
    workstation: String,
    target_name: String,
    negotiate: Vec<u8>,
}

/// The flags that the client offers for the server to choose from.
const OFFERED: NegotiateFlags = NegotiateFlags::NEGOTIATE_UNICODE
    .with(NegotiateFlags::REQUEST_TARGET)
    .with(NegotiateFlags::NEGOTIATE_SIGN)
    .with(NegotiateFlags::NEGOTIATE_SEAL)
    .with(NegotiateFlags::NEGOTIATE_NTLM)
    .with(NegotiateFlags::NEGOTIATE_ALWAYS_SIGN)
    .with(NegotiateFlags::NEGOTIATE_EXTENDED_SESSIONSECURITY)
    .with(NegotiateFlags::NEGOTIATE_TARGET_INFO)
    .with(NegotiateFlags::NEGOTIATE_VERSION)
    .with(NegotiateFlags::NEGOTIATE_128)
    .with(NegotiateFlags::NEGOTIATE_KEY_EXCH)
    .with(NegotiateFlags::NEGOTIATE_56);

/// The offered flags that the server must have chosen.
const REQUIRED: NegotiateFlags = NegotiateFlags::NEGOTIATE_UNICODE
    .with(NegotiateFlags::NEGOTIATE_EXTENDED_SESSIONSECURITY)
    .with(NegotiateFlags::NEGOTIATE_TARGET_INFO)
    .with(NegotiateFlags::NEGOTIATE_128);

impl Initiator {
    /// A logon in its initial state; anonymous without credentials. `target_name` is the SPN of the intended server,
    /// such as `cifs/server`; it may be empty.
    pub fn new(credentials: Option<Credentials>, workstation: &str, target_name: &str) -> Self {
        let negotiate = Negotiate { negotiate_flags: OFFERED }.encode();
        Initiator { credentials, workstation: workstation.into(), target_name: target_name.into(), negotiate }
    }

    /// The first token.
    pub fn negotiate(&self) -> &[u8] {
        &self.negotiate
    }

    /// Answers the server's challenge. Returns the AUTHENTICATE_MESSAGE and the session that is valid if the server
    /// accepts it. `now` is the client's FILETIME, used if the server does not send its time.
    pub fn authenticate(
        &self,
        challenge: &[u8],
        random: &Random,
        now: u64,
    ) -> Result<(Vec<u8>, Session), InvalidToken> {
        let received = Challenge::decode(challenge)?;
        let flags = received.negotiate_flags & OFFERED;
        if !flags.contains(NegotiateFlags::NEGOTIATE_UNICODE) {
            return Err(InvalidToken::Encoding);
        }
        if !flags.contains(REQUIRED) {
            return Err(InvalidToken::TargetInfo);
        }
        let target_info = AvPairs::decode(received.target_info)?;
        let Some(credentials) = &self.credentials else { return Ok(self.anonymous(flags, random)) };
        // 3.1.5.1.2: NTLMv2 with integrity requires the server's names.
        if target_info.get(AvId::NB_COMPUTER_NAME).is_none() || target_info.get(AvId::NB_DOMAIN_NAME).is_none() {
            return Err(InvalidToken::TargetInfo);
        }

        let (user_name, domain_name) = (utf16_bytes(&credentials.user), utf16_bytes(&credentials.domain));
        let response_key = response_key(&credentials.nt_hash, &user_name, &domain_name);
        let timestamp = target_info.timestamp()?;
        let av_pairs = self.client_av_pairs(&target_info, timestamp.is_some())?;
        let client_challenge = encode_client_challenge(timestamp.unwrap_or(now), random.client_challenge, &av_pairs);
        let proof = proof(&response_key, &received.server_challenge, &client_challenge);
        let base_key = session_base_key(&response_key, &proof);
        let nt_response = [&proof[..], &client_challenge].concat();
        let lm_response = match timestamp {
            Some(_) => [0; 24],
            None => lm_response(&response_key, &received.server_challenge, random.client_challenge),
        };

        let (session, encrypted) = exchange_key(flags, &base_key, random);
        let mut message = Authenticate {
            lm_challenge_response: &lm_response,
            nt_challenge_response: &nt_response,
            domain_name: &domain_name,
            user_name: &user_name,
            workstation: &utf16_bytes(&self.workstation),
            encrypted_random_session_key: &encrypted,
            negotiate_flags: flags,
        }
        .encode();
        if timestamp.is_some() {
            let mic = hmac_md5(&session.key().0, &[&self.negotiate, challenge, &message]);
            set_mic(&mut message, &mic);
        }
        Ok((message, session))
    }

    /// Returns the server's pairs with the client's: its flags, no channel bindings, and the SPN.
    fn client_av_pairs(&self, target_info: &AvPairs<'_>, with_mic: bool) -> Result<Vec<u8>, InvalidToken> {
        let mut flags = target_info.flags()?;
        if with_mic {
            flags |= AvFlags::MIC_PROVIDED;
        }
        let mut encoded = Vec::new();
        let mut writer = Writer::new(&mut encoded);
        for (id, value) in target_info.iter() {
            if ![AvId::FLAGS, AvId::CHANNEL_BINDINGS, AvId::TARGET_NAME].contains(&id) {
                av_pair::encode(&mut writer, id, value);
            }
        }
        if !flags.is_empty() {
            av_pair::encode(&mut writer, AvId::FLAGS, &flags.0.to_le_bytes());
        }
        av_pair::encode(&mut writer, AvId::CHANNEL_BINDINGS, &[0; 16]);
        av_pair::encode(&mut writer, AvId::TARGET_NAME, &utf16_bytes(&self.target_name));
        av_pair::encode(&mut writer, AvId::EOL, &[]);
        Ok(encoded)
    }

    /// The reply of an anonymous client: no name, no response, a base key of zero.
    fn anonymous(&self, flags: NegotiateFlags, random: &Random) -> (Vec<u8>, Session) {
        let flags = flags | NegotiateFlags::ANONYMOUS;
        let (session, encrypted) = exchange_key(flags, &[0; 16], random);
        let message = Authenticate {
            lm_challenge_response: &[0],
            nt_challenge_response: &[],
            domain_name: &[],
            user_name: &[],
            workstation: &utf16_bytes(&self.workstation),
            encrypted_random_session_key: &encrypted,
            negotiate_flags: flags,
        };
        (message.encode(), session)
    }
}

/// Returns the session and the session key to send. If keys are exchanged, the client chooses the key and sends it
/// encrypted. Otherwise the session uses the base key and nothing is sent.
fn exchange_key(flags: NegotiateFlags, base_key: &[u8; 16], random: &Random) -> (Session, Vec<u8>) {
    if !flags.exchanges_key() {
        return (Session::new(SessionKey(*base_key), flags), Vec::new());
    }
    let mut encrypted = random.session_key.to_vec();
    rc4(base_key, &mut encrypted);
    (Session::new(SessionKey(random.session_key), flags), encrypted)
}

/// The LMv2 response, for old servers that send no timestamp.
fn lm_response(response_key: &Zeroizing<[u8; 16]>, server_challenge: &[u8; 8], client_challenge: [u8; 8]) -> [u8; 24] {
    let mut response = [0; 24];
    response[..16].copy_from_slice(&hmac_md5(response_key, &[server_challenge, &client_challenge]));
    response[16..].copy_from_slice(&client_challenge);
    response
}
