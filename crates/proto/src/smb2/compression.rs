//! The headers before compressed messages ([MS-SMB2] 2.2.42); 3.1.1 only. The algorithms are implemented elsewhere.
//!
//! Both forms share 16 bytes. In the chained form, the last 8 of them are the first payload's header, whose flag
//! distinguishes the forms.

use super::negotiate_context::CompressionAlgorithm;
use super::{size, u32_of};
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::flags::flags;

flags! {
    /// The form of the header ([MS-SMB2] 2.2.42).
    pub struct CompressionFlags(u16) {
        /// Chained; set in the first payload of a chain.
        CHAINED = 0x0001;
    }
}

/// A compressed message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompressionTransform<'a> {
    /// One compressed segment, after an uncompressed part (2.2.42.1).
    Unchained(UnchainedCompression<'a>),
    /// Payloads, each with its own algorithm (2.2.42.2).
    Chained(ChainedCompression<'a>),
}

/// SMB2_COMPRESSION_TRANSFORM_HEADER_UNCHAINED ([MS-SMB2] 2.2.42.1) and the data after it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct UnchainedCompression<'a> {
    /// The decompressed size of the segment in bytes.
    pub original_compressed_segment_size: u32,
    /// The compression algorithm.
    pub compression_algorithm: CompressionAlgorithm,
    /// The uncompressed data before the segment; `Offset` bytes.
    pub uncompressed: &'a [u8],
    /// The compressed segment.
    pub compressed: &'a [u8],
}

/// SMB2_COMPRESSION_TRANSFORM_HEADER_CHAINED ([MS-SMB2] 2.2.42.2) and the data after it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ChainedCompression<'a> {
    /// The decompressed size of the whole message in bytes.
    pub original_compressed_segment_size: u32,
    /// The encoded payloads; see [`ChainedCompression::payloads`].
    pub chain: &'a [u8],
}

impl<'a> CompressionTransform<'a> {
    /// The size before the data in the unchained form, in bytes.
    pub const SIZE: usize = 16;
    /// The first four bytes of the header.
    pub const PROTOCOL_ID: [u8; 4] = [0xfc, b'S', b'M', b'B'];

    /// Decodes `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(message);
        if reader.array()? != Self::PROTOCOL_ID {
            return Err(Malformed::Structure);
        }
        let original_compressed_segment_size = reader.u32()?;
        let chain = reader.clone().rest();
        let compression_algorithm = CompressionAlgorithm(reader.u16()?);
        match CompressionFlags(reader.u16()?) {
            CompressionFlags::CHAINED => {
                Ok(Self::Chained(ChainedCompression { original_compressed_segment_size, chain }))
            }
            CompressionFlags::NONE => {
                let offset = size(reader.u32()?);
                Ok(Self::Unchained(UnchainedCompression {
                    original_compressed_segment_size,
                    compression_algorithm,
                    uncompressed: reader.take(offset)?,
                    compressed: reader.rest(),
                }))
            }
            _ => Err(Malformed::Value),
        }
    }

    /// Encodes the message.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.bytes(&Self::PROTOCOL_ID);
        match self {
            Self::Unchained(unchained) => {
                out.u32(unchained.original_compressed_segment_size);
                out.u16(unchained.compression_algorithm.0);
                out.u16(CompressionFlags::NONE.0);
                out.u32(u32_of(unchained.uncompressed.len()));
                out.bytes(unchained.uncompressed);
                out.bytes(unchained.compressed);
            }
            Self::Chained(chained) => {
                out.u32(chained.original_compressed_segment_size);
                out.bytes(chained.chain);
            }
        }
    }
}

impl<'a> ChainedCompression<'a> {
    /// Iterates over the payloads in order; ends after the first that does not decode.
    pub fn payloads(&self) -> Payloads<'a> {
        Payloads { reader: Reader::new(self.chain), first: true }
    }
}

