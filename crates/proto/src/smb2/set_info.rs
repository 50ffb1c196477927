//! SET_INFO ([MS-SMB2] 2.2.39, 2.2.40). The information itself is defined in [MS-FSCC] and [MS-DTYP].

use super::header::Header;
use super::{FileId, body, field, u16_of, u32_of};
use crate::bytes::{Result, Writer};

pub use super::{InfoType, SecurityInformation};

/// A SET_INFO request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SetInfoRequest<'a> {
    /// The kind of information.
    pub info_type: InfoType,
    /// The information class, [MS-FSCC] 2.4 and 2.5.
    pub file_info_class: u8,
    /// Parts of a security descriptor: [`SecurityInformation`].
    pub additional_information: u32,
    /// The open.
    pub file_id: FileId,
    /// The information.
    pub buffer: &'a [u8],
}

impl<'a> SetInfoRequest<'a> {
    const SIZE: usize = 32;

    /// Reads the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, 33)?;
        let (info_type, file_info_class) = (InfoType(reader.u8()?), reader.u8()?);
        let (buffer_length, buffer_offset) = (reader.u32()?, reader.u16()?);
        reader.skip(2)?;
        Ok(SetInfoRequest {
            info_type,
            file_info_class,
            additional_information: reader.u32()?,
            file_id: FileId::decode(&mut reader)?,
            buffer: field(message, buffer_offset, buffer_length, Self::SIZE)?,
        })
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(33);
        out.u8(self.info_type.0);
        out.u8(self.file_info_class);
        out.u32(u32_of(self.buffer.len()));
        out.u16(u16_of(Header::SIZE + Self::SIZE));
        out.u16(0);
        out.u32(self.additional_information);
        self.file_id.encode(out);
        out.bytes(self.buffer);
    }
}

/// The response to SET_INFO.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SetInfoResponse;

impl SetInfoResponse {
    /// Checks the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self> {
        body(message, 2).map(|_| SetInfoResponse)
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Malformed;
    use crate::smb2::testing::{golden, message, round_trips};

    // 2.2.39: StructureSize, InfoType, FileInfoClass, BufferLength, BufferOffset, Reserved, AdditionalInformation,
    // FileId, Buffer.
    #[test]
    fn the_request() {
        let request = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: 13,
            additional_information: 0,
            file_id: FileId { persistent: 1, volatile: 2 },
            buffer: &[1],
        };
        let body = "2100 01 0d 01000000 6000 0000 00000000 0100000000000000 0200000000000000 01";
        golden!(SetInfoRequest, request, body);
        for bad in ["01000000 5f00", "02000000 6000", "ffffffff 6000"] {
            let message = message(&body.replace("01000000 6000", bad));
            assert_eq!(SetInfoRequest::decode(&message), Err(Malformed::Offset), "{bad}");
        }
    }

    // 2.2.40: StructureSize.
    #[test]
    fn the_response() {
        golden!(SetInfoResponse, SetInfoResponse, "0200");
        assert_eq!(SetInfoResponse::decode(&message("0400")), Err(Malformed::Structure));
    }

    round_trips! {
        requests_round_trip: SetInfoRequest<'_> = |s| SetInfoRequest {
            info_type: InfoType(s.u8()),
            file_info_class: s.u8(),
            additional_information: s.u32(),
            file_id: s.file_id(),
            buffer: s.slice(),
        };
    }
}
