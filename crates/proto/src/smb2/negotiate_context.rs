//! The contexts of a 3.1.1 NEGOTIATE ([MS-SMB2] 2.2.3.1, 2.2.4.1): a list of typed data, and the data of the known
//! types.
//!
//! Lists inside a context are not validated. The server and the client check that some are not empty, or have one
//! element in a response (3.3.5.4, 3.2.5.2).

use super::u16_of;
use crate::bytes::{self, Malformed, Reader, Result, Writer};
use crate::flags::flags;
use crate::values::values;
use std::borrow::Cow;

values! {
    /// The type of a negotiate context ([MS-SMB2] 2.2.3.1).
    pub struct NegotiateContextType(u16) {
        /// Hash functions for preauthentication integrity.
        PREAUTH_INTEGRITY_CAPABILITIES = 0x0001;
        /// Ciphers.
        ENCRYPTION_CAPABILITIES = 0x0002;
        /// Compression algorithms.
        COMPRESSION_CAPABILITIES = 0x0003;
        /// The name that the client uses for the server.
        NETNAME_NEGOTIATE_CONTEXT_ID = 0x0005;
        /// Security of the transport.
        TRANSPORT_CAPABILITIES = 0x0006;
        /// RDMA transforms.
        RDMA_TRANSFORM_CAPABILITIES = 0x0007;
        /// Signing algorithms.
        SIGNING_CAPABILITIES = 0x0008;
        /// The POSIX extensions. [MS-SMB2] reserves the number.
        POSIX_EXTENSIONS_AVAILABLE = 0x0100;
    }

    /// A hash function ([MS-SMB2] 2.2.3.1.1).
    pub struct HashAlgorithm(u16) {
        /// SHA-512.
        SHA_512 = 0x0001;
    }

    /// A cipher ([MS-SMB2] 2.2.3.1.2).
    pub struct CipherId(u16) {
        /// AES-128-CCM.
        AES_128_CCM = 0x0001;
        /// AES-128-GCM.
        AES_128_GCM = 0x0002;
        /// AES-256-CCM.
        AES_256_CCM = 0x0003;
        /// AES-256-GCM.
        AES_256_GCM = 0x0004;
    }

    /// A compression algorithm ([MS-SMB2] 2.2.3.1.3).
    pub struct CompressionAlgorithm(u16) {
        /// None.
        NONE = 0x0000;
        /// LZNT1.
        LZNT1 = 0x0001;
        /// LZ77.
        LZ77 = 0x0002;
        /// LZ77 with Huffman coding.
        LZ77_HUFFMAN = 0x0003;
        /// One byte, repeated.
        PATTERN_V1 = 0x0004;
        /// LZ4.
        LZ4 = 0x0005;
    }

    /// A transform of data sent over RDMA ([MS-SMB2] 2.2.3.1.6).
    pub struct RdmaTransformId(u16) {
        /// None.
        NONE = 0x0000;
        /// Encryption.
        ENCRYPTION = 0x0001;
        /// Signing.
        SIGNING = 0x0002;
    }

    /// A signing algorithm ([MS-SMB2] 2.2.3.1.7).
    pub struct SigningAlgorithm(u16) {
        /// HMAC-SHA256.
        HMAC_SHA256 = 0x0000;
        /// AES-CMAC.
        AES_CMAC = 0x0001;
        /// AES-GMAC.
        AES_GMAC = 0x0002;
    }
}

flags! {
    /// Compression options ([MS-SMB2] 2.2.3.1.3).
    pub struct CompressionCapabilitiesFlags(u32) {
        /// Chained payloads are supported.
        CHAINED = 0x0000_0001;
    }

    /// Transport options ([MS-SMB2] 2.2.3.1.5).
    pub struct TransportCapabilitiesFlags(u32) {
        /// The transport's own security may replace SMB2 encryption.
        ACCEPT_TRANSPORT_LEVEL_SECURITY = 0x0000_0001;
    }
}

/// One context of any type.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct NegotiateContext<'a> {
    /// The type of `data`.
    pub context_type: NegotiateContextType,
    /// The data, which one of the structures below decodes.
    pub data: Cow<'a, [u8]>,
}

impl<'a> NegotiateContext<'a> {
    const SIZE: usize = 8;

