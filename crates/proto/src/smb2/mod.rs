//! SMB 2 and 3 messages, one file per command ([MS-SMB2] 2.2).
//!
//! A decoder gets one element of a compound, beginning at its SMB2 header, because offsets inside a message are
//! relative to that header. It decodes only the body; [`header::Header::decode`] decodes the header. An encoder gets a
//! writer whose position 0 is the start of the header, which has been written already. Decoders check structure only:
//! sizes, offsets, lengths. The server interprets values and decides whether they are allowed. Reserved fields are
//! written as zero and ignored when read. Deliberately not implemented: RDMA transforms (2.2.43), branch cache
//! (2.2.31.2, 2.2.32.4).
//!
//! A part that exceeds its length field is a bug of the code that composes the message. A debug assertion catches it.

pub mod cancel;
pub mod change_notify;
pub mod close;
pub mod compression;
pub mod create;
pub mod create_context;
pub mod decoders;
pub mod echo;
pub mod error;
pub mod flush;
pub mod header;
pub mod ioctl;
pub mod lock;
pub mod logoff;
pub mod negotiate;
pub mod negotiate_context;
pub mod notification;
pub mod oplock_break;
pub mod query_directory;
pub mod query_info;
pub mod read;
pub mod session_setup;
pub mod set_info;
pub mod transform;
pub mod tree_connect;
pub mod tree_disconnect;
pub mod write;

use crate::bytes::{self, Reader, Writer};
use crate::flags::flags;
use crate::values::values;
use header::Header;

/// Identifies an open (SMB2_FILEID, [MS-SMB2] 2.2.14.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct FileId {
    /// Stays the same when a durable open is reconnected.
    pub persistent: u64,
    /// May change when a durable open is reconnected; unique within a session.
    pub volatile: u64,
}

impl FileId {
    /// All bits set: the open of the previous request in a related compound (3.3.5.2.7.2), or no open, for control
    /// codes that need none.
    pub const ANY: FileId = FileId { persistent: u64::MAX, volatile: u64::MAX };

    /// Decodes the 16 bytes.
    pub fn decode(reader: &mut Reader<'_>) -> bytes::Result<Self> {
        Ok(FileId { persistent: reader.u64()?, volatile: reader.u64()? })
    }

    /// Encodes the 16 bytes.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u64(self.persistent);
        out.u64(self.volatile);
    }
}

values! {
    /// The caching that an oplock allows ([MS-SMB2] 2.2.13, 2.2.14, 2.2.23.1).
    pub struct OplockLevel(u8) {
        /// None.
        NONE = 0x00;
        /// Reads, shared.
        II = 0x01;
        /// Reads and writes.
        EXCLUSIVE = 0x08;
        /// Reads, writes and closes.
        BATCH = 0x09;
        /// A lease, whose state is in a create context.
        LEASE = 0xff;
    }

    /// The transport of the data of READ and WRITE ([MS-SMB2] 2.2.19, 2.2.21).
    pub struct Channel(u32) {
        /// In the message.
        NONE = 0;
        /// RDMA, described by buffer descriptors.
        RDMA_V1 = 1;
        /// RDMA, with remote invalidation.
        RDMA_V1_INVALIDATE = 2;
        /// RDMA with a transform; WRITE only.
        RDMA_TRANSFORM = 3;
    }

    /// The kind of information of QUERY_INFO and SET_INFO ([MS-SMB2] 2.2.37).
    pub struct InfoType(u8) {
        /// A file.
        FILE = 1;
        /// The file system of the share.
        FILESYSTEM = 2;
        /// A security descriptor.
        SECURITY = 3;
        /// Quotas.
        QUOTA = 4;
    }
}

flags! {
    /// The caching that a lease allows ([MS-SMB2] 2.2.13.2.8).
    pub struct LeaseState(u32) {
        /// Reads.
        READ_CACHING = 1;
        /// Closes.
        HANDLE_CACHING = 2;
        /// Writes.
        WRITE_CACHING = 4;
    }

    /// The parts of a security descriptor to query or set ([MS-SMB2] 2.2.37, 2.2.39).
    pub struct SecurityInformation(u32) {
        /// The owner.
        OWNER = 0x0000_0001;
        /// The primary group.
        GROUP = 0x0000_0002;
        /// The discretionary access control list.
        DACL = 0x0000_0004;
        /// The system access control list.
        SACL = 0x0000_0008;
        /// The integrity label.
        LABEL = 0x0000_0010;
        /// The resource attributes.
        ATTRIBUTE = 0x0000_0020;
        /// The central access policy.
        SCOPE = 0x0000_0040;
        /// The information needed for a backup.
        BACKUP = 0x0001_0000;
    }
}

