//! The SMB2 header at the start of every message ([MS-SMB2] 2.2.1).
//!
//! Its two forms differ in eight bytes: an ASYNC header has an `AsyncId` where a SYNC header has a reserved field and a
//! `TreeId`. [`Header::id`] holds these bytes; the flags determine their meaning.

use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::flags::flags;
use crate::status::Status;
use crate::values::values;
use std::ops::Range;

values! {
    /// The command of a request or response ([MS-SMB2] 2.2.1).
    pub struct Command(u16) {
        /// Negotiate a dialect.
        NEGOTIATE = 0x0000;
        /// Authenticate.
        SESSION_SETUP = 0x0001;
        /// End a session.
        LOGOFF = 0x0002;
        /// Connect to a share.
        TREE_CONNECT = 0x0003;
        /// Disconnect from a share.
        TREE_DISCONNECT = 0x0004;
        /// Open or create a file, directory or pipe.
        CREATE = 0x0005;
        /// Close an open.
        CLOSE = 0x0006;
        /// Write cached data to disk.
        FLUSH = 0x0007;
        /// Read data.
        READ = 0x0008;
        /// Write data.
        WRITE = 0x0009;
        /// Lock and unlock byte ranges.
        LOCK = 0x000a;
        /// Carry out a control code.
        IOCTL = 0x000b;
        /// Cancel a request.
        CANCEL = 0x000c;
        /// Check that the server responds.
        ECHO = 0x000d;
        /// List a directory.
        QUERY_DIRECTORY = 0x000e;
        /// Wait for changes below a directory.
        CHANGE_NOTIFY = 0x000f;
        /// Query information.
        QUERY_INFO = 0x0010;
        /// Set information.
        SET_INFO = 0x0011;
        /// Notify of an oplock or lease break, or acknowledge it.
        OPLOCK_BREAK = 0x0012;
        /// A notification from the server, which has no response.
        SERVER_TO_CLIENT_NOTIFICATION = 0x0013;
    }
}

flags! {
    /// The flags of a message ([MS-SMB2] 2.2.1).
    pub struct Flags(u32) {
        /// The message is a response.
        SERVER_TO_REDIR = 0x0000_0001;
        /// The header has an `AsyncId`.
        ASYNC_COMMAND = 0x0000_0002;
        /// Related to the previous message in the compound.
        RELATED_OPERATIONS = 0x0000_0004;
        /// The message is signed.
        SIGNED = 0x0000_0008;
        /// The three bits of the I/O priority; 3.1.1 only.
        PRIORITY_MASK = 0x0000_0070;
        /// The path is a DFS path.
        DFS_OPERATIONS = 0x1000_0000;
        /// A replay of an earlier request; 3.x only.
        REPLAY_OPERATION = 0x2000_0000;
    }
}

impl Flags {
    /// The I/O priority, 0 to 7 (3.1.1 only).
    pub const fn priority(self) -> u32 {
        (self.0 & Flags::PRIORITY_MASK.0) >> 4
    }
}

/// The 64-byte header before every body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The number of credits that the request costs; not used by 2.0.2.
    pub credit_charge: u16,
    /// The outcome in a response. In a 3.x request, the low 16 bits are the [`Header::channel_sequence`].
    pub status: Status,
    /// The command.
    pub command: Command,
    /// Credits requested (request) or granted (response).
    pub credits: u16,
    /// The flags.
    pub flags: Flags,
    /// Bytes from this header to the next one in the compound; 0 in the last.
    pub next_command: u32,
    /// Matches responses to requests.
    pub message_id: u64,
    /// `AsyncId`, or a reserved field (low half) and the `TreeId` (high half).
    pub id: u64,
    /// The session; 0 before there is one.
    pub session_id: u64,
    /// The signature; zeros if there is none.
    pub signature: [u8; 16],
}

