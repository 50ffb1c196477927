//! File names in SMB: parsing the path of a request ([MS-FSCC] 2.1.5), mapping Linux names to the form that clients
//! see, comparing names, and matching search patterns.
//!
//! A path component from a client is first taken literally: its UTF-16 is converted to UTF-8. If there is no such file,
//! the directory is searched by [`fold_key`], which compares the forms that clients see. For example, `a:b` on disk is
//! shown as `a\u{F022}b` and is found by that form. If a directory contains both spellings, the literal one takes
//! precedence, as with two names that differ only in case.
//!
//! 8.3 names are disabled unless a share enables them ([`short`]), because no supported client needs them.

mod capitals;
mod characters;
mod dfs;
mod fold;
pub mod glob;
mod posix;
pub mod short;
pub mod wildcard;
mod wire;

use std::fmt;

pub use capitals::{Capitals, with_capitals};
pub use characters::CharacterMap;
pub use dfs::below_share;
pub use fold::{fold_key, fold_unit, fold_units, same};
pub use posix::{meant, parse_posix, to_wire_posix};
use proto::bytes::utf16_units;
use proto::status::Status;
pub use wire::{from_wire, to_wire};

use crate::vfs::RelPath;

/// The maximum length of a path, in UTF-16 units ([MS-FSCC] 2.1.5).
pub const MAX_PATH: usize = 32_760;

/// The maximum length of a component and of a stream name, in UTF-16 units ([MS-FSCC] 2.1.5.2, 2.1.5.3).
pub const MAX_COMPONENT: usize = 255;

/// Names that are devices on Windows in any directory: [MS-SMB2] 3.3.5.9, note 304.
const DEVICES: [&str; 23] = [
    "LPT1", "LPT2", "LPT3", "LPT4", "LPT5", "LPT6", "LPT7", "LPT8", "LPT9", "COM1", "COM2", "COM3", "COM4", "COM5",
    "COM6", "COM7", "COM8", "COM9", "PRN", "AUX", "NUL", "CON", "CLOCK$",
];

/// A parsed name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// The file's path relative to the share's root.
    pub path: RelPath,
    /// The stream of the file.
    pub stream: Stream,
    /// The name ended in a backslash, so it cannot be that of a file ([MS-FSA] 2.1.5.1, phase 1).
    pub trailing_backslash: bool,
}

/// The stream part of a name ([MS-FSCC] 2.1.5.3, 2.1.5.4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stream {
    /// No stream was named: the file or directory itself.
    Unnamed,
    /// `::$DATA`: the default data stream, which a directory does not have.
    Data,
    /// `:name` or `:name:$DATA`. Never empty, without `\`, `/`, `:` and NUL, at most 255 UTF-16 units.
    Alternate(String),
    /// `::$INDEX_ALLOCATION` or `:$I30:$INDEX_ALLOCATION`: the directory itself; not valid for a file.
    Index,
}

/// Why a name is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameError {
    /// STATUS_OBJECT_NAME_INVALID: an invalid character, length or syntax.
    Invalid,
    /// STATUS_OBJECT_PATH_SYNTAX_BAD: a `..` above the share's root.
    Syntax,
    /// STATUS_INVALID_PARAMETER: not UTF-16, a leading backslash, or an index type that directories do not have.
    Parameter,
    /// STATUS_ACCESS_DENIED: a device name.
    Device,
}

impl NameError {
    /// Returns the status for the client.
    pub fn status(self) -> Status {
        match self {
            NameError::Invalid => Status::OBJECT_NAME_INVALID,
            NameError::Syntax => Status::OBJECT_PATH_SYNTAX_BAD,
            NameError::Parameter => Status::INVALID_PARAMETER,
            NameError::Device => Status::ACCESS_DENIED,
        }
    }
}

impl From<NameError> for Status {
    fn from(error: NameError) -> Status {
        error.status()
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NameError::Invalid => "not a valid file name",
            NameError::Syntax => "the path contains a parent directory",
            NameError::Parameter => "the path is not relative to the share",
            NameError::Device => "the name is that of a device",
        })
    }
}

