//! Information about the file system of a share ([MS-FSCC] 2.5).

use super::field::structures;
use super::name::{decode_name, decode_text, encode_name};
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::dtyp::{FileTime, Guid};
use crate::flags::flags;
use crate::values::values;

flags! {
    /// The features of a file system ([MS-FSCC] 2.5.1).
    pub struct FileSystemAttributes(u32) {
        /// Names can be looked up case-sensitively.
        CASE_SENSITIVE_SEARCH = 0x0000_0001;
        /// The case of names is kept.
        CASE_PRESERVED_NAMES = 0x0000_0002;
        /// Names are Unicode.
        UNICODE_ON_DISK = 0x0000_0004;
        /// ACLs are stored and enforced.
        PERSISTENT_ACLS = 0x0000_0008;
        /// Individual files can be compressed.
        FILE_COMPRESSION = 0x0000_0010;
        /// Quotas per user.
        VOLUME_QUOTAS = 0x0000_0020;
        /// Sparse files.
        SUPPORTS_SPARSE_FILES = 0x0000_0040;
        /// Reparse points.
        SUPPORTS_REPARSE_POINTS = 0x0000_0080;
        /// Remote storage.
        SUPPORTS_REMOTE_STORAGE = 0x0000_0100;
        /// Returns information about additional actions at cleanup.
        RETURNS_CLEANUP_RESULT_INFO = 0x0000_0200;
        /// Deletes and renames with POSIX semantics.
        SUPPORTS_POSIX_UNLINK_RENAME = 0x0000_0400;
        /// The whole volume is compressed.
        VOLUME_IS_COMPRESSED = 0x0000_8000;
        /// Object ids.
        SUPPORTS_OBJECT_IDS = 0x0001_0000;
        /// Encrypted files.
        SUPPORTS_ENCRYPTION = 0x0002_0000;
        /// Named streams.
        NAMED_STREAMS = 0x0004_0000;
        /// Mounted read-only.
        READ_ONLY_VOLUME = 0x0008_0000;
        /// Write-once.
        SEQUENTIAL_WRITE_ONCE = 0x0010_0000;
        /// Transactions.
        SUPPORTS_TRANSACTIONS = 0x0020_0000;
        /// Hard links.
        SUPPORTS_HARD_LINKS = 0x0040_0000;
        /// Extended attributes.
        SUPPORTS_EXTENDED_ATTRIBUTES = 0x0080_0000;
        /// Files can be opened by id.
        SUPPORTS_OPEN_BY_FILE_ID = 0x0100_0000;
        /// A change journal.
        SUPPORTS_USN_JOURNAL = 0x0200_0000;
        /// Integrity streams.
        SUPPORT_INTEGRITY_STREAMS = 0x0400_0000;
        /// Files can share clusters.
        SUPPORTS_BLOCK_REFCOUNTING = 0x0800_0000;
        /// Valid data is tracked per cluster.
        SUPPORTS_SPARSE_VDL = 0x1000_0000;
    }

    /// Flags of quotas and content indexing ([MS-FSCC] 2.5.2).
    pub struct FileSystemControlFlags(u32) {
        /// Quotas are tracked, not enforced.
        QUOTA_TRACK = 0x0000_0001;
        /// Quotas are enforced.
        QUOTA_ENFORCE = 0x0000_0002;
        /// Content is not indexed.
        CONTENT_INDEX_DISABLED = 0x0000_0008;
        /// Log when a user exceeds the threshold.
        LOG_QUOTA_THRESHOLD = 0x0000_0010;
        /// Log when a user exceeds the limit.
        LOG_QUOTA_LIMIT = 0x0000_0020;
        /// Log when the volume's threshold is exceeded.
        LOG_VOLUME_THRESHOLD = 0x0000_0040;
        /// Log when the volume's limit is exceeded.
        LOG_VOLUME_LIMIT = 0x0000_0080;
        /// Quotas are incomplete.
        QUOTAS_INCOMPLETE = 0x0000_0100;
        /// Quotas are being rebuilt.
        QUOTAS_REBUILDING = 0x0000_0200;
    }

    /// The sector layout of the device ([MS-FSCC] 2.5.7).
    pub struct SectorSizeFlags(u32) {
        /// The first physical sector is aligned with the first logical one.
        ALIGNED_DEVICE = 0x0000_0001;
        /// The partition is aligned with physical sectors.
        PARTITION_ALIGNED_ON_DEVICE = 0x0000_0002;
        /// Seeking has no cost.
        NO_SEEK_PENALTY = 0x0000_0004;
        /// The device supports TRIM.
        TRIM_ENABLED = 0x0000_0008;
    }

    /// The characteristics of the device with the volume ([MS-FSCC] 2.5.10).
    pub struct DeviceCharacteristics(u32) {
        /// The medium can be removed.
        REMOVABLE_MEDIA = 0x0000_0001;
        /// The device is read-only.
        READ_ONLY_DEVICE = 0x0000_0002;
        /// A floppy disk.
        FLOPPY_DISKETTE = 0x0000_0004;
        /// The medium is write-once.
        WRITE_ONCE_MEDIA = 0x0000_0008;
        /// A remote file system.
        REMOTE_DEVICE = 0x0000_0010;
        /// A file system is mounted.
        DEVICE_IS_MOUNTED = 0x0000_0020;
        /// The volume does not have a medium of its own.
        VIRTUAL_VOLUME = 0x0000_0040;
        /// The ACL of the volume itself is checked as well.
        DEVICE_SECURE_OPEN = 0x0000_0100;
        /// Part of a terminal service.
        TS_DEVICE = 0x0000_1000;
        /// WebDAV.
        WEBDAV_DEVICE = 0x0000_2000;
        /// The whole device can be removed.
        PORTABLE_DEVICE = 0x0000_4000;
        /// App containers may traverse.
        ALLOW_APPCONTAINER_TRAVERSAL = 0x0002_0000;
    }
}