    /// Decodes `count` contexts at `offset` of `message`, which must not be less than `fixed`. Each begins at a
    /// multiple of 8; the last may lack its padding.
    pub(super) fn decode_list(message: &'a [u8], offset: usize, count: u16, fixed: usize) -> Result<Vec<Self>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let length = message.len().checked_sub(offset).ok_or(Malformed::Offset)?;
        // A count that cannot fit is refused before memory is allocated for it.
        if length < usize::from(count) * Self::SIZE {
            return Err(Malformed::Truncated);
        }
        let mut reader = Reader::new(bytes::field(message, offset, length, fixed)?);
        let mut contexts = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let padding = reader.position().next_multiple_of(8) - reader.position();
            reader.skip(padding)?;
            let context_type = NegotiateContextType(reader.u16()?);
            let data_length = usize::from(reader.u16()?);
            reader.skip(4)?;
            contexts.push(NegotiateContext { context_type, data: reader.take(data_length)?.into() });
        }
        Ok(contexts)
    }

    /// Writes the contexts at the next multiple of 8 and returns that offset, or 0 if there are none.
    pub(super) fn encode_list(contexts: &[Self], out: &mut Writer<'_>) -> usize {
        if contexts.is_empty() {
            return 0;
        }
        out.pad_to(8);
        let offset = out.position();
        for context in contexts {
            out.pad_to(8);
            out.u16(context.context_type.0);
            out.u16(u16_of(context.data.len()));
            out.u32(0);
            out.bytes(&context.data);
        }
        offset
    }
}

/// Builds a context from the data that `fill` writes.
fn context(context_type: NegotiateContextType, fill: impl FnOnce(&mut Writer<'_>)) -> NegotiateContext<'static> {
    let mut data = Vec::new();
    fill(&mut Writer::new(&mut data));
    NegotiateContext { context_type, data: data.into() }
}

/// Decodes `count` 16-bit identifiers.
fn identifiers<T>(reader: &mut Reader<'_>, count: u16, of: impl Fn(u16) -> T) -> Result<Vec<T>> {
    let (pairs, _) = reader.take(usize::from(count) * 2)?.as_chunks::<2>();
    Ok(pairs.iter().map(|pair| of(u16::from_le_bytes(*pair))).collect())
}

/// SMB2_PREAUTH_INTEGRITY_CAPABILITIES ([MS-SMB2] 2.2.3.1.1).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PreauthIntegrityCapabilities<'a> {
    /// The hash functions.
    pub hash_algorithms: Vec<HashAlgorithm>,
    /// A salt, which makes the hash different on each connection.
    pub salt: Cow<'a, [u8]>,
}

impl<'a> PreauthIntegrityCapabilities<'a> {
    /// Reads the data of a context.
    pub fn decode(data: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(data);
        let (count, salt_length) = (reader.u16()?, reader.u16()?);
        let hash_algorithms = identifiers(&mut reader, count, HashAlgorithm)?;
        Ok(PreauthIntegrityCapabilities { hash_algorithms, salt: reader.take(salt_length.into())?.into() })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> NegotiateContext<'static> {
        context(NegotiateContextType::PREAUTH_INTEGRITY_CAPABILITIES, |out| {
            out.u16(u16_of(self.hash_algorithms.len()));
            out.u16(u16_of(self.salt.len()));
            self.hash_algorithms.iter().for_each(|algorithm| out.u16(algorithm.0));
            out.bytes(&self.salt);
        })
    }
}

/// SMB2_ENCRYPTION_CAPABILITIES ([MS-SMB2] 2.2.3.1.2).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct EncryptionCapabilities {
    /// The ciphers, best first.
    pub ciphers: Vec<CipherId>,
}

impl EncryptionCapabilities {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(data);
        let count = reader.u16()?;
        Ok(EncryptionCapabilities { ciphers: identifiers(&mut reader, count, CipherId)? })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> NegotiateContext<'static> {
        context(NegotiateContextType::ENCRYPTION_CAPABILITIES, |out| {
            out.u16(u16_of(self.ciphers.len()));
            self.ciphers.iter().for_each(|cipher| out.u16(cipher.0));
        })
    }
}

