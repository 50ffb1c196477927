//! The server service ([MS-SRVS] 3.1.4): shares, sessions, open files, tree connects and the server itself.
//!
//! - [`shares`], [`clients`] and [`server`] have what the calls return: structures in several levels.
//! - [`share_changes`] has the calls that add, change and remove shares.
//! - [`names`] validates names.
//! - [`file_security`] has the calls that query and set the security descriptor of a file.
//!
//! Sessions and open files can be closed.

pub mod clients;
pub mod file_security;
pub mod names;
pub mod server;
pub mod share_changes;
pub mod shares;

use super::enumeration::{Levelled, Request};
use super::ndr::{Arguments, Decoder, Encoder};
use super::pdu::SyntaxId;
use crate::bytes::Result;
use crate::dtyp::Guid;

/// 4b324fc8-1670-01d3-1278-5a47bf6ee188, version 3.0.
pub const INTERFACE: SyntaxId = SyntaxId {
    uuid: Guid::from_fields(0x4b32_4fc8, 0x1670, 0x01d3, [0x12, 0x78, 0x5a, 0x47, 0xbf, 0x6e, 0xe1, 0x88]),
    version: 3,
};

/// Operation numbers of the calls.
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod opnum {
    pub const NETR_CHAR_DEV_ENUM: u16 = 0;
    pub const NETR_CHAR_DEVQ_ENUM: u16 = 3;
    pub const NETR_CONNECTION_ENUM: u16 = 8;
    pub const NETR_FILE_ENUM: u16 = 9;
    pub const NETR_FILE_GET_INFO: u16 = 10;
    pub const NETR_FILE_CLOSE: u16 = 11;
    pub const NETR_SESSION_ENUM: u16 = 12;
    pub const NETR_SESSION_DEL: u16 = 13;
    pub const NETR_SHARE_ADD: u16 = 14;
    pub const NETR_SHARE_ENUM: u16 = 15;
    pub const NETR_SHARE_GET_INFO: u16 = 16;
    pub const NETR_SHARE_SET_INFO: u16 = 17;
    pub const NETR_SHARE_DEL: u16 = 18;
    pub const NETR_SHARE_DEL_STICKY: u16 = 19;
    pub const NETR_SHARE_CHECK: u16 = 20;
    pub const NETR_SERVER_GET_INFO: u16 = 21;
    pub const NETR_SERVER_DISK_ENUM: u16 = 23;
    pub const NETR_SERVER_TRANSPORT_ENUM: u16 = 26;
    pub const NETR_REMOTE_TOD: u16 = 28;
    pub const NETPR_NAME_VALIDATE: u16 = 33;
    pub const NETR_SHARE_ENUM_STICKY: u16 = 36;
    pub const NETR_SHARE_DEL_START: u16 = 37;
    pub const NETR_SHARE_DEL_COMMIT: u16 = 38;
    pub const NETRP_GET_FILE_SECURITY: u16 = 39;
    pub const NETRP_SET_FILE_SECURITY: u16 = 40;
}

/// The arguments of NetrShareEnum and NetrShareEnumSticky.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareEnum(pub Levelled);

impl Arguments for ShareEnum {
    fn read(decoder: &mut Decoder<'_>) -> Result<ShareEnum> {
        decoder.optional_string()?;
        Request::read_level(decoder, shares::LISTED_LEVELS).map(ShareEnum)
    }
}

/// The arguments of NetrServerTransportEnum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransportEnum(pub Levelled);

impl Arguments for TransportEnum {
    fn read(decoder: &mut Decoder<'_>) -> Result<TransportEnum> {
        decoder.optional_string()?;
        Request::read_level(decoder, server::TRANSPORT_LEVELS).map(TransportEnum)
    }
}

/// The arguments of NetrSessionEnum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionEnum {
    /// Only sessions of this client are listed.
    pub client: Option<String>,
    /// Only sessions of this user are listed.
    pub user: Option<String>,
    /// What is requested of each.
    pub request: Levelled,
}

impl Arguments for SessionEnum {
    fn read(decoder: &mut Decoder<'_>) -> Result<SessionEnum> {
        decoder.optional_string()?;
        Ok(SessionEnum {
            client: decoder.optional_string()?,
            user: decoder.optional_string()?,
            request: Request::read_level(decoder, clients::SESSION_LEVELS)?,
        })
    }
}

/// The arguments of NetrSessionDel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionDel {
    /// Sessions of this client end.
    pub client: Option<String>,
    /// Sessions of this user end.
    pub user: Option<String>,
}

impl Arguments for SessionDel {
    fn read(decoder: &mut Decoder<'_>) -> Result<SessionDel> {
        decoder.optional_string()?;
        Ok(SessionDel { client: decoder.optional_string()?, user: decoder.optional_string()? })
    }
}

/// The arguments of NetrFileClose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileClose {
    /// The number of the open in a listing.
    pub id: u32,
}

impl Arguments for FileClose {
    fn read(decoder: &mut Decoder<'_>) -> Result<FileClose> {
        decoder.optional_string()?;
        Ok(FileClose { id: decoder.u32()? })
    }
}

/// The arguments of NetrFileEnum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileEnum {
    /// Only files below this path are listed.
    pub base: Option<String>,
    /// Only files that this user has opened are listed.
    pub user: Option<String>,
    /// What is requested of each.
    pub request: Levelled,
}

