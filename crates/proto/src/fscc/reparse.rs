//! The data of reparse points ([MS-FSCC] 2.1.2): the buffer of any tag, and the data of a symbolic link within it. The
//! data of other tags stays raw.

use super::ReparseTag;
use crate::bytes::{Malformed, Reader, Result, Writer, field};
use crate::dtyp::Guid;
use crate::smb2::error::SymlinkFlags;

/// REPARSE_DATA_BUFFER ([MS-FSCC] 2.1.2.2) of a Microsoft tag, REPARSE_GUID_DATA_BUFFER (2.1.2.3) of any other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReparseDataBuffer<'a> {
    reparse_tag: ReparseTag,
    reparse_guid: Guid,
    data: &'a [u8],
}

impl<'a> ReparseDataBuffer<'a> {
    /// Creates a buffer. `reparse_guid` is written only for tags that are not Microsoft's. `None` if the data is longer
    /// than 65,535 bytes.
    pub fn new(reparse_tag: ReparseTag, reparse_guid: Guid, data: &'a [u8]) -> Option<Self> {
        u16::try_from(data.len()).is_ok().then_some(ReparseDataBuffer { reparse_tag, reparse_guid, data })
    }

    /// The tag of the reparse point's owner.
    pub fn reparse_tag(&self) -> ReparseTag {
        self.reparse_tag
    }

    /// The owner's GUID; nil for a Microsoft tag.
    pub fn reparse_guid(&self) -> Guid {
        self.reparse_guid
    }

    /// The owner's data.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Decodes a buffer that occupies all of `bytes`. A length that leaves bytes over is [`Malformed::Value`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let reparse_tag = ReparseTag(reader.u32()?);
        let length = usize::from(reader.u16()?);
        reader.skip(2)?;
        let reparse_guid = if reparse_tag.is_microsoft() { Guid::NIL } else { Guid::decode(&mut reader)? };
        let data = reader.take(length)?;
        if reader.remaining() != 0 {
            return Err(Malformed::Value);
        }
        Ok(ReparseDataBuffer { reparse_tag, reparse_guid, data })
    }

    /// Appends the buffer.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u32(self.reparse_tag.0);
        out.u16(u16::try_from(self.data.len()).expect("checked by the constructor"));
        out.u16(0);
        if !self.reparse_tag.is_microsoft() {
            self.reparse_guid.encode(out);
        }
        out.bytes(self.data);
    }
}

/// The data of a buffer with [`ReparseTag::SYMLINK`], after its header ([MS-FSCC] 2.1.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SymbolicLinkReparseData<'a> {
    /// The target of the link, in UTF-16LE.
    pub substitute_name: &'a [u8],
    /// The same name for display.
    pub print_name: &'a [u8],
    /// Whether the target is relative to the link's directory.
    pub flags: SymlinkFlags,
}

impl<'a> SymbolicLinkReparseData<'a> {
    /// The size of the fixed part before the names, in bytes.
    pub const FIXED_SIZE: usize = 12;

    /// Decodes the data of a reparse point. A name of an odd length is [`Malformed::Value`].
    pub fn decode(data: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(data);
        let (substitute_offset, substitute_length) = (reader.u16()?, reader.u16()?);
        let (print_offset, print_length) = (reader.u16()?, reader.u16()?);
        let flags = SymlinkFlags(reader.u32()?);
        let path_buffer = reader.rest();
        let name = |offset: u16, length: u16| match length.is_multiple_of(2) {
            true => field(path_buffer, offset.into(), length.into(), 0),
            false => Err(Malformed::Value),
        };
        let substitute_name = name(substitute_offset, substitute_length)?;
        let print_name = name(print_offset, print_length)?;
        Ok(SymbolicLinkReparseData { substitute_name, print_name, flags })
    }

    /// Returns the data of a reparse point; `None` if the names are too long for it.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let substitute_length = u16::try_from(self.substitute_name.len()).ok()?;
        let print_length = u16::try_from(self.print_name.len()).ok()?;
        let length = Self::FIXED_SIZE + self.substitute_name.len() + self.print_name.len();
        u16::try_from(length).ok()?;
        let mut data = Vec::with_capacity(length);
        let mut out = Writer::new(&mut data);
        out.u16(0);
        out.u16(substitute_length);
        out.u16(substitute_length);
        out.u16(print_length);
        out.u32(self.flags.0);
        out.bytes(self.substitute_name);
        out.bytes(self.print_name);
        Some(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[rustfmt::skip]
    const LINK: [u8; 26] = [
        0x0c, 0, 0, 0xa0, 18, 0, 0, 0,
        0, 0, 2, 0, 2, 0, 4, 0, 1, 0, 0, 0,
        0x61, 0, 0x62, 0, 0x63, 0,
    ];

    #[test]
    fn a_symbolic_link() {
        let link = SymbolicLinkReparseData {
            substitute_name: &[0x61, 0],
            print_name: &[0x62, 0, 0x63, 0],
            flags: SymlinkFlags::RELATIVE,
        };
        let data = link.to_bytes().expect("short");
        let buffer = ReparseDataBuffer::new(ReparseTag::SYMLINK, Guid::NIL, &data).expect("short");
        let mut out = Vec::new();
        buffer.encode(&mut Writer::new(&mut out));
        assert_eq!(out, LINK);
        assert_eq!(ReparseDataBuffer::decode(&LINK), Ok(buffer));
        assert_eq!(SymbolicLinkReparseData::decode(buffer.data()), Ok(link));
    }

    #[test]
    fn lengths_are_checked() {
        let with = |at: usize, value: u8| {
            let mut bytes = LINK;
            bytes[at] = value;
            ReparseDataBuffer::decode(&bytes).map(|buffer| SymbolicLinkReparseData::decode(buffer.data()).err())
        };
        assert_eq!(with(4, 17), Err(Malformed::Value));
        assert_eq!(with(4, 19), Err(Malformed::Truncated));
        assert_eq!(with(10, 3), Ok(Some(Malformed::Value)));
        assert_eq!(with(12, 3), Ok(Some(Malformed::Offset)));
        let long = vec![0; 65_524];
        let link = SymbolicLinkReparseData { substitute_name: &long, ..Default::default() };
        assert_eq!(link.to_bytes(), None);
    }

    #[test]
    fn other_owners_have_a_guid() {
        let bytes = [&[5, 0, 0, 0, 2, 0, 0, 0][..], &[7; 16], &[8; 2]].concat();
        let buffer = ReparseDataBuffer::new(ReparseTag(5), Guid([7; 16]), &[8; 2]).expect("short");
        assert_eq!(ReparseDataBuffer::decode(&bytes), Ok(buffer));
        let mut out = Vec::new();
        buffer.encode(&mut Writer::new(&mut out));
        assert_eq!(out, bytes);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = ReparseDataBuffer::decode(&bytes);
            let _ = SymbolicLinkReparseData::decode(&bytes);
        }
    }
}