/// One payload (SMB2_COMPRESSION_CHAINED_PAYLOAD_HEADER, [MS-SMB2] 2.2.42.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CompressionPayload<'a> {
    /// The compression algorithm.
    pub compression_algorithm: CompressionAlgorithm,
    /// The decompressed size in bytes; present only for LZNT1, LZ77, LZ77+Huffman and LZ4.
    pub original_payload_size: Option<u32>,
    /// The compressed data.
    pub payload: &'a [u8],
}

/// Iterates over the payloads of a chain.
#[derive(Clone, Debug)]
pub struct Payloads<'a> {
    reader: Reader<'a>,
    first: bool,
}

impl<'a> Payloads<'a> {
    fn payload(&mut self) -> Result<CompressionPayload<'a>> {
        let compression_algorithm = CompressionAlgorithm(self.reader.u16()?);
        let expected = if self.first { CompressionFlags::CHAINED } else { CompressionFlags::NONE };
        if CompressionFlags(self.reader.u16()?) != expected {
            return Err(Malformed::Value);
        }
        self.first = false;
        let length = size(self.reader.u32()?);
        let mut payload = Reader::new(self.reader.take(length)?);
        let original_payload_size = if has_original_size(compression_algorithm) { Some(payload.u32()?) } else { None };
        Ok(CompressionPayload { compression_algorithm, original_payload_size, payload: payload.rest() })
    }
}

impl<'a> Iterator for Payloads<'a> {
    type Item = Result<CompressionPayload<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.remaining() == 0 {
            return None;
        }
        let payload = self.payload();
        if payload.is_err() {
            self.reader.rest();
        }
        Some(payload)
    }
}

impl CompressionPayload<'_> {
    /// Encodes the payload with its header; `first` is set for the first one of the chain.
    pub fn encode(&self, first: bool, out: &mut Writer<'_>) {
        let original_payload_size =
            self.original_payload_size.filter(|_| has_original_size(self.compression_algorithm));
        out.u16(self.compression_algorithm.0);
        out.u16(if first { CompressionFlags::CHAINED.0 } else { CompressionFlags::NONE.0 });
        out.u32(u32_of(self.payload.len() + if original_payload_size.is_some() { 4 } else { 0 }));
        if let Some(original_payload_size) = original_payload_size {
            out.u32(original_payload_size);
        }
        out.bytes(self.payload);
    }
}

/// Returns whether payloads of this algorithm have `OriginalPayloadSize` (2.2.42.2.1).
fn has_original_size(algorithm: CompressionAlgorithm) -> bool {
    matches!(
        algorithm,
        CompressionAlgorithm::LZNT1
            | CompressionAlgorithm::LZ77
            | CompressionAlgorithm::LZ77_HUFFMAN
            | CompressionAlgorithm::LZ4
    )
}

/// The content of a Pattern_V1 payload (SMB2_COMPRESSION_PATTERN_PAYLOAD_V1, [MS-SMB2] 2.2.42.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PatternPayload {
    /// The repeated byte.
    pub pattern: u8,
    /// The number of repetitions.
    pub repetitions: u32,
}