impl std::error::Error for NameError {}

/// Parses the path of a request, UTF-16LE `bytes` as in the message. An empty path is the root of the share.
///
/// Redundant backslashes are dropped ([MS-FSA] 2.1.5.1, phase 3). Trailing dots and spaces are part of the name,
/// because the Windows API on the client strips them, not the server. `..` removes the preceding component, whatever
/// that is ([MS-SMB2] 3.3.5.9, <303>).
// Deviates from [MS-FSCC] 2.1.5.1, which forbids clients to send either: `.`, and `..` without a preceding component,
// are refused with Samba's statuses.
pub fn parse(bytes: &[u8]) -> Result<Name, NameError> {
    parse_with(bytes, &CharacterMap::default())
}

fn parse_with(bytes: &[u8], characters: &CharacterMap) -> Result<Name, NameError> {
    let units = utf16_units(bytes).ok_or(NameError::Parameter)?;
    parse_mapped(&units, characters)
}

/// Like [`parse`], for a name that is already decoded.
pub fn parse_units(units: &[u16]) -> Result<Name, NameError> {
    parse_mapped(units, &CharacterMap::default())
}

fn parse_mapped(units: &[u16], characters: &CharacterMap) -> Result<Name, NameError> {
    if units.first().is_some_and(is_separator) {
        return Err(NameError::Parameter);
    }
    if units.len() > MAX_PATH {
        return Err(NameError::Invalid);
    }
    let mut name = Name {
        path: RelPath::root(),
        stream: Stream::Unnamed,
        trailing_backslash: units.last().is_some_and(is_separator),
    };
    let mut components = units.split(is_separator).filter(|part| !part.is_empty()).peekable();
    while let Some(component) = components.next() {
        let (file, stream) = split_stream(component, characters)?;
        if file == [b'.'; 2].map(u16::from) {
            let parent = name.path.parent().filter(|_| stream == Stream::Unnamed);
            (name.path, name.stream) = (parent.ok_or(NameError::Syntax)?, stream);
            continue;
        }
        match &stream {
            Stream::Data | Stream::Alternate(_) if components.peek().is_some() => return Err(NameError::Invalid),
            // `:stream` alone is a stream of the share's root directory.
            Stream::Unnamed => push(&mut name.path, file, characters)?,
            _ if file.is_empty() && name.path.is_root() && components.peek().is_none() => {}
            _ => push(&mut name.path, file, characters)?,
        }
        name.stream = if components.peek().is_none() { stream } else { Stream::Unnamed };
    }
    if is_device(&name.path) {
        return Err(NameError::Device);
    }
    Ok(name)
}

/// Returns whether the unit separates components.
// Deviates from [MS-FSCC] 2.1.5: a slash is a separator too, as in Samba. Linux names cannot contain one.
fn is_separator(unit: &u16) -> bool {
    matches!(u8::try_from(*unit), Ok(b'\\' | b'/'))
}

/// Appends a component, checked as a file name of [MS-FSCC] 2.1.5.2 and for Linux' limits.
fn push(path: &mut RelPath, component: &[u16], characters: &CharacterMap) -> Result<(), NameError> {
    let legal = component.iter().all(|&unit| is_legal(unit));
    // 255 UTF-16 units may need more bytes than a Linux name can have; `push` refuses those.
    if component.len() > MAX_COMPONENT || !legal || !path.push(&characters.from_wire(component)) {
        return Err(NameError::Invalid);
    }
    Ok(())
}

/// Returns whether a UTF-16 unit is allowed in a file name. A colon is not, because stream syntax was removed before.
fn is_legal(unit: u16) -> bool {
    !matches!(u8::try_from(unit), Ok(0..=0x1f | b'"' | b'*' | b'/' | b':' | b'<' | b'>' | b'?' | b'\\' | b'|'))
}

