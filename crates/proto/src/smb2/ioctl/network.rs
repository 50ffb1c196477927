//! Control codes about the connection: NETWORK_INTERFACE_INFO, VALIDATE_NEGOTIATE_INFO, NETWORK_RESILIENCY_REQUEST
//! ([MS-SMB2] 2.2.32.5, 2.2.31.4, 2.2.32.6, 2.2.31.3).

use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::flags::flags;
use crate::smb2::negotiate::{Capabilities, Dialect, SecurityMode, dialects};
use crate::smb2::{size, u16_of, u32_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

flags! {
    /// The capabilities of an interface ([MS-SMB2] 2.2.32.5).
    pub struct InterfaceCapability(u32) {
        /// Receive side scaling: the load is spread over processors.
        RSS_CAPABLE = 0x0000_0001;
        /// RDMA.
        RDMA_CAPABLE = 0x0000_0002;
    }
}

/// One address of one interface (NETWORK_INTERFACE_INFO, [MS-SMB2] 2.2.32.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetworkInterfaceInfo {
    /// The index of the interface.
    pub if_index: u32,
    /// The capabilities of the interface.
    pub capability: InterfaceCapability,
    /// The link speed in bits per second.
    pub link_speed: u64,
    /// The address.
    pub address: IpAddr,
}

impl NetworkInterfaceInfo {
    const SIZE: usize = 152;
    const INTER_NETWORK: u16 = 0x0002;
    const INTER_NETWORK_V6: u16 = 0x0017;

    /// Decodes the output of FSCTL_QUERY_NETWORK_INTERFACE_INFO. Addresses of other families are skipped.
    pub fn decode_list(mut output: &[u8]) -> Result<Vec<Self>> {
        let mut list = Vec::new();
        while !output.is_empty() {
            let next = size(Reader::new(output).u32()?);
            list.extend(Self::decode(output)?);
            if next == 0 {
                break;
            }
            if next < Self::SIZE {
                return Err(Malformed::Offset);
            }
            output = output.get(next..).ok_or(Malformed::Offset)?;
        }
        Ok(list)
    }

    fn decode(output: &[u8]) -> Result<Option<Self>> {
        let mut reader = Reader::new(output);
        reader.skip(4)?;
        let (if_index, capability) = (reader.u32()?, InterfaceCapability(reader.u32()?));
        reader.skip(4)?;
        let link_speed = reader.u64()?;
        let mut storage = Reader::new(reader.take(128)?);
        let address = match storage.u16()? {
            Self::INTER_NETWORK => {
                storage.skip(2)?;
                IpAddr::from(storage.array::<4>()?)
            }
            Self::INTER_NETWORK_V6 => {
                storage.skip(6)?;
                IpAddr::from(storage.array::<16>()?)
            }
            _ => return Ok(None),
        };
        Ok(Some(NetworkInterfaceInfo { if_index, capability, link_speed, address }))
    }

    /// Encodes the output of FSCTL_QUERY_NETWORK_INTERFACE_INFO.
    pub fn encode_list(list: &[Self], out: &mut Writer<'_>) {
        for (index, info) in list.iter().enumerate() {
            out.u32(if index + 1 < list.len() { u32_of(Self::SIZE) } else { 0 });
            out.u32(info.if_index);
            out.u32(info.capability.0);
            out.u32(0);
            out.u64(info.link_speed);
            match info.address {
                IpAddr::V4(address) => Self::encode_v4(address, out),
                IpAddr::V6(address) => Self::encode_v6(address, out),
            }
        }
    }

    /// SOCKADDR_IN: family, port, address, then zeros up to 128 bytes (2.2.32.5.1.1).
    fn encode_v4(address: Ipv4Addr, out: &mut Writer<'_>) {
        out.u16(Self::INTER_NETWORK);
        out.u16(0);
        out.bytes(&address.octets());
        out.zeros(120);
    }

    /// SOCKADDR_IN6: family, port, flow, address, scope, then zeros up to 128 bytes (2.2.32.5.1.2).
    fn encode_v6(address: Ipv6Addr, out: &mut Writer<'_>) {
        out.u16(Self::INTER_NETWORK_V6);
        out.u16(0);
        out.u32(0);
        out.bytes(&address.octets());
        out.zeros(104);
    }
}

