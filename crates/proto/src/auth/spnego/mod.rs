//! SPNEGO tokens (RFC 4178 4.2, [MS-SPNG] 2.2.1), which negotiate a mechanism and carry that mechanism's own tokens.
//!
//! This module handles tokens only. The callers, which implement the mechanisms, choose the mechanism and decide when a
//! mechListMIC is due (RFC 4178 5). `reqFlags`, which RFC 4178 says to ignore, and the hints of a server's token are
//! not kept.

use super::der::{self, Element, Elements};
use super::ntlm::message::is_ntlm;
use crate::bytes::{Malformed, Result};

/// The maximum length of a decoded token, in bytes: the capacity of an SMB2 security buffer.
pub const MAX_TOKEN: usize = 0xFFFF;
/// The maximum number of mechanisms in a peer's list.
const MAX_MECH_TYPES: usize = 32;

/// 1.3.6.1.5.5.2: SPNEGO itself.
const SPNEGO: &[u8] = &[0x2B, 0x06, 0x01, 0x05, 0x05, 0x02];
/// The `hintName` of a server, which no client reads.
const HINT_NAME: &[u8] = b"not_defined_in_RFC4178@please_ignore";

/// `MechType`: an object identifier, as the content of its DER element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MechType<'a>(pub &'a [u8]);

impl MechType<'static> {
    /// 1.3.6.1.4.1.311.2.2.10: NTLM.
    pub const NTLMSSP: MechType<'static> = MechType(&[0x2B, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0A]);
    /// 1.2.840.113554.1.2.2: Kerberos 5.
    pub const KERBEROS: MechType<'static> = MechType(&[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02]);
    /// 1.2.840.48018.1.2.2: Kerberos 5 as Windows 2000 encoded it. All Windows versions list it first.
    pub const MS_KERBEROS: MechType<'static> = MechType(&[0x2A, 0x86, 0x48, 0x82, 0xF7, 0x12, 0x01, 0x02, 0x02]);
    /// 1.3.6.1.4.1.311.2.2.30: NEGOEX.
    pub const NEGOEX: MechType<'static> = MechType(&[0x2B, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x1E]);
}

/// `negState` of a response.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NegState(pub u8);

impl NegState {
    /// The logon succeeded.
    pub const ACCEPT_COMPLETED: NegState = NegState(0);
    /// Another token is needed.
    pub const ACCEPT_INCOMPLETE: NegState = NegState(1);
    /// No mechanism in common, or the logon failed.
    pub const REJECT: NegState = NegState(2);
    /// Like `ACCEPT_INCOMPLETE`, and a mechListMIC is requested.
    pub const REQUEST_MIC: NegState = NegState(3);
}

/// The content of a security buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token<'a> {
    /// The first token of an initiator, or a server's hint in NEGOTIATE.
    Init(NegTokenInit<'a>),
    /// Any later token.
    Resp(NegTokenResp<'a>),
    /// An NTLM message without SPNEGO around it, as some clients send it.
    RawNtlm(&'a [u8]),
}

impl<'a> Token<'a> {
    /// Decodes a security buffer.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        if bytes.len() > MAX_TOKEN {
            return Err(Malformed::Value);
        }
        if is_ntlm(bytes) {
            return Ok(Token::RawNtlm(bytes));
        }
        let mut elements = Elements::new(bytes);
        let Element { tag, content } = elements.next()?;
        match tag {
            _ if !elements.is_empty() => Err(Malformed::Structure),
            der::APPLICATION_0 => {
                let mut elements = Elements::new(content);
                if elements.expect(der::OBJECT_IDENTIFIER)? != SPNEGO {
                    return Err(Malformed::Value);
                }
                let init = elements.expect(der::context(0))?;
                if !elements.is_empty() {
                    return Err(Malformed::Structure);
                }
                NegTokenInit::decode(init).map(Token::Init)
            }
            // RFC 4178 requires the GSS-API frame around the first token; some initiators omit it.
            tag if tag == der::context(0) => NegTokenInit::decode(content).map(Token::Init),
            tag if tag == der::context(1) => NegTokenResp::decode(content).map(Token::Resp),
            _ => Err(Malformed::Structure),
        }
    }
}

