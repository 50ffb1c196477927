//! The contexts of CREATE ([MS-SMB2] 2.2.13.2, 2.2.14.2): a chain of named data, and the data of the known names.
//!
//! Extended attributes (`ExtA`, [MS-FSCC] 2.4.16), security descriptors (`SecD`, [MS-DTYP] 2.4.6) and the data of
//! shared virtual disks ([MS-RSVD]) stay bytes here. A typed body must have exactly its size (3.3.5.9).

pub mod durable;
pub mod lease;
mod posix;

pub use durable::{
    AppInstanceId, AppInstanceVersion, DurableHandleFlags, DurableHandleReconnect, DurableHandleReconnectV2,
    DurableHandleRequest, DurableHandleRequestV2, DurableHandleResponse, DurableHandleResponseV2,
};
pub use lease::{Lease, LeaseFlags, LeaseV1, LeaseV2};
pub use posix::{PosixRequest, PosixResponse};

use super::{FileId, LeaseState, u16_of, u32_of};
use crate::bytes::{Malformed, Reader, Result, Writer, field};
use crate::status::Status;
use std::borrow::Cow;

/// The names of create contexts ([MS-SMB2] 2.2.13.2).
pub mod name {
    /// Extended attributes of a new file.
    pub const EA_BUFFER: &[u8] = b"ExtA";
    /// The security descriptor of a new file.
    pub const SD_BUFFER: &[u8] = b"SecD";
    /// Make the open durable.
    pub const DURABLE_HANDLE_REQUEST: &[u8] = b"DHnQ";
    /// Reconnect to a durable open.
    pub const DURABLE_HANDLE_RECONNECT: &[u8] = b"DHnC";
    /// Reserve space for a new file.
    pub const ALLOCATION_SIZE: &[u8] = b"AlSi";
    /// Return the maximal access of the user.
    pub const QUERY_MAXIMAL_ACCESS: &[u8] = b"MxAc";
    /// Open a snapshot.
    pub const TIMEWARP_TOKEN: &[u8] = b"TWrp";
    /// Return the id of the file on its volume.
    pub const QUERY_ON_DISK_ID: &[u8] = b"QFid";
    /// Request a lease; the length distinguishes version 1 from version 2.
    pub const REQUEST_LEASE: &[u8] = b"RqLs";
    /// Make the open durable or persistent.
    pub const DURABLE_HANDLE_REQUEST_V2: &[u8] = b"DH2Q";
    /// Reconnect to a durable or persistent open.
    pub const DURABLE_HANDLE_RECONNECT_V2: &[u8] = b"DH2C";
    /// The application instance that opens the file.
    pub const APP_INSTANCE_ID: &[u8] =
        &[0x45, 0xbc, 0xa6, 0x6a, 0xef, 0xa7, 0xf7, 0x4a, 0x90, 0x08, 0xfa, 0x46, 0x2e, 0x14, 0x4d, 0x74];
    /// The version of that instance.
    pub const APP_INSTANCE_VERSION: &[u8] =
        &[0xb9, 0x82, 0xd0, 0xb7, 0x3b, 0x56, 0x07, 0x4f, 0xa0, 0x7b, 0x52, 0x4a, 0x81, 0x16, 0xa0, 0x10];
    /// A shared virtual disk, [MS-RSVD].
    pub const SVHDX_OPEN_DEVICE_CONTEXT: &[u8] =
        &[0x9c, 0xcb, 0xcf, 0x9e, 0x04, 0xc1, 0xe6, 0x43, 0x98, 0x0e, 0x15, 0x8d, 0xa1, 0xf6, 0xec, 0x83];
    /// An open with POSIX semantics. [MS-SMB2] reserves the name; the POSIX extensions define it.
    pub const POSIX: &[u8] =
        &[0x93, 0xad, 0x25, 0x50, 0x9c, 0xb4, 0x11, 0xe7, 0xb4, 0x23, 0x83, 0xde, 0x96, 0x8b, 0xcd, 0x7c];
}

/// One context of the chain, with any name.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CreateContext<'a> {
    /// One of [`name`], or an unknown name.
    pub name: Cow<'a, [u8]>,
    /// The data for the name.
    pub data: Cow<'a, [u8]>,
}

impl<'a> CreateContext<'a> {
    const SIZE: usize = 16;

    /// Creates a context with this name and data.
    pub fn new(name: impl Into<Cow<'a, [u8]>>, data: impl Into<Cow<'a, [u8]>>) -> Self {
        CreateContext { name: name.into(), data: data.into() }
    }

    /// Decodes a chain. Every context begins at a multiple of 8 after the previous one; names have at least four bytes.
    pub fn decode_list(mut chain: &'a [u8]) -> Result<Vec<Self>> {
        let mut contexts = Vec::new();
        while !chain.is_empty() {
            let next = usize::try_from(Reader::new(chain).u32()?).map_err(|_| Malformed::Offset)?;
            if next == 0 {
                contexts.push(Self::decode(chain)?);
                break;
            }
            if next < Self::SIZE || next % 8 != 0 || next > chain.len() {
                return Err(Malformed::Offset);
            }
            let (link, rest) = chain.split_at(next);
            contexts.push(Self::decode(link)?);
            chain = rest;
        }
        Ok(contexts)
    }

