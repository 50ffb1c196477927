//! QUERY_INFO ([MS-SMB2] 2.2.37, 2.2.38). The information itself is defined in [MS-FSCC] and [MS-DTYP].

use super::header::Header;
use super::{FileId, body, field, output_buffer_responses, size, u16_of, u32_of};
use crate::bytes::{self, Reader, Result, Writer};
use crate::flags::flags;

pub use super::{InfoType, SecurityInformation};

flags! {
    /// The extended attributes to return ([MS-SMB2] 2.2.37).
    pub struct QueryInfoFlags(u32) {
        /// Start at the first one.
        RESTART_SCAN = 0x0000_0001;
        /// Return only one.
        RETURN_SINGLE_ENTRY = 0x0000_0002;
        /// Start at the index in `additional_information`.
        INDEX_SPECIFIED = 0x0000_0004;
    }
}

/// A QUERY_INFO request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueryInfoRequest<'a> {
    /// The kind of information.
    pub info_type: InfoType,
    /// The information class, [MS-FSCC] 2.4 and 2.5.
    pub file_info_class: u8,
    /// The maximum size of the response's buffer in bytes.
    pub output_buffer_length: u32,
    /// Parts of a security descriptor ([`SecurityInformation`]), or the index of an extended attribute.
    pub additional_information: u32,
    /// The extended attributes to return.
    pub flags: QueryInfoFlags,
    /// The open.
    pub file_id: FileId,
    /// A list of extended attribute names, or a [`QueryQuotaInfo`].
    pub buffer: &'a [u8],
}

impl<'a> QueryInfoRequest<'a> {
    const SIZE: usize = 40;
    /// FileFullEaInformation, the only file information class whose query has an input buffer.
    const FILE_FULL_EA_INFORMATION: u8 = 15;

    /// Decodes the body of `message`. A buffer outside the message reads as empty if the query does not use one,
    /// because its fields must be ignored.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, 41)?;
        let (info_type, file_info_class) = (InfoType(reader.u8()?), reader.u8()?);
        let output_buffer_length = reader.u32()?;
        let buffer_offset = reader.u16()?;
        reader.skip(2)?;
        let buffer_length = reader.u32()?;
        let buffer = match (info_type, file_info_class) {
            (InfoType::QUOTA, _) | (InfoType::FILE, Self::FILE_FULL_EA_INFORMATION) => {
                field(message, buffer_offset, buffer_length, Self::SIZE)?
            }
            _ => field(message, buffer_offset, buffer_length, Self::SIZE).unwrap_or(&[]),
        };
        Ok(QueryInfoRequest {
            info_type,
            file_info_class,
            output_buffer_length,
            additional_information: reader.u32()?,
            flags: QueryInfoFlags(reader.u32()?),
            file_id: FileId::decode(&mut reader)?,
            buffer,
        })
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(41);
        out.u8(self.info_type.0);
        out.u8(self.file_info_class);
        out.u32(self.output_buffer_length);
        out.u16(if self.buffer.is_empty() { 0 } else { u16_of(Header::SIZE + Self::SIZE) });
        out.u16(0);
        out.u32(u32_of(self.buffer.len()));
        out.u32(self.additional_information);
        out.u32(self.flags.0);
        self.file_id.encode(out);
        out.bytes(if self.buffer.is_empty() { &[0] } else { self.buffer });
    }
}

output_buffer_responses! {
    /// The information.
    QueryInfoResponse
}

/// The quotas to return (SMB2_QUERY_QUOTA_INFO, 2.2.37.1). `SidListLength` determines which of the two formats it is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueryQuotaInfo<'a> {
    /// Return only one entry.
    pub return_single: bool,
    /// Start at the first one.
    pub restart_scan: bool,
    /// FILE_GET_QUOTA_INFORMATION structures ([MS-FSCC] 2.4.41.1) of the requested users; format 1.
    pub sid_list: &'a [u8],
    /// The user to start with; format 2.
    pub start_sid: &'a [u8],
}

impl<'a> QueryQuotaInfo<'a> {
    const SIZE: usize = 16;

    /// Decodes the input buffer of a quota query.
    pub fn decode(buffer: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(buffer);
        let (return_single, restart_scan) = (reader.u8()? != 0, reader.u8()? != 0);
        reader.skip(2)?;
        let sid_list_length = size(reader.u32()?);
        let (start_sid_length, start_sid_offset) = (size(reader.u32()?), size(reader.u32()?));
        let sid_buffer = reader.rest();
        let mut info = QueryQuotaInfo { return_single, restart_scan, ..QueryQuotaInfo::default() };
        if sid_list_length != 0 {
            info.sid_list = bytes::field(sid_buffer, 0, sid_list_length, 0)?;
        } else {
            info.start_sid = bytes::field(sid_buffer, start_sid_offset, start_sid_length, 0)?;
        }
        Ok(info)
    }

