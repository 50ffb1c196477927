//! What stands before every message on a stream: the direct TCP header of port 445 ([MS-SMB2] 2.1) and the session packets
//! of port 139 (RFC 1002 4.3).
//!
//! Both are four bytes: a type and a big-endian length. Pure functions: reading and timing are the driver's.

use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::values::values;

values! {
    /// What a session packet is (RFC 1002 4.3.1). Port 445 knows [`PacketType::MESSAGE`] only.
    pub struct PacketType(u8) {
        /// A message.
        MESSAGE = 0x00;
        /// The caller asks for a name.
        SESSION_REQUEST = 0x81;
        /// It is spoken to under that name.
        POSITIVE_RESPONSE = 0x82;
        /// It is not.
        NEGATIVE_RESPONSE = 0x83;
        /// It should call another address.
        RETARGET_RESPONSE = 0x84;
        /// Nothing; to be dropped.
        KEEP_ALIVE = 0x85;
    }

    /// Why a session request was refused (RFC 1002 4.3.4).
    pub struct SessionError(u8) {
        /// Nobody listens on the called name.
        NOT_LISTENING_ON_CALLED_NAME = 0x80;
        /// Nobody listens to the calling name.
        NOT_LISTENING_FOR_CALLING_NAME = 0x81;
        /// The called name is not here.
        CALLED_NAME_NOT_PRESENT = 0x82;
        /// No room for it.
        INSUFFICIENT_RESOURCES = 0x83;
        /// Something else.
        UNSPECIFIED = 0x8f;
    }
}

/// The four bytes before a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// What follows.
    pub packet_type: PacketType,
    /// Bytes that follow.
    pub length: u32,
}

impl FrameHeader {
    /// How long the header is.
    pub const SIZE: usize = 4;
    /// The most that 24 bits can say.
    pub const MAXIMUM_LENGTH: u32 = 0xff_ffff;

    /// The header of a message of `length` bytes; `None` if 24 bits cannot say that.
    pub fn message(length: usize) -> Option<Self> {
        let length = u32::try_from(length).ok().filter(|length| *length <= Self::MAXIMUM_LENGTH)?;
        Some(FrameHeader { packet_type: PacketType::MESSAGE, length })
    }

    /// Reads the header of port 445: the type must be 0 ([MS-SMB2] 2.1).
    pub fn decode_direct(bytes: [u8; Self::SIZE]) -> Result<Self> {
        let header = Self::decode(bytes);
        if header.packet_type == PacketType::MESSAGE { Ok(header) } else { Err(Malformed::Structure) }
    }

    /// Reads the header of port 139. Deviates from RFC 1002 4.3.1: all 24 bits are the length, not 17, as every server
    /// and client takes them.
    pub fn decode(bytes: [u8; Self::SIZE]) -> Self {
        FrameHeader { packet_type: PacketType(bytes[0]), length: u32::from_be_bytes([0, bytes[1], bytes[2], bytes[3]]) }
    }

    /// The four bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        debug_assert!(self.length <= Self::MAXIMUM_LENGTH);
        let [_, high, middle, low] = self.length.to_be_bytes();
        [self.packet_type.0, high, middle, low]
    }
}

/// A NetBIOS name: 15 characters, padded with spaces, and what kind of name it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetbiosName {
    /// The characters, OEM code page.
    pub characters: [u8; 15],
    /// 0x00 workstation, 0x20 file server, ...
    pub suffix: u8,
}

impl NetbiosName {
    /// The name that stands for whatever server is asked, `*SMBSERVER`.
    pub const ANY_SERVER: NetbiosName = NetbiosName { characters: *b"*SMBSERVER     ", suffix: 0x20 };
    /// Bytes of a name whose scope is empty: a length, 32 letters, a zero.
    const ENCODED_LENGTH: u8 = 32;

    /// The name without its padding.
    pub fn trimmed(&self) -> &[u8] {
        self.characters.trim_ascii_end()
    }

