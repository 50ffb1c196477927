//! GUID ([MS-DTYP] 2.3.4.2): sixteen bytes. The first three fields are little-endian on the wire. The text form is that
//! of a UUID.

use std::fmt;
use std::str::FromStr;

use crate::bytes::{Malformed, Reader, Result, Writer};

/// A GUID, as its sixteen bytes on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// The size on the wire, in bytes.
    pub const SIZE: usize = 16;

    /// All zero.
    pub const NIL: Guid = Guid([0; 16]);

    /// Creates a GUID from the four members of the C structure. `data4` is an opaque byte sequence whose order does not
    /// change.
    pub const fn from_fields(data1: u32, data2: u16, data3: u16, data4: [u8; 8]) -> Guid {
        let (a, b, c) = (data1.to_le_bytes(), data2.to_le_bytes(), data3.to_le_bytes());
        let [d, e, f, g, h, i, j, k] = data4;
        Guid([a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], d, e, f, g, h, i, j, k])
    }

    /// Reads the next sixteen bytes.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Guid> {
        reader.array().map(Guid)
    }

    /// Appends the sixteen bytes.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.bytes(&self.0);
    }
}

// The text prints the first three fields as numbers, so their bytes appear in reverse order.
const TEXT_ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, index) in TEXT_ORDER.into_iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{:02x}", self.0[index])?;
        }
        Ok(())
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Guid {
    type Err = Malformed;

    /// Parses the text of [`Display`](fmt::Display), in any case, with or without curly braces ([MS-DTYP] 2.3.4.3).
    fn from_str(text: &str) -> Result<Guid> {
        let bare = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let mut lengths = bare.split('-').map(str::len);
        if ![8, 4, 4, 4, 12].into_iter().all(|length| lengths.next() == Some(length)) || lengths.next().is_some() {
            return Err(Malformed::Value);
        }
        let mut digits = bare.chars().filter(|character| *character != '-').map(|character| character.to_digit(16));
        let mut digit = || digits.next().flatten().and_then(|digit| u8::try_from(digit).ok()).ok_or(Malformed::Value);
        let mut guid = Guid::NIL;
        for index in TEXT_ORDER {
            guid.0[index] = digit()? << 4 | digit()?;
        }
        Ok(guid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_text_shows_the_first_fields_as_numbers() {
        let guid = Guid::from_fields(0xf81d4fae, 0x7dec, 0x11d0, [0xa7, 0x65, 0x00, 0xa0, 0xc9, 0x1e, 0x6b, 0xf6]);
        let wire = [0xae, 0x4f, 0x1d, 0xf8, 0xec, 0x7d, 0xd0, 0x11, 0xa7, 0x65, 0x00, 0xa0, 0xc9, 0x1e, 0x6b, 0xf6];
        assert_eq!(guid.0, wire);
        assert_eq!(Guid::decode(&mut Reader::new(&wire)), Ok(guid));
        assert_eq!(guid.to_string(), "f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
        assert_eq!("{F81D4FAE-7dec-11d0-a765-00a0c91e6bf6}".parse(), Ok(guid));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "f81d4fae7dec11d0a76500a0c91e6bf6",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6-",
            "g81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "\u{e9}\u{e9}\u{e9}\u{e9}-7dec-11d0-a765-00a0c91e6bf6",
        ] {
            assert_eq!(text.parse::<Guid>(), Err(Malformed::Value), "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_and_wire_round_trip(bytes: [u8; 16]) {
            let guid = Guid(bytes);
            prop_assert_eq!(guid.to_string().parse(), Ok(guid));
            let mut out = Vec::new();
            guid.encode(&mut Writer::new(&mut out));
            prop_assert_eq!(Guid::decode(&mut Reader::new(&out)), Ok(guid));
        }
    }
}
