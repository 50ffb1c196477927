//! The ERROR response ([MS-SMB2] 2.2.2): the body of a response to a failed request.

use super::header::Header;
use super::{body, size, u16_of, u32_of};
use crate::bytes::{self, Malformed, Reader, Result, Writer};
use crate::flags::flags;
use crate::values::values;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

values! {
    /// The type of an error context ([MS-SMB2] 2.2.2.1).
    pub struct ErrorId(u32) {
        /// The data that belongs to the status.
        DEFAULT = 0x0000_0000;
        /// The new location of the share.
        SHARE_REDIRECT = 0x7264_5253;
    }
}

flags! {
    /// The kind of target of a symbolic link ([MS-SMB2] 2.2.2.2.1).
    pub struct SymlinkFlags(u32) {
        /// A path relative to the directory of the link.
        RELATIVE = 0x0000_0001;
    }
}

/// The response to a failed request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ErrorResponse<'a> {
    /// The number of contexts in `error_data`; 0 below 3.1.1.
    pub error_context_count: u8,
    /// The data that belongs to the status, either directly or in contexts.
    pub error_data: &'a [u8],
}

impl<'a> ErrorResponse<'a> {
    const SIZE: usize = 8;

    /// Reads the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self> {
        let mut reader = body(message, 9)?;
        let error_context_count = reader.u8()?;
        reader.skip(1)?;
        let byte_count = reader.u32()?;
        let offset = Header::SIZE + Self::SIZE;
        Ok(ErrorResponse { error_context_count, error_data: bytes::field(message, offset, size(byte_count), offset)? })
    }

    /// Writes the body after the header. A body without data has one byte nevertheless, as `StructureSize` indicates.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u16(9);
        out.u8(self.error_context_count);
        out.u8(0);
        out.u32(u32_of(self.error_data.len()));
        out.bytes(if self.error_data.is_empty() { &[0] } else { self.error_data });
    }

    /// Decodes the contexts in `error_data`; none below 3.1.1.
    pub fn contexts(&self) -> Result<Vec<ErrorContext<'a>>> {
        let mut reader = Reader::new(self.error_data);
        let mut contexts = Vec::new();
        for _ in 0..self.error_context_count {
            reader.skip(reader.position().next_multiple_of(8) - reader.position())?;
            let error_data_length = size(reader.u32()?);
            let error_id = ErrorId(reader.u32()?);
            contexts.push(ErrorContext { error_id, error_context_data: reader.take(error_data_length)? });
        }
        Ok(contexts)
    }
}

/// One error context ([MS-SMB2] 2.2.2.1); 3.1.1 only.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ErrorContext<'a> {
    /// The type of the data.
    pub error_id: ErrorId,
    /// The data.
    pub error_context_data: &'a [u8],
}

impl ErrorContext<'_> {
    /// Encodes these contexts as `error_data`.
    pub fn encode_list(contexts: &[Self]) -> Vec<u8> {
        let mut data = Vec::new();
        let mut out = Writer::new(&mut data);
        for context in contexts {
            out.pad_to(8);
            out.u32(u32_of(context.error_context_data.len()));
            out.u32(context.error_id.0);
            out.bytes(context.error_context_data);
        }
        data
    }
}

/// Data of STATUS_STOPPED_ON_SYMLINK ([MS-SMB2] 2.2.2.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SymbolicLinkError<'a> {
    /// The number of bytes of the request's path after the link.
    pub unparsed_path_length: u16,
    /// Whether the target is absolute or relative.
    pub flags: SymlinkFlags,
    /// The target of the link, UTF-16LE.
    pub substitute_name: &'a [u8],
    /// The same name for display, UTF-16LE.
    pub print_name: &'a [u8],
}

impl<'a> SymbolicLinkError<'a> {
    const SYMLINK_ERROR_TAG: u32 = 0x4c4d_5953;
    const IO_REPARSE_TAG_SYMLINK: u32 = 0xa000_000c;
    /// The fields from `SubstituteNameOffset` to `Flags`.
    const REPARSE_SIZE: usize = 12;

    /// Decodes the data. Only the two names are read from `PathBuffer`; `SymLinkLength` and `ReparseDataLength` are
    /// ignored because they are redundant.
    pub fn decode(data: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(data);
        reader.skip(4)?;
        if reader.u32()? != Self::SYMLINK_ERROR_TAG || reader.u32()? != Self::IO_REPARSE_TAG_SYMLINK {
            return Err(Malformed::Structure);
        }
        reader.skip(2)?;
        let unparsed_path_length = reader.u16()?;
        let (substitute_offset, substitute_length) = (reader.u16()?, reader.u16()?);
        let (print_offset, print_length) = (reader.u16()?, reader.u16()?);
        let flags = SymlinkFlags(reader.u32()?);
        let path_buffer = reader.rest();
        Ok(SymbolicLinkError {
            unparsed_path_length,
            flags,
            substitute_name: bytes::field(path_buffer, substitute_offset.into(), substitute_length.into(), 0)?,
            print_name: bytes::field(path_buffer, print_offset.into(), print_length.into(), 0)?,
        })
    }

