//! [`CharacterMap`]: characters of names that clients see as others (`vfs objects = catia`).

use super::wire::to_wire_with;
use super::{Name, NameError, from_wire, parse_with, to_wire};

/// Pairs of characters: one in the names on the server, and the one that clients see instead. Each is one UTF-16 unit.
/// A name is converted in one pass, so the result of one pair is not the start of another.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CharacterMap {
    /// From the server's characters to those of clients, sorted.
    shown: Vec<(u16, u16)>,
    /// From the clients' characters to those of the server, sorted.
    meant: Vec<(u16, u16)>,
}

impl CharacterMap {
    /// Creates a map from pairs of a server's and a client's character. A later pair replaces an earlier one with the
    /// same character, in each direction by itself.
    pub fn new(pairs: impl IntoIterator<Item = (u16, u16)>) -> CharacterMap {
        let mut map = CharacterMap::default();
        for (server, client) in pairs {
            insert(&mut map.shown, server, client);
            insert(&mut map.meant, client, server);
        }
        map
    }

    /// Returns whether all characters are the same for clients.
    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// Returns whether a client can name files and streams with the `character`, by another one.
    pub fn yields(&self, character: char) -> bool {
        self.meant.iter().any(|&(_, server)| u32::from(server) == u32::from(character))
    }

    /// Returns the form of a Linux name that clients see, as [`to_wire`] with this map applied first.
    pub fn to_wire(&self, name: &[u8]) -> Vec<u16> {
        if self.is_empty() {
            return to_wire(name);
        }
        to_wire_with(name, |character| {
            let unit = u16::try_from(u32::from(character)).ok()?;
            char::from_u32(u32::from(find(&self.shown, unit)?))
        })
    }

    /// Returns the Linux name that a client's component means, as [`from_wire`].
    pub fn from_wire(&self, units: &[u16]) -> Vec<u8> {
        if self.is_empty() {
            return from_wire(units);
        }
        let meant: Vec<u16> = units.iter().map(|unit| find(&self.meant, *unit).unwrap_or(*unit)).collect();
        from_wire(&meant)
    }

    /// Returns the name of a stream that clients see.
    pub fn show(&self, text: &str) -> String {
        Self::convert(&self.shown, text)
    }

    /// Returns the name of a stream that a client means.
    pub(super) fn mean(&self, text: String) -> String {
        if self.is_empty() { text } else { Self::convert(&self.meant, &text) }
    }

    fn convert(map: &[(u16, u16)], text: &str) -> String {
        let convert = |character: char| {
            let unit = u16::try_from(u32::from(character)).ok()?;
            char::from_u32(u32::from(find(map, unit)?))
        };
        text.chars().map(|character| convert(character).unwrap_or(character)).collect()
    }

    /// Returns whether clients cannot name the file `name`, because the form that they see means another name.
    pub fn hides(&self, name: &[u8]) -> bool {
        let Some(text) = (!self.is_empty()).then(|| std::str::from_utf8(name).ok()).flatten() else { return false };
        self.mean(self.show(text)) != text
    }

    /// Parses the path of a request, as [`parse`](super::parse).
    ///
    /// # Errors
    /// The path is not valid, or a component is not a valid Linux name.
    pub fn parse(&self, bytes: &[u8]) -> Result<Name, NameError> {
        parse_with(bytes, self)
    }
}

fn insert(map: &mut Vec<(u16, u16)>, from: u16, to: u16) {
    match map.binary_search_by_key(&from, |pair| pair.0) {
        Ok(at) => map[at].1 = to,
        Err(at) => map.insert(at, (from, to)),
    }
}

fn find(map: &[(u16, u16)], unit: u16) -> Option<u16> {
    map.binary_search_by_key(&unit, |pair| pair.0).ok().map(|at| map[at].1)
}

#[cfg(test)]
mod tests {
    use proto::bytes::utf16_bytes;

    use super::*;
    use crate::name::Stream;

    /// The comprehensive example of Samba's manual.
    fn catia() -> CharacterMap {
        CharacterMap::new([
            (0x22, 0xa8),
            (0x2a, 0xa4),
            (0x2f, 0xf8),
            (0x3a, 0xf7),
            (0x3c, 0xab),
            (0x3e, 0xbb),
            (0x3f, 0xbf),
            (0x5c, 0xff),
            (0x7c, 0xa6),
        ])
    }

    fn shown(map: &CharacterMap, name: &str) -> String {
        String::from_utf16_lossy(&map.to_wire(name.as_bytes()))
    }

    #[test]
    fn names_are_mapped_in_both_directions() {
        let (server, client) = (r#"a\a:a*a?a"a<a>a|a"#, "a\u{ff}a\u{f7}a\u{a4}a\u{bf}a\u{a8}a\u{ab}a\u{bb}a\u{a6}a");
        assert_eq!(shown(&catia(), server), client);
        let name = catia().parse(&utf16_bytes(&format!("d\\{client}"))).expect("a valid name");
        assert_eq!(name.path.as_bytes(), format!("d/{server}").as_bytes());
        // Other characters keep their own form.
        assert_eq!(catia().to_wire("a\u{1}\u{1f600} ".as_bytes()), to_wire("a\u{1}\u{1f600} ".as_bytes()));
    }

    #[test]
    fn stream_names_are_mapped() {
        let name = catia().parse(&utf16_bytes("a:st\u{a8}s")).expect("a valid name");
        assert_eq!(name.stream, Stream::Alternate("st\"s".into()));
        assert_eq!(catia().show("st\"s"), "st\u{a8}s");
    }

    #[test]
    fn components_that_are_not_linux_names_are_refused() {
        let map = CharacterMap::new([(0x2f, 0xf8), (0x2e, 0xf7)]);
        for name in ["a\u{f8}b", "\u{f7}", "\u{f7}\u{f7}", "d\\\u{f7}\u{f7}\\x"] {
            assert_eq!(map.parse(&utf16_bytes(name)), Err(NameError::Invalid), "{name}");
        }
    }

    #[test]
    fn a_name_is_mapped_in_one_pass() {
        let swap = CharacterMap::new([(0x61, 0x62), (0x62, 0x61)]);
        assert_eq!(shown(&swap, "abc"), "bac");
        assert_eq!(swap.parse(&utf16_bytes("bac")).expect("valid").path.as_bytes(), b"abc");
        assert!(!swap.hides(b"abc"));
    }

    #[test]
    fn names_that_cannot_be_reached_are_hidden() {
        assert!(catia().hides("q\u{a8}".as_bytes()));
        assert!(!catia().hides(b"q\"") && !catia().hides(b"q") && !catia().hides(b"\xff\""));
        assert!(!CharacterMap::default().hides("q\u{a8}".as_bytes()));
    }
}
