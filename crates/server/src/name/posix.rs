//! Names of clients with the POSIX extensions of SMB 3.1.1. All characters of Linux names are legal in them, except
//! that a backslash separates components. They have no streams, no device names and no short names.
//!
//! Kernels that do not know that replace the characters that Windows forbids by those of Services for Macintosh
//! (`mapposix`). Such a name is first taken literally, and then as the one that it replaces.

use proto::bytes::utf16_units;

use super::wire::{convert, meant_byte};
use super::{MAX_COMPONENT, MAX_PATH, Name, NameError, Stream, from_wire, is_separator};
use crate::vfs::RelPath;

/// Parses the path of a POSIX open, UTF-16LE `bytes` as in the message. An empty path is the root of the share.
///
/// # Errors
/// The path is not valid. `.` and `..` are refused, because what precedes them may be a symbolic link.
pub fn parse_posix(bytes: &[u8]) -> Result<Name, NameError> {
    let units = utf16_units(bytes).ok_or(NameError::Parameter)?;
    if units.first().is_some_and(is_separator) {
        return Err(NameError::Parameter);
    }
    if units.len() > MAX_PATH {
        return Err(NameError::Invalid);
    }
    let trailing_backslash = units.last().is_some_and(is_separator);
    let mut path = RelPath::root();
    for component in units.split(is_separator).filter(|part| !part.is_empty()) {
        if component == [b'.'; 2].map(u16::from) {
            return Err(NameError::Syntax);
        }
        if component.len() > MAX_COMPONENT || !path.push(&from_wire(component)) {
            return Err(NameError::Invalid);
        }
    }
    Ok(Name { path, stream: Stream::Unnamed, trailing_backslash })
}

/// Returns the path that a client means which replaces characters; `None` if it is the literal one.
pub fn meant(path: &RelPath) -> Option<RelPath> {
    // U+F000 to U+F0FF begin with these bytes in UTF-8.
    if !path.as_bytes().windows(2).any(|pair| matches!(pair, [0xef, 0x80..=0x83])) {
        return None;
    }
    let mut changed = RelPath::root();
    for component in path.components() {
        let mut name = Vec::with_capacity(component.len());
        let mut rest = component;
        while let [first, behind @ ..] = rest {
            let replaced = match rest {
                &[0xef, second @ 0x80..=0x83, third @ 0x80..=0xbf, ref after @ ..] => {
                    let unit = 0xf000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f);
                    meant_byte(unit, after.is_empty()).map(|byte| (byte, after))
                }
                _ => None,
            };
            let (byte, after) = replaced.unwrap_or((*first, behind));
            name.push(byte);
            rest = after;
        }
        if !changed.push(&name) {
            return None;
        }
    }
    (changed != *path).then_some(changed)
}

/// Returns the form of a Linux name that such clients see, in UTF-16: the name itself, except that a backslash and
/// bytes that are not UTF-8 are replaced as for other clients.
pub fn to_wire_posix(name: &[u8]) -> Vec<u16> {
    convert(name, |character| if character == '\\' { '\u{f026}' } else { character })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proto::bytes::utf16_bytes;

    use super::*;
    use crate::name::to_wire;

    #[track_caller]
    fn parsed(text: &str) -> RelPath {
        let name = parse_posix(&utf16_bytes(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(name.stream, Stream::Unnamed);
        name.path
    }

    #[test]
    fn names_that_windows_forbids() {
        for name in ["a:b", "a:b:c", ":", "a*?\"<>|", "a.", "a ", "...", " ", "con", "aux.txt", "\u{1}\t\u{1f}"] {
            assert_eq!(parsed(name).as_bytes(), name.as_bytes(), "{name}");
        }
        assert_eq!(parsed(r"d:\e?\f").as_bytes(), b"d:/e?/f");
        assert_eq!(parsed(r"a\\b\").as_bytes(), b"a/b");
        assert!(parsed("").is_root());
    }

    #[test]
    fn refusals() {
        for (name, error) in [
            ("..", NameError::Syntax),
            (r"a\..\b", NameError::Syntax),
            (".", NameError::Invalid),
            (r"a\.\b", NameError::Invalid),
            ("a\0", NameError::Invalid),
            (r"\a", NameError::Parameter),
            ("/a", NameError::Parameter),
        ] {
            assert_eq!(parse_posix(&utf16_bytes(name)), Err(error), "{name}");
        }
        assert_eq!(parse_posix(b"a"), Err(NameError::Parameter));
        assert!(parse_posix(&utf16_bytes(&"a".repeat(256))).is_err());
        assert!(parse_posix(&utf16_bytes(&"a\\".repeat(MAX_PATH / 2 + 1))).is_err());
    }

    #[test]
    fn replaced_characters_are_understood() {
        for (sent, expected) in [
            ("a\u{f022}b", Some(&b"a:b"[..])),
            ("\u{f020}\u{f021}\u{f023}\u{f024}\u{f025}\u{f027}", Some(b"\"*<>?|")),
            ("a\u{f026}b", Some(br"a\b")),
            ("a\u{f029}", Some(b"a.")),
            ("a\u{f028}", Some(b"a ")),
            ("a\u{f001}", Some(b"a\x01")),
            ("a\u{f0ff}", Some(b"a\xff")),
            ("a\u{f028}b", None),
            ("a:b", None),
            ("a\u{f02f}", None),
            ("\u{f02a}\u{ff0f}", None),
        ] {
            let meant = meant(&parsed(sent));
            assert_eq!(meant.as_ref().map(RelPath::as_bytes), expected, "{sent}");
        }
    }

    #[test]
    fn a_replaced_name_is_never_a_special_one() {
        for sent in ["\u{f029}", ".\u{f029}"] {
            assert_eq!(meant(&parsed(sent)), None, "{sent}");
        }
    }

    #[test]
    fn shown_names() {
        let shown = |name: &[u8]| String::from_utf16_lossy(&to_wire_posix(name));
        assert_eq!(shown(b"a:b*?\"<>|. "), "a:b*?\"<>|. ");
        assert_eq!(shown(br"a\b"), "a\u{f026}b");
        assert_eq!(shown(b"caf\xe9"), "caf\u{f0e9}");
    }

    proptest! {
        #[test]
        fn shown_names_find_their_file(bytes in proptest::collection::vec(1u8..=255, 1..80)) {
            let mut path = RelPath::root();
            prop_assume!(path.push(&bytes));
            for form in [to_wire_posix(&bytes), to_wire(&bytes)] {
                let sent: Vec<u8> = form.iter().flat_map(|unit| unit.to_le_bytes()).collect();
                if let Ok(name) = parse_posix(&sent) {
                    let found = name.path == path || meant(&name.path).as_ref() == Some(&path);
                    // A name that has characters of both kinds is not found.
                    prop_assert!(found || bytes.windows(2).any(|pair| matches!(pair, [0xef, 0x80..=0x83])));
                }
            }
        }

        #[test]
        fn any_bytes_parse_into_names_inside_the_share(
            bytes in proptest::collection::vec(prop_oneof![Just(0x5cu8), Just(0x2e), Just(0), any::<u8>()], 0..80),
        ) {
            if let Ok(name) = parse_posix(&bytes) {
                for path in meant(&name.path).into_iter().chain([name.path]) {
                    for component in path.components() {
                        prop_assert!(component != b".." && component != b"." && !component.contains(&b'/'));
                    }
                }
            }
        }
    }
}