values! {
    /// The type of device with the volume ([MS-FSCC] 2.5.10).
    pub struct DeviceType(u32) {
        /// A CD-ROM.
        CD_ROM = 0x0000_0002;
        /// A disk.
        DISK = 0x0000_0007;
        /// A printer (FILE_DEVICE_PRINTER, which [MS-FSCC] 2.5.10 does not list).
        PRINTER = 0x0000_0018;
    }
}

structures! {
    /// FILE_FS_CONTROL_INFORMATION ([MS-FSCC] 2.5.2).
    FileFsControlInformation(48) {
        /// 0.
        free_space_start_filtering: u64,
        /// 0.
        free_space_threshold: u64,
        /// 0.
        free_space_stop_filtering: u64,
        /// The number of bytes from which a user is warned; all ones for never.
        default_quota_threshold: u64,
        /// The number of bytes that a user may occupy; all ones for no limit.
        default_quota_limit: u64,
        /// Flags of quotas and content indexing.
        file_system_control_flags: FileSystemControlFlags [4 reserved],
    }

    /// FILE_FS_DEVICE_INFORMATION ([MS-FSCC] 2.5.10).
    FileFsDeviceInformation(8) {
        /// The type of device.
        device_type: DeviceType,
        /// The characteristics of the device.
        characteristics: DeviceCharacteristics,
    }

    /// FILE_FS_FULL_SIZE_INFORMATION ([MS-FSCC] 2.5.4).
    FileFsFullSizeInformation(32) {
        /// Allocation units of the volume that are available to the user in total.
        total_allocation_units: u64,
        /// Free allocation units that are available to the user.
        caller_available_allocation_units: u64,
        /// Free allocation units.
        actual_available_allocation_units: u64,
        /// Sectors per allocation unit.
        sectors_per_allocation_unit: u32,
        /// Bytes per sector.
        bytes_per_sector: u32,
    }

    /// FILE_FS_OBJECTID_INFORMATION ([MS-FSCC] 2.5.6).
    FileFsObjectIdInformation(64) {
        /// The id of the volume.
        object_id: Guid,
        /// The data stored with it, or zeros.
        extended_info: ExtendedInfo,
    }

    /// FILE_FS_SECTOR_SIZE_INFORMATION ([MS-FSCC] 2.5.7).
    FileFsSectorSizeInformation(28) {
        /// Bytes per logical sector.
        logical_bytes_per_sector: u32,
        /// Bytes that the device writes atomically.
        physical_bytes_per_sector_for_atomicity: u32,
        /// The write size for the best performance of the device, in bytes.
        physical_bytes_per_sector_for_performance: u32,
        /// Bytes that the file system writes atomically.
        file_system_effective_physical_bytes_per_sector_for_atomicity: u32,
        /// The sector layout of the device.
        flags: SectorSizeFlags,
        /// The offset of the first logical sector in the first physical one; all ones if unknown.
        byte_offset_for_sector_alignment: u32,
        /// The offset of the partition's start in a physical sector; all ones if unknown.
        byte_offset_for_partition_alignment: u32,
    }

    /// FILE_FS_SIZE_INFORMATION ([MS-FSCC] 2.5.8).
    FileFsSizeInformation(24) {
        /// Allocation units of the volume that are available to the user in total.
        total_allocation_units: u64,
        /// Free allocation units that are available to the user.
        available_allocation_units: u64,
        /// Sectors per allocation unit.
        sectors_per_allocation_unit: u32,
        /// Bytes per sector.
        bytes_per_sector: u32,
    }
}

