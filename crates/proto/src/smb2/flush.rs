//! FLUSH ([MS-SMB2] 2.2.17, 2.2.18).

use super::{FileId, body, empty_bodies};
use crate::bytes::{Result, Writer};

/// Writes the cached data of an open to disk.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FlushRequest {
    /// `Reserved1`: macOS requests a full sync of the device with 0xffff here.
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

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(24);
        out.u16(self.reserved1);
        out.zeros(4);
        self.file_id.encode(out);
    }
}

empty_bodies! {
    /// The response to FLUSH.
    FlushResponse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{golden, round_trips};

    // 2.2.17: StructureSize, Reserved1, Reserved2, FileId; 2.2.18: StructureSize, Reserved.
    #[test]
    fn both_directions() {
        let request = FlushRequest { reserved1: 0xffff, file_id: FileId { persistent: 1, volatile: 2 } };
        golden!(FlushRequest, request, "1800 ffff 00000000 0100000000000000 0200000000000000");
        golden!(FlushResponse, FlushResponse, "0400 0000");
    }

    round_trips! {
        requests_round_trip: FlushRequest = |s| FlushRequest { reserved1: s.u16(), file_id: s.file_id() };
    }
}
