//! The workstation service ([MS-WKST] 3.2.4): the computer, the users on it, and its transports.

use super::enumeration::{Entry, Levelled, Request, Row};
use super::ndr::{Arguments, Decoder, Encoder};
use super::pdu::SyntaxId;
use super::srvsvc::server::{PLATFORM_NT, TRANSPORT_ADDRESS, TRANSPORT_NAME, VERSION};
use crate::bytes::Result;
use crate::dtyp::Guid;

/// 6bffd098-a112-3610-9833-46c3f87e345a, version 1.0.
pub const INTERFACE: SyntaxId = SyntaxId {
    uuid: Guid::from_fields(0x6bff_d098, 0xa112, 0x3610, [0x98, 0x33, 0x46, 0xc3, 0xf8, 0x7e, 0x34, 0x5a]),
    version: 1,
};

/// Operation numbers of the calls.
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod opnum {
    pub const NETR_WKSTA_GET_INFO: u16 = 0;
    pub const NETR_WKSTA_USER_ENUM: u16 = 2;
    pub const NETR_WKSTA_USER_GET_INFO: u16 = 3;
    pub const NETR_WKSTA_TRANSPORT_ENUM: u16 = 5;
    pub const NETR_WKSTA_TRANSPORT_ADD: u16 = 6;
    pub const NETR_WKSTA_TRANSPORT_DEL: u16 = 7;
    pub const NETR_USE_ADD: u16 = 8;
    pub const NETR_USE_GET_INFO: u16 = 9;
    pub const NETR_USE_DEL: u16 = 10;
    pub const NETR_USE_ENUM: u16 = 11;
    pub const NETR_MESSAGE_BUFFER_SEND: u16 = 12;
    pub const NETR_WORKSTATION_STATISTICS_GET: u16 = 13;
    pub const NETR_LOGON_DOMAIN_NAME_ADD: u16 = 14;
    pub const NETR_LOGON_DOMAIN_NAME_DEL: u16 = 15;
    pub const NETR_JOIN_DOMAIN: u16 = 16;
    pub const NETR_UNJOIN_DOMAIN: u16 = 17;
    pub const NETR_RENAME_MACHINE_IN_DOMAIN: u16 = 18;
    pub const NETR_VALIDATE_NAME: u16 = 19;
    pub const NETR_GET_JOIN_INFORMATION: u16 = 20;
    pub const NETR_GET_JOINABLE_OUS: u16 = 21;
    pub const NETR_JOIN_DOMAIN_2: u16 = 22;
    pub const NETR_UNJOIN_DOMAIN_2: u16 = 23;
    pub const NETR_RENAME_MACHINE_IN_DOMAIN_2: u16 = 24;
    pub const NETR_VALIDATE_NAME_2: u16 = 25;
    pub const NETR_GET_JOINABLE_OUS_2: u16 = 26;
    pub const NETR_ADD_ALTERNATE_COMPUTER_NAME: u16 = 27;
    pub const NETR_REMOVE_ALTERNATE_COMPUTER_NAME: u16 = 28;
    pub const NETR_SET_PRIMARY_COMPUTER_NAME: u16 = 29;
    pub const NETR_ENUMERATE_COMPUTER_NAMES: u16 = 30;
}

/// ERROR_NOT_SUPPORTED ([MS-ERREF] 2.2).
pub const NOT_SUPPORTED: u32 = 50;
/// ERROR_CALL_NOT_IMPLEMENTED ([MS-ERREF] 2.2).
pub const CALL_NOT_IMPLEMENTED: u32 = 120;
/// ERROR_NO_SUCH_LOGON_SESSION ([MS-ERREF] 2.2).
pub const NO_SUCH_LOGON_SESSION: u32 = 1312;
/// NERR_SetupNotJoined ([MS-ERREF] 2.2): the server is not a member of a domain.
pub const SETUP_NOT_JOINED: u32 = 2692;
/// RPC_E_REMOTE_DISABLED ([MS-WKST] 3.2.4.16): only local callers are served.
pub const REMOTE_DISABLED: u32 = 0x8001_011c;

/// NETSETUP_JOIN_STATUS ([MS-WKST] 2.2.3.1): NameBuffer is a workgroup.
pub const WORKGROUP_NAME: u16 = 2;
/// NETSETUP_JOIN_STATUS: NameBuffer is a domain.
pub const DOMAIN_NAME: u16 = 3;

/// The levels of NetrWkstaGetInfo.
pub const LEVELS: &[u32] = &[100, 101, 102, REDIRECTOR_LEVEL];
/// The level of NetrWkstaGetInfo that every caller may request.
pub const PUBLIC_LEVEL: u32 = 100;
/// The level of NetrWkstaGetInfo that only administrators may request.
pub const ADMINISTRATOR_LEVEL: u32 = 102;
/// The level of NetrWkstaGetInfo that describes the SMB client of the computer.
pub const REDIRECTOR_LEVEL: u32 = 502;
const USER_LEVELS: &[u32] = &[0, 1];
const TRANSPORT_LEVELS: &[u32] = &[0];
const USE_LEVELS: &[u32] = &[0, 1, 2];

