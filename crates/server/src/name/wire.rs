//! Conversion between Linux names and the form that clients see.
//!
//! Windows does not allow every character of Linux names. Such characters are mapped to the private use area as in
//! Services for Macintosh; macOS and the `mapposix` option of the Linux client map them back. Bytes that are not valid
//! UTF-8 are mapped to U+F080..U+F0FF. A lone surrogate from a client is stored as the three bytes of its UTF-8
//! encoding (WTF-8).

/// The mapping of characters in 0x20..0x7f that Windows does not allow in any position.
const SHOWN: [(u8, u16); 8] = [
    (b'"', 0xf020),
    (b'*', 0xf021),
    (b':', 0xf022),
    (b'<', 0xf023),
    (b'>', 0xf024),
    (b'?', 0xf025),
    (b'\\', 0xf026),
    (b'|', 0xf027),
];

/// A space at the end of a name.
const LAST_SPACE: u16 = 0xf028;

/// A dot at the end of a name.
const LAST_DOT: u16 = 0xf029;

/// Returns the form of the Linux name `name` that clients see, in UTF-16. It has at most as many units as `name` has
/// bytes. For a name of at most 255 bytes without NUL and `/`, other than `.` and `..`, it is a valid Windows file
/// name.
pub fn to_wire(name: &[u8]) -> Vec<u16> {
    to_wire_with(name, |_| None)
}

/// As [`to_wire`], with characters replaced first where `replace` returns another one.
pub(super) fn to_wire_with(name: &[u8], replace: impl Fn(char) -> Option<char>) -> Vec<u16> {
    let mut units = convert(name, |character| replace(character).unwrap_or_else(|| show(character)));
    match units.last_mut() {
        Some(last @ 0x20) => *last = LAST_SPACE,
        Some(last @ 0x2e) => *last = LAST_DOT,
        _ => {}
    }
    units
}

/// Returns the byte that a client means by a character of the private use area; `None` for another character.
/// `is_last`: whether it is at the end of a name.
pub(super) fn meant_byte(unit: u16, is_last: bool) -> Option<u8> {
    match unit {
        LAST_SPACE if is_last => Some(b' '),
        LAST_DOT if is_last => Some(b'.'),
        0xf001..=0xf01f | 0xf080..=0xf0ff => Some(unit as u8),
        _ => SHOWN.iter().find(|(_, shown)| *shown == unit).map(|(byte, _)| *byte),
    }
}

/// Converts a name to UTF-16. Valid characters become what `show` returns, other bytes characters of the private use
/// area.
pub(super) fn convert(name: &[u8], show: impl Fn(char) -> char) -> Vec<u16> {
    let mut units = Vec::with_capacity(name.len());
    let mut rest = name;
    // Whether the last unit is a lone high surrogate. A lone low surrogate after it would form a pair, which is a
    // different name.
    let mut after_high = false;
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
        };
        for character in valid.chars() {
            let shown = show(character);
            units.extend_from_slice(shown.encode_utf16(&mut [0; 2]));
        }
        after_high &= valid.is_empty();
        rest = &rest[valid.len()..];
        match (surrogate(rest), rest) {
            (Some(unit), _) if !(after_high && unit >= 0xdc00) => {
                units.push(unit);
                after_high = unit < 0xdc00;
                rest = &rest[3..];
            }
            (_, &[byte, ref behind @ ..]) => {
                units.push(0xf000 | u16::from(byte));
                after_high = false;
                rest = behind;
            }
            (_, []) => {}
        }
    }
    units
}

/// Returns the replacement for `character` in a shown name, except at the end of the name.
fn show(character: char) -> char {
    let shifted = match u8::try_from(character) {
        Ok(byte @ 1..=0x1f) => Some(0xf000 | u16::from(byte)),
        Ok(byte) => SHOWN.iter().find(|(refused, _)| *refused == byte).map(|(_, shown)| *shown),
        Err(_) => None,
    };
    shifted.and_then(|unit| char::from_u32(unit.into())).unwrap_or(character)
}

/// Returns the lone surrogate at the start of `bytes`.
fn surrogate(bytes: &[u8]) -> Option<u16> {
    match bytes {
        &[0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, ..] => {
            Some(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f))
        }
        _ => None,
    }
}

/// Returns the Linux name that a client's component means literally: UTF-8, with lone surrogates as three bytes.
pub fn from_wire(units: &[u16]) -> Vec<u8> {
    let mut name = Vec::with_capacity(units.len() * 3);
    for decoded in char::decode_utf16(units.iter().copied()) {
        match decoded {
            Ok(character) => name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(lone) => {
                let [high, low] = lone.unpaired_surrogate().to_be_bytes();
                name.extend_from_slice(&[0xed, 0x80 | (high & 0xf) << 2 | low >> 6, 0x80 | low & 0x3f]);
            }
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(name: &[u8], units: &[u16]) {
        assert_eq!(to_wire(name), units, "{name:02x?}");
    }

    #[test]
    fn shown_names() {
        let utf16 = |text: &str| text.encode_utf16().collect::<Vec<_>>();
        check(b"", &[]);
        check(b"plain name.txt", &utf16("plain name.txt"));
        check("äß€\u{1f600}".as_bytes(), &utf16("äß€\u{1f600}"));
        check(b"a:b", &[0x61, 0xf022, 0x62]);
        check(br#"":*<>?\|"#, &[0xf020, 0xf022, 0xf021, 0xf023, 0xf024, 0xf025, 0xf026, 0xf027]);
        check(b"\x01\x1f\x7f", &[0xf001, 0xf01f, 0x7f]);
        check(b"a. ", &[0x61, 0x2e, 0xf028]);
        check(b"a ..", &[0x61, 0x20, 0x2e, 0xf029]);
        check(b"...", &[0x2e, 0x2e, 0xf029]);
        check(b"\xff.a", &[0xf0ff, 0x2e, 0x61]);
        check(b"caf\xe9", &[0x63, 0x61, 0x66, 0xf0e9]);
        check(b"\xe2\x82", &[0xf0e2, 0xf082]);
    }

    #[test]
    fn lone_surrogates_stay_and_never_pair_up() {
        check(b"\xed\xa0\x80", &[0xd800]);
        check(b"a\xed\xbf\xbfb", &[0x61, 0xdfff, 0x62]);
        check(b"\xed\xb0\x80\xed\xa0\x80", &[0xdc00, 0xd800]);
        check(b"\xed\xa0\x80\xed\xb0\x80", &[0xd800, 0xf0ed, 0xf0b0, 0xf080]);
        check(b"\xed\xa0\x80a\xed\xb0\x80", &[0xd800, 0x61, 0xdc00]);
        check(b"\xed\xa0", &[0xf0ed, 0xf0a0]);
    }

    proptest! {
        #[test]
        fn names_from_clients_round_trip(units in proptest::collection::vec(any::<u16>(), 0..40)) {
            let ends_plainly = !matches!(units.last(), Some(0x20 | 0x2e));
            let refused = |unit: &u16| *unit < 0x20 || SHOWN.iter().any(|(byte, _)| u16::from(*byte) == *unit);
            prop_assume!(ends_plainly && !units.iter().any(refused));
            prop_assert_eq!(to_wire(&from_wire(&units)), units);
        }

        #[test]
        fn a_shown_name_is_no_longer_than_the_name(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(to_wire(&bytes).len() <= bytes.len());
        }
    }
}
