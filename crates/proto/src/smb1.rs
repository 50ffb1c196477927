//! The one SMB1 message that an SMB2 server reads: the NEGOTIATE with which a client may begin in order to detect the
//! protocol ([MS-SMB2] 3.3.5.3; the message itself is [MS-CIFS] 2.2.4.52.1).
//!
//! No other SMB1 message is implemented. The server answers a NEGOTIATE without an SMB2 dialect by closing the
//! connection.

use crate::bytes::{Malformed, Reader, Result, Writer};

/// The first bytes of every SMB1 message.
pub const PROTOCOL_ID: [u8; 4] = [0xff, b'S', b'M', b'B'];
/// The SMB1 command NEGOTIATE.
const COMMAND_NEGOTIATE: u8 = 0x72;
/// The byte before each dialect string.
const BUFFER_FORMAT_DIALECT: u8 = 0x02;

/// The dialect string of SMB 2.0.2.
pub const DIALECT_SMB_2_002: &[u8] = b"SMB 2.002";
/// The dialect string of "2.1 or later".
pub const DIALECT_SMB_2_WILDCARD: &[u8] = b"SMB 2.???";

/// Returns whether `message` is an SMB1 message. Its content is not checked.
pub fn is_smb1(message: &[u8]) -> bool {
    message.starts_with(&PROTOCOL_ID)
}

/// The SMB2 dialects that an SMB1 NEGOTIATE offers (3.3.5.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// "SMB 2.???": the server answers with the wildcard revision, and the client negotiates again in SMB2. It takes
    /// precedence over "SMB 2.002".
    Wildcard,
    /// "SMB 2.002" alone: the server answers with SMB 2.0.2.
    Smb2_002,
    /// SMB1 only.
    Smb1Only,
}

/// An SMB1 NEGOTIATE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Smb1NegotiateRequest<'a> {
    /// `Flags2` of the header; bits 2 and 4 concern signing.
    pub flags2: u16,
    /// `MID` of the header.
    pub mid: u16,
    /// The dialect strings, without their terminating zero bytes.
    pub dialects: Vec<&'a [u8]>,
}

impl<'a> Smb1NegotiateRequest<'a> {
    /// Decodes a whole SMB1 message.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(message);
        if reader.array()? != PROTOCOL_ID || reader.u8()? != COMMAND_NEGOTIATE {
            return Err(Malformed::Structure);
        }
        reader.skip(5)?;
        let flags2 = reader.u16()?;
        reader.skip(18)?;
        let mid = reader.u16()?;
        if reader.u8()? != 0 {
            return Err(Malformed::Structure);
        }
        let byte_count = usize::from(reader.u16()?);
        let dialects = dialect_strings(reader.take(byte_count)?)?;
        Ok(Smb1NegotiateRequest { flags2, mid, dialects })
    }

    /// Encodes a whole SMB1 message.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.bytes(&PROTOCOL_ID);
        out.u8(COMMAND_NEGOTIATE);
        out.zeros(5);
        out.u16(self.flags2);
        out.zeros(18);
        out.u16(self.mid);
        out.u8(0);
        let length: usize = self.dialects.iter().map(|dialect| dialect.len() + 2).sum();
        debug_assert!(u16::try_from(length).is_ok(), "more dialects than a 16-bit length can hold");
        out.u16(u16::try_from(length).unwrap_or(u16::MAX));
        for dialect in &self.dialects {
            out.u8(BUFFER_FORMAT_DIALECT);
            out.bytes(dialect);
            out.u8(0);
        }
    }

    /// Returns the SMB2 dialect that the request offers.
    pub fn offer(&self) -> Offer {
        if self.dialects.contains(&DIALECT_SMB_2_WILDCARD) {
            Offer::Wildcard
        } else if self.dialects.contains(&DIALECT_SMB_2_002) {
            Offer::Smb2_002
        } else {
            Offer::Smb1Only
        }
    }
}

