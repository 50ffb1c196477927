//! READ ([MS-SMB2] 2.2.19, 2.2.20).

use super::header::Header;
use super::{Channel, FileId, body, field, u16_of, u32_of};
use crate::bytes::{Result, Writer};
use crate::flags::flags;

flags! {
    /// Flags of a READ request ([MS-SMB2] 2.2.19); 3.0.2 and later.
    pub struct ReadFlags(u8) {
        /// Bypass the server's caches.
        READ_UNBUFFERED = 0x01;
        /// Compress the response; 3.1.1 only.
        REQUEST_COMPRESSED = 0x02;
    }

    /// Flags of a READ response ([MS-SMB2] 2.2.20); 3.1.1 only.
    pub struct ReadResponseFlags(u32) {
        /// An RDMA transform instead of data.
        RDMA_TRANSFORM = 0x0000_0001;
    }
}

/// Reads from a file or pipe.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReadRequest<'a> {
    /// The preferred offset of the data in the response; not binding.
    pub padding: u8,
    /// The flags.
    pub flags: ReadFlags,
    /// The number of bytes to read.
    pub length: u32,
    /// The offset in the file.
    pub offset: u64,
    /// The open.
    pub file_id: FileId,
    /// The minimum number of bytes; fewer are a failure.
    pub minimum_count: u32,
    /// The transport of the data.
    pub channel: Channel,
    /// The number of bytes to read through the channel.
    pub remaining_bytes: u32,
    /// The channel's descriptors.
    pub read_channel_info: &'a [u8],
}

impl<'a> ReadRequest<'a> {
    const SIZE: usize = 48;

    /// Decodes the body of `message`. Channel information outside the message reads as empty. Without a channel, and
    /// before 3.0, its fields must be ignored. A channel needs at least one descriptor.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, 49)?;
        let mut request = ReadRequest {
            padding: reader.u8()?,
            flags: ReadFlags(reader.u8()?),
            length: reader.u32()?,
            offset: reader.u64()?,
            file_id: FileId::decode(&mut reader)?,
            minimum_count: reader.u32()?,
            channel: Channel(reader.u32()?),
            remaining_bytes: reader.u32()?,
            read_channel_info: &[],
        };
        let (info_offset, info_length) = (reader.u16()?, reader.u16()?);
        if request.channel != Channel::NONE {
            request.read_channel_info = field(message, info_offset, info_length, Self::SIZE).unwrap_or(&[]);
        }
        Ok(request)
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(49);
        out.u8(self.padding);
        out.u8(self.flags.0);
        out.u32(self.length);
        out.u64(self.offset);
        self.file_id.encode(out);
        out.u32(self.minimum_count);
        out.u32(self.channel.0);
        out.u32(self.remaining_bytes);
        let info_offset = if self.read_channel_info.is_empty() { 0 } else { Header::SIZE + Self::SIZE };
        out.u16(u16_of(info_offset));
        out.u16(u16_of(self.read_channel_info.len()));
        out.bytes(if self.read_channel_info.is_empty() { &[0] } else { self.read_channel_info });
    }
}

/// A READ response.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReadResponse<'a> {
    /// The number of bytes sent through the channel.
    pub data_remaining: u32,
    /// The flags.
    pub flags: ReadResponseFlags,
    /// The data.
    pub buffer: &'a [u8],
}

impl<'a> ReadResponse<'a> {
    /// The size of the fixed part before the data, without the SMB2 header.
    pub const SIZE: usize = 16;
    /// The offset of the data in the message, as this encoder places it.
    pub const DATA_OFFSET: usize = Header::SIZE + Self::SIZE;

