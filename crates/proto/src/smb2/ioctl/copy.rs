//! Server-side copy: SRV_COPYCHUNK_COPY, SRV_COPYCHUNK_RESPONSE and the resume key ([MS-SMB2] 2.2.31.1, 2.2.32.1,
//! 2.2.32.3).

use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::smb2::{size, u32_of};

/// SRV_COPYCHUNK ([MS-SMB2] 2.2.31.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CopyChunk {
    /// The offset in the source.
    pub source_offset: u64,
    /// The offset in the target.
    pub target_offset: u64,
    /// The length in bytes.
    pub length: u32,
}

impl CopyChunk {
    const SIZE: usize = 24;

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let chunk = CopyChunk { source_offset: reader.u64()?, target_offset: reader.u64()?, length: reader.u32()? };
        reader.skip(4)?;
        Ok(chunk)
    }
}

/// SRV_COPYCHUNK_COPY ([MS-SMB2] 2.2.31.1): the input of FSCTL_SRV_COPYCHUNK and FSCTL_SRV_COPYCHUNK_WRITE.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CopyChunkCopy {
    /// The resume key of the source.
    pub source_key: [u8; 24],
    /// The chunks to copy.
    pub chunks: Vec<CopyChunk>,
}

impl CopyChunkCopy {
    /// Decodes the input.
    pub fn decode(input: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(input);
        let source_key = reader.array()?;
        let chunk_count = size(reader.u32()?);
        reader.skip(4)?;
        // A count that cannot fit is refused before memory is allocated for it.
        let length = chunk_count.checked_mul(CopyChunk::SIZE).ok_or(Malformed::Truncated)?;
        let mut chunks = Reader::new(reader.take(length)?);
        let chunks = (0..chunk_count).map(|_| CopyChunk::decode(&mut chunks)).collect::<Result<_>>()?;
        Ok(CopyChunkCopy { source_key, chunks })
    }

    /// Encodes the input.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.bytes(&self.source_key);
        out.u32(u32_of(self.chunks.len()));
        out.u32(0);
        for chunk in &self.chunks {
            out.u64(chunk.source_offset);
            out.u64(chunk.target_offset);
            out.u32(chunk.length);
            out.u32(0);
        }
    }
}

/// SRV_COPYCHUNK_RESPONSE ([MS-SMB2] 2.2.32.1). With STATUS_INVALID_PARAMETER the numbers are the server's limits:
/// number of chunks, bytes per chunk, total bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CopyChunkResponse {
    /// The number of chunks written completely.
    pub chunks_written: u32,
    /// The number of bytes written of the chunk that failed.
    pub chunk_bytes_written: u32,
    /// The total number of bytes written.
    pub total_bytes_written: u32,
}

impl CopyChunkResponse {
    /// The size on the wire, in bytes.
    pub const SIZE: usize = 12;

    /// Decodes the output.
    pub fn decode(output: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(output);
        Ok(CopyChunkResponse {
            chunks_written: reader.u32()?,
            chunk_bytes_written: reader.u32()?,
            total_bytes_written: reader.u32()?,
        })
    }

    /// Encodes the output.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u32(self.chunks_written);
        out.u32(self.chunk_bytes_written);
        out.u32(self.total_bytes_written);
    }
}

/// SRV_REQUEST_RESUME_KEY ([MS-SMB2] 2.2.32.3): the output of FSCTL_SRV_REQUEST_RESUME_KEY.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RequestResumeKeyResponse {
    /// Identifies the open as the source of a copy.
    pub resume_key: [u8; 24],
}

impl RequestResumeKeyResponse {
    /// The size on the wire in bytes, as [`Self::encode`] writes it.
    pub const SIZE: usize = 32;

    /// Decodes the output. The context after the key is unused.
    pub fn decode(output: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(output);
        let resume_key = reader.array()?;
        reader.skip(4)?;
        Ok(RequestResumeKeyResponse { resume_key })
    }

    /// Encodes the output: the key, an empty context, and four more bytes that Windows sends and clients rely on (32
    /// bytes in all).
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.bytes(&self.resume_key);
        out.u32(0);
        out.u32(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{golden_part, hex, parts_round_trip};

    const KEY: &str = "050505050505050505050505050505050505050505050505";

    // 2.2.31.1: SourceKey, ChunkCount, Reserved, Chunks; 2.2.31.1.1: SourceOffset, TargetOffset, Length, Reserved.
    #[test]
    fn a_copy() {
        let copy = CopyChunkCopy {
            source_key: [5; 24],
            chunks: vec![CopyChunk { source_offset: 1, target_offset: 2, length: 3 }],
        };
        let chunk = "0100000000000000 0200000000000000 03000000 00000000";
        golden_part!(CopyChunkCopy, copy, &format!("{KEY} 01000000 00000000 {chunk}"));
        for count in ["02000000", "ffffffff"] {
            let input = hex(&format!("{KEY} {count} 00000000 {chunk}"));
            assert_eq!(CopyChunkCopy::decode(&input), Err(Malformed::Truncated), "{count}");
        }
    }

    // 2.2.32.1: ChunksWritten, ChunkBytesWritten, TotalBytesWritten.
    #[test]
    fn its_outcome() {
        let response = CopyChunkResponse { chunks_written: 1, chunk_bytes_written: 2, total_bytes_written: 3 };
        golden_part!(CopyChunkResponse, response, "01000000 02000000 03000000");
    }

    // 2.2.32.3: ResumeKey, ContextLength, Context.
    #[test]
    fn a_resume_key() {
        let response = RequestResumeKeyResponse { resume_key: [5; 24] };
        golden_part!(RequestResumeKeyResponse, response, &format!("{KEY} 00000000 00000000"));
        assert_eq!(RequestResumeKeyResponse::decode(&hex(&format!("{KEY} 00000000"))), Ok(response));
    }

    parts_round_trip! {
        copies_round_trip: CopyChunkCopy = |s| CopyChunkCopy {
            source_key: s.array(),
            chunks: s.list(|s| CopyChunk { source_offset: s.u64(), target_offset: s.u64(), length: s.u32() }),
        };
        outcomes_round_trip: CopyChunkResponse = |s| CopyChunkResponse {
            chunks_written: s.u32(),
            chunk_bytes_written: s.u32(),
            total_bytes_written: s.u32(),
        };
        keys_round_trip: RequestResumeKeyResponse = |s| RequestResumeKeyResponse { resume_key: s.array() };
    }
}
