//! QUERY_DIRECTORY ([MS-SMB2] 2.2.33, 2.2.34). The entries are defined in [MS-FSCC] 2.4.

use super::header::Header;
use super::{FileId, body, field, output_buffer_responses, u16_of};
use crate::bytes::{Malformed, Result, Writer};
use crate::flags::flags;

flags! {
    /// Where to continue the listing ([MS-SMB2] 2.2.33).
    pub struct QueryDirectoryFlags(u8) {
        /// Start at the beginning.
        RESTART_SCANS = 0x01;
        /// Return only one entry.
        RETURN_SINGLE_ENTRY = 0x02;
        /// Start at `file_index`.
        INDEX_SPECIFIED = 0x04;
        /// Start at the beginning with a new pattern.
        REOPEN = 0x10;
    }
}

/// Lists a directory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueryDirectoryRequest<'a> {
    /// The information class of the entries, [MS-FSCC] 2.4.
    pub file_information_class: u8,
    /// Where to continue.
    pub flags: QueryDirectoryFlags,
    /// The index at which to continue, if its flag is set.
    pub file_index: u32,
    /// The directory.
    pub file_id: FileId,
    /// The search pattern, UTF-16LE; empty if there is none.
    pub file_name: &'a [u8],
    /// The maximum size of the response's buffer in bytes.
    pub output_buffer_length: u32,
}

impl<'a> QueryDirectoryRequest<'a> {
    const SIZE: usize = 32;

    /// Reads the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, 33)?;
        let mut request = QueryDirectoryRequest {
            file_information_class: reader.u8()?,
            flags: QueryDirectoryFlags(reader.u8()?),
            file_index: reader.u32()?,
            file_id: FileId::decode(&mut reader)?,
            ..QueryDirectoryRequest::default()
        };
        let (name_offset, name_length) = (reader.u16()?, reader.u16()?);
        if name_length % 2 != 0 {
            return Err(Malformed::Value);
        }
        request.file_name = field(message, name_offset, name_length, Self::SIZE)?;
        request.output_buffer_length = reader.u32()?;
        Ok(request)
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(33);
        out.u8(self.file_information_class);
        out.u8(self.flags.0);
        out.u32(self.file_index);
        self.file_id.encode(out);
        out.u16(if self.file_name.is_empty() { 0 } else { u16_of(Header::SIZE + Self::SIZE) });
        out.u16(u16_of(self.file_name.len()));
        out.u32(self.output_buffer_length);
        out.bytes(if self.file_name.is_empty() { &[0] } else { self.file_name });
    }
}

output_buffer_responses! {
    /// The entries.
    QueryDirectoryResponse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{encode, golden, message, round_trips};

    // 2.2.33: StructureSize, FileInformationClass, Flags, FileIndex, FileId, FileNameOffset, FileNameLength,
    // OutputBufferLength, Buffer.
    #[test]
    fn the_request() {
        let request = QueryDirectoryRequest {
            file_information_class: 0x25,
            flags: QueryDirectoryFlags::RESTART_SCANS,
            file_index: 9,
            file_id: FileId { persistent: 1, volatile: 2 },
            file_name: b"*\0",
            output_buffer_length: 0x10000,
        };
        let body = "2100 25 01 09000000 0100000000000000 0200000000000000 6000 0200 00000100 2a00";
        golden!(QueryDirectoryRequest, request, body);
        golden!(
            QueryDirectoryRequest,
            QueryDirectoryRequest { file_name: &[], ..request },
            "2100 25 01 09000000 0100000000000000 0200000000000000 0000 0000 00000100 00"
        );
        for (bad, error) in
            [("6000 0100", Malformed::Value), ("5e00 0200", Malformed::Offset), ("6000 0400", Malformed::Offset)]
        {
            assert_eq!(QueryDirectoryRequest::decode(&message(&body.replace("6000 0200", bad))), Err(error), "{bad}");
        }
    }

    // 2.2.34: StructureSize, OutputBufferOffset, OutputBufferLength, Buffer.
    #[test]
    fn the_response() {
        golden!(QueryDirectoryResponse, QueryDirectoryResponse { buffer: b"abc" }, "0900 4800 03000000 616263");
        let before_the_buffer = message("0900 4700 03000000 616263");
        assert_eq!(QueryDirectoryResponse::decode(&before_the_buffer), Err(Malformed::Offset));
    }

    #[test]
    fn entries_can_be_composed_in_place() {
        let message = encode(|out| {
            QueryDirectoryResponse::begin(out);
            out.bytes(b"ab");
            out.bytes(b"c");
            assert_eq!(QueryDirectoryResponse::finish(out), 3);
        });
        assert_eq!(QueryDirectoryResponse::decode(&message), Ok(QueryDirectoryResponse { buffer: b"abc" }));
    }

    round_trips! {
        requests_round_trip: QueryDirectoryRequest<'_> = |s| QueryDirectoryRequest {
            file_information_class: s.u8(),
            flags: QueryDirectoryFlags(s.u8()),
            file_index: s.u32(),
            file_id: s.file_id(),
            file_name: s.utf16(),
            output_buffer_length: s.u32(),
        };
        responses_round_trip: QueryDirectoryResponse<'_> = |s| QueryDirectoryResponse { buffer: s.slice() };
    }
}
