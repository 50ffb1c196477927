//! NDR, the encoding of arguments (C706 14, [MS-RPCE] 2.2.4): alignment, referents, conformant strings, and the types
//! of the user account services: RPC_UNICODE_STRING ([MS-DTYP] 2.3.10), RPC_SID (2.4.2.3) and context handles.

use super::pdu::ByteOrder;
use crate::bytes::{Malformed, Reader, Result, Writer};
use crate::dtyp::Sid;
use crate::status::Status;

/// A context handle on the wire: its attributes, always 0, and a UUID (C706 appendix N).
pub type ContextHandle = [u8; 20];

/// Decodes the arguments of a call.
#[derive(Clone)]
pub struct Decoder<'a> {
    reader: Reader<'a>,
    order: ByteOrder,
}

impl<'a> Decoder<'a> {
    /// Creates a decoder at the start of a call's arguments.
    pub fn new(stub: &'a [u8]) -> Self {
        Decoder::with_order(stub, ByteOrder::Little)
    }

    /// Creates a decoder of arguments whose numbers and characters have this order of bytes.
    pub fn with_order(stub: &'a [u8], order: ByteOrder) -> Self {
        Decoder { reader: Reader::new(stub), order }
    }

    /// Skips padding up to a multiple of `alignment`.
    pub fn align(&mut self, alignment: usize) -> Result<()> {
        let position = self.reader.position();
        self.reader.skip(position.next_multiple_of(alignment) - position)
    }

    /// Reads a 32-bit number.
    pub fn u32(&mut self) -> Result<u32> {
        self.align(4)?;
        Ok(self.order.u32(self.reader.u32()?))
    }

    /// Reads a 16-bit number, which may be an enumeration.
    pub fn u16(&mut self) -> Result<u16> {
        self.align(2)?;
        Ok(self.order.u16(self.reader.u16()?))
    }

    /// Reads a 64-bit number.
    pub fn u64(&mut self) -> Result<u64> {
        self.align(8)?;
        let read = self.reader.u64()?;
        Ok(if self.order == ByteOrder::Big { read.swap_bytes() } else { read })
    }

    /// Reads 16-bit numbers without further alignment.
    pub fn units(&mut self, count: usize) -> Result<Vec<u16>> {
        let bytes = self.reader.take(count.checked_mul(2).ok_or(Malformed::Value)?)?;
        Ok(bytes.chunks_exact(2).map(|pair| self.order.u16(u16::from_le_bytes([pair[0], pair[1]]))).collect())
    }

    /// Reads a fixed number of bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.reader.array()
    }

    /// Reads a context handle.
    pub fn handle(&mut self) -> Result<ContextHandle> {
        self.align(4)?;
        // A client that got the handle in little-endian order returns its numbers in its own order.
        let (attributes, uuid) = (self.u32()?, self.order.uuid(self.array()?));
        let mut handle = [0; 20];
        handle[..4].copy_from_slice(&attributes.to_le_bytes());
        handle[4..].copy_from_slice(&uuid);
        Ok(handle)
    }

    /// Reads a number of elements, which may be at most `most`.
    pub fn count(&mut self, most: usize) -> Result<usize> {
        let count = usize::try_from(self.u32()?).map_err(|_| Malformed::Value)?;
        if count <= most { Ok(count) } else { Err(Malformed::Value) }
    }

    /// Reads the fixed part of an RPC_UNICODE_STRING and returns whether its text follows later.
    pub fn unicode(&mut self) -> Result<bool> {
        self.align(4)?;
        self.reader.skip(4)?;
        self.pointer()
    }

    /// Reads an RPC_SID.
    pub fn sid(&mut self) -> Result<Sid> {
        let count = self.u32()?;
        let mut sid = Sid::decode(&mut self.reader)?;
        if self.order == ByteOrder::Big {
            sid = sid.with_swapped_bytes();
        }
        if sid.sub_authorities().len() == count as usize { Ok(sid) } else { Err(Malformed::Value) }
    }

    /// Reads `count` bytes without alignment.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        self.reader.take(count)
    }

    /// Reads the referent of a unique pointer and returns whether it is non-null.
    pub fn pointer(&mut self) -> Result<bool> {
        Ok(self.u32()? != 0)
    }

    /// Reads a conformant varying string of 16-bit characters, without its terminating NUL.
    pub fn string(&mut self) -> Result<String> {
        let (max, offset, actual) = (self.u32()?, self.u32()?, self.u32()?);
        if offset != 0 || actual > max {
            return Err(Malformed::Value);
        }
        let units = self.units(actual as usize)?;
        let text = String::from_utf16(&units).map_err(|_| Malformed::Value)?;
        Ok(text.trim_end_matches('\0').to_string())
    }

    /// Reads a unique pointer to such a string.
    pub fn optional_string(&mut self) -> Result<Option<String>> {
        if self.pointer()? { self.string().map(Some) } else { Ok(None) }
    }
}