    /// Encodes the input buffer of a quota query.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u8(self.return_single.into());
        out.u8(self.restart_scan.into());
        out.u16(0);
        out.u32(u32_of(self.sid_list.len()));
        out.u32(if self.sid_list.is_empty() { u32_of(self.start_sid.len()) } else { 0 });
        out.u32(0);
        out.bytes(if self.sid_list.is_empty() { self.start_sid } else { self.sid_list });
        debug_assert!(self.sid_list.is_empty() || self.start_sid.is_empty(), "one of the two formats");
        debug_assert!(out.position() >= Self::SIZE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Malformed;
    use crate::smb2::testing::{golden, golden_part, hex, message, parts_round_trip, round_trips};

    // 2.2.37: StructureSize, InfoType, FileInfoClass, OutputBufferLength, InputBufferOffset, Reserved,
    // InputBufferLength, AdditionalInformation, Flags, FileId, Buffer.
    #[test]
    fn the_request() {
        let request = QueryInfoRequest {
            info_type: InfoType::SECURITY,
            output_buffer_length: 0x1000,
            additional_information: (SecurityInformation::OWNER | SecurityInformation::DACL).0,
            file_id: FileId { persistent: 1, volatile: 2 },
            ..QueryInfoRequest::default()
        };
        golden!(
            QueryInfoRequest,
            request,
            "2900 03 00 00100000 0000 0000 00000000 05000000 00000000 0100000000000000 0200000000000000 00"
        );
        let flags = QueryInfoFlags::RETURN_SINGLE_ENTRY;
        golden!(
            QueryInfoRequest,
            QueryInfoRequest { info_type: InfoType::FILE, file_info_class: 15, flags, buffer: b"abc", ..request },
            "2900 01 0f 00100000 6800 0000 03000000 05000000 02000000 0100000000000000 0200000000000000 616263"
        );
    }

    #[test]
    fn an_unused_buffer_is_ignored() {
        for (class, answer) in [
            ("01 05", Ok(&[][..])),
            ("02 01", Ok(&[][..])),
            ("03 00", Ok(&[][..])),
            ("01 0f", Err(Malformed::Offset)),
            ("04 20", Err(Malformed::Offset)),
        ] {
            let body = format!(
                "2900 {class} 00100000 6800 0000 04000000 00000000 00000000 0100000000000000 0200000000000000 616263"
            );
            let message = message(&body);
            assert_eq!(QueryInfoRequest::decode(&message).map(|request| request.buffer), answer, "{class}");
        }
    }

    // 2.2.38: StructureSize, OutputBufferOffset, OutputBufferLength, Buffer.
    #[test]
    fn the_response() {
        golden!(QueryInfoResponse, QueryInfoResponse { buffer: b"abc" }, "0900 4800 03000000 616263");
    }

    // 2.2.37.1: ReturnSingle, RestartScan, Reserved, SidListLength, StartSidLength, StartSidOffset, SidBuffer.
    #[test]
    fn the_two_formats_of_a_quota_query() {
        let by_list = QueryQuotaInfo { return_single: true, sid_list: b"abc", ..QueryQuotaInfo::default() };
        golden_part!(QueryQuotaInfo, by_list, "01 00 0000 03000000 00000000 00000000 616263");
        let by_start = QueryQuotaInfo { restart_scan: true, start_sid: b"abc", ..QueryQuotaInfo::default() };
        golden_part!(QueryQuotaInfo, by_start, "00 01 0000 00000000 03000000 00000000 616263");
        let outside = hex("00 01 0000 00000000 03000000 01000000 616263");
        assert_eq!(QueryQuotaInfo::decode(&outside), Err(Malformed::Offset));
    }

    round_trips! {
        requests_round_trip: QueryInfoRequest<'_> = |s| QueryInfoRequest {
            info_type: InfoType(s.u8()),
            file_info_class: s.u8(),
            output_buffer_length: s.u32(),
            additional_information: s.u32(),
            flags: QueryInfoFlags(s.u32()),
            file_id: s.file_id(),
            buffer: s.slice(),
        };
        responses_round_trip: QueryInfoResponse<'_> = |s| QueryInfoResponse { buffer: s.slice() };
    }

    parts_round_trip! {
        quota_queries_round_trip: QueryQuotaInfo<'_> = |s| {
            let (return_single, restart_scan) = (s.u8() & 1 == 1, s.u8() & 1 == 1);
            let sid_list = if s.u8() & 1 == 1 { s.slice() } else { &[] };
            let start_sid = if sid_list.is_empty() { s.slice() } else { &[] };
            QueryQuotaInfo { return_single, restart_scan, sid_list, start_sid }
        };
    }
}