/// Checks the `StructureSize` of a body and returns a reader positioned after it.
fn body(message: &[u8], structure_size: u16) -> bytes::Result<Reader<'_>> {
    let mut reader = Reader::new(message);
    reader.skip(Header::SIZE)?;
    reader.structure_size(structure_size)?;
    Ok(reader)
}

/// Returns the part of `message` that a 16-bit or 32-bit `Offset`/`Length` pair refers to, which must begin after the
/// body's `fixed` bytes.
fn field(message: &[u8], offset: impl Into<u32>, length: impl Into<u32>, fixed: usize) -> bytes::Result<&[u8]> {
    bytes::field(message, size(offset.into()), size(length.into()), Header::SIZE + fixed)
}

/// Converts a 32-bit length to an index. If `usize` is narrower, an index outside every message results.
fn size(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// Converts a length or offset for a 16-bit field.
fn u16_of(length: usize) -> u16 {
    debug_assert!(length <= usize::from(u16::MAX), "{length} bytes do not fit a 16-bit length");
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// Converts a length or offset for a 32-bit field.
fn u32_of(length: usize) -> u32 {
    debug_assert!(u32::try_from(length).is_ok(), "{length} bytes do not fit a 32-bit length");
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Defines empty bodies: `StructureSize` 4 and a reserved field.
macro_rules! empty_bodies {
    ($($(#[$meta:meta])* $name:ident)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct $name;

        impl $name {
            /// Checks the body of `message`.
            pub fn decode(message: &[u8]) -> $crate::bytes::Result<Self> {
                $crate::smb2::body(message, 4)?.u16()?;
                Ok($name)
            }

            /// Writes the body after the header.
            pub fn encode(&self, out: &mut $crate::bytes::Writer<'_>) {
                out.u16(4);
                out.u16(0);
            }
        }
    )*};
}

/// Defines responses with one buffer after `StructureSize` 9, a 16-bit offset and a 32-bit length.
macro_rules! output_buffer_responses {
    ($($(#[$meta:meta])* $name:ident)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct $name<'a> {
            /// The requested data.
            pub buffer: &'a [u8],
        }

        impl<'a> $name<'a> {
            /// The size of the fixed part before the buffer, without the SMB2 header.
            pub const SIZE: usize = 8;

            /// Decodes the body of `message`.
            pub fn decode(message: &'a [u8]) -> $crate::bytes::Result<Self> {
                let mut reader = $crate::smb2::body(message, 9)?;
                let (offset, length) = (reader.u16()?, reader.u32()?);
                Ok($name { buffer: $crate::smb2::field(message, offset, length, Self::SIZE)? })
            }

            /// Writes the body after the header.
            pub fn encode(&self, out: &mut $crate::bytes::Writer<'_>) {
                Self::begin(out);
                out.bytes(self.buffer);
                Self::finish(out);
            }

            /// Writes only the fixed part, for a buffer that is composed in place after it. [`Self::finish`] completes
            /// it.
            pub fn begin(out: &mut $crate::bytes::Writer<'_>) {
                out.u16(9);
                out.u16($crate::smb2::u16_of($crate::smb2::header::Header::SIZE + Self::SIZE));
                out.u32(0);
            }

            /// Sets the length to everything written since [`Self::begin`] and returns that length.
            pub fn finish(out: &mut $crate::bytes::Writer<'_>) -> usize {
                let start = $crate::smb2::header::Header::SIZE;
                let length = out.position() - start - Self::SIZE;
                out.patch_u32(start + 4, $crate::smb2::u32_of(length));
                length
            }
        }
    )*};
}

use {empty_bodies, output_buffer_responses};

#[cfg(test)]
pub(crate) mod testing;