/// `NegTokenInit` (RFC 4178 4.2.1), and the fields kept of a `NegTokenInit2` ([MS-SPNG] 2.2.1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NegTokenInit<'a> {
    /// The mechanisms that the sender supports, best first.
    pub mech_types: Vec<MechType<'a>>,
    /// The DER bytes of `mechTypes` as they were sent, which a mechListMIC covers.
    pub mech_types_der: &'a [u8],
    /// The first token of the first mechanism, sent in case the peer chooses it.
    pub mech_token: Option<&'a [u8]>,
    /// The signature of the mechanism list, if it was possible already.
    pub mech_list_mic: Option<&'a [u8]>,
}

impl<'a> NegTokenInit<'a> {
    /// Returns whether the sender supports `mech_type`.
    pub fn offers(&self, mech_type: MechType<'_>) -> bool {
        self.mech_types.contains(&mech_type)
    }

    /// Returns whether `mech_type` is the sender's preferred mechanism. If another one is chosen, a mechListMIC must
    /// prove that an attacker did not remove better ones from the list (RFC 4178 5).
    pub fn prefers(&self, mech_type: MechType<'_>) -> bool {
        self.mech_types.first() == Some(&mech_type)
    }

    /// The first token of `mech_type`, if the sender sent one optimistically for it.
    pub fn token_for(&self, mech_type: MechType<'_>) -> Option<&'a [u8]> {
        if self.prefers(mech_type) { self.mech_token } else { None }
    }

    fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut fields = Fields::new(der::only(bytes, der::SEQUENCE)?);
        let mech_types_der = fields.take(0)?.ok_or(Malformed::Structure)?;
        let mech_types = decode_mech_types(mech_types_der)?;
        fields.take(1)?;
        let mech_token = fields.octets(2)?;
        // Either the mechListMIC, or a server's hints, whose mechListMIC follows in [4].
        let third = fields.take(3)?;
        let mech_list_mic = match third {
            Some([der::OCTET_STRING, ..]) => third.map(|it| der::only(it, der::OCTET_STRING)).transpose()?,
            _ => fields.octets(4)?,
        };
        fields.end()?;
        Ok(NegTokenInit { mech_types, mech_types_der, mech_token, mech_list_mic })
    }
}

/// Encodes the first token of an initiator. `mech_types_der` is [`encode_mech_types`] of its list.
pub fn encode_init(mech_types_der: &[u8], mech_token: Option<&[u8]>) -> Vec<u8> {
    let mut fields = der::element(der::context(0), mech_types_der);
    append_octets(&mut fields, 2, mech_token);
    initial(&fields)
}

