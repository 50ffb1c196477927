//! The contexts of CREATE ([MS-SMB2] 2.2.13.2, 2.2.14.2): a chain of named data, and what the known names hold.
//!
//! Extended attributes (`ExtA`, [MS-FSCC] 2.4.16) and security descriptors (`SecD`, [MS-DTYP] 2.4.6) stay bytes here,
//! and so does what a shared virtual disk sends ([MS-RSVD]). A typed body must have exactly its size (3.3.5.9).

use super::{FileId, LeaseState, u16_of, u32_of};
use crate::bytes::{Malformed, Reader, Result, Writer, field};
use crate::flags::flags;
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
    /// Find a durable open again.
    pub const DURABLE_HANDLE_RECONNECT: &[u8] = b"DHnC";
    /// Reserve space for a new file.
    pub const ALLOCATION_SIZE: &[u8] = b"AlSi";
    /// Say what the user may do.
    pub const QUERY_MAXIMAL_ACCESS: &[u8] = b"MxAc";
    /// Open an earlier version.
    pub const TIMEWARP_TOKEN: &[u8] = b"TWrp";
    /// Say which file of the volume it is.
    pub const QUERY_ON_DISK_ID: &[u8] = b"QFid";
    /// Grant a lease; the length tells version 1 from version 2.
    pub const REQUEST_LEASE: &[u8] = b"RqLs";
    /// Make the open durable or persistent.
    pub const DURABLE_HANDLE_REQUEST_V2: &[u8] = b"DH2Q";
    /// Find a durable or persistent open again.
    pub const DURABLE_HANDLE_RECONNECT_V2: &[u8] = b"DH2C";
    /// Which instance of an application opens.
    pub const APP_INSTANCE_ID: &[u8] =
        &[0x45, 0xbc, 0xa6, 0x6a, 0xef, 0xa7, 0xf7, 0x4a, 0x90, 0x08, 0xfa, 0x46, 0x2e, 0x14, 0x4d, 0x74];
    /// Which version of that instance.
    pub const APP_INSTANCE_VERSION: &[u8] =
        &[0xb9, 0x82, 0xd0, 0xb7, 0x3b, 0x56, 0x07, 0x4f, 0xa0, 0x7b, 0x52, 0x4a, 0x81, 0x16, 0xa0, 0x10];
    /// A shared virtual disk, [MS-RSVD].
    pub const SVHDX_OPEN_DEVICE_CONTEXT: &[u8] =
        &[0x9c, 0xcb, 0xcf, 0x9e, 0x04, 0xc1, 0xe6, 0x43, 0x98, 0x0e, 0x15, 0x8d, 0xa1, 0xf6, 0xec, 0x83];
    /// To be ignored. Linux and Samba use it for POSIX opens.
    pub const RESERVED: &[u8] =
        &[0x93, 0xad, 0x25, 0x50, 0x9c, 0xb4, 0x11, 0xe7, 0xb4, 0x23, 0x83, 0xde, 0x96, 0x8b, 0xcd, 0x7c];
}

/// One link of the chain, whatever its name.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CreateContext<'a> {
    /// One of [`name`], or something else.
    pub name: Cow<'a, [u8]>,
    /// What the name says.
    pub data: Cow<'a, [u8]>,
}

impl<'a> CreateContext<'a> {
    const SIZE: usize = 16;

    /// A context of this name with this data.
    pub fn new(name: impl Into<Cow<'a, [u8]>>, data: impl Into<Cow<'a, [u8]>>) -> Self {
        CreateContext { name: name.into(), data: data.into() }
    }

    /// Reads a chain. Every link begins at a multiple of 8 behind the one before it; names have at least four bytes.
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

    /// Writes a chain at the present position, which must be a multiple of 8.
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

    /// The first context of this name.
    pub fn find<'c>(contexts: &'c [CreateContext<'a>], name: &[u8]) -> Option<&'c CreateContext<'a>> {
        contexts.iter().find(|context| *context.name == *name)
    }
}

