//! NEGOTIATE ([MS-SMB2] 2.2.3, 2.2.4). The data of the 3.1.1 contexts is in [`super::negotiate_context`].

use super::header::Header;
pub use super::negotiate_context::*;
use super::{body, field, size, u16_of, u32_of};
use crate::bytes::{Result, Writer};
use crate::flags::flags;
use crate::values::values;

values! {
    /// A dialect of the protocol ([MS-SMB2] 2.2.3, 2.2.4).
    pub struct Dialect(u16) {
        /// SMB 2.0.2.
        SMB_2_0_2 = 0x0202;
        /// SMB 2.1.
        SMB_2_1 = 0x0210;
        /// SMB 3.0.
        SMB_3_0 = 0x0300;
        /// SMB 3.0.2.
        SMB_3_0_2 = 0x0302;
        /// SMB 3.1.1.
        SMB_3_1_1 = 0x0311;
        /// "2.1 or later": the response to an SMB1 negotiate with "SMB 2.???".
        WILDCARD = 0x02ff;
    }
}

flags! {
    /// The signing mode of one side ([MS-SMB2] 2.2.3). One byte in SESSION_SETUP.
    pub struct SecurityMode(u16) {
        /// Signing is possible.
        SIGNING_ENABLED = 0x0001;
        /// Signing is required.
        SIGNING_REQUIRED = 0x0002;
    }

    /// The capabilities of one side ([MS-SMB2] 2.2.3, 2.2.4).
    pub struct Capabilities(u32) {
        /// Distributed file system.
        DFS = 0x0000_0001;
        /// Leases.
        LEASING = 0x0000_0002;
        /// Multi-credit requests.
        LARGE_MTU = 0x0000_0004;
        /// Several connections for one session.
        MULTI_CHANNEL = 0x0000_0008;
        /// Persistent handles.
        PERSISTENT_HANDLES = 0x0000_0010;
        /// Leases on directories.
        DIRECTORY_LEASING = 0x0000_0020;
        /// AES-128-CCM; 3.0 and 3.0.2.
        ENCRYPTION = 0x0000_0040;
        /// Notifications from server to client; 3.1.1.
        NOTIFICATIONS = 0x0000_0080;
    }
}

/// A NEGOTIATE request. `DialectCount` may be 0 here; the server refuses it (3.3.5.4).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct NegotiateRequest<'a> {
    /// The signing mode of the client.
    pub security_mode: SecurityMode,
    /// The capabilities of the client.
    pub capabilities: Capabilities,
    /// The GUID of the client.
    pub client_guid: [u8; 16],
    /// The dialects, in the client's order.
    pub dialects: Vec<Dialect>,
    /// The contexts, in the client's order. They are read and written only if [`Dialect::SMB_3_1_1`] is among the
    /// dialects.
    pub negotiate_context_list: Vec<NegotiateContext<'a>>,
}

impl<'a> NegotiateRequest<'a> {
    /// Reads the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, 36)?;
        let dialect_count = usize::from(reader.u16()?);
        let security_mode = SecurityMode(reader.u16()?);
        reader.skip(2)?;
        let capabilities = Capabilities(reader.u32()?);
        let client_guid = reader.array()?;
        let (context_offset, context_count) = (reader.u32()?, reader.u16()?);
        reader.skip(2)?;
        let dialects: Vec<Dialect> = dialects(reader.take(dialect_count * 2)?);
        let negotiate_context_list = if dialects.contains(&Dialect::SMB_3_1_1) {
            NegotiateContext::decode_list(message, size(context_offset), context_count, reader.position())?
        } else {
            Vec::new()
        };
        Ok(NegotiateRequest { security_mode, capabilities, client_guid, dialects, negotiate_context_list })
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(36);
        out.u16(u16_of(self.dialects.len()));
        out.u16(self.security_mode.0);
        out.u16(0);
        out.u32(self.capabilities.0);
        out.bytes(&self.client_guid);
        out.zeros(8);
        for dialect in &self.dialects {
            out.u16(dialect.0);
        }
        if self.dialects.contains(&Dialect::SMB_3_1_1) {
            let offset = NegotiateContext::encode_list(&self.negotiate_context_list, out);
            out.patch_u32(Header::SIZE + 28, u32_of(offset));
            out.patch_u16(Header::SIZE + 32, u16_of(self.negotiate_context_list.len()));
        }
    }
}

/// Decodes a list of dialect numbers. An odd byte at its end is dropped.
pub(super) fn dialects(bytes: &[u8]) -> Vec<Dialect> {
    let (pairs, _) = bytes.as_chunks::<2>();
    pairs.iter().map(|pair| Dialect(u16::from_le_bytes(*pair))).collect()
}

