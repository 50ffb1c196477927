//! The upper-casing that NTLMv2 requires for user names ([MS-NLMP] 3.3.2): Unicode's simple mapping from one UTF-16
//! code unit to one, as in `RtlUpcaseUnicodeString`. Characters outside the Basic Multilingual Plane and lone
//! surrogates are unchanged.

/// Returns the upper case of UTF-16LE `bytes`; a trailing odd byte is unchanged.
pub(super) fn uppercase(bytes: &[u8]) -> Vec<u8> {
    let mut upper = bytes.to_vec();
    for pair in upper.chunks_exact_mut(2) {
        let unit = uppercase_unit(u16::from_le_bytes([pair[0], pair[1]]));
        pair.copy_from_slice(&unit.to_le_bytes());
    }
    upper
}

fn uppercase_unit(unit: u16) -> u16 {
    let Some(character) = char::from_u32(u32::from(unit)) else { return unit };
    let mut full = character.to_uppercase();
    match (full.next(), full.next()) {
        (Some(upper), None) => u16::try_from(u32::from(upper)).unwrap_or(unit),
        _ => simple_of_several(unit),
    }
}

/// The simple mapping of a character whose full mapping has several characters. Usually it is the character itself, but
/// Greek letters with iota subscript have a single capital.
fn simple_of_several(unit: u16) -> u16 {
    match unit {
        0x1F80..=0x1F87 | 0x1F90..=0x1F97 | 0x1FA0..=0x1FA7 => unit + 8,
        0x1FB3 | 0x1FC3 | 0x1FF3 => unit + 9,
        _ => unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::utf16_bytes;

    #[test]
    fn one_unit_to_one_unit() {
        for (name, upper) in [
            ("user1", "USER1"),
            ("Müller", "MÜLLER"),
            ("straße", "STRAßE"),
            ("ÿ", "Ÿ"),
            ("ѐюрий", "ЀЮРИЙ"),
            ("ᾳ ᾀ ᾧ", "ᾼ ᾈ ᾯ"),
            ("ŉ ﬁ ΐ", "ŉ ﬁ ΐ"),
            ("\u{10428}", "\u{10428}"),
            ("名前", "名前"),
        ] {
            assert_eq!(uppercase(&utf16_bytes(name)), utf16_bytes(upper), "{name}");
        }
        assert_eq!(uppercase(&[0x61, 0xd8, b'a', 0, b'b']), [0x61, 0xd8, b'A', 0, b'b']);
    }
}