/// Reads a body that must be `size` bytes long.
fn exactly(data: &[u8], size: usize) -> Result<Reader<'_>> {
    if data.len() == size { Ok(Reader::new(data)) } else { Err(Malformed::Structure) }
}

/// Composes a context from what `fill` writes.
fn context(name: &'static [u8], fill: impl FnOnce(&mut Writer<'_>)) -> CreateContext<'static> {
    let mut data = Vec::new();
    fill(&mut Writer::new(&mut data));
    CreateContext::new(name, data)
}

flags! {
    /// Properties of a lease ([MS-SMB2] 2.2.13.2.10, 2.2.14.2.10, 2.2.14.2.11).
    pub struct LeaseFlags(u32) {
        /// A break is under way; responses only.
        BREAK_IN_PROGRESS = 0x0000_0002;
        /// `parent_lease_key` is set; version 2 only.
        PARENT_LEASE_KEY_SET = 0x0000_0004;
    }

    /// Properties of a durable open ([MS-SMB2] 2.2.13.2.11).
    pub struct DurableHandleFlags(u32) {
        /// Persistent.
        PERSISTENT = 0x0000_0002;
    }
}

/// SMB2_CREATE_REQUEST_LEASE and SMB2_CREATE_RESPONSE_LEASE ([MS-SMB2] 2.2.13.2.8, 2.2.14.2.10).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeaseV1 {
    /// Whose lease it is.
    pub lease_key: [u8; 16],
    /// The state wanted or granted.
    pub lease_state: LeaseState,
    /// Its properties; reserved in a request.
    pub lease_flags: LeaseFlags,
}

impl LeaseV1 {
    /// How long the data is.
    pub const SIZE: usize = 32;

    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, Self::SIZE)?;
        Ok(LeaseV1 {
            lease_key: reader.array()?,
            lease_state: LeaseState(reader.u32()?),
            lease_flags: LeaseFlags(reader.u32()?),
        })
    }

    /// The context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::REQUEST_LEASE, |out| {
            out.bytes(&self.lease_key);
            out.u32(self.lease_state.0);
            out.u32(self.lease_flags.0);
            out.u64(0);
        })
    }
}

/// SMB2_CREATE_REQUEST_LEASE_V2 and SMB2_CREATE_RESPONSE_LEASE_V2 ([MS-SMB2] 2.2.13.2.10, 2.2.14.2.11).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeaseV2 {
    /// Whose lease it is.
    pub lease_key: [u8; 16],
    /// The state wanted or granted.
    pub lease_state: LeaseState,
    /// Its properties.
    pub flags: LeaseFlags,
    /// Whose lease the parent directory's is.
    pub parent_lease_key: [u8; 16],
    /// Counts the changes of state.
    pub epoch: u16,
}

impl LeaseV2 {
    /// How long the data is.
    pub const SIZE: usize = 52;

    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, Self::SIZE)?;
        let (lease_key, lease_state, flags) = (reader.array()?, LeaseState(reader.u32()?), LeaseFlags(reader.u32()?));
        reader.skip(8)?;
        Ok(LeaseV2 { lease_key, lease_state, flags, parent_lease_key: reader.array()?, epoch: reader.u16()? })
    }

    /// The context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::REQUEST_LEASE, |out| {
            out.bytes(&self.lease_key);
            out.u32(self.lease_state.0);
            out.u32(self.flags.0);
            out.u64(0);
            out.bytes(&self.parent_lease_key);
            out.u16(self.epoch);
            out.u16(0);
        })
    }
}

/// What `RqLs` holds: the two versions differ in length alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lease {
    /// 32 bytes.
    V1(LeaseV1),
    /// 52 bytes; 3.x only.
    V2(LeaseV2),
}