/// SMB2_COMPRESSION_CAPABILITIES ([MS-SMB2] 2.2.3.1.3).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CompressionCapabilities {
    /// Whether chained compression is supported.
    pub flags: CompressionCapabilitiesFlags,
    /// The algorithms, best first.
    pub compression_algorithms: Vec<CompressionAlgorithm>,
}

impl CompressionCapabilities {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(data);
        let count = reader.u16()?;
        reader.skip(2)?;
        let flags = CompressionCapabilitiesFlags(reader.u32()?);
        let compression_algorithms = identifiers(&mut reader, count, CompressionAlgorithm)?;
        Ok(CompressionCapabilities { flags, compression_algorithms })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> NegotiateContext<'static> {
        context(NegotiateContextType::COMPRESSION_CAPABILITIES, |out| {
            out.u16(u16_of(self.compression_algorithms.len()));
            out.u16(0);
            out.u32(self.flags.0);
            self.compression_algorithms.iter().for_each(|algorithm| out.u16(algorithm.0));
        })
    }
}

/// SMB2_NETNAME_NEGOTIATE_CONTEXT_ID ([MS-SMB2] 2.2.3.1.4).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Netname<'a> {
    /// The server's name, UTF-16LE.
    pub net_name: Cow<'a, [u8]>,
}

impl<'a> Netname<'a> {
    /// Reads the data of a context.
    pub fn decode(data: &'a [u8]) -> Result<Self> {
        if data.len().is_multiple_of(2) { Ok(Netname { net_name: data.into() }) } else { Err(Malformed::Value) }
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> NegotiateContext<'static> {
        context(NegotiateContextType::NETNAME_NEGOTIATE_CONTEXT_ID, |out| out.bytes(&self.net_name))
    }
}

/// SMB3_POSIX_EXTENSIONS_AVAILABLE ([POSIX-SMB2] 2.2.3.1.8, a draft of the Samba team): the versions of the extensions.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PosixExtensions {
    /// The versions, of which there is only [one](PosixExtensions::VERSION) so far.
    pub versions: Vec<[u8; 16]>,
}

impl PosixExtensions {
    /// The only version. It is also the name of the create context.
    pub const VERSION: [u8; 16] =
        [0x93, 0xad, 0x25, 0x50, 0x9c, 0xb4, 0x11, 0xe7, 0xb4, 0x23, 0x83, 0xde, 0x96, 0x8b, 0xcd, 0x7c];

    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        match data.as_chunks::<16>() {
            (versions, []) => Ok(PosixExtensions { versions: versions.to_vec() }),
            _ => Err(Malformed::Structure),
        }
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> NegotiateContext<'static> {
        context(NegotiateContextType::POSIX_EXTENSIONS_AVAILABLE, |out| {
            self.versions.iter().for_each(|version| out.bytes(version));
        })
    }
}

/// SMB2_TRANSPORT_CAPABILITIES ([MS-SMB2] 2.2.3.1.5).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TransportCapabilities {
    /// The transport options.
    pub flags: TransportCapabilitiesFlags,
}

impl TransportCapabilities {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        Ok(TransportCapabilities { flags: TransportCapabilitiesFlags(Reader::new(data).u32()?) })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> NegotiateContext<'static> {
        context(NegotiateContextType::TRANSPORT_CAPABILITIES, |out| out.u32(self.flags.0))
    }
}

/// SMB2_RDMA_TRANSFORM_CAPABILITIES ([MS-SMB2] 2.2.3.1.6).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RdmaTransformCapabilities {
    /// The transforms.
    pub rdma_transform_ids: Vec<RdmaTransformId>,
}

impl RdmaTransformCapabilities {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(data);
        let count = reader.u16()?;
        reader.skip(6)?;
        Ok(RdmaTransformCapabilities { rdma_transform_ids: identifiers(&mut reader, count, RdmaTransformId)? })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> NegotiateContext<'static> {
        context(NegotiateContextType::RDMA_TRANSFORM_CAPABILITIES, |out| {
            out.u16(u16_of(self.rdma_transform_ids.len()));
            out.zeros(6);
            self.rdma_transform_ids.iter().for_each(|id| out.u16(id.0));
        })
    }
}

/// SMB2_SIGNING_CAPABILITIES ([MS-SMB2] 2.2.3.1.7).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SigningCapabilities {
    /// The algorithms, best first.
    pub signing_algorithms: Vec<SigningAlgorithm>,
}

