//! FLUSH ([MS-SMB2] 2.2.17, 2.2.18).

use super::{FileId, body, empty_bodies};
use crate::bytes::{Result, Writer};

/// Writes out what is cached of an open.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FlushRequest {
    /// `Reserved1`: macOS asks for a full sync of the device here with 0xffff.
    pub reserved1: u16,
    /// The open.
    pub file_id: FileId,
}

impl FlushRequest {
    /// Reads the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut reader = body(message, 24)?;
        let reserved1 = reader.u16()?;
        reader.skip(4)?;
        Ok(FlushRequest { reserved1, file_id: FileId::decode(&mut reader)? })
    }

    /// Writes the body behind the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(24);
        out.u16(self.reserved1);
        out.zeros(4);
        self.file_id.encode(out);
    }
}

empty_bodies! {
    /// It is written out.
    FlushResponse
}