impl Arguments for FileEnum {
    fn read(decoder: &mut Decoder<'_>) -> Result<FileEnum> {
        decoder.optional_string()?;
        Ok(FileEnum {
            base: decoder.optional_string()?,
            user: decoder.optional_string()?,
            request: Request::read_level(decoder, clients::FILE_LEVELS)?,
        })
    }
}

/// The arguments of NetrConnectionEnum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionEnum {
    /// The share, or the client with `\\`, whose tree connects are listed.
    pub qualifier: Option<String>,
    /// What is requested of each.
    pub request: Levelled,
}

impl Arguments for ConnectionEnum {
    fn read(decoder: &mut Decoder<'_>) -> Result<ConnectionEnum> {
        decoder.optional_string()?;
        Ok(ConnectionEnum {
            qualifier: decoder.optional_string()?,
            request: Request::read_level(decoder, clients::CONNECTION_LEVELS)?,
        })
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

/// The arguments of NetrShareCheck.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareCheck {
    /// The path of a share, in Windows notation.
    pub device: String,
}

impl Arguments for ShareCheck {
    fn read(decoder: &mut Decoder<'_>) -> Result<ShareCheck> {
        decoder.optional_string()?;
        Ok(ShareCheck { device: decoder.string()? })
    }
}

/// The results of NetrShareCheck: the type of the share, or the error.
pub fn share_check_response(kind: std::result::Result<u32, u32>) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(kind.unwrap_or(0));
    out.u32(kind.err().unwrap_or(0));
    out.into_bytes()
}

/// The arguments of NetrServerDiskEnum. It ignores those after the level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskEnum {
    /// The level of detail.
    pub level: u32,
    /// ResumeHandle.
    pub resume: Option<u32>,
}

impl Arguments for DiskEnum {
    fn read(decoder: &mut Decoder<'_>) -> Result<DiskEnum> {
        /// The drives A to Z, and the end of the list.
        const MOST_DISKS: usize = 27;
        decoder.optional_string()?;
        let level = decoder.u32()?;
        decoder.count(MOST_DISKS)?;
        if decoder.pointer()? {
            let (_, _, count) = (decoder.count(MOST_DISKS)?, decoder.u32()?, decoder.count(MOST_DISKS)?);
            for _ in 0..count {
                let (_, length) = (decoder.u32()?, decoder.count(3)?);
                decoder.units(length)?;
            }
        }
        decoder.u32()?;
        let resume = if decoder.pointer()? { Some(decoder.u32()?) } else { None };
        Ok(DiskEnum { level, resume })
    }
}

/// The results of NetrServerDiskEnum: a DISK_ENUM_CONTAINER ([MS-SRVS] 2.2.4.92) whose last element is empty and not
/// counted, or the error.
pub fn disk_enum_response(asked: &DiskEnum, disks: std::result::Result<&[&str], u32>) -> Vec<u8> {
    let mut out = Encoder::default();
    let all = disks.unwrap_or_default();
    if disks.is_ok() {
        let count = all.len() as u32 + 1;
        out.u32(count);
        out.pointer();
        [count, 0, count].into_iter().for_each(|number| out.u32(number));
        for disk in all.iter().chain([&""]) {
            out.u32(0);
            out.u32(disk.len() as u32 + 1);
            disk.encode_utf16().chain([0]).for_each(|unit| out.u16(unit));
        }
    } else {
        out.u32(0);
        out.null();
    }
    out.u32(all.len() as u32);
    match asked.resume {
        Some(resume) => {
            out.pointer();
            out.u32(resume);
        }
        None => out.null(),
    }
    out.u32(disks.err().unwrap_or(0));
    out.into_bytes()
}

/// The arguments of NetrCharDevEnum and NetrCharDevQEnum, as far as the results need them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CharDevEnum {
    /// The level of detail.
    pub level: u32,
}

impl Arguments for CharDevEnum {
    fn read(decoder: &mut Decoder<'_>) -> Result<CharDevEnum> {
        decoder.optional_string()?;
        Ok(CharDevEnum { level: decoder.u32()? })
    }
}

/// The arguments of NetrFileGetInfo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileGetInfo {
    /// The number of the open in a listing.
    pub id: u32,
    /// The level of detail.
    pub level: u32,
}

impl Arguments for FileGetInfo {
    fn read(decoder: &mut Decoder<'_>) -> Result<FileGetInfo> {
        decoder.optional_string()?;
        Ok(FileGetInfo { id: decoder.u32()?, level: decoder.u32()? })
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

/// The arguments of NetprNameValidate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameValidate {
    /// The name.
    pub name: String,
    /// The type of name ([MS-SRVS] 2.2.2.8).
    pub kind: u32,
    /// Reserved.
    pub flags: u32,
}

impl Arguments for NameValidate {
    fn read(decoder: &mut Decoder<'_>) -> Result<NameValidate> {
        decoder.optional_string()?;
        Ok(NameValidate { name: decoder.string()?, kind: decoder.u32()?, flags: decoder.u32()? })
    }
}

/// The results of a call that returns only its Win32 error code.
pub fn status_response(status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(status);
    out.into_bytes()
}
