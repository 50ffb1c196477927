//! TREE_CONNECT ([MS-SMB2] 2.2.9, 2.2.10), with the extension of 3.1.1. The data of a remoted identity context
//! (2.2.9.2.1) is left as bytes.

use super::header::Header;
use super::{body, field, size, u16_of, u32_of};
use crate::bytes::{self, Malformed, Reader, Result, Writer};
use crate::flags::flags;
use crate::values::values;

flags! {
    /// The flags of the request ([MS-SMB2] 2.2.9); 3.1.1 only.
    pub struct TreeConnectFlags(u16) {
        /// The client was connected to this cluster share before.
        CLUSTER_RECONNECT = 0x0001;
        /// The client supports share redirect errors.
        REDIRECT_TO_OWNER = 0x0002;
        /// The request has the extension.
        EXTENSION_PRESENT = 0x0004;
    }

    /// Properties of a share ([MS-SMB2] 2.2.10). The two bits of offline caching are one value:
    /// [`ShareFlags::caching`].
    pub struct ShareFlags(u32) {
        /// Part of a DFS tree.
        DFS = 0x0000_0001;
        /// The root of a DFS tree.
        DFS_ROOT = 0x0000_0002;
        /// Offline caching: automatic.
        AUTO_CACHING = 0x0000_0010;
        /// Offline caching: automatic, and the cache is used while the share is reachable.
        VDO_CACHING = 0x0000_0020;
        /// Offline caching: none.
        NO_CACHING = 0x0000_0030;
        /// Opens cannot deny read access to others.
        RESTRICT_EXCLUSIVE_OPENS = 0x0000_0100;
        /// Opens cannot deny delete access to others.
        FORCE_SHARED_DELETE = 0x0000_0200;
        /// To be ignored.
        ALLOW_NAMESPACE_CACHING = 0x0000_0400;
        /// Directory listings contain only entries that the user has access to.
        ACCESS_BASED_DIRECTORY_ENUM = 0x0000_0800;
        /// No oplock above level II.
        FORCE_LEVELII_OPLOCK = 0x0000_1000;
        /// Branch cache hashes, version 1.
        ENABLE_HASH_V1 = 0x0000_2000;
        /// Branch cache hashes, version 2.
        ENABLE_HASH_V2 = 0x0000_4000;
        /// Messages must be sealed.
        ENCRYPT_DATA = 0x0000_8000;
        /// Remoted identities are supported.
        IDENTITY_REMOTING = 0x0004_0000;
        /// READ and WRITE may be compressed.
        COMPRESS_DATA = 0x0010_0000;
        /// Connections of its own are recommended.
        ISOLATED_TRANSPORT = 0x0020_0000;
    }

    /// Capabilities of a share ([MS-SMB2] 2.2.10).
    pub struct ShareCapabilities(u32) {
        /// Part of a DFS tree.
        DFS = 0x0000_0008;
        /// Continuously available.
        CONTINUOUS_AVAILABILITY = 0x0000_0010;
        /// Fast recovery of durable handles.
        SCALEOUT = 0x0000_0020;
        /// Monitored by the witness service.
        CLUSTER = 0x0000_0040;
        /// Its owner may change.
        ASYMMETRIC = 0x0000_0080;
        /// Redirects clients with an error context.
        REDIRECT_TO_OWNER = 0x0000_0100;
    }
}

impl ShareFlags {
    /// Offline caching: manual, by choice of the user.
    pub const MANUAL_CACHING: ShareFlags = ShareFlags(0);

    /// Returns only the offline caching value.
    pub const fn caching(self) -> ShareFlags {
        ShareFlags(self.0 & ShareFlags::NO_CACHING.0)
    }
}

values! {
    /// The type of a share ([MS-SMB2] 2.2.10).
    pub struct ShareType(u8) {
        /// A disk share.
        DISK = 0x01;
        /// Named pipes.
        PIPE = 0x02;
        /// A printer.
        PRINT = 0x03;
    }

    /// The type of a tree connect context ([MS-SMB2] 2.2.9.2).
    pub struct TreeConnectContextType(u16) {
        /// Reserved.
        RESERVED = 0x0000;
        /// The identity on whose behalf the client connects.
        REMOTED_IDENTITY = 0x0001;
    }
}

/// SMB2_TREE_CONNECT_CONTEXT ([MS-SMB2] 2.2.9.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TreeConnectContext<'a> {
    /// The type of `data`.
    pub context_type: TreeConnectContextType,
    /// The context's data.
    pub data: &'a [u8],
}