    fn decode(link: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(link);
        reader.skip(4)?;
        let (name_offset, name_length) = (reader.u16()?, reader.u16()?);
        reader.skip(2)?;
        let (data_offset, data_length) = (reader.u16()?, reader.u32()?);
        if name_length < 4 {
            return Err(Malformed::Value);
        }
        let data_length = usize::try_from(data_length).map_err(|_| Malformed::Offset)?;
        Ok(CreateContext {
            name: field(link, name_offset.into(), name_length.into(), Self::SIZE)?.into(),
            data: field(link, data_offset.into(), data_length, Self::SIZE)?.into(),
        })
    }

    /// Encodes a chain at the current position, which must be a multiple of 8.
    pub fn encode_list(contexts: &[Self], out: &mut Writer<'_>) {
        for (index, context) in contexts.iter().enumerate() {
            let start = out.position();
            out.u32(0);
            out.u16(u16_of(Self::SIZE));
            out.u16(u16_of(context.name.len()));
            out.u16(0);
            let data_start = (Self::SIZE + context.name.len()).next_multiple_of(8);
            out.u16(if context.data.is_empty() { 0 } else { u16_of(data_start) });
            out.u32(u32_of(context.data.len()));
            out.bytes(&context.name);
            if !context.data.is_empty() {
                out.pad_to(8);
                out.bytes(&context.data);
            }
            if index + 1 < contexts.len() {
                out.pad_to(8);
                out.patch_u32(start, u32_of(out.position() - start));
            }
        }
    }

    /// Returns the first context with this name.
    pub fn find<'c>(contexts: &'c [CreateContext<'a>], name: &[u8]) -> Option<&'c CreateContext<'a>> {
        contexts.iter().find(|context| *context.name == *name)
    }
}

/// Returns a reader of a body that must be `size` bytes long.
fn exactly(data: &[u8], size: usize) -> Result<Reader<'_>> {
    if data.len() == size { Ok(Reader::new(data)) } else { Err(Malformed::Structure) }
}

/// Builds a context from the data that `fill` writes.
fn context(name: &'static [u8], fill: impl FnOnce(&mut Writer<'_>)) -> CreateContext<'static> {
    let mut data = Vec::new();
    fill(&mut Writer::new(&mut data));
    CreateContext::new(name, data)
}

/// SMB2_CREATE_ALLOCATION_SIZE ([MS-SMB2] 2.2.13.2.6).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AllocationSize {
    /// Bytes to reserve.
    pub allocation_size: u64,
}

impl AllocationSize {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        Ok(AllocationSize { allocation_size: exactly(data, 8)?.u64()? })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::ALLOCATION_SIZE, |out| out.u64(self.allocation_size))
    }
}

/// SMB2_CREATE_QUERY_MAXIMAL_ACCESS_REQUEST ([MS-SMB2] 2.2.13.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueryMaximalAccessRequest {
    /// The maximal access is not needed if the file's `ChangeTime` is still this FILETIME (3.3.5.9.5).
    pub timestamp: Option<u64>,
}

impl QueryMaximalAccessRequest {
    /// Reads the data of a context, which may be empty.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let timestamp = if data.is_empty() { None } else { Some(exactly(data, 8)?.u64()?) };
        Ok(QueryMaximalAccessRequest { timestamp })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::QUERY_MAXIMAL_ACCESS, |out| self.timestamp.iter().for_each(|timestamp| out.u64(*timestamp)))
    }
}

/// SMB2_CREATE_QUERY_MAXIMAL_ACCESS_RESPONSE ([MS-SMB2] 2.2.14.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryMaximalAccessResponse {
    /// Whether the access could be determined.
    pub query_status: Status,
    /// The maximal access of the user, an access mask (2.2.13.1).
    pub maximal_access: u32,
}

impl QueryMaximalAccessResponse {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, 8)?;
        Ok(QueryMaximalAccessResponse { query_status: Status(reader.u32()?), maximal_access: reader.u32()? })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::QUERY_MAXIMAL_ACCESS, |out| {
            out.u32(self.query_status.0);
            out.u32(self.maximal_access);
        })
    }
}

/// SMB2_CREATE_TIMEWARP_TOKEN ([MS-SMB2] 2.2.13.2.7).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TimewarpToken {
    /// The time of the snapshot, a FILETIME.
    pub timestamp: u64,
}

impl TimewarpToken {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        Ok(TimewarpToken { timestamp: exactly(data, 8)?.u64()? })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::TIMEWARP_TOKEN, |out| out.u64(self.timestamp))
    }
}

/// SMB2_CREATE_QUERY_ON_DISK_ID in a response ([MS-SMB2] 2.2.14.2.9); in a request it has no data.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueryOnDiskIdResponse {
    /// The file within its volume.
    pub disk_file_id: u64,
    /// The volume.
    pub volume_id: u64,
}