/// Encodes the token of a server's NEGOTIATE response: a `NegTokenInit2` of its mechanisms, best first, without a
/// mechanism token.
pub fn encode_init2(mech_types: &[MechType<'_>]) -> Vec<u8> {
    let hint_name = der::element(der::context(0), &der::element(der::GENERAL_STRING, HINT_NAME));
    let mut fields = der::element(der::context(0), &encode_mech_types(mech_types));
    fields.extend(der::element(der::context(3), &der::element(der::SEQUENCE, &hint_name)));
    initial(&fields)
}

/// The DER bytes of a `MechTypeList`.
pub fn encode_mech_types(mech_types: &[MechType<'_>]) -> Vec<u8> {
    let list: Vec<u8> = mech_types.iter().flat_map(|it| der::element(der::OBJECT_IDENTIFIER, it.0)).collect();
    der::element(der::SEQUENCE, &list)
}

fn decode_mech_types(bytes: &[u8]) -> Result<Vec<MechType<'_>>> {
    let mut elements = Elements::new(der::only(bytes, der::SEQUENCE)?);
    let mut mech_types = Vec::new();
    while !elements.is_empty() {
        if mech_types.len() == MAX_MECH_TYPES {
            return Err(Malformed::Value);
        }
        mech_types.push(MechType(elements.expect(der::OBJECT_IDENTIFIER)?));
    }
    Ok(mech_types)
}

/// Wraps a `NegTokenInit` in the GSS-API frame and the choice tag.
fn initial(fields: &[u8]) -> Vec<u8> {
    let mut content = der::element(der::OBJECT_IDENTIFIER, SPNEGO);
    content.extend(der::element(der::context(0), &der::element(der::SEQUENCE, fields)));
    der::element(der::APPLICATION_0, &content)
}

/// `NegTokenResp` (RFC 4178 4.2.2).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct NegTokenResp<'a> {
    /// The state of the logon. A server always sends it; clients often do not.
    pub neg_state: Option<NegState>,
    /// The mechanism that the server chose, in its first response only.
    pub supported_mech: Option<MechType<'a>>,
    /// The mechanism's token.
    pub response_token: Option<&'a [u8]>,
    /// The signature of the initiator's mechanism list.
    pub mech_list_mic: Option<&'a [u8]>,
}

impl<'a> NegTokenResp<'a> {
    fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut fields = Fields::new(der::only(bytes, der::SEQUENCE)?);
        let neg_state = match fields.take(0)? {
            Some(state) => match der::only(state, der::ENUMERATED)? {
                [state] => Some(NegState(*state)),
                _ => return Err(Malformed::Value),
            },
            None => None,
        };
        let supported_mech = fields.take(1)?.map(|it| der::only(it, der::OBJECT_IDENTIFIER)).transpose()?;
        let response_token = fields.octets(2)?;
        let mech_list_mic = fields.octets(3)?;
        fields.end()?;
        Ok(NegTokenResp { neg_state, supported_mech: supported_mech.map(MechType), response_token, mech_list_mic })
    }

    /// Encodes the token.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        if let Some(NegState(state)) = self.neg_state {
            fields.extend(der::element(der::context(0), &der::element(der::ENUMERATED, &[state])));
        }
        if let Some(MechType(oid)) = self.supported_mech {
            fields.extend(der::element(der::context(1), &der::element(der::OBJECT_IDENTIFIER, oid)));
        }
        append_octets(&mut fields, 2, self.response_token);
        append_octets(&mut fields, 3, self.mech_list_mic);
        der::element(der::context(1), &der::element(der::SEQUENCE, &fields))
    }
}

/// Appends `[number] OCTET STRING` if there is one.
fn append_octets(fields: &mut Vec<u8>, number: u8, octets: Option<&[u8]>) {
    if let Some(octets) = octets {
        fields.extend(der::element(der::context(number), &der::element(der::OCTET_STRING, octets)));
    }
}

/// The optional, context-tagged fields of a sequence, in the order of their numbers.
struct Fields<'a> {
    elements: Elements<'a>,
}

impl<'a> Fields<'a> {
    fn new(content: &'a [u8]) -> Self {
        Fields { elements: Elements::new(content) }
    }

    /// Takes the content of `[number]` if that is the next field.
    fn take(&mut self, number: u8) -> Result<Option<&'a [u8]>> {
        if self.elements.is_empty() {
            return Ok(None);
        }
        let mut ahead = self.elements.clone();
        let element = ahead.next()?;
        if element.tag != der::context(number) {
            return Ok(None);
        }
        self.elements = ahead;
        Ok(Some(element.content))
    }

    /// Takes the octet string in `[number]` if that is the next field.
    fn octets(&mut self, number: u8) -> Result<Option<&'a [u8]>> {
        self.take(number)?.map(|it| der::only(it, der::OCTET_STRING)).transpose()
    }

    /// Refuses fields that are unknown, repeated or out of order.
    fn end(self) -> Result<()> {
        if self.elements.is_empty() { Ok(()) } else { Err(Malformed::Structure) }
    }
}

#[cfg(test)]
mod tests;
