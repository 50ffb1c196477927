//! IOCTL ([MS-SMB2] 2.2.31, 2.2.32). The codes are in [`codes`]; what they carry is in [`copy`] (server-side copy),
//! [`network`] (interfaces, negotiate validation, resiliency) and [`snapshots`], or belongs to [MS-FSCC] 2.3.

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
    /// What kind of code it is ([MS-SMB2] 2.2.31).
    pub struct IoctlFlags(u32) {
        /// A file system control, not a device control.
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
    /// Most bytes of input data in the response.
    pub max_input_response: u32,
    /// Output data, of which a request has none.
    pub output: &'a [u8],
    /// Most bytes of output data in the response.
    pub max_output_response: u32,
    /// What kind of code it is.
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

    /// Writes the body behind the header.
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

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IoctlResponse<'a> {
    /// The code.
    pub ctl_code: FsctlCode,
    /// The open.
    pub file_id: FileId,
    /// Input data, which only pass-through operations give back.
    pub input: &'a [u8],
    /// The output data.
    pub output: &'a [u8],
}

impl<'a> IoctlResponse<'a> {
    const SIZE: usize = 48;
    /// Where in the message the output begins when there is no input.
    pub const OUTPUT_OFFSET: usize = Header::SIZE + Self::SIZE;

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

    /// Writes the body behind the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        let input_offset = Header::SIZE + Self::SIZE;
        let output_offset = (input_offset + self.input.len()).next_multiple_of(8);
        out.u16(49);
        out.u16(0);
        out.u32(self.ctl_code.0);
        self.file_id.encode(out);
        out.u32(u32_of(input_offset));
        out.u32(u32_of(self.input.len()));
        out.u32(if self.output.is_empty() { 0 } else { u32_of(output_offset) });
        out.u32(u32_of(self.output.len()));
        out.u64(0);
        out.bytes(self.input);
        if !self.output.is_empty() {
            out.pad_to(8);
            out.bytes(self.output);
        }
    }
}