/// Connects to a share.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TreeConnectRequest<'a> {
    /// The flags; to be ignored below 3.1.1.
    pub flags: TreeConnectFlags,
    /// `\\server\share`, UTF-16LE.
    pub path: &'a [u8],
    /// The contexts, which need [`TreeConnectFlags::EXTENSION_PRESENT`].
    pub tree_connect_contexts: Vec<TreeConnectContext<'a>>,
}

impl<'a> TreeConnectRequest<'a> {
    const SIZE: usize = 8;
    const EXTENSION_SIZE: usize = 16;

    /// Decodes the body of `message`. `extension` is set if the connection's dialect is 3.1.1, which defines the
    /// extension flag. [`TreeConnectRequest::decode`] assumes that it is.
    pub fn decode_as(message: &'a [u8], extension: bool) -> Result<Self> {
        let mut reader = body(message, 9)?;
        let flags = TreeConnectFlags(reader.u16()?);
        let (path_offset, path_length) = (reader.u16()?, reader.u16()?);
        let mut request = TreeConnectRequest { flags, ..TreeConnectRequest::default() };
        let mut fixed = Self::SIZE;
        if extension && flags.contains(TreeConnectFlags::EXTENSION_PRESENT) {
            fixed += Self::EXTENSION_SIZE;
            let (context_offset, context_count) = (reader.u32()?, reader.u16()?);
            reader.skip(10)?;
            request.tree_connect_contexts = Self::contexts(message, context_offset, context_count, fixed)?;
        }
        request.path = field(message, path_offset, path_length, fixed)?;
        Ok(request)
    }

    /// Decodes the body of `message` with the 3.1.1 extension.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        Self::decode_as(message, true)
    }

    /// Decodes the contexts. `context_offset` is relative to the start of the body.
    fn contexts(message: &'a [u8], offset: u32, count: u16, fixed: usize) -> Result<Vec<TreeConnectContext<'a>>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let body = message.get(Header::SIZE..).ok_or(Malformed::Truncated)?;
        let length = body.len().checked_sub(size(offset)).ok_or(Malformed::Offset)?;
        let mut reader = Reader::new(bytes::field(body, size(offset), length, fixed)?);
        let mut contexts = Vec::new();
        for _ in 0..count {
            reader.skip(reader.position().next_multiple_of(8) - reader.position())?;
            let context_type = TreeConnectContextType(reader.u16()?);
            let data_length = usize::from(reader.u16()?);
            reader.skip(4)?;
            contexts.push(TreeConnectContext { context_type, data: reader.take(data_length)? });
        }
        Ok(contexts)
    }

    /// Writes the body after the header, with the extension if its flag is set.
    pub fn encode(&self, out: &mut Writer<'_>) {
        let extension = self.flags.contains(TreeConnectFlags::EXTENSION_PRESENT);
        let fixed = Self::SIZE + if extension { Self::EXTENSION_SIZE } else { 0 };
        out.u16(9);
        out.u16(self.flags.0);
        out.u16(u16_of(Header::SIZE + fixed));
        out.u16(u16_of(self.path.len()));
        if !extension {
            out.bytes(self.path);
            return;
        }
        out.zeros(Self::EXTENSION_SIZE);
        out.bytes(self.path);
        out.pad_to(8);
        out.patch_u32(Header::SIZE + Self::SIZE, u32_of(out.position() - Header::SIZE));
        out.patch_u16(Header::SIZE + Self::SIZE + 4, u16_of(self.tree_connect_contexts.len()));
        for context in &self.tree_connect_contexts {
            out.pad_to(8);
            out.u16(context.context_type.0);
            out.u16(u16_of(context.data.len()));
            out.u32(0);
            out.bytes(context.data);
        }
    }
}

/// The response to TREE_CONNECT.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TreeConnectResponse {
    /// The type of the share.
    pub share_type: ShareType,
    /// Its properties.
    pub share_flags: ShareFlags,
    /// Its capabilities.
    pub capabilities: ShareCapabilities,
    /// The maximal access of the user, an access mask (2.2.13.1).
    pub maximal_access: u32,
}

impl TreeConnectResponse {
    /// Reads the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self> {
        let mut reader = body(message, 16)?;
        let share_type = ShareType(reader.u8()?);
        reader.skip(1)?;
        Ok(TreeConnectResponse {
            share_type,
            share_flags: ShareFlags(reader.u32()?),
            capabilities: ShareCapabilities(reader.u32()?),
            maximal_access: reader.u32()?,
        })
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(16);
        out.u8(self.share_type.0);
        out.u8(0);
        out.u32(self.share_flags.0);
        out.u32(self.capabilities.0);
        out.u32(self.maximal_access);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{golden, message, round_trips};