impl PatternPayload {
    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(payload);
        let pattern = reader.u8()?;
        reader.skip(3)?;
        Ok(PatternPayload { pattern, repetitions: reader.u32()? })
    }

    /// Writes a payload.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u8(self.pattern);
        out.zeros(3);
        out.u32(self.repetitions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{Source, encode_part, golden_part, hex, parts_round_trip};
    use proptest::prelude::*;

    // 2.2.42.1: ProtocolId, OriginalCompressedSegmentSize, CompressionAlgorithm, Flags, Offset.
    #[test]
    fn the_unchained_form() {
        let transform = CompressionTransform::Unchained(UnchainedCompression {
            original_compressed_segment_size: 0x1000,
            compression_algorithm: CompressionAlgorithm::LZ77,
            uncompressed: b"ab",
            compressed: b"cde",
        });
        golden_part!(CompressionTransform, transform, "fc534d42 00100000 0200 0000 02000000 6162 636465");
        let beyond = hex("fc534d42 00100000 0200 0000 06000000 6162 636465");
        assert_eq!(CompressionTransform::decode(&beyond), Err(Malformed::Truncated));
        let unknown = hex("fc534d42 00100000 0200 0200 00000000");
        assert_eq!(CompressionTransform::decode(&unknown), Err(Malformed::Value));
    }

    // 2.2.42.2.1: CompressionAlgorithm, Flags, Length, OriginalPayloadSize.
    const CHAIN: &str =
        "0400 0100 08000000 00 00 0000 00010000  0300 0000 06000000 00200000 abcd  0000 0000 01000000 ef";

    fn payloads() -> Vec<CompressionPayload<'static>> {
        vec![
            CompressionPayload {
                compression_algorithm: CompressionAlgorithm::PATTERN_V1,
                original_payload_size: None,
                payload: &[0, 0, 0, 0, 0, 1, 0, 0],
            },
            CompressionPayload {
                compression_algorithm: CompressionAlgorithm::LZ77_HUFFMAN,
                original_payload_size: Some(0x2000),
                payload: &[0xab, 0xcd],
            },
            CompressionPayload {
                compression_algorithm: CompressionAlgorithm::NONE,
                original_payload_size: None,
                payload: &[0xef],
            },
        ]
    }

    // 2.2.42.2: ProtocolId, OriginalCompressedSegmentSize, payloads.
    #[test]
    fn the_chained_form() {
        let chain = hex(CHAIN);
        let chained = ChainedCompression { original_compressed_segment_size: 0x2101, chain: &chain };
        golden_part!(
            CompressionTransform,
            CompressionTransform::Chained(chained),
            &format!("fc534d42 01210000 {CHAIN}")
        );
        assert_eq!(chained.payloads().collect::<Result<Vec<_>>>(), Ok(payloads()));
        let encoded = encode_part(|out| {
            payloads().iter().enumerate().for_each(|(index, payload)| payload.encode(index == 0, out));
        });
        assert_eq!(encoded, chain);
    }

    #[test]
    fn a_broken_chain_ends_with_its_error() {
        for (at, byte, before, error) in [
            (2, 0, 0, Malformed::Value),
            (18, 1, 1, Malformed::Value),
            (20, 3, 1, Malformed::Truncated),
            (20, 0xff, 1, Malformed::Truncated),
            (34, 2, 2, Malformed::Truncated),
        ] {
            let mut chain = hex(CHAIN);
            chain[at] = byte;
            let chained = ChainedCompression { original_compressed_segment_size: 0, chain: &chain };
            let answers: Vec<_> = chained.payloads().collect();
            assert_eq!(answers.len(), before + 1, "{byte:#x} at {at}");
            assert_eq!(answers[before], Err(error), "{byte:#x} at {at}");
        }
    }

    // 2.2.42.2.2: Pattern, Reserved1, Reserved2, Repetitions.
    #[test]
    fn a_pattern() {
        golden_part!(PatternPayload, PatternPayload { pattern: 0xaa, repetitions: 256 }, "aa 00 0000 00010000");
    }

    parts_round_trip! {
        unchained_round_trip: CompressionTransform<'_> = |s| CompressionTransform::Unchained(UnchainedCompression {
            original_compressed_segment_size: s.u32(),
            compression_algorithm: CompressionAlgorithm(s.u16()),
            uncompressed: s.slice(),
            compressed: s.slice(),
        });
        patterns_round_trip: PatternPayload = |s| PatternPayload { pattern: s.u8(), repetitions: s.u32() };
    }

    proptest! {
        #[test]
        fn chains_round_trip((bytes, _) in Source::strategy()) {
            let payloads = Source::new(&bytes).list(|s| {
                let compression_algorithm = CompressionAlgorithm(s.u16() % 8);
                let original_payload_size = has_original_size(compression_algorithm).then(|| s.u32());
                CompressionPayload { compression_algorithm, original_payload_size, payload: s.slice() }
            });
            let chain = encode_part(|out| {
                payloads.iter().enumerate().for_each(|(index, payload)| payload.encode(index == 0, out));
            });
            let chained = ChainedCompression { original_compressed_segment_size: 0, chain: &chain };
            prop_assert_eq!(chained.payloads().collect::<Result<Vec<_>>>(), Ok(payloads));
        }
    }
}
