//! Information of fixed size about a file ([MS-FSCC] 2.4).

use super::field::structures;
use super::{FileAttributes, ReparseTag};
use crate::dtyp::{AccessMask, FileTime};
use crate::flags::flags;

flags! {
    /// The access mode of a file: the bits of CreateOptions that stay with the handle ([MS-FSCC] 2.4.31).
    pub struct FileMode(u32) {
        /// Data is written to disk before the response.
        WRITE_THROUGH = 0x0000_0002;
        /// A hint: access is sequential.
        SEQUENTIAL_ONLY = 0x0000_0004;
        /// Nothing is cached.
        NO_INTERMEDIATE_BUFFERING = 0x0000_0008;
        /// Synchronous, and waits may be alerted.
        SYNCHRONOUS_IO_ALERT = 0x0000_0010;
        /// Synchronous, and waits may not be alerted.
        SYNCHRONOUS_IO_NONALERT = 0x0000_0020;
        /// Never reported as set.
        DELETE_ON_CLOSE = 0x0000_1000;
    }

    /// How a file is deleted ([MS-FSCC] 2.4.12).
    pub struct DispositionFlags(u32) {
        /// The file is to be deleted; without this, it is not.
        DELETE = 0x0000_0001;
        /// The name is removed at once, the data with the last handle.
        POSIX_SEMANTICS = 0x0000_0002;
        /// Refuse if the file is mapped as an image.
        FORCE_IMAGE_SECTION_CHECK = 0x0000_0004;
        /// Change the delete-on-close state instead.
        ON_CLOSE = 0x0000_0008;
        /// A read-only file is deleted nevertheless.
        IGNORE_READONLY_ATTRIBUTE = 0x0000_0010;
    }
}

structures! {
    /// FILE_ACCESS_INFORMATION ([MS-FSCC] 2.4.1).
    FileAccessInformation(4) {
        /// The rights that were granted when the file was opened.
        access_flags: AccessMask,
    }

    /// FILE_ALIGNMENT_INFORMATION ([MS-FSCC] 2.4.3).
    FileAlignmentInformation(4) {
        /// The alignment that buffers need, less 1; 0 for none.
        alignment_requirement: u32,
    }

    /// FILE_ALLOCATION_INFORMATION ([MS-FSCC] 2.4.4).
    FileAllocationInformation(8) {
        /// Bytes to allocate, signed on the wire.
        allocation_size: u64,
    }

    /// FILE_ATTRIBUTE_TAG_INFORMATION ([MS-FSCC] 2.4.6).
    FileAttributeTagInformation(8) {
        /// Attributes.
        file_attributes: FileAttributes,
        /// The tag of the reparse point, if the attributes indicate that there is one.
        reparse_tag: ReparseTag,
    }

    /// FILE_BASIC_INFORMATION ([MS-FSCC] 2.4.7). When set, a time may be one of [`FileTime::UNSET`],
    /// [`FileTime::STOP_UPDATES`] and [`FileTime::RESUME_UPDATES`], and attributes of 0 stay as they are.
    FileBasicInformation(40) {
        /// When the file was created.
        creation_time: FileTime,
        /// When it was last read.
        last_access_time: FileTime,
        /// When data was last written.
        last_write_time: FileTime,
        /// When anything about it last changed.
        change_time: FileTime,
        /// Attributes.
        file_attributes: FileAttributes [4 reserved],
    }

    /// FILE_COMPRESSION_INFORMATION ([MS-FSCC] 2.4.9).
    FileCompressionInformation(16) {
        /// The size of the compressed file in bytes.
        compressed_file_size: u64,
        /// 0 for none, 2 for LZNT1.
        compression_format: u16,
        /// Log2 of the number of bytes that are compressed together.
        compression_unit_shift: u8,
        /// Log2 of the chunk size.
        chunk_shift: u8,
        /// Log2 of the cluster size.
        cluster_shift: u8 [3 reserved],
    }

    /// FILE_DISPOSITION_INFORMATION ([MS-FSCC] 2.4.11).
    FileDispositionInformation(1) {
        /// Whether the file is deleted when it is closed.
        delete_pending: bool,
    }

    /// FILE_DISPOSITION_INFORMATION_EX ([MS-FSCC] 2.4.12).
    FileDispositionInformationEx(4) {
        /// Whether and how the file is deleted.
        flags: DispositionFlags,
    }

    /// FILE_EA_INFORMATION ([MS-FSCC] 2.4.13).
    FileEaInformation(4) {
        /// The size of all extended attributes in bytes.
        ea_size: u32,
    }

    /// FILE_END_OF_FILE_INFORMATION ([MS-FSCC] 2.4.14).
    FileEndOfFileInformation(8) {
        /// The new size in bytes, signed on the wire.
        end_of_file: u64,
    }

    /// FILE_ID_INFORMATION ([MS-FSCC] 2.4.26).
    FileIdInformation(24) {
        /// The volume.
        volume_serial_number: u64,
        /// The file within that volume; zeros if there are no such ids.
        file_id: [u8; 16],
    }

    /// FILE_INTERNAL_INFORMATION ([MS-FSCC] 2.4.27).
    FileInternalInformation(8) {
        /// The 64-bit file id; 0 for none.
        index_number: u64,
    }

    /// FILE_MODE_INFORMATION ([MS-FSCC] 2.4.31).
    FileModeInformation(4) {
        /// How the file is accessed.
        mode: FileMode,
    }

    /// FILE_NETWORK_OPEN_INFORMATION ([MS-FSCC] 2.4.34).
    FileNetworkOpenInformation(56) {
        /// When the file was created.
        creation_time: FileTime,
        /// When it was last read.
        last_access_time: FileTime,
        /// When data was last written.
        last_write_time: FileTime,
        /// When anything about it last changed.
        change_time: FileTime,
        /// Bytes allocated.
        allocation_size: u64,
        /// Size in bytes.
        end_of_file: u64,
        /// Attributes.
        file_attributes: FileAttributes [4 reserved],
    }

    /// FILE_POSITION_INFORMATION ([MS-FSCC] 2.4.40).
    FilePositionInformation(8) {
        /// The file pointer, signed on the wire.
        current_byte_offset: u64,
    }

    /// FILE_STANDARD_INFORMATION ([MS-FSCC] 2.4.47).
    FileStandardInformation(24) {
        /// Bytes allocated.
        allocation_size: u64,
        /// Size in bytes.
        end_of_file: u64,
        /// The number of hard links that are not deleted.
        number_of_links: u32,
        /// Whether deletion is pending.
        delete_pending: bool,
        /// Whether it is a directory.
        directory: bool [2 reserved],
    }

    /// FILE_STANDARD_LINK_INFORMATION ([MS-FSCC] 2.4.48).
    FileStandardLinkInformation(12) {
        /// The number of hard links that are not deleted.
        number_of_accessible_links: u32,
        /// The number of hard links, including those marked for deletion.
        total_number_of_links: u32,
        /// Whether deletion is pending.
        delete_pending: bool,
        /// Whether it is a directory.
        directory: bool [2 reserved],
    }

    /// FILE_VALID_DATA_LENGTH_INFORMATION ([MS-FSCC] 2.4.50).
    FileValidDataLengthInformation(8) {
        /// The number of bytes that have been written, signed on the wire.
        valid_data_length: u64,
    }
}

