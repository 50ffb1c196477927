//! Little-endian reading and writing, on which the decoders and encoders of this crate are built.
//!
//! [`Reader`] walks a slice and refuses to step over its end. [`field`] resolves the `Offset`/`Length` pairs that SMB
//! uses for variable parts. [`Writer`] appends to a buffer and can patch fields whose value is known only later.

use std::fmt;

/// A decoding error. The caller maps it to the status or the disconnect that the specification requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// The message ends before the field does.
    Truncated,
    /// A `StructureSize`, signature or protocol id is not the one that the structure must have.
    Structure,
    /// An offset or length points outside the message, or into its fixed part.
    Offset,
    /// A field has a value that its structure forbids.
    Value,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Truncated => "message ends inside a field",
            Malformed::Structure => "wrong structure size or signature",
            Malformed::Offset => "offset or length outside the message",
            Malformed::Value => "forbidden field value",
        })
    }
}

impl std::error::Error for Malformed {}

/// The result of a decoder.
pub type Result<T> = std::result::Result<T, Malformed>;

/// Reads little-endian fields from the front of a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, position: 0 }
    }

    /// The number of bytes read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The number of bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Takes the next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        if count > self.remaining() {
            return Err(Malformed::Truncated);
        }
        let taken = &self.bytes[self.position..self.position + count];
        self.position += count;
        Ok(taken)
    }

    /// Takes all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.position..];
        self.position = self.bytes.len();
        rest
    }

    /// Skips `count` bytes (reserved fields, padding).
    pub fn skip(&mut self, count: usize) -> Result<()> {
        self.take(count).map(|_| ())
    }

    /// Takes the next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(taken);
        Ok(array)
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads two bytes, little-endian.
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Reads four bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads eight bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a `StructureSize` field that must be `size`.
    pub fn structure_size(&mut self, size: u16) -> Result<()> {
        if self.u16()? == size { Ok(()) } else { Err(Malformed::Structure) }
    }
}

/// Returns the part of `message` that an `Offset`/`Length` pair refers to; empty if `length` is 0, whatever the offset.
/// `fixed` is where the variable part may begin: an offset below it points into the fixed part and is refused.
pub fn field(message: &[u8], offset: usize, length: usize, fixed: usize) -> Result<&[u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    let end = offset.checked_add(length).ok_or(Malformed::Offset)?;
    if offset < fixed || end > message.len() {
        return Err(Malformed::Offset);
    }
    Ok(&message[offset..end])
}

/// Appends little-endian fields to a buffer. Positions are relative to where the writer began, so a message can be
/// composed behind other content of the buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Writer<'a> {
    /// Creates a writer whose position 0 is the current end of `buffer`.
    pub fn new(buffer: &'a mut Vec<u8>) -> Self {
        let start = buffer.len();
        Writer { buffer, start }
    }

    /// Creates a writer whose position 0 is `start`, an index into `buffer` at or before its end. Used to append a part
    /// to a message begun earlier.
    pub fn from(buffer: &'a mut Vec<u8>, start: usize) -> Self {
        debug_assert!(start <= buffer.len());
        Writer { buffer, start }
    }

    /// The number of bytes written since position 0.
    pub fn position(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Appends `bytes` unchanged.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Appends `count` zero bytes.
    pub fn zeros(&mut self, count: usize) {
        self.buffer.resize(self.buffer.len() + count, 0);
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) {
        self.buffer.push(value);
    }

    /// Appends two bytes, little-endian.
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends four bytes, little-endian.
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends eight bytes, little-endian.
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends zero bytes up to the next multiple of `alignment`, relative to position 0.
    pub fn pad_to(&mut self, alignment: usize) {
        self.zeros(self.position().next_multiple_of(alignment) - self.position());
    }

    /// Overwrites two bytes at `position`, which must have been written already.
    pub fn patch_u16(&mut self, position: usize, value: u16) {
        let at = self.start + position;
        self.buffer[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    /// Overwrites four bytes at `position`, which must have been written already.
    pub fn patch_u32(&mut self, position: usize, value: u32) {
        let at = self.start + position;
        self.buffer[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

/// Decodes UTF-16LE into code units; `None` if the number of bytes is odd. Lone surrogates are kept.
pub fn utf16_units(bytes: &[u8]) -> Option<Vec<u16>> {
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    Some(bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect())
}

/// Encodes `text` as UTF-16LE.
pub fn utf16_bytes(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_never_steps_over_the_end() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u16(), Ok(0x0201));
        assert_eq!(reader.u32(), Err(Malformed::Truncated));
        assert_eq!(reader.u8(), Ok(3));
        assert_eq!(reader.take(usize::MAX), Err(Malformed::Truncated));
    }

    #[test]
    fn a_field_is_inside_the_variable_part() {
        let message = [0u8; 16];
        assert_eq!(field(&message, 8, 8, 8).map(<[u8]>::len), Ok(8));
        assert_eq!(field(&message, 9, 8, 8), Err(Malformed::Offset));
        assert_eq!(field(&message, 4, 4, 8), Err(Malformed::Offset));
        assert_eq!(field(&message, usize::MAX, 2, 8), Err(Malformed::Offset));
        assert_eq!(field(&message, 3, 0, 8), Ok(&[][..]));
    }

    #[test]
    fn a_writer_counts_from_its_own_start() {
        let mut buffer = vec![0xff];
        let mut writer = Writer::new(&mut buffer);
        writer.u32(0);
        writer.u8(7);
        writer.pad_to(8);
        writer.patch_u32(0, 5);
        assert_eq!(writer.position(), 8);
        assert_eq!(buffer, [0xff, 5, 0, 0, 0, 7, 0, 0, 0]);
    }
}