    /// Returns the encoded data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::new();
        let mut out = Writer::new(&mut data);
        out.u32(0);
        out.u32(Self::SYMLINK_ERROR_TAG);
        out.u32(Self::IO_REPARSE_TAG_SYMLINK);
        out.u16(u16_of(Self::REPARSE_SIZE + self.substitute_name.len() + self.print_name.len()));
        out.u16(self.unparsed_path_length);
        out.u16(0);
        out.u16(u16_of(self.substitute_name.len()));
        out.u16(u16_of(self.substitute_name.len()));
        out.u16(u16_of(self.print_name.len()));
        out.u32(self.flags.0);
        out.bytes(self.substitute_name);
        out.bytes(self.print_name);
        out.patch_u32(0, u32_of(out.position() - 4));
        data
    }
}

/// Data of STATUS_BAD_NETWORK_NAME in a context of [`ErrorId::SHARE_REDIRECT`] ([MS-SMB2] 2.2.2.2.2).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ShareRedirectError<'a> {
    /// The addresses to which the share has moved.
    pub ip_addr_move_list: Vec<IpAddr>,
    /// The share's name, UTF-16LE.
    pub resource_name: &'a [u8],
}

impl<'a> ShareRedirectError<'a> {
    const SHARE_MOVE_NOTIFICATION: u32 = 3;
    const SIZE: usize = 24;
    const MOVE_DST_IPADDR_SIZE: usize = 24;
    const MOVE_DST_IPADDR_V4: u32 = 1;
    const MOVE_DST_IPADDR_V6: u32 = 2;

    /// Reads the data.
    pub fn decode(data: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(data);
        if reader.u32()? != 48 || reader.u32()? != Self::SHARE_MOVE_NOTIFICATION {
            return Err(Malformed::Structure);
        }
        let (name_offset, name_length) = (size(reader.u32()?), size(reader.u32()?));
        reader.skip(2)?;
        if reader.u16()? != 0 {
            return Err(Malformed::Value);
        }
        let count = size(reader.u32()?);
        let list = reader.take(count.checked_mul(Self::MOVE_DST_IPADDR_SIZE).ok_or(Malformed::Truncated)?)?;
        let resource_name = bytes::field(data, name_offset, name_length, Self::SIZE + list.len())?;
        let mut reader = Reader::new(list);
        let ip_addr_move_list = (0..count).map(|_| Self::address(&mut reader)).collect::<Result<_>>()?;
        Ok(ShareRedirectError { ip_addr_move_list, resource_name })
    }

    fn address(reader: &mut Reader<'_>) -> Result<IpAddr> {
        let kind = reader.u32()?;
        reader.skip(4)?;
        let address: [u8; 16] = reader.array()?;
        match kind {
            Self::MOVE_DST_IPADDR_V4 => Ok(Ipv4Addr::new(address[0], address[1], address[2], address[3]).into()),
            Self::MOVE_DST_IPADDR_V6 => Ok(Ipv6Addr::from(address).into()),
            _ => Err(Malformed::Value),
        }
    }

    /// Returns the encoded data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::new();
        let mut out = Writer::new(&mut data);
        let list_size = self.ip_addr_move_list.len() * Self::MOVE_DST_IPADDR_SIZE;
        out.u32(48);
        out.u32(Self::SHARE_MOVE_NOTIFICATION);
        out.u32(u32_of(Self::SIZE + list_size));
        out.u32(u32_of(self.resource_name.len()));
        out.u32(0);
        out.u32(u32_of(self.ip_addr_move_list.len()));
        for address in &self.ip_addr_move_list {
            match address {
                IpAddr::V4(address) => {
                    out.u32(Self::MOVE_DST_IPADDR_V4);
                    out.u32(0);
                    out.bytes(&address.octets());
                    out.zeros(12);
                }
                IpAddr::V6(address) => {
                    out.u32(Self::MOVE_DST_IPADDR_V6);
                    out.u32(0);
                    out.bytes(&address.octets());
                }
            }
        }
        out.bytes(self.resource_name);
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::{Source, golden, hex, message, round_trips};
    use proptest::prelude::*;

    // 2.2.2: StructureSize, ErrorContextCount, Reserved, ByteCount, ErrorData.
    #[test]
    fn a_response_with_and_without_data() {
        golden!(ErrorResponse, ErrorResponse::default(), "0900 00 00 00000000 00");
        golden!(
            ErrorResponse,
            ErrorResponse { error_context_count: 0, error_data: &[8, 0, 0, 0] },
            "0900 00 00 04000000 08000000"
        );
        assert_eq!(ErrorResponse::decode(&message("0900 00 00 00000000")), Ok(ErrorResponse::default()));
        assert_eq!(ErrorResponse::decode(&message("0900 00 00 02000000 00")), Err(Malformed::Offset));
        assert_eq!(ErrorResponse::decode(&message("0800 00 00 00000000 00")), Err(Malformed::Structure));
    }

