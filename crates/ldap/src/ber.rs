//! The subset of the Basic Encoding Rules that LDAP uses (RFC 4511, 5.1): definite lengths, tags of one byte.

use std::fmt;

use zeroize::Zeroizing;

/// The tag of a truth value, in the universal class.
pub const BOOLEAN: u8 = 0x01;
/// The tag of a number.
pub const INTEGER: u8 = 0x02;
/// The tag of a string of bytes.
pub const OCTET_STRING: u8 = 0x04;
/// The tag of a number of an enumeration.
pub const ENUMERATED: u8 = 0x0a;
/// The tag of elements in order.
pub const SEQUENCE: u8 = 0x30;
/// The tag of elements in any order.
pub const SET: u8 = 0x31;

/// The bytes are not an LDAP message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its answer is not an LDAP message")
    }
}

impl std::error::Error for Malformed {}

/// Writes consecutive elements. The buffer is erased when dropped, because it may contain passwords and hashes.
#[derive(Default)]
pub struct Writer(pub Zeroizing<Vec<u8>>);

impl Writer {
    /// Writes an element whose content is written by `build`.
    pub fn nested(&mut self, tag: u8, build: impl FnOnce(&mut Writer)) {
        let mut content = Writer::default();
        build(&mut content);
        self.bytes(tag, &content.0);
    }

    /// Writes an element with this content.
    pub fn bytes(&mut self, tag: u8, content: &[u8]) {
        let length = content.len().to_be_bytes();
        let digits = &length[length.iter().position(|byte| *byte != 0).unwrap_or(length.len() - 1)..];
        // A growing vector would leave its old content in memory.
        self.reserve(content.len() + 10);
        self.0.push(tag);
        match digits {
            [short @ 0..=0x7f] => self.0.push(*short),
            long => {
                self.0.push(0x80 | u8::try_from(long.len()).expect("a length has at most eight bytes"));
                self.0.extend_from_slice(long);
            }
        }
        self.0.extend_from_slice(content);
    }

    fn reserve(&mut self, more: usize) {
        if self.0.capacity() - self.0.len() < more {
            let mut larger = Zeroizing::new(Vec::with_capacity((self.0.len() + more) * 2));
            larger.extend_from_slice(&self.0);
            self.0 = larger;
        }
    }

    /// Writes a string.
    pub fn string(&mut self, text: &str) {
        self.bytes(OCTET_STRING, text.as_bytes());
    }

    /// Writes a number with its own tag: INTEGER or ENUMERATED.
    pub fn number(&mut self, tag: u8, number: i32) {
        let bytes = number.to_be_bytes();
        // The shortest form that keeps the sign.
        let needless = |at: usize| {
            (bytes[at] == 0 && bytes[at + 1] & 0x80 == 0) || (bytes[at] == 0xff && bytes[at + 1] & 0x80 != 0)
        };
        let start = (0..3).find(|at| !needless(*at)).unwrap_or(3);
        self.bytes(tag, &bytes[start..]);
    }

    /// Writes a truth value.
    pub fn boolean(&mut self, value: bool) {
        self.bytes(BOOLEAN, &[if value { 0xff } else { 0 }]);
    }
}

/// How deep elements may be nested. LDAP's answers need six levels.
const DEEPEST: u8 = 8;

/// The longest message that is accepted. An account has some KiB, and the members of groups are usually not fetched.
pub const LONGEST_MESSAGE: usize = 1 << 20;

/// Reads consecutive elements. Elements in elements are read up to a fixed depth.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    depth: u8,
}

