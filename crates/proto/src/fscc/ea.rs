//! Extended attributes: FILE_FULL_EA_INFORMATION ([MS-FSCC] 2.4.16) in QUERY_INFO, SET_INFO and a create context, and
//! FILE_GET_EA_INFORMATION (2.4.16.1). The characters of names are checked elsewhere.

use super::{Entries, EntryChain};
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::flags::flags;

flags! {
    /// The meaning of an extended attribute for the file.
    pub struct EaFlags(u8) {
        /// The file cannot be interpreted correctly without understanding this attribute.
        NEED_EA = 0x80;
    }
}

/// The alignment of the entries of both lists, in bytes.
pub const EA_ALIGNMENT: usize = 4;

/// One extended attribute. When set, an empty value deletes the attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileFullEaInformation<'a> {
    flags: EaFlags,
    ea_name: &'a [u8],
    ea_value: &'a [u8],
}

// Reads the bytes of a name and the NUL after it.
fn decode_name<'a>(reader: &mut Reader<'a>, length: u8) -> Result<&'a [u8]> {
    let name = reader.take(usize::from(length))?;
    if reader.u8()? == 0 { Ok(name) } else { Err(Malformed::Value) }
}

impl<'a> FileFullEaInformation<'a> {
    /// The size of the fixed part before the name, in bytes.
    pub const FIXED_SIZE: usize = 8;

    /// Creates an attribute; `None` if the name has more than 255 bytes or the value more than 65,535.
    pub fn new(flags: EaFlags, ea_name: &'a [u8], ea_value: &'a [u8]) -> Option<Self> {
        let fits = u8::try_from(ea_name.len()).is_ok() && u16::try_from(ea_value.len()).is_ok();
        fits.then_some(FileFullEaInformation { flags, ea_name, ea_value })
    }

    /// The flags.
    pub fn flags(&self) -> EaFlags {
        self.flags
    }

    /// The name, ASCII, without the NUL.
    pub fn ea_name(&self) -> &'a [u8] {
        self.ea_name
    }

    /// The value.
    pub fn ea_value(&self) -> &'a [u8] {
        self.ea_value
    }

    /// The size of the entry in bytes, without padding.
    pub fn size(&self) -> usize {
        Self::FIXED_SIZE + self.ea_name.len() + 1 + self.ea_value.len()
    }

    /// Appends an entry to a list and returns whether it fitted.
    pub fn push(&self, chain: &mut EntryChain, out: &mut Writer<'_>) -> bool {
        chain.push(out, self.size(), |out| {
            out.u32(0);
            out.u8(self.flags.0);
            out.u8(u8::try_from(self.ea_name.len()).expect("checked by the constructor"));
            out.u16(u16::try_from(self.ea_value.len()).expect("checked by the constructor"));
            out.bytes(self.ea_name);
            out.u8(0);
            out.bytes(self.ea_value);
        })
    }

    /// Decodes one entry. A name without a NUL after it is [`Malformed::Value`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        reader.skip(4)?;
        let flags = EaFlags(reader.u8()?);
        let name_length = reader.u8()?;
        let value_length = usize::from(reader.u16()?);
        let ea_name = decode_name(&mut reader, name_length)?;
        Ok(FileFullEaInformation { flags, ea_name, ea_value: reader.take(value_length)? })
    }

    /// The entries of a whole list.
    pub fn list(bytes: &'a [u8]) -> impl Iterator<Item = Result<FileFullEaInformation<'a>>> {
        Entries::new(bytes).map(|entry| FileFullEaInformation::decode(entry?))
    }
}

/// FILE_GET_EA_INFORMATION: the name of a requested attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileGetEaInformation<'a> {
    ea_name: &'a [u8],
}

impl<'a> FileGetEaInformation<'a> {
    /// Creates a request for a name; `None` if it has more than 255 bytes.
    pub fn new(ea_name: &'a [u8]) -> Option<Self> {
        u8::try_from(ea_name.len()).is_ok().then_some(FileGetEaInformation { ea_name })
    }

    /// The name, ASCII, without the NUL.
    pub fn ea_name(&self) -> &'a [u8] {
        self.ea_name
    }

    /// Appends an entry to a list and returns whether it fitted.
    pub fn push(&self, chain: &mut EntryChain, out: &mut Writer<'_>) -> bool {
        chain.push(out, 6 + self.ea_name.len(), |out| {
            out.u32(0);
            out.u8(u8::try_from(self.ea_name.len()).expect("checked by the constructor"));
            out.bytes(self.ea_name);
            out.u8(0);
        })
    }

    /// Reads one entry.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        reader.skip(4)?;
        let length = reader.u8()?;
        Ok(FileGetEaInformation { ea_name: decode_name(&mut reader, length)? })
    }

    /// The entries of a whole list.
    pub fn list(bytes: &'a [u8]) -> impl Iterator<Item = Result<FileGetEaInformation<'a>>> {
        Entries::new(bytes).map(|entry| FileGetEaInformation::decode(entry?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_bytes() {
        let mut buffer = Vec::new();
        let mut out = Writer::new(&mut buffer);
        let mut chain = EntryChain::new(&out, EA_ALIGNMENT, 100);
        let one = FileFullEaInformation::new(EaFlags::NEED_EA, b"AB", b"xyz").expect("short");
        let two = FileFullEaInformation::new(EaFlags::NONE, b"C", b"").expect("short");
        assert!(one.push(&mut chain, &mut out) && two.push(&mut chain, &mut out));
        #[rustfmt::skip]
        let wire = [
            16, 0, 0, 0, 0x80, 2, 3, 0, b'A', b'B', 0, b'x', b'y', b'z', 0, 0,
            0, 0, 0, 0, 0, 1, 0, 0, b'C', 0,
        ];
        assert_eq!(buffer, wire);
        assert_eq!(FileFullEaInformation::list(&wire).collect::<Result<Vec<_>>>(), Ok(vec![one, two]));
    }

    #[test]
    fn names_asked_for() {
        let wire = [8, 0, 0, 0, 2, b'A', b'B', 0, 0, 0, 0, 0, 1, b'C', 0];
        let names: Vec<_> = [&b"AB"[..], b"C"].into_iter().map(FileGetEaInformation::new).map(Option::unwrap).collect();
        let mut buffer = Vec::new();
        let mut out = Writer::new(&mut buffer);
        let mut chain = EntryChain::new(&out, EA_ALIGNMENT, 15);
        assert!(names.iter().all(|name| name.push(&mut chain, &mut out)));
        assert_eq!(buffer, wire);
        assert_eq!(FileGetEaInformation::list(&wire).collect::<Result<Vec<_>>>(), Ok(names));
    }

    #[test]
    fn lengths_are_checked() {
        let wire = [0, 0, 0, 0, 0, 1, 2, 0, b'A', 0, 7, 8];
        assert_eq!(FileFullEaInformation::decode(&wire).map(|ea| ea.ea_value().len()), Ok(2));
        assert_eq!(FileFullEaInformation::decode(&wire[..11]), Err(Malformed::Truncated));
        let mut unterminated = wire;
        unterminated[9] = 1;
        assert_eq!(FileFullEaInformation::decode(&unterminated), Err(Malformed::Value));
        assert_eq!(FileFullEaInformation::new(EaFlags::NONE, &[b'A'; 256], &[]), None);
        assert_eq!(FileFullEaInformation::new(EaFlags::NONE, b"A", &[0; 65_536]), None);
        assert_eq!(FileGetEaInformation::new(&[b'A'; 256]), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = FileFullEaInformation::list(&bytes).count();
            let _ = FileGetEaInformation::list(&bytes).count();
        }
    }
}