impl Lease {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        match data.len() {
            LeaseV1::SIZE => LeaseV1::decode(data).map(Lease::V1),
            LeaseV2::SIZE => LeaseV2::decode(data).map(Lease::V2),
            _ => Err(Malformed::Structure),
        }
    }

    /// The context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        match self {
            Lease::V1(lease) => lease.to_context(),
            Lease::V2(lease) => lease.to_context(),
        }
    }
}

/// SMB2_CREATE_DURABLE_HANDLE_REQUEST ([MS-SMB2] 2.2.13.2.3): 16 reserved bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DurableHandleRequest;

impl DurableHandleRequest {
    /// Checks the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        exactly(data, 16).map(|_| DurableHandleRequest)
    }

    /// The context.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::DURABLE_HANDLE_REQUEST, |out| out.zeros(16))
    }
}

/// SMB2_CREATE_DURABLE_HANDLE_RESPONSE ([MS-SMB2] 2.2.14.2.3): 8 reserved bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DurableHandleResponse;

impl DurableHandleResponse {
    /// Checks the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        exactly(data, 8).map(|_| DurableHandleResponse)
    }

    /// The context.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::DURABLE_HANDLE_REQUEST, |out| out.zeros(8))
    }
}

/// SMB2_CREATE_DURABLE_HANDLE_RECONNECT ([MS-SMB2] 2.2.13.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DurableHandleReconnect {
    /// The open that is looked for.
    pub file_id: FileId,
}

impl DurableHandleReconnect {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        Ok(DurableHandleReconnect { file_id: FileId::decode(&mut exactly(data, 16)?)? })
    }

    /// The context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::DURABLE_HANDLE_RECONNECT, |out| self.file_id.encode(out))
    }
}

/// SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2 ([MS-SMB2] 2.2.13.2.11).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DurableHandleRequestV2 {
    /// Milliseconds that the open should survive; 0 leaves it to the server.
    pub timeout: u32,
    /// Persistent or not.
    pub flags: DurableHandleFlags,
    /// Which CREATE this is.
    pub create_guid: [u8; 16],
}

impl DurableHandleRequestV2 {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, 32)?;
        let (timeout, flags) = (reader.u32()?, DurableHandleFlags(reader.u32()?));
        reader.skip(8)?;
        Ok(DurableHandleRequestV2 { timeout, flags, create_guid: reader.array()? })
    }

    /// The context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::DURABLE_HANDLE_REQUEST_V2, |out| {
            out.u32(self.timeout);
            out.u32(self.flags.0);
            out.u64(0);
            out.bytes(&self.create_guid);
        })
    }
}

/// SMB2_CREATE_DURABLE_HANDLE_RESPONSE_V2 ([MS-SMB2] 2.2.14.2.12).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DurableHandleResponseV2 {
    /// Milliseconds that the open survives.
    pub timeout: u32,
    /// Persistent or not.
    pub flags: DurableHandleFlags,
}

impl DurableHandleResponseV2 {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, 8)?;
        Ok(DurableHandleResponseV2 { timeout: reader.u32()?, flags: DurableHandleFlags(reader.u32()?) })
    }

    /// The context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::DURABLE_HANDLE_REQUEST_V2, |out| {
            out.u32(self.timeout);
            out.u32(self.flags.0);
        })
    }
}

/// SMB2_CREATE_DURABLE_HANDLE_RECONNECT_V2 ([MS-SMB2] 2.2.13.2.12).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DurableHandleReconnectV2 {
    /// The open that is looked for.
    pub file_id: FileId,
    /// Which CREATE made it.
    pub create_guid: [u8; 16],
    /// Persistent or not.
    pub flags: DurableHandleFlags,
}

impl DurableHandleReconnectV2 {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, 36)?;
        Ok(DurableHandleReconnectV2 {
            file_id: FileId::decode(&mut reader)?,
            create_guid: reader.array()?,
            flags: DurableHandleFlags(reader.u32()?),
        })
    }

    /// The context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::DURABLE_HANDLE_RECONNECT_V2, |out| {
            self.file_id.encode(out);
            out.bytes(&self.create_guid);
            out.u32(self.flags.0);
        })
    }
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

    /// The context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::ALLOCATION_SIZE, |out| out.u64(self.allocation_size))
    }
}