    // 2.2.9: StructureSize, Flags, PathOffset, PathLength, Buffer.
    #[test]
    fn the_request() {
        let request = TreeConnectRequest { path: b"\\\0s\0", ..TreeConnectRequest::default() };
        golden!(TreeConnectRequest, request, "0900 0000 4800 0400 5c007300");
        for (body, error) in [
            ("0900 0000 4700 0400 5c007300", Malformed::Offset),
            ("0900 0000 4800 0500 5c007300", Malformed::Offset),
            ("0800 0000 4800 0400 5c007300", Malformed::Structure),
        ] {
            assert_eq!(TreeConnectRequest::decode(&message(body)), Err(error), "{body}");
        }
    }

    // 2.2.9.1: TreeConnectContextOffset (from the start of the body), TreeConnectContextCount, Reserved, PathName,
    // TreeConnectContexts; 2.2.9.2: ContextType, DataLength, Reserved, Data.
    const EXTENDED: &str = "0900 0400 5800 0400 20000000 0200 00000000000000000000 5c007300 00000000
         0100 0100 00000000 aa 00000000000000 0200 0000 00000000";

    #[test]
    fn the_request_with_the_extension() {
        let request = TreeConnectRequest {
            flags: TreeConnectFlags::EXTENSION_PRESENT,
            path: b"\\\0s\0",
            tree_connect_contexts: vec![
                TreeConnectContext { context_type: TreeConnectContextType::REMOTED_IDENTITY, data: &[0xaa] },
                TreeConnectContext { context_type: TreeConnectContextType(2), data: &[] },
            ],
        };
        golden!(TreeConnectRequest, request, EXTENDED);
        for (good, bad, error) in [
            ("20000000 0200", "00000000 0200", Malformed::Offset),
            ("20000000 0200", "ff000000 0200", Malformed::Offset),
            ("20000000 0200", "20000000 0300", Malformed::Truncated),
            ("5800 0400", "4800 0400", Malformed::Offset),
        ] {
            let body = EXTENDED.replace(good, bad);
            assert_ne!(body, EXTENDED);
            assert_eq!(TreeConnectRequest::decode(&message(&body)), Err(error), "{bad}");
        }
    }

    #[test]
    fn below_3_1_1_the_flags_mean_nothing() {
        let request = message("0900 ffff 4800 0400 5c007300");
        let decoded = TreeConnectRequest::decode_as(&request, false);
        assert_eq!(decoded.map(|request| (request.path, request.tree_connect_contexts)), Ok((&b"\\\0s\0"[..], vec![])));
        assert_eq!(TreeConnectRequest::decode(&request), Err(Malformed::Truncated));
    }

    // 2.2.10: StructureSize, ShareType, Reserved, ShareFlags, Capabilities, MaximalAccess.
    #[test]
    fn the_response() {
        let response = TreeConnectResponse {
            share_type: ShareType::DISK,
            share_flags: ShareFlags::NO_CACHING | ShareFlags::ENCRYPT_DATA,
            capabilities: ShareCapabilities::DFS,
            maximal_access: 0x001f_01ff,
        };
        golden!(TreeConnectResponse, response, "1000 01 00 30800000 08000000 ff011f00");
        assert_eq!(response.share_flags.caching(), ShareFlags::NO_CACHING);
        assert_eq!(ShareFlags::DFS.caching(), ShareFlags::MANUAL_CACHING);
    }

    round_trips! {
        requests_round_trip: TreeConnectRequest<'_> = |s| {
            let flags = TreeConnectFlags(s.u8().into());
            TreeConnectRequest {
                flags,
                path: s.utf16(),
                tree_connect_contexts: if flags.contains(TreeConnectFlags::EXTENSION_PRESENT) {
                    s.list(|s| TreeConnectContext { context_type: TreeConnectContextType(s.u16()), data: s.slice() })
                } else {
                    Vec::new()
                },
            }
        };
        responses_round_trip: TreeConnectResponse = |s| TreeConnectResponse {
            share_type: ShareType(s.u8()),
            share_flags: ShareFlags(s.u32()),
            capabilities: ShareCapabilities(s.u32()),
            maximal_access: s.u32(),
        };
    }
}