impl SigningCapabilities {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(data);
        let count = reader.u16()?;
        Ok(SigningCapabilities { signing_algorithms: identifiers(&mut reader, count, SigningAlgorithm)? })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> NegotiateContext<'static> {
        context(NegotiateContextType::SIGNING_CAPABILITIES, |out| {
            out.u16(u16_of(self.signing_algorithms.len()));
            self.signing_algorithms.iter().for_each(|algorithm| out.u16(algorithm.0));
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::context_bodies;

    context_bodies! {
        posix_extensions: PosixExtensions,
            PosixExtensions { versions: vec![PosixExtensions::VERSION] } => "93ad25509cb411e7b42383de968bcd7c",
            |s| PosixExtensions { versions: s.list(|s| s.array::<16>()) };
        // 2.2.3.1.1: HashAlgorithmCount, SaltLength, HashAlgorithms, Salt.
        preauth_integrity: PreauthIntegrityCapabilities<'_>,
            PreauthIntegrityCapabilities {
                hash_algorithms: vec![HashAlgorithm::SHA_512],
                salt: (&[1, 2, 3][..]).into(),
            }
                => "0100 0300 0100 010203",
            |s| PreauthIntegrityCapabilities {
                hash_algorithms: s.list(|s| HashAlgorithm(s.u16())),
                salt: s.slice().into(),
            };
        // 2.2.3.1.2: CipherCount, Ciphers.
        encryption: EncryptionCapabilities,
            EncryptionCapabilities { ciphers: vec![CipherId::AES_256_GCM, CipherId(0xffff)] } => "0200 0400 ffff",
            |s| EncryptionCapabilities { ciphers: s.list(|s| CipherId(s.u16())) };
        // 2.2.3.1.3: CompressionAlgorithmCount, Padding, Flags, CompressionAlgorithms.
        compression: CompressionCapabilities,
            CompressionCapabilities {
                flags: CompressionCapabilitiesFlags::CHAINED,
                compression_algorithms: vec![CompressionAlgorithm::PATTERN_V1, CompressionAlgorithm::LZ77],
            } => "0200 0000 01000000 0400 0200",
            |s| CompressionCapabilities {
                flags: CompressionCapabilitiesFlags(s.u32()),
                compression_algorithms: s.list(|s| CompressionAlgorithm(s.u16())),
            };
        // 2.2.3.1.4: NetName.
        netname: Netname<'_>,
            Netname { net_name: (&b"a\0b\0"[..]).into() } => "6100 6200",
            |s| Netname { net_name: s.utf16().into() };
        // 2.2.3.1.5: Flags.
        transport: TransportCapabilities,
            TransportCapabilities { flags: TransportCapabilitiesFlags::ACCEPT_TRANSPORT_LEVEL_SECURITY } => "01000000",
            |s| TransportCapabilities { flags: TransportCapabilitiesFlags(s.u32()) };
        // 2.2.3.1.6: TransformCount, Reserved1, Reserved2, RDMATransformIds.
        rdma_transform: RdmaTransformCapabilities,
            RdmaTransformCapabilities { rdma_transform_ids: vec![RdmaTransformId::SIGNING] }
                => "0100 0000 00000000 0200",
            |s| RdmaTransformCapabilities { rdma_transform_ids: s.list(|s| RdmaTransformId(s.u16())) };
        // 2.2.3.1.7: SigningAlgorithmCount, SigningAlgorithms.
        signing: SigningCapabilities,
            SigningCapabilities { signing_algorithms: vec![SigningAlgorithm::AES_GMAC, SigningAlgorithm::HMAC_SHA256] }
                => "0200 0200 0000",
            |s| SigningCapabilities { signing_algorithms: s.list(|s| SigningAlgorithm(s.u16())) };
    }

    #[test]
    fn counts_beyond_the_data_are_refused() {
        assert_eq!(EncryptionCapabilities::decode(&[2, 0, 1, 0]), Err(Malformed::Truncated));
        assert_eq!(SigningCapabilities::decode(&[0xff, 0xff]), Err(Malformed::Truncated));
        assert_eq!(PreauthIntegrityCapabilities::decode(&[1, 0, 1, 0, 1, 0]), Err(Malformed::Truncated));
        assert_eq!(Netname::decode(&[0x61]), Err(Malformed::Value));
    }
}