    // 2.2.2.1: ErrorDataLength, ErrorId, ErrorContextData; each at a multiple of 8.
    #[test]
    fn contexts() {
        let contexts = [
            ErrorContext { error_id: ErrorId::DEFAULT, error_context_data: &[1, 2, 3] },
            ErrorContext { error_id: ErrorId::SHARE_REDIRECT, error_context_data: &[4] },
        ];
        let data = ErrorContext::encode_list(&contexts);
        assert_eq!(data, hex("03000000 00000000 010203 0000000000 01000000 53526472 04"));
        let response = ErrorResponse { error_context_count: 2, error_data: &data };
        assert_eq!(response.contexts(), Ok(contexts.to_vec()));
        let too_many = ErrorResponse { error_context_count: 3, error_data: &data };
        assert_eq!(too_many.contexts(), Err(Malformed::Truncated));
    }

    // The first example of 2.2.2.2.1.1: UnparsedPathLength 0x2E, SubstituteNameOffset 0, SubstituteNameLength 0x44.
    // Fields: SymLinkLength, SymLinkErrorTag, ReparseTag, ReparseDataLength, UnparsedPathLength, SubstituteNameOffset,
    // SubstituteNameLength, PrintNameOffset, PrintNameLength, Flags, PathBuffer.
    #[test]
    fn the_symbolic_link_of_the_specification() {
        let substitute_name = bytes::utf16_bytes(r"\??\D:\DonHall\MiscDocuments\PDocs");
        let print_name = bytes::utf16_bytes(r"D:\DonHall\MiscDocuments\PDocs");
        let error = SymbolicLinkError {
            unparsed_path_length: 0x2e,
            flags: SymlinkFlags::NONE,
            substitute_name: &substitute_name,
            print_name: &print_name,
        };
        let fixed = hex("98000000 53594d4c 0c0000a0 8c00 2e00 0000 4400 4400 3c00 00000000");
        let data = [&fixed[..], &substitute_name, &print_name].concat();
        assert_eq!(error.to_bytes(), data);
        assert_eq!(SymbolicLinkError::decode(&data), Ok(error));
        assert_eq!(SymbolicLinkError::decode(&data[..data.len() - 1]), Err(Malformed::Offset));
    }

    // 2.2.2.2.2: StructureSize, NotificationType, ResourceNameOffset, ResourceNameLength, Reserved, TargetType,
    // IPAddrCount, IPAddrMoveList (2.2.2.2.2.1: Type, Reserved, address), ResourceName.
    #[test]
    fn a_share_redirect() {
        let error = ShareRedirectError {
            ip_addr_move_list: vec![Ipv4Addr::new(192, 0, 2, 1).into(), Ipv6Addr::LOCALHOST.into()],
            resource_name: b"s\0",
        };
        let data = hex("30000000 03000000 48000000 02000000 0000 0000 02000000
             01000000 00000000 c0000201 000000000000000000000000
             02000000 00000000 00000000000000000000000000000001 7300");
        assert_eq!(error.to_bytes(), data);
        assert_eq!(ShareRedirectError::decode(&data), Ok(error));
        for (at, byte, error) in [
            (0, 0x31, Malformed::Structure),
            (4, 2, Malformed::Structure),
            (8, 0x47, Malformed::Offset),
            (18, 1, Malformed::Value),
            (20, 3, Malformed::Truncated),
            (23, 0xff, Malformed::Truncated),
            (24, 3, Malformed::Value),
        ] {
            let mut data = data.clone();
            data[at] = byte;
            assert_eq!(ShareRedirectError::decode(&data), Err(error), "{byte:#x} at {at}");
        }
    }

    round_trips! {
        responses_round_trip: ErrorResponse<'_> =
            |s| ErrorResponse { error_context_count: s.u8(), error_data: s.slice() };
    }

    proptest! {
        #[test]
        fn data_round_trips((bytes, _) in Source::strategy()) {
            let s = &mut Source::new(&bytes);
            let contexts = s.list(|s| ErrorContext { error_id: ErrorId(s.u32()), error_context_data: s.slice() });
            let data = ErrorContext::encode_list(&contexts);
            let response = ErrorResponse { error_context_count: contexts.len() as u8, error_data: &data };
            prop_assert_eq!(response.contexts(), Ok(contexts));
            let error = SymbolicLinkError {
                unparsed_path_length: s.u16(),
                flags: SymlinkFlags(s.u32()),
                substitute_name: s.slice(),
                print_name: s.slice(),
            };
            let data = error.to_bytes();
            prop_assert_eq!(SymbolicLinkError::decode(&data), Ok(error));
            let error = ShareRedirectError {
                ip_addr_move_list: s.list(|s| match s.u8() & 1 {
                    0 => IpAddr::from(s.array::<4>()),
                    _ => IpAddr::from(s.array::<16>()),
                }),
                resource_name: s.utf16(),
            };
            let data = error.to_bytes();
            prop_assert_eq!(ShareRedirectError::decode(&data), Ok(error));
        }
    }
}