super::field::fields! { FileMode DispositionFlags }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{Reader, Result};

    // The bytes 0, 1, 2, ...: a little-endian field at offset n begins with the byte n.
    fn counted<T>(decode: impl FnOnce(&mut Reader<'_>) -> Result<T>) -> T {
        let bytes: Vec<u8> = (0..64).collect();
        decode(&mut Reader::new(&bytes)).expect("the buffer is long enough")
    }

    #[test]
    fn fields_are_at_the_specified_offsets() {
        let basic = counted(FileBasicInformation::decode);
        let times = [basic.creation_time, basic.last_access_time, basic.last_write_time, basic.change_time];
        assert_eq!(times.map(|time| time.0 as u8), [0, 8, 16, 24]);
        assert_eq!(basic.file_attributes.0 as u8, 32);

        let open = counted(FileNetworkOpenInformation::decode);
        let times = [open.creation_time, open.last_access_time, open.last_write_time, open.change_time];
        assert_eq!(times.map(|time| time.0 as u8), [0, 8, 16, 24]);
        assert_eq!([open.allocation_size as u8, open.end_of_file as u8, open.file_attributes.0 as u8], [32, 40, 48]);

        let standard = counted(FileStandardInformation::decode);
        assert_eq!([standard.allocation_size as u8, standard.end_of_file as u8], [0, 8]);
        assert_eq!(standard.number_of_links as u8, 16);

        let compression = counted(FileCompressionInformation::decode);
        assert_eq!(compression.compression_format as u8, 8);
        assert_eq!(
            [compression.compression_unit_shift, compression.chunk_shift, compression.cluster_shift],
            [10, 11, 12]
        );
    }

    #[test]
    fn booleans() {
        for (byte, directory) in [(0, false), (1, true), (0x80, true)] {
            let mut bytes = [0; 24];
            bytes[21] = byte;
            let standard =
                FileStandardInformation::decode(&mut Reader::new(&bytes)).expect("the buffer is long enough");
            assert_eq!((standard.delete_pending, standard.directory), (false, directory));
        }
    }
}
