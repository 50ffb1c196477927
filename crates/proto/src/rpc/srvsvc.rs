//! The server service, which lists shares ([MS-SRVS] 3.1.4).
//!
//! Implemented: NetrShareEnum, NetrShareEnumSticky, NetrShareGetInfo, NetrServerGetInfo, NetrRemoteTOD. Calls that
//! change the server are not implemented, because the configuration defines the shares.

use super::ndr::{Arguments, Decoder, Encoder};
use super::pdu::SyntaxId;
use crate::bytes::Result;
use crate::calendar;
use crate::dtyp::Guid;

/// 4b324fc8-1670-01d3-1278-5a47bf6ee188, version 3.0.
pub const INTERFACE: SyntaxId = SyntaxId {
    uuid: Guid::from_fields(0x4b32_4fc8, 0x1670, 0x01d3, [0x12, 0x78, 0x5a, 0x47, 0xbf, 0x6e, 0xe1, 0x88]),
    version: 3,
};

/// Operation numbers of the calls.
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod opnum {
    pub const NETR_SHARE_ENUM: u16 = 15;
    pub const NETR_SHARE_GET_INFO: u16 = 16;
    pub const NETR_SERVER_GET_INFO: u16 = 21;
    pub const NETR_REMOTE_TOD: u16 = 28;
    pub const NETR_SHARE_ENUM_STICKY: u16 = 36;
}

/// Win32 error codes ([MS-ERREF] 2.2) that the calls return.
#[allow(missing_docs, reason = "the names are those of Windows")]
pub mod error {
    pub const SUCCESS: u32 = 0;
    pub const ACCESS_DENIED: u32 = 5;
    pub const INVALID_LEVEL: u32 = 124;
    pub const NET_NAME_NOT_FOUND: u32 = 2310;
}

/// STYPE_DISKTREE: a disk share ([MS-SRVS] 2.2.2.4).
pub const STYPE_DISKTREE: u32 = 0;
/// A pipe share.
pub const STYPE_IPC: u32 = 3;
/// A special share, which clients hide by default: names that end in `$`.
pub const STYPE_SPECIAL: u32 = 0x8000_0000;

/// The information about a share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// `shi_netname`.
    pub name: String,
    /// `shi_type`.
    pub kind: u32,
    /// `shi_remark`.
    pub comment: String,
    /// `shi_path`, in Windows notation.
    pub path: String,
    /// `shi_max_uses`.
    pub max_uses: u32,
    /// `shi_current_uses`.
    pub current_uses: u32,
}

/// The relevant arguments of NetrShareEnum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareEnum {
    /// The level of detail for each share.
    pub level: u32,
}

impl Arguments for ShareEnum {
    fn read(decoder: &mut Decoder<'_>) -> Result<ShareEnum> {
        decoder.optional_string()?;
        Ok(ShareEnum { level: decoder.u32()? })
    }
}

/// The arguments of NetrShareGetInfo.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareGetInfo {
    /// The share.
    pub name: String,
    /// The level of detail.
    pub level: u32,
}

impl Arguments for ShareGetInfo {
    fn read(decoder: &mut Decoder<'_>) -> Result<ShareGetInfo> {
        decoder.optional_string()?;
        Ok(ShareGetInfo { name: decoder.string()?, level: decoder.u32()? })
    }
}

/// The arguments of NetrServerGetInfo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerGetInfo {
    /// The level of detail.
    pub level: u32,
}

impl Arguments for ServerGetInfo {
    fn read(decoder: &mut Decoder<'_>) -> Result<ServerGetInfo> {
        decoder.optional_string()?;
        Ok(ServerGetInfo { level: decoder.u32()? })
    }
}

/// Returns whether the SHARE_INFO level is supported.
pub fn is_share_level(level: u32) -> bool {
    matches!(level, 0 | 1 | 2 | 501 | 502)
}

