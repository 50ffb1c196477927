//! The header before every message on a stream: the direct TCP header of port 445 ([MS-SMB2] 2.1) and the session
//! packets of port 139 (RFC 1002 4.3).
//!
//! Both are four bytes: a type and a big-endian length. These are pure functions; the driver does the reading and the
//! timeouts.

use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::values::values;

values! {
    /// The type of a session packet (RFC 1002 4.3.1). Port 445 uses [`PacketType::MESSAGE`] only.
    pub struct PacketType(u8) {
        /// A message.
        MESSAGE = 0x00;
        /// A request to open a session to a called name.
        SESSION_REQUEST = 0x81;
        /// The session request is accepted.
        POSITIVE_RESPONSE = 0x82;
        /// The session request is refused.
        NEGATIVE_RESPONSE = 0x83;
        /// The caller should use another address.
        RETARGET_RESPONSE = 0x84;
        /// A keep-alive, which is ignored.
        KEEP_ALIVE = 0x85;
    }

    /// The reason why a session request was refused (RFC 1002 4.3.4).
    pub struct SessionError(u8) {
        /// Not listening on the called name.
        NOT_LISTENING_ON_CALLED_NAME = 0x80;
        /// Not listening for the calling name.
        NOT_LISTENING_FOR_CALLING_NAME = 0x81;
        /// The called name is not present.
        CALLED_NAME_NOT_PRESENT = 0x82;
        /// Insufficient resources.
        INSUFFICIENT_RESOURCES = 0x83;
        /// An unspecified error.
        UNSPECIFIED = 0x8f;
    }
}

/// The four-byte header of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// The type of the packet.
    pub packet_type: PacketType,
    /// The number of bytes that follow.
    pub length: u32,
}

impl FrameHeader {
    /// The size of the header in bytes.
    pub const SIZE: usize = 4;
    /// The largest value of the 24-bit length.
    pub const MAXIMUM_LENGTH: u32 = 0xff_ffff;

    /// The header of a message of `length` bytes; `None` if the length exceeds 24 bits.
    pub fn message(length: usize) -> Option<Self> {
        let length = u32::try_from(length).ok().filter(|length| *length <= Self::MAXIMUM_LENGTH)?;
        Some(FrameHeader { packet_type: PacketType::MESSAGE, length })
    }

    /// Decodes the header of port 445: the type must be 0 ([MS-SMB2] 2.1).
    pub fn decode_direct(bytes: [u8; Self::SIZE]) -> Result<Self> {
        let header = Self::decode(bytes);
        if header.packet_type == PacketType::MESSAGE { Ok(header) } else { Err(Malformed::Structure) }
    }

    /// Decodes the header of port 139. Deviates from RFC 1002 4.3.1: the length has 24 bits, not 17, as servers and
    /// clients use it in practice.
    pub fn decode(bytes: [u8; Self::SIZE]) -> Self {
        FrameHeader { packet_type: PacketType(bytes[0]), length: u32::from_be_bytes([0, bytes[1], bytes[2], bytes[3]]) }
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        debug_assert!(self.length <= Self::MAXIMUM_LENGTH);
        let [_, high, middle, low] = self.length.to_be_bytes();
        [self.packet_type.0, high, middle, low]
    }
}

/// A NetBIOS name: 15 characters, padded with spaces, and a suffix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetbiosName {
    /// The characters in the OEM code page.
    pub characters: [u8; 15],
    /// The type of the name: 0x00 workstation, 0x20 file server, ...
    pub suffix: u8,
}

impl NetbiosName {
    /// `*SMBSERVER`, the name that any server accepts.
    pub const ANY_SERVER: NetbiosName = NetbiosName { characters: *b"*SMBSERVER     ", suffix: 0x20 };
    /// The length byte of an encoded name: the number of letters that follow.
    const ENCODED_LENGTH: u8 = 32;

    /// The name without its padding.
    pub fn trimmed(&self) -> &[u8] {
        self.characters.trim_ascii_end()
    }

    /// Decodes a name in the first-level encoding (RFC 1001 14.1): two letters from `A` for each byte. Labels of a
    /// scope are skipped.
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

/// The body of a session request (RFC 1002 4.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionRequest {
    /// The name of the called server.
    pub called_name: NetbiosName,
    /// The name of the calling client.
    pub calling_name: NetbiosName,
}

impl SessionRequest {
    /// Decodes the body of the packet.
    pub fn decode(packet: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(packet);
        Ok(SessionRequest {
            called_name: NetbiosName::decode(&mut reader)?,
            calling_name: NetbiosName::decode(&mut reader)?,
        })
    }

    /// Encodes the body of the packet.
    pub fn encode(&self, out: &mut Writer<'_>) {
        self.called_name.encode(out);
        self.calling_name.encode(out);
    }
}

/// The complete packet that accepts a session request.
pub const POSITIVE_RESPONSE: [u8; 4] = [0x82, 0, 0, 0];

/// Returns the complete packet that refuses a session request.
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
