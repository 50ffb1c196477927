//! Create contexts for opens that survive a broken connection: durable and persistent handles, and application
//! instances that fail over ([MS-SMB2] 2.2.13.2.3, 2.2.13.2.4, 2.2.13.2.11 to 2.2.13.2.13, 2.2.13.2.15).

use super::{CreateContext, FileId, context, exactly, name};
use crate::bytes::Result;
use crate::flags::flags;

flags! {
    /// Properties of a durable open ([MS-SMB2] 2.2.13.2.11).
    pub struct DurableHandleFlags(u32) {
        /// Persistent.
        PERSISTENT = 0x0000_0002;
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

    /// Returns the context.
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

    /// Returns the context.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::DURABLE_HANDLE_REQUEST, |out| out.zeros(8))
    }
}

/// SMB2_CREATE_DURABLE_HANDLE_RECONNECT ([MS-SMB2] 2.2.13.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DurableHandleReconnect {
    /// The open to reconnect to.
    pub file_id: FileId,
}

impl DurableHandleReconnect {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        Ok(DurableHandleReconnect { file_id: FileId::decode(&mut exactly(data, 16)?)? })
    }

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::DURABLE_HANDLE_RECONNECT, |out| self.file_id.encode(out))
    }
}

/// SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2 ([MS-SMB2] 2.2.13.2.11).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DurableHandleRequestV2 {
    /// The time for which the open should survive, in milliseconds; 0 leaves it to the server.
    pub timeout: u32,
    /// Whether the handle is persistent.
    pub flags: DurableHandleFlags,
    /// Identifies the CREATE.
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

    /// Returns the context with this data.
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
    /// The time for which the open survives, in milliseconds.
    pub timeout: u32,
    /// Whether the handle is persistent.
    pub flags: DurableHandleFlags,
}

impl DurableHandleResponseV2 {
    /// Reads the data of a context.
    pub fn decode(data: &[u8]) -> Result<Self> {
        let mut reader = exactly(data, 8)?;
        Ok(DurableHandleResponseV2 { timeout: reader.u32()?, flags: DurableHandleFlags(reader.u32()?) })
    }

    /// Returns the context with this data.
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
    /// The open to reconnect to.
    pub file_id: FileId,
    /// Identifies the CREATE that created it.
    pub create_guid: [u8; 16],
    /// Whether the handle is persistent.
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

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::DURABLE_HANDLE_RECONNECT_V2, |out| {
            self.file_id.encode(out);
            out.bytes(&self.create_guid);
            out.u32(self.flags.0);
        })
    }
}

/// SMB2_CREATE_APP_INSTANCE_ID ([MS-SMB2] 2.2.13.2.13).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AppInstanceId {
    /// Identifies the application instance.
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

    /// Returns the context with this data.
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
    /// The high half.
    pub app_instance_version_high: u64,
    /// The low half.
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

    /// Returns the context with this data.
    pub fn to_context(&self) -> CreateContext<'static> {
        context(name::APP_INSTANCE_VERSION, |out| {
            out.u16(24);
            out.zeros(6);
            out.u64(self.app_instance_version_high);
            out.u64(self.app_instance_version_low);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Malformed;
    use crate::smb2::testing::context_bodies;

    const FILE_ID: FileId = FileId { persistent: 1, volatile: 2 };

    context_bodies! {
        // 2.2.13.2.3 and 2.2.14.2.3: reserved bytes.
        durable_request: DurableHandleRequest,
            DurableHandleRequest => "00000000000000000000000000000000",
            |_s| DurableHandleRequest;
        durable_response: DurableHandleResponse,
            DurableHandleResponse => "0000000000000000",
            |_s| DurableHandleResponse;
        // 2.2.13.2.4: FileId.
        durable_reconnect: DurableHandleReconnect,
            DurableHandleReconnect { file_id: FILE_ID } => "0100000000000000 0200000000000000",
            |s| DurableHandleReconnect { file_id: s.file_id() };
        // 2.2.13.2.11: Timeout, Flags, Reserved, CreateGuid.
        durable_request_v2: DurableHandleRequestV2,
            DurableHandleRequestV2 { timeout: 60_000, flags: DurableHandleFlags::PERSISTENT, create_guid: [9; 16] }
                => "60ea0000 02000000 0000000000000000 09090909090909090909090909090909",
            |s| DurableHandleRequestV2 {
                timeout: s.u32(),
                flags: DurableHandleFlags(s.u32()),
                create_guid: s.array(),
            };
        // 2.2.14.2.12: Timeout, Flags.
        durable_response_v2: DurableHandleResponseV2,
            DurableHandleResponseV2 { timeout: 60_000, flags: DurableHandleFlags::NONE } => "60ea0000 00000000",
            |s| DurableHandleResponseV2 { timeout: s.u32(), flags: DurableHandleFlags(s.u32()) };
        // 2.2.13.2.12: FileId, CreateGuid, Flags.
        durable_reconnect_v2: DurableHandleReconnectV2,
            DurableHandleReconnectV2 { file_id: FILE_ID, create_guid: [9; 16], flags: DurableHandleFlags::PERSISTENT }
                => "0100000000000000 0200000000000000 09090909090909090909090909090909 02000000",
            |s| DurableHandleReconnectV2 {
                file_id: s.file_id(),
                create_guid: s.array(),
                flags: DurableHandleFlags(s.u32()),
            };
        // 2.2.13.2.13: StructureSize, Reserved, AppInstanceId.
        app_instance_id: AppInstanceId,
            AppInstanceId { app_instance_id: [9; 16] } => "1400 0000 09090909090909090909090909090909",
            |s| AppInstanceId { app_instance_id: s.array() };
        // 2.2.13.2.15: StructureSize, Reserved, Padding, AppInstanceVersionHigh, AppInstanceVersionLow.
        app_instance_version: AppInstanceVersion,
            AppInstanceVersion { app_instance_version_high: 1, app_instance_version_low: 2 }
                => "1800 0000 00000000 0100000000000000 0200000000000000",
            |s| AppInstanceVersion { app_instance_version_high: s.u64(), app_instance_version_low: s.u64() };
    }

    #[test]
    fn bodies_of_other_lengths_are_refused() {
        assert_eq!(DurableHandleRequest::decode(&[0; 15]), Err(Malformed::Structure));
        assert_eq!(DurableHandleResponse::decode(&[0; 16]), Err(Malformed::Structure));
        assert_eq!(DurableHandleRequestV2::decode(&[0; 33]), Err(Malformed::Structure));
        assert_eq!(DurableHandleReconnectV2::decode(&[0; 35]), Err(Malformed::Structure));
        assert_eq!(AppInstanceId::decode(&[0; 20]), Err(Malformed::Structure));
    }
}