/// A NEGOTIATE response.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct NegotiateResponse<'a> {
    /// The signing mode of the server.
    pub security_mode: SecurityMode,
    /// The selected dialect.
    pub dialect_revision: Dialect,
    /// The GUID of the server.
    pub server_guid: [u8; 16],
    /// The capabilities of the server.
    pub capabilities: Capabilities,
    /// The maximum size of QUERY_INFO, QUERY_DIRECTORY, SET_INFO and CHANGE_NOTIFY buffers, in bytes.
    pub max_transact_size: u32,
    /// The maximum size of a READ in bytes.
    pub max_read_size: u32,
    /// The maximum size of a WRITE in bytes.
    pub max_write_size: u32,
    /// The server's clock, a FILETIME.
    pub system_time: u64,
    /// The start time of the server, a FILETIME.
    pub server_start_time: u64,
    /// The server's first security token.
    pub buffer: &'a [u8],
    /// The contexts; read and written only with [`Dialect::SMB_3_1_1`].
    pub negotiate_context_list: Vec<NegotiateContext<'a>>,
}

impl<'a> NegotiateResponse<'a> {
    const SIZE: usize = 64;

    /// Reads the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, 65)?;
        let security_mode = SecurityMode(reader.u16()?);
        let dialect_revision = Dialect(reader.u16()?);
        let context_count = reader.u16()?;
        let mut response = NegotiateResponse {
            security_mode,
            dialect_revision,
            server_guid: reader.array()?,
            capabilities: Capabilities(reader.u32()?),
            max_transact_size: reader.u32()?,
            max_read_size: reader.u32()?,
            max_write_size: reader.u32()?,
            system_time: reader.u64()?,
            server_start_time: reader.u64()?,
            ..NegotiateResponse::default()
        };
        let (offset, length) = (reader.u16()?, reader.u16()?);
        let context_offset = size(reader.u32()?);
        response.buffer = field(message, offset, length, Self::SIZE)?;
        if dialect_revision == Dialect::SMB_3_1_1 {
            response.negotiate_context_list =
                NegotiateContext::decode_list(message, context_offset, context_count, Header::SIZE + Self::SIZE)?;
        }
        Ok(response)
    }

    /// Writes the body after the header.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(65);
        out.u16(self.security_mode.0);
        out.u16(self.dialect_revision.0);
        out.u16(0);
        out.bytes(&self.server_guid);
        out.u32(self.capabilities.0);
        out.u32(self.max_transact_size);
        out.u32(self.max_read_size);
        out.u32(self.max_write_size);
        out.u64(self.system_time);
        out.u64(self.server_start_time);
        out.u16(u16_of(Header::SIZE + Self::SIZE));
        out.u16(u16_of(self.buffer.len()));
        out.u32(0);
        out.bytes(self.buffer);
        if self.dialect_revision == Dialect::SMB_3_1_1 {
            let offset = NegotiateContext::encode_list(&self.negotiate_context_list, out);
            out.patch_u16(Header::SIZE + 6, u16_of(self.negotiate_context_list.len()));
            out.patch_u32(Header::SIZE + 60, u32_of(offset));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Malformed;
    use crate::smb2::testing::{Source, golden, message, round_trips};

    // 2.2.3: StructureSize, DialectCount, SecurityMode, Reserved, Capabilities, ClientGuid, NegotiateContextOffset,
    // NegotiateContextCount, Reserved2, Dialects, Padding, NegotiateContextList.
    const REQUEST: &str = "2400 0500 0100 0000 7f000000 11111111111111111111111111111111 70000000 0200 0000
         0202 1002 0003 0203 1103 0000
         0100 0600 00000000 0100 0000 0100 0000
         0200 0600 00000000 0200 0200 0100";

    fn request() -> NegotiateRequest<'static> {
        NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities(0x7f),
            client_guid: [0x11; 16],
            dialects: vec![
                Dialect::SMB_2_0_2,
                Dialect::SMB_2_1,
                Dialect::SMB_3_0,
                Dialect::SMB_3_0_2,
                Dialect::SMB_3_1_1,
            ],
            negotiate_context_list: vec![
                PreauthIntegrityCapabilities { hash_algorithms: vec![HashAlgorithm::SHA_512], salt: (&[][..]).into() }
                    .to_context(),
                EncryptionCapabilities { ciphers: vec![CipherId::AES_128_GCM, CipherId::AES_128_CCM] }.to_context(),
            ],
        }
    }

    #[test]
    fn the_request_of_3_1_1() {
        golden!(NegotiateRequest, request(), REQUEST);
    }

    #[test]
    fn the_request_of_older_dialects_has_a_reserved_time_instead_of_contexts() {
        let request = NegotiateRequest {
            dialects: vec![Dialect::SMB_2_0_2, Dialect::SMB_2_1],
            negotiate_context_list: vec![],
            ..request()
        };
        let body = "2400 0200 0100 0000 7f000000 11111111111111111111111111111111 0000000000000000 0202 1002";
        golden!(NegotiateRequest, request.clone(), body);
        let with_time = message(&body.replace("0000000000000000", "ffffffffffffffff"));
        assert_eq!(NegotiateRequest::decode(&with_time), Ok(request));
    }

    #[test]
    fn broken_requests_are_refused() {
        for (good, bad, error) in [
            ("2400 0500", "2300 0500", Malformed::Structure),
            ("2400 0500", "2400 ffff", Malformed::Truncated),
            ("70000000 0200", "6c000000 0200", Malformed::Offset),
            ("70000000 0200", "ffffffff 0200", Malformed::Offset),
            ("70000000 0200", "70000000 0300", Malformed::Truncated),
            ("70000000 0200", "70000000 ffff", Malformed::Truncated),
            ("0200 0600 00000000", "0200 0700 00000000", Malformed::Truncated),
        ] {
            let body = REQUEST.replace(good, bad);
            assert_ne!(body, REQUEST);
            assert_eq!(NegotiateRequest::decode(&message(&body)), Err(error), "{bad}");
        }
    }

    // 2.2.4: StructureSize, SecurityMode, DialectRevision, NegotiateContextCount, ServerGuid, Capabilities,
    // MaxTransactSize, MaxReadSize, MaxWriteSize, SystemTime, ServerStartTime, SecurityBufferOffset,
    // SecurityBufferLength, NegotiateContextOffset, Buffer, Padding, NegotiateContextList.
    #[test]
    fn the_response() {
        let response = NegotiateResponse {
            security_mode: SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED,
            dialect_revision: Dialect::SMB_3_1_1,
            server_guid: [0x22; 16],
            capabilities: Capabilities::LEASING | Capabilities::LARGE_MTU,
            max_transact_size: 0x10000,
            max_read_size: 0x20000,
            max_write_size: 0x30000,
            system_time: 1,
            server_start_time: 0,
            buffer: b"abc",
            negotiate_context_list: vec![
                SigningCapabilities { signing_algorithms: vec![SigningAlgorithm::AES_GMAC] }.to_context(),
            ],
        };
        golden!(
            NegotiateResponse,
            response.clone(),
            "4100 0300 1103 0100 22222222222222222222222222222222 06000000 00000100 00000200 00000300
             0100000000000000 0000000000000000 8000 0300 88000000 616263 0000000000
             0800 0400 00000000 0100 0200"
        );
        golden!(
            NegotiateResponse,
            NegotiateResponse { dialect_revision: Dialect::WILDCARD, negotiate_context_list: vec![], ..response },
            "4100 0300 ff02 0000 22222222222222222222222222222222 06000000 00000100 00000200 00000300
             0100000000000000 0000000000000000 8000 0300 00000000 616263"
        );
    }

    fn contexts<'a>(source: &mut Source<'a>, dialect: Dialect) -> Vec<NegotiateContext<'a>> {
        if dialect != Dialect::SMB_3_1_1 {
            return Vec::new();
        }
        source.list(|s| NegotiateContext { context_type: NegotiateContextType(s.u16()), data: s.slice().into() })
    }

    fn dialect(source: &mut Source<'_>) -> Dialect {
        [Dialect::SMB_3_1_1, Dialect::SMB_2_0_2, Dialect(source.u16() | 1)][usize::from(source.u8() % 3)]
    }

    round_trips! {
        requests_round_trip: NegotiateRequest<'_> = |s| {
            let last = dialect(s);
            let mut dialects = s.list(|s| Dialect(s.u16() & 0xff));
            dialects.push(last);
            NegotiateRequest {
                security_mode: SecurityMode(s.u16()),
                capabilities: Capabilities(s.u32()),
                client_guid: s.array(),
                dialects,
                negotiate_context_list: contexts(s, last),
            }
        };
        responses_round_trip: NegotiateResponse<'_> = |s| {
            let dialect_revision = dialect(s);
            NegotiateResponse {
                security_mode: SecurityMode(s.u16()),
                dialect_revision,
                server_guid: s.array(),
                capabilities: Capabilities(s.u32()),
                max_transact_size: s.u32(),
                max_read_size: s.u32(),
                max_write_size: s.u32(),
                system_time: s.u64(),
                server_start_time: s.u64(),
                buffer: s.slice(),
                negotiate_context_list: contexts(s, dialect_revision),
            }
        };
    }
}