/// Splits the dialect strings of an SMB1 NEGOTIATE. Each must have its format byte and its terminating zero byte.
fn dialect_strings(bytes: &[u8]) -> Result<Vec<&[u8]>> {
    let mut reader = Reader::new(bytes);
    let mut dialects = Vec::new();
    while reader.remaining() > 0 {
        if reader.u8()? != BUFFER_FORMAT_DIALECT {
            return Err(Malformed::Structure);
        }
        let rest = reader.clone().rest();
        let length = rest.iter().position(|byte| *byte == 0).ok_or(Malformed::Truncated)?;
        dialects.push(reader.take(length)?);
        reader.skip(1)?;
    }
    Ok(dialects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The request of [MS-SMB2] 4.1, whose fields the specification lists individually.
    fn example() -> Vec<u8> {
        let mut message =
            b"\xffSMB\x72\0\0\0\0\x18\x53\xc8\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\xfe\0\0\0\0\0\x78\0".to_vec();
        for dialect in [
            "PC NETWORK PROGRAM 1.0",
            "LANMAN1.0",
            "Windows for Workgroups 3.1a",
            "LM1.2X002",
            "LANMAN2.1",
            "NT LM 0.12",
            "SMB 2.002",
            "SMB 2.???",
        ] {
            message.push(2);
            message.extend(dialect.as_bytes());
            message.push(0);
        }
        message
    }

    #[test]
    fn the_example_of_the_specification_offers_smb2() {
        let message = example();
        assert!(is_smb1(&message));
        let request = Smb1NegotiateRequest::decode(&message).unwrap();
        assert_eq!((request.flags2, request.mid, request.dialects.len()), (0xc853, 0, 8));
        assert_eq!(request.offer(), Offer::Wildcard);
    }

    #[test]
    fn the_dialects_decide_what_is_offered() {
        for (dialects, offer) in [
            (vec![&b"NT LM 0.12"[..]], Offer::Smb1Only),
            (vec![b"NT LM 0.12", DIALECT_SMB_2_002], Offer::Smb2_002),
            (vec![DIALECT_SMB_2_WILDCARD, DIALECT_SMB_2_002], Offer::Wildcard),
            (vec![b"SMB 2.0020", b"smb 2.002"], Offer::Smb1Only),
            (vec![], Offer::Smb1Only),
        ] {
            assert_eq!(Smb1NegotiateRequest { flags2: 0, mid: 0, dialects }.offer(), offer);
        }
    }

    #[test]
    fn messages_that_are_not_a_negotiate_are_refused() {
        let good = example();
        for (at, byte, error) in [
            (0, 0xfe, Malformed::Structure),
            (4, 0x73, Malformed::Structure),
            (32, 1, Malformed::Structure),
            (33, 0x79, Malformed::Truncated),
            (33, 0x77, Malformed::Truncated),
            (35, 3, Malformed::Structure),
        ] {
            let mut message = good.clone();
            message[at] = byte;
            assert_eq!(Smb1NegotiateRequest::decode(&message), Err(error), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn requests_round_trip(flags2: u16, mid: u16, names: Vec<String>) {
            let names: Vec<String> = names.into_iter().map(|name| name.replace('\0', "")).collect();
            let dialects = names.iter().map(|name| name.as_bytes()).collect();
            let request = Smb1NegotiateRequest { flags2, mid, dialects };
            let mut message = Vec::new();
            request.encode(&mut Writer::new(&mut message));
            prop_assert_eq!(Smb1NegotiateRequest::decode(&message), Ok(request));
        }

        #[test]
        fn any_bytes_decode_or_are_malformed(tail: Vec<u8>, at in 0..155usize, byte: u8) {
            let _ = Smb1NegotiateRequest::decode(&tail);
            let mut message = example();
            message[at] = byte;
            message.truncate(at + tail.len());
            let _ = Smb1NegotiateRequest::decode(&message);
        }
    }
}