/// Splits `file:stream:type`.
fn split_stream<'a>(component: &'a [u16], characters: &CharacterMap) -> Result<(&'a [u16], Stream), NameError> {
    let mut parts = component.split(|&unit| unit == u16::from(b':'));
    let file = parts.next().unwrap_or_default();
    let Some(stream) = parts.next() else { return Ok((file, Stream::Unnamed)) };
    let kind = parts.next();
    if parts.next().is_some() || component.last() == Some(&u16::from(b':')) {
        return Err(NameError::Invalid);
    }
    let kind = kind.unwrap_or_default();
    if is_word(kind, "$INDEX_ALLOCATION") {
        let index = stream.is_empty() || is_word(stream, "$I30");
        return if index { Ok((file, Stream::Index)) } else { Err(NameError::Parameter) };
    }
    if !kind.is_empty() && !is_word(kind, "$DATA") {
        return Err(NameError::Invalid);
    }
    if stream.is_empty() {
        return Ok((file, Stream::Data));
    }
    // Streams are stored in extended attributes, whose names are UTF-8 and cannot contain a lone surrogate.
    let text = characters.mean(String::from_utf16(stream).map_err(|_| NameError::Invalid)?);
    let legal = stream.len() <= MAX_COMPONENT && !text.contains(['\0', '/']);
    if legal { Ok((file, Stream::Alternate(text))) } else { Err(NameError::Invalid) }
}

/// Returns whether `units` are the ASCII `word`, ignoring case.
fn is_word(units: &[u16], word: &str) -> bool {
    units.len() == word.len() && units.iter().zip(word.encode_utf16()).all(|(&a, b)| fold_unit(a) == fold_unit(b))
}