impl QueryOnDiskIdResponse {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, 32)?;
        Ok(QueryOnDiskIdResponse { disk_file_id: reader.u64()?, volume_id: reader.u64()? })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::QUERY_ON_DISK_ID, |out| {
            out.u64(self.disk_file_id);
            out.u64(self.volume_id);
            out.zeros(16);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{Source, context_bodies, encode_part, hex};
    use proptest::prelude::*;

    // 2.2.13.2: Next, NameOffset, NameLength, Reserved, DataOffset, DataLength, Buffer.
    const CHAIN: &str = "20000000 1000 0400 0000 1800 08000000 416c5369 00000000 0010000000000000
         18000000 1000 0400 0000 0000 00000000 51466964 00000000
         00000000 1000 1000 0000 2000 01000000 93ad25509cb411e7b42383de968bcd7c 07";

    fn chain() -> Vec<CreateContext<'static>> {
        vec![
            AllocationSize { allocation_size: 4096 }.to_context(),
            CreateContext::new(name::QUERY_ON_DISK_ID, &[][..]),
            CreateContext::new(name::POSIX, vec![7]),
        ]
    }

    #[test]
    fn a_chain_preserves_order_names_and_data() {
        let bytes = hex(CHAIN);
        assert_eq!(CreateContext::decode_list(&bytes), Ok(chain()));
        assert_eq!(encode_part(|out| CreateContext::encode_list(&chain(), out)), bytes);
        assert_eq!(CreateContext::find(&chain(), name::POSIX), chain().last());
        assert_eq!(CreateContext::find(&chain(), name::EA_BUFFER), None);
        assert_eq!(CreateContext::decode_list(&[]), Ok(vec![]));
    }

    #[test]
    fn a_broken_chain_is_refused() {
        for (at, byte, error) in [
            (0, 0x1c, Malformed::Offset),
            (0, 0x08, Malformed::Offset),
            (3, 0x01, Malformed::Offset),
            (4, 0x0f, Malformed::Offset),
            (6, 0x03, Malformed::Value),
            (6, 0x11, Malformed::Offset),
            (10, 0x19, Malformed::Offset),
            (12, 0x09, Malformed::Offset),
        ] {
            let mut bytes = hex(CHAIN);
            bytes[at] = byte;
            assert_eq!(CreateContext::decode_list(&bytes), Err(error), "{byte:#x} at {at}");
        }
        assert_eq!(CreateContext::decode_list(&hex(CHAIN)[..0x40]), Err(Malformed::Truncated));
    }

    #[test]
    fn the_data_offset_of_empty_data_is_ignored() {
        // Windows clients set it to any value (note 54 of the specification).
        let bytes = hex("00000000 1000 0400 0000 ffff 00000000 51466964");
        let expected = vec![CreateContext::new(name::QUERY_ON_DISK_ID, &[][..])];
        assert_eq!(CreateContext::decode_list(&bytes), Ok(expected));
    }

    context_bodies! {
        allocation_size: AllocationSize,
            AllocationSize { allocation_size: 0x0102 } => "0201000000000000",
            |s| AllocationSize { allocation_size: s.u64() };
        maximal_access_unconditional: QueryMaximalAccessRequest,
            QueryMaximalAccessRequest { timestamp: None } => "",
            |s| QueryMaximalAccessRequest { timestamp: (s.u8() & 1 == 1).then(|| s.u64()) };
        maximal_access_with_a_time: QueryMaximalAccessRequest,
            QueryMaximalAccessRequest { timestamp: Some(1) } => "0100000000000000",
            |s| QueryMaximalAccessRequest { timestamp: Some(s.u64()) };
        maximal_access_response: QueryMaximalAccessResponse,
            QueryMaximalAccessResponse { query_status: Status::NONE_MAPPED, maximal_access: 0 } => "730000c0 00000000",
            |s| QueryMaximalAccessResponse { query_status: Status(s.u32()), maximal_access: s.u32() };
        timewarp_token: TimewarpToken,
            TimewarpToken { timestamp: 0x01d5_1fd0_6740_4000 } => "00404067d01fd501",
            |s| TimewarpToken { timestamp: s.u64() };
        on_disk_id: QueryOnDiskIdResponse,
            QueryOnDiskIdResponse { disk_file_id: 1, volume_id: 2 }
                => "0100000000000000 0200000000000000 00000000000000000000000000000000",
            |s| QueryOnDiskIdResponse { disk_file_id: s.u64(), volume_id: s.u64() };
    }

    proptest! {
        #[test]
        fn chains_round_trip((bytes, (at, byte, end)) in Source::strategy()) {
            let source = &mut Source::new(&bytes);
            let contexts = source.list(|s| {
                let name = [&s.array::<4>()[..], s.slice()].concat();
                CreateContext::new(name, s.slice())
            });
            let mut chain = encode_part(|out| CreateContext::encode_list(&contexts, out));
            prop_assert_eq!(CreateContext::decode_list(&chain), Ok(contexts));
            if let Some(tampered) = chain.get_mut(at) {
                *tampered = byte;
            }
            chain.truncate(end);
            if let Ok(contexts) = CreateContext::decode_list(&chain) {
                prop_assert!(contexts.len() * CreateContext::SIZE <= chain.len());
            }
        }
    }
}
