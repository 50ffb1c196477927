//! SESSION_SETUP ([MS-SMB2] 2.2.5, 2.2.6).

use super::header::Header;
use super::negotiate::{Capabilities, SecurityMode};
use super::{body, field, u16_of};
use crate::bytes::{Result, Writer};
use crate::flags::flags;

flags! {
    /// The flags of the request ([MS-SMB2] 2.2.5); 3.x only.
    pub struct SessionSetupFlags(u8) {
        /// Bind an existing session to this connection.
        BINDING = 0x01;
    }

    /// The type of the established session ([MS-SMB2] 2.2.6).
    pub struct SessionFlags(u16) {
        /// A guest session.
        IS_GUEST = 0x0001;
        /// An anonymous session.
        IS_NULL = 0x0002;
        /// The server requires sealed messages; 3.x only.
        ENCRYPT_DATA = 0x0004;
    }
}

/// One step of the authentication.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SessionSetupRequest<'a> {
    /// The flags.
    pub flags: SessionSetupFlags,
    /// The signing mode of the client; one byte on the wire.
    pub security_mode: SecurityMode,
    /// The capabilities of the client.
    pub capabilities: Capabilities,
    /// A session that was left behind by a broken connection.
    pub previous_session_id: u64,
    /// The client's security token.
    pub buffer: &'a [u8],
}

impl<'a> SessionSetupRequest<'a> {
    const SIZE: usize = 24;

    /// Reads the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, 25)?;
        let flags = SessionSetupFlags(reader.u8()?);
        let security_mode = SecurityMode(reader.u8()?.into());
        let capabilities = Capabilities(reader.u32()?);
        reader.skip(4)?;
        let (offset, length) = (reader.u16()?, reader.u16()?);
        Ok(SessionSetupRequest {
            flags,
            security_mode,
            capabilities,
            previous_session_id: reader.u64()?,
            buffer: field(message, offset, length, Self::SIZE)?,
        })
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(25);
        out.u8(self.flags.0);
        out.u8(self.security_mode.0 as u8);
        out.u32(self.capabilities.0);
        out.zeros(4);
        out.u16(u16_of(Header::SIZE + Self::SIZE));
        out.u16(u16_of(self.buffer.len()));
        out.u64(self.previous_session_id);
        out.bytes(self.buffer);
    }
}

/// The server's reply to the step.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SessionSetupResponse<'a> {
    /// The type of the session.
    pub session_flags: SessionFlags,
    /// The server's security token.
    pub buffer: &'a [u8],
}

impl<'a> SessionSetupResponse<'a> {
    const SIZE: usize = 8;

    /// Reads the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, 9)?;
        let session_flags = SessionFlags(reader.u16()?);
        let (offset, length) = (reader.u16()?, reader.u16()?);
        Ok(SessionSetupResponse { session_flags, buffer: field(message, offset, length, Self::SIZE)? })
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(9);
        out.u16(self.session_flags.0);
        out.u16(u16_of(Header::SIZE + Self::SIZE));
        out.u16(u16_of(self.buffer.len()));
        out.bytes(self.buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Malformed;
    use crate::smb2::testing::{golden, message, round_trips};

    // 2.2.5: StructureSize, Flags, SecurityMode, Capabilities, Channel, SecurityBufferOffset, SecurityBufferLength,
    // PreviousSessionId, Buffer.
    #[test]
    fn the_request() {
        let request = SessionSetupRequest {
            flags: SessionSetupFlags::BINDING,
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::DFS,
            previous_session_id: 9,
            buffer: b"token",
        };
        golden!(SessionSetupRequest, request, "1900 01 01 01000000 00000000 5800 0500 0900000000000000 746f6b656e");
    }

    // 2.2.6: StructureSize, SessionFlags, SecurityBufferOffset, SecurityBufferLength, Buffer.
    #[test]
    fn the_response() {
        let response = SessionSetupResponse { session_flags: SessionFlags::IS_GUEST, buffer: b"token" };
        golden!(SessionSetupResponse, response, "0900 0100 4800 0500 746f6b656e");
        golden!(SessionSetupResponse, SessionSetupResponse::default(), "0900 0000 4800 0000");
        let inside = message("0900 0100 4700 0500 746f6b656e");
        assert_eq!(SessionSetupResponse::decode(&inside), Err(Malformed::Offset));
    }

    round_trips! {
        requests_round_trip: SessionSetupRequest<'_> = |s| SessionSetupRequest {
            flags: SessionSetupFlags(s.u8()),
            security_mode: SecurityMode(s.u8().into()),
            capabilities: Capabilities(s.u32()),
            previous_session_id: s.u64(),
            buffer: s.slice(),
        };
        responses_round_trip: SessionSetupResponse<'_> = |s| SessionSetupResponse {
            session_flags: SessionFlags(s.u16()),
            buffer: s.slice(),
        };
    }
}
