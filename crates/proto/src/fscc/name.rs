//! Information that contains a name: queries of a file's name, FileAllInformation, rename and link ([MS-FSCC] 2.1.7,
//! 2.4.2, 2.4.28, 2.4.42, 2.4.43). Only the forms for SMB 2 are implemented, not those for SMB 1.

use super::file::*;
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::flags::flags;

/// Reads a name that begins with its length in bytes.
pub(super) fn decode_name<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    let length = usize::try_from(reader.u32()?).map_err(|_| Malformed::Truncated)?;
    decode_text(reader, length)
}

/// Reads `length` bytes of text, which must be whole UTF-16 code units.
pub(super) fn decode_text<'a>(reader: &mut Reader<'a>, length: usize) -> Result<&'a [u8]> {
    let text = reader.take(length)?;
    if length.is_multiple_of(2) { Ok(text) } else { Err(Malformed::Value) }
}

/// Writes a name after its length in bytes.
pub(super) fn encode_name(name: &[u8], out: &mut Writer<'_>) {
    out.u32(u32::try_from(name.len()).expect("a name is far shorter than 4 GiB"));
    out.bytes(name);
}

/// FILE_NAME_INFORMATION ([MS-FSCC] 2.1.7): the data of FileNameInformation, FileNormalizedNameInformation,
/// FileAlternateNameInformation and FileShortNameInformation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileNameInformation<'a> {
    /// The name in UTF-16LE.
    pub file_name: &'a [u8],
}

impl<'a> FileNameInformation<'a> {
    /// The size of the fixed part before the name, in bytes.
    pub const FIXED_SIZE: usize = 4;

    /// Reads the structure. An odd length is [`Malformed::Value`].
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(FileNameInformation { file_name: decode_name(reader)? })
    }

    /// Appends the structure.
    pub fn encode(&self, out: &mut Writer<'_>) {
        encode_name(self.file_name, out);
    }
}

/// FILE_ALL_INFORMATION ([MS-FSCC] 2.4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileAllInformation<'a> {
    /// Times and attributes.
    pub basic: FileBasicInformation,
    /// Sizes and links.
    pub standard: FileStandardInformation,
    /// File id.
    pub internal: FileInternalInformation,
    /// Size of the extended attributes.
    pub ea: FileEaInformation,
    /// Granted rights.
    pub access: FileAccessInformation,
    /// File pointer.
    pub position: FilePositionInformation,
    /// How the file is accessed.
    pub mode: FileModeInformation,
    /// Alignment of buffers.
    pub alignment: FileAlignmentInformation,
    /// The name.
    pub name: FileNameInformation<'a>,
}

impl<'a> FileAllInformation<'a> {
    /// The size of the fixed part before the name, in bytes.
    pub const FIXED_SIZE: usize = 100;

    /// Reads the structure.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(FileAllInformation {
            basic: FileBasicInformation::decode(reader)?,
            standard: FileStandardInformation::decode(reader)?,
            internal: FileInternalInformation::decode(reader)?,
            ea: FileEaInformation::decode(reader)?,
            access: FileAccessInformation::decode(reader)?,
            position: FilePositionInformation::decode(reader)?,
            mode: FileModeInformation::decode(reader)?,
            alignment: FileAlignmentInformation::decode(reader)?,
            name: FileNameInformation::decode(reader)?,
        })
    }

    /// Appends the structure.
    pub fn encode(&self, out: &mut Writer<'_>) {
        self.basic.encode(out);
        self.standard.encode(out);
        self.internal.encode(out);
        self.ea.encode(out);
        self.access.encode(out);
        self.position.encode(out);
        self.mode.encode(out);
        self.alignment.encode(out);
        self.name.encode(out);
    }
}

flags! {
    /// Options for renaming a file ([MS-FSCC] 2.4.43).
    pub struct RenameFlags(u32) {
        /// A file with the new name is replaced; without this, the rename fails.
        REPLACE_IF_EXISTS = 0x0000_0001;
        /// The replaced file loses its name at once and exists until its handles are closed.
        POSIX_SEMANTICS = 0x0000_0002;
        /// The pinned state of the new directory is not inherited.
        SUPPRESS_PIN_STATE_INHERITANCE = 0x0000_0004;
        /// The storage reserve of the new directory is not inherited.
        SUPPRESS_STORAGE_RESERVE_INHERITANCE = 0x0000_0008;
        /// Reserves are adjusted so that visible free space does not grow.
        NO_INCREASE_AVAILABLE_SPACE = 0x0000_0010;
        /// Reserves are adjusted so that visible free space does not shrink.
        NO_DECREASE_AVAILABLE_SPACE = 0x0000_0020;
        /// A read-only file is replaced nevertheless.
        IGNORE_READONLY_ATTRIBUTE = 0x0000_0040;
        /// The reserve of the target directory grows by the whole file.
        FORCE_RESIZE_TARGET_SR = 0x0000_0080;
        /// The reserve of the source directory shrinks by the whole file.
        FORCE_RESIZE_SOURCE_SR = 0x0000_0100;
    }
}

/// FILE_RENAME_INFORMATION_TYPE_2 ([MS-FSCC] 2.4.42.2) and, with the same layout, FILE_LINK_INFORMATION_TYPE_2
/// ([MS-FSCC] 2.4.28.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileRenameInformation<'a> {
    /// Whether a file with the new name is replaced.
    pub replace_if_exists: bool,
    /// 0 over a network.
    pub root_directory: u64,
    /// The new path below the share's root in UTF-16LE.
    pub file_name: &'a [u8],
}

