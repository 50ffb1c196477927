//! Server-side copy: SRV_COPYCHUNK_COPY, SRV_COPYCHUNK_RESPONSE and the resume key ([MS-SMB2] 2.2.31.1, 2.2.32.1,
//! 2.2.32.3).

use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::smb2::{size, u32_of};

/// SRV_COPYCHUNK ([MS-SMB2] 2.2.31.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CopyChunk {
    /// Where in the source.
    pub source_offset: u64,
    /// Where in the target.
    pub target_offset: u64,
    /// How many bytes.
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
    /// The source.
    pub source_key: [u8; 24],
    /// What to copy.
    pub chunks: Vec<CopyChunk>,
}

impl CopyChunkCopy {
    /// Reads the input.
    pub fn decode(input: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(input);
        let source_key = reader.array()?;
        let chunk_count = size(reader.u32()?);
        reader.skip(4)?;
        // A count that cannot fit is refused before anything is allocated for it.
        let length = chunk_count.checked_mul(CopyChunk::SIZE).ok_or(Malformed::Truncated)?;
        let mut chunks = Reader::new(reader.take(length)?);
        let chunks = (0..chunk_count).map(|_| CopyChunk::decode(&mut chunks)).collect::<Result<_>>()?;
        Ok(CopyChunkCopy { source_key, chunks })
    }

    /// Writes the input.
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

/// SRV_COPYCHUNK_RESPONSE ([MS-SMB2] 2.2.32.1). With STATUS_INVALID_PARAMETER the numbers are the server's limits: chunks,
/// bytes of a chunk, bytes in all.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CopyChunkResponse {
    /// Chunks written whole.
    pub chunks_written: u32,
    /// Bytes written of the chunk that failed.
    pub chunk_bytes_written: u32,
    /// Bytes written in all.
    pub total_bytes_written: u32,
}

impl CopyChunkResponse {
    /// Reads the output.
    pub fn decode(output: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(output);
        Ok(CopyChunkResponse {
            chunks_written: reader.u32()?,
            chunk_bytes_written: reader.u32()?,
            total_bytes_written: reader.u32()?,
        })
    }

    /// Writes the output.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u32(self.chunks_written);
        out.u32(self.chunk_bytes_written);
        out.u32(self.total_bytes_written);
    }
}

/// SRV_REQUEST_RESUME_KEY ([MS-SMB2] 2.2.32.3): the output of FSCTL_SRV_REQUEST_RESUME_KEY.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RequestResumeKeyResponse {
    /// Names the open as the source of a copy.
    pub resume_key: [u8; 24],
}

impl RequestResumeKeyResponse {
    /// Reads the output. The context behind the key is unused.
    pub fn decode(output: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(output);
        let resume_key = reader.array()?;
        reader.skip(4)?;
        Ok(RequestResumeKeyResponse { resume_key })
    }

    /// Writes the output: the key, an empty context, and the four bytes behind it that Windows sends and clients count
    /// on (32 bytes in all).
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.bytes(&self.resume_key);
        out.u32(0);
        out.u32(0);
    }
}