    /// Reads a name in the first-level encoding (RFC 1001 14.1): two letters from `A` for each byte. Labels of a scope
    /// are passed over.
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        if reader.u8()? != Self::ENCODED_LENGTH {
            return Err(Malformed::Structure);
        }
        let letters: [u8; 32] = reader.array()?;
        let mut name = [0; 16];
        for (byte, pair) in name.iter_mut().zip(letters.chunks_exact(2)) {
            let (high, low) = (pair[0].wrapping_sub(b'A'), pair[1].wrapping_sub(b'A'));
            if high > 0xf || low > 0xf {
                return Err(Malformed::Value);
            }
            *byte = high << 4 | low;
        }
        loop {
            match reader.u8()? {
                0 => break,
                length @ 1..=63 => reader.skip(length.into())?,
                _ => return Err(Malformed::Structure),
            }
        }
        let [characters @ .., suffix] = name;
        Ok(NetbiosName { characters, suffix })
    }

    fn encode(&self, out: &mut Writer<'_>) {
        out.u8(Self::ENCODED_LENGTH);
        for byte in self.characters.iter().chain([&self.suffix]) {
            out.u8(b'A' + (byte >> 4));
            out.u8(b'A' + (byte & 0xf));
        }
        out.u8(0);
    }
}

/// What a session request asks for (RFC 1002 4.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionRequest {
    /// Who is called.
    pub called_name: NetbiosName,
    /// Who calls.
    pub calling_name: NetbiosName,
}

impl SessionRequest {
    /// Reads what follows the header.
    pub fn decode(packet: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(packet);
        Ok(SessionRequest {
            called_name: NetbiosName::decode(&mut reader)?,
            calling_name: NetbiosName::decode(&mut reader)?,
        })
    }

    /// Writes what follows the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        self.called_name.encode(out);
        self.calling_name.encode(out);
    }
}

/// The whole packet that accepts a session request.
pub const POSITIVE_RESPONSE: [u8; 4] = [0x82, 0, 0, 0];

/// The whole packet that refuses a session request.
pub const fn negative_response(error: SessionError) -> [u8; 5] {
    [0x83, 0, 0, 1, error.0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_direct_header_is_a_zero_and_24_bits_of_length() {
        for (bytes, answer) in [
            ([0, 0, 0, 0x44], Ok(0x44)),
            ([0, 1, 2, 3], Ok(0x010203)),
            ([0, 0xff, 0xff, 0xff], Ok(0xff_ffff)),
            ([0x85, 0, 0, 0], Err(Malformed::Structure)),
        ] {
            assert_eq!(FrameHeader::decode_direct(bytes).map(|header| header.length), answer);
        }
        assert_eq!(FrameHeader::message(0x0100_0000), None);
        assert_eq!(FrameHeader::message(0xff_ffff).map(|header| header.encode()), Some([0, 0xff, 0xff, 0xff]));
    }

    // RFC 1002 4.3.2, names as in RFC 1001 14.1: "*SMBSERVER" is CKFDENECFDEFFCFGEFFCCACACACACACA.
    #[test]
    fn a_session_request_names_two_sides() {
        let mut packet = Vec::new();
        packet.push(0x20);
        packet.extend(b"CKFDENECFDEFFCFGEFFCCACACACACACA");
        packet.push(0);
        packet.push(0x20);
        packet.extend(b"EDCACACACACACACACACACACACACACAAA");
        packet.push(0);
        let calling_name = NetbiosName { characters: *b"C              ", suffix: 0 };
        let request = SessionRequest { called_name: NetbiosName::ANY_SERVER, calling_name };
        assert_eq!(SessionRequest::decode(&packet), Ok(request));
        assert_eq!(calling_name.trimmed(), b"C");
        let mut encoded = Vec::new();
        request.encode(&mut Writer::new(&mut encoded));
        assert_eq!(encoded, packet);
    }

    #[test]
    fn names_that_are_not_encoded_right_are_refused() {
        let mut packet = vec![0x20; 1];
        packet.extend(b"CKFDENECFDEFFCFGEFFCCACACACACACa\0");
        assert_eq!(SessionRequest::decode(&packet), Err(Malformed::Value));
        assert_eq!(SessionRequest::decode(&[0x1f; 80]), Err(Malformed::Structure));
        assert_eq!(SessionRequest::decode(&[0x20]), Err(Malformed::Truncated));
    }

    proptest! {
        #[test]
        fn headers_round_trip(bytes: [u8; 4]) {
            prop_assert_eq!(FrameHeader::decode(bytes).encode(), bytes);
        }

        #[test]
        fn any_bytes_are_a_session_request_or_malformed(packet: Vec<u8>) {
            if let Ok(request) = SessionRequest::decode(&packet) {
                let mut encoded = Vec::new();
                request.encode(&mut Writer::new(&mut encoded));
                prop_assert_eq!(SessionRequest::decode(&encoded), Ok(request));
            }
        }
    }
}