/// FILE_LINK_INFORMATION_TYPE_2 has the layout of a rename.
pub type FileLinkInformation<'a> = FileRenameInformation<'a>;

/// FILE_RENAME_INFORMATION_EX ([MS-FSCC] 2.4.43).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileRenameInformationEx<'a> {
    /// The options.
    pub flags: RenameFlags,
    /// 0 over a network.
    pub root_directory: u64,
    /// The new path below the share's root in UTF-16LE.
    pub file_name: &'a [u8],
}

/// The minimum size of the structure according to [MS-FSCC] 2.4.42.2 and 2.4.43, including padding.
const RENAME_MINIMUM: usize = 24;

fn encode_target(root_directory: u64, file_name: &[u8], out: &mut Writer<'_>, start: usize) {
    out.u64(root_directory);
    encode_name(file_name, out);
    out.zeros(RENAME_MINIMUM.saturating_sub(out.position() - start));
}

impl<'a> FileRenameInformation<'a> {
    /// The size of the fixed part before the name, in bytes.
    pub const FIXED_SIZE: usize = 20;

    /// Reads the structure. An odd length of the name is [`Malformed::Value`].
    // Deviates from [MS-FSCC] 2.4.42.2: the padding up to 24 bytes may be missing, because clients omit it.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let replace_if_exists = reader.u8()? != 0;
        reader.skip(7)?;
        Ok(FileRenameInformation { replace_if_exists, root_directory: reader.u64()?, file_name: decode_name(reader)? })
    }

    /// Appends the structure and its padding.
    pub fn encode(&self, out: &mut Writer<'_>) {
        let start = out.position();
        out.u8(u8::from(self.replace_if_exists));
        out.zeros(7);
        encode_target(self.root_directory, self.file_name, out, start);
    }
}

impl<'a> FileRenameInformationEx<'a> {
    /// The size of the fixed part before the name, in bytes.
    pub const FIXED_SIZE: usize = 20;

    /// Reads the structure. An odd length of the name is [`Malformed::Value`].
    // Deviates from [MS-FSCC] 2.4.43: the padding up to 24 bytes may be missing, as in FileRenameInformation.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let flags = RenameFlags(reader.u32()?);
        reader.skip(4)?;
        Ok(FileRenameInformationEx { flags, root_directory: reader.u64()?, file_name: decode_name(reader)? })
    }

    /// Appends the structure and its padding.
    pub fn encode(&self, out: &mut Writer<'_>) {
        let start = out.position();
        out.u32(self.flags.0);
        out.zeros(4);
        encode_target(self.root_directory, self.file_name, out, start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn renames() {
        let wire = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0x61, 0, 0, 0];
        let rename = FileRenameInformation { replace_if_exists: true, root_directory: 2, file_name: &[0x61, 0] };
        let extended =
            FileRenameInformationEx { flags: RenameFlags::REPLACE_IF_EXISTS, root_directory: 2, file_name: &[0x61, 0] };
        let (mut one, mut other) = (Vec::new(), Vec::new());
        rename.encode(&mut Writer::new(&mut one));
        extended.encode(&mut Writer::new(&mut other));
        assert_eq!((&one[..], &other[..]), (&wire[..], &wire[..]));
        assert_eq!(FileRenameInformation::decode(&mut Reader::new(&wire)), Ok(rename));
        assert_eq!(FileRenameInformation::decode(&mut Reader::new(&wire[..22])), Ok(rename));
        assert_eq!(FileRenameInformationEx::decode(&mut Reader::new(&wire)), Ok(extended));
        assert_eq!(FileRenameInformation::decode(&mut Reader::new(&wire[..21])), Err(Malformed::Truncated));
        let mut odd = wire;
        odd[16] = 1;
        assert_eq!(FileRenameInformation::decode(&mut Reader::new(&odd)), Err(Malformed::Value));
    }

    #[test]
    fn all_information_is_the_sum_of_its_parts() {
        let mut all = FileAllInformation { name: FileNameInformation { file_name: &[0x5c, 0] }, ..Default::default() };
        all.basic.creation_time.0 = 1;
        all.standard.end_of_file = 2;
        all.internal.index_number = 3;
        all.ea.ea_size = 4;
        all.access.access_flags.0 = 5;
        all.position.current_byte_offset = 6;
        all.mode.mode.0 = 7;
        all.alignment.alignment_requirement = 8;
        let mut out = Vec::new();
        all.encode(&mut Writer::new(&mut out));
        assert_eq!(out.len(), FileAllInformation::FIXED_SIZE + 2);
        for (offset, value) in
            [(0, 1), (48, 2), (64, 3), (72, 4), (76, 5), (80, 6), (88, 7), (92, 8), (96, 2), (100, 0x5c)]
        {
            assert_eq!(out[offset], value, "offset {offset}");
        }
        assert_eq!(FileAllInformation::decode(&mut Reader::new(&out)), Ok(all));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = FileAllInformation::decode(&mut Reader::new(&bytes));
            let _ = FileNameInformation::decode(&mut Reader::new(&bytes));
            let _ = FileRenameInformation::decode(&mut Reader::new(&bytes));
            let _ = FileRenameInformationEx::decode(&mut Reader::new(&bytes));
        }
    }
}