/// The data stored with the object id of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtendedInfo(pub [u8; 48]);

impl Default for ExtendedInfo {
    fn default() -> Self {
        ExtendedInfo([0; 48])
    }
}

super::field::fields! {
    FileSystemControlFlags SectorSizeFlags DeviceCharacteristics DeviceType ExtendedInfo
}

/// FILE_FS_ATTRIBUTE_INFORMATION ([MS-FSCC] 2.5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileFsAttributeInformation<'a> {
    /// The features of the file system.
    pub file_system_attributes: FileSystemAttributes,
    /// The maximum number of UTF-16 code units of a name.
    pub maximum_component_name_length: u32,
    /// The name of the file system in UTF-16LE.
    pub file_system_name: &'a [u8],
}

impl<'a> FileFsAttributeInformation<'a> {
    /// The size of the fixed part before the name, in bytes.
    pub const FIXED_SIZE: usize = 12;

    /// Reads the structure.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(FileFsAttributeInformation {
            file_system_attributes: FileSystemAttributes(reader.u32()?),
            maximum_component_name_length: reader.u32()?,
            file_system_name: decode_name(reader)?,
        })
    }

    /// Appends the structure.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u32(self.file_system_attributes.0);
        out.u32(self.maximum_component_name_length);
        encode_name(self.file_system_name, out);
    }
}

/// FILE_FS_VOLUME_INFORMATION ([MS-FSCC] 2.5.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileFsVolumeInformation<'a> {
    /// When the volume was created.
    pub volume_creation_time: FileTime,
    /// A number that need not be unique.
    pub volume_serial_number: u32,
    /// Whether the file system is object-oriented.
    pub supports_objects: bool,
    /// The label in UTF-16LE. Only the first 32 code units of a longer one.
    pub volume_label: &'a [u8],
}

impl<'a> FileFsVolumeInformation<'a> {
    /// The size of the fixed part before the label, in bytes.
    pub const FIXED_SIZE: usize = 18;

    /// Reads the structure.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let volume_creation_time = FileTime::decode(reader)?;
        let volume_serial_number = reader.u32()?;
        let length = usize::try_from(reader.u32()?).map_err(|_| Malformed::Truncated)?;
        let supports_objects = reader.u8()? != 0;
        reader.skip(1)?;
        let volume_label = decode_text(reader, length)?;
        Ok(FileFsVolumeInformation { volume_creation_time, volume_serial_number, supports_objects, volume_label })
    }

    /// Appends the structure.
    pub fn encode(&self, out: &mut Writer<'_>) {
        self.volume_creation_time.encode(out);
        out.u32(self.volume_serial_number);
        out.u32(u32::try_from(self.volume_label.len()).expect("a label is far shorter than 4 GiB"));
        out.u8(u8::from(self.supports_objects));
        out.u8(0);
        out.bytes(self.volume_label);
    }
}

