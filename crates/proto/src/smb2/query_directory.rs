//! QUERY_DIRECTORY ([MS-SMB2] 2.2.33, 2.2.34). The entries are [MS-FSCC] 2.4's.

use super::header::Header;
use super::{FileId, body, field, output_buffer_responses, u16_of};
use crate::bytes::{Malformed, Result, Writer};
use crate::flags::flags;

flags! {
    /// Where to go on ([MS-SMB2] 2.2.33).
    pub struct QueryDirectoryFlags(u8) {
        /// At the beginning.
        RESTART_SCANS = 0x01;
        /// With one entry only.
        RETURN_SINGLE_ENTRY = 0x02;
        /// At `file_index`.
        INDEX_SPECIFIED = 0x04;
        /// At the beginning, with a new pattern.
        REOPEN = 0x10;
    }
}

/// Lists a directory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueryDirectoryRequest<'a> {
    /// What an entry looks like, [MS-FSCC] 2.4.
    pub file_information_class: u8,
    /// Where to go on.
    pub flags: QueryDirectoryFlags,
    /// Where to go on, with its flag.
    pub file_index: u32,
    /// The directory.
    pub file_id: FileId,
    /// The search pattern, UTF-16LE; empty when there is none.
    pub file_name: &'a [u8],
    /// Most bytes of the response's buffer.
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

    /// Writes the body behind the header.
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