/// The results of NetrShareEnum; an empty list with INVALID_LEVEL for an unsupported level.
pub fn share_enum_response(level: u32, shares: &[Share]) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(level);
    out.u32(level);
    if !is_share_level(level) {
        out.null();
        out.u32(0);
        out.null();
        out.u32(error::INVALID_LEVEL);
        return out.into_bytes();
    }
    // SHARE_INFO_n_CONTAINER: a count and the array.
    out.pointer();
    out.u32(shares.len() as u32);
    out.pointer();
    out.u32(shares.len() as u32);
    for share in shares {
        encode_fixed(level, share, &mut out);
    }
    for share in shares {
        encode_strings(level, share, &mut out);
    }
    out.u32(shares.len() as u32);
    // No resume handle, because the list is complete.
    out.null();
    out.u32(error::SUCCESS);
    out.into_bytes()
}

/// The results of NetrShareGetInfo; `None` if there is no such share.
pub fn share_get_info_response(level: u32, share: Option<&Share>) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(level);
    match share {
        Some(share) if is_share_level(level) => {
            out.pointer();
            encode_fixed(level, share, &mut out);
            encode_strings(level, share, &mut out);
            out.u32(error::SUCCESS);
        }
        other => {
            out.null();
            out.u32(if other.is_some() { error::INVALID_LEVEL } else { error::NET_NAME_NOT_FOUND });
        }
    }
    out.into_bytes()
}

fn encode_fixed(level: u32, share: &Share, out: &mut Encoder) {
    out.pointer();
    if level == 0 {
        return;
    }
    out.u32(share.kind);
    out.pointer();
    match level {
        // Flags: no offline caching properties are reported here.
        501 => out.u32(0),
        2 | 502 => {
            // Permissions are meaningful only with share-level security.
            out.u32(0);
            out.u32(share.max_uses);
            out.u32(share.current_uses);
            out.pointer();
            out.null();
            if level == 502 {
                // No security descriptor of the share itself.
                out.u32(0);
                out.null();
            }
        }
        _ => {}
    }
}

fn encode_strings(level: u32, share: &Share, out: &mut Encoder) {
    out.string(&share.name);
    if level != 0 {
        out.string(&share.comment);
    }
    if matches!(level, 2 | 502) {
        out.string(&share.path);
    }
}

/// The server's information about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerInfo {
    /// Its name.
    pub name: String,
    /// Its comment.
    pub comment: String,
}

/// PLATFORM_ID_NT.
const PLATFORM_NT: u32 = 500;
/// The version of Windows whose behaviour clients may expect: 6.1, as in Samba.
const VERSION: (u32, u32) = (6, 1);
/// SV_TYPE_WORKSTATION | SV_TYPE_SERVER | SV_TYPE_NT | SV_TYPE_SERVER_NT | SV_TYPE_SERVER_UNIX.
const SERVER_TYPE: u32 = 0x0000_9803;

/// The results of NetrServerGetInfo, levels 100 and 101.
pub fn server_get_info_response(level: u32, server: &ServerInfo) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(level);
    if !matches!(level, 100 | 101) {
        out.null();
        out.u32(error::INVALID_LEVEL);
        return out.into_bytes();
    }
    out.pointer();
    out.u32(PLATFORM_NT);
    out.pointer();
    if level == 101 {
        out.u32(VERSION.0);
        out.u32(VERSION.1);
        out.u32(SERVER_TYPE);
        out.pointer();
    }
    out.string(&server.name);
    if level == 101 {
        out.string(&server.comment);
    }
    out.u32(error::SUCCESS);
    out.into_bytes()
}

/// The results of NetrRemoteTOD for a time in seconds since 1970-01-01 UTC.
pub fn remote_tod_response(seconds: u64, uptime_ms: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    let day = seconds % 86_400;
    let (year, month, day_of_month) = calendar::date((seconds / 86_400) as i64);
    out.pointer();
    for value in [
        seconds as u32,
        uptime_ms,
        (day / 3600) as u32,
        (day / 60 % 60) as u32,
        (day % 60) as u32,
        0,
        // The time zone is UTC, the clock's interval 10 ms.
        0,
        310,
        day_of_month as u32,
        month as u32,
        year as u32,
        // 1970-01-01 was a Thursday.
        ((seconds / 86_400 + 4) % 7) as u32,
        error::SUCCESS,
    ] {
        out.u32(value);
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_level_is_refused() {
        let response = share_enum_response(503, &[]);
        assert_eq!(response[response.len() - 4..], error::INVALID_LEVEL.to_le_bytes());
    }
}