impl Header {
    /// The size of a header in bytes.
    pub const SIZE: usize = 64;
    /// The first four bytes of a header.
    pub const PROTOCOL_ID: [u8; 4] = [0xfe, b'S', b'M', b'B'];
    /// The offset of `Status`.
    pub const STATUS_POSITION: usize = 8;
    /// The offset of `CreditRequest/CreditResponse`.
    pub const CREDITS_POSITION: usize = 14;
    /// The offset of `Flags`.
    pub const FLAGS_POSITION: usize = 16;
    /// The offset of `NextCommand`.
    pub const NEXT_COMMAND_POSITION: usize = 20;
    /// The range of the signature.
    pub const SIGNATURE_RANGE: Range<usize> = 48..64;
    /// The `MessageId` of messages that the server sends without a request (3.3.4.6, 3.3.4.7).
    pub const UNSOLICITED: u64 = u64::MAX;

    /// Creates the header of a request; all other fields are 0.
    pub fn request(command: Command, message_id: u64) -> Header {
        Header {
            credit_charge: 0,
            status: Status(0),
            command,
            credits: 0,
            flags: Flags::NONE,
            next_command: 0,
            message_id,
            id: 0,
            session_id: 0,
            signature: [0; 16],
        }
    }

    /// Creates the header of a response to this request, with the same command, message, session, tree and charge. The
    /// sender sets credits, chaining and signature.
    pub fn response(&self, status: Status) -> Header {
        Header {
            status,
            credits: 0,
            flags: Flags::SERVER_TO_REDIR | (self.flags & Flags::RELATED_OPERATIONS),
            next_command: 0,
            signature: [0; 16],
            ..*self
        }
    }

    /// Decodes the header at the start of `message`.
    pub fn decode(message: &[u8]) -> Result<Header> {
        let mut reader = Reader::new(message);
        if reader.array()? != Self::PROTOCOL_ID {
            return Err(Malformed::Structure);
        }
        reader.structure_size(64)?;
        Ok(Header {
            credit_charge: reader.u16()?,
            status: Status(reader.u32()?),
            command: Command(reader.u16()?),
            credits: reader.u16()?,
            flags: Flags(reader.u32()?),
            next_command: reader.u32()?,
            message_id: reader.u64()?,
            id: reader.u64()?,
            session_id: reader.u64()?,
            signature: reader.array()?,
        })
    }

