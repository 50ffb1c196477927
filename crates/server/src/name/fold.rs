//! Case-insensitive name comparison: maps each UTF-16 unit to one upper-case unit, as the upcase table of Windows file
//! systems does.
//!
//! The mapping is Unicode's single-character upper case with exceptions that Windows does not fold: letters whose upper
//! case maps back to another letter (dotless i, long s, the micro sign, Greek symbols), scripts that got capitals after
//! the table was made, and everything outside the BMP, because the table maps surrogates to themselves. ß has no
//! single-character capital.

use std::sync::LazyLock;

use super::wire::{from_wire, to_wire};

/// The upper case of every unit, computed once.
static UPPER: LazyLock<Box<[u16]>> = LazyLock::new(|| (0..=u16::MAX).map(upper).collect());

/// The upper case of one unit, for the table.
fn upper(unit: u16) -> u16 {
    let Some(character) = char::from_u32(unit.into()) else { return unit };
    match unit {
        // Final sigma is the only folded letter whose capital has another lower case.
        0x3c2 => return 0x3a3,
        // Greek letters with iota subscript: the simple capital is the title case form, because the full one has two
        // letters.
        0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7 => return unit + 8,
        0x1fb3 | 0x1fc3 | 0x1ff3 => return unit + 9,
        // Georgian and Cherokee.
        0x10d0..=0x10ff | 0x13f8..=0x13fd | 0xab70..=0xabbf => return unit,
        _ => {}
    }
    let mut mapped = character.to_uppercase();
    let (Some(capital), None) = (mapped.next(), mapped.next()) else { return unit };
    let leads_back = capital.to_lowercase().eq([character]);
    if leads_back { u16::try_from(u32::from(capital)).unwrap_or(unit) } else { unit }
}

/// Returns the upper case of one UTF-16 unit.
pub fn fold_unit(unit: u16) -> u16 {
    if unit < 0x80 {
        return match unit {
            0x61..=0x7a => unit - 0x20,
            _ => unit,
        };
    }
    UPPER[usize::from(unit)]
}

/// Returns the upper case of `units`.
pub fn fold_units(units: &[u16]) -> Vec<u16> {
    units.iter().map(|&unit| fold_unit(unit)).collect()
}

/// Returns the key for case-insensitive comparison of Linux names. Two names have the same key if and only if the forms
/// that clients see are equal except for case. A Windows client cannot distinguish such names.
pub fn fold_key(linux_name: &[u8]) -> Vec<u8> {
    let plain = |&byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b' ');
    if linux_name.iter().all(plain) && linux_name.last().is_none_or(|&last| last != b'.' && last != b' ') {
        return linux_name.to_ascii_uppercase();
    }
    from_wire(&fold_units(&to_wire(linux_name)))
}

/// Returns whether a Windows client cannot distinguish the two Linux names.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    a == b || fold_key(a) == fold_key(b)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn letters() {
        let cases = [
            ('a', 'A'),
            ('ä', 'Ä'),
            ('ÿ', 'Ÿ'),
            ('я', 'Я'),
            ('ς', 'Σ'),
            ('σ', 'Σ'),
            ('ａ', 'Ａ'),
            ('ᾳ', 'ᾼ'),
            ('ᾀ', 'ᾈ'),
            ('ⅷ', 'Ⅷ'),
            ('ǆ', 'Ǆ'),
        ];
        for (small, capital) in cases {
            assert_eq!(fold_unit(small as u16), capital as u16, "{small}");
            assert_eq!(fold_unit(capital as u16), capital as u16, "{capital}");
        }
        for alone in ['ß', 'ı', 'İ', 'ſ', 'µ', 'ϐ', 'ŉ', 'ǅ', 'ა', 'ﬁ', '1', '_', '\u{345}', '\u{1fbe}'] {
            assert_eq!(fold_unit(alone as u16), alone as u16, "{alone}");
        }
        assert_eq!(fold_unit(0xd801), 0xd801);
    }

    #[test]
    fn names() {
        assert!(same(b"Readme.TXT", b"README.txt"));
        assert!(same("Überß".as_bytes(), "üBERß".as_bytes()));
        assert!(!same("ß".as_bytes(), b"SS"));
        assert!(same(b"a:B", "A\u{f022}b".as_bytes()));
        assert!(same(b"a.", "A\u{f029}".as_bytes()));
        assert!(same(b"\xffa", "\u{f0ff}A".as_bytes()));
        assert!(!same(b"\xe9", "é".as_bytes()));
        assert!(!same("\u{10428}".as_bytes(), "\u{10400}".as_bytes()));
        assert!(!same("a\u{308}".as_bytes(), "ä".as_bytes()));
    }

    proptest! {
        #[test]
        fn folding_is_idempotent(bytes in proptest::collection::vec(1u8.., 0..60), unit in any::<u16>()) {
            prop_assert_eq!(fold_unit(fold_unit(unit)), fold_unit(unit));
            let key = fold_key(&bytes);
            prop_assert_eq!(fold_key(&key), key);
        }
    }
}
