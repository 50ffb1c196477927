//! Buffers of file system controls ([MS-FSCC] 2.3) of fixed size, or composed of such parts. The codes are defined with
//! the IOCTL request. Not implemented: NTFS and ReFS volume data, USN records, retrieval pointers.

use super::field::structures;
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::dtyp::Guid;
use crate::flags::flags;
use crate::smb2::FileId;
use crate::values::values;

values! {
    /// The compression of a file ([MS-FSCC] 2.3.18, 2.3.67).
    pub struct CompressionFormat(u16) {
        /// Not compressed.
        NONE = 0;
        /// The server's default; only in a request.
        DEFAULT = 1;
        /// LZNT1.
        LZNT1 = 2;
    }

    /// The integrity checksum of a file ([MS-FSCC] 2.3.20, 2.3.73).
    pub struct ChecksumAlgorithm(u16) {
        /// No checksum.
        NONE = 0x0000;
        /// CRC32.
        CRC32 = 0x0001;
        /// CRC64.
        CRC64 = 0x0002;
        /// Unchanged; only in a request.
        UNCHANGED = 0xffff;
    }
}

flags! {
    /// The enforcement of integrity ([MS-FSCC] 2.3.20).
    pub struct IntegrityFlags(u32) {
        /// A wrong checksum is tolerated.
        CHECKSUM_ENFORCEMENT_OFF = 0x0000_0001;
    }

    /// The type of a region of a file ([MS-FSCC] 2.3.55).
    pub struct FileRegionUsage(u32) {
        /// Valid data in the cache.
        VALID_CACHED_DATA = 0x0000_0001;
        /// Valid data on disk.
        VALID_NONCACHED_DATA = 0x0000_0002;
    }

    /// Options for duplicating extents ([MS-FSCC] 2.3.9.2).
    pub struct DuplicateExtentsFlags(u32) {
        /// Atomic with respect to the source.
        SOURCE_ATOMIC = 0x0000_0001;
    }
}

structures! {
    /// FILE_ALLOCATED_RANGE_BUFFER ([MS-FSCC] 2.3.51, 2.3.52): the requested range, and each range of the response.
    FileAllocatedRange(16) {
        /// First byte, signed on the wire.
        file_offset: u64,
        /// Length in bytes, signed on the wire.
        length: u64,
    }

    /// FILE_ZERO_DATA_INFORMATION ([MS-FSCC] 2.3.85).
    FileZeroData(16) {
        /// First byte, signed on the wire.
        file_offset: u64,
        /// The first byte after the zeros, signed on the wire.
        beyond_final_zero: u64,
    }

    /// FILE_LEVEL_TRIM_RANGE ([MS-FSCC] 2.3.13.1).
    FileLevelTrimRange(16) {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    }

    /// FILE_LEVEL_TRIM_OUTPUT ([MS-FSCC] 2.3.14).
    FileLevelTrimOutput(4) {
        /// The number of processed ranges.
        num_ranges_processed: u32,
    }

    /// FILE_OBJECTID_BUFFER of type 1 ([MS-FSCC] 2.1.3.1).
    FileObjectIdBuffer(64) {
        /// The id of the file.
        object_id: Guid,
        /// The id of the volume where it was created.
        birth_volume_id: Guid,
        /// The id with which it was created.
        birth_object_id: Guid,
        /// Zeros.
        domain_id: Guid,
    }

    /// The extended part of FILE_OBJECTID_BUFFER ([MS-FSCC] 2.1.3.1): the input of FSCTL_SET_OBJECT_ID_EXTENDED.
    ObjectIdExtended(48) {
        /// The id of the volume where it was created.
        birth_volume_id: Guid,
        /// The id with which it was created.
        birth_object_id: Guid,
        /// Zeros.
        domain_id: Guid,
    }

    /// The state of FSCTL_GET_COMPRESSION and FSCTL_SET_COMPRESSION ([MS-FSCC] 2.3.18, 2.3.67).
    CompressionState(2) {
        /// The compression of the file.
        compression_state: CompressionFormat,
    }

    /// FSCTL_GET_INTEGRITY_INFORMATION_BUFFER ([MS-FSCC] 2.3.20).
    GetIntegrityInformation(16) {
        /// The integrity checksum.
        checksum_algorithm: ChecksumAlgorithm [2 reserved],
        /// Its enforcement.
        flags: IntegrityFlags,
        /// Bytes covered by one checksum.
        checksum_chunk_size_in_bytes: u32,
        /// Bytes in a cluster.
        cluster_size_in_bytes: u32,
    }

    /// FSCTL_SET_INTEGRITY_INFORMATION_BUFFER ([MS-FSCC] 2.3.73).
    SetIntegrityInformation(8) {
        /// The new integrity checksum.
        checksum_algorithm: ChecksumAlgorithm [2 reserved],
        /// Its enforcement.
        flags: IntegrityFlags,
    }

    /// FSCTL_SET_INTEGRITY_INFORMATION_BUFFER_EX ([MS-FSCC] 2.3.75).
    SetIntegrityInformationEx(16) {
        /// Whether to enable integrity.
        enable_integrity: bool,
        /// Whether the integrity state stays unchanged instead.
        keep_integrity_state_unchanged: bool [2 reserved],
        /// The enforcement of integrity.
        flags: IntegrityFlags,
        /// 1.
        version: u8 [7 reserved],
    }

    /// SMB2_DUPLICATE_EXTENTS_DATA ([MS-FSCC] 2.3.7.2).
    DuplicateExtentsData(40) {
        /// The open of the source file.
        source_file_id: FileId,
        /// First byte in the source, signed on the wire.
        source_file_offset: u64,
        /// First byte in the target, signed on the wire.
        target_file_offset: u64,
        /// Length in bytes, signed on the wire.
        byte_count: u64,
    }

    /// SMB2_DUPLICATE_EXTENTS_DATA_EX ([MS-FSCC] 2.3.9.2). The fields add up to 56 bytes, but the specification
    /// requires 48 (0x30) in the first of them.
    DuplicateExtentsDataEx(56) {
        /// 0x30.
        structure_size: u64,
        /// The open of the source file.
        source_file_id: FileId,
        /// First byte in the source, signed on the wire.
        source_file_offset: u64,
        /// First byte in the target, signed on the wire.
        target_file_offset: u64,
        /// Length in bytes, signed on the wire.
        byte_count: u64,
        /// The options.
        flags: DuplicateExtentsFlags [4 reserved],
    }

    /// FILE_REGION_INPUT ([MS-FSCC] 2.3.55).
    FileRegionInput(24) {
        /// First byte, signed on the wire.
        file_offset: u64,
        /// Length in bytes, signed on the wire.
        length: u64,
        /// The type of the requested regions.
        desired_usage: FileRegionUsage [4 reserved],
    }

    /// The fixed part of FILE_REGION_OUTPUT ([MS-FSCC] 2.3.56); the regions follow.
    FileRegionOutput(16) {
        /// 0.
        flags: u32,
        /// The number of regions.
        total_region_entry_count: u32,
        /// The number of regions that follow.
        region_entry_count: u32 [4 reserved],
    }

    /// FILE_REGION_INFO ([MS-FSCC] 2.3.56.1).
    FileRegionInfo(24) {
        /// First byte, signed on the wire.
        file_offset: u64,
        /// Length in bytes, signed on the wire.
        length: u64,
        /// The type of the region.
        desired_usage: FileRegionUsage [4 reserved],
    }
}