/// The arguments of NetrWkstaGetInfo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WkstaGetInfo {
    /// The level of detail.
    pub level: u32,
}

impl Arguments for WkstaGetInfo {
    fn read(decoder: &mut Decoder<'_>) -> Result<WkstaGetInfo> {
        decoder.optional_string()?;
        Ok(WkstaGetInfo { level: decoder.u32()? })
    }
}

/// The arguments of NetrWkstaUserGetInfo, which describes the user at the console.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WkstaUserGetInfo {
    /// The first argument, which is reserved, is not null.
    pub has_reserved: bool,
    /// The level of detail.
    pub level: u32,
}

impl Arguments for WkstaUserGetInfo {
    fn read(decoder: &mut Decoder<'_>) -> Result<WkstaUserGetInfo> {
        let has_reserved = decoder.optional_string()?.is_some();
        Ok(WkstaUserGetInfo { has_reserved, level: decoder.u32()? })
    }
}

/// The arguments of NetrWkstaTransportAdd.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WkstaTransportAdd {
    /// Information level.
    pub level: u32,
    /// `wkti0_transport_name`.
    pub name: Option<String>,
    /// The client wants to know the invalid member.
    pub wants_member: bool,
}

impl Arguments for WkstaTransportAdd {
    fn read(decoder: &mut Decoder<'_>) -> Result<WkstaTransportAdd> {
        decoder.optional_string()?;
        let level = decoder.u32()?;
        // `wkti0_quality_of_service` and `wkti0_number_of_vcs`.
        decoder.u32()?;
        decoder.u32()?;
        let (has_name, has_address) = (decoder.pointer()?, decoder.pointer()?);
        decoder.u32()?;
        let name = if has_name { Some(decoder.string()?) } else { None };
        if has_address {
            decoder.string()?;
        }
        let wants_member = decoder.pointer()?;
        Ok(WkstaTransportAdd { level, name, wants_member })
    }
}

/// The arguments of NetrWkstaTransportDel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WkstaTransportDel {
    /// TransportName.
    pub name: Option<String>,
    /// ForceLevel.
    pub force: u32,
}

impl Arguments for WkstaTransportDel {
    fn read(decoder: &mut Decoder<'_>) -> Result<WkstaTransportDel> {
        decoder.optional_string()?;
        Ok(WkstaTransportDel { name: decoder.optional_string()?, force: decoder.u32()? })
    }
}

/// The arguments of NetrWorkstationStatisticsGet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatisticsGet {
    /// The level of detail.
    pub level: u32,
    /// Options.
    pub options: u32,
}

impl Arguments for StatisticsGet {
    fn read(decoder: &mut Decoder<'_>) -> Result<StatisticsGet> {
        decoder.optional_string()?;
        decoder.optional_string()?;
        Ok(StatisticsGet { level: decoder.u32()?, options: decoder.u32()? })
    }
}

/// The results of NetrWorkstationStatisticsGet: a STAT_WORKSTATION_0 ([MS-WKST] 2.2.5.11) of an SMB client that has
/// made no connections, or the error.
pub fn statistics_response(status: u32) -> Vec<u8> {
    const HYPERS: usize = 13;
    const LONGS: usize = 27;
    let mut out = Encoder::default();
    if status == 0 {
        out.pointer();
        out.array(8, &[0; HYPERS * 8]);
        out.array(4, &[0; LONGS * 4]);
    } else {
        out.null();
    }
    out.u32(status);
    out.into_bytes()
}

/// The results of NetrWkstaTransportAdd: the index of the invalid member, if the client wants it.
pub fn transport_add_response(member: Option<u32>, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    match member {
        Some(member) => {
            out.pointer();
            out.u32(member);
        }
        None => out.null(),
    }
    out.u32(status);
    out.into_bytes()
}

/// The arguments of NetrWkstaUserEnum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WkstaUserEnum(pub Levelled);

impl Arguments for WkstaUserEnum {
    fn read(decoder: &mut Decoder<'_>) -> Result<WkstaUserEnum> {
        decoder.optional_string()?;
        Request::read_level(decoder, USER_LEVELS).map(WkstaUserEnum)
    }
}

/// The arguments of NetrWkstaTransportEnum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WkstaTransportEnum(pub Levelled);

impl Arguments for WkstaTransportEnum {
    fn read(decoder: &mut Decoder<'_>) -> Result<WkstaTransportEnum> {
        decoder.optional_string()?;
        Request::read_level(decoder, TRANSPORT_LEVELS).map(WkstaTransportEnum)
    }
}

/// The arguments of NetrUseEnum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UseEnum(pub Levelled);

