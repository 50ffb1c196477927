//! WRITE ([MS-SMB2] 2.2.21, 2.2.22).

use super::header::Header;
use super::{Channel, FileId, body, field, u16_of, u32_of};
use crate::bytes::{Malformed, Result, Writer};
use crate::flags::flags;

flags! {
    /// Flags of a WRITE request ([MS-SMB2] 2.2.21).
    pub struct WriteFlags(u32) {
        /// Write to disk before responding; 2.1 and later.
        WRITE_THROUGH = 0x0000_0001;
        /// Bypass the server's caches; 3.0.2 and later.
        WRITE_UNBUFFERED = 0x0000_0002;
    }
}

/// Writes to a file or pipe.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WriteRequest<'a> {
    /// The number of bytes to write: the length of `buffer`, unless a channel transports the data.
    pub length: u32,
    /// The offset in the file.
    pub offset: u64,
    /// The open.
    pub file_id: FileId,
    /// The transport of the data.
    pub channel: Channel,
    /// The number of bytes to write from the channel.
    pub remaining_bytes: u32,
    /// The flags.
    pub flags: WriteFlags,
    /// The data; empty if a channel transports it.
    pub buffer: &'a [u8],
    /// The channel's descriptors.
    pub write_channel_info: &'a [u8],
}

impl<'a> WriteRequest<'a> {
    /// The length of the fixed fields of the body.
    pub const SIZE: usize = 48;
    /// The maximum offset of the data in the message (3.3.5.13).
    const MAXIMUM_DATA_OFFSET: u16 = 0x100;

    /// Decodes the body of `message`. With a channel, data and channel information outside the message read as empty.
    /// Before 3.0 the channel must be ignored, so only the server can decide which of the two applies.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let (mut request, data_offset, (info_offset, info_length)) = Self::fixed(message)?;
        let buffer = if data_offset > Self::MAXIMUM_DATA_OFFSET {
            Err(Malformed::Offset)
        } else {
            field(message, data_offset, request.length, Self::SIZE)
        };
        if request.channel == Channel::NONE {
            request.buffer = buffer?;
        } else {
            request.buffer = buffer.unwrap_or(&[]);
            request.write_channel_info = field(message, info_offset, info_length, Self::SIZE).unwrap_or(&[]);
        }
        Ok(request)
    }

    /// Decodes the beginning of a message of which the rest may be missing. The request has neither data nor channel
    /// information. Also returns the offset of the data in the message, which is not verified.
    pub fn decode_start(start: &'a [u8]) -> Result<(Self, usize)> {
        let (request, data_offset, _) = Self::fixed(start)?;
        Ok((request, data_offset.into()))
    }

    /// Decodes the fixed fields. Returns the offset of the data, and offset and length of the channel information.
    fn fixed(message: &'a [u8]) -> Result<(Self, u16, (u16, u16))> {
        let mut reader = body(message, 49)?;
        let data_offset = reader.u16()?;
        let mut request = WriteRequest {
            length: reader.u32()?,
            offset: reader.u64()?,
            file_id: FileId::decode(&mut reader)?,
            channel: Channel(reader.u32()?),
            remaining_bytes: reader.u32()?,
            ..WriteRequest::default()
        };
        let info = (reader.u16()?, reader.u16()?);
        request.flags = WriteFlags(reader.u32()?);
        Ok((request, data_offset, info))
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        let start = Header::SIZE + Self::SIZE;
        out.u16(49);
        out.u16(u16_of(start));
        out.u32(self.length);
        out.u64(self.offset);
        self.file_id.encode(out);
        out.u32(self.channel.0);
        out.u32(self.remaining_bytes);
        let info_offset = if self.write_channel_info.is_empty() { 0 } else { start + self.buffer.len() };
        out.u16(u16_of(info_offset));
        out.u16(u16_of(self.write_channel_info.len()));
        out.u32(self.flags.0);
        out.bytes(self.buffer);
        out.bytes(self.write_channel_info);
    }

    /// Creates a request to write `buffer` at `offset`.
    pub fn new(file_id: FileId, offset: u64, buffer: &'a [u8]) -> Self {
        WriteRequest { length: u32_of(buffer.len()), offset, file_id, buffer, ..WriteRequest::default() }
    }
}