/// The client's NEGOTIATE parameters (VALIDATE_NEGOTIATE_INFO request, [MS-SMB2] 2.2.31.4).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ValidateNegotiateInfoRequest {
    /// The capabilities of the client.
    pub capabilities: Capabilities,
    /// The GUID of the client.
    pub guid: [u8; 16],
    /// The signing mode of the client.
    pub security_mode: SecurityMode,
    /// The dialects that the client offered.
    pub dialects: Vec<Dialect>,
}

impl ValidateNegotiateInfoRequest {
    /// Decodes the input.
    pub fn decode(input: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(input);
        let (capabilities, guid) = (Capabilities(reader.u32()?), reader.array()?);
        let security_mode = SecurityMode(reader.u16()?);
        let dialect_count = usize::from(reader.u16()?);
        let dialects = dialects(reader.take(dialect_count * 2)?);
        Ok(ValidateNegotiateInfoRequest { capabilities, guid, security_mode, dialects })
    }

    /// Encodes the input.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u32(self.capabilities.0);
        out.bytes(&self.guid);
        out.u16(self.security_mode.0);
        out.u16(u16_of(self.dialects.len()));
        self.dialects.iter().for_each(|dialect| out.u16(dialect.0));
    }
}

/// The server's NEGOTIATE parameters (VALIDATE_NEGOTIATE_INFO response, [MS-SMB2] 2.2.32.6).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ValidateNegotiateInfoResponse {
    /// The capabilities of the server.
    pub capabilities: Capabilities,
    /// The GUID of the server.
    pub guid: [u8; 16],
    /// The signing mode of the server.
    pub security_mode: SecurityMode,
    /// The dialect that the server selected.
    pub dialect: Dialect,
}

impl ValidateNegotiateInfoResponse {
    /// The size of the output in bytes.
    pub const SIZE: usize = 24;

    /// Decodes the output.
    pub fn decode(output: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(output);
        Ok(ValidateNegotiateInfoResponse {
            capabilities: Capabilities(reader.u32()?),
            guid: reader.array()?,
            security_mode: SecurityMode(reader.u16()?),
            dialect: Dialect(reader.u16()?),
        })
    }

    /// Encodes the output.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u32(self.capabilities.0);
        out.bytes(&self.guid);
        out.u16(self.security_mode.0);
        out.u16(self.dialect.0);
    }
}

/// NETWORK_RESILIENCY_REQUEST ([MS-SMB2] 2.2.31.3): the input of FSCTL_LMR_REQUEST_RESILIENCY.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NetworkResiliencyRequest {
    /// The time for which the open should survive a disconnect, in milliseconds.
    pub timeout: u32,
}

impl NetworkResiliencyRequest {
    /// Decodes the input.
    pub fn decode(input: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(input);
        let timeout = reader.u32()?;
        reader.skip(4)?;
        Ok(NetworkResiliencyRequest { timeout })
    }