super::field::fields! {
    CompressionFormat ChecksumAlgorithm IntegrityFlags FileRegionUsage DuplicateExtentsFlags
}

impl super::field::Field for FileId {
    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        FileId::decode(reader)
    }

    fn write(&self, out: &mut Writer<'_>) {
        self.encode(out);
    }
}

/// Decodes the input of FSCTL_SET_SPARSE ([MS-FSCC] 2.3.83): whether the file becomes sparse. Without input, it does.
pub fn decode_set_sparse(input: &[u8]) -> bool {
    input.first().is_none_or(|set_sparse| *set_sparse != 0)
}

/// FILE_LEVEL_TRIM ([MS-FSCC] 2.3.13).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileLevelTrim {
    /// Identifies the byte-range locks that belong to the caller.
    pub key: u32,
    /// The ranges that are no longer needed.
    pub ranges: Vec<FileLevelTrimRange>,
}

impl FileLevelTrim {
    /// Decodes the structure. A count that exceeds the input is [`Malformed::Truncated`].
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let key = reader.u32()?;
        let count = usize::try_from(reader.u32()?).map_err(|_| Malformed::Truncated)?;
        if count > reader.remaining() / FileLevelTrimRange::SIZE {
            return Err(Malformed::Truncated);
        }
        let ranges = (0..count).map(|_| FileLevelTrimRange::decode(reader)).collect::<Result<_>>()?;
        Ok(FileLevelTrim { key, ranges })
    }

    /// Appends the structure.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u32(self.key);
        out.u32(u32::try_from(self.ranges.len()).expect("far fewer than 2^32 ranges"));
        self.ranges.iter().for_each(|range| range.encode(out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sparse() {
        for (input, sparse) in [(&[][..], true), (&[0], false), (&[1], true), (&[0x80, 0], true), (&[0, 1], false)] {
            assert_eq!(decode_set_sparse(input), sparse, "{input:?}");
        }
    }

    #[test]
    fn trim() {
        let trim = FileLevelTrim { key: 1, ranges: vec![FileLevelTrimRange { offset: 2, length: 3 }] };
        let wire = [1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
        let mut out = Vec::new();
        trim.encode(&mut Writer::new(&mut out));
        assert_eq!(out, wire);
        assert_eq!(FileLevelTrim::decode(&mut Reader::new(&wire)), Ok(trim));
        assert_eq!(FileLevelTrim::decode(&mut Reader::new(&[0xff; 24])), Err(Malformed::Truncated));
    }

    #[test]
    fn duplicate_extents() {
        let bytes: Vec<u8> = (0..56).collect();
        let plain = DuplicateExtentsData::decode(&mut Reader::new(&bytes)).expect("the buffer is long enough");
        let offsets = [plain.source_file_offset, plain.target_file_offset, plain.byte_count];
        assert_eq!(offsets.map(|value| value as u8), [16, 24, 32]);
        let extended = DuplicateExtentsDataEx::decode(&mut Reader::new(&bytes)).expect("the buffer is long enough");
        let offsets = [extended.source_file_offset, extended.target_file_offset, extended.byte_count];
        assert_eq!(offsets.map(|value| value as u8), [24, 32, 40]);
        assert_eq!((extended.source_file_id.persistent as u8, extended.flags.0 as u8), (8, 48));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = FileLevelTrim::decode(&mut Reader::new(&bytes));
        }
    }
}