impl Arguments for UseEnum {
    fn read(decoder: &mut Decoder<'_>) -> Result<UseEnum> {
        decoder.optional_string()?;
        Request::read_level(decoder, USE_LEVELS).map(UseEnum)
    }
}

/// The arguments of NetrUseGetInfo.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UseGetInfo {
    /// The level of detail.
    pub level: u32,
}

impl Arguments for UseGetInfo {
    fn read(decoder: &mut Decoder<'_>) -> Result<UseGetInfo> {
        decoder.optional_string()?;
        decoder.string()?;
        Ok(UseGetInfo { level: decoder.u32()? })
    }
}

/// The level of NetrWkstaUserGetInfo that has the other domains that the computer browses.
pub const OTHER_DOMAINS_LEVEL: u32 = 1101;

/// The results of NetrWkstaUserGetInfo at [`OTHER_DOMAINS_LEVEL`]: a WKSTA_USER_INFO_1101 without domains.
pub fn other_domains_response() -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(OTHER_DOMAINS_LEVEL);
    out.pointer();
    out.pointer();
    out.string("");
    out.u32(0);
    out.into_bytes()
}

/// The results of NetrUseGetInfo and NetrWkstaUserGetInfo without a structure.
pub fn use_info_response(level: u32, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(level);
    out.null();
    out.u32(status);
    out.into_bytes()
}

/// The arguments of NetrEnumerateComputerNames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnumerateComputerNames {
    /// NameType: the primary name, the alternate ones or all.
    pub kind: u16,
    /// Reserved: flags.
    pub flags: u32,
}

impl Arguments for EnumerateComputerNames {
    fn read(decoder: &mut Decoder<'_>) -> Result<EnumerateComputerNames> {
        decoder.optional_string()?;
        Ok(EnumerateComputerNames { kind: decoder.u16()?, flags: decoder.u32()? })
    }
}

/// The results of NetrGetJoinInformation.
pub fn join_information_response(name: Option<&str>, kind: u16, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    match name {
        Some(name) => {
            out.pointer();
            out.string(name);
        }
        None => out.null(),
    }
    out.u16(kind);
    out.u32(status);
    out.into_bytes()
}

/// The results of NetrEnumerateComputerNames: a NET_COMPUTER_NAME_ARRAY ([MS-WKST] 2.2.5.21), or the reason why it
/// is absent.
pub fn computer_names_response(names: std::result::Result<&[&str], u32>) -> Vec<u8> {
    let mut out = Encoder::default();
    match names {
        Ok(names) => {
            let count = names.len() as u32;
            out.pointer();
            out.u32(count);
            out.pointer();
            out.u32(count);
            names.iter().for_each(|name| out.unicode(name));
            names.iter().for_each(|name| out.text(name));
        }
        Err(_) => out.null(),
    }
    out.u32(names.err().unwrap_or(0));
    out.into_bytes()
}

/// The computer: WKSTA_INFO structures ([MS-WKST] 2.2.5.1 to 2.2.5.4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wksta {
    /// `computername`.
    pub name: String,
    /// `langroup`: the domain or workgroup.
    pub domain: String,
    /// `logged_on_users`.
    pub users: u32,
}

impl Entry for Wksta {
    fn encode(&self, level: u32, out: &mut Row<'_>) {
        if level == REDIRECTOR_LEVEL {
            // WKSTA_INFO_502 ([MS-WKST] 2.2.5.4): the settings of an SMB client, which the server is not.
            const MEMBERS: usize = 35;
            return (0..MEMBERS).for_each(|_| out.u32(0));
        }
        out.u32(PLATFORM_NT);
        out.string(&self.name);
        out.string(&self.domain);
        out.u32(VERSION.0);
        out.u32(VERSION.1);
        if level != 100 {
            // `lanroot` is not used.
            out.null();
        }
        if level == 102 {
            out.u32(self.users);
        }
    }
}

/// A user: WKSTA_USER_INFO structures ([MS-WKST] 2.2.5.9, 2.2.5.10).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WkstaUser {
    /// `username`.
    pub name: String,
    /// `logon_domain`.
    pub domain: String,
    /// `logon_server`: the server that authenticated the user; empty if it is not known.
    pub server: String,
}

impl Entry for WkstaUser {
    fn encode(&self, level: u32, out: &mut Row<'_>) {
        out.string(&self.name);
        if level == 1 {
            out.string(&self.domain);
            // No other domains are browsed.
            out.string("");
            out.string(&self.server);
        }
    }
}

/// A transport: WKSTA_TRANSPORT_INFO_0 ([MS-WKST] 2.2.5.8).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WkstaTransport {
    /// `number_of_vcs`: connections.
    pub connections: u32,
}

impl Entry for WkstaTransport {
    fn encode(&self, _: u32, out: &mut Row<'_>) {
        out.u32(0);
        out.u32(self.connections);
        out.string(TRANSPORT_NAME);
        out.string(TRANSPORT_ADDRESS);
        // TCP is routable.
        out.u32(1);
    }
}
