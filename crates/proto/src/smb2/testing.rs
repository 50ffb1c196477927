//! Test support for the messages: golden bytes in hexadecimal, and values generated from arbitrary bytes.

use super::FileId;
use super::header::Header;
use crate::bytes::Writer;
use proptest::collection::vec;
use proptest::prelude::*;

/// Decodes hexadecimal digits; white space separates fields.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> = digits.chars().filter_map(|digit| digit.to_digit(16)).collect();
    assert!(digits.len().is_multiple_of(2), "half a byte");
    digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// Builds a message from a header of zeros and a body in hexadecimal.
pub(super) fn message(body: &str) -> Vec<u8> {
    [vec![0; Header::SIZE], hex(body)].concat()
}

/// Returns the output of an encoder after a header of zeros, in a buffer that already has other content.
pub(super) fn encode(body: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buffer = vec![0xee; 3];
    let mut out = Writer::new(&mut buffer);
    out.zeros(Header::SIZE);
    body(&mut out);
    buffer.split_off(3)
}

/// Returns the output of the encoder of a part.
pub(crate) fn encode_part(part: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buffer = Vec::new();
    part(&mut Writer::new(&mut buffer));
    buffer
}

/// Turns arbitrary bytes into the fields of a value, with zeros once they run out.
pub(crate) struct Source<'a> {
    bytes: &'a [u8],
}

impl<'a> Source<'a> {
    /// Generates the bytes for one value, and a modification of its encoding: a changed byte and a truncation.
    pub(crate) fn strategy() -> impl Strategy<Value = (Vec<u8>, (usize, u8, usize))> {
        (vec(any::<u8>(), 0..600), (0..700usize, any::<u8>(), 0..700usize))
    }

    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Source { bytes }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let count = N.min(self.bytes.len());
        let (taken, rest) = self.bytes.split_at(count);
        array[..count].copy_from_slice(taken);
        self.bytes = rest;
        array
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    pub(crate) fn file_id(&mut self) -> FileId {
        FileId { persistent: self.u64(), volatile: self.u64() }
    }

    /// Returns up to 63 bytes.
    pub(crate) fn slice(&mut self) -> &'a [u8] {
        let count = usize::from(self.u8() & 0x3f).min(self.bytes.len());
        let (taken, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        taken
    }

    /// Returns up to 62 bytes, an even number.
    pub(crate) fn utf16(&mut self) -> &'a [u8] {
        let slice = self.slice();
        &slice[..slice.len() & !1]
    }

    /// Returns up to seven values.
    pub(crate) fn list<T>(&mut self, mut value: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.u8() & 7).map(|_| value(self)).collect()
    }
}

/// Checks that a value and its body in hexadecimal are converted into each other.
macro_rules! golden {
    ($type:ty, $value:expr, $body:expr) => {{
        let (value, message) = ($value, $crate::smb2::testing::message($body));
        let encoded = $crate::smb2::testing::encode(|out| value.encode(out));
        assert_eq!(encoded, message, "{} encodes to {:02x?}", stringify!($type), &encoded[64..]);
        assert_eq!(<$type>::decode(&message), Ok(value));
    }};
}

/// Checks that arbitrary values survive a round trip, and that a modified message is either decoded or refused.
macro_rules! round_trips {
    ($($test:ident: $type:ty = |$source:ident| $value:expr;)*) => {
        proptest::proptest! {$(
            #[test]
            fn $test((bytes, (at, byte, end)) in $crate::smb2::testing::Source::strategy()) {
                let $source = &mut $crate::smb2::testing::Source::new(&bytes);
                let value: $type = $value;
                let mut message = $crate::smb2::testing::encode(|out| value.encode(out));
                proptest::prop_assert_eq!(<$type>::decode(&message), Ok(value));
                if let Some(tampered) = message.get_mut(at) {
                    *tampered = byte;
                }
                let _ = <$type>::decode(&message);
                message.truncate(end);
                let _ = <$type>::decode(&message);
            }
        )*}
    };
}

/// Like `golden!`, for parts: the bytes are the complete encoding.
macro_rules! golden_part {
    ($type:ty, $value:expr, $bytes:expr) => {{
        let (value, bytes) = ($value, $crate::smb2::testing::hex($bytes));
        let encoded = $crate::smb2::testing::encode_part(|out| value.encode(out));
        assert_eq!(encoded, bytes, "{} encodes to {encoded:02x?}", stringify!($type));
        assert_eq!(<$type>::decode(&bytes), Ok(value));
    }};
}

/// Like `round_trips!`, for parts.
macro_rules! parts_round_trip {
    ($($test:ident: $type:ty = |$source:ident| $value:expr;)*) => {
        proptest::proptest! {$(
            #[test]
            fn $test((bytes, (at, byte, end)) in $crate::smb2::testing::Source::strategy()) {
                let $source = &mut $crate::smb2::testing::Source::new(&bytes);
                let value: $type = $value;
                let mut part = $crate::smb2::testing::encode_part(|out| value.encode(out));
                proptest::prop_assert_eq!(<$type>::decode(&part), Ok(value));
                if let Some(tampered) = part.get_mut(at) {
                    *tampered = byte;
                }
                let _ = <$type>::decode(&part);
                part.truncate(end);
                let _ = <$type>::decode(&part);
            }
        )*}
    };
}

/// Like `golden_part!` and `parts_round_trip!`, for the bodies of contexts.
macro_rules! context_bodies {
    ($($test:ident: $type:ty, $golden:expr => $bytes:expr, |$source:ident| $value:expr;)*) => {
        $(
            #[test]
            fn $test() {
                let bytes = $crate::smb2::testing::hex($bytes);
                assert_eq!(*$golden.to_context().data, *bytes);
                assert_eq!(<$type>::decode(&bytes), Ok($golden));
                proptest::proptest!(|((bytes, (at, byte, end)) in $crate::smb2::testing::Source::strategy())| {
                    let $source = &mut $crate::smb2::testing::Source::new(&bytes);
                    let value: $type = $value;
                    let context = value.to_context();
                    proptest::prop_assert_eq!(<$type>::decode(&context.data), Ok(value));
                    let mut data = context.data.into_owned();
                    if let Some(tampered) = data.get_mut(at) {
                        *tampered = byte;
                    }
                    let _ = <$type>::decode(&data);
                    data.truncate(end);
                    let _ = <$type>::decode(&data);
                });
            }
        )*
    };
}

pub(super) use {context_bodies, golden, golden_part, parts_round_trip, round_trips};
