//! The header before a sealed message ([MS-SMB2] 2.2.41). Sealing is implemented elsewhere.

use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::flags::flags;
use std::ops::Range;

flags! {
    /// The transformation of the message ([MS-SMB2] 2.2.41). In 3.0 and 3.0.2 the field is the cipher, whose only
    /// value, AES-128-CCM, is the same number.
    pub struct TransformFlags(u16) {
        /// Sealed.
        ENCRYPTED = 0x0001;
    }
}

/// The 52 bytes before a sealed message.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TransformHeader {
    /// The authentication tag.
    pub signature: [u8; 16],
    /// 11 (CCM) or 12 (GCM) bytes of nonce, then zeros.
    pub nonce: [u8; 16],
    /// The length of the message in bytes, which sealing does not change.
    pub original_message_size: u32,
    /// The flags.
    pub flags: TransformFlags,
    /// The session whose key sealed it.
    pub session_id: u64,
}

impl TransformHeader {
    /// The size of the header in bytes.
    pub const SIZE: usize = 52;
    /// The first four bytes of the header.
    pub const PROTOCOL_ID: [u8; 4] = [0xfd, b'S', b'M', b'B'];
    /// The range of the authentication tag.
    pub const SIGNATURE_RANGE: Range<usize> = 4..20;
    /// The part of the header that is authenticated with the message (3.1.4.3).
    pub const AUTHENTICATED_RANGE: Range<usize> = 20..52;

    /// Decodes the header at the start of `message`.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(message);
        if reader.array()? != Self::PROTOCOL_ID {
            return Err(Malformed::Structure);
        }
        let (signature, nonce, original_message_size) = (reader.array()?, reader.array()?, reader.u32()?);
        reader.skip(2)?;
        Ok(TransformHeader {
            signature,
            nonce,
            original_message_size,
            flags: TransformFlags(reader.u16()?),
            session_id: reader.u64()?,
        })
    }

    /// Encodes the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.bytes(&Self::PROTOCOL_ID);
        out.bytes(&self.signature);
        out.bytes(&self.nonce);
        out.u32(self.original_message_size);
        out.u16(0);
        out.u16(self.flags.0);
        out.u64(self.session_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{golden_part, hex, parts_round_trip};

    // 2.2.41: ProtocolId, Signature, Nonce, OriginalMessageSize, Reserved, Flags, SessionId.
    const HEADER: &str = "fd534d42 11111111111111111111111111111111 22222222222222222222220000000000
         68000000 0000 0100 0100000000040000";

    #[test]
    fn the_header() {
        let mut nonce = [0; 16];
        nonce[..11].fill(0x22);
        let header = TransformHeader {
            signature: [0x11; 16],
            nonce,
            original_message_size: 0x68,
            flags: TransformFlags::ENCRYPTED,
            session_id: 0x0400_0000_0001,
        };
        golden_part!(TransformHeader, header, HEADER);
        let bytes = hex(HEADER);
        assert_eq!(bytes.len(), TransformHeader::SIZE);
        assert_eq!(bytes[TransformHeader::SIGNATURE_RANGE], [0x11; 16]);
        assert_eq!(bytes[TransformHeader::AUTHENTICATED_RANGE][..16], nonce);
        assert_eq!(TransformHeader::decode(&bytes[..51]), Err(Malformed::Truncated));
        assert_eq!(TransformHeader::decode(&hex(&HEADER.replace("fd53", "fe53"))), Err(Malformed::Structure));
    }

    parts_round_trip! {
        headers_round_trip: TransformHeader = |s| TransformHeader {
            signature: s.array(),
            nonce: s.array(),
            original_message_size: s.u32(),
            flags: TransformFlags(s.u16()),
            session_id: s.u64(),
        };
    }
}
