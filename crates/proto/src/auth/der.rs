//! The subset of DER (X.690) that SPNEGO needs: tags of one byte, definite lengths in their shortest form.
//!
//! It is hand-written because the tokens are a few context tags around octet strings, one of which must be kept as raw
//! bytes. General DER libraries require a type and its codec for each of those.

use crate::bytes::{Malformed, Reader, Result};

pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const ENUMERATED: u8 = 0x0A;
pub(super) const GENERAL_STRING: u8 = 0x1B;
pub(super) const SEQUENCE: u8 = 0x30;
/// `[APPLICATION 0]`, constructed: the initial token of GSS-API (RFC 2743 3.1).
pub(super) const APPLICATION_0: u8 = 0x60;

/// The constructed, context-specific tag `[number]`; `number` is below 31.
pub(super) const fn context(number: u8) -> u8 {
    0xA0 | number
}

/// One element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
}

/// Iterates over the elements of `content`.
#[derive(Clone, Debug)]
pub(super) struct Elements<'a> {
    reader: Reader<'a>,
}

impl<'a> Elements<'a> {
    pub(super) fn new(content: &'a [u8]) -> Self {
        Elements { reader: Reader::new(content) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reader.remaining() == 0
    }

    /// Takes the next element, whatever its tag.
    pub(super) fn next(&mut self) -> Result<Element<'a>> {
        let tag = self.reader.u8()?;
        if tag & 0x1F == 0x1F {
            return Err(Malformed::Structure);
        }
        let length = self.length()?;
        Ok(Element { tag, content: self.reader.take(length)? })
    }

    /// Takes the next element, which must have `tag`, and returns its content.
    pub(super) fn expect(&mut self, tag: u8) -> Result<&'a [u8]> {
        match self.next()? {
            element if element.tag == tag => Ok(element.content),
            _ => Err(Malformed::Structure),
        }
    }

    /// Takes all remaining bytes.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        self.reader.rest()
    }

    /// Reads the length octets: below 128 one byte, otherwise a count of big-endian bytes, as few as possible.
    fn length(&mut self) -> Result<usize> {
        let first = self.reader.u8()?;
        let (shortest, length) = match first {
            0..=0x7F => return Ok(usize::from(first)),
            0x81 => (0x80, usize::from(self.reader.u8()?)),
            0x82 => (0x100, usize::from(u16::from_be_bytes(self.reader.array()?))),
            // An indefinite length, or a length that no SMB2 security buffer can hold.
            _ => return Err(Malformed::Value),
        };
        if length >= shortest { Ok(length) } else { Err(Malformed::Value) }
    }
}

/// Returns the content of the only element of `bytes`, which must have `tag`.
pub(super) fn only(bytes: &[u8], tag: u8) -> Result<&[u8]> {
    let mut elements = Elements::new(bytes);
    let content = elements.expect(tag)?;
    if elements.is_empty() { Ok(content) } else { Err(Malformed::Structure) }
}

/// Encodes an element of `tag` around `content`, which must be shorter than 16 MiB.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut encoded = Vec::with_capacity(content.len() + 5);
    encoded.push(tag);
    match significant {
        [] => encoded.push(0),
        [short @ 0..=0x7F] => encoded.push(*short),
        long => {
            encoded.push(0x80 | long.len() as u8);
            encoded.extend_from_slice(long);
        }
    }
    encoded.extend_from_slice(content);
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        for length in [0, 1, 127, 128, 255, 256, 65535] {
            let encoded = element(OCTET_STRING, &vec![7; length]);
            assert_eq!(only(&encoded, OCTET_STRING).map(<[u8]>::len), Ok(length));
            assert_eq!(only(&encoded, SEQUENCE), Err(Malformed::Structure));
            assert_eq!(only(&encoded[..encoded.len() - 1], OCTET_STRING), Err(Malformed::Truncated));
        }
        assert_eq!(element(SEQUENCE, &[1; 200])[..4], [SEQUENCE, 0x81, 200, 1]);
        assert_eq!(element(SEQUENCE, &[1; 300])[..4], [SEQUENCE, 0x82, 1, 44]);
        assert_eq!(element(SEQUENCE, &[1; 70000])[..5], [SEQUENCE, 0x83, 1, 0x11, 0x70]);
    }

    #[test]
    fn encodings_forbidden_by_der() {
        for (bytes, why) in [
            (&[4, 0x80, 0, 0][..], Malformed::Value),
            (&[4, 0x81, 1, 0], Malformed::Value),
            (&[4, 0x82, 0, 1, 0], Malformed::Value),
            (&[4, 0x83, 1, 0, 0], Malformed::Value),
            (&[0x1F, 4, 0], Malformed::Structure),
            (&[4, 0, 0], Malformed::Structure),
            (&[4], Malformed::Truncated),
            (&[], Malformed::Truncated),
        ] {
            assert_eq!(only(bytes, OCTET_STRING), Err(why), "{bytes:?}");
        }
    }
}
