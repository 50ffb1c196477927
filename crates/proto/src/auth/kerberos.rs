//! The parts of a Kerberos logon that are readable without a key: the service of the ticket, and the version and type
//! of that service's key (RFC 4120 5.3, 5.5.1, in the frame of RFC 4121 4.1).
//!
//! Nothing here is authenticated. It is used for messages and for refusing weak keys early. Only the Kerberos library
//! decides whether a ticket is valid. The encrypted parts are not read.

use super::der::{self, Element, Elements};
use super::spnego::MechType;
use crate::bytes::{Malformed, Result};

/// `[APPLICATION 1]`: a ticket.
const TICKET: u8 = 0x61;
/// `[APPLICATION 14]`: an AP-REQ.
const AP_REQ: u8 = 0x6E;
const INTEGER: u8 = 0x02;
/// `TOK_ID` of an AP-REQ (RFC 4121 4.1).
const TOKEN_AP_REQ: [u8; 2] = [1, 0];
/// The maximum number of components of a service's name.
const MAX_COMPONENTS: usize = 16;

/// `etype`: an encryption type (RFC 3961 8; the registry of IANA).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EncryptionType(pub i32);

impl EncryptionType {
    /// `aes128-cts-hmac-sha1-96` (RFC 3962).
    pub const AES128_CTS_HMAC_SHA1_96: EncryptionType = EncryptionType(17);
    /// `aes256-cts-hmac-sha1-96` (RFC 3962).
    pub const AES256_CTS_HMAC_SHA1_96: EncryptionType = EncryptionType(18);
    /// `aes128-cts-hmac-sha256-128` (RFC 8009).
    pub const AES128_CTS_HMAC_SHA256_128: EncryptionType = EncryptionType(19);
    /// `aes256-cts-hmac-sha384-192` (RFC 8009).
    pub const AES256_CTS_HMAC_SHA384_192: EncryptionType = EncryptionType(20);
    /// `arcfour-hmac` (RFC 4757): RC4 with the NT hash, broken.
    pub const ARCFOUR_HMAC: EncryptionType = EncryptionType(23);

    /// Returns whether this is an AES type.
    pub fn is_aes(self) -> bool {
        matches!(self.0, 17..=20)
    }
}

impl std::fmt::Display for EncryptionType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match *self {
            EncryptionType::AES128_CTS_HMAC_SHA1_96 => "aes128-cts-hmac-sha1-96",
            EncryptionType::AES256_CTS_HMAC_SHA1_96 => "aes256-cts-hmac-sha1-96",
            EncryptionType::AES128_CTS_HMAC_SHA256_128 => "aes128-cts-hmac-sha256-128",
            EncryptionType::AES256_CTS_HMAC_SHA384_192 => "aes256-cts-hmac-sha384-192",
            EncryptionType::ARCFOUR_HMAC => "arcfour-hmac",
            EncryptionType(other) => return write!(f, "encryption type {other}"),
        })
    }
}

/// The readable part of the ticket in an AP-REQ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The realm of the service, which issued the ticket.
    pub realm: String,
    /// The service name, its components separated by slashes: `cifs/server.example.com`.
    pub service: String,
    /// The encryption type of the ticket.
    pub encryption: EncryptionType,
    /// The version of the service's key that the ticket is encrypted with, if it is given.
    pub key_version: Option<u32>,
}

impl Envelope {
    /// Decodes the first token of the Kerberos mechanism, as SPNEGO carries it.
    pub fn decode(token: &[u8]) -> Result<Envelope> {
        let mut frame = Elements::new(der::only(token, der::APPLICATION_0)?);
        let mech_type = MechType(frame.expect(der::OBJECT_IDENTIFIER)?);
        if mech_type != MechType::KERBEROS && mech_type != MechType::MS_KERBEROS {
            return Err(Malformed::Value);
        }
        let request = frame.rest().strip_prefix(&TOKEN_AP_REQ).ok_or(Malformed::Value)?;
        let mut fields = Elements::new(der::only(der::only(request, AP_REQ)?, der::SEQUENCE)?);
        for number in 0..3 {
            fields.expect(der::context(number))?;
        }
        let ticket = der::only(fields.expect(der::context(3))?, TICKET)?;
        let mut fields = Elements::new(der::only(ticket, der::SEQUENCE)?);
        fields.expect(der::context(0))?;
        let realm = text(der::only(fields.expect(der::context(1))?, der::GENERAL_STRING)?);
        let service = name(fields.expect(der::context(2))?)?;
        let mut sealed = Elements::new(der::only(fields.expect(der::context(3))?, der::SEQUENCE)?);
        let encryption = integer(sealed.expect(der::context(0))?)?;
        let encryption = EncryptionType(i32::try_from(encryption).map_err(|_| Malformed::Value)?);
        let key_version = match sealed.next()? {
            // Some implementations encode it as a signed 32-bit number.
            Element { tag, content } if tag == der::context(1) => Some(integer(content)? as u32),
            _ => None,
        };
        Ok(Envelope { realm, service, encryption, key_version })
    }
}