impl<'a> Reader<'a> {
    /// Reads the elements of a message.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, depth: 0 }
    }

    /// Returns the bytes that are left.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the tag of the next element.
    pub fn peek(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    /// Reads the next element: tag and content.
    pub fn element(&mut self) -> Result<(u8, Reader<'a>), Malformed> {
        let (head, length) = header(self.bytes)?.ok_or(Malformed)?;
        let end = head.checked_add(length).ok_or(Malformed)?;
        let bytes = self.bytes.get(head..end).ok_or(Malformed)?;
        let tag = self.bytes[0];
        let depth = self.depth + 1;
        if depth > DEEPEST {
            return Err(Malformed);
        }
        self.bytes = &self.bytes[end..];
        Ok((tag, Reader { bytes, depth }))
    }

    /// Reads the next element, which must have this tag.
    pub fn expect(&mut self, tag: u8) -> Result<Reader<'a>, Malformed> {
        match self.element()? {
            (found, content) if found == tag => Ok(content),
            _ => Err(Malformed),
        }
    }

    /// Reads the next element as a string. Invalid UTF-8 is replaced.
    pub fn string(&mut self) -> Result<String, Malformed> {
        Ok(String::from_utf8_lossy(self.expect(OCTET_STRING)?.bytes).into_owned())
    }

    /// Reads the next element, a number with this tag.
    pub fn number(&mut self, tag: u8) -> Result<i32, Malformed> {
        let bytes = self.expect(tag)?.bytes;
        let (first, rest) = bytes.split_first().ok_or(Malformed)?;
        if rest.len() > 3 {
            return Err(Malformed);
        }
        let start = i32::from(first.cast_signed());
        Ok(rest.iter().fold(start, |number, byte| (number << 8) | i32::from(*byte)))
    }
}

/// Returns the length of an element's header and of its content; `None` if the bytes end before that is known.
fn header(bytes: &[u8]) -> Result<Option<(usize, usize)>, Malformed> {
    let [tag, first, rest @ ..] = bytes else { return Ok(None) };
    if tag & 0x1f == 0x1f {
        return Err(Malformed);
    }
    match first {
        0..=0x7f => Ok(Some((2, usize::from(*first)))),
        0x81..=0x84 => {
            let count = usize::from(first & 0x7f);
            let Some(digits) = rest.get(..count) else { return Ok(None) };
            Ok(Some((2 + count, digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit)))))
        }
        _ => Err(Malformed),
    }
}

/// Returns the length of the element at the start of `bytes`, with its header; `None` if the bytes end before that is
/// known.
pub fn whole_length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    Ok(header(bytes)?.map(|(head, content)| head.saturating_add(content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_encoded_in_the_shortest_form() {
        let check = |number: i32, expected: &[u8]| {
            let mut writer = Writer::default();
            writer.number(INTEGER, number);
            assert_eq!(&writer.0[2..], expected, "{number}");
            assert_eq!(Reader::new(&writer.0).number(INTEGER), Ok(number));
        };
        check(0, &[0]);
        check(127, &[127]);
        check(128, &[0, 128]);
        check(-1, &[255]);
        check(-128, &[128]);
        check(-129, &[255, 127]);
        check(65_536, &[1, 0, 0]);
        check(i32::MAX, &[127, 255, 255, 255]);
        check(i32::MIN, &[128, 0, 0, 0]);
    }

    #[test]
    fn all_length_forms_are_encoded_and_decoded() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let content = vec![7; length];
            let mut writer = Writer::default();
            writer.bytes(OCTET_STRING, &content);
            assert_eq!(whole_length(&writer.0), Ok(Some(writer.0.len())));
            let mut reader = Reader::new(&writer.0);
            assert_eq!(reader.expect(OCTET_STRING).unwrap().rest(), content);
            assert!(reader.is_empty());
            for end in 0..writer.0.len().min(6) {
                let (cut, whole) = (&writer.0[..end], writer.0.len());
                assert!(whole_length(cut).unwrap().is_none_or(|length| length == whole));
                assert!(Reader::new(cut).element().is_err() || end == whole);
            }
        }
    }

    #[test]
    fn elements_are_nested_to_a_fixed_depth() {
        let mut bytes = vec![SEQUENCE, 0];
        for _ in 0..DEEPEST {
            let mut outer = Writer::default();
            outer.bytes(SEQUENCE, &bytes);
            bytes = outer.0.to_vec();
        }
        let mut reader = Reader::new(&bytes);
        for _ in 0..DEEPEST {
            reader = reader.expect(SEQUENCE).unwrap();
        }
        assert!(!reader.is_empty());
        assert!(reader.element().is_err());
    }

    #[test]
    fn encodings_that_ldap_does_not_use_are_malformed() {
        for bytes in [&[0x30, 0x80, 0, 0][..], &[0x30, 0x85, 0, 0, 0, 0, 1], &[0x1f, 1, 0], &[0x30, 0xff, 1]] {
            assert_eq!(whole_length(bytes), Err(Malformed));
        }
        assert_eq!(Reader::new(&[2, 0]).number(INTEGER), Err(Malformed));
        assert_eq!(Reader::new(&[2, 5, 0, 0, 0, 0, 1]).number(INTEGER), Err(Malformed));
    }
}