    /// Encodes the input.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u32(self.timeout);
        out.u32(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{Source, encode_part, golden_part, hex, parts_round_trip};
    use proptest::prelude::*;

    // 2.2.32.5: Next, IfIndex, Capability, Reserved, LinkSpeed, SockAddr_Storage; 2.2.32.5.1.1: Family, Port,
    // IPv4Address, Reserved; 2.2.32.5.1.2: Family, Port, FlowInfo, IPv6Address, ScopeId.
    #[test]
    fn interfaces() {
        let list = vec![
            NetworkInterfaceInfo {
                if_index: 2,
                capability: InterfaceCapability::RSS_CAPABLE,
                link_speed: 1_000_000_000,
                address: Ipv4Addr::new(192, 0, 2, 1).into(),
            },
            NetworkInterfaceInfo {
                if_index: 2,
                capability: InterfaceCapability::NONE,
                link_speed: 1,
                address: Ipv6Addr::LOCALHOST.into(),
            },
        ];
        let output = hex(&format!(
            "98000000 02000000 01000000 00000000 00ca9a3b00000000 0200 0000 c0000201 {}
             00000000 02000000 00000000 00000000 0100000000000000 1700 0000 00000000
             00000000000000000000000000000001 00000000 {}",
            "00".repeat(120),
            "00".repeat(100),
        ));
        assert_eq!(encode_part(|out| NetworkInterfaceInfo::encode_list(&list, out)), output);
        assert_eq!(NetworkInterfaceInfo::decode_list(&output), Ok(list.clone()));
        for (at, byte, answer) in [
            (0, 0x97, Err(Malformed::Offset)),
            (3, 1, Err(Malformed::Offset)),
            (0, 0xa0, Err(Malformed::Truncated)),
            (24, 3, Ok(vec![list[1]])),
        ] {
            let mut output = output.clone();
            output[at] = byte;
            assert_eq!(NetworkInterfaceInfo::decode_list(&output), answer, "{byte:#x} at {at}");
        }
    }

    // 2.2.31.4: Capabilities, Guid, SecurityMode, DialectCount, Dialects.
    #[test]
    fn a_validation_request() {
        let request = ValidateNegotiateInfoRequest {
            capabilities: Capabilities::LEASING,
            guid: [1; 16],
            security_mode: SecurityMode::SIGNING_ENABLED,
            dialects: vec![Dialect::SMB_2_1, Dialect::SMB_3_0],
        };
        golden_part!(
            ValidateNegotiateInfoRequest,
            request,
            "02000000 01010101010101010101010101010101 0100 0200 1002 0003"
        );
        let short = hex("02000000 01010101010101010101010101010101 0100 0200 1002 00");
        assert_eq!(ValidateNegotiateInfoRequest::decode(&short), Err(Malformed::Truncated));
    }

    // 2.2.32.6: Capabilities, Guid, SecurityMode, Dialect.
    #[test]
    fn a_validation_response() {
        let response = ValidateNegotiateInfoResponse {
            capabilities: Capabilities::LEASING,
            guid: [1; 16],
            security_mode: SecurityMode::SIGNING_REQUIRED,
            dialect: Dialect::SMB_3_0_2,
        };
        let output = "02000000 01010101010101010101010101010101 0200 0203";
        golden_part!(ValidateNegotiateInfoResponse, response, output);
        assert_eq!(hex(output).len(), ValidateNegotiateInfoResponse::SIZE);
    }

    // 2.2.31.3: Timeout, Reserved.
    #[test]
    fn a_resiliency_request() {
        golden_part!(NetworkResiliencyRequest, NetworkResiliencyRequest { timeout: 1000 }, "e8030000 00000000");
        assert_eq!(NetworkResiliencyRequest::decode(&hex("e8030000")), Err(Malformed::Truncated));
    }

    parts_round_trip! {
        validation_requests_round_trip: ValidateNegotiateInfoRequest = |s| ValidateNegotiateInfoRequest {
            capabilities: Capabilities(s.u32()),
            guid: s.array(),
            security_mode: SecurityMode(s.u16()),
            dialects: s.list(|s| Dialect(s.u16())),
        };
        validation_responses_round_trip: ValidateNegotiateInfoResponse = |s| ValidateNegotiateInfoResponse {
            capabilities: Capabilities(s.u32()),
            guid: s.array(),
            security_mode: SecurityMode(s.u16()),
            dialect: Dialect(s.u16()),
        };
        resiliency_requests_round_trip: NetworkResiliencyRequest = |s| NetworkResiliencyRequest { timeout: s.u32() };
    }

    proptest! {
        #[test]
        fn interfaces_round_trip((bytes, _) in Source::strategy()) {
            let list = Source::new(&bytes).list(|s| NetworkInterfaceInfo {
                if_index: s.u32(),
                capability: InterfaceCapability(s.u32()),
                link_speed: s.u64(),
                address: if s.u8() & 1 == 1 { s.array::<4>().into() } else { s.array::<16>().into() },
            });
            let output = encode_part(|out| NetworkInterfaceInfo::encode_list(&list, out));
            prop_assert_eq!(NetworkInterfaceInfo::decode_list(&output), Ok(list));
        }
    }
}
