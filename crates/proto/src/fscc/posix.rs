//! The structures of the SMB 3.1.1 POSIX extensions: information about a file and its file system, and the reparse data
//! by which special files are shown ([MS-FSCC] 2.1.2.6).
//!
//! The specification of the extensions is a draft of the Samba team, "[POSIX-FSCC] POSIX Extensions to MS-FSCC".

use super::FileAttributes;
use super::field::structures;
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::dtyp::{FileTime, Sid};

/// The types of a file in [`PosixAttributes::mode`].
pub mod file_type {
    /// A regular file.
    pub const REGULAR: u32 = 0;
    /// A directory.
    pub const DIRECTORY: u32 = 1;
    /// A symbolic link.
    pub const SYMLINK: u32 = 2;
    /// A character device.
    pub const CHARACTER_DEVICE: u32 = 3;
    /// A block device.
    pub const BLOCK_DEVICE: u32 = 4;
    /// A FIFO.
    pub const FIFO: u32 = 5;
    /// A socket.
    pub const SOCKET: u32 = 6;
    /// The position of the type in the mode.
    pub const SHIFT: u32 = 12;
}

/// What the extensions add to the attributes of a file. Its end is also the response's create context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PosixAttributes {
    /// The inode number.
    pub inode: u64,
    /// The device that holds the file.
    pub device: u32,
    /// The number of names.
    pub links: u32,
    /// The tag of the reparse point, 0 if the file is not one.
    pub reparse_tag: u32,
    /// The permission bits with set-id and sticky bits, and the [type](file_type).
    pub mode: u32,
    /// The owner.
    pub owner: Sid,
    /// The group.
    pub group: Sid,
}

impl PosixAttributes {
    /// The attributes of an entry for which none are known.
    pub(super) const NONE: PosixAttributes = PosixAttributes {
        inode: 0,
        device: 0,
        links: 0,
        reparse_tag: 0,
        mode: 0,
        owner: Sid::unix_user(u32::MAX),
        group: Sid::unix_group(u32::MAX),
    };

    /// Returns the size in bytes.
    pub fn size(&self) -> usize {
        8 + 4 + 4 + 12 + self.owner.size() + self.group.size()
    }

    /// Reads the attributes.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let (inode, device) = (reader.u64()?, reader.u32()?);
        reader.skip(4)?;
        Ok(PosixAttributes {
            inode,
            device,
            links: reader.u32()?,
            reparse_tag: reader.u32()?,
            mode: reader.u32()?,
            owner: Sid::decode(reader)?,
            group: Sid::decode(reader)?,
        })
    }

    /// Appends the attributes.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u64(self.inode);
        out.u32(self.device);
        out.u32(0);
        out.u32(self.links);
        out.u32(self.reparse_tag);
        out.u32(self.mode);
        self.owner.encode(out);
        self.group.encode(out);
    }
}

/// FilePosixInformation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilePosixInformation {
    /// When the file was created.
    pub creation_time: FileTime,
    /// When it was last read.
    pub last_access_time: FileTime,
    /// When data was last written.
    pub last_write_time: FileTime,
    /// When anything about it last changed.
    pub change_time: FileTime,
    /// Size in bytes.
    pub end_of_file: u64,
    /// Bytes allocated.
    pub allocation_size: u64,
    /// Attributes.
    pub file_attributes: FileAttributes,
    /// What the extensions add.
    pub posix: PosixAttributes,
}

impl FilePosixInformation {
    /// Reads the structure.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(FilePosixInformation {
            creation_time: FileTime::decode(reader)?,
            last_access_time: FileTime::decode(reader)?,
            last_write_time: FileTime::decode(reader)?,
            change_time: FileTime::decode(reader)?,
            end_of_file: reader.u64()?,
            allocation_size: reader.u64()?,
            file_attributes: FileAttributes(reader.u32()?),
            posix: PosixAttributes::decode(reader)?,
        })
    }

    /// Appends the structure.
    pub fn encode(&self, out: &mut Writer<'_>) {
        for time in [self.creation_time, self.last_access_time, self.last_write_time, self.change_time] {
            time.encode(out);
        }
        out.u64(self.end_of_file);
        out.u64(self.allocation_size);
        out.u32(self.file_attributes.0);
        self.posix.encode(out);
    }
}

structures! {
    /// FileFsPosixInformation.
    FileFsPosixInformation(56) {
        /// The best size of a transfer in bytes.
        optimal_transfer_size: u32,
        /// The size of a block in bytes.
        block_size: u32,
        /// The size of the file system in blocks.
        total_blocks: u64,
        /// Free blocks.
        blocks_avail: u64,
        /// Free blocks that the user may fill.
        user_blocks_avail: u64,
        /// The number of inodes; all ones if unknown.
        total_file_nodes: u64,
        /// Free inodes; all ones if unknown.
        free_file_nodes: u64,
        /// An identifier of the file system.
        file_sys_identifier: u64,
    }
}