/// A WRITE response.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WriteResponse {
    /// The number of bytes written.
    pub count: u32,
}

impl WriteResponse {
    /// Reads the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut reader = body(message, 17)?;
        reader.skip(2)?;
        let count = reader.u32()?;
        reader.skip(8)?;
        Ok(WriteResponse { count })
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(17);
        out.zeros(2);
        out.u32(self.count);
        out.zeros(8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{golden, message, round_trips};

    // 2.2.21: StructureSize, DataOffset, Length, Offset, FileId, Channel, RemainingBytes, WriteChannelInfoOffset,
    // WriteChannelInfoLength, Flags, Buffer.
    #[test]
    fn the_request() {
        let request = WriteRequest {
            flags: WriteFlags::WRITE_THROUGH,
            ..WriteRequest::new(FileId { persistent: 1, volatile: 2 }, 0x2000, b"abc")
        };
        golden!(
            WriteRequest,
            request,
            "3100 7000 03000000 0020000000000000 0100000000000000 0200000000000000
             00000000 00000000 0000 0000 01000000 616263"
        );
    }

    #[test]
    fn data_must_be_at_an_allowed_offset() {
        let check = |offset: &str, length: &str, channel: &str| {
            let body = format!(
                "3100 {offset} {length} 0000000000000000 00000000000000000000000000000000
                 {channel} 00000000 0000 0000 00000000 616263"
            );
            WriteRequest::decode(&message(&body)).map(|request| request.buffer.to_vec())
        };
        assert_eq!(check("7000", "03000000", "00000000"), Ok(b"abc".to_vec()));
        assert_eq!(check("7100", "02000000", "00000000"), Ok(b"bc".to_vec()));
        assert_eq!(check("0000", "00000000", "00000000"), Ok(vec![]));
        assert_eq!(check("0101", "00000000", "00000000"), Err(Malformed::Offset));
        assert_eq!(check("6f00", "03000000", "00000000"), Err(Malformed::Offset));
        assert_eq!(check("7000", "04000000", "00000000"), Err(Malformed::Offset));
        assert_eq!(check("7000", "ffffffff", "00000000"), Err(Malformed::Offset));
        assert_eq!(check("0101", "00000000", "01000000"), Ok(vec![]));
    }

    #[test]
    fn the_beginning_tells_where_the_data_is() {
        let start = message(
            "3100 7800 00001000 0010000000000000 0100000000000000 0200000000000000
                             00000000 00000000 0000 0000 01000000",
        );
        let asked = WriteRequest {
            length: 1 << 20,
            offset: 0x1000,
            file_id: FileId { persistent: 1, volatile: 2 },
            flags: WriteFlags::WRITE_THROUGH,
            ..WriteRequest::default()
        };
        assert_eq!(WriteRequest::decode_start(&start), Ok((asked, 0x78)));
        assert!(WriteRequest::decode_start(&start[..start.len() - 1]).is_err());
        assert_eq!(WriteRequest::decode(&start), Err(Malformed::Offset));
    }

    // 2.2.22: StructureSize, Reserved, Count, Remaining, WriteChannelInfoOffset, WriteChannelInfoLength.
    #[test]
    fn the_response() {
        golden!(WriteResponse, WriteResponse { count: 3 }, "1100 0000 03000000 00000000 0000 0000");
    }

    round_trips! {
        requests_round_trip: WriteRequest<'_> = |s| {
            let channel = Channel(s.u8().into());
            let buffer = if channel == Channel::NONE { s.slice() } else { &[] };
            WriteRequest {
                length: buffer.len() as u32,
                offset: s.u64(),
                file_id: s.file_id(),
                channel,
                remaining_bytes: s.u32(),
                flags: WriteFlags(s.u32()),
                buffer,
                write_channel_info: if channel == Channel::NONE { &[] } else { s.slice() },
            }
        };
        responses_round_trip: WriteResponse = |s| WriteResponse { count: s.u32() };
    }
}