    /// Reads the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, 17)?;
        let data_offset = reader.u8()?;
        reader.skip(1)?;
        let data_length = reader.u32()?;
        Ok(ReadResponse {
            data_remaining: reader.u32()?,
            flags: ReadResponseFlags(reader.u32()?),
            buffer: field(message, data_offset, data_length, Self::SIZE)?,
        })
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        self.encode_fixed(out, u32_of(self.buffer.len()));
        out.bytes(self.buffer);
    }

    /// Writes only the fixed part, for `data_length` bytes that are placed after it in the same buffer.
    pub fn encode_header(out: &mut Writer<'_>, data_length: u32) {
        ReadResponse::default().encode_fixed(out, data_length);
    }

    /// Corrects the length that [`ReadResponse::encode_header`] wrote, if fewer bytes were read than requested.
    pub fn set_data_length(out: &mut Writer<'_>, data_length: u32) {
        out.patch_u32(Header::SIZE + 4, data_length);
    }

    fn encode_fixed(&self, out: &mut Writer<'_>, data_length: u32) {
        out.u16(17);
        out.u8(Self::DATA_OFFSET as u8);
        out.u8(0);
        out.u32(data_length);
        out.u32(self.data_remaining);
        out.u32(self.flags.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Malformed;
    use crate::smb2::testing::{encode, golden, message, round_trips};

    const FILE_ID: FileId = FileId { persistent: 1, volatile: 2 };

    // 2.2.19: StructureSize, Padding, Flags, Length, Offset, FileId, MinimumCount, Channel, RemainingBytes,
    // ReadChannelInfoOffset, ReadChannelInfoLength, Buffer.
    #[test]
    fn the_request() {
        let request = ReadRequest {
            padding: 0x50,
            flags: ReadFlags::READ_UNBUFFERED,
            length: 0x10000,
            offset: 0x2000,
            file_id: FILE_ID,
            minimum_count: 1,
            ..ReadRequest::default()
        };
        golden!(
            ReadRequest,
            request,
            "3100 50 01 00000100 0020000000000000 0100000000000000 0200000000000000 01000000
             00000000 00000000 0000 0000 00"
        );
        golden!(
            ReadRequest,
            ReadRequest { channel: Channel::RDMA_V1, remaining_bytes: 7, read_channel_info: &[1, 2], ..request },
            "3100 50 01 00000100 0020000000000000 0100000000000000 0200000000000000 01000000
             01000000 07000000 7000 0200 0102"
        );
    }

    #[test]
    fn channel_information_outside_the_message_reads_as_none() {
        for (channel, offset) in [("00000000", "ffff"), ("01000000", "ffff"), ("01000000", "4000")] {
            let body = format!(
                "3100 50 00 00000100 0020000000000000 0100000000000000 0200000000000000 00000000
                 {channel} 00000000 {offset} 0200"
            );
            let request = message(&body);
            assert_eq!(ReadRequest::decode(&request).map(|request| request.read_channel_info), Ok(&[][..]));
        }
    }

    #[test]
    fn the_dummy_byte_may_be_missing_but_no_more() {
        let request = encode(|out| ReadRequest::default().encode(out));
        assert_eq!(request.len(), 64 + 49);
        assert_eq!(ReadRequest::decode(&request[..64 + 48]), Ok(ReadRequest::default()));
        assert_eq!(ReadRequest::decode(&request[..64 + 47]), Err(Malformed::Truncated));
    }

    // 2.2.20: StructureSize, DataOffset, Reserved, DataLength, DataRemaining, Flags, Buffer.
    #[test]
    fn the_response() {
        let response = ReadResponse { buffer: b"abc", ..ReadResponse::default() };
        golden!(ReadResponse, response, "1100 50 00 03000000 00000000 00000000 616263");
        for (body, error) in [
            ("1100 4f 00 03000000 00000000 00000000 616263", Malformed::Offset),
            ("1100 51 00 03000000 00000000 00000000 616263", Malformed::Offset),
            ("1100 50 00 ffffffff 00000000 00000000 616263", Malformed::Offset),
            ("1000 50 00 03000000 00000000 00000000 616263", Malformed::Structure),
        ] {
            assert_eq!(ReadResponse::decode(&message(body)), Err(error), "{body}");
        }
    }

    #[test]
    fn data_can_be_written_after_the_fixed_part() {
        let message = encode(|out| {
            ReadResponse::encode_header(out, 100);
            assert_eq!(out.position(), ReadResponse::DATA_OFFSET);
            out.bytes(b"abc");
            ReadResponse::set_data_length(out, 3);
        });
        assert_eq!(message, encode(|out| ReadResponse { buffer: b"abc", ..ReadResponse::default() }.encode(out)));
    }

    round_trips! {
        requests_round_trip: ReadRequest<'_> = |s| {
            let channel = Channel(s.u8().into());
            ReadRequest {
                padding: s.u8(),
                flags: ReadFlags(s.u8()),
                length: s.u32(),
                offset: s.u64(),
                file_id: s.file_id(),
                minimum_count: s.u32(),
                channel,
                remaining_bytes: s.u32(),
                read_channel_info: if channel == Channel::NONE { &[] } else { s.slice() },
            }
        };
        responses_round_trip: ReadResponse<'_> = |s| ReadResponse {
            data_remaining: s.u32(),
            flags: ReadResponseFlags(s.u32()),
            buffer: s.slice(),
        };
    }
}
