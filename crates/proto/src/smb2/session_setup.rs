//! SESSION_SETUP ([MS-SMB2] 2.2.5, 2.2.6).

use super::header::Header;
use super::negotiate::{Capabilities, SecurityMode};
use super::{body, field, u16_of};
use crate::bytes::{Result, Writer};
use crate::flags::flags;

flags! {
    /// What the client asks for ([MS-SMB2] 2.2.5); 3.x only.
    pub struct SessionSetupFlags(u8) {
        /// Bind an existing session to this connection.
        BINDING = 0x01;
    }

    /// What the session has become ([MS-SMB2] 2.2.6).
    pub struct SessionFlags(u16) {
        /// A guest.
        IS_GUEST = 0x0001;
        /// Anonymous.
        IS_NULL = 0x0002;
        /// The server wants its messages sealed; 3.x only.
        ENCRYPT_DATA = 0x0004;
    }
}

/// One step of authentication.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SessionSetupRequest<'a> {
    /// What is asked for.
    pub flags: SessionSetupFlags,
    /// Whether the client signs; one byte on the wire.
    pub security_mode: SecurityMode,
    /// What the client can do.
    pub capabilities: Capabilities,
    /// A session that a broken connection left behind.
    pub previous_session_id: u64,
    /// The client's token.
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

    /// Writes the body behind the header.
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

/// The server's side of the step.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SessionSetupResponse<'a> {
    /// What the session has become.
    pub session_flags: SessionFlags,
    /// The server's token.
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

    /// Writes the body behind the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(9);
        out.u16(self.session_flags.0);
        out.u16(u16_of(Header::SIZE + Self::SIZE));
        out.u16(u16_of(self.buffer.len()));
        out.bytes(self.buffer);
    }
}