/// The data of a buffer with [`ReparseTag::NFS`](super::ReparseTag::NFS) ([MS-FSCC] 2.1.2.6): a special file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NfsReparseData<'a> {
    /// A symbolic link with its target in UTF-16LE.
    SymbolicLink(&'a [u8]),
    /// A character device with its major and minor number.
    CharacterDevice(u32, u32),
    /// A block device with its major and minor number.
    BlockDevice(u32, u32),
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
}

impl<'a> NfsReparseData<'a> {
    const LNK: u64 = 0x0000_0000_014b_4e4c;
    const CHR: u64 = 0x0000_0000_0052_4843;
    const BLK: u64 = 0x0000_0000_004b_4c42;
    const FIFO: u64 = 0x0000_0000_4f46_4946;
    const SOCK: u64 = 0x0000_0000_4b43_4f53;

    /// Decodes the data of a reparse point.
    pub fn decode(data: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(data);
        let kind = reader.u64()?;
        let decoded = match kind {
            Self::LNK => {
                let target = reader.rest();
                if target.is_empty() || !target.len().is_multiple_of(2) {
                    return Err(Malformed::Value);
                }
                return Ok(NfsReparseData::SymbolicLink(target));
            }
            Self::CHR => NfsReparseData::CharacterDevice(reader.u32()?, reader.u32()?),
            Self::BLK => NfsReparseData::BlockDevice(reader.u32()?, reader.u32()?),
            Self::FIFO => NfsReparseData::Fifo,
            Self::SOCK => NfsReparseData::Socket,
            _ => return Err(Malformed::Value),
        };
        if reader.remaining() == 0 { Ok(decoded) } else { Err(Malformed::Value) }
    }

    /// Returns the data of a reparse point.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::new();
        let mut out = Writer::new(&mut data);
        let mut device = |kind, major, minor| {
            out.u64(kind);
            out.u32(major);
            out.u32(minor);
        };
        match self {
            NfsReparseData::CharacterDevice(major, minor) => device(Self::CHR, *major, *minor),
            NfsReparseData::BlockDevice(major, minor) => device(Self::BLK, *major, *minor),
            NfsReparseData::Fifo => out.u64(Self::FIFO),
            NfsReparseData::Socket => out.u64(Self::SOCK),
            NfsReparseData::SymbolicLink(target) => {
                out.u64(Self::LNK);
                out.bytes(target);
            }
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{encode_part, hex};

    fn attributes() -> PosixAttributes {
        PosixAttributes {
            inode: 0x0102_0304_0506_0708,
            device: 9,
            links: 2,
            reparse_tag: 0,
            mode: 0o644,
            owner: Sid::unix_user(1000),
            group: Sid::unix_group(1001),
        }
    }

    #[test]
    fn information_about_a_file_has_the_fields_in_the_order_of_the_draft() {
        let information = FilePosixInformation {
            creation_time: FileTime(1),
            last_access_time: FileTime(2),
            last_write_time: FileTime(3),
            change_time: FileTime(4),
            end_of_file: 5,
            allocation_size: 4096,
            file_attributes: FileAttributes(0x20),
            posix: attributes(),
        };
        let bytes = encode_part(|out| information.encode(out));
        let expected = hex("0100000000000000 0200000000000000 0300000000000000 0400000000000000
             0500000000000000 0010000000000000 20000000 0807060504030201 09000000 00000000
             02000000 00000000 a4010000
             0102000000000016 01000000 e8030000 0102000000000016 02000000 e9030000");
        assert_eq!(bytes, expected);
        assert_eq!(FilePosixInformation::decode(&mut Reader::new(&bytes)), Ok(information));
        assert_eq!(bytes.len(), 52 + information.posix.size());
        for end in 0..bytes.len() {
            assert!(FilePosixInformation::decode(&mut Reader::new(&bytes[..end])).is_err(), "{end}");
        }
    }

    #[test]
    fn special_files_have_the_data_of_the_specification() {
        for (special, bytes) in [
            (NfsReparseData::SymbolicLink(&[0x61, 0]), "4c4e4b0100000000 6100"),
            (NfsReparseData::CharacterDevice(1, 3), "4348520000000000 01000000 03000000"),
            (NfsReparseData::BlockDevice(8, 0), "424c4b0000000000 08000000 00000000"),
            (NfsReparseData::Fifo, "4649464f00000000"),
            (NfsReparseData::Socket, "534f434b00000000"),
        ] {
            assert_eq!(special.to_bytes(), hex(bytes));
            assert_eq!(NfsReparseData::decode(&hex(bytes)), Ok(special));
        }
        for refused in [
            "",
            "4c4e4b01000000",
            "4c4e4b0100000000",
            "4c4e4b0100000000 61",
            "4649464f00000000 00",
            "4348520000000000 01000000",
            "0000000000000000",
        ] {
            assert!(NfsReparseData::decode(&hex(refused)).is_err(), "{refused}");
        }
    }
}
