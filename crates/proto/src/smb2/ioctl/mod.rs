//! IOCTL ([MS-SMB2] 2.2.31, 2.2.32). The codes are in [`codes`]. Their data is in [`copy`] (server-side copy),
//! [`network`] (interfaces, negotiate validation, resiliency) and [`snapshots`], or is defined in [MS-FSCC] 2.3.

pub mod codes;
pub mod copy;
pub mod network;
pub mod snapshots;

pub use codes::FsctlCode;
pub use copy::{CopyChunk, CopyChunkCopy, CopyChunkResponse, RequestResumeKeyResponse};
pub use network::{
    InterfaceCapability, NetworkInterfaceInfo, NetworkResiliencyRequest, ValidateNegotiateInfoRequest,
    ValidateNegotiateInfoResponse,
};
pub use snapshots::SnapshotArray;

use super::header::Header;
use super::{FileId, body, field, u32_of};
use crate::bytes::{Result, Writer};
use crate::flags::flags;

flags! {
    /// The kind of control code ([MS-SMB2] 2.2.31).
    pub struct IoctlFlags(u32) {
        /// A file system control, as opposed to a device control.
        IS_FSCTL = 0x0000_0001;
    }
}

/// Carries out a control code.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IoctlRequest<'a> {
    /// The code.
    pub ctl_code: FsctlCode,
    /// The open; [`FileId::ANY`] for codes that need none.
    pub file_id: FileId,
    /// The input data.
    pub input: &'a [u8],
    /// The maximum number of bytes of input data in the response.
    pub max_input_response: u32,
    /// Output data; empty in a request.
    pub output: &'a [u8],
    /// The maximum number of bytes of output data in the response.
    pub max_output_response: u32,
    /// The kind of control code.
    pub flags: IoctlFlags,
}

impl<'a> IoctlRequest<'a> {
    const SIZE: usize = 56;

    /// Reads the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, 57)?;
        reader.skip(2)?;
        let (ctl_code, file_id) = (FsctlCode(reader.u32()?), FileId::decode(&mut reader)?);
        let (input_offset, input_count, max_input_response) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let (output_offset, output_count, max_output_response) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let flags = IoctlFlags(reader.u32()?);
        reader.skip(4)?;
        Ok(IoctlRequest {
            ctl_code,
            file_id,
            input: field(message, input_offset, input_count, Self::SIZE)?,
            max_input_response,
            output: field(message, output_offset, output_count, Self::SIZE)?,
            max_output_response,
            flags,
        })
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        let input_offset = Header::SIZE + Self::SIZE;
        let output_offset = (input_offset + self.input.len()).next_multiple_of(8);
        out.u16(57);
        out.u16(0);
        out.u32(self.ctl_code.0);
        self.file_id.encode(out);
        out.u32(u32_of(input_offset));
        out.u32(u32_of(self.input.len()));
        out.u32(self.max_input_response);
        out.u32(if self.output.is_empty() { 0 } else { u32_of(output_offset) });
        out.u32(u32_of(self.output.len()));
        out.u32(self.max_output_response);
        out.u32(self.flags.0);
        out.u32(0);
        out.bytes(self.input);
        if !self.output.is_empty() {
            out.pad_to(8);
            out.bytes(self.output);
        }
    }
}

/// An IOCTL response.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IoctlResponse<'a> {
    /// The code.
    pub ctl_code: FsctlCode,
    /// The open.
    pub file_id: FileId,
    /// Input data, which only pass-through operations return.
    pub input: &'a [u8],
    /// The output data.
    pub output: &'a [u8],
}

impl<'a> IoctlResponse<'a> {
    const SIZE: usize = 48;
    /// The offset of the output in the message if there is no input.
    pub const OUTPUT_OFFSET: usize = Header::SIZE + Self::SIZE;
    /// The offset of the field `OutputOffset` in the message.
    pub const OUTPUT_OFFSET_POSITION: usize = Header::SIZE + 32;