/// Decodes a `PrincipalName`, without its type.
fn name(bytes: &[u8]) -> Result<String> {
    let mut fields = Elements::new(der::only(bytes, der::SEQUENCE)?);
    fields.expect(der::context(0))?;
    let mut parts = Elements::new(der::only(fields.expect(der::context(1))?, der::SEQUENCE)?);
    let mut name = Vec::new();
    while !parts.is_empty() {
        if name.len() == MAX_COMPONENTS {
            return Err(Malformed::Value);
        }
        name.push(text(parts.expect(der::GENERAL_STRING)?));
    }
    Ok(name.join("/"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Decodes an `INTEGER` of at most 32 bits, signed or not.
fn integer(bytes: &[u8]) -> Result<i64> {
    let digits = der::only(bytes, INTEGER)?;
    let (Some(first), 1..=5) = (digits.first(), digits.len()) else { return Err(Malformed::Value) };
    let sign = if first & 0x80 == 0 { 0 } else { -1 };
    Ok(digits.iter().fold(sign, |value, digit| value << 8 | i64::from(*digit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tagged(number: u8, content: &[u8]) -> Vec<u8> {
        der::element(der::context(number), content)
    }

    fn sequence(fields: &[Vec<u8>]) -> Vec<u8> {
        der::element(der::SEQUENCE, &fields.concat())
    }

    fn number(digits: &[u8]) -> Vec<u8> {
        der::element(INTEGER, digits)
    }

    fn token(mech_type: MechType<'_>, etype: &[u8], kvno: Option<&[u8]>) -> Vec<u8> {
        let word = |text: &str| der::element(der::GENERAL_STRING, text.as_bytes());
        let name = sequence(&[tagged(0, &number(&[2])), tagged(1, &sequence(&[word("cifs"), word("a.test")]))]);
        let mut sealed = vec![tagged(0, &number(etype))];
        sealed.extend(kvno.map(|kvno| tagged(1, &number(kvno))));
        sealed.push(tagged(2, &der::element(der::OCTET_STRING, &[7; 300])));
        let ticket = sequence(&[
            tagged(0, &number(&[5])),
            tagged(1, &word("A.TEST")),
            tagged(2, &name),
            tagged(3, &sequence(&sealed)),
        ]);
        let request = sequence(&[
            tagged(0, &number(&[5])),
            tagged(1, &number(&[14])),
            tagged(2, &der::element(3, &[0, 0x20, 0, 0, 0])),
            tagged(3, &der::element(TICKET, &ticket)),
            tagged(4, &sequence(&[])),
        ]);
        let mut frame = der::element(der::OBJECT_IDENTIFIER, mech_type.0);
        frame.extend(TOKEN_AP_REQ);
        frame.extend(der::element(AP_REQ, &request));
        der::element(der::APPLICATION_0, &frame)
    }

    #[test]
    fn tickets_name_their_service() {
        for (mech_type, etype, kvno, expected) in [
            (MechType::KERBEROS, &[18][..], Some(&[3][..]), (18, Some(3))),
            (MechType::MS_KERBEROS, &[17], None, (17, None)),
            (MechType::KERBEROS, &[23], Some(&[0, 0x9C, 0x40, 0, 1]), (23, Some(0x9C40_0001))),
            (MechType::KERBEROS, &[0xFF, 0x7B], Some(&[0x9C, 0x40, 0, 1]), (-133, Some(0x9C40_0001))),
        ] {
            let envelope = Envelope::decode(&token(mech_type, etype, kvno)).expect("a complete token");
            assert_eq!((envelope.realm.as_str(), envelope.service.as_str()), ("A.TEST", "cifs/a.test"));
            assert_eq!((envelope.encryption.0, envelope.key_version), expected);
        }
    }

    #[test]
    fn tokens_that_are_not_requests_are_refused() {
        let whole = token(MechType::KERBEROS, &[18], Some(&[3]));
        for end in 0..whole.len() {
            assert!(Envelope::decode(&whole[..end]).is_err(), "{end}");
        }
        for (mech_type, etype, kvno) in [
            (MechType::NTLMSSP, &[18][..], &[1][..]),
            (MechType::KERBEROS, &[], &[1]),
            (MechType::KERBEROS, &[18], &[1; 6]),
        ] {
            assert!(Envelope::decode(&token(mech_type, etype, Some(kvno))).is_err(), "{etype:?} {kvno:?}");
        }
    }
}