/// FILE_FS_LABEL_INFORMATION ([MS-FSCC] 2.5.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileFsLabelInformation<'a> {
    /// The label in UTF-16LE.
    pub volume_label: &'a [u8],
}

impl<'a> FileFsLabelInformation<'a> {
    /// Reads the structure.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(FileFsLabelInformation { volume_label: decode_name(reader)? })
    }

    /// Appends the structure.
    pub fn encode(&self, out: &mut Writer<'_>) {
        encode_name(self.volume_label, out);
    }
}

/// FILE_FS_DRIVER_PATH_INFORMATION ([MS-FSCC] 2.5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileFsDriverPathInformation<'a> {
    /// Whether the driver is in the volume's I/O path.
    pub driver_in_path: bool,
    /// The driver's name in UTF-16LE.
    pub driver_name: &'a [u8],
}

impl<'a> FileFsDriverPathInformation<'a> {
    /// The size of the fixed part before the name, in bytes.
    pub const FIXED_SIZE: usize = 8;

    /// Reads the structure.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let driver_in_path = reader.u8()? != 0;
        reader.skip(3)?;
        Ok(FileFsDriverPathInformation { driver_in_path, driver_name: decode_name(reader)? })
    }

    /// Appends the structure.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u8(u8::from(self.driver_in_path));
        out.zeros(3);
        encode_name(self.driver_name, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut Writer::new(&mut out));
        out
    }

    #[test]
    fn structures_with_names() {
        let volume = FileFsVolumeInformation {
            volume_creation_time: FileTime(0x0101010101010101),
            volume_serial_number: 0x02020202,
            supports_objects: true,
            volume_label: &[0x61, 0],
        };
        let wire = [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 0, 0, 0, 1, 0, 0x61, 0];
        assert_eq!(encoded(|out| volume.encode(out)), wire);
        assert_eq!(FileFsVolumeInformation::decode(&mut Reader::new(&wire)), Ok(volume));

        let attribute = FileFsAttributeInformation {
            file_system_attributes: FileSystemAttributes::CASE_SENSITIVE_SEARCH | FileSystemAttributes::NAMED_STREAMS,
            maximum_component_name_length: 255,
            file_system_name: &[0x62, 0],
        };
        let wire = [1, 0, 4, 0, 255, 0, 0, 0, 2, 0, 0, 0, 0x62, 0];
        assert_eq!(encoded(|out| attribute.encode(out)), wire);
        assert_eq!(FileFsAttributeInformation::decode(&mut Reader::new(&wire)), Ok(attribute));

        let driver = FileFsDriverPathInformation { driver_in_path: true, driver_name: &[0x63, 0] };
        let wire = [1, 0, 0, 0, 2, 0, 0, 0, 0x63, 0];
        assert_eq!(encoded(|out| driver.encode(out)), wire);
        assert_eq!(FileFsDriverPathInformation::decode(&mut Reader::new(&wire)), Ok(driver));

        let label = FileFsLabelInformation { volume_label: &[0x64, 0] };
        let wire = [2, 0, 0, 0, 0x64, 0];
        assert_eq!(encoded(|out| label.encode(out)), wire);
        assert_eq!(FileFsLabelInformation::decode(&mut Reader::new(&wire)), Ok(label));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = FileFsVolumeInformation::decode(&mut Reader::new(&bytes));
            let _ = FileFsAttributeInformation::decode(&mut Reader::new(&bytes));
            let _ = FileFsDriverPathInformation::decode(&mut Reader::new(&bytes));
            let _ = FileFsLabelInformation::decode(&mut Reader::new(&bytes));
        }
    }
}