/// Returns whether the whole path is a device name.
fn is_device(path: &RelPath) -> bool {
    DEVICES.iter().any(|device| path.as_bytes().eq_ignore_ascii_case(device.as_bytes()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proto::bytes::utf16_bytes;

    use super::*;

    #[track_caller]
    fn check(text: &str, path: &[u8], stream: Stream) {
        let name = parse(&utf16_bytes(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((name.path.as_bytes(), name.stream), (path, stream), "{text}");
    }

    #[track_caller]
    fn refused(text: &str, error: NameError) {
        assert_eq!(parse(&utf16_bytes(text)), Err(error), "{text:?}");
    }

    #[test]
    fn paths() {
        check("", b"", Stream::Unnamed);
        check("a", b"a", Stream::Unnamed);
        check(r"a\b\c", b"a/b/c", Stream::Unnamed);
        check(r"a\\b\", b"a/b", Stream::Unnamed);
        check(r"a/b\c", b"a/b/c", Stream::Unnamed);
        check("ä\\ß €", "ä/ß €".as_bytes(), Stream::Unnamed);
        check("a.", b"a.", Stream::Unnamed);
        check("a ", b"a ", Stream::Unnamed);
        check("...", b"...", Stream::Unnamed);
        check(r"a\b\..\c", b"a/c", Stream::Unnamed);
        check(r"a\..", b"", Stream::Unnamed);
        check(r"a::$INDEX_ALLOCATION\..\b:s", b"b", Stream::Alternate("s".into()));
        check("con.txt", b"con.txt", Stream::Unnamed);
        check(r"dir\con", b"dir/con", Stream::Unnamed);
        check("x\u{10400}", "x\u{10400}".as_bytes(), Stream::Unnamed);
        assert!(parse(&utf16_bytes(r"a\")).unwrap().trailing_backslash);
        assert!(!parse(&utf16_bytes(r"a")).unwrap().trailing_backslash);
    }

    #[test]
    fn streams() {
        check("a:s", b"a", Stream::Alternate("s".into()));
        check("a:s:$data", b"a", Stream::Alternate("s".into()));
        check("a:s*?<\u{1}:$DATA", b"a", Stream::Alternate("s*?<\u{1}".into()));
        check("a::$DATA", b"a", Stream::Data);
        check(":s", b"", Stream::Alternate("s".into()));
        check("::$DATA", b"", Stream::Data);
        check("a::$INDEX_ALLOCATION", b"a", Stream::Index);
        check("a:$i30:$index_allocation", b"a", Stream::Index);
        check(r"a::$INDEX_ALLOCATION\b:s", b"a/b", Stream::Alternate("s".into()));
        check(r"a:$I30:$INDEX_ALLOCATION\b", b"a/b", Stream::Unnamed);
    }

    #[test]
    fn refusals() {
        for text in ["a*", "a?", "a\"", "a<", "a>", "a|", "a\u{1f}", "a\0", "a\tb", ".", r"a\.", r".\a"] {
            refused(text, NameError::Invalid);
        }
        for text in ["a:", "a::", "a:s:", ":", "::", "a:s:$DATA:", "a:b:c:d", "a:s:$BITMAP", r"a:s\b", r"a\:s"] {
            refused(text, NameError::Invalid);
        }
        for text in ["a:s/t", "a:s\0", r"a::$DATA\b", r"::$INDEX_ALLOCATION\b"] {
            refused(text, NameError::Invalid);
        }
        for text in ["..", r"a\..\..\b", r"..\..\etc\passwd", r"a\..\..", "..:s", r"a\..:s"] {
            refused(text, NameError::Syntax);
        }
        for text in ["\\", r"\a", r"\\a", "/a", "a:s:$INDEX_ALLOCATION"] {
            refused(text, NameError::Parameter);
        }
        for text in ["CON", "aux", "Lpt9", "clock$", "nul:s", r"com1\"] {
            refused(text, NameError::Device);
        }
        assert_eq!(parse(b"a"), Err(NameError::Parameter));
        assert_eq!(parse_units(&[u16::from(b':'), u16::from(b'a'), 0xd800]), Err(NameError::Invalid));
    }

    #[test]
    fn lengths() {
        check(&"a".repeat(255), "a".repeat(255).as_bytes(), Stream::Unnamed);
        refused(&"a".repeat(256), NameError::Invalid);
        check(&"ä".repeat(127), "ä".repeat(127).as_bytes(), Stream::Unnamed);
        refused(&"ä".repeat(128), NameError::Invalid);
        check(&format!("a:{}", "s".repeat(255)), b"a", Stream::Alternate("s".repeat(255)));
        refused(&format!("a:{}", "s".repeat(256)), NameError::Invalid);
        assert!(parse(&utf16_bytes(&"a\\".repeat(MAX_PATH / 2))).is_ok());
        refused(&"a\\".repeat(MAX_PATH / 2 + 1), NameError::Invalid);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_path_like_text_parses_into_names_inside_the_share(
            units in proptest::collection::vec(
                prop_oneof![
                    Just(0x5cu16),
                    Just(0x2e),
                    Just(0x3a),
                    Just(0x61),
                    Just(0xd800),
                    Just(0xdc00),
                    any::<u16>()
                ],
                0..24,
            ),
        ) {
            if let Ok(name) = parse_units(&units) {
                for component in name.path.components() {
                    prop_assert!(component != b".." && component != b"." && !component.contains(&b'/'));
                }
            }
        }

        #[test]
        fn shown_names_find_their_file(
            bytes in proptest::collection::vec(prop_oneof![1u8..=255, Just(b'.'), Just(b' '), Just(0xed)], 1..80),
        ) {
            let mut path = RelPath::root();
            prop_assume!(path.push(&bytes) && !is_device(&path));
            let name = parse_units(&to_wire(&bytes));
            // If the bytes are not valid UTF-8, the wire form in UTF-8 may exceed the length of a Linux name.
            if from_wire(&to_wire(&bytes)).len() <= 255 {
                let name = name.expect("a shown name is valid");
                prop_assert_eq!(name.stream, Stream::Unnamed);
                prop_assert_eq!(fold_key(name.path.name().unwrap()), fold_key(&bytes));
            }
        }
    }
}
