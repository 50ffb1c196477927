//! CLOSE ([MS-SMB2] 2.2.15, 2.2.16).

use super::{FileId, body};
use crate::bytes::{Result, Writer};
use crate::flags::flags;

flags! {
    /// Flags of a CLOSE request ([MS-SMB2] 2.2.15) and response (2.2.16).
    pub struct CloseFlags(u16) {
        /// The attribute fields of the response are requested, or valid.
        POSTQUERY_ATTRIB = 0x0001;
    }
}

/// Closes an open.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CloseRequest {
    /// Whether the attributes are requested.
    pub flags: CloseFlags,
    /// The open.
    pub file_id: FileId,
}

impl CloseRequest {
    /// Reads the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut reader = body(message, 24)?;
        let flags = CloseFlags(reader.u16()?);
        reader.skip(4)?;
        Ok(CloseRequest { flags, file_id: FileId::decode(&mut reader)? })
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(24);
        out.u16(self.flags.0);
        out.zeros(4);
        self.file_id.encode(out);
    }
}

/// A CLOSE response. Times are FILETIMEs. All fields are zero unless the flag is set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CloseResponse {
    /// Whether the fields below are valid.
    pub flags: CloseFlags,
    /// When the file was created.
    pub creation_time: u64,
    /// When it was last accessed.
    pub last_access_time: u64,
    /// When data was last written.
    pub last_write_time: u64,
    /// When anything about it last changed.
    pub change_time: u64,
    /// Bytes allocated.
    pub allocation_size: u64,
    /// Length in bytes.
    pub end_of_file: u64,
    /// Attributes, [MS-FSCC] 2.6.
    pub file_attributes: u32,
}

impl CloseResponse {
    /// Reads the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut reader = body(message, 60)?;
        let flags = CloseFlags(reader.u16()?);
        reader.skip(4)?;
        Ok(CloseResponse {
            flags,
            creation_time: reader.u64()?,
            last_access_time: reader.u64()?,
            last_write_time: reader.u64()?,
            change_time: reader.u64()?,
            allocation_size: reader.u64()?,
            end_of_file: reader.u64()?,
            file_attributes: reader.u32()?,
        })
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(60);
        out.u16(self.flags.0);
        out.zeros(4);
        out.u64(self.creation_time);
        out.u64(self.last_access_time);
        out.u64(self.last_write_time);
        out.u64(self.change_time);
        out.u64(self.allocation_size);
        out.u64(self.end_of_file);
        out.u32(self.file_attributes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Malformed;
    use crate::smb2::testing::{golden, message, round_trips};

    // 2.2.15: StructureSize, Flags, Reserved, FileId.
    #[test]
    fn the_request() {
        let file_id = FileId { persistent: 1, volatile: 2 };
        let request = CloseRequest { flags: CloseFlags::POSTQUERY_ATTRIB, file_id };
        golden!(CloseRequest, request, "1800 0100 00000000 0100000000000000 0200000000000000");
        let wrong = message("1900 0100 00000000 0100000000000000 0200000000000000");
        assert_eq!(CloseRequest::decode(&wrong), Err(Malformed::Structure));
    }

    // 2.2.16: StructureSize, Flags, Reserved, four times, AllocationSize, EndofFile, FileAttributes.
    #[test]
    fn the_response() {
        let response = CloseResponse {
            flags: CloseFlags::POSTQUERY_ATTRIB,
            creation_time: 1,
            last_access_time: 2,
            last_write_time: 3,
            change_time: 4,
            allocation_size: 4096,
            end_of_file: 5,
            file_attributes: 0x20,
        };
        golden!(
            CloseResponse,
            response,
            "3c00 0100 00000000 0100000000000000 0200000000000000 0300000000000000 0400000000000000
             0010000000000000 0500000000000000 20000000"
        );
    }

    round_trips! {
        requests_round_trip: CloseRequest = |s| CloseRequest { flags: CloseFlags(s.u16()), file_id: s.file_id() };
        responses_round_trip: CloseResponse = |s| CloseResponse {
            flags: CloseFlags(s.u16()),
            creation_time: s.u64(),
            last_access_time: s.u64(),
            last_write_time: s.u64(),
            change_time: s.u64(),
            allocation_size: s.u64(),
            end_of_file: s.u64(),
            file_attributes: s.u32(),
        };
    }
}
