//! NDR, the encoding of arguments (C706 14, [MS-RPCE] 2.2.4): alignment, referents and conformant strings.

use crate::bytes::{Malformed, Reader, Result, Writer};

/// Reads arguments.
pub struct Decoder<'a> {
    reader: Reader<'a>,
}

impl<'a> Decoder<'a> {
    /// A decoder at the start of a call's arguments.
    pub fn new(stub: &'a [u8]) -> Self {
        Decoder { reader: Reader::new(stub) }
    }

    fn align(&mut self, alignment: usize) -> Result<()> {
        let position = self.reader.position();
        self.reader.skip(position.next_multiple_of(alignment) - position)
    }

    /// A 32-bit number.
    pub fn u32(&mut self) -> Result<u32> {
        self.align(4)?;
        self.reader.u32()
    }

    /// The referent of a unique pointer: whether it points to something.
    pub fn pointer(&mut self) -> Result<bool> {
        Ok(self.u32()? != 0)
    }

    /// A conformant varying string of 16-bit characters, its terminating NUL taken off.
    pub fn string(&mut self) -> Result<String> {
        let (max, offset, actual) = (self.u32()?, self.u32()?, self.u32()?);
        if offset != 0 || actual > max {
            return Err(Malformed::Value);
        }
        let bytes = self.reader.take((actual as usize).checked_mul(2).ok_or(Malformed::Value)?)?;
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let text = String::from_utf16(&units).map_err(|_| Malformed::Value)?;
        Ok(text.trim_end_matches('\0').to_string())
    }

    /// A unique pointer to such a string.
    pub fn optional_string(&mut self) -> Result<Option<String>> {
        if self.pointer()? { self.string().map(Some) } else { Ok(None) }
    }
}

/// Writes results.
#[derive(Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    referents: u32,
}

impl Encoder {
    /// The encoded results.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A 32-bit number.
    pub fn u32(&mut self, value: u32) {
        let mut writer = Writer::from(&mut self.bytes, 0);
        writer.pad_to(4);
        writer.u32(value);
    }

    /// A unique pointer that points to something, which follows when its time comes.
    pub fn pointer(&mut self) {
        self.referents += 1;
        self.u32(0x0002_0000 + self.referents * 4);
    }

    /// A unique pointer to nothing.
    pub fn null(&mut self) {
        self.u32(0);
    }

    /// A conformant varying string of 16-bit characters, with its NUL.
    pub fn string(&mut self, text: &str) {
        let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
        self.u32(units.len() as u32);
        self.u32(0);
        self.u32(units.len() as u32);
        for unit in units {
            self.bytes.extend_from_slice(&unit.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back() {
        for text in ["", "a", "share", "grün", "🎷"] {
            let mut encoder = Encoder::default();
            encoder.pointer();
            encoder.string(text);
            encoder.u32(7);
            let bytes = encoder.into_bytes();
            let mut decoder = Decoder::new(&bytes);
            assert_eq!(decoder.optional_string(), Ok(Some(text.to_string())));
            assert_eq!(decoder.u32(), Ok(7), "aligned behind {text:?}");
        }
    }

    #[test]
    fn a_string_longer_than_the_stub_is_refused() {
        let mut encoder = Encoder::default();
        encoder.u32(u32::MAX);
        encoder.u32(0);
        encoder.u32(u32::MAX);
        assert_eq!(Decoder::new(&encoder.into_bytes()).string(), Err(Malformed::Truncated));
    }
}