/// The arguments of a call.
pub trait Arguments: Sized {
    /// Reads the arguments in their order.
    fn read(from: &mut Decoder<'_>) -> Result<Self>;

    /// Decodes a call's stub data. Data after the arguments is ignored.
    fn decode(stub: &[u8]) -> Result<Self> {
        Self::read(&mut Decoder::new(stub))
    }
}

/// The arguments of a call that has none, or whose arguments do not matter.
impl Arguments for () {
    fn read(_: &mut Decoder<'_>) -> Result<Self> {
        Ok(())
    }
}

impl Arguments for ContextHandle {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        from.handle()
    }
}

impl Arguments for u32 {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        from.u32()
    }
}

impl<A: Arguments, B: Arguments> Arguments for (A, B) {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok((A::read(from)?, B::read(from)?))
    }
}

/// The number of UTF-16 units of a text, limited to the 32767 of an RPC_UNICODE_STRING. Names are never that long.
fn unicode_length(text: &str) -> u16 {
    text.encode_utf16().count().min(0x7fff) as u16
}

/// Encodes the results of a call.
#[derive(Default)]
pub struct Encoder {
    bytes: Vec<u8>,
    referents: u32,
}

impl Encoder {
    /// Creates an encoder with memory for this number of bytes.
    pub(super) fn with_capacity(bytes: usize) -> Encoder {
        Encoder { bytes: Vec::with_capacity(bytes), referents: 0 }
    }

    /// Creates an encoder whose pointers differ from the first `referents` of another one.
    pub(super) fn with_referents(referents: u32) -> Encoder {
        Encoder { bytes: Vec::new(), referents }
    }

    /// Returns the number of encoded bytes.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Removes what was encoded after the first `length` bytes.
    pub(super) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// Returns the encoded results.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes a 32-bit number.
    pub fn u32(&mut self, value: u32) {
        let mut writer = Writer::from(&mut self.bytes, 0);
        writer.pad_to(4);
        writer.u32(value);
    }

    /// Writes a 16-bit number.
    pub fn u16(&mut self, value: u16) {
        let mut writer = Writer::from(&mut self.bytes, 0);
        writer.pad_to(2);
        writer.u16(value);
    }

    /// Writes bytes, aligned to `alignment`.
    pub fn array(&mut self, alignment: usize, bytes: &[u8]) {
        let mut writer = Writer::from(&mut self.bytes, 0);
        writer.pad_to(alignment);
        writer.bytes(bytes);
    }

    /// Writes the fixed part of an RPC_UNICODE_STRING. [`Encoder::text`] writes its text later.
    pub fn unicode(&mut self, text: &str) {
        let length = unicode_length(text) * 2;
        // A structure that contains a pointer is aligned to 4.
        self.array(4, &length.to_le_bytes());
        self.u16(length);
        self.pointer();
    }

    /// Writes an RPC_UNICODE_STRING directly followed by its text.
    pub fn whole_unicode(&mut self, text: &str) {
        self.unicode(text);
        self.text(text);
    }

    /// Writes the text of an RPC_UNICODE_STRING, which has no NUL.
    pub fn text(&mut self, text: &str) {
        let length = unicode_length(text);
        self.u32(length.into());
        self.u32(0);
        self.u32(length.into());
        text.encode_utf16().take(length.into()).for_each(|unit| self.bytes.extend_from_slice(&unit.to_le_bytes()));
    }

    /// Writes an RPC_SID.
    pub fn sid(&mut self, sid: &Sid) {
        self.u32(sid.sub_authorities().len() as u32);
        sid.encode(&mut Writer::new(&mut self.bytes));
    }

    /// Writes a non-null unique pointer, whose referent is written later.
    pub fn pointer(&mut self) {
        self.referents += 1;
        self.u32(0x0002_0000 + self.referents * 4);
    }

    /// Writes a null unique pointer.
    pub fn null(&mut self) {
        self.u32(0);
    }

    /// Writes a conformant varying string of 16-bit characters, with its NUL.
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

/// The results of a call that returns only its status.
pub fn status_response(status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(status.0);
    out.into_bytes()
}

/// A handle and a status: the results of opening and closing.
pub fn handle_response(handle: &ContextHandle, status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, handle);
    out.u32(status.0);
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_round_trip() {
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
    fn names_sids_and_handles_round_trip() {
        let mut encoder = Encoder::default();
        encoder.u16(7);
        encoder.unicode("grün");
        encoder.text("grün");
        encoder.sid(&Sid::BUILTIN_USERS);
        encoder.array(4, &[3; 20]);
        let bytes = encoder.into_bytes();
        let mut decoder = Decoder::new(&bytes);
        assert_eq!((decoder.u16(), decoder.unicode()), (Ok(7), Ok(true)));
        assert_eq!(decoder.string(), Ok("grün".to_string()));
        assert_eq!((decoder.sid(), decoder.handle()), (Ok(Sid::BUILTIN_USERS), Ok([3; 20])));
        assert_eq!(Decoder::new(&[2, 0, 0, 0]).count(1), Err(Malformed::Value));
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