    /// Reads the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, 49)?;
        reader.skip(2)?;
        let (ctl_code, file_id) = (FsctlCode(reader.u32()?), FileId::decode(&mut reader)?);
        let (input_offset, input_count) = (reader.u32()?, reader.u32()?);
        let (output_offset, output_count) = (reader.u32()?, reader.u32()?);
        reader.skip(8)?;
        Ok(IoctlResponse {
            ctl_code,
            file_id,
            input: field(message, input_offset, input_count, Self::SIZE)?,
            output: field(message, output_offset, output_count, Self::SIZE)?,
        })
    }

    /// Writes the body after the header. `OutputOffset` is set even if there is no output, as Windows servers do
    /// (<67>), because some clients refuse 0.
    pub fn encode(&self, out: &mut Writer<'_>) {
        let input_offset = Header::SIZE + Self::SIZE;
        let output_offset = (input_offset + self.input.len()).next_multiple_of(8);
        out.u16(49);
        out.u16(0);
        out.u32(self.ctl_code.0);
        self.file_id.encode(out);
        out.u32(u32_of(input_offset));
        out.u32(u32_of(self.input.len()));
        out.u32(u32_of(output_offset));
        out.u32(u32_of(self.output.len()));
        out.u64(0);
        out.bytes(self.input);
        // Padded even without output, because Windows clients refuse an offset beyond the end of the message (<196>).
        out.pad_to(8);
        out.bytes(self.output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Malformed;
    use crate::smb2::testing::{golden, message, round_trips};

    // 2.2.31: StructureSize, Reserved, CtlCode, FileId, InputOffset, InputCount, MaxInputResponse, OutputOffset,
    // OutputCount, MaxOutputResponse, Flags, Reserved2, Buffer.
    const REQUEST: &str = "3900 0000 17c01100 0100000000000000 0200000000000000 78000000 03000000 00000000
         00000000 00000000 00040000 01000000 00000000 616263";

    #[test]
    fn the_request() {
        let request = IoctlRequest {
            ctl_code: FsctlCode::PIPE_TRANSCEIVE,
            file_id: FileId { persistent: 1, volatile: 2 },
            input: b"abc",
            max_output_response: 0x400,
            flags: IoctlFlags::IS_FSCTL,
            ..IoctlRequest::default()
        };
        golden!(IoctlRequest, request, REQUEST);
        // Windows clients set OutputOffset to InputOffset (note 64 of the specification).
        let windows = REQUEST.replace("\n         00000000 00000000 0004", " 78000000 00000000 0004");
        assert_ne!(windows, REQUEST);
        assert_eq!(IoctlRequest::decode(&message(&windows)), Ok(request));
        for (bad, error) in [
            ("77000000 03000000", Malformed::Offset),
            ("78000000 04000000", Malformed::Offset),
            ("ffffffff 03000000", Malformed::Offset),
        ] {
            let message = message(&REQUEST.replace("78000000 03000000", bad));
            assert_eq!(IoctlRequest::decode(&message), Err(error), "{bad}");
        }
        let without_input = message(&REQUEST.replace("78000000 03000000", "ffffffff 00000000"));
        assert_eq!(IoctlRequest::decode(&without_input), Ok(IoctlRequest { input: &[], ..request }));
    }

    // 2.2.32: StructureSize, Reserved, CtlCode, FileId, InputOffset, InputCount, OutputOffset, OutputCount, Flags,
    // Reserved2, Buffer.
    #[test]
    fn the_response() {
        let response =
            IoctlResponse { ctl_code: FsctlCode::PIPE_WAIT, file_id: FileId::ANY, ..IoctlResponse::default() };
        golden!(
            IoctlResponse,
            response,
            "3100 0000 18001100 ffffffffffffffff ffffffffffffffff 70000000 00000000 70000000 00000000 00000000 00000000"
        );
        golden!(
            IoctlResponse,
            IoctlResponse { output: b"abc", ..response },
            "3100 0000 18001100 ffffffffffffffff ffffffffffffffff 70000000 00000000 70000000 03000000 00000000 00000000
             616263"
        );
        golden!(
            IoctlResponse,
            IoctlResponse { input: b"x", ..response },
            "3100 0000 18001100 ffffffffffffffff ffffffffffffffff 70000000 01000000 78000000 00000000 00000000 00000000
             78 00000000000000"
        );
        golden!(
            IoctlResponse,
            IoctlResponse { input: b"x", output: b"abc", ..response },
            "3100 0000 18001100 ffffffffffffffff ffffffffffffffff 70000000 01000000 78000000 03000000 00000000 00000000
             78 00000000000000 616263"
        );
    }

    round_trips! {
        requests_round_trip: IoctlRequest<'_> = |s| IoctlRequest {
            ctl_code: FsctlCode(s.u32()),
            file_id: s.file_id(),
            input: s.slice(),
            max_input_response: s.u32(),
            output: s.slice(),
            max_output_response: s.u32(),
            flags: IoctlFlags(s.u32()),
        };
        responses_round_trip: IoctlResponse<'_> = |s| IoctlResponse {
            ctl_code: FsctlCode(s.u32()),
            file_id: s.file_id(),
            input: s.slice(),
            output: s.slice(),
        };
    }
}