/// SMB2_CREATE_QUERY_MAXIMAL_ACCESS_REQUEST ([MS-SMB2] 2.2.13.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueryMaximalAccessRequest {
    /// Not wanted if the file has not changed since then, a FILETIME (3.3.5.9.5).
    pub timestamp: Option<u64>,
}

impl QueryMaximalAccessRequest {
    /// Reads the data of a context, which may be empty.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let timestamp = if data.is_empty() { None } else { Some(exactly(data, 8)?.u64()?) };
        Ok(QueryMaximalAccessRequest { timestamp })
    }

    /// The context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::QUERY_MAXIMAL_ACCESS, |out| self.timestamp.iter().for_each(|timestamp| out.u64(*timestamp)))
    }
}

/// SMB2_CREATE_QUERY_MAXIMAL_ACCESS_RESPONSE ([MS-SMB2] 2.2.14.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryMaximalAccessResponse {
    /// Whether it could be told.
    pub query_status: Status,
    /// The most that the user may do, an access mask (2.2.13.1).
    pub maximal_access: u32,
}

impl QueryMaximalAccessResponse {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, 8)?;
        Ok(QueryMaximalAccessResponse { query_status: Status(reader.u32()?), maximal_access: reader.u32()? })
    }

    /// The context with this data.
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
    /// Which version, a FILETIME.
    pub timestamp: u64,
}

impl TimewarpToken {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        Ok(TimewarpToken { timestamp: exactly(data, 8)?.u64()? })
    }

    /// The context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::TIMEWARP_TOKEN, |out| out.u64(self.timestamp))
    }
}

/// SMB2_CREATE_QUERY_ON_DISK_ID in a response ([MS-SMB2] 2.2.14.2.9); in a request it has no data.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueryOnDiskIdResponse {
    /// Which file of the volume it is.
    pub disk_file_id: u64,
    /// Which volume.
    pub volume_id: u64,
}

impl QueryOnDiskIdResponse {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, 32)?;
        Ok(QueryOnDiskIdResponse { disk_file_id: reader.u64()?, volume_id: reader.u64()? })
    }

    /// The context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::QUERY_ON_DISK_ID, |out| {
            out.u64(self.disk_file_id);
            out.u64(self.volume_id);
            out.zeros(16);
        })
    }
}

/// SMB2_CREATE_APP_INSTANCE_ID ([MS-SMB2] 2.2.13.2.13).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AppInstanceId {
    /// Which instance.
    pub app_instance_id: [u8; 16],
}

impl AppInstanceId {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, 20)?;
        reader.structure_size(20)?;
        reader.skip(2)?;
        Ok(AppInstanceId { app_instance_id: reader.array()? })
    }

    /// The context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::APP_INSTANCE_ID, |out| {
            out.u16(20);
            out.u16(0);
            out.bytes(&self.app_instance_id);
        })
    }
}

/// SMB2_CREATE_APP_INSTANCE_VERSION ([MS-SMB2] 2.2.13.2.15).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct AppInstanceVersion {
    /// The significant half.
    pub app_instance_version_high: u64,
    /// The other half.
    pub app_instance_version_low: u64,
}

impl AppInstanceVersion {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, 24)?;
        reader.structure_size(24)?;
        reader.skip(6)?;
        Ok(AppInstanceVersion { app_instance_version_high: reader.u64()?, app_instance_version_low: reader.u64()? })
    }

    /// The context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::APP_INSTANCE_VERSION, |out| {
            out.u16(24);
            out.zeros(6);
            out.u64(self.app_instance_version_high);
            out.u64(self.app_instance_version_low);
        })
    }
}
