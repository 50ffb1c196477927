//! The three NTLM messages ([MS-NLMP] 2.2.1): NEGOTIATE, CHALLENGE and AUTHENTICATE.
//!
//! Strings are kept as the bytes that were sent, because NTLMv2 hashes some of them. `Version` is skipped because it
//! has no effect.

use super::{MAX_MESSAGE, NegotiateFlags};
use crate::bytes::{Malformed, Reader, Result, Writer, field};

/// The first 8 bytes of every NTLM message, which identify it outside SPNEGO.
pub const SIGNATURE: [u8; 8] = *b"NTLMSSP\0";

const NEGOTIATE: u32 = 1;
const CHALLENGE: u32 = 2;
const AUTHENTICATE: u32 = 3;

/// Where the payload of a CHALLENGE_MESSAGE begins: after `Version`.
const CHALLENGE_FIXED: usize = 56;
/// Where `Version` of an AUTHENTICATE_MESSAGE begins. Very old clients put their payload there.
const AUTHENTICATE_VERSION: usize = 64;
/// Where the `MIC` of an AUTHENTICATE_MESSAGE is.
pub(super) const MIC: usize = 72;
/// Where the payload of an AUTHENTICATE_MESSAGE that has a MIC begins.
const AUTHENTICATE_FIXED: usize = 88;

/// `Version` of this implementation's messages: zero unless it was negotiated, and then only the NTLM revision, 15.
fn version(flags: NegotiateFlags) -> [u8; 8] {
    let revision = if flags.contains(NegotiateFlags::NEGOTIATE_VERSION) { 15 } else { 0 };
    [0, 0, 0, 0, 0, 0, 0, revision]
}

/// NEGOTIATE_MESSAGE ([MS-NLMP] 2.2.1.1). Its optional names are omitted, because they are in the OEM character set and
/// have no effect on the logon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Negotiate {
    /// The flags that the client supports.
    pub negotiate_flags: NegotiateFlags,
}

impl Negotiate {
    /// Decodes a message. Some clients end it after the flags.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut reader = begin(message, NEGOTIATE)?;
        Ok(Negotiate { negotiate_flags: NegotiateFlags(reader.u32()?) })
    }

    /// Encodes the message, without names.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(40);
        let mut writer = Writer::new(&mut message);
        writer.bytes(&SIGNATURE);
        writer.u32(NEGOTIATE);
        writer.u32(self.negotiate_flags.0);
        writer.zeros(16);
        writer.bytes(&version(self.negotiate_flags));
        message
    }
}

/// CHALLENGE_MESSAGE ([MS-NLMP] 2.2.1.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Challenge<'a> {
    /// The name of the server or its domain, in UTF-16LE or in the OEM character set, depending on `negotiate_flags`.
    pub target_name: &'a [u8],
    /// The flags that the server chose from the client's, and its own.
    pub negotiate_flags: NegotiateFlags,
    /// The nonce that the client's response covers.
    pub server_challenge: [u8; 8],
    /// An encoded list of [`super::av_pair::AvPairs`].
    pub target_info: &'a [u8],
}

impl<'a> Challenge<'a> {
    /// Decodes a message. Target information is empty if the flags indicate that there is none.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = begin(message, CHALLENGE)?;
        let target_name = PayloadField::decode(&mut reader)?;
        let negotiate_flags = NegotiateFlags(reader.u32()?);
        let server_challenge = reader.array()?;
        reader.skip(8)?;
        let target_info = match negotiate_flags.contains(NegotiateFlags::NEGOTIATE_TARGET_INFO) {
            true => PayloadField::decode(&mut reader)?.resolve(message, CHALLENGE_FIXED - 8)?,
            false => &[],
        };
        let target_name = target_name.resolve(message, CHALLENGE_FIXED - 8)?;
        Ok(Challenge { target_name, negotiate_flags, server_challenge, target_info })
    }

    /// Encodes the message. The two variable parts are truncated at 64 KiB less one UTF-16 unit.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Vec::new();
        let mut payload = Payload { at: CHALLENGE_FIXED, bytes: Vec::new() };
        let mut writer = Writer::new(&mut message);
        writer.bytes(&SIGNATURE);
        writer.u32(CHALLENGE);
        payload.encode(&mut writer, self.target_name);
        writer.u32(self.negotiate_flags.0);
        writer.bytes(&self.server_challenge);
        writer.zeros(8);
        payload.encode(&mut writer, self.target_info);
        writer.bytes(&version(self.negotiate_flags));
        writer.bytes(&payload.bytes);
        message
    }
}

/// AUTHENTICATE_MESSAGE ([MS-NLMP] 2.2.1.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Authenticate<'a> {
    /// The LM response. It is used only to recognize anonymous logons.
    pub lm_challenge_response: &'a [u8],
    /// The NT response; NTLMv2_RESPONSE when longer than 24 bytes.
    pub nt_challenge_response: &'a [u8],
    /// The user's domain, in UTF-16LE or in the OEM character set, depending on `negotiate_flags`.
    pub domain_name: &'a [u8],
    /// The user's name, likewise.
    pub user_name: &'a [u8],
    /// The client machine's name, likewise.
    pub workstation: &'a [u8],
    /// The client's session key encrypted with RC4, if keys are exchanged.
    pub encrypted_random_session_key: &'a [u8],
    /// The final negotiated flags.
    pub negotiate_flags: NegotiateFlags,
}