    /// Encodes the 64 bytes.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.bytes(&self.to_bytes());
    }

    /// Returns the 64 bytes.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..4].copy_from_slice(&Self::PROTOCOL_ID);
        bytes[4..6].copy_from_slice(&(Self::SIZE as u16).to_le_bytes());
        bytes[6..8].copy_from_slice(&self.credit_charge.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.status.0.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.command.0.to_le_bytes());
        bytes[14..16].copy_from_slice(&self.credits.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.flags.0.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.next_command.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.message_id.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.id.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.session_id.to_le_bytes());
        bytes[Self::SIGNATURE_RANGE].copy_from_slice(&self.signature);
        bytes
    }

    /// Returns whether the header has the ASYNC form.
    pub fn is_async(&self) -> bool {
        self.flags.contains(Flags::ASYNC_COMMAND)
    }

    /// Returns whether the message is a response.
    pub fn is_response(&self) -> bool {
        self.flags.contains(Flags::SERVER_TO_REDIR)
    }

    /// Returns the `TreeId`; `None` in an ASYNC header.
    pub fn tree_id(&self) -> Option<u32> {
        (!self.is_async()).then_some((self.id >> 32) as u32)
    }

    /// Returns the `AsyncId`; `None` in a SYNC header.
    pub fn async_id(&self) -> Option<u64> {
        self.is_async().then_some(self.id)
    }

    /// Makes the header SYNC with this `TreeId`.
    #[must_use]
    pub fn with_tree_id(mut self, tree_id: u32) -> Header {
        self.flags = self.flags.without(Flags::ASYNC_COMMAND);
        self.id = u64::from(tree_id) << 32;
        self
    }

    /// Makes the header ASYNC with this `AsyncId`.
    #[must_use]
    pub fn with_async_id(mut self, async_id: u64) -> Header {
        self.flags |= Flags::ASYNC_COMMAND;
        self.id = async_id;
        self
    }

    /// Returns the `ChannelSequence` of a 3.x request.
    pub fn channel_sequence(&self) -> u16 {
        self.status.0 as u16
    }

    /// Sets the `ChannelSequence` of a 3.x request.
    #[must_use]
    pub fn with_channel_sequence(mut self, channel_sequence: u16) -> Header {
        self.status = Status(u32::from(channel_sequence));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{encode_part, golden_part, hex, parts_round_trip};

    fn header() -> Header {
        Header {
            credit_charge: 1,
            status: Status(0x0001),
            command: Command::READ,
            credits: 0x20,
            flags: Flags::SIGNED | Flags(0x50),
            next_command: 0x78,
            message_id: 0x0102,
            id: 0x0000_0005_0000_feff,
            session_id: 0x0000_0400_0000_0001,
            signature: [0xab; 16],
        }
    }

    // 2.2.1.2: ProtocolId, StructureSize, CreditCharge, Status, Command, CreditRequest, Flags, NextCommand, MessageId,
    // Reserved, TreeId, SessionId, Signature.
    #[test]
    fn the_sync_form() {
        golden_part!(
            Header,
            header(),
            "fe534d42 4000 0100 01000000 0800 2000 58000000 78000000 0201000000000000
             fffe0000 05000000 0100000000040000 abababababababababababababababab"
        );
        assert_eq!((header().tree_id(), header().async_id()), (Some(5), None));
        assert_eq!((header().channel_sequence(), header().flags.priority()), (1, 5));
        assert_eq!(header().with_channel_sequence(9).status, Status(9));
    }

    // 2.2.1.1: AsyncId instead of Reserved and TreeId.
    #[test]
    fn the_async_form() {
        let header = Header::request(Command::CHANGE_NOTIFY, 6).response(Status::PENDING).with_async_id(0x1122);
        golden_part!(
            Header,
            header,
            "fe534d42 4000 0000 03010000 0f00 0000 03000000 00000000 0600000000000000
             2211000000000000 0000000000000000 00000000000000000000000000000000"
        );
        assert_eq!((header.tree_id(), header.async_id(), header.is_response()), (None, Some(0x1122), true));
        assert_eq!(header.with_tree_id(3).tree_id(), Some(3));
    }

    #[test]
    fn the_positions_are_those_of_the_fields() {
        let bytes = encode_part(|out| header().encode(out));
        assert_eq!(bytes[Header::STATUS_POSITION..][..4], hex("01000000"));
        assert_eq!(bytes[Header::CREDITS_POSITION..][..2], hex("2000"));
        assert_eq!(bytes[Header::FLAGS_POSITION..][..4], hex("58000000"));
        assert_eq!(bytes[Header::NEXT_COMMAND_POSITION..][..4], hex("78000000"));
        assert_eq!(bytes[Header::SIGNATURE_RANGE], [0xab; 16]);
    }

    #[test]
    fn data_that_is_not_an_smb2_header_is_refused() {
        let good = encode_part(|out| header().encode(out));
        for (at, byte) in [(0, 0xff), (0, 0xfd), (3, b'C'), (4, 0x41), (5, 1)] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            assert_eq!(Header::decode(&bytes), Err(Malformed::Structure), "{byte:#x} at {at}");
        }
        assert_eq!(Header::decode(&good[..63]), Err(Malformed::Truncated));
    }

    #[test]
    fn a_response_answers_its_request() {
        let request = Header { flags: Flags::RELATED_OPERATIONS | Flags::SIGNED, ..header() };
        let response = request.response(Status::ACCESS_DENIED);
        assert_eq!(response.flags, Flags::SERVER_TO_REDIR | Flags::RELATED_OPERATIONS);
        assert_eq!((response.message_id, response.id, response.session_id), (0x0102, request.id, request.session_id));
        assert_eq!((response.next_command, response.credits, response.signature), (0, 0, [0; 16]));
    }

    parts_round_trip! {
        headers_round_trip: Header = |s| Header {
            credit_charge: s.u16(),
            status: Status(s.u32()),
            command: Command(s.u16()),
            credits: s.u16(),
            flags: Flags(s.u32()),
            next_command: s.u32(),
            message_id: s.u64(),
            id: s.u64(),
            session_id: s.u64(),
            signature: s.array(),
        };
    }
}
