//! CHANGE_NOTIFY ([MS-SMB2] 2.2.35, 2.2.36). The changes are defined in [MS-FSCC] 2.7.1.

use super::{FileId, body, output_buffer_responses};
use crate::bytes::{Result, Writer};
use crate::flags::flags;

flags! {
    /// The scope of the watch ([MS-SMB2] 2.2.35).
    pub struct ChangeNotifyFlags(u16) {
        /// The whole tree below the directory.
        WATCH_TREE = 0x0001;
    }

    /// The changes to watch for ([MS-SMB2] 2.2.35).
    pub struct CompletionFilter(u32) {
        /// Names of files.
        FILE_NAME = 0x0000_0001;
        /// Names of directories.
        DIR_NAME = 0x0000_0002;
        /// Attributes.
        ATTRIBUTES = 0x0000_0004;
        /// Sizes.
        SIZE = 0x0000_0008;
        /// Times of the last write.
        LAST_WRITE = 0x0000_0010;
        /// Times of the last access.
        LAST_ACCESS = 0x0000_0020;
        /// Times of creation.
        CREATION = 0x0000_0040;
        /// Extended attributes.
        EA = 0x0000_0080;
        /// Security descriptors.
        SECURITY = 0x0000_0100;
        /// Names of streams.
        STREAM_NAME = 0x0000_0200;
        /// Sizes of streams.
        STREAM_SIZE = 0x0000_0400;
        /// Data of streams.
        STREAM_WRITE = 0x0000_0800;
    }
}

/// Waits for changes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ChangeNotifyRequest {
    /// The scope.
    pub flags: ChangeNotifyFlags,
    /// The maximum size of the response's buffer in bytes.
    pub output_buffer_length: u32,
    /// The directory.
    pub file_id: FileId,
    /// The changes to watch for.
    pub completion_filter: CompletionFilter,
}

impl ChangeNotifyRequest {
    /// Reads the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut reader = body(message, 32)?;
        let request = ChangeNotifyRequest {
            flags: ChangeNotifyFlags(reader.u16()?),
            output_buffer_length: reader.u32()?,
            file_id: FileId::decode(&mut reader)?,
            completion_filter: CompletionFilter(reader.u32()?),
        };
        reader.skip(4)?;
        Ok(request)
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(32);
        out.u16(self.flags.0);
        out.u32(self.output_buffer_length);
        self.file_id.encode(out);
        out.u32(self.completion_filter.0);
        out.u32(0);
    }
}

output_buffer_responses! {
    /// The changes; empty if there were too many for the buffer.
    ChangeNotifyResponse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{golden, round_trips};

    // 2.2.35: StructureSize, Flags, OutputBufferLength, FileId, CompletionFilter, Reserved.
    #[test]
    fn the_request() {
        let request = ChangeNotifyRequest {
            flags: ChangeNotifyFlags::WATCH_TREE,
            output_buffer_length: 0x1000,
            file_id: FileId { persistent: 1, volatile: 2 },
            completion_filter: CompletionFilter::FILE_NAME | CompletionFilter::STREAM_WRITE,
        };
        let body = "2000 0100 00100000 0100000000000000 0200000000000000 01080000 00000000";
        golden!(ChangeNotifyRequest, request, body);
    }

    // 2.2.36: StructureSize, OutputBufferOffset, OutputBufferLength, Buffer.
    #[test]
    fn the_response() {
        golden!(ChangeNotifyResponse, ChangeNotifyResponse { buffer: b"abc" }, "0900 4800 03000000 616263");
        golden!(ChangeNotifyResponse, ChangeNotifyResponse::default(), "0900 4800 00000000");
    }

    round_trips! {
        requests_round_trip: ChangeNotifyRequest = |s| ChangeNotifyRequest {
            flags: ChangeNotifyFlags(s.u16()),
            output_buffer_length: s.u32(),
            file_id: s.file_id(),
            completion_filter: CompletionFilter(s.u32()),
        };
        responses_round_trip: ChangeNotifyResponse<'_> = |s| ChangeNotifyResponse { buffer: s.slice() };
    }
}