impl<'a> Authenticate<'a> {
    /// Decodes a message. Every part must lie in the payload, and strings must be whole UTF-16 units unless they are in
    /// the OEM character set.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = begin(message, AUTHENTICATE)?;
        let mut places = [PayloadField::default(); 6];
        for place in &mut places {
            *place = PayloadField::decode(&mut reader)?;
        }
        let negotiate_flags = NegotiateFlags(reader.u32()?);
        let mut parts = [&[][..]; 6];
        for (part, place) in parts.iter_mut().zip(places) {
            *part = place.resolve(message, AUTHENTICATE_VERSION)?;
        }
        let [lm_challenge_response, nt_challenge_response, domain_name, user_name, workstation, key] = parts;
        let oem = !negotiate_flags.contains(NegotiateFlags::NEGOTIATE_UNICODE);
        if !oem && [domain_name, user_name, workstation].iter().any(|name| !name.len().is_multiple_of(2)) {
            return Err(Malformed::Value);
        }
        Ok(Authenticate {
            lm_challenge_response,
            nt_challenge_response,
            domain_name,
            user_name,
            workstation,
            encrypted_random_session_key: key,
            negotiate_flags,
        })
    }

    /// Encodes the message with a MIC of zero, which [`set_mic`] overwrites.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Vec::new();
        let mut payload = Payload { at: AUTHENTICATE_FIXED, bytes: Vec::new() };
        let mut names = Payload { at: AUTHENTICATE_FIXED, bytes: Vec::new() };
        // Names come first, so that they are aligned whatever the lengths of the responses.
        let mut name_places = Vec::new();
        for name in [self.domain_name, self.user_name, self.workstation] {
            names.encode(&mut Writer::new(&mut name_places), name);
        }
        payload.at += names.bytes.len();
        let mut writer = Writer::new(&mut message);
        writer.bytes(&SIGNATURE);
        writer.u32(AUTHENTICATE);
        payload.encode(&mut writer, self.lm_challenge_response);
        payload.encode(&mut writer, self.nt_challenge_response);
        writer.bytes(&name_places);
        payload.encode(&mut writer, self.encrypted_random_session_key);
        writer.u32(self.negotiate_flags.0);
        writer.bytes(&version(self.negotiate_flags));
        writer.zeros(16);
        writer.bytes(&names.bytes);
        writer.bytes(&payload.bytes);
        message
    }
}

/// Returns the MIC of an AUTHENTICATE_MESSAGE, and the message with zeros in its place; `None` if the message is too
/// short to have one.
pub(super) fn without_mic(message: &[u8]) -> Option<([u8; 16], Vec<u8>)> {
    let mut zeroed = message.to_vec();
    let place = zeroed.get_mut(MIC..AUTHENTICATE_FIXED)?;
    let mut mic = [0; 16];
    mic.copy_from_slice(place);
    place.fill(0);
    Some((mic, zeroed))
}

/// Writes `mic` into an AUTHENTICATE_MESSAGE made by [`Authenticate::encode`].
pub(super) fn set_mic(message: &mut [u8], mic: &[u8; 16]) {
    if let Some(place) = message.get_mut(MIC..AUTHENTICATE_FIXED) {
        place.copy_from_slice(mic);
    }
}

/// Returns whether `token` is an NTLM message outside SPNEGO.
pub fn is_ntlm(token: &[u8]) -> bool {
    token.starts_with(&SIGNATURE)
}

/// Checks signature and type, and returns a reader positioned after them.
fn begin(message: &[u8], message_type: u32) -> Result<Reader<'_>> {
    if message.len() > MAX_MESSAGE {
        return Err(Malformed::Value);
    }
    let mut reader = Reader::new(message);
    if reader.array::<8>()? != SIGNATURE || reader.u32()? != message_type {
        return Err(Malformed::Structure);
    }
    Ok(reader)
}

/// A `Len`, `MaxLen`, `BufferOffset` triple.
#[derive(Clone, Copy, Default)]
struct PayloadField {
    length: usize,
    offset: usize,
}

impl PayloadField {
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let length = usize::from(reader.u16()?);
        reader.skip(2)?;
        let offset = usize::try_from(reader.u32()?).map_err(|_| Malformed::Offset)?;
        Ok(PayloadField { length, offset })
    }

    fn resolve(self, message: &[u8], fixed: usize) -> Result<&[u8]> {
        field(message, self.offset, self.length, fixed)
    }
}

/// The variable part of a message being composed, and its offset.
struct Payload {
    at: usize,
    bytes: Vec<u8>,
}

impl Payload {
    /// Appends `part` and writes the triple that points to it.
    fn encode(&mut self, fixed: &mut Writer<'_>, part: &[u8]) {
        let part = &part[..part.len().min(0xFFFE)];
        fixed.u16(part.len() as u16);
        fixed.u16(part.len() as u16);
        fixed.u32((self.at + self.bytes.len()) as u32);
        self.bytes.extend_from_slice(part);
    }
}
