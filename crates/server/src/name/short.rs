//! 8.3 names ([MS-FSCC] 2.1.5.2.1) for shares with `mangled names = yes`, for DOS programs.
//!
//! Nothing is stored: the short name of a file is computed from its name, and found by computing those of all entries
//! of the directory. If two names in a directory have the same short name, it refers to the first of the two. With 60
//! million possible hashes this is rare.

use super::fold_key;

/// The character between the hash and the last character of a mangled name.
const MARK: u8 = b'~';
/// Characters before the mark in a mangled name: one of the name itself, and the hash.
const HASH_DIGITS: usize = 5;
const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Returns whether a name already has the 8.3 form and is its own short name.
pub fn is_short(name: &[u8]) -> bool {
    let legal = |part: &[u8]| part.iter().all(|&byte| is_legal(byte));
    let mut parts = name.split(|&byte| byte == b'.');
    let (base, extension) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let lengths = (1..=8).contains(&base.len()) && extension.len() <= 3 && parts.next().is_none();
    lengths && legal(base) && legal(extension) && name.last() != Some(&b'.')
}

/// Returns whether [`mangle`] may have produced the name.
pub fn may_be_mangled(name: &[u8]) -> bool {
    is_short(name) && name.get(HASH_DIGITS + 1) == Some(&MARK)
}

/// Returns the short name of a name without the 8.3 form. Names that differ only in case have the same one.
pub fn mangle(name: &[u8]) -> String {
    let (base, extension) = match name.iter().rposition(|&byte| byte == b'.') {
        Some(dot) if dot > 0 => (&name[..dot], &name[dot + 1..]),
        _ => (name, &name[..0]),
    };
    let legal = |part: &[u8]| -> Vec<u8> {
        part.iter().filter(|&&byte| is_legal(byte)).map(u8::to_ascii_uppercase).take(3).collect()
    };
    let mut short = vec![legal(base).first().copied().unwrap_or(b'_')];
    let mut hash = hash(name);
    for at in 0..=HASH_DIGITS {
        if at == HASH_DIGITS {
            short.push(MARK);
        }
        short.push(DIGITS[(hash % 36) as usize]);
        hash /= 36;
    }
    let extension = legal(extension);
    if !extension.is_empty() {
        short.push(b'.');
        short.extend(extension);
    }
    short.into_iter().map(char::from).collect()
}

fn is_legal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'()-@^_`{}~".contains(&byte)
}

/// Returns the FNV-1a hash of the case-folded name.
fn hash(name: &[u8]) -> u64 {
    fold_key(name)
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_are_short_already() {
        for name in ["A", "bufsize.txt", "12345678.123", "~", "a-b"] {
            assert!(is_short(name.as_bytes()), "{name}");
        }
        for name in ["", ".", "..", ".a", "123456789", "a.1234", "a.b.c", "a b", "a+b", "a.", "ä"] {
            assert!(!is_short(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_mangled_name_keeps_its_first_character_and_extension() {
        let short = mangle(b"testsmb2_file.data");
        assert!(short.starts_with('T') && short.ends_with(".DAT"), "{short}");
        assert_eq!(short, mangle(b"TestSMB2_file.data"));
        assert_ne!(short, mangle(b"testsmb2_fils.data"));
    }

    proptest! {
        #[test]
        fn mangled_names_are_short(name in proptest::collection::vec(1u8..=255, 1..80)) {
            prop_assert!(may_be_mangled(mangle(&name).as_bytes()));
        }
    }
}
